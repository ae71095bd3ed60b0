"""The kernel that a run is trained with from its first job to its last."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from afbs.config import Config, with_kernel
from afbs.native.choice import settled
from afbs.types import Dataset


def chosen(config: Config, dataset: Dataset, **advice: str) -> Config:
    """With `auto` decided. Of a network of one's own only its layers say what it can be trained with."""

    def fused() -> bool:
        from afbs.clients.build import build
        from afbs.nn.conv_pool_relu import native_layers

        return bool(native_layers(build(config.model, dataset, config.task)))

    usual = config.task.native and config.training.usual
    return with_kernel(config, settled(config.model, config.run.device, usual, fused, **advice).kernel)


def needed(config: Config, dataset: Dataset, folder: Path) -> Config:
    """As `chosen`, for a run that has begun. No other kernel than its own would do."""
    file = shlex.quote(str(folder / "config.toml"))
    otherwise = (
        f"The run in {folder} began with it and needs it to its end: resume it on the CPU of a machine where "
        f"`afbs doctor` finds native kernels, or begin a new run: afbs run {file} --set model.kernel=torch"
    )
    return chosen(config, dataset, otherwise=otherwise)


def as_begun(config: Config, meta: Mapping[str, Any]) -> Config:
    """With what the run took, where a network that is given again has not chosen yet."""
    return with_kernel(config, meta.get("kernel", "auto")) if config.model.kernel == "auto" else config
