"""`afbs verify`: decide a run again from its record alone, and say whether it is what it was."""

from __future__ import annotations

import json
import shlex
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from afbs.config import Config, load
from afbs.engine.witness import DifferentlyDecidedError, Witness
from afbs.experiment import assembly, kernel
from afbs.experiment.arithmetic import differences
from afbs.experiment.provenance import changed
from afbs.record.files import opened
from afbs.record.final import final_model
from afbs.record.reader import read_meta, read_result
from afbs.record.seal import Break, lines, read_seal
from afbs.transports.replay import Replay
from afbs.types import ClientInfo, Decided, Facts, RunError, Stopped, UserError, Waiting


@dataclass(frozen=True)
class Verdict:
    """What was found. `problem` is empty if everything is as it should be; `step` is the first one that is not."""

    steps: int
    problem: str = ""
    step: int | None = None
    trained: bool = False

    @property
    def good(self) -> bool:
        return not self.problem


def verify(folder: str | Path, *, train: bool = False, **overrides: Any) -> Verdict:
    """Decide the whole run again, by its record: no data, no training, no clock. With `train`, train it again, too.

    The record must be unbroken, every decision must be what the algorithm decides, and with `train` the final model
    must be the same, bit for bit.
    """
    path = Path(folder)
    meta = read_meta(path)
    if meta.get("light"):
        raise UserError(
            f"`{path}` cannot be verified: of its record only the evaluations were kept, as in the results of a sweep. "
            f"The run's own folder can be; or run it again and compare the sha256 of the models: {_again(path)}"
        )
    config = kernel.as_begun(load(path / "config.toml", overrides, modules=meta.get("modules", ())), meta)
    verdict = _decided_again(path, config, meta)
    if verdict.good:
        verdict = _as_it_ended(path, config, meta, verdict)
    if verdict.good and train:
        return _trained_again(path, config, meta, verdict)
    return verdict


def _again(folder: Path) -> str:
    return f"afbs run {shlex.quote(str(folder / 'config.toml'))}"


def _decided_again(folder: Path, config: Config, meta: Mapping[str, Any]) -> Verdict:
    events = folder / "events.jsonl"
    try:
        opened(events).close()
    except FileNotFoundError:
        raise UserError(f"`{folder}` has no record: there is no `events.jsonl`.") from None
    result = read_result(folder)
    seal, broken = read_seal(events)
    try:
        record = [json.loads(line) for line in lines(events)]
        witness = Witness(record)
    except (ValueError, KeyError, TypeError):
        return _broken(broken, "a line of `events.jsonl` cannot be read")
    steps = 0
    try:
        steps = _decide(config, clients(meta), record, witness, bool(result))
    except DifferentlyDecidedError as error:
        return Verdict(error.version - 1, str(error), error.version)
    except (RunError, KeyError, TypeError, ValueError) as error:
        at = witness.version + 1
        return Verdict(at - 1, f"From step {at} on the record cannot be followed: {error}", at)
    if broken is not None:
        return _broken(broken, "something in `events.jsonl` was changed that decides nothing")
    if result is not None and result.get("seal") != seal.text():
        return Verdict(steps, "The end of `events.jsonl` is not what it was when the run ended.", steps)
    return Verdict(steps)


def _as_it_ended(folder: Path, config: Config, meta: Mapping[str, Any], verdict: Verdict) -> Verdict:
    """What decides no step may have been changed, too: the settings of training, and the final model."""
    tables = changed(config, meta.get("settings", {}))
    if tables:
        return Verdict(verdict.steps, f"`[{tables[0]}]` in `config.toml` is not what the run began with.")
    result = read_result(folder)
    if result is not None:
        try:
            final_model(folder, result)
        except UserError as error:
            return Verdict(verdict.steps, str(error))
    return verdict


def _decide(
    config: Config, known: list[ClientInfo], record: list[dict[str, Any]], witness: Witness, ended: bool
) -> int:
    """How many steps were decided again, all as recorded."""
    told = witness.facts()

    def look(updates: Any) -> Facts:
        return told.popleft()

    steps = 0
    replay = Replay(record)
    for event in assembly.schedule(config, known, replay, look if config.algorithm.looks else None):
        if witness.done and not ended:
            break  # the record of a run that has not ended may stop anywhere
        if isinstance(event, Stopped | Waiting):
            break
        witness.see(event)
        steps += isinstance(event, Decided)
    if not witness.done:
        witness.refuse_rest()
    return steps


def _trained_again(folder: Path, config: Config, meta: Mapping[str, Any], verdict: Verdict) -> Verdict:
    from afbs.experiment.running import run

    result = read_result(folder)
    if result is None:
        raise UserError(f"{folder} has no final model to compare with: the run has not ended.")
    with tempfile.TemporaryDirectory(prefix="afbs-verify-") as place:
        again = run(config, folder=Path(place) / "again", progress=False)
        now = (read_result(again.folder) or {}).get("sha256")
    if now != result.get("sha256"):
        another = f"Trained again, the final model is another: {now}, and was {result.get('sha256')}."
        return Verdict(verdict.steps, " ".join([another, *differences(meta)]))
    return Verdict(verdict.steps, trained=True)


def clients(meta: Mapping[str, Any]) -> list[ClientInfo]:
    """The clients as the server knew them when the run began, from `meta.json`."""
    columns = meta.get("clients") or {}
    if not columns.get("id") or not columns.get("examples") or None in columns["examples"]:
        raise UserError("`meta.json` does not say who the clients were.")
    clusters = columns.get("cluster") or [0] * len(columns["id"])
    late = columns.get("late") or [False] * len(columns["id"])
    rows = zip(columns["id"], columns["examples"], clusters, late, strict=True)
    return [ClientInfo(*row) for *row, came_later in rows if not came_later]


def _broken(broken: Break | None, what: str) -> Verdict:
    if broken is None:
        return Verdict(0, f"The record is damaged: {what}.")
    try:
        version = int(json.loads(broken.line)["version"])
    except (ValueError, KeyError, TypeError):
        return Verdict(0, f"The record is damaged before line {broken.number}: {what}.")
    return Verdict(
        version - 1, f"The record is damaged before or at step {version} (line {broken.number}): {what}.", version
    )
