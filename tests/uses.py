"""Every table of a configuration, every part that can stand in it, and a cheap use of each.

`held` loads a table with some settings and uses what it describes, or is told a sentence. What loads must also be the
same when it is written to a file and read again.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import os
import resource
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np
import tomli_w
from PIL import Image

from afbs import registry
from afbs.clients.build import build
from afbs.config import TABLES, Config, Evaluation, Record, RunSettings, load
from afbs.engine.answers import checked_memory, checked_model, lent
from afbs.experiment import schedule
from afbs.experiment.running import as_toml
from afbs.population import populate
from afbs.seeds import Key
from afbs.sweeps.ledger import folder_of
from afbs.sweeps.searching import SearchSettings, Study, checked
from afbs.sweeps.settings import SweepSettings, described
from afbs.sweeps.sweeping import planned
from afbs.types import ClientInfo, Dataset, Decided, Stopped, Training, UserError, Waiting

LABELS = np.arange(300) % 5
CLIENTS = [ClientInfo(client, 10 * client + 1) for client in range(6)]
ROOT = Key.root(0, "test")
HOME = Path(tempfile.gettempdir()) / f"afbs-fuzz-{os.getpid()}"
SETTINGS: dict[str, type] = {
    "run": RunSettings,
    "evaluation": Evaluation,
    "training": Training,
    "record": Record,
    "sweep": SweepSettings,
    "sweep.search": SearchSettings,
}
PARTS = [(kind, name) for kind in TABLES if kind not in SETTINGS for name in registry.names(kind)]
CASES = [*PARTS, *((table, "") for table in SETTINGS)]
_SHORT = {"virtual_days": 0.005, "in_flight": 3}
_FEDBUFF = {"name": "fedbuff", "buffer_size": 2}
_MODEL_FACTS = ("self", "shape", "classes", "tokens")


@cache
def files() -> dict[str, str]:
    """One good file or folder for each part that needs a path."""
    folder = HOME
    folder.mkdir()
    (folder / "latency.csv").write_text("client,start,duration\n" + "".join(f"{c},{c},9\n" for c in range(6)))
    (folder / "availability.csv").write_text("client,start,end\n" + "".join(f"{c},{c},99\n" for c in range(6)))
    np.savez(folder / "own.npz", train_x=np.zeros((30, 2)), train_y=np.arange(30) % 3)
    (folder / "own.csv").write_text("text,label\n" + "".join(f"some words {i},{i % 3}\n" for i in range(30)))
    (folder / "own.txt").write_text("".join(f"# {name}\n{name * 60}\n" for name in ("one", "two")))
    for place in range(12):
        (folder / "images" / str(place % 2)).mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((4, 4, 3), place, np.uint8)).save(folder / "images" / str(place % 2) / f"{place}.png")
    names = {"latency": "latency.csv", "availability": "availability.csv", "npz": "own.npz", "text": "own.csv"}
    return {part: str(folder / name) for part, name in {**names, "images": "images", "characters": "own.txt"}.items()}


@cache
def fields(kind: str, name: str) -> list[str]:
    """The settings that a part or a table has."""
    part = SETTINGS[kind] if kind in SETTINGS else registry.find(kind, name)
    if dataclasses.is_dataclass(part):
        return [field.name for field in dataclasses.fields(part)]
    return ["kernel", *(key for key in inspect.signature(part).parameters if key not in _MODEL_FACTS)]


@cache
def choices(kind: str, name: str, setting: str) -> list[Any]:
    """The words that a setting may be, where it is a choice."""
    part = SETTINGS[kind] if kind in SETTINGS else registry.find(kind, name)
    maker: Any = part if dataclasses.is_dataclass(part) else vars(part)["__init__"]
    types = get_type_hints(maker, include_extras=True)
    return list(get_args(types[setting])) if get_origin(types.get(setting)) is Literal else []


def held(kind: str, name: str, chosen: Mapping[str, Any]) -> None:
    """It works, or there is a sentence."""
    said = ""
    try:
        USES[kind](_table(kind, name, chosen))
    except UserError as error:
        said = str(error)
    assert len(said) < 2000
    assert not said or said.endswith((".", "?"))


def loaded(tables: Mapping[str, Any]) -> Config:
    """The same from a file as from Python."""
    config = load(tables)
    text = _written(config, tables)
    assert _written(load(tomllib.loads(text)), tables) == text
    return config


def _written(config: Config, names: Iterable[str]) -> str:
    return tomli_w.dumps(as_toml({name: config.tables[name] for name in names}))


def _table(kind: str, name: str, chosen: Mapping[str, Any]) -> dict[str, Any]:
    path = files().get(name if kind == "data" else kind)
    needed = {"path": path} if "path" in fields(kind, name) else {}
    return {kind: {**({"name": name} if name else {}), **needed, **chosen}}


def _data(tables: Mapping[str, Any]) -> None:
    data = loaded(tables).data.load()
    assert len(data.train_x) == len(data.train_y) > 0


def _partition(tables: Mapping[str, Any]) -> None:
    partition = loaded(tables).partition
    for owners in (None, LABELS):
        split = partition.split(LABELS, owners, ROOT)
        assert sorted(np.concatenate(split.indices).tolist()) == list(range(300))


def _latency(tables: Mapping[str, Any]) -> None:
    config = loaded(tables)
    for client in CLIENTS:
        duration = config.latency.duration(client, 1e9, ROOT.child(client.id))
        assert 0 < duration < math.inf
        assert 1e9 + duration > 1e9
    _planned(config)


def _availability(tables: Mapping[str, Any]) -> None:
    config = loaded(tables)
    for client in CLIENTS:
        back = config.availability.back(client, 5.0, ROOT.child(client.id))
        assert back >= 5.0
        lost = config.availability.vanishes(client, 5.0, 50.0, ROOT.child(client.id, 0))
        assert lost is None or 5.0 <= lost <= 50.0
        assert config.availability.absence(client, ROOT.child(client.id, 0)) >= 0.0
    _planned(config)


def _planned(config: Config) -> None:
    """Some virtual minutes of it: the clock must move, and the plan must end."""
    short = load(config, {"run": _SHORT, "algorithm": _FEDBUFF})
    events = list(islice(schedule(short, CLIENTS), 2000))
    assert len(events) == 2000 or isinstance(events[-1], Stopped)
    times = [event.time for event in events if not isinstance(event, Waiting)]
    assert len(times) == len(events)
    assert times == sorted(times)


def _algorithm(tables: Mapping[str, Any]) -> None:
    """Clients are made as for a run, a short plan is read, and its steps are taken with vectors of ones."""
    own = {"name": "npz", "path": files()["npz"]}
    rest = {"data": own, "partition": {"name": "iid", "clients": 6}, "run": {**_SHORT, "virtual_days": 0.05}}
    config = loaded({**rest, **tables})
    algorithm, params = config.algorithm, lent(np.zeros(4, np.float32))
    memory = checked_memory(algorithm, "begin", algorithm.begin(params))
    assert algorithm.memory_bytes(4, 6) >= 0
    with np.errstate(over="ignore", invalid="ignore"):  # as in a run
        for event in islice(schedule(config, populate(config).clients), 60):
            if isinstance(event, Decided) and event.step.used:
                rows = lent(np.tile(np.array([0, 1, -1, 1e9], np.float32), (len(event.step.used), 1)))
                kept, params = checked_model(algorithm, algorithm.apply(memory, params, event.step, rows), 4)
                memory, params = checked_memory(algorithm, "apply", kept), lent(params)


@cache
def _samples() -> tuple[Dataset, Dataset]:
    """Two small images, and two rows of tokens."""
    images, labels = np.zeros((2, 1, 16, 16), np.uint8), np.arange(2)
    tokens = np.ones((2, 3), np.int32)
    return Dataset(images, labels, images, labels, 2), Dataset(tokens, labels, tokens, labels, 2, tokens=4)


@contextmanager
def _little_memory(more: int = 2**28) -> Iterator[None]:
    """A quarter of a gigabyte more than now, so that what fits this machine and no smaller one is refused, too."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + more, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def _model(tables: Mapping[str, Any]) -> None:
    config = loaded(tables)
    task = load({"task": {"name": "language_model"}}).task if tables["model"]["name"] == "gru" else config.task
    with _little_memory():
        module = build(config.model, _samples()[tables["model"]["name"] in ("gru", "fasttext")], task)
    assert sum(parameter.numel() for parameter in module.parameters()) > 0


