"""What is next: who is started with how many cores, and how long it will take. Cells are played by a script."""

from __future__ import annotations

import json
from collections import deque
from pathlib import Path
from typing import Any

import pytest

import afbs
from afbs.config import load
from afbs.sweeps import conducting
from afbs.sweeps._cell import News, share_done
from afbs.sweeps.cells import Cell
from afbs.sweeps.conducting import Conductor, State
from afbs.sweeps.estimate import Meter
from afbs.sweeps.ledger import Ledger
from tiny import settings


class Actor:
    """A runner whose cells say what `lines` has for them, one line a turn, in turns."""

    cores = widest = 1000

    def __init__(self, lines: dict[str, list[News]]):
        self.lines = {name: deque(said) for name, said in lines.items()}
        self.started: list[tuple[str, int]] = []
        self.stopped: list[str] = []
        self.running: dict[str, Cell] = {}
        self.most = 0

    def start(self, cell: Cell, folder: Path, cores: int) -> None:
        self.started.append((cell.name, cores))
        self.running[cell.id] = cell
        self.most = max(self.most, len(self.running))

    def news(self, seconds: float) -> list[tuple[str, News]]:
        key, cell = next(iter(self.running.items()))
        if key in self.stopped:
            self.stopped.remove(key)
            del self.running[key]
            return [(key, News("stopped", cpu=1.0))]
        told = self.lines[cell.name].popleft() if self.lines.get(cell.name) else News("done", 1.0, 10.0)
        if told.state != "going":
            del self.running[key]
        return [(key, told)]

    def stop(self, key: str) -> None:
        self.stopped.append(key)

    def close(self) -> None:
        self.running.clear()


def some(number: int, **changes: Any) -> list[Cell]:
    configs = [afbs.configure(settings(run__seed=seed, **changes)) for seed in range(1, number + 1)]
    return [Cell(str(config.run.seed), config, "one") for config in configs]


def conducted(
    tmp_path: Path, cells: list[Cell], actor: Actor, cores: int, states: list[State] | None = None
) -> tuple[bool, Ledger]:
    with Ledger(tmp_path, "played", cells) as ledger:
        seen = [] if states is None else states
        return Conductor(cells, ledger, actor, cores, seen.append).go(), ledger


def test_while_cells_are_many_each_has_one_core(tmp_path: Path) -> None:
    actor = Actor({})
    assert conducted(tmp_path, some(5, executor__name="processes"), actor, 2)[0]
    assert actor.started[:4] == [("1", 1), ("2", 1), ("3", 1), ("4", 1)]
    assert actor.most == 2


def test_cells_keep_their_order_until_few_are_left_of_which_the_longest_comes_first(tmp_path: Path) -> None:
    """A cell of each arm was paid for before: a's cost 10 s, c's 20 s, b's 30 s."""
    arms = {seed: arm for arm, seeds in {"a": (1, 4), "c": (2, 5), "b": (3, 6)}.items() for seed in seeds}
    cells = [Cell(cell.name, cell.config, arms[int(cell.name)]) for cell in some(6)]
    with Ledger(tmp_path, "played", cells) as ledger:
        ledger.costs = {cells[0].id: 10.0, cells[1].id: 20.0, cells[2].id: 30.0}
        actor = Actor({})
        Conductor(cells, ledger, actor, 1, lambda state: None).go()
    assert [name for name, _ in actor.started] == ["1", "2", "3", "6", "5", "4"]


def test_one_cell_has_all_cores(tmp_path: Path) -> None:
    actor = Actor({})
    conducted(tmp_path, some(1, executor__name="processes"), actor, 4)
    assert actor.started == [("1", 4)]


def test_cores_are_shared_out_evenly_and_none_is_left(tmp_path: Path) -> None:
    actor = Actor({})
    conducted(tmp_path, some(3, executor__name="processes"), actor, 8)
    assert actor.started == [("1", 2), ("2", 3), ("3", 3)]


def test_a_cell_gets_no_more_cores_than_it_asks_for(tmp_path: Path) -> None:
    actor = Actor({})
    conducted(tmp_path, some(1, executor__name="inline"), actor, 4)
    conducted(tmp_path, some(1, executor__name="processes", executor__workers=3), actor, 4)
    assert actor.started == [("1", 1), ("1", 3)]


def test_the_last_cell_is_stopped_and_taken_up_with_all_cores_if_that_is_worth_it(tmp_path: Path) -> None:
    """It needs 100 s a core for the rest, so a second core saves 50 s; with 4 s to go it would save 2."""
    for left, again in ((100.0, True), (4.0, False)):
        cost = left / 0.5
        told = [News("going", 0.1, 1.0), News("going", 0.5, 1.0 + 0.4 * cost), News("going", 0.5, 1.0 + 0.4 * cost)]
        actor = Actor({"1": [News("done", 1.0, 5.0)], "2": told})
        conducted(tmp_path / str(left), some(2, executor__name="processes"), actor, 2)
        assert actor.started == [("1", 1), ("2", 1), *([("2", 2)] if again else [])]


