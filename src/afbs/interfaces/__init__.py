"""What the parts ask of each other. An algorithm has two halves that must not blur.

*Deciding* (`init`, `dispatch`, `receive`, `lost`, `wake`, `woken`, `stalled`, `joined`, `weigh`) sees metadata and
returns new state. *Computing* (`begin`, `apply`, `look`) sees vectors. Both halves are pure: arguments are never
changed, and every draw comes from the key that is handed in. Because deciding needs no vector, the engine can run it
ahead in virtual time, and what it drops is never trained.
"""

from afbs.interfaces.algorithm import Algorithm, LocalRule, Plain, Pool
from afbs.interfaces.data import Partition, Source
from afbs.interfaces.executor import Executor, Session, Store, WorkerPool
from afbs.interfaces.fleet import Brief, Fleet
from afbs.interfaces.labels import LabelMechanism
from afbs.interfaces.simulation import Availability, Latency
from afbs.interfaces.task import Task
from afbs.interfaces.transport import Connection, Scene, Transport

__all__ = [
    "Algorithm",
    "Availability",
    "Brief",
    "Connection",
    "Executor",
    "Fleet",
    "LabelMechanism",
    "Latency",
    "LocalRule",
    "Partition",
    "Plain",
    "Pool",
    "Scene",
    "Session",
    "Source",
    "Store",
    "Task",
    "Transport",
    "WorkerPool",
]
