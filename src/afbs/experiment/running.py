"""`run` and `resume`: one session of a run, from its configuration to its folder."""

from __future__ import annotations

import json
import secrets
import shlex
import signal
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import tomli_w
from threadpoolctl import threadpool_limits

from afbs.config import Config, load
from afbs.data import fingerprint
from afbs.engine.run import Run
from afbs.engine.stopping import SafelyStopped, Stoppable
from afbs.engine.witness import Witness
from afbs.experiment import assembly, kernel, provenance
from afbs.experiment.arithmetic import differences
from afbs.experiment.result import Result
from afbs.interfaces import WorkerPool
from afbs.population import Population, populate
from afbs.progress import watched
from afbs.record.checkpoint import Checkpoint, load_checkpoint
from afbs.record.files import refuse_strangers
from afbs.record.reader import is_done, read_meta
from afbs.record.recorder import Progress, Recorder
from afbs.record.seal import lines
from afbs.record.writer import RecordError, Writer, create_folder, discard_unless_run, is_begun
from afbs.types import UserError

_LONGEST = 60
"""Letters of a run's name in the name of its folder, of which file systems allow 255 bytes."""
_STOPPING = "Finishing the jobs under way, then saving. Once more ends at once and keeps only the last checkpoint."


class Interrupted(Exception):  # noqa: N818 - it is not an error
    """The run was stopped by its user. It has been saved."""

    def __init__(self, folder: Path):
        super().__init__(f"Stopped. Continue with: {_again(folder)}")
        self.folder = folder


def run(
    source: Config | Mapping[str, Any] | str | Path,
    *,
    folder: str | Path | None = None,
    runs: str | Path = "runs",
    progress: bool = True,
    on_progress: Callable[[Progress], None] | None = None,
    on_note: Callable[[str], None] | None = None,
    **overrides: Any,
) -> Result:
    """Run a configuration and write its folder, `runs/<time>-<name>-<id>` unless `folder` says otherwise.

    `overrides` are tables, single settings or a user's own objects: `run("a.toml", algorithm=Mine(), run={"seed": 2})`,
    `run("a.toml", **{"training.lr": 0.1})`. How far it has come is shown unless `progress` is False; `on_progress` is
    told, too, and `on_note` whatever else there is to say.
    """
    config = load(source, overrides)
    _refuse_live(config)
    with (
        watched(config.name, config.run.horizon, progress, on_progress) as observe,
        closing(config.executor.start()) as pool,
    ):
        population = populate(config)
        config = kernel.chosen(config, population.dataset)
        path = Path(folder) if folder else Path(runs) / folder_name(config.name)
        try:
            create_folder(path, tomli_w.dumps(as_toml(config.tables)))
            try:
                return _execute(config, population, pool, path, None, observe, on_note)
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
    progress: bool = True,
    on_progress: Callable[[Progress], None] | None = None,
    on_note: Callable[[str], None] | None = None,
    **overrides: Any,
) -> Result:
    """Continue a run that was interrupted or killed. It ends in the same model, bit for bit, as if it had not been.

    Objects that were given to `run` and cannot be found by name (a class in a notebook) must be given again.
    """
    path = Path(folder)
    refuse_strangers(path)
    if is_done(path):
        return Result.open(path)
    known = read_meta(path) if (path / "meta.json").exists() else None
    config = load(path / "config.toml", overrides, modules=known.get("modules", ()) if known else ())
    _refuse_live(config)
    if known is not None:
        config = kernel.as_begun(config, known)
        provenance.refuse_changes(config, path, known.get("settings", {}))
    with (
        watched(config.name, config.run.horizon, progress, on_progress) as observe,
        closing(config.executor.start()) as pool,
    ):
        population = populate(config)
        config = kernel.needed(config, population.dataset, path)
        data = fingerprint(population.dataset)
        if known is not None and known.get("data", data) != data:
            raise UserError(
                f"The data is not what the run in {path} began with. Give it the same data, or begin a new run: "
                f"afbs run {shlex.quote(str(path / 'config.toml'))}"
            )
        checkpoint = None
        if known is not None:
            checkpoint, complaints = load_checkpoint(path, provenance.identity(config, data))
            if complaints and checkpoint is None:
                complaints.append("No checkpoint is left to go on from: the run begins anew.")
            complaints += differences(known)
            for complaint in complaints:
                if on_note:
                    on_note(complaint)
        return _execute(config, population, pool, path, checkpoint, observe, on_note)


