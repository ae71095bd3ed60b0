"""A node's side: says who it is, trains what it is told, and keeps what it trained until it may let it go.

Every message may come to a new process, so whatever must last is on the shelf before an answer leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from time import perf_counter
from typing import Any, Protocol, final

import numpy as np
from flwr.app import RecordDict
from numpy.typing import NDArray

from afbs.interfaces import LabelMechanism
from afbs.privacy.halves import TwoHalves
from afbs.privacy.keys import Secrets
from afbs.privacy.messages import RefusedError, packed, unpacked
from afbs.transports.flower import messages
from afbs.transports.flower.messages import Done, Here
from afbs.transports.flower.shelf import Shelf
from afbs.types import ClientId, Order, Shipped, UserError, Vector


class Work(Protocol):
    """Trains one order from `base`; what is shipped goes to `out`, what the client then remembers to `new_state`."""

    def __call__(
        self, order: Order, base: Vector, out: Vector, state: Vector | None, new_state: Vector | None
    ) -> Shipped: ...


@final
@dataclass(frozen=True)
class Node:
    """One client. `counts` gives its label counts, `work` what trains it, and `test` how many samples it holds out and
    how a model does on them, where there are so many classes."""

    client: ClientId
    task: str
    shelf: Shelf
    examples: Callable[[], int]
    counts: Callable[[int], NDArray[np.int64]]
    work: Callable[[int], Work]
    test: Callable[[int, Vector], tuple[int, Mapping[str, float]]]
    stateful: bool = False
    mechanism: LabelMechanism | None = None

    def hello(self, content: RecordDict) -> RecordDict:
        question = messages.hello_of(content)
        held = self.shelf.held(question.experiment)
        return messages.here(Here(self.client, self.shelf.token, self.examples(), self.task, held))

    def train(self, content: RecordDict) -> RecordDict:
        """An order that waits on the shelf is not trained again: a server that was killed could not be sure of it."""
        job = messages.job_of(content)
        order = job.order
        if order.client != self.client:
            raise messages.BadMessageError(f"an order for client {order.client} came to client {self.client}")
        self.shelf.let_go(job.experiment, job.let_go)
        kept = self.shelf.get(job.experiment, order.sequence)
        if kept is None:
            vector, facts = self._trained(job, messages.vector_of(content, None))
            self.shelf.put(job.experiment, order.sequence, vector, facts, (job.hold_bytes, job.hold_seconds))
        else:
            vector, facts = kept
        steps, samples, seconds = int(facts["steps"]), int(facts["samples"]), float(facts["seconds"])
        answer = Done(order.sequence, vector.nbytes, steps, samples, seconds, facts.get("told", {}))
        return messages.done(answer, vector if job.upload else None)

    def _trained(self, job: messages.Job, base: Vector) -> tuple[Vector, dict[str, Any]]:
        began = perf_counter()
        out = np.empty_like(base)
        state = new_state = None
        if self.stateful:
            state, new_state = self.shelf.state(job.experiment, job.state_of, len(base)), np.empty_like(base)
        shipped = self.work(job.classes)(job.order, base.copy(), out, state, new_state)
        if new_state is not None:
            self.shelf.put_state(job.experiment, job.order.sequence, new_state)
        facts = {"steps": shipped.steps, "samples": shipped.samples, "seconds": perf_counter() - began}
        return out, {**facts, "told": dict(shipped.told)}

    def fetch(self, content: RecordDict) -> RecordDict:
        experiment, order = messages.fetch_of(content)
        kept = self.shelf.get(experiment, order)
        if kept is None:
            return messages.done(Done(order, 0, 0, 0, 0.0), None)
        return messages.done(Done(order, kept[0].nbytes, 0, 0, 0.0), kept[0])

    def tested(self, content: RecordDict) -> RecordDict:
        classes = messages.test_of(content)
        return messages.tested(*self.test(classes, messages.vector_of(content, None)))

    def label(self, content: RecordDict) -> RecordDict:
        """What the half promised is on disk before its answer leaves."""
        experiment, classes, question = messages.label_of(content)
        mechanism = self.mechanism
        if not isinstance(mechanism, TwoHalves):
            return messages.labelled(b"", "it was not set up to say anything of its labels")
        purpose = f"{mechanism.name}-{sha256(repr(mechanism).encode()).hexdigest()[:16]}"
        if not mechanism.repeats:
            purpose = f"{purpose}-{experiment}"
        try:
            asked = unpacked(question)
            secrets = Secrets(self.shelf.own_secret(purpose), mechanism.shared_secret())
            half = mechanism.client(self.client, self.counts(classes), secrets, self.shelf.remembered(purpose))
            answer = half.answer(asked)
        except RefusedError as refusal:
            return messages.labelled(b"", str(refusal))
        except UserError as error:
            return messages.labelled(b"", str(error))
        self.shelf.remember(purpose, half.remembered())
        return messages.labelled(packed(answer))
