"""An author's slip gets a sentence that names the class, the method, the file and what was wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import afbs
import tiny
from afbs.types import Ask, ClientInfo, Step, Update


@dataclass(frozen=True)
class Right(afbs.Algorithm[Any]):
    """A correct one; each test breaks one of its methods."""

    holds = False

    def init(self, clients: Sequence[ClientInfo]) -> Any:
        return ()

    def receive(self, state: Any, update: Update, key: Any) -> Any:
        return (), Step((update,))

    def apply(self, memory: Any, params: Any, step: Step, vectors: Any) -> Any:
        return memory, params - vectors[0]


def untyped(value: Any) -> Any:
    return value


def broken(**methods: Any) -> afbs.Algorithm[Any]:
    kind = type("Mine", (Right,), methods)
    return kind()


def keeps_all(self: Any, state: Any, update: Update, key: Any) -> Any:
    return (*state, update), None


def twice(self: Any, state: Any, update: Update, key: Any) -> Any:
    return (), Step((update, update))


def again(self: Any, state: Any, update: Update, key: Any) -> Any:
    return (update,), Step((*state, update))


CASES: dict[str, tuple[dict[str, Any], str, str]] = {
    "receive returns None": ({"receive": lambda *_: None}, "receive", "two things.*got None"),
    "receive returns a list": ({"receive": lambda *_: [1, 2]}, "receive", "two things.*got a list of 2"),
    "receive returns three values": ({"receive": lambda *_: (1, 2, 3)}, "receive", "two things.*a tuple of 3"),
    "receive returns text": ({"receive": lambda *_: ((), "step")}, "receive", "`Step` or None.*got a str"),
    "a step takes nothing": ({"receive": lambda *_: ((), Step(()))}, "receive", "takes no update; None is no step"),
    "a step with a list": (
        {"receive": lambda self, state, update, key: ((), Step(untyped([update])))},
        "receive",
        r"`Step.used` as a tuple of updates, got a list",
    ),
    "an update is used twice in a step": ({"receive": twice}, "receive", "names an update twice"),
    "an update is used again": ({"receive": again}, "receive", "an earlier step has used or dropped"),
    "updates are never used": ({"receive": keeps_all, "holds": True}, "receive", "neither used nor dropped"),
    "dispatch returns None": ({"dispatch": lambda *_: None}, "dispatch", "two things.*got None"),
    "dispatch returns a number": ({"dispatch": lambda *_: ((), 3)}, "dispatch", "a list of clients.*got a int"),
    "dispatch names text": ({"dispatch": lambda *_: ((), ["a"])}, "dispatch", "by their number, got 'a'"),
    "dispatch names an unknown client": ({"dispatch": lambda *_: ((), [999])}, "dispatch", "999, who does not exist"),
    "dispatch names a client twice": ({"dispatch": lambda *_: ((), [1, 1])}, "dispatch", "client 1, who has work"),
    "dispatch asks for both": ({"dispatch": lambda *_: ((), [Ask(1, 2, 3)])}, "dispatch", "epochs or so many steps"),
    "dispatch asks for less than nothing": ({"dispatch": lambda *_: ((), [Ask(1, -2)])}, "dispatch", "so many epochs"),
    "weigh returns None": ({"weigh": lambda *_: None}, "weigh", "a number for each update, got None"),
    "weigh returns too many": ({"weigh": lambda *_: (1.0, 2.0)}, "weigh", "1 finite numbers, one an update"),
    "weigh returns nan": ({"weigh": lambda *_: (float("nan"),)}, "weigh", "1 finite numbers"),
    "wake returns text": ({"wake": lambda *_: "soon"}, "wake", "a moment in seconds, or None, got 'soon'"),
    "wake returns nan": ({"wake": lambda *_: float("nan")}, "wake", "a moment in seconds"),
    "stalled returns a step": (
        {"dispatch": lambda *_: ((), []), "stalled": lambda *_: Step(())},
        "stalled",
        "two things",
    ),
    "notes cannot be written": (
        {"receive": lambda self, state, update, key: ((), Step((update,), notes={"x": object()}))},
        "receive",
        "notes that cannot be written as JSON",
    ),
    "too few reasons": (
        {"receive": lambda self, state, update, key: ((), Step((update,), why=("a", "b")))},
        "receive",
        "gives 2 reasons .* for 1 updates",
    ),
    "begin returns None": ({"begin": lambda *_: None}, "begin", "dictionary of arrays, got None"),
    "begin remembers text": ({"begin": lambda *_: {"a": "text"}}, "begin", "numbers under names; 'a' is a str"),
    "begin remembers an object": ({"begin": lambda *_: {"a": object()}}, "begin", "numbers under names"),
    "apply returns only the model": (
        {"apply": lambda self, memory, params, step, vectors: params},
        "apply",
        "two things, its memory and the model, got an array of float32",
    ),
    "apply returns float64": (
        {"apply": lambda self, memory, params, step, vectors: (memory, params.astype(np.float64))},
        "apply",
        "float32 numbers, got an array of float64",
    ),
    "apply returns another shape": (
        {"apply": lambda self, memory, params, step, vectors: (memory, params[:-1].copy())},
        "apply",
        "must return a model of",
    ),
    "apply returns a list": ({"apply": lambda *_: ({}, [1.0])}, "apply", "got a list of 1"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_slip_is_named(case: str, tmp_path: Path) -> None:
    methods, method, sentence = CASES[case]
    with pytest.raises(afbs.UserError, match=rf"`Mine\.{method}`.*{sentence}") as told:
        tiny.run(tmp_path, algorithm=broken(**methods))
    if method in methods and callable(methods[method]):
        assert "test_own_algorithms.py, line" in str(told.value)


@pytest.mark.parametrize("counter", [0, np.int64(0), np.float32(0.5), True, np.zeros(3)])
def test_numbers_can_be_remembered_and_come_back_from_a_checkpoint(counter: Any, tmp_path: Path) -> None:
    def begin(self: Any, params: Any) -> Any:
        return {"t": counter}

    def apply(self: Any, memory: Any, params: Any, step: Step, vectors: Any) -> Any:
        return {"t": memory["t"] + 1}, params - vectors[0] / np.float32(1 + memory["t"].sum())

    mine = broken(begin=begin, apply=apply)
    whole = tiny.run(tmp_path, algorithm=mine, **{"run.checkpoint_seconds": 0.0})
    folder = tmp_path / "stopped"
    stops = iter([False] * 6 + [True])

    def stop(progress: Any) -> None:
        if progress.version >= 5 and next(stops, False):
            raise KeyboardInterrupt

    with pytest.raises(afbs.Interrupted):
        afbs.run(tiny.TINY, folder=folder, algorithm=mine, on_progress=stop)
    assert afbs.resume(folder, algorithm=mine).params.tobytes() == whole.params.tobytes()


def test_asking_for_facts_without_a_look_says_what_is_missing(tmp_path: Path) -> None:
    def receive(self: Any, state: Any, update: Update, key: Any) -> Any:
        return (), Step((update,), notes=dict(update.facts()))

    with pytest.raises(afbs.UserError, match=r"must say what to look at: its method `look`"):
        tiny.run(tmp_path, algorithm=broken(receive=receive))


@pytest.mark.parametrize("facts", [None, [1.0], {"a": float("nan")}, {"a": object()}])
def test_facts_are_finite_numbers_under_names(facts: Any, tmp_path: Path) -> None:
    def receive(self: Any, state: Any, update: Update, key: Any) -> Any:
        return (), Step((update,), notes=dict(update.facts()))

    with pytest.raises(afbs.UserError, match=r"`Mine\.look`.*must return"):
        tiny.run(tmp_path, algorithm=broken(receive=receive, look=lambda *_: facts))


@pytest.mark.parametrize(
    ("duration", "sentence"),
    [
        (lambda *_: "long", "returned 'long'"),
        (lambda *_: None, "returned None"),
        (lambda *_: -5.0, "returned -5.0"),
        (lambda *_: 0.0, "returned 0.0"),
        (lambda *_: float("nan"), "returned nan"),
        (lambda *_: float("inf"), "returned inf"),
        (lambda self, client, start, key: 1e-300 if start > 0 else 5.0, "returned 1e-300"),
    ],
)
def test_a_latency_that_makes_no_sense_is_named(duration: Any, sentence: str, tmp_path: Path) -> None:
    kind = type("Mine", (afbs.Latency,), {"per": "job", "duration": duration})
    with pytest.raises(afbs.UserError, match=rf"`Mine\.duration` must return seconds above 0.*{sentence}"):
        tiny.run(tmp_path, latency=kind())


def test_what_a_users_code_raises_is_shown_with_their_frames_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = tmp_path / "explosive.py"
    module.write_text(
        "import afbs\n"
        "from dataclasses import dataclass\n"
        "@dataclass(frozen=True)\n"
        "class Boom(afbs.Algorithm):\n"
        "    def init(self, clients): return None\n"
        "    def receive(self, state, update, key): raise ZeroDivisionError('by design')\n"
        "    def apply(self, memory, params, step, vectors): return memory, params\n"
    )
    file = tiny.toml(tmp_path)
    code = tiny.command(monkeypatch, "run", file, "--set", "algorithm.name=explosive:Boom", "--runs", tmp_path / "runs")
    told = capsys.readouterr().err
    assert code == 1
    assert "explosive.py" in told
    assert "ZeroDivisionError: by design" in told.replace("\n", " ")
    assert "engine/plan.py" not in told
