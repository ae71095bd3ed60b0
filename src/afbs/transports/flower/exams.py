"""What clients find on the samples they hold out. Everybody who can be reached is asked, and nobody waits for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, final

import numpy as np
from flwr.app import RecordDict

from afbs.transports.flower import messages
from afbs.transports.flower.wire import Failure, Heard
from afbs.types import ClientId, Evaluated, Vector

if TYPE_CHECKING:
    from afbs.transports.flower.fleet import FlowerFleet


@dataclass
class _Exam:
    """One version, and what is known of it. `absent` counts those who cannot be, or have not been, heard."""

    task: int
    absent: int
    missing: set[ClientId]
    found: dict[ClientId, Mapping[str, float]] = field(default_factory=dict)


@final
class Exams:
    """`done` is told of each test once everybody has answered, or the time for it is over."""

    def __init__(self, fleet: FlowerFleet, done: Callable[[Evaluated], None]):
        self._fleet = fleet
        self._done = done
        self._owing: set[ClientId] = set()
        """Those who let their time pass are not asked again until they answer: they would only have more to do."""
        self.open = 0

    def begin(self, task: int, model: Vector) -> None:
        fleet = self._fleet
        asked = [client for client in sorted(fleet.attendance.here()) if client not in self._owing]
        exam = _Exam(task, len(fleet.roster.members) - len(asked), set(asked))
        content = messages.packed(model)
        self.open += 1
        for client in asked:
            self._ask(exam, client, messages.test(fleet.roster.experiment, fleet.brief.classes, content))
        self._close(exam)

    def _ask(self, exam: _Exam, client: ClientId, question: RecordDict) -> None:
        fleet = self._fleet
        fleet.orders.moved.sent += 4 * fleet.brief.size
        fleet.wire.ask(
            fleet.roster.node_of[client],
            messages.TEST,
            question,
            fleet.settings.test_seconds,
            lambda answer: self._heard(exam, client, answer),
            lambda answer: self._owing.discard(client),
        )

    def _heard(self, exam: _Exam, client: ClientId, answer: Heard) -> None:
        exam.missing.discard(client)
        if isinstance(answer, Failure) and answer.silent:
            self._owing.add(client)
        why = self._take(exam, client, answer)
        if why:
            exam.absent += 1
            self._fleet.note(f"it was not tested: {why}", client=client)
        self._close(exam)

    def _take(self, exam: _Exam, client: ClientId, answer: Heard) -> str:
        """Why it cannot count; empty if it can."""
        if isinstance(answer, Failure):
            if answer.gone:
                self._fleet.attendance.gone(client)
            return answer.why
        try:
            found = messages.tested_of(answer, self._fleet.brief.metrics)
        except messages.BadMessageError as error:
            return f"a bad answer: {error}"
        if found is not None:
            exam.found[client] = found
        return ""

    def _close(self, exam: _Exam) -> None:
        if exam.missing:
            return
        self.open -= 1
        found = [exam.found[client] for client in sorted(exam.found)]
        values = {name: np.array([each[name] for each in found], np.float64) for name in self._fleet.brief.metrics}
        self._done(Evaluated(exam.task, {**values, "absent": exam.absent}, 0.0))
