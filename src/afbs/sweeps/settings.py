"""The table `[sweep]`: which cells there are, and how they are carried out and compared."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

from annotated_types import Ge

from afbs import registry
from afbs.config import TABLES, load
from afbs.files import ENCODING, path_of, toml
from afbs.sweeps.cells import Cell
from afbs.types import UserError

SEED = "run.seed"
_MOST = 100_000
_TABLES = ("grid", "alternatives", "search")


@dataclass(frozen=True)
class SweepSettings:
    """Table `[sweep]`.

    `grid` has a list of values for each setting that varies; `alternatives` have a name each and change several
    settings at once. Cells are every alternative with every point of the grid. `baseline` is the arm that the others
    are tested against, by `metric`: `final` or `best` of what the task watches, or `time_to_target`. `cores` is how
    many may be used, 0 for all; `runner` says whose: this machine's, or those of the Ray cluster at `address`.
    """

    name: str = ""
    """Its folder is `sweeps/<name>`; the file's name unless told."""
    baseline: str = ""
    """The arm that the others are tested against; none unless told."""
    metric: str = "final"
    """What is ranked and tested: `final` or `best` of what the task watches, or `time_to_target`."""
    test: Literal["t", "wilcoxon"] = "t"
    """Student's paired t, or Wilcoxon's, which needs six seeds before p can be below 0.05."""
    runner: Literal["local", "ray"] = "local"
    """Whose cores: this machine's, or a Ray cluster's."""
    address: str = ""
    """Of the Ray cluster."""
    cores: Annotated[int, Ge(0)] = 0
    """How many may be used; 0: all."""
    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """A list of values for each setting that varies; every combination is a cell."""
    alternatives: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Several settings at once, under a name; each with every point of the grid."""
    search: Mapping[str, Any] = field(default_factory=dict)
    """Settings to search before arms are compared: table `[sweep.search]`."""


@dataclass(frozen=True)
class Described:
    """A file as a sweep reads it: its `[sweep]`, and the other tables, which all cells share."""

    settings: SweepSettings
    tables: Mapping[str, Any]
    modules: tuple[Path, ...] = ()


def described(source: Mapping[str, Any] | str | Path, overrides: Mapping[str, Any] | None = None) -> Described:
    """A configuration with a table `[sweep]`, from a file or as tables. Overrides are of settings `sweep.…`."""
    if isinstance(source, Mapping):
        tables, called = dict(source), "sweep"
        modules: tuple[Path, ...] = ()
    else:
        path = path_of("FILE.toml", source)
        try:
            tables = toml(str(path), path.read_text(encoding=ENCODING))
        except FileNotFoundError:
            raise UserError(f"There is no file {path}.") from None
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"{path} cannot be read: {error}.") from error
        modules, called = (path.parent, Path()), path.stem
    unknown = next((key for key in tables if key not in (*TABLES, "name", "sweep")), None)
    if unknown is not None:
        raise UserError(f"There is no table `[{unknown}]`{registry.hint(unknown, [*TABLES, 'name', 'sweep'])}")
    if "sweep" not in tables and not overrides:
        raise UserError("There is no table `[sweep]`, which says what varies; a single run is what `afbs run` is for.")
    chosen = _checked(_with(tables.pop("sweep", {}), overrides or {}))
    if not chosen.name:
        chosen = SweepSettings(**{**_given(chosen), "name": called})
    return Described(chosen, tables, modules)


def _with(table: Any, overrides: Mapping[str, Any]) -> Any:
    """The table with single settings changed: `sweep.metric`, `sweep.search.trials`, `sweep.grid.training.lr`."""
    if not isinstance(table, Mapping):
        return table
    for path, value in overrides.items():
        key, _, below = path.removeprefix("sweep.").partition(".")
        table = {**table, key: {**_table(key, table.get(key, {})), below: value} if below else value}
    return table


def expanded(what: Described, overrides: Mapping[str, Any] | None = None) -> list[Cell]:
    """Every cell, in the order written: alternatives first, the last setting of the grid changes fastest."""
    chosen = what.settings
    points = math.prod(len(values) for values in chosen.grid.values()) * max(1, len(chosen.alternatives))
    if points > _MOST:
        raise UserError(f"`[sweep]` has {points:,} cells; at most {_MOST:,} would do.")
    _refuse_settled(chosen, overrides or {})
    cells = []
    for alternative, point in _points(chosen):
        changes = {**chosen.alternatives.get(alternative, {}), **point}
        arm = ", ".join(_words(alternative, point, chosen.grid))
        seed = _written(point.get(SEED, 1))
        name = f"{arm}, seed {seed}" if SEED in point and arm else arm or f"seed {seed}"
        try:
            config = load(what.tables, {**_parts_first(changes), **(overrides or {}), "name": name}, what.modules)
        except UserError as error:
            raise UserError(f"`[sweep]`, cell {name!r}: {error}") from None
        cells.append(Cell(name, config, arm or chosen.name))
    return cells


def _refuse_settled(chosen: SweepSettings, overrides: Mapping[str, Any]) -> None:
    """What varies cannot be set for all cells: they would all have the same, under names that say otherwise."""
    space = chosen.search.get("space", {})
    places: dict[str, list[Mapping[str, Any]]] = {
        "[sweep.grid]": [{path: value} for path, values in chosen.grid.items() for value in values],
        **{f"[sweep.alternatives.{name}]": [changes] for name, changes in chosen.alternatives.items()},
        "[sweep.search.space]": [dict.fromkeys(space)] if isinstance(space, Mapping) else [],
    }
    for place, varied in places.items():
        for changes in varied:
            if path := _clash(overrides, changes):
                raise UserError(f"`{path}` cannot be set for the whole sweep: it varies in `{place}`. Change it there.")


def _clash(changes: Mapping[str, Any], others: Mapping[str, Any]) -> str | None:
    """A setting that both change."""
    mine = set(_paths(changes))
    return next((path for path in _paths(others) if path in mine or path.partition(".")[0] in mine), None)


def _paths(changes: Mapping[str, Any]) -> Iterator[str]:
    """Which settings are changed, by tables or singly: `training.lr`; a table's name where an object stands for it."""
    for path, value in changes.items():
        if isinstance(value, Mapping) and "." not in path:
            yield from (f"{path}.{key}" for key in value)
        else:
            yield f"{path}.name" if isinstance(value, str) and "." not in path else path