def test_a_cell_that_fails_is_named_and_the_others_go_on(tmp_path: Path) -> None:
    actor = Actor({"2": [News("failed", cpu=1.0, text="It broke.")]})
    cells = some(3)
    complete, ledger = conducted(tmp_path, cells, actor, 1)
    assert complete
    assert ledger.failed == {cells[1].id: "It broke."}
    assert [name for name, _ in actor.started] == ["1", "2", "3"]


def test_a_cell_that_somebody_else_stopped_has_failed(tmp_path: Path) -> None:
    complete, ledger = conducted(tmp_path, some(2), Actor({"1": [News("stopped")]}), 1)
    assert complete
    assert list(ledger.failed.values()) == ["Its process was stopped from outside. The same command goes on with it."]


def test_two_processes_do_not_sweep_one_folder(tmp_path: Path) -> None:
    with Ledger(tmp_path, "mine", some(1)), pytest.raises(afbs.UserError, match="by another process"):
        Ledger(tmp_path, "mine", some(1))


def test_nothing_is_expected_before_anything_was_measured() -> None:
    cells = some(2)
    meter = Meter(cells, {})
    assert meter.total() is None
    meter.going(cells[0].id, 0.0, 3.0)  # three seconds to start up
    assert meter.total() is None


def test_what_a_cell_costs_is_what_it_took_without_its_start() -> None:
    """From 10 % to 30 % it used 4 s, so the whole takes 20 s: 14 s are left of this, and 20 s for the other."""
    cells = some(2)
    meter = Meter(cells, {})
    meter.going(cells[0].id, 0.1, 3.0)
    meter.going(cells[0].id, 0.3, 7.0)
    assert meter.left(cells[0].id) == pytest.approx(14)
    assert meter.total() == pytest.approx(34)


def test_cells_of_an_arm_cost_alike_and_others_by_virtual_day() -> None:
    short, long = some(1)[0], some(1, run__virtual_days=0.3)[0]
    other = Cell("other", long.config, "other")
    meter = Meter([short, other], {short.id: 10.0}, [short.id])
    assert meter.total() == pytest.approx(20)  # twice the days


@pytest.mark.parametrize(
    ("changes", "share"),
    [
        ({}, 0.25),  # a day of four
        ({"run__versions": 10}, 0.5),  # five of ten versions
        ({"run__stop_when_lr_below": 1e-12}, 0.5),  # five of ten tenfold decays
        ({"run__stop_when_lr_below": 1e-5}, 1.0),  # five, where three were enough
        ({"run__stop_when_lr_below": 1e-4, "training__lr_decay_unit": "virtual_time"}, 0.75),  # one and a half of two
        ({"run__stop_when_lr_below": 1e-4, "training__lr_decay_unit": "none"}, 0.25),
        ({"run__stop_when_lr_below": 1e-4, "training__lr_decay": 1.0}, 0.25),
        ({"run__stop_when_lr_below": 1.0}, 0.25),
    ],
)
def test_how_much_of_a_cell_is_done_is_told_by_the_nearest_of_its_ends(changes: dict[str, Any], share: float) -> None:
    usual = {"training__lr": 0.01, "training__lr_decay": 0.1, "training__lr_decay_seconds": 57_600}
    config = load(settings(run__virtual_days=4, **{**usual, **changes}))
    assert share_done(config.tables, 86_400.0, 5) == pytest.approx(share)


def test_what_a_cell_cost_before_it_was_killed_is_not_taken_for_the_whole() -> None:
    """Its 3 s count until it has measured itself: from 40 % to 60 % it uses 8 s, so 16 s are left."""
    (cell,) = some(1)
    meter = Meter([cell], {cell.id: 3.0})
    assert meter.total() == pytest.approx(3)
    meter.going(cell.id, 0.4, 1.0)
    meter.going(cell.id, 0.6, 9.0)
    assert meter.total() == pytest.approx(16)


def test_what_cells_under_way_have_cost_is_written_down_before_they_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conducting, "_LEDGER_SECONDS", 0.0)
    cells = some(1)
    kept: list[dict[str, float]] = []

    def killed_now(state: State) -> None:
        known = json.loads((tmp_path / "sweep.json").read_text())["cells"]
        kept.append({key: row["cpu_seconds"] for key, row in known.items()})

    told = [News("going", 0.1, 2.0), News("going", 0.5, 6.0), News("done", 1.0, 9.0)]
    with Ledger(tmp_path, "played", cells) as ledger:
        ledger.costs = {cells[0].id: 1.0}  # before an earlier kill
        Conductor(cells, ledger, Actor({"1": told}), 1, killed_now).go()
    assert kept == [{cells[0].id: seconds} for seconds in (3.0, 7.0, 10.0)]


def test_costs_of_an_earlier_session_are_known(tmp_path: Path) -> None:
    cells = some(2)
    conducted(tmp_path, cells, Actor({"1": [News("failed", cpu=7.0, text="no")]}), 1)
    with Ledger(tmp_path, "played", cells) as ledger:
        assert ledger.costs == {cells[0].id: 7.0, cells[1].id: 10.0}
    (tmp_path / "sweep.json").write_text("{damaged")
    with Ledger(tmp_path, "played", cells) as ledger:
        assert ledger.costs == {}
