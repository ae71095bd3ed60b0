"""What every algorithm must keep to. Algorithms are found by looking in their folder, and each is tried with every
choice of every setting that offers one: a new file is tested by being there."""

from __future__ import annotations

import ast
import copy
import dataclasses
import inspect
import pickle
from collections import Counter
from pathlib import Path
from types import UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np
import pytest
from safetensors.numpy import load, save

from afbs import registry
from afbs.interfaces import Algorithm, Availability, Connection
from afbs.latency.uniform import Uniform
from afbs.seeds import Key
from afbs.transports.simulated import VirtualTime
from afbs.types import Arrived, ClientInfo, Decided, Dispatched, Instant, Lost, Order, Stopped, Update, Woken
from federation import Losses, Outcome, World, drive, happens, quadratic

NAMES = registry.names("algorithm")
SMALL = {"buffer_size": 3, "queue_size": 3}
HURRIED: list[dict[str, Any]] = [
    {"deadline": 7.0},
    {"deadline": 0.5},
    {"max_staleness": 1},
    {"max_staleness": 1, "deadline": 7.0},
    {"quorum": 2},
    {"quorum": 2, "over_selection": 0.5},
    {"quorum": 3, "deadline": 7.0},
]
"""Settings that make a step do without somebody."""


def variants(name: str) -> list[Algorithm[Any]]:
    """The algorithm with small buffers, as it is, with every other choice of one setting, and in a hurry."""
    kind = registry.find("algorithm", name)
    hints = get_type_hints(kind)
    fields = dataclasses.fields(kind)
    usual = kind(**{field.name: SMALL[field.name] for field in fields if field.name in SMALL})
    choices = [
        dataclasses.replace(usual, **{field.name: value})
        for field in fields
        for value in (get_args(hints[field.name]) if get_origin(hints[field.name]) is Literal else ())
        + ((True, False) if hints[field.name] is bool else ())
        if value != getattr(usual, field.name)
    ]
    known = {field.name for field in fields}
    return [usual, *choices, *(dataclasses.replace(usual, **found) for found in HURRIED if found.keys() <= known)]


def called(algorithm: Algorithm[Any]) -> str:
    usual = variants(type(algorithm).__module__.rsplit(".", 1)[1])[0]
    changed = [f"{k}={v}" for k, v in dataclasses.asdict(algorithm).items() if getattr(usual, k) != v]
    return " ".join([type(algorithm).__name__, *changed])


every_file = pytest.mark.parametrize("name", NAMES)
every_algorithm = pytest.mark.parametrize("algorithm", [a for name in NAMES for a in variants(name)], ids=called)


@pytest.fixture(scope="module")
def world() -> World:
    return quadratic(8, seed=5, size=6, dtype=np.float32)


# the file


def source(name: str) -> str:
    return Path(inspect.getfile(registry.find("algorithm", name))).read_text()


@every_file
def test_its_file_is_short_names_its_paper_and_says_where_it_departs(name: str) -> None:
    text = source(name)
    said = ast.get_docstring(ast.parse(text)) or ""
    assert len(text.splitlines()) <= 120
    assert "arXiv" in said
    assert "Departures:" in said


@every_file
def test_its_file_imports_only_numpy_and_what_lies_below(name: str) -> None:
    imported = set()
    for node in ast.walk(ast.parse(source(name))):
        if isinstance(node, ast.ImportFrom):
            imported.add(node.module or "")
        elif isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
    plain = {"__future__", "annotated_types", "collections.abc", "dataclasses", "functools", "math", "numpy", "typing"}
    below = {"afbs.interfaces", "afbs.seeds", "afbs.types"}
    assert [m for m in imported - plain - below if not m.startswith("afbs.core.")] == []


@every_file
def test_it_is_a_frozen_dataclass_with_a_line_about_itself(name: str) -> None:
    kind = registry.find("algorithm", name)
    assert dataclasses.is_dataclass(kind)
    assert kind.__dataclass_params__.frozen
    assert kind.__final__
    assert registry.summary(kind).endswith(".")
    assert len(registry.summary(kind)) <= 68  # one line of `afbs list algorithms`
    for field in dataclasses.fields(kind):
        assert field.default is not dataclasses.MISSING
        assert not isinstance(get_type_hints(kind)[field.name], UnionType)


@every_file
def test_its_page_explains_every_setting(name: str) -> None:
    page = (Path(__file__).parents[2] / "docs" / "algorithms.md").read_text()
    section = page.partition(f"## `{name}`")[2].partition("\n## ")[0]
    for field in dataclasses.fields(registry.find("algorithm", name)):
        assert f"`{field.name}`" in section