def _points(chosen: SweepSettings) -> Iterator[tuple[str, dict[str, Any]]]:
    for alternative in chosen.alternatives or ("",):
        for values in product(*chosen.grid.values()):
            yield alternative, dict(zip(chosen.grid, values, strict=True))


def _words(alternative: str, point: Mapping[str, Any], grid: Mapping[str, Any]) -> Iterator[str]:
    """What a cell is called, its seed aside: `afbs, lr=0.1`."""
    if alternative:
        yield alternative
    keys = [path.rpartition(".")[2] for path in grid]
    for path, value in point.items():
        if path == SEED:
            continue
        table, _, key = path.rpartition(".")
        if key == "name":
            yield _written(value)
        else:
            yield f"{key if keys.count(key) == 1 else f'{table}.{key}'}={_written(value)}"


def _written(value: Any) -> str:
    if isinstance(value, int):
        return registry.short(value)  # one of thousands of digits is refused later, and cannot be written out
    return f"{value:g}" if isinstance(value, float) else str(value)


def _parts_first(changes: Mapping[str, Any]) -> dict[str, Any]:
    """A part's name before its settings: which ones it has depends on it."""
    return dict(sorted(changes.items(), key=lambda change: not change[0].endswith(".name")))


def _checked(given: Any) -> SweepSettings:
    if not isinstance(given, Mapping):
        raise UserError(f"`[sweep]` must be a table, got {registry.short(given)}.")
    wanted = get_type_hints(SweepSettings, include_extras=True)
    registry.refuse_unknown("sweep", given, [each.name for each in fields(SweepSettings)])
    values: dict[str, Any] = {
        key: _table(key, value) if key in _TABLES else registry.checked(f"sweep.{key}", wanted[key], value)
        for key, value in given.items()
    }
    if "grid" in values:
        values["grid"] = _flat(values["grid"])
    for path, options in values.get("grid", {}).items():
        if not isinstance(options, list | tuple) or not options:
            raise UserError(f'`sweep.grid."{path}"` must be a list of values to try, got {registry.short(options)}.')
        repeated = next((value for place, value in enumerate(options) if value in options[:place]), None)
        if repeated is not None:
            raise UserError(f'`sweep.grid."{path}"` has {registry.short(repeated)} twice.')
    for name, changes in values.get("alternatives", {}).items():
        if not isinstance(changes, Mapping):
            raise UserError(f"`sweep.alternatives.{name}` must be a table of settings, got {registry.short(changes)}.")
        for path, options in values.get("grid", {}).items():
            if clash := next(filter(None, (_clash(changes, {path: value}) for value in options)), None):
                raise UserError(
                    f"`sweep.alternatives.{name}` sets `{clash}`, which varies in the grid: take it out of one of them."
                )
    return SweepSettings(**values)


def _table(key: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise UserError(f"`[sweep.{key}]` must be a table, got {registry.short(value)}.")
    return value


def _flat(grid: Mapping[str, Any]) -> dict[str, Any]:
    """`algorithm.name = [...]` without quotes is a table in a table to TOML; it means the same."""
    flat: dict[str, Any] = {}
    for path, value in grid.items():
        inside = isinstance(value, Mapping)
        flat |= {f"{path}.{key}": options for key, options in _flat(value).items()} if inside else {path: value}
    return flat


def _given(chosen: SweepSettings) -> dict[str, Any]:
    return {each.name: getattr(chosen, each.name) for each in fields(SweepSettings)}
