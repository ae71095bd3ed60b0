"""A run on real clients: the same folder, the same record, whatever carries the messages.

Started with a folder that a killed server left, it goes on from there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w
from threadpoolctl import threadpool_limits

from afbs.clients.workload import Workload
from afbs.config import Config, load
from afbs.data import fingerprint
from afbs.engine.evaluations import Subject
from afbs.engine.live import LiveRun
from afbs.engine.stopping import SafelyStopped
from afbs.engine.witness import Witness
from afbs.experiment import assembly, provenance
from afbs.experiment.result import Result
from afbs.experiment.running import Interrupted, as_toml, stoppable
from afbs.experiment.verifying import clients as clients_of
from afbs.interfaces import Brief, Connection, Fleet
from afbs.population import Population
from afbs.record.checkpoint import Checkpoint, load_checkpoint
from afbs.record.files import refuse_strangers
from afbs.record.reader import is_done, read_meta
from afbs.record.recorder import Progress, Recorder
from afbs.record.seal import lines
from afbs.record.writer import Writer, create_folder, discard_unless_run
from afbs.transports.replay import Replay
from afbs.types import ClientInfo, Dataset, Split, UserError

_Line = Mapping[str, Any]


def serve(
    source: Config | Mapping[str, Any] | str | Path,
    reach: Callable[[Brief], Fleet],
    folder: str | Path,
    *,
    dataset: Dataset | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    on_note: Callable[[str], None] | None = None,
    **overrides: Any,
) -> Result:
    """Run a configuration on the real clients that `reach` finds, and write `folder`; or go on with it after a kill.

    Only the test samples of `dataset` are used, or of `[data]` without one: the clients have their own.
    """
    config = load(source, overrides)
    path, note = Path(folder), on_note or (lambda text: None)
    if path.exists():
        refuse_strangers(path)
    if path.exists() and is_done(path):
        note(f"The run in {path} has ended; there is nothing left to do.")
        return Result.open(path)
    check(config)
    meta = read_meta(path) if (path / "meta.json").exists() else None
    if meta is None:
        if path.exists():  # killed before it began
            (path / "fleet.json").unlink(missing_ok=True)
        else:
            create_folder(path, tomli_w.dumps(as_toml(config.tables)))
    else:
        provenance.refuse_changes(config, path, meta.get("settings", {}))
    try:
        with closing(config.executor.start()) as pool:
            tested = config.data.load() if dataset is None else dataset
            _check_labels(config, tested)
            local = pool.session(_testing(config, tested))
            return _serve(config, reach, tested, local, path, meta, on_progress, note)
    except UserError:
        discard_unless_run(path)
        raise


def _check_labels(config: Config, dataset: Dataset) -> None:
    config.task.check(dataset)
    if config.algorithm.clustered and not dataset.classes:
        raise UserError(
            "`algorithm`: it asks clients how many samples of each class they have, and their labels are numbers. "
            "`algorithm.clustering` = false, or another algorithm, would do."
        )


def check(config: Config) -> None:
    """What cannot work on real clients, said before anybody is asked for anything."""
    if not config.transport.live:
        name = config.tables["transport"]["name"]
        raise UserError(f"`transport.name` = {name!r} has no real clients. 'flower' has.")
    if config.record.labels:
        raise UserError("`record.labels` = true is for simulations: the labels of real clients stay with them.")
    if config.evaluation.validation:
        raise UserError(
            "`evaluation.validation` is for simulations: the training samples of real clients stay with them. They can "
            "be tested on some of them: `evaluation.held_out`."
        )
    assembly.check_training(config)
    if config.algorithm.awaits > config.run.in_flight:
        raise UserError(
            f"`algorithm`: a step waits for {config.algorithm.awaits} updates, but only `run.in_flight` = "
            f"{config.run.in_flight} jobs are under way at a time. A smaller buffer or more in flight would do."
        )


def _serve(
    config: Config,
    reach: Callable[[Brief], Fleet],
    dataset: Dataset,
    local: Any,
    folder: Path,
    meta: Mapping[str, Any] | None,
    on_progress: Callable[[Progress], None] | None,
    note: Callable[[str], None],
) -> Result:
    algorithm, size = config.algorithm, len(local.initial())
    identity = provenance.identity(config, fingerprint(dataset))
    most = max(1, algorithm.awaits // 2)
    mechanism = config.clusters if algorithm.clustered else None
    metrics = [metric.name for metric in config.task.metrics] if config.evaluation.held_out else []
    task, seed = provenance.agreement(config), config.run.seed
    fleet = reach(Brief(folder, size, dataset.classes, task, mechanism, most, seed, metrics))
    if metrics and not fleet.tests:
        raise UserError("`evaluation.held_out`: the clients of this fleet train, and do not test. 0 would do.")
    recorded: list[_Line] = []
    checkpoint: Checkpoint | None = None
    if meta is None:
        clients, grouping = fleet.gather()
        population = Population(dataset, Split([]), grouping, clients)
    else:
        recorded = [json.loads(line) for line in lines(folder / "events.jsonl")]
        checkpoint, complaints = load_checkpoint(folder, identity)
        for complaint in complaints:
            note(complaint)
        clients = clients_of(meta)
        fleet.gather_again(*_past(recorded, clients, checkpoint.version if checkpoint else 0))
    front: Connection = Replay(recorded, then=fleet.connection) if recorded else fleet.connection
    whole = sum(len(line) + 1 for line in lines(folder / "events.jsonl")) if recorded else 0
    with closing(fleet.session(local)) as session, Writer(folder, whole) as writer:
        elapsed = checkpoint.wall if checkpoint else 0.0
        watched = config.task.metrics[0]
        recorder = Recorder(writer, identity, elapsed=elapsed, live=True, metric=watched, on_progress=on_progress)
        if meta is None:
            writer.document("meta.json", provenance.meta(config, population, size))
        elif recorded:
            recorder.resumed(checkpoint.version if checkpoint else 0)
        fleet.remark = recorder.aside
        run = LiveRun(
            algorithm,
            session,
            recorder,
            _subjects(config, _testing(config, dataset)),
            front.publish,
            config.training.remember or algorithm.local.stateful,
        )
        look = run.look if algorithm.looks else None
        with stoppable(run, note), threadpool_limits(1), np.errstate(over="ignore", invalid="ignore"):
            try:
                events = assembly.schedule(config, clients, front, look)
                run.go(events, checkpoint, Witness(recorded) if recorded else None)
            except SafelyStopped:
                writer.close()
                raise Interrupted(folder) from None
        account = fleet.account()
        recorder.aside({"event": "fleet", "time": run.server.time, **account})
        writer.close()
        front.close()
        provenance.conclude(
            config, writer, run.server, session.store.peak_bytes, recorder.wall(), traffic=account["traffic"]
        )
    return Result.open(folder)


def _subjects(config: Config, work: Workload) -> list[Subject]:
    """What models are tested on: here, and by all clients at once."""
    tested = [assembly.tested(config, work)]
    return [*tested, assembly.held_out(config, parts=1)] if config.evaluation.held_out else tested


def _testing(config: Config, dataset: Dataset) -> Workload:
    """What the server's own workers are told: to test. They train nobody."""
    algorithm = config.algorithm
    return Workload(
        dataset,
        [],
        config.model,
        config.training,
        algorithm.local,
        algorithm.ships,
        config.run.seed,
        config.run.device,
        config.task,
    )


def _past(recorded: Sequence[_Line], clients: Sequence[ClientInfo], version: int) -> tuple[set[int], set[int], _Line]:
    """Whom the record knows, the orders that are over once there is this version, and the fleet's last account."""
    known = {client.id for client in clients}
    settled: set[int] = set()
    account: _Line = {}
    for line in recorded:
        match line["event"]:
            case "joined":
                known.add(line["client"])
            case "lost":
                settled.add(line["order"])
            case "step" if line["version"] <= version:
                for part in ("used", "dropped"):
                    settled.update(line[part]["order"])
                settled.update(line["rejected"], line["missing"])
            case "fleet":
                account = line
            case _:
                pass
    return known, settled, account