def test_a_setting_of_the_same_name_means_the_same_in_every_algorithm() -> None:
    """A configuration may be run with another algorithm, and keeps the settings that both have."""
    meanings: dict[str, set[Any]] = {}
    for name in NAMES:
        kind = registry.find("algorithm", name)
        hints = get_type_hints(kind, include_extras=True)
        for field in dataclasses.fields(kind):
            meanings.setdefault(field.name, set()).add((hints[field.name], field.default))
    assert {name: found for name, found in meanings.items() if len(found) > 1} == {}


# deciding


class Watched(Algorithm[Any]):
    """Passes everything on, calls every deciding method twice, and looks whether anything was changed by it."""

    def __init__(self, watched: Algorithm[Any]):
        self.watched = watched
        self.holds = watched.holds  # type: ignore[misc]
        self.calls: Counter[str] = Counter()

    def twice(self, method: str, *given: Any) -> Any:
        self.calls[method] += 1
        before = pickle.dumps([value for value in given if not hasattr(value, "sample")])
        first = getattr(self.watched, method)(*given)
        again = getattr(self.watched, method)(*given)
        assert first == again
        assert pickle.dumps([value for value in given if not hasattr(value, "sample")]) == before
        return first

    def init(self, clients: Any) -> Any:
        return self.twice("init", clients)

    def dispatch(self, state: Any, pool: Any, key: Key) -> Any:
        return self.twice("dispatch", state, pool, key)

    def receive(self, state: Any, update: Update, key: Key) -> Any:
        return self.twice("receive", state, update, key)

    def lost(self, state: Any, order: Order) -> Any:
        return self.twice("lost", state, order)

    def wake(self, state: Any) -> Any:
        return self.twice("wake", state)

    def woken(self, state: Any, time: float, key: Key) -> Any:
        return self.twice("woken", state, time, key)

    def stalled(self, state: Any) -> Any:
        return self.twice("stalled", state)

    def joined(self, state: Any, client: ClientInfo) -> Any:
        return self.twice("joined", state, client)

    def weigh(self, used: Any) -> Any:
        return self.twice("weigh", used)

    def apply(self, *given: Any) -> Any:
        raise NotImplementedError


class WithLateClients(Connection):
    """A simulation which a client joins at the third instant, and in which another is clustered anew."""

    def __init__(self, clients: list[ClientInfo], late: ClientInfo):
        self.inner = VirtualTime([*clients, late], Uniform(1, 9, "job"), Losses(0.2), 3)
        self.late = late
        self.changed = dataclasses.replace(clients[0], cluster=5)
        self.instants = 0

    def send(self, order: Order) -> None:
        self.inner.send(order)

    def reachable(self, client: int) -> bool:
        return self.inner.reachable(client)

    def watch(self, client: int) -> None:
        self.inner.watch(client)

    def receive(self, until: float) -> Instant | None:
        self.instants += 1
        instant = self.inner.receive(until)
        if instant is None or self.instants != 3:
            return instant
        return instant._replace(joined=[self.late, self.changed])


@every_algorithm
def test_deciding_is_pure_and_welcomes_late_clients(algorithm: Algorithm[Any], world: World) -> None:
    watched = Watched(algorithm)
    late = ClientInfo(8, 7, cluster=4)
    connection = WithLateClients(world.clients, late)
    events = list(happens(watched, world.clients, connection, in_flight=4, horizon=200, seed=3))
    assert watched.calls["joined"] == 2
    assert watched.calls["receive"] > 50
    assert any(isinstance(event, Arrived) and event.update.client == late.id for event in events)
    notes = [event.step.notes for event in events if isinstance(event, Decided)]
    assert notes[-1].get("clients", 9) == 9  # those that divide by the number of all clients count the late one too


@every_algorithm
def test_the_same_seed_gives_the_same_plan_and_another_seed_another(algorithm: Algorithm[Any], world: World) -> None:
    def events(seed: int) -> list[Any]:
        connection = VirtualTime(world.clients, Uniform(1, 9, "job"), Losses(0.2), seed)
        return list(happens(algorithm, world.clients, connection, in_flight=4, horizon=100, seed=seed))

    assert events(1) == events(1)
    assert events(1) != events(2)


