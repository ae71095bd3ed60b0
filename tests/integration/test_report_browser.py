"""The report in a real browser: it draws, answers, fits, can be read, and asks nobody for anything.

A page takes seconds to load, so the tests share two: one as wide as a desk, one as wide as a phone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from afbs.report import write
from browser import chromium, faults, page, picture
from synthetic import write_run

pytestmark = pytest.mark.browser
HOSTILE = "</script><img src=x onerror=alert(1)><b>\"'&${7*7}\u2028"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Three algorithms with three seeds each."""
    root = tmp_path_factory.mktemp("report")
    shared: dict[str, Any] = {"clients": 120, "in_flight": 24, "horizon": 400_000.0}
    for algorithm, ceiling in (("afbs", 0.93), ("fedbuff", 0.88), ("fedavg", 0.84)):
        for seed in (1, 2, 3):
            folder = root / "runs" / f"{algorithm}-{seed}"
            write_run(folder, algorithm, seed=seed, ceiling=ceiling, target=0.8, **shared)
    return write([root / "runs"], root / "report.html").as_uri()


@pytest.fixture(scope="module")
def desk(browser: Any, report: str) -> Iterator[Any]:
    with page(browser, 1440) as tab:
        asked: list[str] = []
        tab.on("request", lambda request: asked.append(request.url))
        tab.goto(report)
        tab.wait_for_selector("body[data-ready]")
        yield tab
        assert asked == [report], "the file asked somebody for something"


@pytest.fixture(scope="module")
def phone(browser: Any, report: str) -> Iterator[Any]:
    with page(browser, 390) as tab:
        tab.goto(report)
        tab.wait_for_selector("body[data-ready]")
        yield tab


@pytest.mark.parametrize("scheme", ["dark", "light"])
@pytest.mark.parametrize("where", ["desk", "phone"])
def test_every_chart_is_drawn_everything_fits_and_can_be_read(
    where: str, scheme: str, request: pytest.FixtureRequest
) -> None:
    tab = request.getfixturevalue(where)
    tab.emulate_media(color_scheme=scheme)
    tab.wait_for_function("(wanted) => document.documentElement.dataset.theme === wanted", arg=scheme)
    assert tab.locator(".chart").count() == 11
    assert faults(tab) == []
    picture(tab, f"report-{where}-{scheme}")


def test_targets_can_be_changed_and_agree_with_the_table(desk: Any) -> None:
    summary = desk.locator("#summary tbody tr").first.locator("td").nth(2).inner_text()
    desk.fill("#targets-input", "80")
    assert desk.locator("#targets-table tbody tr").first.locator("td").inner_text() == summary
    desk.fill("#targets-input", "40; 99.9")
    assert desk.locator("#targets-table thead th").all_inner_texts() == ["Arm", "40 %", "99.9 %"]
    row = desk.locator("#targets-table tbody tr").first.locator("td").all_inner_texts()
    assert "±" in row[0]
    assert row[1] == "not reached"
    desk.fill("#targets-input", "nonsense")
    assert desk.locator("#targets-input").get_attribute("aria-invalid") == "true"


def test_the_axis_and_the_metric_can_be_changed(desk: Any) -> None:
    title = "document.getElementById('chart-curves').layout.{}axis.title.text"
    for value, words in (("updates", "client updates"), ("version", "steps"), ("wall", "wall time")):
        desk.locator(f"input[name=axis][value={value}]").check(force=True)
        assert words in desk.evaluate(title.format("x"))
    desk.locator("input[name=metric][value=loss]").check(force=True)
    assert "loss" in desk.evaluate(title.format("y"))
    assert faults(desk) == []


def test_an_arm_can_be_hidden_everywhere_with_the_keyboard(desk: Any) -> None:
    arm = desk.locator("#arms button", has_text="FedBuff")
    arm.focus()
    desk.keyboard.press("Space")
    assert arm.get_attribute("aria-pressed") == "false"
    names = "document.getElementById('{}').data.map((trace) => trace.name).join()"
    assert "FedBuff" not in desk.evaluate(names.format("chart-curves"))
    assert "FedBuff" not in desk.evaluate(names.format("chart-staleness"))
    assert desk.evaluate("document.activeElement.innerText") == "FedBuff"
    desk.keyboard.press("Space")
    assert "FedBuff" in desk.evaluate(names.format("chart-curves"))


