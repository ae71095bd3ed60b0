"""Notebooks as pages: text, code and what it printed, as they were saved. Nothing is run here."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

_COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def pages(folder: Path) -> dict[str, str]:
    return {f"tutorials/{path.stem}.md": page(json.loads(path.read_text("utf-8")), path.name) for path in _all(folder)}


def _all(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.ipynb"))


def page(notebook: Mapping[str, Any], name: str) -> str:
    """One notebook as Markdown."""
    text = "\n".join(part for cell in notebook["cells"] for part in _cell(cell))
    return f"{text}\n\n*This page is the notebook `docs/tutorials/{name}`, as it was run.*\n"


def _cell(cell: Mapping[str, Any]) -> Iterator[str]:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        yield source + "\n"
        return
    yield f"```python\n{source}\n```\n"
    for output in cell.get("outputs", ()):
        yield _output(output)


def _output(output: Mapping[str, Any]) -> str:
    data = output.get("data", {})
    if "text/html" in data:
        return f'<div class="output">{_compact("".join(data["text/html"]))}</div>\n'
    if "image/svg+xml" in data:
        return f'<div class="output">{_compact("".join(data["image/svg+xml"]))}</div>\n'
    if "image/png" in data:
        return (
            f'<div class="output"><img alt="What the code drew" src="data:image/png;base64,{_one_line(data)}"></div>\n'
        )
    said = "".join(output.get("text", data.get("text/plain", ())))
    return f'<pre class="output"><code>{html.escape(_COLOURS.sub("", said).rstrip())}</code></pre>\n' if said else ""


def _compact(text: str) -> str:
    """HTML without empty lines, which would end it in Markdown, and without the notebook's own style."""
    text = re.sub(r"<style scoped>.*?</style>", "", text, flags=re.S)
    return "\n".join(line.strip() for line in text.splitlines() if line.strip())


def _one_line(data: Mapping[str, Any]) -> str:
    return "".join("".join(data["image/png"]).split())
