"""The live page in a real browser: a run grows before its eyes, and every step can be looked at."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from browser import chromium, faults, page, picture
from serving import served
from synthetic import write_run

pytestmark = pytest.mark.browser
FACT = "document.getElementById('facts').innerText.split('\\n{}\\n')[1].split('\\n')[0]"


class Stage(NamedTuple):
    address: str
    folder: Path
    rest: list[str]

    def play(self, lines: int) -> None:
        """The run writes on."""
        with (self.folder / "events.jsonl").open("a") as file:
            file.writelines(self.rest[:lines])
        del self.rest[:lines]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """An AFBS run that stands in the middle, an ended FedBuff run, a killed CA2FL run, and one that nobody can read."""
    root = tmp_path_factory.mktemp("live")
    (root / "strange").mkdir()
    (root / "strange" / "meta.json").write_text('{"schema": 99}')
    shared: dict[str, Any] = {"clients": 120, "in_flight": 24, "horizon": 400_000.0}
    write_run(root / "old", "fedbuff", name="yesterday <b>", **shared)
    killed = write_run(root / "killed", "ca2fl", name="died at night", ended=False, **shared)
    os.utime(killed / "events.jsonl", (1e9, 1e9))
    folder = write_run(root / "new", "afbs", name="today", **shared)
    lines = (folder / "events.jsonl").read_text().splitlines(keepends=True)
    steps = [i for i, line in enumerate(lines) if '"event": "step"' in line]
    half = next(i for i in range(steps[len(steps) // 2], len(lines)) if waiting(lines[:i]) == 6)
    (folder / "events.jsonl").write_text("".join(lines[:half]))
    (folder / "result.json").unlink()
    with served(root) as address:
        yield Stage(address, folder, lines[half:])


def waiting(lines: list[str]) -> int:
    """How many updates have arrived since the last step."""
    number = 0
    for line in lines:
        event = json.loads(line)["event"]
        number = 0 if event == "step" else number + (event == "arrival")
    return number


def visit(tab: Any, stage: Stage) -> Any:
    tab.goto(stage.address)
    tab.wait_for_selector("body[data-ready]")
    return tab


@pytest.fixture(scope="module")
def desk(browser: Any, stage: Stage) -> Iterator[Any]:
    with page(browser, 1440) as tab:
        yield visit(tab, stage)


def seen(tab: Any, name: str) -> str:
    return str(tab.evaluate(FACT.format(name)))


def test_it_opens_with_the_run_that_is_going(desk: Any) -> None:
    assert desk.locator("h1").inner_text() == "today · seed 1"
    assert desk.locator("#state").inner_text() == "running"
    assert desk.locator("#list li").count() == 4
    assert "schema 99" in desk.locator("#list button[disabled]").get_attribute("title")
    assert "about" in desk.locator("#facts").inner_text()


@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_every_chart_is_drawn_everything_fits_and_can_be_read(desk: Any, scheme: str) -> None:
    desk.emulate_media(color_scheme=scheme)
    desk.wait_for_function("(wanted) => document.documentElement.dataset.theme === wanted", arg=scheme)
    assert faults(desk) == []
    picture(desk, f"live-desk-{scheme}", whole=True)


def test_what_is_appended_is_shown(desk: Any, stage: Stage) -> None:
    steps = int(seen(desk, "steps"))
    stage.play(250)
    desk.wait_for_function(f"() => Number({FACT.format('steps')}) > {steps}")


def test_the_buffer_shows_as_many_updates_as_wait(desk: Any, stage: Stage) -> None:
    number = waiting((stage.folder / "events.jsonl").read_text().splitlines())
    desk.wait_for_function(f"() => document.querySelectorAll('#slots .full').length === {number}")
    assert desk.locator("#filled").inner_text() == f"{number} of 10"


def test_a_step_shows_its_best_its_dropped_corner_and_its_reasons(desk: Any) -> None:
    desk.locator("#back").click()
    assert desk.locator("#latest").get_attribute("aria-pressed") == "false"
    version = desk.locator("#flush-name").inner_text()
    chart = "document.getElementById('chart-flush')"
    stars = desk.evaluate(f"{chart}.data.filter((t) => t.marker.symbol === 'star').length")
    assert stars == desk.evaluate(f"{chart}.layout.shapes.length") >= 1
    fates = desk.locator("#fates tbody tr td:last-child").all_inner_texts()
    assert len(fates) == 10
    assert sum(fate == "kept: best of its cluster" for fate in fates) == stars
    desk.locator("#forth").click()
    assert desk.locator("#flush-name").inner_text() != version
    desk.locator("#latest").click()
    assert desk.locator("#latest").get_attribute("aria-pressed") == "true"


def test_what_was_dropped_lies_in_a_shaded_corner(desk: Any) -> None:
    """Every dropped update is staler and smaller than the star of its cluster."""
    inside = desk.evaluate(
        """() => {
          const { data, layout } = document.getElementById("chart-flush");
          const dropped = data.filter((trace) => trace.marker.symbol === "x-thin");
          return dropped.every((trace) => trace.x.every((x, i) => layout.shapes.some(
            (corner) => corner.line.color === trace.marker.color && x > corner.x0 && trace.y[i] < corner.y1)));
        }"""
    )
    assert inside


def test_runs_can_be_overlaid_found_and_told_apart(desk: Any) -> None:
    desk.fill("#find", "fedbuff")
    assert desk.locator("#list li").count() == 1
    assert desk.locator("#list b").count() == 0
    desk.locator("#list input[type=checkbox]").check()
    desk.wait_for_function("() => document.getElementById('chart-curves').data.filter((t) => t.x.length).length === 2")
    names = desk.evaluate("document.getElementById('chart-curves').data.map((t) => t.line.dash)")
    assert len(set(names)) == 2
    desk.fill("#find", "")
    desk.locator("#arms button", has_text="yesterday").click()
    desk.wait_for_function("() => document.getElementById('state').textContent.startsWith('ended')")
    assert "all of them count" in desk.locator("#flush-reading").inner_text()
    assert faults(desk) == []


def test_a_killed_run_shows_what_it_left(desk: Any) -> None:
    desk.locator("#list button", has_text="died at night").click()
    desk.wait_for_function("() => document.getElementById('state').textContent === 'silent: killed or waiting'")
    assert seen(desk, "time left") == "–"
    assert faults(desk) == []


def test_the_list_can_be_used_with_the_keyboard(desk: Any) -> None:
    desk.locator("#find").focus()
    desk.keyboard.press("Tab")
    desk.keyboard.press("Tab")
    focused = desk.evaluate("document.activeElement.dataset.key")
    assert focused.startswith("run ")
    desk.keyboard.press("Enter")
    chosen = "document.querySelector('li[data-chosen]').dataset.id"
    desk.wait_for_function(f"() => {chosen} === document.activeElement.dataset.key.slice(4)")


def test_it_fits_a_phone_and_shows_the_end(browser: Any, stage: Stage) -> None:
    with page(browser, 390, "dark") as tab:
        visit(tab, stage)
        assert faults(tab) == []
        picture(tab, "live-phone-dark")
        stage.play(len(stage.rest))
        tab.locator("#list button", has_text="today").click()
        tab.wait_for_function("() => document.getElementById('state').textContent === 'ended: horizon'")
        assert tab.locator("#progress").evaluate("(bar) => bar.value") == 1
