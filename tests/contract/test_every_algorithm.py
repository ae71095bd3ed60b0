"""What every algorithm must keep to. Algorithms are found by looking in their folder, and each is tried with every
choice of every setting that offers one: a new file is tested by being there."""

from __future__ import annotations

import ast
import dataclasses
import inspect
from pathlib import Path
from types import UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np
import pytest

from afbs import registry
from afbs.algorithms.fedcompass import FedCompass
from afbs.interfaces import Algorithm
from afbs.testing import check_algorithm
from afbs.types import Arrived, Decided, Woken
from federation import Losses, World, drive, quadratic

NAMES = registry.names("algorithm")
SMALL = {"buffer_size": 3, "queue_size": 3, "adaptive_lr": 0.3, "arrival_lr": 0.5, "min_steps": 2, "max_steps": 6}
SLOWER: dict[Any, dict[str, Any]] = {"adam": {"server_lr": 0.2}, "yogi": {"server_lr": 0.2}}
"""What goes with a choice: these optimisers move every number by about the rate, however small the mean is."""
HURRIED: list[dict[str, Any]] = [
    {"deadline": 7.0},
    {"deadline": 0.5},
    {"max_staleness": 1},
    {"delay_threshold": 0},
    {"slack": 1.0},
    {"max_staleness": 1, "deadline": 7.0},
    {"quorum": 2},
    {"quorum": 2, "over_selection": 0.5},
    {"quorum": 3, "deadline": 7.0},
]
"""Settings that make a step do without somebody."""


def variants(name: str) -> list[Algorithm[Any]]:
    """The algorithm with small buffers and quick steps, with every other choice of one setting, and in a hurry."""
    kind = registry.find("algorithm", name)
    hints = get_type_hints(kind)
    fields = dataclasses.fields(kind)
    usual = kind(**{field.name: SMALL[field.name] for field in fields if field.name in SMALL})
    choices = [
        dataclasses.replace(usual, **{field.name: value}, **SLOWER.get(value, {}))
        for field in fields
        for value in (get_args(hints[field.name]) if get_origin(hints[field.name]) is Literal else ())
        + ((True, False) if hints[field.name] is bool else ())
        if value != getattr(usual, field.name)
    ]
    known = {field.name for field in fields}
    return [usual, *choices, *(dataclasses.replace(usual, **found) for found in HURRIED if found.keys() <= known)]


def called(algorithm: Any) -> str:
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
    assert len(text.splitlines()) <= 140  # a sentence for every setting among them
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
    kind: Any = registry.find("algorithm", name)
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


# what it does


@every_algorithm
def test_it_passes_the_battery_that_users_algorithms_pass(algorithm: Algorithm[Any]) -> None:
    check_algorithm(algorithm)


@every_algorithm
def test_another_seed_gives_another_plan(algorithm: Algorithm[Any], world: World) -> None:
    assert drive(algorithm, world, seed=1).events != drive(algorithm, world, seed=2).events


@every_algorithm
def test_one_client_alone_comes_near_its_optimum(algorithm: Algorithm[Any]) -> None:
    alone = quadratic(1, seed=0, dtype=np.float32)
    outcome = drive(algorithm, alone, in_flight=1, horizon=400)
    far = [np.abs(alone.gradient(0, model)).max() for model in outcome.models]
    assert len(outcome.models) > 10
    assert far[-1] < far[0] / 5


@every_algorithm
def test_every_weight_is_positive(algorithm: Algorithm[Any], world: World) -> None:
    weights = [weight for step in drive(algorithm, world, horizon=150).steps for weight in step.weights]
    assert len(weights) > 8
    assert min(weights) > 0


@every_algorithm
def test_a_step_takes_everything_that_has_arrived(algorithm: Algorithm[Any], world: World) -> None:
    if isinstance(algorithm, FedCompass):
        return  # several groups may be on their way
    outcome = drive(algorithm, world, seed=4, horizon=150, availability=Losses(0.3))
    waiting = set()
    for event in outcome.events:
        if isinstance(event, Arrived):
            waiting.add(event.update)
        elif isinstance(event, Decided):
            waiting -= {*event.step.used, *event.step.dropped}
            assert not waiting


@every_algorithm
def test_those_that_divide_by_the_number_of_all_clients_count_them(algorithm: Algorithm[Any], world: World) -> None:
    notes = [step.notes for step in drive(algorithm, world).steps]
    assert {note.get("clients", 8) for note in notes} == {8}


@every_algorithm
def test_no_answer_waits_longer_than_the_deadline(algorithm: Algorithm[Any], world: World) -> None:
    deadline = getattr(algorithm, "deadline", None)
    if deadline is None:
        return
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
def test_its_memory_is_float32_and_just_as_large_as_it_says(algorithm: Algorithm[Any], world: World) -> None:
    outcome = drive(algorithm, world, in_flight=4, horizon=200)
    arrays = [array for memory in outcome.memories for array in memory.values()]
    assert all(array.dtype == np.float32 and array.flags.c_contiguous for array in arrays if array.ndim)
    most = max(sum(array.nbytes for array in memory.values()) for memory in outcome.memories)
    said = algorithm.memory_bytes(6, len(world.clients))
    assert most == said if getattr(algorithm, "max_staleness", np.inf) == np.inf else most <= said
