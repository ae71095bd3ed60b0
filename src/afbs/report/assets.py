"""The files that the pages are made of."""

from __future__ import annotations

import importlib.util
from importlib import resources
from pathlib import Path

from afbs.types import UserError


def static(name: str) -> str:
    """A file that ships beside this one."""
    return (resources.files("afbs.report") / "static" / name).read_text(encoding="utf-8")


def plotly_path() -> Path:
    """plotly's JavaScript, which ships in its Python package; found without importing that, which takes a second."""
    spec = importlib.util.find_spec("plotly")
    places = spec.submodule_search_locations if spec is not None else None
    if not places:
        raise UserError("The package `plotly` is missing; install it with: pip install plotly")
    return Path(places[0]) / "package_data" / "plotly.min.js"


def plotly_js() -> str:
    """The same as text that may stand in a script element."""
    return plotly_path().read_text(encoding="utf-8").replace("</script", "<\\/script")
