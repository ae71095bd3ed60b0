"""A run's configuration: TOML tables, checked against the parts they name. Everything has a default.

A table that names a part (`[algorithm]`, `[data]`, …) takes the settings of that part's class; the other tables are
the classes below. Unknown keys and names are refused with the nearest right one.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

from annotated_types import Ge, Gt, Le, Lt

from afbs import registry
from afbs.files import ENCODING, path_of, toml
from afbs.imports import attribute
from afbs.interfaces import (
    Algorithm,
    Availability,
    Executor,
    LabelMechanism,
    Latency,
    Partition,
    Source,
    Task,
    Transport,
)
from afbs.native.choice import settled
from afbs.record.reader import is_run, read_meta
from afbs.tasks import check_task, with_target
from afbs.types import ModelChoice, Training, UserError


@dataclass(frozen=True)
class RunSettings:
    """Table `[run]`: how long, with how many at once, and from which seed.

    It ends after `virtual_days`, or after so many `versions` (0: however many there are).
    """

    seed: Annotated[int, Ge(0), Le(2**63 - 1)] = 1
    """Everything that is drawn follows from it."""
    virtual_days: Annotated[float, Gt(0), Le(36_525)] = 20.0
    """How long the federation runs, in virtual time; at most a century."""
    in_flight: Annotated[int, Ge(1)] = 120
    """How many clients are at work at any time; a synchronous algorithm's cohort."""
    versions: Annotated[int, Ge(0)] = 0
    """Ends the run after so many versions of the model; 0 is never."""
    stop_when_lr_below: Annotated[float, Ge(0)] = 0.0
    """Ends the run once clients would train with a smaller learning rate; 0 is never."""
    device: str = "cpu"
    """Where workers train, as torch names it."""
    checkpoint_seconds: Annotated[float, Ge(0)] = 60.0
    """Real seconds between two checkpoints."""

    def __post_init__(self) -> None:
        if self.device.partition(":")[0] == "meta":
            raise UserError("`run.device` = 'meta' holds no numbers to train with. 'cpu' would do.")

    @property
    def horizon(self) -> float:
        return self.virtual_days * 86_400


@dataclass(frozen=True)
class Evaluation:
    """Table `[evaluation]`: at which virtual times the model is tested. `every` adds every so many versions.

    With `validation`, that share of the training samples is set aside before clients are made, and the model is tested
    on it: the test set is not looked at. With `held_out`, every client sets that share of its own samples aside, and
    the model is tested on each client's at `held_out_points` moments.
    """

    points: Annotated[int, Ge(1), Le(100_000)] = 150
    """Moments of virtual time at which the model is tested, besides the start."""
    spacing: Literal["log", "linear"] = "log"
    """Denser at the beginning, or evenly."""
    every: Annotated[int, Ge(0)] = 0
    """Also after every so many versions; 0 is never."""
    target: Annotated[float, Ge(-1e30), Le(1e30)] | None = None
    """The level of the task's first metric whose first moment tables report; unless told, what the task says."""
    validation: Annotated[float, Ge(0), Lt(1)] = 0.0
    """This share of the training samples is set aside, and the model tested on it instead of the test set."""
    held_out: Annotated[float, Ge(0), Lt(1)] = 0.0
    """Every client sets this share of its samples aside, at least one where it has two, and is tested on them."""
    held_out_points: Annotated[int, Ge(1), Le(100_000)] = 10
    """At so many moments of the run, besides its start, clients are tested: of its versions where they end it."""

    def grid(self, horizon: float) -> list[float]:
        """The initial model, `points` moments, the last of them the horizon."""
        shares = [(i + 1) / self.points for i in range(self.points)]
        if self.spacing == "log":
            shares = [0.001 ** (1 - share) for share in shares]
        return [0.0, *(round(horizon * share, 3) for share in shares)]

    def client_grid(self, horizon: float) -> list[float]:
        """The moments at which clients are tested on what they hold out."""
        number = self.held_out_points
        return [round(horizon * i / number, 3) for i in range(number + 1)] if self.held_out else []


