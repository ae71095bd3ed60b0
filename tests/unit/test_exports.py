"""What `afbs` offers at its top: this is the list, and an author needs no other door."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import afbs
from afbs import interfaces, types

RUNNING = {"Interrupted", "Outcome", "Result", "RunError", "Sweep", "UserError"}
RUNNING |= {"compare", "configure", "export_model", "export_trace", "load", "model", "populate", "resume", "run"}
RUNNING |= {"serve", "sweep", "verify"}
AN_ALGORITHM = {"Algorithm", "Ask", "Averaging", "Buffer", "ClientId", "ClientInfo", "Facts", "Key", "LocalRule"}
AN_ALGORITHM |= {"Matrix", "Memory", "Order", "Pool", "Step", "Update", "Vector", "gradient_select"}
A_TASK = {"Metric", "Task"}
TIMES = {"Availability", "Latency"}


def names_in(code: str) -> set[str]:
    return {node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)}


def shown() -> ast.Module:
    """The example of the page about algorithms."""
    page = (Path(__file__).parents[2] / "docs" / "algorithms.md").read_text("utf-8")
    section = page.partition("## An algorithm of your own")[2].partition("\n## ")[0]
    return ast.parse(section.partition("```python\n")[2].partition("```")[0])


def test_this_is_all_and_in_the_order_of_the_alphabet() -> None:
    assert set(afbs.__all__) == RUNNING | AN_ALGORITHM | A_TASK | TIMES
    assert len(set(afbs.__all__)) == len(afbs.__all__)
    assert [*afbs.__all__] == sorted(afbs.__all__)


def test_each_name_is_there_and_is_listed() -> None:
    for name in afbs.__all__:
        assert callable(getattr(afbs, name)) or name in ("Facts", "Matrix", "Memory", "Vector")  # types of NumPy's
        assert name in dir(afbs)


def test_no_name_hides_a_module_of_the_package() -> None:
    modules = {path.stem for path in Path(afbs.__file__).parent.iterdir() if not path.name.startswith("_")}
    assert modules & set(afbs.__all__) == set()


def test_whatever_an_algorithms_methods_take_or_return_can_be_imported_from_the_top() -> None:
    methods = [value for name, value in vars(interfaces.Algorithm).items() if not name.startswith("_")]
    functions = [value.fget if isinstance(value, property) else value for value in methods]
    annotations = [text for one in functions if inspect.isfunction(one) for text in one.__annotations__.values()]
    assert len(annotations) > 20
    ours = set().union(*map(names_in, annotations)) & (vars(interfaces).keys() | vars(types).keys())
    ours -= {"Sequence", "Literal", "S"}
    assert {"Update", "Step", "Pool", "LocalRule"} <= ours
    assert ours <= set(afbs.__all__)


def test_the_pages_example_imports_afbs_alone_and_uses_what_is_on_the_list() -> None:
    example = shown()
    imported = [node for node in ast.walk(example) if isinstance(node, ast.Import | ast.ImportFrom)]
    assert {ast.unparse(node) for node in imported} == {"import afbs", "from dataclasses import dataclass"}
    used = {
        node.attr
        for node in ast.walk(example)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "afbs"
    }
    assert used == {"Algorithm", "Ask", "Step"}
    assert used <= set(afbs.__all__)


def test_the_example_file_needs_the_top_alone() -> None:
    tree = ast.parse((Path(__file__).parents[2] / "examples" / "own_algorithm.py").read_text("utf-8"))
    homes = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {home for home in homes if home.startswith("afbs")} <= {"afbs"}