def _execute(
    config: Config,
    population: Population,
    pool: WorkerPool,
    folder: Path,
    checkpoint: Checkpoint | None,
    on_progress: Callable[[Progress], None] | None,
    on_note: Callable[[str], None] | None,
) -> Result:
    work = assembly.workload(config, population)
    connection, there = assembly.connect(config, population.clients), assembly.at_first(config, population.clients)
    note = on_note or (lambda text: None)
    if config.run.device != "cpu":
        from afbs.clients.build import check_device

        check_device(config.run.device)
    try:
        offset = checkpoint.offset if checkpoint else 0
        with closing(pool.session(work)) as session, Writer(folder, offset) as writer:
            identity = provenance.identity(config, fingerprint(population.dataset))
            elapsed = checkpoint.wall if checkpoint else 0.0
            recorder = Recorder(
                writer, identity, elapsed=elapsed, metric=config.task.metrics[0], on_progress=on_progress
            )
            engine = Run(
                config.algorithm,
                session,
                recorder,
                assembly.subjects(config, work),
                checkpoint_seconds=config.run.checkpoint_seconds,
                stateful=work.stateful,
            )
            size = len(engine.server.params)
            needed = provenance.server_memory(config.algorithm, size, len(population.clients), work.stateful)
            if needed >= 1e6:
                note(f"The server keeps up to {needed / 1e6:,.0f} MB of vectors for this algorithm.")
            witness = None
            if checkpoint is None:
                writer.document("meta.json", provenance.meta(config, population, size))
            else:
                witness = Witness(json.loads(line) for line in lines(folder / "events.jsonl", offset))
                recorder.resumed(checkpoint.version)
            look = engine.look if config.algorithm.looks else None
            # One thread: a step is over before a second thread is awake, and the workers need the cores. A model that
            # diverges is told of by what is recorded, not by numpy.
            with stoppable(engine, note), threadpool_limits(1), np.errstate(over="ignore", invalid="ignore"):
                try:
                    engine.go(assembly.schedule(config, there, connection, look), checkpoint, witness)
                except SafelyStopped:
                    engine.settle()
                    engine.save()
                    recorder.end(engine.server.time, "interrupted")
                    writer.close()
                    raise Interrupted(folder) from None
            writer.close()
            provenance.conclude(config, writer, engine.server, session.store.peak_bytes, recorder.wall())
            recorder.progress(engine.server.time, engine.server.version, engine.counts.trained)
            if engine.counts.rejected and not engine.counts.used:
                _complain(_nothing_finite(config, engine.counts.rejected), on_note)
    except KeyboardInterrupt:  # too early to have anything to save, or too impatient to wait for it
        raise Interrupted(folder) from None
    except (UserError, Interrupted, RecordError):
        raise
    except Exception as error:
        error.add_note(f"The run is kept as far as its last checkpoint. To go on: {_again(folder)}")
        raise
    return Result.open(folder)


def _nothing_finite(config: Config, rejected: int) -> str:
    training, task = config.training, type(config.task).__name__
    function = training.function
    teacher = function if isinstance(function, str) else getattr(function, "__qualname__", type(function).__name__)
    culprit = f"`training.function`: {teacher}" if teacher else f"`task`: {task}.loss"
    return (
        f"Not one of {rejected:,} updates was finite, so the model is what it was at first. {culprit} gives numbers "
        f"that are not finite, or `training.lr` = {training.lr:g} is too large."
    )


def _complain(sentence: str, on_note: Callable[[str], None] | None) -> None:
    """Also where nobody asked to be told anything."""
    if on_note:
        on_note(sentence)
    else:
        warnings.warn(sentence, RuntimeWarning, stacklevel=4)


@contextmanager
def stoppable(engine: Stoppable, note: Callable[[str], None]) -> Iterator[None]:
    """The first Ctrl-C or SIGTERM lets the run come to a moment at which it can be saved; the second ends at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) or signal.SIG_DFL for number in (signal.SIGINT, signal.SIGTERM)}

    def stop(number: int, frame: FrameType | None) -> None:
        for each in before:
            signal.signal(each, signal.default_int_handler)
        engine.stopping = True
        note(_STOPPING)

    for number in before:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _again(folder: Path) -> str:
    return f"afbs resume {shlex.quote(str(folder))}"


def _refuse_live(config: Config) -> None:
    """Before anything is written: the record of a run on real clients must never be cut back."""
    if config.transport.live:
        name = config.tables["transport"]["name"]
        raise UserError(
            f"`transport.name` = {name!r} is for real clients: such a run is begun and continued as docs/deploy.md "
            "says. To simulate it instead: --set transport.name=simulated"
        )


def folder_name(name: str) -> str:
    safe = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in name)
    return f"{datetime.now():%Y%m%d-%H%M%S}-{safe[:_LONGEST]}-{secrets.token_hex(2)}"


def as_toml(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Lists for tuples: TOML has no other."""
    return {
        key: as_toml(value) if isinstance(value, Mapping) else list(value) if isinstance(value, tuple) else value
        for key, value in tables.items()
    }
