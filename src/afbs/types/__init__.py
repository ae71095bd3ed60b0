"""The values that travel between the parts. They hold facts and decide nothing."""

from afbs.types.data import Dataset, Grouping, Split
from afbs.types.errors import RunError, UserError
from afbs.types.events import (
    Arrived,
    Decided,
    Dispatched,
    Event,
    Instant,
    Joined,
    Left,
    Looked,
    Lost,
    Returned,
    Stopped,
    Waiting,
    Woken,
)
from afbs.types.numbers import ClientId, Facts, Matrix, Memory, Tallies, Vector
from afbs.types.orders import Ask, ClientInfo, Order, Step, Update
from afbs.types.training import ModelChoice, Training
from afbs.types.work import Assignment, Evaluate, Evaluated, Fetch, Score, Shipped, Train

__all__ = [
    "Arrived",
    "Ask",
    "Assignment",
    "ClientId",
    "ClientInfo",
    "Dataset",
    "Decided",
    "Dispatched",
    "Evaluate",
    "Evaluated",
    "Event",
    "Facts",
    "Fetch",
    "Grouping",
    "Instant",
    "Joined",
    "Left",
    "Looked",
    "Lost",
    "Matrix",
    "Memory",
    "ModelChoice",
    "Order",
    "Returned",
    "RunError",
    "Score",
    "Shipped",
    "Split",
    "Step",
    "Stopped",
    "Tallies",
    "Train",
    "Training",
    "Update",
    "UserError",
    "Vector",
    "Waiting",
    "Woken",
]