def _task(tables: Mapping[str, Any]) -> None:
    """A network is built for it, and the task is asked everything that an evaluation asks."""
    task = loaded(tables).task
    rows = tables["task"]["name"] == "language_model"
    dataset = _samples()[rows]
    if tables["task"]["name"] == "regression":
        dataset = dataclasses.replace(dataset, train_y=np.ones(2, np.float32), test_y=np.ones(2, np.float32), classes=0)
    task.check(dataset)
    build(load({"model": {"name": "gru" if rows else "mlp"}}).model, dataset, task)


def _clusters(tables: Mapping[str, Any]) -> None:
    counts = {client: np.roll(np.array([9, 1, 0]), client) for client in range(6)}
    grouping = loaded(tables).clusters.group(counts, ROOT, 3)
    assert set(grouping.cluster_of) <= set(counts)


def _executor(tables: Mapping[str, Any]) -> None:
    assert loaded(tables).executor.number >= 1


def _transport(tables: Mapping[str, Any]) -> None:
    config = loaded(tables)
    if not config.transport.live:
        _planned(config)


def _run(tables: Mapping[str, Any]) -> None:
    config = loaded(tables)
    assert config.run.horizon > 0


def _evaluation(tables: Mapping[str, Any]) -> None:
    evaluation = loaded(tables).evaluation
    for grid in (evaluation.grid(1e6), evaluation.client_grid(1e6)):
        assert grid == sorted(grid)


def _training(tables: Mapping[str, Any]) -> None:
    assert 0 <= loaded(tables).training.rate(3, 1e6) < math.inf


def _record(tables: Mapping[str, Any]) -> None:
    assert loaded(tables).record.labels in (True, False)


def _sweep(tables: Mapping[str, Any]) -> None:
    """Its cells are made, and have names that are folders'."""
    whole = planned(described(tables))
    for folder in (folder_of(whole.name), *(Path("sweeps") / cell.id for cell in whole.cells)):
        assert folder.parent == Path("sweeps")
        folder.exists()  # raises if it cannot be a name


def _search(tables: Mapping[str, Any]) -> None:
    """The first trials are asked for."""
    table = {"space": {"training.lr": {"low": 0.1, "high": 1.0}}, **tables["sweep.search"]}
    chosen = checked(table)
    few = dataclasses.replace(chosen, trials=min(2, chosen.trials))
    with tempfile.TemporaryDirectory(dir=HOME) as folder:
        assert Study("arm", load({}), few, "final", Path(folder) / "journal.log").ask()


USES: Mapping[str, Callable[[Mapping[str, Any]], None]] = {
    "run": _run,
    "evaluation": _evaluation,
    "training": _training,
    "record": _record,
    "data": _data,
    "partition": _partition,
    "latency": _latency,
    "availability": _availability,
    "clusters": _clusters,
    "task": _task,
    "algorithm": _algorithm,
    "transport": _transport,
    "executor": _executor,
    "model": _model,
    "sweep": _sweep,
    "sweep.search": _search,
}
