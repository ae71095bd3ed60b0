"""The tutorials are notebooks that run from top to bottom, and were saved with what they print."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[2] / "docs" / "tutorials"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def cells(path: Path) -> list[Any]:
    return [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]


def test_there_are_three() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["ablations", "compare", "own-algorithm"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_was_saved_as_it_was_run(path: Path) -> None:
    assert [cell["execution_count"] for cell in cells(path)] == list(range(1, len(cells(path)) + 1))
    kinds = [output["output_type"] for cell in cells(path) for output in cell["outputs"]]
    assert len(kinds) >= 3
    assert set(kinds) <= {"stream", "execute_result", "display_data"}
    assert not [output for cell in cells(path) for output in cell["outputs"] if output.get("name") == "stderr"]


@pytest.mark.long
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_from_top_to_bottom(path: Path, tmp_path: Path) -> None:
    import nbformat
    from nbclient import NotebookClient

    book: Any = nbformat.reads(path.read_text(encoding="utf-8"), as_version=4)  # type: ignore[no-untyped-call]
    saved = [[output["output_type"] for output in cell["outputs"]] for cell in cells(path)]
    NotebookClient(book, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    found = [[each.output_type for each in cell.outputs] for cell in book.cells if cell.cell_type == "code"]
    assert found == saved
