"""The computing half: what is trained, from which version, in which order things are told. With a fake executor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

from afbs.algorithms.afbs import AFBS
from afbs.algorithms.fedbuff import FedBuff
from afbs.algorithms.feddyn import FedDyn
from afbs.engine.evaluations import Subject, Timetable
from afbs.engine.run import Run
from afbs.engine.witness import DifferentlyDecidedError, Witness
from afbs.executors._local import LocalSession
from afbs.executors._rows import Rows
from afbs.executors._states import States
from afbs.interfaces import Algorithm
from afbs.latency.always import Always
from afbs.latency.uniform import Uniform
from afbs.record.checkpoint import Checkpoint
from afbs.record.lines import line_of, step_line
from afbs.seeds import Key
from afbs.tasks import on_test_set
from afbs.tasks.classification import Classification
from afbs.transports.simulated import VirtualTime
from afbs.types import (
    Arrived,
    Assignment,
    ClientInfo,
    Decided,
    Dispatched,
    Evaluate,
    Evaluated,
    Event,
    Facts,
    Looked,
    Matrix,
    Memory,
    Order,
    Score,
    Shipped,
    Step,
    Stopped,
    Train,
    Training,
    Update,
    UserError,
    Vector,
)
from federation import happens

CLIENTS = [ClientInfo(i, 5 + 7 * (i % 4), i % 2) for i in range(10)]
HORIZON = 400.0


class Fake(LocalSession):
    """Takes the gradient of a parabola: every client pulls to its own number. Finishes tasks in an odd order."""

    workers = 2

    def __init__(self, depth: int = 4, last_first: bool = False, spoilt: Sequence[int] = (), stateful: bool = False):
        self.depth, self.last_first, self.spoilt = depth, last_first, spoilt
        self.store = Rows(3)
        self.states = States(self.store, 3) if stateful else None
        self.tasks: list[Assignment] = []
        self.orders: list[Order] = []
        self.most_under_way = 0

    def initial(self) -> Vector:
        return np.zeros(3, np.float32)

    def submit(self, task: Assignment) -> None:
        self.tasks.append(task)
        self.most_under_way = max(self.most_under_way, len(self.tasks))

    def collect(self, seconds: float | None = None) -> list[Shipped | Evaluated]:
        return [self._done(self.tasks.pop(-1 if self.last_first else 0))] if self.tasks else []

    def close(self) -> None: ...

    def _done(self, task: Assignment) -> Shipped | Evaluated:
        if isinstance(task, Evaluate):
            value = float(self.store.get(task.base)[0])
            totals = {"confusion": np.array([[task.part + 1, 0], [1, 2]]), "loss": np.float64(value)}
            return Evaluated(task.task, totals, 0.25)
        assert isinstance(task, Train)
        order = task.order
        self.orders.append(order)
        self.store.get(task.out)[:] = order.rate * (self.store.get(task.base) - order.client)
        if self.states:
            before, after = self.states.slots(order)
            self.store.get(after)[:] = self.store.get(before) + 1
        outcome: Any = "not finite" if order.client in self.spoilt else "done"
        return Shipped(task.task, outcome, steps=2, samples=10, seconds=0.5)


class Applied(NamedTuple):
    time: float
    decided: Decided
    rejected: tuple[Update, ...]
    missing: tuple[Update, ...] = ()


class Scored(NamedTuple):
    time: float
    version: int
    accuracy: float
    loss: float


def blind(update: Update) -> Update:
    """Without the way to look into it, which belongs to one run."""
    return update._replace(look=None)


@dataclass
class Heard:
    """Everything a listener was told, in order."""

    said: list[Any]
    checkpoints: list[Checkpoint]
    stop_at: int = 10**9

    def event(self, event: Event) -> None:
        assert not isinstance(event, Decided)
        if isinstance(event, Arrived | Looked):
            event = event._replace(update=blind(event.update))
        self.said.append(event)

    def applied(
        self,
        decided: Decided,
        rejected: Sequence[Update],
        missing: Sequence[Update],
        told: Sequence[Mapping[str, float]] = (),
    ) -> None:
        step = decided.step
        used, dropped = (tuple(map(blind, updates)) for updates in (step.used, step.dropped))
        decided = decided._replace(step=step._replace(used=used, dropped=dropped))
        self.said.append(Applied(decided.time, decided, tuple(map(blind, rejected)), tuple(map(blind, missing))))

    def evaluated(self, time: float, version: int, score: Score, event: str = "eval") -> None:
        self.said.append(Scored(time, version, score.values["accuracy"], score.values["loss"]))

    def checkpoint(self, checkpoint: Checkpoint) -> None:
        self.checkpoints.append(checkpoint)
        self.said.append(checkpoint.version)

    def progress(self, time: float, version: int, trained: int) -> None:
        if version >= self.stop_at:
            raise KeyboardInterrupt

    @property
    def events(self) -> list[Any]:
        return [item for item in self.said if not isinstance(item, int)]


def events(algorithm: Algorithm[Any], run: Run | None = None) -> Iterator[Event]:
    connection = VirtualTime(CLIENTS, Uniform(1, 60, "job"), Always(), seed=3)
    rate = Training(lr=0.1, lr_decay=0.9).rate
    look = run.look if run and algorithm.looks else None
    return happens(algorithm, CLIENTS, connection, in_flight=6, horizon=HORIZON, seed=3, rate=rate, look=look)


def engine(
    algorithm: Algorithm[Any],
    session: Fake,
    heard: Heard,
    grid: Sequence[float] = (0.0, 100.0, 200.0, HORIZON),
    every: int = 0,
    parts: int = 1,
    **settings: Any,
) -> Run:
    subject = Subject("eval", Timetable(grid, every), parts, on_test_set(Classification()))
    return Run(algorithm, session, heard, [subject], **{"checkpoint_seconds": 1e9, **settings})


def fake(algorithm: Algorithm[Any], **settings: Any) -> Fake:
    return Fake(stateful=algorithm.local.stateful, **settings)


def completed(algorithm: Algorithm[Any], session: Fake | None = None, **settings: Any) -> tuple[Run, Fake, Heard]:
    session, heard = session or fake(algorithm), Heard([], [])
    run = engine(algorithm, session, heard, **settings)
    run.go(events(algorithm, run))
    return run, session, heard


def test_a_dropped_update_is_never_trained() -> None:
    algorithm = AFBS(buffer_size=4, survival="none")
    run, session, _ = completed(algorithm)
    steps = [event.step for event in events(algorithm) if isinstance(event, Decided)]
    used = {update.order for step in steps for update in step.used}
    dropped = {update.order for step in steps for update in step.dropped}
    assert dropped
    assert set(session.orders) == used
    assert run.counts.trained == run.counts.used == len(session.orders) == len(used)
    assert run.counts.dropped == len(dropped)


def test_where_clients_remember_every_arrival_is_trained() -> None:
    """Those who were late for their round, too: it was a client's training, and it remembers."""
    run, session, _ = completed(FedDyn(quorum=4))
    assert run.counts.dropped
    assert run.counts.trained == len(session.orders) == run.counts.used + run.counts.dropped
    remembered = {client: vector.tolist() for client, vector in session.remembered().items()}
    jobs = Counter(order.client for order in session.orders)
    assert remembered == {client: [number] * 3 for client, number in jobs.items()}


