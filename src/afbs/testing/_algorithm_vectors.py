"""What an algorithm computes: from what it is lent, the same each time, and nothing that a file cannot hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from safetensors.numpy import load, save

from afbs.engine.answers import checked_memory, checked_model, lent
from afbs.testing._algorithm_case import SIZE, Case, anew
from afbs.types import Memory, Step, Vector


def _lent(case: Case) -> None:
    """it computed with vectors that it was only lent"""
    algorithm, outcome = case.algorithm, case.run()
    rng = np.random.default_rng(0)
    for version, step in enumerate(outcome.steps[:12]):
        if not step.used:
            continue
        rows = rng.normal(size=(len(step.used), SIZE)).astype(np.float32)
        params, memory = outcome.models[version], outcome.memories[version]
        names = list(memory)
        answer = algorithm.apply(memory, params, step, lent(rows))
        kept, model = checked_model(algorithm, answer, SIZE)
        kept = checked_memory(algorithm, "apply", kept)
        assert list(memory) == names, "`apply` changed the memory that it was given; it must return a new one."
        again = algorithm.apply(memory, params, step, lent(rows))
        assert _bytes(again) == _bytes(answer), "`apply` answered differently when it was asked again."
        for name, array in {"the model": model, **kept}.items():
            shared = np.shares_memory(array, rows)
            assert not shared, f"`apply` keeps vectors that it was only lent ({name}); it must copy them."


def _bytes(answer: tuple[Memory, Vector]) -> dict[str, bytes]:
    memory, model = answer
    return {"the model": model.tobytes(), **{name: np.asarray(kept).tobytes() for name, kept in memory.items()}}


def _finite(case: Case) -> None:
    """all models were finite"""
    outcome = case.run()
    for version, (model, memory) in enumerate(zip(outcome.models, outcome.memories, strict=True)):
        assert np.isfinite(model).all(), f"Version {version} of the model is not finite."
        for name, kept in memory.items():
            sound = np.isfinite(kept).all()
            assert sound, f"What is remembered as {name!r} is not finite: was it only lent?"


def _without(case: Case) -> None:
    """an update whose vector is not finite had to be left out"""
    algorithm, outcome = case.algorithm, case.run()
    nobody = tuple(algorithm.weigh(()))
    assert nobody == (), f"`weigh` has weights for no updates: {nobody}."
    for version, step in enumerate(outcome.steps[:-1]):
        if len(step.used) < 2:
            continue
        weights = algorithm.weigh(step.used[1:])
        number = len(step.used) - 1
        assert len(weights) == number, f"`weigh` has {len(weights)} weights for {number} updates."
        rest = step._replace(used=step.used[1:], weights=weights, why=())
        memory, model = algorithm.apply(outcome.memories[version], outcome.models[version], rest, _ones(rest))
        following = outcome.steps[version + 1]
        if following.used:
            model = algorithm.apply(memory, model, following, _ones(following))[1]
        assert np.isfinite(model).all(), "Without one update of a step the model is not finite."


def _ones(step: Step) -> Any:
    return lent(np.ones((len(step.used), SIZE), np.float32))


def _memory(case: Case) -> None:
    """its memory was measured"""
    outcome = case.run(horizon=200)
    most = max(sum(array.nbytes for array in memory.values()) for memory in outcome.memories)
    said = case.algorithm.memory_bytes(SIZE, case.number)
    size = f"with {SIZE} numbers in the model and {case.number} clients"
    assert most <= said, f"`memory_bytes` says {said} bytes {size}, and it remembers {most}."


def _files(case: Case) -> None:
    """it was taken up again from files"""
    whole = case.run(horizon=120)
    middle = len(whole.models) // 2
    model = load(save({"model": whole.models[middle].copy()}))["model"]
    memory = load(save({name: np.array(kept) for name, kept in whole.memories[middle].items()}))
    algorithm = anew(case.algorithm)
    for version, step in list(enumerate(whole.steps, start=1))[middle:]:
        if step.used:
            memory, model = algorithm.apply(memory, model, step, lent(whole.rows(algorithm, step)))
        same = model.tobytes() == whole.models[version].tobytes()
        assert same, "Taken up again from a file, it makes another model: it remembers what is not in its memory."


COMPUTING: tuple[Callable[[Case], None], ...] = (_lent, _finite, _without, _memory, _files)