def check_bookkeeping(outcome: Outcome) -> None:
    """Versions count up by one; a step uses or drops what has arrived since the last one, each update once."""
    decided = [event for event in outcome.events if isinstance(event, Decided)]
    assert [event.version for event in decided] == list(range(1, len(decided) + 1))
    times = [event.time for event in outcome.events]
    assert times == sorted(times)
    arrived: set[int] = set()
    spent: set[int] = set()
    busy: set[int] = set()
    version = 0
    for event in outcome.events:
        match event:
            case Dispatched(_, order):
                assert order.version == version
                assert order.client not in busy
                busy.add(order.client)
            case Lost(_, order):
                busy.remove(order.client)
            case Arrived(_, update):
                busy.remove(update.client)
                assert update.version == version
                arrived.add(update.sequence)
            case Decided(_, new, step):
                version = new
                assert step.used
                assert len(step.weights) == len(step.used)
                assert all(np.isfinite(weight) and weight > 0 for weight in step.weights)
                for update in step.used + step.dropped:
                    assert update.sequence in arrived
                    assert update.sequence not in spent
                    spent.add(update.sequence)
                assert arrived == spent


@every_algorithm
@pytest.mark.parametrize("share", [0.0, 0.3], ids=["nobody lost", "some lost"])
def test_every_update_counts_once_or_is_dropped_and_versions_count_up(
    algorithm: Algorithm[Any], share: float, world: World
) -> None:
    outcome = drive(algorithm, world, seed=4, in_flight=4, horizon=150, availability=Losses(share))
    check_bookkeeping(outcome)
    assert len(outcome.models) > 8
    assert all(np.isfinite(model).all() for model in outcome.models)


@every_algorithm
def test_no_answer_waits_longer_than_the_deadline(algorithm: Algorithm[Any], world: World) -> None:
    deadline = getattr(algorithm, "deadline", float("inf"))
    outcome = drive(algorithm, world, seed=4, in_flight=4, horizon=150, availability=Losses(0.3))
    woken = [event.time for event in outcome.events if isinstance(event, Woken)]
    assert bool(woken) == (deadline < float("inf"))
    for event in outcome.events:
        if isinstance(event, Decided):
            assert all(event.time <= update.time + deadline for update in event.step.used)


@every_algorithm
def test_nothing_staler_than_allowed_is_used(algorithm: Algorithm[Any], world: World) -> None:
    most = getattr(algorithm, "max_staleness", float("inf"))
    outcome = drive(algorithm, world, seed=4, in_flight=6, horizon=150)
    assert all(update.staleness <= most for step in outcome.steps for update in step.used)
    if most < float("inf"):
        why = [dict(zip((*step.used, *step.dropped), step.why, strict=True)) for step in outcome.steps if step.why]
        stale = {update for reasons in why for update, reason in reasons.items() if reason == "too stale"}
        taken = [update for step in outcome.steps for update in (*step.used, *step.dropped)]
        assert stale == {update for update in taken if update.staleness > most} != set()


@every_algorithm
def test_it_goes_on_after_everybody_was_lost(algorithm: Algorithm[Any], world: World) -> None:
    outcome = drive(algorithm, world, in_flight=4, horizon=160, availability=Losses(1.0, until=60.0))
    assert not [event for event in outcome.events if isinstance(event, Arrived) and event.time < 60]
    check_bookkeeping(outcome)
    assert len(outcome.models) > 5


@dataclasses.dataclass(frozen=True)
class OnlyOneLives(Losses):
    """Every job of every client but client 2 is lost."""

    def vanishes(self, client: ClientInfo, start: float, finish: float, key: Key) -> float | None:
        return None if client.id == 2 else super().vanishes(client, start, finish, key)


@every_algorithm
def test_it_never_waits_for_ever_when_all_but_one_client_are_lost(algorithm: Algorithm[Any], world: World) -> None:
    """The survivor waits in a buffer of three until nobody else answers; then losses stop and the run goes on."""
    outcome = drive(algorithm, world, in_flight=8, horizon=400, availability=OnlyOneLives(1.0, until=200.0))
    check_bookkeeping(outcome)
    assert [type(event) for event in outcome.events].count(Stopped) == 1
    assert outcome.events[-1] == Stopped(400, "horizon")
    assert [event for event in outcome.events if isinstance(event, Decided) and event.time > 300]


class Gone(Availability):
    """After 30 seconds nobody but client 2 can be reached any more."""

    def back(self, client: ClientInfo, time: float, key: Key) -> float:
        return time if client.id == 2 or time < 30 else float("inf")

    def vanishes(self, client: ClientInfo, start: float, finish: float, key: Key) -> None:
        return None


