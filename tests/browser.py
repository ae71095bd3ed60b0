"""A real browser for tests of pages: Debian's chromium, driven by Playwright. Tests skip where it is missing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

IMAGES = Path(__file__).parent.parent / "docs" / "images"
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--force-color-profile=srgb",
)
_FAULTS = (Path(__file__).parent / "faults.js").read_text()


@contextmanager
def chromium() -> Iterator[Any]:
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("needs Debian's chromium: apt-get install chromium")
    api = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install playwright")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(_FLAGS))
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def page(browser: Any, width: int = 1440, scheme: str = "light") -> Iterator[Any]:
    """A page on which whatever the console complains about fails the test."""
    context = browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme=scheme,
        has_touch=width < 600,
        reduced_motion="reduce",
    )
    opened = context.new_page()
    opened.set_default_timeout(20_000)
    complaints: list[str] = []
    opened.on("console", lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None)
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    try:
        yield opened
        assert complaints == []
    finally:
        context.close()


def faults(opened: Any) -> list[str]:
    """Text that is hard to read, things that stick out, charts with nothing in them."""
    found: list[str] = opened.evaluate(_FAULTS)
    return found


def picture(opened: Any, name: str, whole: bool = False) -> None:
    """Takes a screenshot for the documentation, if it has none of that name or is asked for with AFBS_PICTURES=1."""
    path = IMAGES / f"{name}.png"
    if os.environ.get("AFBS_PICTURES") or not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        opened.screenshot(path=str(path), full_page=whole)