@dataclass(frozen=True)
class Record:
    """Table `[record]`: what is written beyond the usual. `labels` are the clients' true label distributions."""

    labels: bool = False
    """Write the clients' true label distributions into `meta.json`, for the report of a simulation."""


@dataclass(frozen=True)
class Config:
    """Everything a run depends on. `tables` is the same as it is written to `config.toml`."""

    name: str
    run: RunSettings
    data: Source
    partition: Partition
    model: ModelChoice
    training: Training
    latency: Latency
    availability: Availability
    clusters: LabelMechanism
    task: Task
    algorithm: Algorithm[Any]
    transport: Transport
    executor: Executor
    evaluation: Evaluation
    record: Record
    tables: Mapping[str, Any]
    modules: tuple[str, ...] = field(default=(), compare=False)
    """The folders in which `module:Name` was looked for first; `load` takes them for a copy that lies elsewhere."""


_SETTINGS: dict[str, type] = {
    "run": RunSettings,
    "training": Training,
    "evaluation": Evaluation,
    "record": Record,
}
_PARTS: dict[str, tuple[str, type]] = {
    "data": ("mnist5k", Source),
    "partition": ("clustered", Partition),
    "latency": ("uniform", Latency),
    "availability": ("always", Availability),
    "clusters": ("projection", LabelMechanism),
    "task": ("classification", Task),
    "algorithm": ("afbs", Algorithm),
    "transport": ("simulated", Transport),
    "executor": ("processes", Executor),
}
_MAY_BE_INFINITE = ("latency", "availability")
_TOML = (bool, int, float, str, list, tuple, Mapping)
_DEFAULT_MODEL = "lenet5"
_KERNELS = Literal["auto", "native", "torch"]
TABLES = [*_SETTINGS, *_PARTS, "model"]


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
        raise UserError(f"`name` must be text, got {tables['name']!r}.")
    built: dict[str, Any] = {}
    written: dict[str, Any] = {}
    for table, settings in _SETTINGS.items():
        built[table] = _settings(table, settings, tables.get(table, {}))
        written[table] = _plain(built[table])
    built["task"], written["task"] = _part("task", Task, tables.get("task", {}), _PARTS["task"][0])
    tables["data"] = _own_data(tables.get("data", {}), built["task"])
    for table, (default, base) in _PARTS.items():
        if table not in built:
            built[table], written[table] = _part(table, base, tables.get(table, {}), default)
    built["model"], written["model"] = _model(tables.get("model", {}))
    built["evaluation"] = with_target(built["evaluation"], built["task"])
    written["evaluation"] = _plain(built["evaluation"])
    if built["training"].function:
        built["training"], written["training"]["function"] = _with_function(built["training"])
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


def accepts(part: Any, setting: str, value: Any) -> bool:
    """Whether a part, as a class, has this setting and would take this value for it."""
    if setting not in _fields(part):
        return False
    try:
        registry.checked(setting, _types(part).get(setting, Any), value, endless=True)
    except UserError:
        return False
    return True


def with_kernel(config: Config) -> Config:
    """The same with the kernel that a run is trained with from its first job to its last."""
    model = settled(config.model, config.run.device, config.task.native and config.training.usual)
    table = {**config.tables["model"], "kernel": model.kernel}
    return dataclasses.replace(config, model=model, tables={**config.tables, "model": table})


def _tables(source: Config | Mapping[str, Any] | str | Path) -> dict[str, Any]:
    if isinstance(source, Config):
        objects = {table: getattr(source, table) for table in _PARTS}
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
    elif isinstance(value, str) and table in (*_PARTS, "model"):
        value = {"name": value}
    if not isinstance(value, Mapping) or table not in TABLES:
        tables[table] = value
        return
    before = tables.get(table, {})
    if isinstance(before, ModelChoice):
        before = {"name": before.build, "kernel": before.kernel, **before.settings}
    elif not isinstance(before, Mapping):
        before = _as_table(before)
    if "name" in value and value["name"] != before.get("name"):
        part = registry.find(table, value["name"]) if table in _PARTS and isinstance(value["name"], str) else None
        before = {setting: chosen for setting, chosen in before.items() if accepts(part, setting, chosen)}
    tables[table] = {**before, **value}


