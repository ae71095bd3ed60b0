"""The computing half: what is trained, from which version, in which order things are told. With a fake executor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

from afbs.algorithms.afbs import AFBS
from afbs.algorithms.fedbuff import FedBuff
from afbs.algorithms.feddyn import FedDyn
from afbs.engine.plan import plan
from afbs.engine.run import Run
from afbs.interfaces import Algorithm, Executor
from afbs.latency.always import Always
from afbs.latency.uniform import Uniform
from afbs.record.checkpoint import Checkpoint
from afbs.transports.simulated import Simulated
from afbs.types import (
    ClientInfo,
    Decided,
    Dispatched,
    Evaluated,
    Event,
    Job,
    Score,
    Stopped,
    Trained,
    Training,
    Update,
    UserError,
    Vector,
)

CLIENTS = [ClientInfo(i, 5 + 7 * (i % 4), i % 2) for i in range(10)]
HORIZON = 400.0


class Fake(Executor):
    """Takes the gradient of a parabola: every client pulls to its own number. Finishes tasks in an odd order."""

    workers = 2

    def __init__(self, depth: int = 4, last_first: bool = False, spoilt: Sequence[int] = ()):
        self.depth, self.last_first, self.spoilt = depth, last_first, spoilt
        self.slots: dict[int, Vector] = {}
        self.blocks: dict[int, int] = {}
        self.tasks: list[Any] = []
        self.jobs: list[tuple[int, int, float]] = []
        self.most_under_way = 0
        self.numbers = 0

    def initial(self) -> Vector:
        return np.zeros(3, np.float32)

    def publish(self, vector: Vector) -> int:
        self.numbers += 1
        self.slots[self.numbers] = vector.copy()
        return self.numbers

    def read(self, slot: int) -> Vector:
        return self.slots[slot]

    def retire(self, slot: int) -> None:
        del self.slots[slot]

    def block(self, rows: int) -> tuple[int, Any]:
        matrix = np.full((rows, 3), np.nan, np.float32)
        first = self.numbers + 1
        self.numbers += rows
        self.slots.update({first + row: matrix[row] for row in range(rows)})
        self.blocks[first] = rows
        return first, matrix

    def release(self, first: int) -> None:
        for row in range(self.blocks.pop(first)):
            del self.slots[first + row]

    def train(self, task: int, job: Job, base: int, out: int, state: tuple[int, int] | None = None) -> None:
        start = self.slots[base]

        def work() -> Trained:
            self.jobs.append((job.client, job.occurrence, job.lr))
            self.slots[out][:] = job.lr * (start - job.client)
            if state is not None:
                self.slots[state[1]][:] = self.slots[state[0]] + 1
            return Trained(task, job.client not in self.spoilt, steps=2, samples=10, seconds=0.5)

        self._add(work)

    def evaluate(self, task: int, base: int, part: int) -> None:
        value = float(self.slots[base][0])
        self._add(lambda: Evaluated(task, np.array([[part + 1, 0], [1, 2]]), value, 0.25))

    @property
    def peak_bytes(self) -> int:
        return 0

    def _add(self, work: Any) -> None:
        self.tasks.append(work)
        self.most_under_way = max(self.most_under_way, len(self.tasks))

    def collect(self) -> list[Trained | Evaluated]:
        return [self.tasks.pop(-1 if self.last_first else 0)()] if self.tasks else []

    def close(self) -> None: ...


class Applied(NamedTuple):
    time: float
    decided: Decided
    rejected: tuple[Update, ...]


class Scored(NamedTuple):
    time: float
    version: int
    accuracy: float
    loss: float


@dataclass
class Heard:
    """Everything a listener was told, in order."""

    said: list[Any]
    checkpoints: list[Checkpoint]
    stop_at: int = 10**9

    def event(self, event: Event, rejected: Sequence[Any] = ()) -> None:
        self.said.append(Applied(event.time, event, tuple(rejected)) if isinstance(event, Decided) else event)

    def evaluated(self, time: float, version: int, score: Score) -> None:
        self.said.append(Scored(time, version, score.accuracy, score.loss))

    def checkpoint(self, checkpoint: Checkpoint) -> None:
        self.checkpoints.append(checkpoint)
        self.said.append(checkpoint.version)

    def progress(self, time: float, version: int, trained: int) -> None:
        if version >= self.stop_at:
            raise KeyboardInterrupt

    @property
    def events(self) -> list[Any]:
        return [item for item in self.said if not isinstance(item, int)]


def events(algorithm: Algorithm[Any]) -> Iterator[Event]:
    transport = Simulated(CLIENTS, Uniform(1, 60, "job"), Always(), seed=3)
    return plan(algorithm, CLIENTS, transport, in_flight=6, horizon=HORIZON, seed=3)


def engine(algorithm: Algorithm[Any], executor: Executor, heard: Heard, **settings: Any) -> Run:
    chosen = {"grid": [0.0, 100.0, 200.0, HORIZON], "checkpoint_seconds": 1e9, **settings}
    return Run(algorithm, executor, Training(lr=0.1, lr_decay=0.9), heard, **chosen)


def completed(algorithm: Algorithm[Any], executor: Fake | None = None, **settings: Any) -> tuple[Run, Fake, Heard]:
    executor, heard = executor or Fake(), Heard([], [])
    run = engine(algorithm, executor, heard, **settings)
    run.go(events(algorithm))
    return run, executor, heard


def test_a_dropped_update_is_never_trained() -> None:
    algorithm = AFBS(buffer_size=4, survival="none")
    run, executor, _ = completed(algorithm)
    steps = [event.step for event in events(algorithm) if isinstance(event, Decided)]
    used = {(update.client, update.order.occurrence) for step in steps for update in step.used}
    dropped = {(update.client, update.order.occurrence) for step in steps for update in step.dropped}
    assert dropped
    assert {(client, occurrence) for client, occurrence, _ in executor.jobs} == used
    assert run.counts.trained == run.counts.used == len(executor.jobs) == len(used)
    assert run.counts.dropped == len(dropped)


def test_where_clients_remember_every_arrival_is_trained() -> None:
    run, executor, _ = completed(FedDyn())
    assert run.counts.trained == len(executor.jobs) == run.counts.used + run.counts.dropped


def test_the_model_is_what_a_simple_loop_makes_of_the_same_plan() -> None:
    algorithm = FedBuff(buffer_size=3)
    models = [np.zeros(3)]
    for event in events(algorithm):
        if isinstance(event, Decided):
            change = np.zeros(3)
            for update, weight in zip(event.step.used, event.step.weights, strict=True):
                rate = 0.1 * 0.9**update.base_version
                change += weight * rate * (models[update.base_version] - update.client)
            models.append(models[-1] - change)
    run, _, _ = completed(algorithm)
    assert run.version == len(models) - 1 > 10
    np.testing.assert_allclose(run.params, models[-1], rtol=1e-5)


def test_the_order_in_which_workers_finish_changes_nothing() -> None:
    first, _, told = completed(AFBS(buffer_size=3))
    for executor in (Fake(depth=1), Fake(depth=16), Fake(depth=16, last_first=True)):
        other, _, heard = completed(AFBS(buffer_size=3), executor)
        assert other.params.tobytes() == first.params.tobytes()
        assert heard.events == told.events


def test_no_more_is_handed_out_than_workers_can_hold() -> None:
    _, executor, _ = completed(FedBuff(buffer_size=3), Fake(depth=3))
    assert executor.most_under_way == 3


def test_everything_is_told_in_the_order_of_virtual_time() -> None:
    _, _, heard = completed(AFBS(buffer_size=3))
    times = [item.time for item in heard.said]
    assert times == sorted(times)
    assert isinstance(heard.said[-1], Stopped)
    planned = [event for event in events(AFBS(buffer_size=3)) if isinstance(event, Dispatched)]
    assert [item for item in heard.said if isinstance(item, Dispatched)] == planned


def test_the_grid_sees_the_version_of_its_moment() -> None:
    algorithm = FedBuff(buffer_size=3)
    _, _, heard = completed(algorithm)
    found = [(item.time, item.version) for item in heard.said if isinstance(item, Scored)]
    steps = [event for event in events(algorithm) if isinstance(event, Decided)]
    expected = [(moment, sum(step.time <= moment for step in steps)) for moment in (0.0, 100.0, 200.0, HORIZON)]
    assert found == expected


def test_parts_of_an_evaluation_make_one_score() -> None:
    run, _, heard = completed(FedBuff(buffer_size=3), evaluation_parts=2, grid=[0.0])
    assert [item for item in heard.said if isinstance(item, Scored)] == [Scored(0.0, 0, (1 + 2 + 2 * 2) / 9, 0.0)]
    assert run.counts.evaluations == 1


def test_every_so_many_versions_are_evaluated_only_if_asked() -> None:
    run, _, heard = completed(FedBuff(buffer_size=3), grid=[], every=5)
    versions = [item.version for item in heard.said if isinstance(item, Scored)]
    assert versions == list(range(5, run.version + 1, 5))


def test_an_update_that_is_not_finite_counts_for_nothing_and_the_others_are_weighed_anew() -> None:
    algorithm = FedBuff(buffer_size=3)
    run, _, heard = completed(algorithm, Fake(spoilt=[2]))
    steps = [item for item in heard.said if isinstance(item, Applied)]
    rejected = [update for item in steps for update in item.rejected]
    assert {update.client for update in rejected} == {2}
    assert run.counts.rejected == len(rejected) > 0
    for _, decided, out in steps:
        assert 2 not in [update.client for update in decided.step.used]
        assert len(decided.step.used) + len(out) == 3
        assert decided.step.weights == (algorithm.weigh(decided.step.used) if decided.step.used else ())
    assert np.isfinite(run.params).all()


def test_nothing_stays_behind_when_a_run_has_ended() -> None:
    _, executor, _ = completed(AFBS(buffer_size=3))
    # The newest version, and those that jobs under way at the horizon started from.
    assert len(executor.slots) <= 7
    assert not executor.blocks
    assert not executor.tasks


@pytest.mark.parametrize("algorithm", [AFBS(buffer_size=3), FedBuff(buffer_size=3), FedDyn()])
def test_a_run_taken_up_from_any_checkpoint_ends_the_same(algorithm: Algorithm[Any]) -> None:
    whole, _, told = completed(algorithm, checkpoint_seconds=-1.0)
    plain, _, _ = completed(algorithm)
    assert plain.params.tobytes() == whole.params.tobytes()
    for checkpoint in told.checkpoints:
        heard = Heard([], [])
        run = engine(algorithm, Fake(), heard)
        run.go(events(algorithm), checkpoint)
        assert run.params.tobytes() == whole.params.tobytes()
        place = told.said.index(checkpoint.version)
        assert heard.events == [item for item in told.said[place:] if not isinstance(item, int)]
        for counted in ("arrived", "used", "dropped", "trained", "steps", "evaluations"):
            assert getattr(run.counts, counted) == getattr(plain.counts, counted)


def test_a_run_that_is_told_to_stop_can_be_saved_and_taken_up() -> None:
    algorithm = AFBS(buffer_size=3)
    whole, _, told = completed(algorithm)
    heard = Heard([], [], stop_at=4)
    run = engine(algorithm, Fake(depth=8), heard)
    with pytest.raises(KeyboardInterrupt):
        run.go(events(algorithm))
    run.settle()
    run.save()
    later = Heard([], [])
    taken_up = engine(algorithm, Fake(), later)
    taken_up.go(events(algorithm), heard.checkpoints[-1])
    assert taken_up.params.tobytes() == whole.params.tobytes()
    assert heard.events + later.events == told.events


def test_the_flag_of_a_signal_handler_stops_a_run_between_two_turns() -> None:
    run = engine(FedBuff(buffer_size=3), Fake(), Heard([], []))
    run.stopping = True
    with pytest.raises(KeyboardInterrupt):
        run.go(events(FedBuff(buffer_size=3)))
    assert run.version == 0


def test_a_checkpoint_of_another_model_or_a_longer_run_is_refused() -> None:
    algorithm = FedBuff(buffer_size=3)
    for checkpoint in (
        Checkpoint(1, np.zeros(4, np.float32), {}, {}, {}, {}),
        Checkpoint(10_000, np.zeros(3, np.float32), {}, {}, {}, {}),
    ):
        with pytest.raises(UserError, match="configuration was changed"):
            engine(algorithm, Fake(), Heard([], [])).go(events(algorithm), checkpoint)
