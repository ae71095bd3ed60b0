"""What was reproduced, as it lies in the repository: a page for each of `results/`, and its drawings."""

from __future__ import annotations

from pathlib import Path


def pages(root: Path) -> dict[str, str | bytes]:
    made: dict[str, str | bytes] = {"results/index.md": (root / "results/README.md").read_text(encoding="utf-8")}
    for page in sorted((root / "results").glob("*/README.md")):
        made[f"results/{page.parent.name}.md"] = page.read_text(encoding="utf-8")
        for drawing in sorted(page.parent.glob("*.svg")):
            made[f"results/{drawing.name}"] = drawing.read_bytes()
    return made
