"""What a notebook's user may rely on: names, objects of one's own, and that they need no edit inside the package."""

from __future__ import annotations

import inspect
import json
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest
import torch
from annotated_types import Ge
from torch import Tensor, nn

import afbs
from afbs.interfaces import Algorithm, Source
from afbs.types import Dataset, Step, Update
from synthetic import write_small
from tiny import TINY, run


def points(number: int = 300) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(number, 4)).astype(np.float32)
    return x, (x[:, 0] > 0).astype(np.int64) + 2 * (x[:, 1] > 0)


def test_the_names_that_stay() -> None:
    names = {"Result", "RunError", "UserError", "compare", "gradient_select", "load", "resume", "run"}
    assert names <= set(afbs.__all__)
    assert names <= set(dir(afbs))
    assert all(callable(getattr(afbs, name)) for name in names)
    with pytest.raises(AttributeError, match="has no attribute 'rum'"):
        _ = afbs.rum


@pytest.mark.parametrize("name", ["run", "resume", "compare", "sweep", "serve", "load", "populate"])
def test_the_page_about_python_tells_of_every_argument(name: str) -> None:
    """`overrides` are told of by example."""
    page = (Path(__file__).parents[2] / "docs" / "python.md").read_text()
    assert f"{name}(" in page
    told = set(inspect.signature(getattr(afbs, name)).parameters) - {"overrides", "source"}
    assert {argument for argument in told if not re.search(rf"\b{argument}\b", page)} == set()


def test_importing_the_package_imports_nothing_heavy() -> None:
    script = "import afbs, sys; print([m for m in ('torch', 'numpy', 'pandas', 'sklearn') if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_gradient_select_on_plain_lists() -> None:
    # Scores V / (τ + 1)²: 100/16 = 6.25, 40/4 = 10, 30/9, 39/1 = 39. The last leads; dropped is only who is both staler
    # and smaller than it: the third (30 < 39). The second has more data, the first too.
    kept = afbs.gradient_select([100, 40, 30, 39], [3, 1, 2, 0], survival="none")
    assert kept.dtype == bool
    assert kept.tolist() == [True, True, False, True]
    drawn = afbs.gradient_select([100, 40, 30, 39], [3, 1, 2, 0], [0, 0, 0, 0], rng=np.random.default_rng(1))
    assert drawn.tolist()[:2] == [True, True]
    with pytest.raises(afbs.UserError, match="`rng` is needed"):
        afbs.gradient_select([1, 2], [0, 1])


def test_a_result_has_a_table_numbers_and_the_model(tmp_path: Path) -> None:
    result = run(tmp_path)
    assert list(result.history.columns) == ["time", "version", "accuracy", "loss", "f1", "wall"]
    assert result.best == result.history.accuracy.max()
    assert result.final == result.history.accuracy.iloc[-1]
    assert result.time_to(0.0) == 0.0
    assert result.time_to(1.1) is None
    assert result.params.dtype == np.float32
    assert result.folder == tmp_path / "run"
    loaded = afbs.load(result.folder)
    assert loaded.params.tobytes() == result.params.tobytes()
    assert loaded.history.equals(result.history)


def test_a_killed_run_says_when_it_reached_its_target(tmp_path: Path) -> None:
    """Evaluated every 100 s; the third time it is above 60 %."""
    target = {"evaluation": {"target": 0.6}}
    killed = afbs.load(write_small(tmp_path / "run", [0.1, 0.5, 0.7, 0.6], config=target, ended=False))
    assert not killed.done
    assert killed.summary()["time_to_target"] == 200.0


def test_compare_gives_a_row_for_each(tmp_path: Path) -> None:
    table = afbs.compare([TINY, {**TINY, "name": "other", "algorithm": {"name": "fedavg"}}], runs=tmp_path)
    assert table.index.tolist() == ["tiny", "other"]
    assert table.algorithm.tolist() == ["afbs", "fedavg"]
    assert table.loc["other", "dropped"] == 0
    assert (table.best_accuracy > 0.1).all()


def test_compare_refuses_a_wrong_configuration_before_it_runs_any(tmp_path: Path) -> None:
    with pytest.raises(afbs.UserError):
        afbs.compare([TINY, {**TINY, "algorithm": {"name": "nope"}}], runs=tmp_path)
    assert not list(tmp_path.iterdir())


class Net(nn.Module):
    def __init__(self, shape: tuple[int, ...], classes: int, hidden: int = 6):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.LazyLinear(hidden), nn.ReLU(), nn.Linear(hidden, classes))

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


@pytest.mark.parametrize("model", [Net, {"name": Net, "hidden": 3}, lambda shape, classes: Net(shape, classes, 4)])
def test_a_model_of_ones_own(model: Any, tmp_path: Path) -> None:
    result = run(tmp_path, model=model)
    assert result.best > 0.2


def test_a_model_without_arguments_is_built_as_it_is(tmp_path: Path) -> None:
    result = run(tmp_path, model=lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 10)))
    assert len(result.params) == 650


class Pairs(torch.utils.data.Dataset):  # type: ignore[type-arg]
    def __len__(self) -> int:
        return 300

    def __getitem__(self, number: int) -> tuple[Tensor, int]:
        x, y = points()
        return torch.from_numpy(x[number]), int(y[number])


