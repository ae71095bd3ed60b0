"""Hands a run to the trackers people already use. Off unless asked for; each needs its own package.

All three are fed from the same events by `export`: scalars of evaluations and steps, the settings once, and the
summary at the end. With `follow` it goes on until the run has ended.
"""

from __future__ import annotations

import importlib
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from afbs.record import reader
from afbs.record.kinds import ClientsLine, EndLine, EvalLine, ResumeLine, StepLine, Told
from afbs.report.arms import flatten
from afbs.types import UserError

POLL_SECONDS = 0.5


class Tracker(Protocol):
    """Where numbers go."""

    def settings(self, settings: Mapping[str, str]) -> None: ...

    def scalars(self, numbers: Mapping[str, float], step: int) -> None: ...

    def close(self, summary: Mapping[str, float]) -> None: ...


def export(
    folder: str | Path,
    to: str,
    *,
    destination: str | None = None,
    follow: bool = False,
    sleep: Callable[[float], None] = time.sleep,
) -> int:
    """Send a run to `tensorboard`, `mlflow` or `wandb`; how many lines of numbers were sent."""
    path = Path(folder)
    if to not in TRACKERS:
        raise UserError(f"`--to` must be one of {', '.join(TRACKERS)}, got {to!r}.")
    # Everything that may be wrong with the run is found before a tracker hears of it.
    name = reader.read_meta(path).get("name") or path.name
    settings = flatten(reader.read_config(path))
    reader.read_result(path)
    reader.tail(path, most=1)
    with _in_words(to, destination or str(path)):
        tracker = TRACKERS[to](path, name, destination)
        tracker.settings(settings)
        sent = _send(path, tracker, follow, sleep)
        result = reader.read_result(path) or {}
        tracker.close({key: float(value) for key, value in result.items() if isinstance(value, int | float)})
    return sent


def _send(path: Path, tracker: Tracker, follow: bool, sleep: Callable[[float], None]) -> int:
    place, sent, ended = reader.Place(), 0, False
    while True:
        found = reader.tail(path, place)
        moved, place = found.place != place, found.place
        for said in found.lines:
            ended = isinstance(said, EndLine) or (ended and not isinstance(said, ResumeLine))
            if isinstance(said, EvalLine | ClientsLine | StepLine):
                tracker.scalars(scalars(said), said.version)
                sent += 1
        if not moved:
            if not follow or ended or reader.read_result(path) is not None:
                return sent
            sleep(POLL_SECONDS)


@contextmanager
def _in_words(to: str, destination: str) -> Iterator[None]:
    """A disk that cannot be written, or an address where nobody answers, is no reason for a traceback."""
    try:
        yield
    except OSError as error:
        raise UserError(f"`{error.filename or destination}` cannot be written: {error.strerror or error}.") from None
    except Exception as error:
        if type(error).__module__.partition(".")[0] != to:
            raise
        raise UserError(f"{to} refused the run: {error}") from error


def scalars(said: Told) -> dict[str, float]:
    """The numbers of an evaluation or a step; nothing for other lines."""
    found: dict[str, float] = {}
    if isinstance(said, EvalLine):
        found = {f"eval/{name}": value for name, value in said.values.items()}
        found |= {"eval/time": said.time, "eval/wall": said.wall}
        found |= {f"class/{i}": share for i, share in enumerate(said.per_class)}
    elif isinstance(said, ClientsLine):
        found = {f"clients/{name}/{kind}": value for name, each in said.values.items() for kind, value in each.items()}
    elif isinstance(said, StepLine):
        kept = said.used.staleness
        found = {
            "step/used": len(kept),
            "step/dropped": len(said.dropped.staleness),
            "step/weight": sum(said.used.weight),
            "step/time": said.time,
            "step/staleness": sum(kept) / len(kept) if kept else math.nan,
        }
    return {name: float(value) for name, value in found.items() if math.isfinite(value)}


class _TensorBoard:
    def __init__(self, folder: Path, name: str, destination: str | None):
        event_file = _package("tensorboard.summary.writer.event_file_writer", "tensorboard")
        self._proto = _package("tensorboard.compat.proto.event_pb2", "tensorboard")
        self._summary = _package("tensorboard.compat.proto.summary_pb2", "tensorboard")
        self._tensor = _package("tensorboard.plugins.text.summary", "tensorboard")
        self._writer = event_file.EventFileWriter(str(Path(destination or folder / "tensorboard")))

    def settings(self, settings: Mapping[str, str]) -> None:
        text = "".join(f"    {path} = {value}\n" for path, value in settings.items())
        self._add(self._tensor.text_pb("config", text), 0)

    def scalars(self, numbers: Mapping[str, float], step: int) -> None:
        values = [self._summary.Summary.Value(tag=name, simple_value=value) for name, value in numbers.items()]
        self._add(self._summary.Summary(value=values), step)

    def close(self, summary: Mapping[str, float]) -> None:
        if summary:
            self.scalars({f"result/{name}": value for name, value in summary.items()}, 0)
        self._writer.flush()
        self._writer.close()

    def _add(self, summary: Any, step: int) -> None:
        self._writer.add_event(self._proto.Event(wall_time=time.time(), step=step, summary=summary))


class _MLflow:
    def __init__(self, folder: Path, name: str, destination: str | None):
        self._mlflow = _package("mlflow", "mlflow")
        if destination:
            self._mlflow.set_tracking_uri(destination)
        self._mlflow.start_run(run_name=name)

    def settings(self, settings: Mapping[str, str]) -> None:
        self._mlflow.log_params(dict(settings))

    def scalars(self, numbers: Mapping[str, float], step: int) -> None:
        self._mlflow.log_metrics(dict(numbers), step=step)

    def close(self, summary: Mapping[str, float]) -> None:
        if summary:
            self._mlflow.log_metrics({f"result/{name}": value for name, value in summary.items()})
        self._mlflow.end_run()


class _WandB:
    def __init__(self, folder: Path, name: str, destination: str | None):
        self._run = _package("wandb", "wandb").init(project=destination or "afbs", name=name, dir=str(folder))
        # wandb wants its steps in order; evaluations and steps each have their own, so the version is a number too.
        self._run.define_metric("*", step_metric="version")

    def settings(self, settings: Mapping[str, str]) -> None:
        self._run.config.update(dict(settings))

    def scalars(self, numbers: Mapping[str, float], step: int) -> None:
        self._run.log({**numbers, "version": step})

    def close(self, summary: Mapping[str, float]) -> None:
        self._run.summary.update(dict(summary))
        self._run.finish()


TRACKERS: dict[str, Callable[[Path, str, str | None], Tracker]] = {
    "tensorboard": _TensorBoard,
    "mlflow": _MLflow,
    "wandb": _WandB,
}


def _package(module: str, extra: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise UserError(
            f"The package for {extra} is not installed. Install it with: pip install 'afbs[{extra}]'"
        ) from None
