"""A page for each table of a configuration, made from the classes that are its settings."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any, get_type_hints

from afbs import manual, registry
from afbs.config import Config, load
from afbs.manual import Setting
from afbs.sweeps.searching import SearchSettings
from afbs.sweeps.settings import SweepSettings

_KINDS = (
    "algorithm",
    "availability",
    "clusters",
    "data",
    "executor",
    "latency",
    "model",
    "partition",
    "task",
    "transport",
)
_WORDS = {
    "run": "How long, with how many at once, and from which seed.",
    "training": "How a client trains between two versions.",
    "evaluation": "When the model is tested, and on what.",
    "record": "What is written beyond the usual.",
    "task": "What a batch is, what its loss is and what is measured.",
    "algorithm": "Who decides what counts.",
    "data": "What is learnt.",
    "partition": "Who has which samples.",
    "model": "Which network.",
    "latency": "How long a job takes, in virtual seconds.",
    "availability": "When clients are there.",
    "clusters": "How the server learns which clients have alike labels.",
    "transport": "How clients are reached.",
    "executor": "Who computes. It changes no bit of what is computed.",
    "sweep": "Many runs as one.",
}
_MORE = {
    "algorithm": "[The algorithms](../../algorithms.md) explains each of them.",
    "data": "[Data, partitions, networks](../../data.md) says where they come from and what your own must look like.",
    "partition": "[Data, partitions, networks](../../data.md#partitions) compares them.",
    "clusters": "[Choose label privacy](../../howto/label-privacy.md) says which one to take.",
    "task": "[Tasks, training and fairness](../../tasks.md) explains them, and how to write one.",
    "training": "[A training function of your own](../../tasks.md#a-training-function-of-your-own) may take its place.",
    "transport": "[Deploy on Flower](../../deploy.md) explains the real one.",
    "executor": "[Use many machines](../../scale.md) compares them.",
    "sweep": "[Sweep and search](../../sweeps.md) explains it.",
}
_FOUND_FIRST = "---\nsearch:\n  boost: 4\n---\n\n"
_KERNEL = Setting(
    "kernel",
    '"auto" | "native" | "torch"',
    '"auto"',
    "What trains: C functions, for `lenet5` and networks with `afbs.nn.ConvPoolReLU`, or torch alone.",
)


def pages() -> dict[str, str]:
    made = {table: _table_page(table, part) for table, part in _tables().items()}
    made |= {kind: _parts_page(kind) for kind in _KINDS}
    made["sweep"] = _table_page("sweep", SweepSettings) + _block("sweep.search", SearchSettings, level=2)
    assert set(made) == set(_WORDS), "a table has no words, or words no table"
    made["index"] = _index()
    return {f"reference/settings/{name}.md": _FOUND_FIRST + text for name, text in made.items()}


def _tables() -> dict[str, Any]:
    types = get_type_hints(Config)
    return {name: part for name, part in types.items() if name not in _KINDS and dataclasses.is_dataclass(part)}


def _index() -> str:
    rows = [f"| [`[{table}]`]({table}.md) | {words} |" for table, words in _WORDS.items()]
    every = sorted(
        (setting.name, table, f"{table}.md#{_id(table, part, setting.name)}", part)
        for table, part, setting in _everything()
    )
    lines = [f"- [`{name}`]({link}) of `[{table}]`{f' {part}' if part else ''}" for name, table, link, part in every]
    return "\n".join(
        [
            "# Settings",
            "",
            "Made from the classes themselves: what is here is what the program takes. A configuration is a file of",
            "these tables ([how to write one](../../configuration.md)); in a terminal,",
            "`afbs list algorithms --settings` says the same.",
            "",
            "| table | |",
            "|---|---|",
            *rows,
            "",
            "## Every setting, by name",
            "",
            '<div class="columns" markdown>',
            "",
            *lines,
            "",
            "</div>",
        ]
    )


def _everything() -> list[tuple[str, str, Setting]]:
    found = [(table, "", each) for table, part in _tables().items() for each in manual.settings(part)]
    found += [("sweep", "", each) for each in manual.settings(SweepSettings)]
    for kind in _KINDS:
        for name in registry.names(kind):
            found += [(kind, name, each) for each in manual.settings(registry.find(kind, name))]
    return found


def _table_page(table: str, part: Any) -> str:
    return f"# `[{table}]`\n\n{_WORDS[table]} {_MORE.get(table, '')}\n\n" + _list(table, "", manual.settings(part))


def _parts_page(kind: str) -> str:
    default = load({}).tables[kind]["name"]
    text = f"# `[{kind}]`\n\n{_WORDS[kind]} {_MORE.get(kind, '')}\n\n"
    text += f'`name` says which; without one it is `"{default}"`. `package.module:Name` is one of your own.\n\n'
    if kind == "model":
        text += "Every network also has\n\n" + _list(kind, "", [_KERNEL])
    names = sorted(registry.names(kind), key=lambda name: name != default)
    return text + "".join(_block(kind, registry.find(kind, name), name) for name in names)


def _block(table: str, part: Any, name: str = "", level: int = 2) -> str:
    told = [paragraph for paragraph in (inspect.getdoc(part) or "").split("\n\n") if not paragraph.startswith("`")]
    title = f"`{name}`" if name else f"`[{table}]`"
    anchor = _id(table, name) if name else table.replace(".", "-")
    text = f"{'#' * level} {title} {{ #{anchor} }}\n\n" + "\n\n".join(told) + "\n\n"
    return text + (_list(table, name, manual.settings(part)) or "It has no settings.\n\n")


def _list(table: str, part: str, settings: list[Setting]) -> str:
    return "".join(
        f"#### `{each.name}` {{ #{_id(table, part, each.name)} .setting }}\n\n"
        f"{'must be given' if each.default == 'needed' else f'default `{each.default}`'}"
        f" <span>{_code(each.takes)}</span>\n{{ .takes }}\n\n{each.about}\n\n"
        for each in settings
    )


def _code(takes: str) -> str:
    """Choices as code, words as words."""
    return " ".join(f"`{word}`" if word.startswith('"') else word for word in takes.replace(" | ", " ").split(" "))


def _id(*names: str) -> str:
    return "-".join(name for name in names if name).replace(".", "-")