def _part(table: str, base: type, given: Any, default: str) -> tuple[Any, dict[str, Any]]:
    """The object a table describes, and the table with every default written out."""
    if isinstance(given, type) and issubclass(given, base):
        _refuse_unfinished(table, given)
        given = given()
    if isinstance(given, base):
        checked = _settings(table, type(given), _values(given)) if dataclasses.is_dataclass(given) else given
        _check_draws(checked)
        check_task(checked)
        return checked, _as_table(checked)
    if not isinstance(given, Mapping):
        raise UserError(
            f"`[{table}]` must be a table or an afbs.interfaces.{base.__name__}, got {registry.short(given)}."
        )
    settings = {key: value for key, value in given.items() if key != "name"}
    name = given.get("name", default)
    if not isinstance(name, str):
        raise UserError(f"`{table}.name` must be text, got {name!r}.")
    part = registry.find(table, name)
    if not (isinstance(part, type) and issubclass(part, base)):
        raise UserError(f"`{table}.name` is {name!r}, which is not a subclass of afbs.interfaces.{base.__name__}.")
    built = _settings(table, part, settings)
    _check_draws(built)
    check_task(built)
    return built, {"name": name, **_plain(built)}


def _check_draws(part: Any) -> None:
    if isinstance(part, Latency) and getattr(part, "per", None) not in ("client", "job"):
        found = f"got {part.per!r}" if hasattr(part, "per") else "and does not"
        raise UserError(
            f"`latency`: the class {type(part).__name__} must say how often `duration` is asked, {found}: `per` = "
            "'client' (once a client) or 'job' (once a job)."
        )


def _own_data(given: Any, task: Task) -> Any:
    """Arrays `(x, y)` or `(train_x, train_y, test_x, test_y)`, or a torch Dataset, as a source; else what was given.

    Labels that are floating numbers are what is to be predicted, unless the task is to classify.
    """
    if isinstance(given, Mapping | str | Source):
        return given
    if isinstance(given, tuple) and len(given) in (2, 4):
        from afbs.data import Arrays

        return _with_numbers(Arrays(*given), task)
    if hasattr(given, "__getitem__") and hasattr(given, "__len__"):
        from afbs.data import from_torch

        return _with_numbers(from_torch(given), task)
    return given


def _with_numbers(arrays: Any, task: Task) -> Any:
    floating = "float" in str(getattr(arrays.train_y, "dtype", ""))
    return dataclasses.replace(arrays, numbers=floating and not task.native)


def _model(given: Any) -> tuple[ModelChoice, dict[str, Any]]:
    if not isinstance(given, ModelChoice):
        given = _model_choice(given)
    name = given.build if isinstance(given.build, str) else _path(given.build)
    return given, {"name": name, "kernel": given.kernel, **given.settings}


def _model_choice(given: Any) -> ModelChoice:
    if not isinstance(given, Mapping):
        if not callable(given):
            raise UserError(f"`model` must be a table, a class or a function that builds a module, got {given!r}.")
        given = {"name": given}
    name, kernel = given.get("name", _DEFAULT_MODEL), given.get("kernel", "auto")
    if not callable(name) and not isinstance(name, str):
        raise UserError(f"`model.name` must be text, got {name!r}.")
    settings = {key: value for key, value in given.items() if key not in ("name", "kernel")}
    if isinstance(name, str):
        registry.check("model", name)
        name = registry.find("model", name) if registry.is_shadowed(name) else name
    return ModelChoice(name, settings, registry.checked("model.kernel", _KERNELS, kernel))