@every_algorithm
def test_it_steps_with_what_it_has_when_too_few_are_left_to_fill_a_buffer(
    algorithm: Algorithm[Any], world: World
) -> None:
    outcome = drive(algorithm, world, horizon=300, availability=Gone())
    assert outcome.events[-1] == Stopped(300, "horizon")
    late = [event.step for event in outcome.events if isinstance(event, Decided) and event.time > 100]
    assert len(late) > 5
    assert {update.client for step in late for update in step.used} == {2}


@every_algorithm
def test_one_client_alone_can_train(algorithm: Algorithm[Any]) -> None:
    alone = quadratic(1, seed=0, dtype=np.float32)
    outcome = drive(algorithm, alone, in_flight=1, horizon=400)
    assert len(outcome.models) > 10
    far = [np.abs(alone.gradient(0, model)).max() for model in outcome.models]
    assert far[-1] < far[0] / 5


@every_algorithm
def test_a_client_without_examples_is_never_asked(algorithm: Algorithm[Any], world: World) -> None:
    empty = dataclasses.replace(world, clients=[dataclasses.replace(world.clients[0], examples=0), *world.clients[1:]])
    outcome = drive(algorithm, empty, in_flight=8)
    assert {order.client for order in outcome.orders} == set(range(1, 8))


# computing


@every_algorithm
def test_computing_is_pure_and_keeps_nothing_of_what_it_was_lent(algorithm: Algorithm[Any], world: World) -> None:
    outcome = drive(algorithm, world, in_flight=4)
    rng = np.random.default_rng(0)
    for version, step in enumerate(outcome.steps[:12]):
        params, memory = outcome.models[version], outcome.memories[version]
        rows = rng.normal(size=(len(step.used), 6)).astype(np.float32)
        names = list(memory)
        for array in (params, rows, *memory.values()):
            array.flags.writeable = False
        first_memory, first = algorithm.apply(memory, params, step, rows)
        second_memory, second = algorithm.apply(memory, params, step, rows)
        assert list(memory) == names
        assert first.tobytes() == second.tobytes()
        assert {k: v.tobytes() for k, v in first_memory.items()} == {k: v.tobytes() for k, v in second_memory.items()}
        for array in (first, *first_memory.values()):
            assert array.dtype == np.float32
            assert array.flags.c_contiguous
            assert not np.shares_memory(array, rows)


@every_algorithm
def test_a_step_can_do_without_an_update_that_is_not_finite(algorithm: Algorithm[Any], world: World) -> None:
    """It is as if that update had not been used: the weights are asked for again."""
    assert algorithm.weigh(()) == ()
    outcome = drive(algorithm, world, in_flight=4)
    for version, step in enumerate(outcome.steps[:-1]):
        if len(step.used) < 2:
            continue
        rest = step._replace(used=step.used[1:], weights=algorithm.weigh(step.used[1:]))
        assert len(rest.weights) == len(rest.used)
        rows = np.ones((len(rest.used), 6), np.float32)
        memory, model = algorithm.apply(outcome.memories[version], outcome.models[version], rest, rows)
        assert np.isfinite(model).all()
        following = outcome.steps[version + 1]
        rows = np.ones((len(following.used), 6), np.float32)
        assert np.isfinite(algorithm.apply(memory, model, following, rows)[1]).all()


@every_algorithm
def test_its_memory_is_no_larger_than_it_says(algorithm: Algorithm[Any], world: World) -> None:
    outcome = drive(algorithm, world, in_flight=4, horizon=200)
    most = max(sum(array.nbytes for array in memory.values()) for memory in outcome.memories)
    assert most == algorithm.memory_bytes(6, len(world.clients))


@every_algorithm
def test_it_can_be_taken_up_again_from_files(algorithm: Algorithm[Any], world: World) -> None:
    """The plan is replayed from the seed; the model and the memory come back through safetensors."""
    whole = drive(algorithm, world, in_flight=4, horizon=120)
    middle = len(whole.models) // 2
    model = load(save({"model": whole.models[middle]}))["model"]
    memory = load(save({name: array.copy() for name, array in whole.memories[middle].items()}))
    again = drive(copy.deepcopy(algorithm), world, in_flight=4, horizon=120)
    assert again.orders == whole.orders
    for version, step in list(enumerate(again.steps, start=1))[middle:]:
        memory, model = algorithm.apply(memory, model, step, whole.rows(algorithm, step))
        assert model.tobytes() == whole.models[version].tobytes()
