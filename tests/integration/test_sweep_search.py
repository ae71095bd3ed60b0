"""Searching settings: on validation samples alone, the same after an interruption, and to some use."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w
from sklearn.datasets import load_digits

import afbs
from afbs.interfaces import Source
from afbs.sweeps import Cell, Sweep
from afbs.sweeps.searching import searched
from afbs.sweeps.settings import described
from afbs.sweeps.sweeping import planned
from afbs.types import Dataset
from tiny import TINY, command, settings

SEARCH = {"trials": 6, "batch": 2, "space": {"training.lr": {"low": 0.01, "high": 1.0, "log": True}}}
Enough = Callable[[Cell, Path], bool]


@dataclass(frozen=True)
class Played:
    """A result that is best at a learning rate of 0.1."""

    rate: float

    @property
    def final(self) -> float:
        return 1.0 - abs(np.log10(self.rate) + 1.0)


def play(batch: Sequence[Cell], folder: Path, enough: Enough) -> Mapping[str, Any]:
    return {cell.id: Played(cell.config.training.lr) for cell in batch}


def trials(folder: Path) -> Any:
    return json.loads((folder / "search" / "trials.json").read_text())["trials"]


def search(folder: Path, run: Any = play, tables: Mapping[str, Any] = TINY, **changes: Any) -> list[Cell]:
    sweep = {"grid": {"algorithm.name": ["afbs", "fedbuff"], "run.seed": [1, 2]}, "search": {**SEARCH, **changes}}
    return searched(described({**tables, "sweep": sweep}), {}, folder, run)


def test_every_arm_is_compared_as_written_and_as_tuned(tmp_path: Path) -> None:
    cells = search(tmp_path)
    assert [(cell.arm, cell.seed) for cell in cells] == [
        ("afbs", 1),
        ("afbs", 2),
        ("fedbuff", 1),
        ("fedbuff", 2),
        ("afbs, tuned", 1),
        ("afbs, tuned", 2),
        ("fedbuff, tuned", 1),
        ("fedbuff, tuned", 2),
    ]
    assert {cell.config.training.lr for cell in cells[:4]} == {TINY["training"]["lr"]}
    best = max((trial for trial in trials(tmp_path) if trial["arm"] == "afbs"), key=lambda trial: trial["value"])
    assert cells[4].config.training.lr == best["training.lr"]
    assert all(cell.config.evaluation.validation == 0.0 for cell in cells)


@pytest.mark.parametrize("sampler", ["tpe", "random", "qmc"])
def test_a_search_that_was_interrupted_tries_what_it_would_have_tried(sampler: str, tmp_path: Path) -> None:
    search(tmp_path / "whole", sampler=sampler)
    batches = 0

    def interrupted(batch: Sequence[Cell], folder: Path, enough: Enough) -> Mapping[str, Any]:
        nonlocal batches
        batches += 1
        if batches in (2, 4):
            raise KeyboardInterrupt
        return play(batch, folder, enough)

    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            search(tmp_path / "parts", interrupted, sampler=sampler)
        with (tmp_path / "parts" / "search" / "journal.log").open("ab") as journal:
            journal.write(b'{"op_code":4,"wor')  # a line that was being written when its process was killed
    search(tmp_path / "parts", interrupted, sampler=sampler)
    assert trials(tmp_path / "parts") == trials(tmp_path / "whole")
    assert len(trials(tmp_path / "whole")) == 12


def test_a_trial_that_failed_counts_and_is_never_the_best(tmp_path: Path) -> None:
    def half(batch: Sequence[Cell], folder: Path, enough: Enough) -> Mapping[str, Any]:
        return dict(list(play(batch, folder, enough).items())[1::2])

    search(tmp_path, half)
    states = [trial["state"] for trial in trials(tmp_path)]
    assert states == ["FAIL", "COMPLETE"] * 6


@dataclass(frozen=True)
class Digits(Source):
    """Scikit-learn's digits with a test set that may be poisoned."""

    poisoned: bool = False

    def load(self) -> Dataset:
        data = load_digits()
        x, y = data.data.astype(np.float32) / 16, data.target.astype(np.int64)
        whole = Dataset(x[:800], y[:800], x[800:1000], y[800:1000], 10)
        if not self.poisoned:
            return whole
        return replace(whole, test_x=np.full((200, 64), np.nan, np.float32), test_y=np.full(200, -1))


def carried_out(batch: Sequence[Cell], folder: Path, enough: Enough) -> Mapping[str, afbs.Result]:
    outcome = Sweep("search", batch).run(folder, progress=False, enough=enough)
    assert outcome.failed == {}
    return outcome.results


