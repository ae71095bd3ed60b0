"""The site: it builds without a warning, everything has an entry, every link leads somewhere, and it asks nobody."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag

import pytest
import typer

import afbs
from afbs import manual, registry
from afbs.cli import app
from afbs.config import TABLES
from browser import chromium, page

ROOT = Path(__file__).parents[2]
PACKAGES = ("afbs", "afbs.data", "afbs.nn", "afbs.apps", "afbs.testing", "afbs.sweeps")
TWO_CLICKS = {
    "how to deploy": "deploy.html",
    "how to resume": "howto/resume.html",
    "what `survival` does": "reference/settings/algorithm.html#algorithm-afbs-survival",
    "how to write an algorithm": "howto/own-algorithm.html",
}


class Reader(HTMLParser):
    """What a page links to, what it loads, and what can be linked to on it."""

    def __init__(self, text: str):
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.anchors |= {found[key] or "" for key in ("id", "name") if key in found}
        if tag == "a":
            self.links += [found["href"] or ""] if found.get("href") else []
        elif tag == "link":
            self.loads += [found["href"] or ""] if found.get("rel") in ("stylesheet", "icon", "preload") else []
        elif found.get("src"):
            self.loads.append(found["src"] or "")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    ended = subprocess.run(build, cwd=ROOT, env=quiet, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "WARNING" not in ended.stderr
    return folder


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def read(site: Path) -> dict[Path, Reader]:
    return {path: Reader(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}


def anchors(read: dict[Path, Reader]) -> set[str]:
    return {anchor for reader in read.values() for anchor in reader.anchors}


def test_every_public_name_has_an_entry(read: dict[Path, Reader]) -> None:
    known = anchors(read)
    for package in PACKAGES:
        module = importlib.import_module(package)
        for name in module.__all__:
            homes = {f"{package}.{name}", f"{getattr(module, name).__module__}.{name}", f"afbs.{name}"}
            assert homes & known, f"{package}.{name}"


def test_every_setting_has_an_entry(site: Path, read: dict[Path, Reader]) -> None:
    assert {path.stem for path in (site / "reference/settings").glob("*.html")} == {*TABLES, "index", "sweep"}
    parts = set(TABLES) - {"run", "training", "evaluation", "record"}
    for table in parts:
        reader = read[site / f"reference/settings/{table}.html"]
        for name in registry.names(table):
            assert f"{table}-{name}" in reader.anchors
            for setting in manual.settings(registry.find(table, name)):
                assert f"{table}-{name}-{setting.name}" in reader.anchors
    config = afbs.configure({})
    for table in set(TABLES) - parts:
        reader = read[site / f"reference/settings/{table}.html"]
        for setting in config.tables[table]:
            assert f"{table}-{setting}" in reader.anchors


def test_every_command_has_an_entry(site: Path, read: dict[Path, Reader]) -> None:
    def names(command: Any, before: str) -> Iterator[str]:
        for name, inner in getattr(command, "commands", {}).items():
            yield f"{before}-{name}"
            yield from names(inner, f"{before}-{name}")

    known = read[site / "reference/commands.html"].anchors
    every = list(names(typer.main.get_command(app), "afbs"))
    assert len(every) > 20
    assert set(every) <= known


def test_every_link_anchor_and_image_leads_somewhere(site: Path, read: dict[Path, Reader]) -> None:
    for path, reader in read.items():
        for target in (*reader.links, *reader.loads):
            address, anchor = urldefrag(target)
            if re.match(r"(https?|mailto|data):", target) or path.name == "404.html":
                continue
            found = (path.parent / unquote(address)).resolve() if address else path
            assert found.is_file(), (path.name, target)
            if anchor and found.suffix == ".html":
                assert unquote(anchor) in read[found].anchors | {"__tabbed_1_1"}, (path.name, target)


def test_nothing_is_loaded_from_elsewhere(read: dict[Path, Reader]) -> None:
    for path, reader in read.items():
        assert not [target for target in reader.loads if target.startswith(("http:", "https:", "//"))], path


@pytest.mark.parametrize("question", TWO_CLICKS)
def test_what_is_asked_most_is_two_clicks_away(question: str, site: Path, read: dict[Path, Reader]) -> None:
    def clicks(path: Path) -> set[str]:
        local = (urldefrag(link) for link in read[path].links if not re.match(r"https?:", link))
        places = {((path.parent / address).resolve() if address else path, anchor) for address, anchor in local}
        return {f"{place.relative_to(site)}{f'#{anchor}' if anchor else ''}" for place, anchor in places}

    first = clicks(site / "index.html")
    second = {link for place in first for link in clicks(site / urldefrag(place).url)}
    assert TWO_CLICKS[question] in first | second


@pytest.mark.browser
def test_search_finds_a_setting_in_a_folder_without_a_server(site: Path, browser: Any) -> None:
    with page(browser) as tab:
        asked: list[str] = []
        tab.on("request", lambda request: asked.append(request.url))
        tab.goto((site / "index.html").as_uri())
        tab.click(".md-search__input")
        tab.wait_for_function("typeof __index === 'object'")
        tab.keyboard.type("survival", delay=50)
        tab.wait_for_selector(".md-search-result__item a[href*='algorithm-afbs-survival']", state="attached")
        assert all(url.startswith(("file:", "data:", "blob:", "about:")) for url in asked)


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["dark", "light"])
@pytest.mark.parametrize("width", [390, 1440])
def test_pages_fit_a_phone_and_a_desk(width: int, scheme: str, site: Path, browser: Any) -> None:
    with page(browser, width, scheme) as tab:
        for name in ("index", "start", "reference/settings/algorithm", "reference/api/algorithm", "tutorials/compare"):
            tab.goto((site / f"{name}.html").as_uri())
            assert tab.evaluate("document.documentElement.scrollWidth") <= width, name
            ground = tab.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
            assert (sum(ground[:3]) < 200) == (scheme == "dark")


@pytest.mark.browser
def test_a_name_in_a_table_is_not_broken_on_a_phone(site: Path, browser: Any) -> None:
    lines = "[...document.querySelectorAll('td:first-child code')].map(e => [e.innerText, e.getClientRects().length])"
    with page(browser, 390, "light") as tab:
        tab.goto((site / "tasks.html").as_uri())
        found = tab.evaluate(lines)
    assert ["classification", 1] in found
    assert [name for name, number in found if number > 1 and " " not in name] == []


@pytest.mark.long
def test_the_drawings_are_those_of_today(tmp_path: Path) -> None:
    """What matplotlib draws depends on its version; the others are the plan's alone."""
    subprocess.run([sys.executable, "docs/drawings.py", str(tmp_path)], cwd=ROOT, check=True)
    assert {path.stem for path in tmp_path.iterdir()} == {"buffer", "discounts", "flow", "selection", "staleness"}
    for name in ("buffer.svg", "flow.svg"):
        assert (tmp_path / name).read_bytes() == (ROOT / "docs/images" / name).read_bytes()


def test_the_tables_of_the_reproduction_are_those_of_the_committed_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """If not: `python docs/tables.py`."""
    monkeypatch.syspath_prepend(ROOT / "docs")
    tables = importlib.import_module("tables")
    text = (ROOT / "docs/reproduction.md").read_text(encoding="utf-8")
    assert set(re.findall(r"<!-- table: ([\w-]+) -->", text)) == set(tables.TABLES)
    assert tables.rewritten(text) == text
