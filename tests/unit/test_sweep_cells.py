"""Which cells a table `[sweep]` describes, and what they are called."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import afbs
from afbs.sweeps import Cell, Sweep
from afbs.sweeps.settings import described, expanded
from tiny import TINY, settings

ROOT = Path(__file__).parents[2]
SWEEPS = sorted(path for path in ROOT.glob("examples/**/*.toml") if "\n[sweep" in path.read_text())


def cells(sweep: dict[str, Any], **overrides: Any) -> list[Cell]:
    return expanded(described({**TINY, "sweep": sweep}), overrides)


def test_a_grid_is_every_combination_and_the_last_setting_changes_fastest() -> None:
    found = cells({"grid": {"algorithm.name": ["afbs", "fedbuff"], "training.lr": [0.1, 0.5], "run.seed": [1, 2]}})
    assert [cell.name for cell in found] == [
        "afbs, lr=0.1, seed 1",
        "afbs, lr=0.1, seed 2",
        "afbs, lr=0.5, seed 1",
        "afbs, lr=0.5, seed 2",
        "fedbuff, lr=0.1, seed 1",
        "fedbuff, lr=0.1, seed 2",
        "fedbuff, lr=0.5, seed 1",
        "fedbuff, lr=0.5, seed 2",
    ]
    last = found[-1].config
    assert (last.tables["algorithm"]["name"], last.training.lr, last.run.seed) == ("fedbuff", 0.5, 2)
    assert found[-1].arm == "fedbuff, lr=0.5"


def test_an_alternative_changes_several_settings_at_once() -> None:
    alternatives = {
        "plain": {},
        "eager": {"algorithm": {"name": "fedbuff", "buffer_size": 2}, "training.lr": 0.3},
    }
    found = cells({"alternatives": alternatives, "grid": {"run.seed": [5, 6]}})
    assert [(cell.arm, cell.seed) for cell in found] == [("plain", 5), ("plain", 6), ("eager", 5), ("eager", 6)]
    eager = found[2].config
    assert (eager.tables["algorithm"]["buffer_size"], eager.training.lr) == (2, 0.3)


def test_settings_of_the_grid_need_no_quotes(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('[data]\nname = "digits"\n[sweep.grid]\nalgorithm.name = ["fedavg"]\nrun.seed = [3]\n')
    what = described(file)
    assert what.settings.name == "mine"
    assert [cell.name for cell in expanded(what)] == ["fedavg, seed 3"]


def test_settings_of_one_name_in_two_tables_are_told_apart() -> None:
    grid = {"evaluation.every": [5], "partition.clusters": [2], "clusters.number": [2], "evaluation.points": [3]}
    assert cells({"grid": grid})[0].arm == "every=5, clusters=2, number=2, points=3"
    grid = {"model.hidden": [4], "algorithm.hidden": [4]}
    with pytest.raises(afbs.UserError, match=r"model\.hidden=4, algorithm\.hidden=4"):
        cells({"grid": grid})


def test_an_id_depends_on_what_decides_a_run_and_on_nothing_else() -> None:
    (plain,) = cells({})
    assert plain.id == cells({}, **{"executor.name": "processes", "run.checkpoint_seconds": 1.0})[0].id
    assert plain.id != cells({}, **{"training.lr": 0.2})[0].id
    assert plain.id != cells({}, **{"run.seed": 2})[0].id


def test_data_in_memory_are_part_of_an_id() -> None:
    labels = np.arange(40) % 2

    def digest(first: float) -> str:
        samples = np.zeros((40, 3), np.float32)
        samples[0, 0] = first
        return Cell("a", afbs.configure(settings(), {"data": (samples, labels)}), "a").digest

    assert digest(1.0) == digest(1.0)
    assert digest(1.0) != digest(2.0)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"gird": {}}, "did you mean 'grid'"),
        ({"grid": {"run.seed": 3}}, "must be a list of values to try, got 3"),
        ({"grid": {"run.seed": []}}, "must be a list of values"),
        ({"grid": {"run.seed": [1, 1]}}, "has 1 twice"),
        ({"grid": {"training.rate": [1.0]}}, "cell 'rate=1': There is no setting `training.rate`"),
        ({"alternatives": {"a": 3}}, "must be a table of settings"),
        (
            {"alternatives": {"a": {"training.lr": 1}}, "grid": {"training.lr": [2]}},
            "a` sets `training.lr`",
        ),
        ({"alternatives": {"a": {"training": {"lr": 1}}}, "grid": {"training.lr": [2]}}, "take it out of one of them"),
        ({"test": "anova"}, "`sweep.test`"),
        ({"grid": {"run.seed": list(range(1000)), "training.lr": [float(i + 1) for i in range(1000)]}}, "1,000,000"),
        ({"grid": 3}, r"`\[sweep.grid\]` must be a table, got 3"),
        ({"baseline": {"a": 1}}, "`sweep.baseline` must be a valid string"),
        ({"grid": {"run.seed": [10**5000]}}, "`run.seed` .* got a number of about 5,001 digits"),
        (3, "must be a table"),
    ],
)
def test_what_is_wrong_with_a_sweep_is_said(table: Any, words: str) -> None:
    with pytest.raises(afbs.UserError, match=words):
        cells(table)


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"training.lr": 0.5}, r"`training\.lr` cannot be set for the whole sweep: it varies in `\[sweep\.grid\]`"),
        ({"training": {"lr": 0.5}}, r"`training\.lr` .* `\[sweep\.grid\]`"),
        ({"run.seed": 5}, r"`run\.seed` .* `\[sweep\.grid\]`"),
        ({"algorithm.name": "fedbuff"}, r"`algorithm\.name` .* `\[sweep\.alternatives\.plain\]`"),
        ({"algorithm": "fedbuff"}, r"`algorithm\.name` .* `\[sweep\.alternatives\.plain\]`"),
        ({"algorithm": object()}, r"`algorithm\.name` .* `\[sweep\.alternatives\.plain\]`"),
        ({"training.epochs": 3}, r"`training\.epochs` .* `\[sweep\.search\.space\]`"),
    ],
)
def test_what_varies_cannot_be_set_for_all_cells(overrides: dict[str, Any], words: str) -> None:
    alternatives = {"plain": {"algorithm": {"name": "fedavg"}}, "own": {"algorithm.name": "fedasync"}}
    sweep = {
        "grid": {"training.lr": [0.05, 0.1], "run.seed": [1, 2]},
        "alternatives": alternatives,
        "search": {"space": {"training.epochs": [1, 2]}},
    }
    with pytest.raises(afbs.UserError, match=words):
        cells(sweep, **overrides)
    assert len(cells(sweep, **{"partition.clients": 10, "algorithm": {}, "training": {"batch_size": 8}})) == 8


@pytest.mark.parametrize("name", ["/", "..", "../elsewhere", "a/b", "a\0b", "é" * 101])
def test_a_sweep_is_not_called_what_no_folder_can_be(name: str) -> None:
    with pytest.raises(afbs.UserError, match=r"`sweep.name` must be a name that a folder can have"):
        afbs.sweep({**TINY, "sweep": {"name": name, "grid": {"run.seed": [1]}}})
    with pytest.raises(afbs.UserError, match=r"`sweep.name` must be a name that a folder can have"):
        Sweep(name, {"a": TINY}).run()


def test_a_baseline_must_be_an_arm() -> None:
    with pytest.raises(afbs.UserError, match="there is no arm 'fedavg'; there are: 'a, lr=1'; 'b'"):
        Sweep("mine", {"a, lr=1": TINY, "b": settings(training__lr=0.3)}, baseline="fedavg")


def test_cells_that_differ_by_their_seed_are_one_arm() -> None:
    mine = Sweep("mine", {"a": TINY, "b": settings(run__seed=2), "c": settings(training__lr=0.3)})
    assert [(cell.name, cell.arm) for cell in mine.cells] == [("a", "a"), ("b", "a"), ("c", "c")]


def test_settings_of_the_sweep_can_be_set_like_others() -> None:
    table = {"metric": "final", "grid": {"training.lr": [0.1, 0.2]}, "search": {"trials": 9}}
    changes = {"sweep.metric": "best", "sweep.grid.training.lr": [0.3], "sweep.search.trials": 2}
    chosen = described({**TINY, "sweep": table}, changes).settings
    assert (chosen.metric, chosen.grid, chosen.search) == ("best", {"training.lr": [0.3]}, {"trials": 2})
    assert table == {"metric": "final", "grid": {"training.lr": [0.1, 0.2]}, "search": {"trials": 9}}
    with pytest.raises(afbs.UserError, match=r"There is no setting `sweep\.metrik`.*did you mean 'metric'"):
        described({**TINY, "sweep": table}, {"sweep.metrik": "best"})


def test_a_file_without_a_sweep_is_not_swept() -> None:
    with pytest.raises(afbs.UserError, match=r"There is no table `\[sweep\]`"):
        afbs.sweep(TINY)
    with pytest.raises(afbs.UserError, match=r"^There is no table `\[sweeps\]`.*did you mean 'sweep'"):
        afbs.sweep({**TINY, "sweeps": {}})


def test_a_configuration_with_a_sweep_is_not_run_as_one(tmp_path: Path) -> None:
    with pytest.raises(afbs.UserError, match="afbs sweep"):
        afbs.run({**TINY, "sweep": {}}, folder=tmp_path / "run")


@pytest.mark.parametrize("path", SWEEPS, ids=lambda path: path.stem)
def test_every_example_of_a_sweep_has_cells(path: Path) -> None:
    assert expanded(described(path))


def test_the_process_that_conducts_a_sweep_does_not_load_torch() -> None:
    """Its cells do, each in its own process; waiting for it before they are begun would be time lost to all cores."""
    script = (
        "import sys; from afbs.sweeps import sweeping; from afbs.sweeps.settings import described, expanded; "
        f"assert expanded(described({str(SWEEPS[0])!r})); print('torch' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert said == "False\n"