def test_what_a_client_learned_in_vain_is_forgotten() -> None:
    _, session, _ = completed(FedDyn(), Fake(spoilt=[2], stateful=True))
    remembered = {client: vector[0] for client, vector in session.remembered().items()}
    assert remembered[2] == 0.0
    assert all(number > 0 for client, number in remembered.items() if client != 2)


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
    assert run.server.version == len(models) - 1 > 10
    np.testing.assert_allclose(run.server.params, models[-1], rtol=1e-5)


def test_the_order_in_which_workers_finish_changes_nothing() -> None:
    first, _, told = completed(AFBS(buffer_size=3))
    for session in (Fake(depth=1), Fake(depth=16), Fake(depth=16, last_first=True)):
        other, _, heard = completed(AFBS(buffer_size=3), session)
        assert other.server.params.tobytes() == first.server.params.tobytes()
        assert heard.events == told.events


def test_no_more_is_handed_out_than_workers_can_hold() -> None:
    _, session, _ = completed(FedBuff(buffer_size=3), Fake(depth=3))
    assert session.most_under_way == 3


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
    run, _, heard = completed(FedBuff(buffer_size=3), parts=2, grid=[0.0])
    assert [item for item in heard.said if isinstance(item, Scored)] == [Scored(0.0, 0, (1 + 2 + 2 * 2) / 9, 0.0)]
    assert run.counts.evaluations == 1


