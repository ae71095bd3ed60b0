"""The ServerApp: any algorithm, on the nodes of a Flower deployment."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Any

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from afbs.apps.data import Labelled, samples
from afbs.apps.mortal import mortal
from afbs.apps.setup import ConfigSource, configuration
from afbs.config import Config
from afbs.experiment.running import folder_name
from afbs.experiment.serving import serve
from afbs.interfaces import Brief, Fleet
from afbs.record.recorder import Progress
from afbs.transports.flower import Flower
from afbs.transports.flower.fleet import FlowerFleet
from afbs.types import Dataset, RunError, UserError

_SAY_SECONDS = 10.0


def server_app(config: ConfigSource, *, test: Callable[[], Labelled] | None = None, **overrides: Any) -> ServerApp:
    """A ServerApp that runs the configuration and writes a run folder.

    `test` gives the samples and labels that the model is tested on; without it they are the test samples of the
    configured data. The run's `folder` says where to write; a folder that a killed server left is continued.
    """
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        try:
            with mortal(_say):
                serving(grid, context)
        except (UserError, RunError) as error:
            raise error.with_traceback(None) from None  # Flower prints it whole, and its sentence says what is wrong

    def serving(grid: Grid, context: Context) -> None:
        settings = configuration(config, context.run_config, overrides)
        runs = Path(os.environ.get("AFBS_RUNS", "runs"))
        folder = context.run_config.get("folder") or runs / folder_name(settings.name)
        dataset = _dataset(settings, test)
        speaker = Speaker(settings)
        place = Path(str(folder)).expanduser().absolute()
        speaker.say(f"Folder: {place}")

        def reach(brief: Brief) -> Fleet:
            speaker.fleet = fleet_of(grid, settings, brief, speaker.say)
            return speaker.fleet

        result = serve(settings, reach, place, dataset=dataset, on_progress=speaker.progress, on_note=speaker.say)
        speaker.say(f"Done: best {result.metric.called} {result.metric.text(result.best, 2)}. Folder: {result.folder}")

    return app


def fleet_of(grid: Grid, config: Config, brief: Brief, tell: Callable[[str], None], **more: Any) -> FlowerFleet:
    if not isinstance(config.transport, Flower):
        raise UserError("`transport.name` must be 'flower' in an app that `flwr run` starts.")
    return FlowerFleet(grid, config.transport, brief, secrets.token_hex(8), tell=tell, **more)


class Speaker:
    """Says how a deployment is going, in lines that a log can hold."""

    def __init__(self, config: Config):
        self._config = config
        self.fleet: FlowerFleet | None = None
        self._said = monotonic()

    def say(self, text: str) -> None:
        _say(text)

    def progress(self, state: Progress) -> None:
        if monotonic() - self._said < _SAY_SECONDS:
            return
        self._said = monotonic()
        goal = f"/{self._config.run.versions}" if self._config.run.versions else ""
        now = state.time if self.fleet is None else self.fleet.connection.now()
        parts = [
            f"{now:.0f} s",
            f"version {state.version}{goal}",
            f"{state.metric.called} {state.metric.text(state.value)}",
        ]
        if self.fleet is not None:
            orders = self.fleet.orders
            parts.append(f"clients here: {len(self.fleet.attendance.here())}, orders out: {len(orders.out)}")
            parts.append(f"{orders.moved.uploaded / 1e6:.1f} MB uploaded, {orders.moved.spared / 1e6:.1f} MB spared")
        self.say(" · ".join(parts))


def _say(text: str) -> None:
    print(f"[afbs] {text}", flush=True)  # noqa: T201 - a ServerApp's output is the log of its run


def _dataset(config: Config, test: Callable[[], Labelled] | None) -> Dataset:
    if test is None:
        return config.data.load()
    given = test()
    if isinstance(given, Dataset):
        return given
    found = samples(given, "`test`", not config.task.native)
    return Dataset(found.train_x[:2], found.train_y[:2], found.train_x, found.train_y, found.classes)