@dataclass(frozen=True)
class Points(Source):
    number: Annotated[int, Ge(100)] = 300

    def load(self) -> Dataset:
        x, y = points(self.number)
        return Dataset(x[50:], y[50:], x[:50], y[:50], classes=4)


def test_data_of_ones_own_as_arrays_as_a_torch_dataset_and_as_a_source(tmp_path: Path) -> None:
    x, y = points()
    results = {
        name: afbs.run(TINY, folder=tmp_path / name, data=data)
        for name, data in {
            "arrays": (x, y),
            "torch": Pairs(),
            "source": Points,
            "split": (x, y, x[:40], y[:40]),
        }.items()
    }
    assert all(result.best > 0.4 for result in results.values())
    assert results["arrays"].params.tobytes() == results["torch"].params.tobytes()


def test_data_of_ones_own_by_its_name_in_a_configuration(tmp_path: Path) -> None:
    result = afbs.run({**TINY, "data": {"name": "test_public_api:Points", "number": 200}}, folder=tmp_path / "run")
    assert result.record.clients.examples.sum() == 150


@dataclass(frozen=True)
class EveryOther(Algorithm[int]):
    """Uses every other update and drops the rest."""

    server_lr: Annotated[float, Ge(0)] = 1.0

    def init(self, clients: Sequence[Any]) -> int:
        return 0

    def receive(self, state: int, update: Update, key: Any) -> tuple[int, Step | None]:
        return state + 1, Step((update,)) if state % 2 == 0 else Step((), (update,))

    def weigh(self, used: Sequence[Update]) -> tuple[float, ...]:
        return (0.3,) * len(used)

    def apply(self, memory: Any, params: Any, step: Step, vectors: Any) -> Any:
        return memory, params - np.float32(self.server_lr * step.weights[0]) * vectors[0]


def test_an_algorithm_of_ones_own_as_an_object_a_class_and_by_its_name(tmp_path: Path) -> None:
    ways: dict[str, Any] = {
        "object": EveryOther(server_lr=1.0),
        "class": EveryOther,
        "name": {"name": "test_public_api:EveryOther"},
    }
    results = [afbs.run(TINY, folder=tmp_path / name, algorithm=way) for name, way in ways.items()]
    assert len({result.params.tobytes() for result in results}) == 1
    facts = results[0].record.result
    assert facts is not None
    assert facts["jobs"]["trained"] == facts["updates"]["used"]
    assert abs(facts["updates"]["dropped"] - facts["updates"]["used"]) <= 1
    with pytest.raises(afbs.UserError, match=r"`algorithm\.server_lr` must be greater than or equal to 0, got -1"):
        afbs.run(TINY, algorithm={"name": "test_public_api:EveryOther", "server_lr": -1.0})


def test_what_was_given_in_python_can_be_given_again_to_resume(tmp_path: Path) -> None:
    x, y = points()
    whole = afbs.run(TINY, folder=tmp_path / "whole", data=(x, y), model=Net)
    (whole.folder / "result.json").unlink()
    with pytest.raises(afbs.UserError, match=r"`data\.train_x` must be given"):
        afbs.resume(whole.folder)
    assert afbs.resume(whole.folder, data=(x, y), model=Net).params.tobytes() == whole.params.tobytes()


def test_a_scripts_own_classes_reach_the_workers_without_a_guard(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        "import afbs\n"
        "from torch import nn\n"
        "class Mine(nn.Module):\n"
        "    def __init__(self, shape, classes):\n"
        "        super().__init__()\n"
        "        self.dense = nn.Linear(64, classes)\n"
        "    def forward(self, x):\n"
        "        return self.dense(x.flatten(1))\n"
        "import json, sys\n"
        "result = afbs.run(json.loads(sys.argv[1]), model=Mine)\n"
        "print(result.best)\n"
    )
    tables = {**TINY, "executor": {"name": "processes", "workers": 1}, "model": {}}
    command = [sys.executable, "script.py", json.dumps(tables)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) > 0.2


def test_a_run_leaves_the_handling_of_ctrl_c_as_it_found_it(tmp_path: Path) -> None:
    def mine(number: int, frame: Any) -> None: ...

    before = signal.signal(signal.SIGINT, mine)
    try:
        run(tmp_path)
        assert signal.getsignal(signal.SIGINT) is mine
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_run_works_in_a_thread(tmp_path: Path) -> None:
    found: list[afbs.Result] = []
    thread = threading.Thread(target=lambda: found.append(run(tmp_path / "thread")))
    thread.start()
    thread.join()
    assert found[0].params.tobytes() == run(tmp_path / "main").params.tobytes()


def test_progress_is_reported_while_a_run_goes_on(tmp_path: Path) -> None:
    seen: list[Any] = []
    result = run(tmp_path, on_progress=seen.append)
    assert result.record.result is not None
    assert [state.version for state in seen] == sorted(state.version for state in seen)
    assert (seen[-1].time, seen[-1].version) == (0.15 * 86_400, result.record.result["versions"])
    assert seen[-1].value == result.final