def test_every_so_many_versions_are_evaluated_only_if_asked() -> None:
    run, _, heard = completed(FedBuff(buffer_size=3), grid=[], every=5)
    versions = [item.version for item in heard.said if isinstance(item, Scored)]
    assert versions == list(range(5, run.server.version + 1, 5))


def test_an_update_that_is_not_finite_counts_for_nothing_and_the_others_are_weighed_anew() -> None:
    algorithm = FedBuff(buffer_size=3)
    run, _, heard = completed(algorithm, Fake(spoilt=[2]))
    steps = [item for item in heard.said if isinstance(item, Applied)]
    rejected = [update for item in steps for update in item.rejected]
    assert {update.client for update in rejected} == {2}
    assert run.counts.rejected == len(rejected) > 0
    for _, decided, out, missing in steps:
        assert not missing
        assert 2 not in [update.client for update in decided.step.used]
        assert len(decided.step.used) + len(out) == 3
        assert decided.step.weights == (algorithm.weigh(decided.step.used) if decided.step.used else ())
    assert np.isfinite(run.server.params).all()


def test_nothing_stays_behind_when_a_run_has_ended() -> None:
    _, session, _ = completed(AFBS(buffer_size=3))
    # The newest version, and those that jobs under way at the horizon started from.
    assert isinstance(session.store, Rows)
    assert len(session.store._rows) <= 7
    assert not session.tasks


def witness(told: Heard, checkpoint: Checkpoint | None = None) -> Witness:
    """What a record would say of everything up to a checkpoint."""
    lines = []
    for item in told.said[: told.said.index(checkpoint.version) if checkpoint else None]:
        if isinstance(item, Applied):
            lines.append(step_line(item.decided, item.rejected, item.missing))
        elif not isinstance(item, int | Scored):
            lines.append(line_of(item))
    return Witness(lines)


@dataclass(frozen=True)
class Nearest(Algorithm[tuple[Update, ...]]):
    """Of every three updates the one that moves the model least is used; the others are dropped."""

    ships_models: bool = False

    @property
    def ships(self) -> Any:
        return "end" if self.ships_models else "delta"

    def init(self, clients: Sequence[ClientInfo]) -> tuple[Update, ...]:
        return ()

    def receive(self, state: tuple[Update, ...], update: Update, key: Key) -> tuple[tuple[Update, ...], Step | None]:
        held = (*state, update)
        if len(held) < 3:
            return held, None
        lengths = update.facts(held)["lengths"]
        best = held[lengths.index(min(lengths))]
        return (), Step((best,), tuple(other for other in held if other is not best))

    def look(self, memory: Memory, params: Vector, updates: Sequence[Update], vectors: Matrix) -> Facts:
        return {"lengths": [float(np.abs(vector).sum()) for vector in vectors]}

    def apply(self, memory: Memory, params: Vector, step: Step, vectors: Matrix) -> tuple[Memory, Vector]:
        return memory, params - vectors[0]


