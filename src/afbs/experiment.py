"""Puts a configuration together into a run: data → clients → plan → jobs → steps → record."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import secrets
import shlex
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from types import FrameType
from typing import Any

import tomli_w
from threadpoolctl import threadpool_limits

from afbs.clients.workload import Workload
from afbs.config import Config, load, with_kernel
from afbs.engine.executors.processes import Processes, Staff
from afbs.engine.plan import plan, stop_when_lr_below
from afbs.engine.run import Run
from afbs.interfaces import Algorithm, Executor
from afbs.native.library import best
from afbs.population import Population, populate
from afbs.record.checkpoint import Checkpoint, load_checkpoint
from afbs.record.recorder import Progress, Recorder
from afbs.record.result import Result
from afbs.record.writer import SCHEMA, Writer, create_folder, discard_unless_run, is_begun
from afbs.seeds import Key
from afbs.transports.simulated import Simulated
from afbs.types import ClientInfo, Event, Order, UserError, Vector


class Interrupted(Exception):  # noqa: N818 - it is not an error
    """The run was stopped by its user. It has been saved."""

    def __init__(self, folder: Path):
        super().__init__(f"Stopped. Continue with: afbs resume {shlex.quote(str(folder))}")
        self.folder = folder


def schedule(
    config: Config, clients: Sequence[ClientInfo], content: Callable[[Order], Vector] | None = None
) -> Iterator[Event]:
    """The plan of a simulated run, by metadata alone."""
    transport = Simulated(clients, config.latency, config.availability, config.run.seed)
    events = plan(
        config.algorithm,
        clients,
        transport,
        in_flight=config.run.in_flight,
        horizon=config.run.horizon,
        seed=config.run.seed,
        content=content,
    )
    least = config.run.stop_when_lr_below
    return stop_when_lr_below(events, config.training, least) if least else events


def run(
    source: Config | Mapping[str, Any] | str | Path,
    *,
    folder: str | Path | None = None,
    runs: str | Path = "runs",
    on_progress: Callable[[Progress], None] | None = None,
    on_note: Callable[[str], None] | None = None,
    **overrides: Any,
) -> Result:
    """Run a configuration and write its folder, `runs/<time>-<name>-<id>` unless `folder` says otherwise.

    `overrides` are tables, single settings or a user's own objects: `run("a.toml", algorithm=Mine(), run={"seed": 2})`,
    `run("a.toml", **{"training.lr": 0.1})`.
    """
    config = with_kernel(load(source, overrides))
    with _staff(config) as staff:
        population = populate(config)
        path = Path(folder) if folder else Path(runs) / _folder_name(config.name)
        try:
            create_folder(path, tomli_w.dumps(_toml(config.tables)))
            try:
                return _execute(config, population, staff, path, None, on_progress, on_note)
            except UserError:
                discard_unless_run(path)
                raise
        except KeyboardInterrupt:  # in the moment between the folder and the run
            if is_begun(path):
                raise Interrupted(path) from None
            raise


def resume(
    folder: str | Path,
    *,
    on_progress: Callable[[Progress], None] | None = None,
    on_note: Callable[[str], None] | None = None,
    **overrides: Any,
) -> Result:
    """Continue a run that was interrupted or killed. It ends in the same model, bit for bit, as if it had not been.

    Objects that were given to `run` and cannot be found by name (a class in a notebook) must be given again.
    """
    path = Path(folder)
    if is_done(path):
        return Result.open(path)
    config = with_kernel(load(path / "config.toml", overrides), undecided="torch")
    _refuse_changes(config, path)
    checkpoint, complaints = load_checkpoint(path)
    for complaint in complaints:
        if on_note:
            on_note(complaint)
    with _staff(config) as staff:
        return _execute(config, populate(config), staff, path, checkpoint, on_progress, on_note)


def is_done(folder: Path) -> bool:
    """Whether a run has ended. One that was killed while it started has only its configuration yet."""
    if (folder / "meta.json").exists() or not is_begun(folder):
        return Result.open(folder).done
    return False


def compare(
    sources: Sequence[Config | Mapping[str, Any] | str | Path],
    *,
    runs: str | Path = "runs",
    **overrides: Any,
) -> Any:
    """Run several configurations and give a table with a row each (a pandas DataFrame)."""
    import pandas as pd

    configs = [load(source, overrides) for source in sources]
    return pd.DataFrame([run(config, runs=runs).summary() for config in configs]).set_index("name")


def _execute(
    config: Config,
    population: Population,
    staff: Staff | None,
    folder: Path,
    checkpoint: Checkpoint | None,
    on_progress: Callable[[Progress], None] | None,
    on_note: Callable[[str], None] | None,
) -> Result:
    algorithm = config.algorithm
    if algorithm.looks:
        checkpoint = None
    if algorithm.looks and algorithm.local.stateful:
        raise UserError("`algorithm`: it cannot look into updates and have clients that remember at the same time.")
    if algorithm.local.stateful and not algorithm.holds:
        raise UserError(
            "`algorithm`: clients that remember must wait for their step (`holds`), or their order is lost."
        )
    workload = Workload(
        dataset=population.dataset,
        indices=population.split.indices,
        model=config.model,
        training=config.training,
        rule=algorithm.local,
        ships=algorithm.ships,
        seed=config.run.seed,
        device=config.run.device,
    )
    try:
        offset = checkpoint.offset if checkpoint else 0
        with closing(_executor(config, workload, staff)) as executor, Writer(folder, offset) as writer:
            recorder = Recorder(writer, checkpoint.wall if checkpoint else 0.0, on_progress)
            engine = Run(
                algorithm,
                executor,
                config.training,
                recorder,
                grid=config.evaluation.grid(config.run.horizon),
                every=config.evaluation.every,
                evaluation_parts=workload.evaluation_parts,
                checkpoint_seconds=config.run.checkpoint_seconds,
            )
            needed = _server_memory(algorithm, len(engine.params), len(population.clients))
            if needed and on_note:
                on_note(f"The server keeps up to {needed / 1e6:,.0f} MB of vectors for this algorithm.")
            if checkpoint is None:
                writer.document("meta.json", _meta(config, population, len(engine.params)))
            else:
                recorder.resumed(checkpoint.version)
            content = engine.content if algorithm.looks else None
            # One thread: a step is over before a second thread is awake, and the workers need the cores.
            with _stoppable(engine), threadpool_limits(1):
                try:
                    engine.go(schedule(config, population.clients, content), checkpoint)
                except KeyboardInterrupt:
                    engine.settle()
                    engine.save()
                    recorder.end(engine.time, "interrupted")
                    writer.close()
                    raise Interrupted(folder) from None
            writer.close()
            _conclude(config, writer, engine, executor.peak_bytes, recorder.wall())
            recorder.progress(engine.time, engine.version, engine.counts.trained)
    except KeyboardInterrupt:  # too early to have anything to save, or too impatient to wait for it
        raise Interrupted(folder) from None
    return Result.open(folder)


@contextmanager
def _stoppable(engine: Run) -> Iterator[None]:
    """The first Ctrl-C lets the run come to a moment at which it can be saved; the second ends it at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT) or signal.SIG_DFL

    def stop(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        engine.stopping = True

    signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _staff(config: Config) -> Iterator[Staff | None]:
    """Workers that start up while the clients are prepared; none if everything is done in this process."""
    if config.run.executor == "inline":
        yield None
        return
    with closing(Staff(config.run.worker_count)) as staff:
        yield staff


def _executor(config: Config, workload: Workload, staff: Staff | None) -> Executor:
    if config.run.device != "cpu":
        from afbs.clients.build import check_device

        check_device(config.run.device)
    if staff is None:
        from afbs.engine.executors.inline import Inline

        return Inline(workload)
    return Processes(workload, staff)


def _conclude(config: Config, writer: Writer, engine: Run, memory: int, wall: float) -> None:
    """The final model and the summary: `result.json` comes last, so a folder that has it is complete."""
    from safetensors.numpy import save

    writer.file("model.safetensors", save({"params": engine.params}))
    counts = engine.counts
    record = Result.open(writer.folder)
    size = 4 * len(engine.params)
    target = config.evaluation.target
    summary = {
        "best_accuracy": record.best_accuracy,
        "final_accuracy": record.final_accuracy,
        "target": target,
        "time_to_target": record.time_to(target),
        "versions": engine.version,
        "virtual_seconds": engine.time,
        "updates": {name: getattr(counts, name) for name in ("arrived", "used", "dropped", "rejected", "lost")},
        "jobs": {
            "trained": counts.trained,
            "skipped": counts.dropped if not config.algorithm.local.stateful else 0,
            "samples": counts.samples,
            "steps": counts.steps,
        },
        "evaluations": counts.evaluations,
        "vector_memory_bytes": memory,
        "upload_bytes": size * (counts.used + counts.rejected),
        "skipped_upload_bytes": size * counts.dropped,
        "wall": {
            "total": wall,
            **{
                name: round(getattr(counts, name), 4)
                for name in ("train", "evaluate", "plan", "apply", "record", "wait")
            },
            "idle_share": engine.counts.idle_share(),
        },
        "sha256": hashlib.sha256(engine.params.tobytes()).hexdigest(),
    }
    writer.document("result.json", summary)


def _meta(config: Config, population: Population, parameters: int) -> dict[str, Any]:
    clients = population.clients
    lasting = None
    if config.latency.per == "client":
        key = Key.root(config.run.seed, "latency")
        lasting = [config.latency.duration(client, 0.0, key.child(client.id)) for client in clients]
    meta = {
        "schema": SCHEMA,
        "name": config.name,
        "seed": config.run.seed,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {name: _version(name) for name in ("afbs", "torch", "numpy", "scikit-learn")},
        "machine": {
            "python": platform.python_version(),
            "system": platform.platform(),
            "processor": platform.processor() or platform.machine(),
            "cores": os.cpu_count(),
            "workers": config.run.worker_count if config.run.executor == "processes" else 1,
            "native": best(),
        },
        "git": _commit(),
        "kernel": config.model.kernel,
        "settings": _digests(config),
        "parameters": parameters,
        "horizon": config.run.horizon,
        "classes": population.dataset.classes,
        "algorithm": config.tables["algorithm"]["name"],
        "clients": {
            "id": [client.id for client in clients],
            "examples": [client.examples for client in clients],
            "cluster": [client.cluster for client in clients] if population.grouping else None,
            "latency": lasting,
        },
        "partition": dict(population.split.notes),
        "clusters": dict(population.grouping.notes) if population.grouping else None,
    }
    if config.record.labels:
        shares = [counts / counts.sum() for counts in population.label_counts().values()]
        meta["true_clusters"] = population.split.clusters
        meta["labels"] = [[round(float(share), 4) for share in row] for row in shares]
    return meta


def _digests(config: Config) -> dict[str, str]:
    """A digest of each table that decides a run's result: what may change before a resume is left out."""
    free = ("executor", "workers", "device", "checkpoint_seconds")
    tables = {table: config.tables[table] for table in config.tables if table not in ("name", "record")}
    tables["run"] = {key: value for key, value in tables["run"].items() if key not in free}
    if tables["model"]["kernel"] == "torch":  # as all were before there was a choice
        tables["model"] = {key: value for key, value in tables["model"].items() if key != "kernel"}
    texts = {table: json.dumps(settings, sort_keys=True, default=str) for table, settings in tables.items()}
    return {table: hashlib.sha256(text.encode()).hexdigest()[:16] for table, text in texts.items()}


def _refuse_changes(config: Config, folder: Path) -> None:
    """A run that was taken up with other settings would belong to neither the old nor the new ones."""
    if not (folder / "meta.json").exists():
        return
    before, now = Result.open(folder).run.meta.get("settings", {}), _digests(config)
    changed = [table for table in now if table in before and before[table] != now[table]]
    if changed:
        raise UserError(
            f"`[{changed[0]}]` was changed after the run began. Put it back, or begin a new run: "
            f"afbs run {shlex.quote(str(folder / 'config.toml'))}"
        )


def _server_memory(algorithm: Algorithm[Any], parameters: int, clients: int) -> int:
    """Bytes that are kept between steps, the clients' states included. Refuses what would not fit."""
    needed = algorithm.memory_bytes(parameters, clients) + 4 * parameters * clients * algorithm.local.stateful
    available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > available:
        raise UserError(
            f"`algorithm`: its server keeps {needed / 1e9:.1f} GB of vectors, and this machine has "
            f"{available / 1e9:.1f} GB. Fewer clients or a smaller model would do."
        )
    return needed


def _folder_name(name: str) -> str:
    safe = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in name)
    return f"{datetime.now():%Y%m%d-%H%M%S}-{safe}-{secrets.token_hex(2)}"


def _toml(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Lists for tuples: TOML has no other."""
    return {
        key: _toml(value) if isinstance(value, Mapping) else list(value) if isinstance(value, tuple) else value
        for key, value in tables.items()
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _commit() -> str | None:
    command = ["git", "rev-parse", "HEAD"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return found.stdout.strip() or None