def test_the_test_set_is_never_looked_at(tmp_path: Path) -> None:
    """Where a look would show: with a test set of nonsense that no run would accept, the search finds the same."""
    tables = {key: value for key, value in TINY.items() if key != "data"}
    for poisoned in (False, True):
        own = {**tables, "data": Digits(poisoned)}
        search(tmp_path / str(poisoned), carried_out, own, trials=2)
    assert trials(tmp_path / "False") == trials(tmp_path / "True")
    values = [trial["value"] for trial in trials(tmp_path / "True")]
    assert len(values) == 4
    assert min(values) > 0.1
    with pytest.raises(afbs.UserError, match="test sample"):
        afbs.run({**tables, "data": Digits(True)}, folder=tmp_path / "run", progress=False)


def test_a_trial_that_does_worse_than_most_is_given_up_early(tmp_path: Path) -> None:
    """Clients that hardly learn, after some that do."""
    tables = settings(evaluation__points=20, run__virtual_days=0.4)
    rates = [0.1, 0.2, 0.3, 0.1, 0.15, 1e-6]
    place = tmp_path / "search"
    place.mkdir()
    import optuna

    from afbs.sweeps.searching import _storage

    study = optuna.create_study(storage=_storage(place / "journal.log"), study_name="tiny", direction="maximize")
    for rate in rates:
        study.enqueue_trial({"training.lr": rate})
    space = {"training.lr": {"low": 1e-7, "high": 1.0, "log": True}}
    sweep = {"name": "tiny", "search": {"trials": 6, "batch": 5, "pruner": "median", "space": space}}
    searched(described({**tables, "sweep": sweep}), {}, tmp_path, carried_out)
    states = [trial["state"] for trial in trials(tmp_path)]
    assert states == ["COMPLETE"] * 5 + ["PRUNED"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"space": {}}, "must name what to search"),
        ({"space": {"training.lr": 3}}, "must be a list of choices, or have `low` and `high`"),
        ({"space": {"training.lr": {"low": 1.0, "high": 0.1}}}, "cannot be searched"),
        ({"space": {"run.seed": [1, 2]}}, "cannot be searched: it is `sweep.search.seed`"),
        ({"space": {"algorithm.name": ["afbs", "fedavg"]}}, "cannot be searched: it varies in the grid"),
        ({"sampler": "best"}, "`sweep.search.sampler`"),
        ({"tirals": 3}, "did you mean 'trials'"),
        ({"validation": 0.0}, "`sweep.search.validation` must be greater than 0"),
    ],
)
def test_what_is_wrong_with_a_search_is_said(changes: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(afbs.UserError, match=words):
        search(tmp_path, **changes)


def test_a_baseline_that_is_no_arm_is_found_before_anything_is_tried(tmp_path: Path) -> None:
    sweep = {"grid": {"algorithm.name": ["afbs", "fedbuff"]}, "search": SEARCH}
    with pytest.raises(afbs.UserError, match=r"there is no arm 'tuned'; there are: .*; 'fedbuff, tuned'\."):
        afbs.sweep({**TINY, "sweep": {**sweep, "baseline": "tuned"}}, folder=tmp_path / "sweep", progress=False)
    assert not (tmp_path / "sweep").exists()
    assert planned(described({**TINY, "sweep": {**sweep, "baseline": "afbs, tuned"}})).baseline == "afbs, tuned"


def test_what_a_search_found_is_told_under_the_table_and_kept_with_the_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table = {"search": {"trials": 1, "space": {"training.lr": [0.05]}}, "name": "mine"}
    path = tmp_path / "mine.toml"
    path.write_text(tomli_w.dumps({**TINY, "sweep": table}))
    results = tmp_path / "results"
    assert command(monkeypatch, "sweep", path, "--folder", tmp_path / "sweep", "--results", results) == 0
    assert "mine, tuned: training.lr = 0.05\n" in capsys.readouterr().out
    kept = json.loads((results / "trials.json").read_text())
    assert kept["best"] == {"mine": {"training.lr": 0.05}}
    assert len(kept["trials"]) == 1


@pytest.mark.long
def test_the_example_improves_both(tmp_path: Path) -> None:
    path = Path(__file__).parents[2] / "examples" / "search-lr.toml"
    table = afbs.sweep(path, folder=tmp_path, progress=False).table
    for arm in ("fedbuff", "afbs"):
        assert table.loc[f"{arm}, tuned", "final_accuracy"] > table.loc[arm, "final_accuracy"]