def _with_function(training: Training) -> tuple[Training, str]:
    """The training function itself, and the name under which it is written down."""
    found, place = training.function, "training.function"
    if isinstance(found, str):
        found = attribute(place, found)
    if not callable(found) or isinstance(found, type):
        raise UserError(f"`{place}` must be a function `train(model, data, order)`, got {registry.short(found)}.")
    try:
        inspect.signature(found).bind("model", "data", "order")
    except TypeError:
        name = getattr(found, "__qualname__", type(found).__name__)
        raise UserError(f"`{place}`: {name} must take three arguments: model, data, order.") from None
    except ValueError:  # one that is written in C says nothing of its arguments
        pass
    return dataclasses.replace(training, function=found), _path(found)


def _settings(table: str, cls: type, given: Any) -> Any:
    if not isinstance(given, Mapping):
        raise UserError(f"`[{table}]` must be a table, got {given!r}.")
    _refuse_unfinished(table, cls)
    registry.refuse_unknown(table, given, _fields(cls))
    missing = [key for key in _fields(cls, needed=True) if key not in given]
    wanted = _types(cls)
    if missing:
        in_python = not registry.is_checked(wanted.get(missing[0], Any))
        hint = " It was made in Python, and must be given to `afbs.resume` again." if in_python else ""
        raise UserError(f"`{table}.{missing[0]}` must be given.{hint}")
    endless = given if table in _MAY_BE_INFINITE else _endless(cls)
    values = {
        key: registry.checked(f"{table}.{key}", wanted.get(key, Any), value, key in endless)
        for key, value in given.items()
    }
    try:
        return cls(**values)
    except (ValueError, TypeError) as error:  # how a class of a user's own says what it does not like
        raise UserError(f"`[{table}]`: {cls.__name__} does not take these settings: {error}.") from error


def _refuse_unfinished(table: str, cls: type) -> None:
    if inspect.isabstract(cls):
        needed = ", ".join(sorted(getattr(cls, "__abstractmethods__", ())))
        raise UserError(f"`{table}`: the class {cls.__name__} still needs these methods: {needed}.")


def _types(cls: type) -> dict[str, Any]:
    try:
        return get_type_hints(cls, include_extras=True)
    except (NameError, AttributeError, TypeError, SyntaxError):  # what only a type checker understands
        return {}


def _fields(cls: Any, needed: bool = False) -> list[str]:
    """The settings of a part; with `needed`, those that have no default."""
    if not dataclasses.is_dataclass(cls):
        return []
    fields = [each for each in dataclasses.fields(cls) if each.init]
    blank = dataclasses.MISSING
    return [each.name for each in fields if not needed or each.default is each.default_factory is blank]


def _endless(cls: Any) -> list[str]:
    """The settings of a part that may be infinite, because they are by default."""
    known = dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ()
    return [each.name for each in known if each.default == math.inf]


def _plain(part: Any) -> dict[str, Any]:
    """A part's settings as TOML can hold them; what it cannot hold is left out, as if it had not been set."""
    return {key: value for key, value in _values(part).items() if isinstance(value, _TOML)}


def _values(part: Any) -> dict[str, Any]:
    values = {key: getattr(part, key) for key in _fields(type(part))}
    return {key: value for key, value in values.items() if value is not None}


def _as_table(part: Any) -> dict[str, Any]:
    return {"name": _path(type(part)), **_plain(part)}


def _path(thing: Any) -> str:
    """`package.module:Name`, or just the name of what ships with afbs."""
    if known := registry.path_of(thing):
        return known
    module = getattr(thing, "__module__", "")
    package, _, last = module.rpartition(".")
    if package.startswith("afbs.") and not last.startswith("_"):
        return last
    name = getattr(thing, "__qualname__", type(thing).__name__)
    # What a package has from a private file of its own is known by the package's name.
    public = last.startswith("_") and getattr(sys.modules.get(package), name, None) is thing
    return f"{package if public else module}:{name}"
