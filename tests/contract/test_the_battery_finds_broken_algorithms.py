"""`check_algorithm` is only worth something if it finds out. Each class here breaks one promise."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from afbs.interfaces import Algorithm
from afbs.testing import check_algorithm
from afbs.types import Facts, Step, Update


@dataclass(frozen=True)
class Sound(Algorithm[tuple[Update, ...]]):
    """A buffer of three. The others differ from it in one method."""

    @property
    def awaits(self) -> int:
        return 3

    def init(self, clients: Any) -> Any:
        return ()

    def receive(self, state: Any, update: Update, key: Any) -> Any:
        state = (*state, update)
        return ((), Step(state)) if len(state) >= 3 else (state, None)

    def stalled(self, state: Any) -> Any:
        return (), Step(state) if state else None

    def apply(self, memory: Any, params: Any, step: Step, vectors: Any) -> Any:
        return memory, params - np.asarray(step.weights, np.float32) @ vectors


def test_a_sound_algorithm_passes() -> None:
    check_algorithm(Sound())


class ChangesItsState(Sound):
    """In place, where a new state is wanted."""

    def init(self, clients: Any) -> Any:
        return []

    def receive(self, state: Any, update: Update, key: Any) -> Any:
        state.append(update)
        return ([], Step(tuple(state))) if len(state) >= 3 else (state, None)

    def stalled(self, state: Any) -> Any:
        return [], Step(tuple(state)) if state else None


class Gambles(Sound):
    """Draws from a global generator."""

    def receive(self, state: Any, update: Update, key: Any) -> Any:
        state = (*state, update)
        return ((), Step(state)) if random.random() < 0.4 else (state, None)


class ForgetsOne(Sound):
    """Never uses the first update of a buffer."""

    def receive(self, state: Any, update: Update, key: Any) -> Any:
        state = (*state, update)
        return ((), Step(state[1:])) if len(state) >= 3 else (state, None)


class UsesOneTwice(Sound):
    """Keeps the last update of a buffer for the next."""

    def receive(self, state: Any, update: Update, key: Any) -> Any:
        state = (*state, update)
        return (state[-1:], Step(state)) if len(state) >= 3 else (state, None)


class WaitsForEver(Sound):
    """Insists on three, whoever is left."""

    def stalled(self, state: Any) -> Any:
        return state, None


class MindsLosses(Sound):
    """Counts its jobs, and miscounts the lost ones: after three of them it gives up."""

    def init(self, clients: Any) -> Any:
        return (0, ())

    def dispatch(self, state: Any, pool: Any, key: Any) -> Any:
        return state, pool.sample(pool.room, key) if state[0] < 3 else []

    def lost(self, state: Any, order: Any) -> Any:
        return (state[0] + 1, state[1]), None

    def receive(self, state: Any, update: Update, key: Any) -> Any:
        kept = (*state[1], update)
        return ((state[0], ()), Step(kept)) if len(kept) >= 3 else ((state[0], kept), None)

    def stalled(self, state: Any) -> Any:
        return (state[0], ()), Step(state[1]) if state[1] else None


class KnowsNoNewcomers(Sound):
    """Has a table of the clients there were."""

    def init(self, clients: Any) -> Any:
        return ({client.id: client.examples for client in clients}, ())

    def receive(self, state: Any, update: Update, key: Any) -> Any:
        table, kept = state
        kept = (*kept, update) if table[update.client] else kept
        return ((table, ()), Step(kept)) if len(kept) >= 3 else ((table, kept), None)

    def stalled(self, state: Any) -> Any:
        return (state[0], ()), Step(state[1]) if state[1] else None


class WritesIntoTheModel(Sound):
    def apply(self, memory: Any, params: Any, step: Step, vectors: Any) -> Any:
        params -= np.asarray(step.weights, np.float32) @ vectors
        return memory, params


class KeepsWhatItWasLent(Sound):
    def apply(self, memory: Any, params: Any, step: Step, vectors: Any) -> Any:
        return {"last": vectors[-1]}, params - vectors.mean(axis=0)

    def memory_bytes(self, parameters: int, clients: int) -> int:
        return 4 * parameters


class RemembersInSecret(Sound):
    """Keeps a momentum beside its memory; a checkpoint does not hold it."""

    def apply(self, memory: Any, params: Any, step: Step, vectors: Any) -> Any:
        mean = np.asarray(step.weights, np.float32) @ vectors
        momentum = getattr(self, "momentum", {})
        version = step.used[-1].version
        new = momentum.get(version, np.float32(0)) * np.float32(0.5) + mean
        object.__setattr__(self, "momentum", {**momentum, version + 1: new})
        return memory, params - new


class RemembersMoreThanItSays(Sound):
    def begin(self, params: Any) -> Any:
        return {"first": params.copy()}


class MakesAnotherKindOfModel(Sound):
    def apply(self, memory: Any, params: Any, step: Step, vectors: Any) -> Any:
        return memory, params.astype(np.float64) - np.asarray(step.weights) @ vectors


class CannotDoWithout(Sound):
    """Its weights count on a full buffer."""

    def weigh(self, used: Sequence[Update]) -> tuple[float, ...]:
        return (1 / 3, 1 / 3, 1 / 3) if used else ()


class PeeksInSecret(Sound):
    """Decides by content that is not in the record."""

    def look(self, memory: Any, params: Any, updates: Any, vectors: Any) -> Facts:
        object.__setattr__(self, "seen", [float(row @ row) for row in vectors])
        return {}

    def receive(self, state: Any, update: Update, key: Any) -> Any:
        state = (*state, update)
        if len(state) < 3:
            return state, None
        update.facts(state)
        large = max(range(len(state)), key=lambda i: self.seen[i] if hasattr(self, "seen") else -i)
        return (), Step(tuple(u for i, u in enumerate(state) if i != large), (state[large],))


class NeverSteps(Sound):
    def receive(self, state: Any, update: Update, key: Any) -> Any:
        return (*state, update), None


class AsksTheBusy(Sound):
    def dispatch(self, state: Any, pool: Any, key: Any) -> Any:
        return state, [0] if pool.room else []


class WakesForNothing(Sound):
    """Asks to be woken, and then does nothing about it."""

    def wake(self, state: Any) -> float | None:
        return 5.0


@dataclass
class Thawed(Algorithm[Any]):
    """Its settings may change at any time."""

    size: int = 3
    awaits: ClassVar[int] = 3
    init = Sound.init
    receive = Sound.receive
    stalled = Sound.stalled
    apply = Sound.apply


BROKEN = {
    ChangesItsState: "`receive` changed what it was given",
    Gambles: "answered differently when it was asked again",
    ForgetsOne: "neither used nor dropped",
    UsesOneTwice: "`UsesOneTwice.receive` .* earlier step",
    WaitsForEver: "nobody is left to ask",
    MindsLosses: "standstill",
    KnowsNoNewcomers: "KeyError, when every method was called twice, a client joined late",
    WritesIntoTheModel: "read-only",
    KeepsWhatItWasLent: "lent",
    RemembersInSecret: "not in its memory",
    RemembersMoreThanItSays: "`memory_bytes` says 0",
    MakesAnotherKindOfModel: "float32",
    CannotDoWithout: "weigh",
    PeeksInSecret: "from the record alone",
    NeverSteps: "only 4 steps",
    AsksTheBusy: "asks client 0",
    WakesForNothing: "was woken",
    Thawed: "frozen dataclass",
}


@pytest.mark.parametrize("broken", BROKEN, ids=lambda kind: kind.__name__)
def test_a_broken_algorithm_is_found_out_with_a_sentence(broken: type[Algorithm[Any]]) -> None:
    with pytest.raises(AssertionError, match=BROKEN[broken]) as found:
        check_algorithm(broken())
    said = str(found.value)
    assert said[0].isupper() or said[0] == "`"
    assert said.rstrip().endswith(".")


@dataclass(frozen=True)
class Hourly(Sound):
    """Steps once an hour of virtual time, with whatever has come."""

    def receive(self, state: Any, update: Update, key: Any) -> Any:
        return (*state, update), None

    def wake(self, state: Any) -> float | None:
        return state[0].time + 3600 if state else None

    def woken(self, state: Any, time: float, key: Any) -> Any:
        return (), Step(state)


def test_an_algorithm_that_waits_for_hours_is_tried_with_jobs_that_take_as_long() -> None:
    check_algorithm(Hourly(), seconds=600)


@pytest.mark.parametrize(
    ("file", "name", "settings"),
    [("own_algorithm", "HalfLife", {}), ("content_based", "DropOutliers", {"buffer_size": 4})],
)
def test_the_algorithms_that_we_show_as_examples_pass(
    file: str, name: str, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "examples")
    check_algorithm(getattr(import_module(file), name)(**settings))


def test_the_algorithm_on_the_documentations_page_passes() -> None:
    page = (Path(__file__).parents[2] / "docs" / "algorithms.md").read_text()
    (code,) = [block.partition("```")[0] for block in page.split("```python\n")[1:] if "class Gentle" in block]
    names: dict[str, Any] = {"__name__": __name__}
    exec(code, names)
    check_algorithm(names["Gentle"]())
