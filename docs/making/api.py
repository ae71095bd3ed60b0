"""Pages of the names that can be imported. Which names there are is asked of the package, so none can be left out."""

from __future__ import annotations

import importlib
import inspect

import afbs

_GROUPS = {
    "running": (
        "Running, comparing, reading",
        "run resume serve compare sweep Sweep Outcome load Result verify Interrupted configure populate model export_model "
        "export_trace gradient_select UserError RunError",
    ),
    "algorithm": (
        "Writing an algorithm",
        "Algorithm Averaging Pool Ask Order Update Step Buffer ClientInfo LocalRule Key Vector Matrix Memory Facts ClientId "
        "Latency Availability",
    ),
    "task": ("Writing a task", "Task Metric"),
}
_PACKAGES = ("afbs.data", "afbs.nn", "afbs.apps", "afbs.testing", "afbs.sweeps")


def pages() -> dict[str, str]:
    grouped = {page: names.split() for page, (_, names) in _GROUPS.items()}
    grouped["running"] += sorted(set(afbs.__all__).difference(*grouped.values()))
    made = {
        f"reference/api/{page}.md": f"# {title}\n\nAll of these are imported from `afbs`.\n\n"
        + "".join(_entry(f"afbs.{name}") for name in grouped[page])
        for page, (title, _) in _GROUPS.items()
    }
    made["reference/api/interfaces.md"] = _module(
        "Interfaces of parts", "afbs.interfaces", "What the parts ask of each other; from `afbs.interfaces`."
    )
    made["reference/api/types.md"] = _module("Values", "afbs.types", "What travels between parts; from `afbs.types`.")
    made["reference/api/packages.md"] = "# Data, layers, apps, tests\n\n" + "".join(map(_package, _PACKAGES))
    made["reference/api/record.md"] = (
        _module("Reading runs", "afbs.record.reader", "Below `afbs.load`; from `afbs.record.reader`.")
        + "\n## Reports\n\n::: afbs.report.write\n    options:\n      heading_level: 3\n"
    )
    made["reference/schema.md"] = _SCHEMA
    return made


_SCHEMA = """# Documents of a run folder

The types against which `meta.json` and `result.json` are checked when they are read; a field may be missing.
[The run folder](../run-folder.md) says in words what is in them, and which lines `events.jsonl` has.

::: afbs.record.schema
    options:
      show_root_heading: false
      show_root_toc_entry: false
      members: [MetaFile, ClientsTable, InputTable, MetricTable, ResultFile]
"""


def _entry(path: str, level: int = 2) -> str:
    return f"::: {path}\n    options:\n      heading_level: {level}\n\n"


def _module(title: str, path: str, words: str) -> str:
    """What a module or a package offers and is not on a page of its own already."""
    module = importlib.import_module(path)
    elsewhere = [getattr(afbs, name) for name in afbs.__all__]
    names = [
        name
        for name, value in vars(module).items()
        if inspect.isroutine(value) or inspect.isclass(value)
        if f"{value.__module__}.".startswith(f"{path}.") and not name.startswith("_")
        if not any(value is known for known in elsewhere)
    ]
    return f"# {title}\n\n{words}\n\n" + "".join(_entry(f"{path}.{name}") for name in names)


def _package(path: str) -> str:
    """Nothing is asked of the names themselves: some need a library that those who build pages may not have."""
    package = importlib.import_module(path)
    told = (inspect.getdoc(package) or "").partition("\n")[0]
    names = [name for name in package.__all__ if name not in afbs.__all__]
    entries = "".join(_entry(f"{path}.{name}", level=3) for name in names)
    return f"## `{path}` {{ #{path.replace('.', '-')} }}\n\n{told}\n\n{entries}"
