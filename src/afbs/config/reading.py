"""From a file, tables or another configuration to a checked one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from afbs import registry
from afbs.config._models import model_of
from afbs.config._parts import PARTS, own_data, part_of, with_function
from afbs.config._settings import accepts, settings_of
from afbs.config._written import as_table, plain
from afbs.config.tables import Config, Evaluation, Record, RunSettings
from afbs.files import ENCODING, path_of, toml
from afbs.interfaces import Task
from afbs.record.reader import is_run, read_meta
from afbs.tasks import with_target
from afbs.types import ModelChoice, Training, UserError

_SETTINGS: dict[str, type] = {
    "run": RunSettings,
    "training": Training,
    "evaluation": Evaluation,
    "record": Record,
}
TABLES = [*_SETTINGS, *PARTS, "model"]


def load(
    source: Config | Mapping[str, Any] | str | Path,
    overrides: Mapping[str, Any] | None = None,
    modules: Sequence[str | Path] = (),
) -> Config:
    """A checked configuration from a file, a mapping of tables, or another configuration.

    Overrides are tables (`{"algorithm": {"buffer_size": 20}}`), single settings (`{"algorithm.buffer_size": 20}`) or
    a user's own objects (`{"algorithm": MyAlgorithm()}`). A new `name` keeps the settings that the new part takes too;
    a new model starts with none. A user's own modules are looked for beside the file, around the package that it is in,
    where the run had them whose folder it is in, in the current folder and in `modules`, before anywhere else.
    """
    places = _places(source, modules)
    if places:
        registry.search(*map(Path, places))
    tables = _tables(source)
    for path, value in (overrides or {}).items():
        _override(tables, path, value)
    unknown = [key for key in tables if key not in TABLES and key != "name"]
    if unknown == ["sweep"]:
        raise UserError("A configuration with a table `[sweep]` is run by `afbs sweep`, or in Python by `afbs.sweep`.")
    if unknown:
        raise UserError(f"There is no table `[{unknown[0]}]`{registry.hint(unknown[0], [*TABLES, 'name'])}")
    if not isinstance(tables.get("name", ""), str):
        raise UserError(f"`name` must be text, got {registry.short(tables['name'])}.")
    built: dict[str, Any] = {}
    written: dict[str, Any] = {}
    for table, settings in _SETTINGS.items():
        built[table] = settings_of(table, settings, tables.get(table, {}))
        written[table] = plain(built[table])
    built["task"], written["task"] = part_of("task", Task, tables.get("task", {}), PARTS["task"][0])
    tables["data"] = own_data(tables.get("data", {}), built["task"])
    for table, (default, base) in PARTS.items():
        if table not in built:
            built[table], written[table] = part_of(table, base, tables.get(table, {}), default)
    built["model"], written["model"] = model_of(tables.get("model", {}))
    built["evaluation"] = with_target(built["evaluation"], built["task"])
    written["evaluation"] = plain(built["evaluation"])
    if built["training"].function:
        built["training"], written["training"]["function"] = with_function(built["training"])
    name = tables.get("name") or "-".join(written[part]["name"].rpartition(":")[2] for part in ("algorithm", "data"))
    return Config(name=name, tables={"name": name, **written}, modules=places, **built)


def _places(source: Config | Mapping[str, Any] | str | Path, modules: Sequence[str | Path]) -> tuple[str, ...]:
    own: Sequence[str | Path] = ()
    if isinstance(source, Config):
        own = source.modules
    elif not isinstance(source, Mapping):
        folder = path_of("FILE.toml", source).parent
        own = (folder, *_around(folder), Path())
    return tuple(dict.fromkeys(str(Path(folder).resolve()) for folder in (*own, *modules)))


def _around(folder: Path) -> list[str | Path]:
    """Where the modules of a file in this folder may be, too: around the package that it is in, or where those of the
    run were whose folder it is."""
    found: list[str | Path] = [folder.resolve().parent] if (folder / "__init__.py").is_file() else []
    if is_run(folder):
        with suppress(UserError):  # whoever reads the run will say what is wrong with it
            found += read_meta(folder).get("modules", [])
    return found


def _tables(source: Config | Mapping[str, Any] | str | Path) -> dict[str, Any]:
    if isinstance(source, Config):
        objects = {table: getattr(source, table) for table in PARTS}
        training = {**source.tables["training"], "function": source.training.function}
        return {**source.tables, **objects, "model": source.model, "training": training}
    if isinstance(source, Mapping):
        return {key: dict(value) if isinstance(value, Mapping) else value for key, value in source.items()}
    path = path_of("FILE.toml", source)
    try:
        text = path.read_text(encoding=ENCODING)
    except FileNotFoundError:
        raise UserError(f"There is no file {path}.") from None
    except IsADirectoryError:
        inside = path / "config.toml"
        hint = f" Its configuration is {inside}." if inside.is_file() else ""
        raise UserError(f"{path} is a folder, not a configuration.{hint}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read: {error}.") from error
    return toml(str(path), text)


def _override(tables: dict[str, Any], path: str, value: Any) -> None:
    table, _, key = path.partition(".")
    if key:
        value = {key: value}
    elif isinstance(value, str) and table in (*PARTS, "model"):
        value = {"name": value}
    if not isinstance(value, Mapping) or table not in TABLES:
        tables[table] = value
        return
    before = tables.get(table, {})
    if isinstance(before, ModelChoice):
        before = {"name": before.build, "kernel": before.kernel, **before.settings}
    elif table == "model" and callable(before):
        before = {"name": before}
    elif not isinstance(before, Mapping):
        before = as_table(before)
    if "name" in value and value["name"] != before.get("name"):
        part = registry.find(table, value["name"]) if table in PARTS and isinstance(value["name"], str) else None
        before = {setting: chosen for setting, chosen in before.items() if accepts(part, setting, chosen)}
    tables[table] = {**before, **value}