def test_who_looks_sees_what_clients_changed_and_what_was_seen_is_told() -> None:
    """Worked out again by a plain loop: the client whose number is nearest to its start wins."""
    run, session, heard = completed(Nearest())
    models = [np.zeros(3, np.float32)]
    for item in heard.said:
        if isinstance(item, Applied):
            step = item.decided.step
            moved = {
                update.sequence: update.order.rate * (models[update.base_version] - update.client)
                for update in (*step.used, *step.dropped)
            }
            lengths = {number: np.abs(change).sum() for number, change in moved.items()}
            (best,) = step.used
            assert lengths[best.sequence] == min(lengths.values())
            models.append((models[-1] - moved[best.sequence]).astype(np.float32))
    looks = [item for item in heard.said if isinstance(item, Looked)]
    assert len(looks) == run.server.version > 10
    assert all(len(look.facts["lengths"]) == 3 for look in looks)
    np.testing.assert_allclose(run.server.params, models[-1], rtol=1e-5)
    assert run.counts.trained == len(session.orders) == len(set(session.orders)) == 3 * run.server.version


def test_looking_at_a_model_shows_how_far_it_went_from_its_start() -> None:
    class Ends(Fake):
        def _done(self, task: Assignment) -> Shipped | Evaluated:
            done = super()._done(task)
            if isinstance(task, Train):
                self.store.get(task.out)[:] = self.store.get(task.base) - self.store.get(task.out)
            return done

    _, _, deltas = completed(Nearest())
    _, _, ends = completed(Nearest(ships_models=True), Ends(), grid=[])
    first = [next(item for item in heard.said if isinstance(item, Looked)) for heard in (deltas, ends)]
    assert first[0].facts["lengths"] == pytest.approx(first[1].facts["lengths"])


def test_a_run_that_is_decided_otherwise_than_it_was_is_not_taken_up() -> None:
    algorithm = FedBuff(buffer_size=3)
    _, _, told = completed(algorithm, checkpoint_seconds=-1.0)
    checkpoint = told.checkpoints[4]
    other = FedBuff(buffer_size=3, staleness="none")
    with pytest.raises(DifferentlyDecidedError) as refused:
        engine(other, Fake(), Heard([], [])).go(events(other), checkpoint, witness(told, checkpoint))
    weights = [item.decided.step for item in told.said if isinstance(item, Applied)]
    first = next(n for n, step in enumerate(weights, 1) if any(update.staleness for update in step.used))
    assert refused.value.version == first


@pytest.mark.parametrize("algorithm", [AFBS(buffer_size=3), FedBuff(buffer_size=3), FedDyn(), Nearest()])
def test_a_run_taken_up_from_any_checkpoint_ends_the_same(algorithm: Algorithm[Any]) -> None:
    whole, _, told = completed(algorithm, checkpoint_seconds=-1.0)
    plain, _, _ = completed(algorithm)
    assert plain.server.params.tobytes() == whole.server.params.tobytes()
    for checkpoint in told.checkpoints:
        heard = Heard([], [])
        run = engine(algorithm, fake(algorithm), heard)
        run.go(events(algorithm, run), checkpoint, witness(told, checkpoint))
        assert run.server.params.tobytes() == whole.server.params.tobytes()
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
    taken_up.go(events(algorithm), heard.checkpoints[-1], witness(heard, heard.checkpoints[-1]))
    assert taken_up.server.params.tobytes() == whole.server.params.tobytes()
    assert heard.events + later.events == told.events


def test_the_flag_of_a_signal_handler_stops_a_run_between_two_turns() -> None:
    run = engine(FedBuff(buffer_size=3), Fake(), Heard([], []))
    run.stopping = True
    with pytest.raises(KeyboardInterrupt):
        run.go(events(FedBuff(buffer_size=3)))
    assert run.server.version == 0


def test_a_checkpoint_of_another_model_or_a_longer_run_is_refused() -> None:
    algorithm = FedBuff(buffer_size=3)
    _, _, told = completed(algorithm)
    for checkpoint in (
        Checkpoint(1, np.zeros(4, np.float32), {}, {}, {}, {}),
        Checkpoint(10_000, np.zeros(3, np.float32), {}, {}, {}, {}),
    ):
        with pytest.raises(UserError, match="configuration was changed"):
            engine(algorithm, Fake(), Heard([], [])).go(events(algorithm), checkpoint, witness(told))