def test_every_control_is_reached_by_tab(desk: Any) -> None:
    desk.locator(".skip").focus()
    reached = set()
    for _ in range(80):
        desk.keyboard.press("Tab")
        reached.add(desk.evaluate("document.activeElement.id || document.activeElement.name"))
    pickers = {"buffer", "participation", "confusion", "clusters"}
    assert {"theme", "metric", "axis", "targets-input", *pickers} <= reached


def test_another_run_can_be_looked_at(desk: Any) -> None:
    assert desk.locator("#note-buffer").inner_text() == ""
    desk.locator("select[name=buffer]").select_option(label="FedAvg · seed 1")
    assert "never dropped anything" in desk.locator("#note-buffer").inner_text()
    desk.locator("select[name=confusion]").select_option(label="FedBuff")
    assert faults(desk) == []


def test_classes_have_their_names_where_the_data_has_some(browser: Any, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", horizon=40_000)
    meta = json.loads((run / "meta.json").read_text())
    names = ["<i>zero</i>", *(f"digit {i}" for i in range(1, 10))]
    (run / "meta.json").write_text(json.dumps(meta | {"class_names": names}))
    with page(browser) as tab:
        tab.goto(write([run], tmp_path / "report.html").as_uri())
        tab.wait_for_selector("body[data-ready]")
        for chart in ("classes", "confusion", "clusters"):
            assert "digit 7" in tab.locator(f"#chart-{chart}").text_content()
            assert "<i>zero</i>" in tab.locator(f"#chart-{chart}").text_content()
        assert (
            "digit" in tab.locator("#note-classes").inner_text() or "zero" in tab.locator("#note-classes").inner_text()
        )
        assert faults(tab) == []


def test_the_numbers_of_a_figure_can_be_read_as_a_table(desk: Any) -> None:
    rows = desk.locator("details[data-of=cost] tbody tr")
    desk.locator("details[data-of=cost] summary").click()
    rows.first.wait_for()  # a browser tells of what was opened a moment later
    assert rows.count() == 6


def test_the_page_can_be_darkened_and_charts_follow(desk: Any) -> None:
    colour = "document.getElementById('chart-targets').data.find((trace) => trace.name === 'AFBS').line.color"
    theme = "document.documentElement.dataset.theme"
    if desk.evaluate(theme) == "dark":  # another test may have left it so
        desk.locator("#theme").click()
    before = desk.evaluate(colour)
    desk.locator("#theme").click()
    assert desk.evaluate(theme) == "dark"
    assert desk.evaluate(colour) != before


def test_it_prints_on_light_paper(desk: Any) -> None:
    before = desk.evaluate("document.documentElement.dataset.theme")
    desk.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert desk.evaluate("document.documentElement.dataset.theme") == "light"
    assert desk.evaluate("document.getElementById('chart-curves').layout.width") == 660
    desk.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert desk.evaluate("document.documentElement.dataset.theme") == before


def test_hostile_names_are_shown_as_they_are(browser: Any, tmp_path: Path) -> None:
    mine, other = tmp_path / "runs" / "a", tmp_path / "runs" / "b"
    write_run(mine, horizon=40_000, name=HOSTILE, config={"training": {HOSTILE: HOSTILE}})
    write_run(other, "fedbuff", horizon=40_000, config={"data": {"name": HOSTILE}})
    meta = json.loads((mine / "meta.json").read_text())
    (mine / "meta.json").write_text(json.dumps(meta | {"title": HOSTILE, "git": HOSTILE, "created": HOSTILE}))
    address = write([tmp_path / "runs"], tmp_path / "report.html").as_uri()
    with page(browser, 390) as tab:
        tab.on("dialog", lambda dialog: pytest.fail("a name was run as a script"))
        tab.goto(address)
        tab.wait_for_selector("body[data-ready]")
        assert tab.locator("img").count() == 0
        assert tab.locator("main b").count() == 0
        assert "<img src=x onerror=alert(1)>" in tab.locator("h1").inner_text()
        assert "<img src=x" in tab.locator("#chart-cost").text_content()
        assert not [fault for fault in faults(tab) if "px wide" in fault]


def test_a_fault_would_be_noticed(phone: Any) -> None:
    """The other tests are worth something only if their eyes are open."""
    phone.evaluate("Plotly.react('chart-curves', [], {})")
    spoilt = "width: 900px; background: #fff; color: #aaa"  # on white, whether the page is light or dark by now
    phone.evaluate(f"document.querySelector('.verdict').style.cssText = '{spoilt}'")
    found = " ".join(faults(phone))
    assert "chart-curves is empty" in found
    assert "ends at" in found
    assert "contrast" in found
