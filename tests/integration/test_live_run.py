"""Real time: a fleet of threads, unchanged algorithms, joins, absences, silence, deadlines, and a server that dies."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from afbs import registry
from afbs.algorithms.afbs import AFBS
from afbs.algorithms.fedavg import FedAvg
from afbs.algorithms.fedbuff import FedBuff
from afbs.engine.evaluations import Subject, Timetable
from afbs.engine.live import LiveRun
from afbs.engine.plan import follow, plan
from afbs.engine.witness import Witness
from afbs.interfaces import Algorithm, Connection
from afbs.record.checkpoint import load_checkpoint
from afbs.record.lines import PLANNED, line_of
from afbs.record.recorder import Recorder
from afbs.record.seal import lines, read_seal
from afbs.record.writer import Writer
from afbs.tasks import on_test_set
from afbs.tasks.classification import Classification
from afbs.transports.replay import Replay
from afbs.types import ClientInfo, Decided, Event, Stopped, Training, Waiting
from federation import World, quadratic
from fleet import Fleet, FleetConnection, FleetSession

CLIENTS, IN_FLIGHT, SEED = 8, 4, 3
TRAINING = Training(lr=0.1, lr_decay_unit="none")


def algorithms() -> list[Algorithm[Any]]:
    small = {"buffer_size": 3, "queue_size": 3}
    made = []
    for name in registry.names("algorithm"):
        kind = registry.find("algorithm", name)
        made.append(kind(**{key: value for key, value in small.items() if key in kind.__dataclass_fields__}))
    return made


every_algorithm = pytest.mark.parametrize("algorithm", algorithms(), ids=lambda algorithm: type(algorithm).__name__)


class KilledError(Exception):
    """What the tests use for kill -9: nothing is saved after it."""


@dataclass
class Killer:
    """Ends the server when so many lines have been written, in the middle of whatever it was doing."""

    left: int

    def __call__(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise KilledError


def quick(order: Any) -> float:
    """Uneven, and the same for the same order."""
    return 0.002 + 0.003 * ((order.client * 7 + order.occurrence * 3) % 5)


def subject(grid: Sequence[float]) -> Subject:
    return Subject("eval", Timetable(grid), 1, on_test_set(Classification()))


def fleet_of(algorithm: Algorithm[Any], **settings: Any) -> Fleet:
    world = quadratic(CLIENTS, seed=5, size=6, dtype=np.float32)
    return Fleet(world, algorithm, settings.pop("lasts", quick), **settings)


def decisions(algorithm: Algorithm[Any], world: World, connection: Connection, **settings: Any) -> Any:
    chosen = {"in_flight": IN_FLIGHT, "horizon": 60.0, "versions": 12, **settings}
    reading = plan(algorithm, world.clients, connection.reachable, seed=SEED, rate=TRAINING.rate, **chosen)
    return follow(reading, connection)


def serve(
    folder: Path, fleet: Fleet, *, after: Callable[[], None] = lambda: None, evaluate: float = 1e9, **settings: Any
) -> LiveRun:
    """One life of the server: from nothing, or from what an earlier one left in the folder."""
    algorithm, world = fleet.algorithm, fleet.world
    (folder / "checkpoints").mkdir(exist_ok=True, parents=True)
    events = folder / "events.jsonl"
    recorded: list[dict[str, Any]] = []
    checkpoint, connection = None, FleetConnection(fleet)
    front: Connection = connection
    if events.exists():
        recorded = [json.loads(line) for line in lines(events)]
        checkpoint, complaints = load_checkpoint(folder, "test")
        assert not complaints
        front = Replay(recorded, then=connection)
    whole = sum(len(line) + 1 for line in lines(events)) if events.exists() else 0
    with Writer(folder, whole) as writer:
        recorder = Recorder(writer, "test", live=True)
        original = writer.line
        writer.line = lambda *given: (original(*given), writer.sync(), after())  # type: ignore[method-assign, func-returns-value, assignment]
        grid = [evaluate * number for number in range(1, 50)]
        run = LiveRun(algorithm, FleetSession(fleet), recorder, [subject(grid)], front.publish)
        run.go(decisions(algorithm, world, front, **settings), checkpoint, Witness(recorded) if recorded else None)
    return run


def recorded(folder: Path, *kinds: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in lines(folder / "events.jsonl")]
    return [line for line in found if not kinds or line["event"] in kinds]


def oracle(folder: Path, fleet: Fleet) -> Any:
    """The model that the recorded steps make of what the fleet trained, one step after another."""
    from afbs.types import Step

    algorithm, model = fleet.algorithm, fleet.world.start
    memory = algorithm.begin(model)
    for event in decisions(algorithm, fleet.world, Replay(recorded(folder)), versions=len(recorded(folder, "step"))):
        if isinstance(event, Decided):
            line = next(line for line in recorded(folder, "step") if line["version"] == event.version)
            used = [update for update in event.step.used if update.order.sequence in line["used"]["order"]]
            weights = algorithm.weigh(used)
            if used:
                rows = np.stack([fleet.held[update.order.sequence] for update in used])
                step = Step(tuple(used), event.step.dropped, event.step.notes, weights)
                memory, model = algorithm.apply(memory, model, step, rows)
        elif isinstance(event, Stopped):
            break
    return model


@every_algorithm
def test_every_algorithm_runs_unchanged_on_real_arrivals(algorithm: Algorithm[Any], tmp_path: Path) -> None:
    fleet = fleet_of(algorithm)
    run = serve(tmp_path, fleet)
    assert run.server.version >= 12  # whatever came in the instant of the twelfth is heard, too
    assert recorded(tmp_path, "end")[0]["reason"] == "versions"
    np.testing.assert_array_equal(run.server.params, oracle(tmp_path, fleet))
    assert read_seal(tmp_path / "events.jsonl")[1] is None


@every_algorithm
def test_on_the_same_arrivals_a_replay_decides_the_same(algorithm: Algorithm[Any], tmp_path: Path) -> None:
    fleet = fleet_of(algorithm, away={2: (0.0, 0.03)}, loses=frozenset({5}), late={0.02: ClientInfo(90, 7, 1)})
    fleet.world = World(fleet.world.clients, fleet.world.start, lambda client, params: params - client % 8, lr=0.1)
    serve(tmp_path, fleet)
    planned = [line for line in recorded(tmp_path) if line["event"] in PLANNED]
    assert {line["event"] for line in planned} >= {"dispatch", "arrival", "lost", "left", "returned", "joined", "step"}
    again: list[Event] = []
    for event in decisions(algorithm, fleet.world, Replay(planned)):
        if isinstance(event, Waiting | Stopped):
            break
        again.append(event)
    assert json.loads(json.dumps([line_of(event) for event in again])) == [
        {name: value for name, value in line.items() if name not in ("seal", "wall")} for line in planned
    ]


@every_algorithm
def test_an_order_is_in_the_record_before_it_is_sent(algorithm: Algorithm[Any], tmp_path: Path) -> None:
    fleet = fleet_of(algorithm)
    start = fleet.start

    def watched(order: Any, model: Any) -> None:
        written = {line["sequence"] for line in recorded(tmp_path, "dispatch")}
        assert order.sequence in written
        start(order, model)

    fleet.start = watched  # type: ignore[method-assign]
    serve(tmp_path, fleet, versions=3)


@every_algorithm
@pytest.mark.parametrize("kill", range(4))
def test_a_server_killed_at_any_moment_goes_on_from_its_record(
    algorithm: Algorithm[Any], kill: int, tmp_path: Path
) -> None:
    rng = random.Random(100 * kill + len(type(algorithm).__name__))
    fleet = fleet_of(algorithm, loses=frozenset({6}))
    lives = 0
    while True:
        lives += 1
        try:
            run = serve(tmp_path, fleet, after=Killer(rng.randrange(1, 40)))
            break
        except KilledError:
            assert lives < 60
    assert lives > 1
    assert run.server.version >= 12
    np.testing.assert_array_equal(run.server.params, oracle(tmp_path, fleet))
    arrived = [line["order"] for line in recorded(tmp_path, "arrival")]
    assert len(arrived) == len(set(arrived))
    steps = recorded(tmp_path, "step")
    assert [line["version"] for line in steps] == list(range(1, run.server.version + 1))
    taken = [order for line in steps for part in ("used", "dropped") for order in line[part]["order"]]
    assert len(taken) == len(set(taken))
    assert set(taken) <= set(arrived)
    assert read_seal(tmp_path / "events.jsonl")[1] is None
    counted = run.counts
    assert counted.arrived == len(arrived)
    assert counted.used == sum(len(line["used"]["order"]) for line in steps)


def test_a_vector_that_never_comes_is_left_out_and_the_others_are_weighed_anew(tmp_path: Path) -> None:
    fleet = fleet_of(FedBuff(buffer_size=3), mute=frozenset({1, 4, 7}))
    run = serve(tmp_path, fleet)
    steps = recorded(tmp_path, "step")
    missing = [order for line in steps for order in line["missing"]]
    assert set(missing) <= {1, 4, 7}
    assert missing
    assert run.counts.missing == len(missing)
    for line in steps:
        assert not set(line["used"]["order"]) & {1, 4, 7}
        assert len(line["used"]["order"]) + len(line["missing"]) == 3
    np.testing.assert_array_equal(run.server.params, oracle(tmp_path, fleet))


def test_a_silent_fleet_cannot_hang_a_run_that_has_a_deadline(tmp_path: Path) -> None:
    """Of four that are asked, one never answers: at the deadline the round closes with three."""

    def lasts(order: Any) -> float:
        return 1e6 if order.sequence == 2 else 0.001

    fleet = fleet_of(FedAvg(deadline=1.0), lasts=lasts)
    serve(tmp_path, fleet, versions=1)
    (woken,) = recorded(tmp_path, "woken")
    (step,) = recorded(tmp_path, "step")
    assert sorted(step["used"]["order"]) == [0, 1, 3]
    assert step["time"] == woken["time"] >= 1.0


def test_the_horizon_ends_a_run_in_which_nothing_ever_arrives(tmp_path: Path) -> None:
    fleet = fleet_of(FedBuff(buffer_size=3), lasts=lambda order: 1e6)
    run = serve(tmp_path, fleet, horizon=0.05, evaluate=0.01)
    assert run.server.version == 0
    assert recorded(tmp_path, "end")[0]["reason"] == "horizon"
    assert [line["time"] for line in recorded(tmp_path, "eval")][:3] == [0.01, 0.02, 0.03]


def test_a_stop_is_heard_while_nothing_arrives(tmp_path: Path) -> None:
    fleet = fleet_of(AFBS(buffer_size=3), lasts=lambda order: 1e6)
    stopping: list[LiveRun] = []

    class Stopping(FleetConnection):
        def receive(self, until: float) -> Any:
            if self.now() > 0.03:
                stopping[0].stopping = True
            return super().receive(until)

    connection = Stopping(fleet)
    (tmp_path / "checkpoints").mkdir()
    with Writer(tmp_path) as writer:
        recorder = Recorder(writer, "test", live=True)
        run = LiveRun(fleet.algorithm, FleetSession(fleet), recorder, [subject([])], connection.publish)
        stopping.append(run)
        with pytest.raises(KeyboardInterrupt):
            run.go(decisions(fleet.algorithm, fleet.world, connection))


def test_a_version_is_on_disk_before_it_is_published(tmp_path: Path) -> None:
    fleet = fleet_of(FedBuff(buffer_size=3))
    published: list[int] = []
    original = FleetConnection.publish

    def publish(self: FleetConnection, version: int, params: Any) -> None:
        assert (tmp_path / "checkpoints" / f"{version:08d}.safetensors").exists()
        published.append(version)
        original(self, version, params)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FleetConnection, "publish", publish)
        serve(tmp_path, fleet, versions=4)
    assert published == [0, 1, 2, 3, 4]
