"""`model.kernel`: what `auto` becomes, and that it stays what it became."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import Tensor, nn

import afbs
from afbs.config import load
from afbs.data.digits import Digits
from afbs.experiment.kernel import chosen
from afbs.models.lenet5 import LeNet5
from afbs.native import choice
from afbs.native.library import best
from afbs.nn import ConvPoolReLU
from afbs.types import Dataset, UserError
from kernels import needs_kernels
from tiny import settings

IMAGES: dict[str, Any] = {
    **settings(run__virtual_days=0.05),
    "data": {"name": "mnist5k"},
    "model": {"name": "lenet5"},
}
TORCH: dict[str, Any] = {"model.kernel": "torch"}
NATIVE: dict[str, Any] = {"model.kernel": "native"}
DIGITS = Digits().load()


class Own(nn.Module):
    """A layer that has a kernel, unless its own is another; and one dense layer."""

    def __init__(self, shape: tuple[int, ...], classes: int, side: int = 3):
        super().__init__()
        self.layers = nn.Sequential(
            ConvPoolReLU(shape[0], 4, side, padding="valid" if side == 4 else side // 2),
            nn.Flatten(),
            nn.LazyLinear(classes),
        )

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.layers(x)
        return scores


def plain(shape: tuple[int, ...], classes: int) -> nn.Module:
    """The same with torch's layers."""
    layers = [nn.Conv2d(shape[0], 4, 3, padding=1), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten(), nn.LazyLinear(classes)]
    return nn.Sequential(*layers)


@pytest.fixture
def unbuilt(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if there had been no compiler."""
    monkeypatch.setattr(choice, "best", lambda: None)
    monkeypatch.setattr(choice, "why_not", lambda: "they were not built")


def kernel(tables: dict[str, Any], **overrides: Any) -> str:
    config = chosen(load(tables, overrides), DIGITS)
    assert config.tables["model"]["kernel"] == config.model.kernel
    return config.model.kernel


@needs_kernels
def test_auto_is_native_for_lenet5_on_a_processor() -> None:
    assert kernel({}) == kernel({"model": {"name": "lenet5"}}) == kernel({}, model=LeNet5) == "native"
    assert kernel({}, **{"model.memory_format": "contiguous"}) == "native"
    assert kernel({}, **{"model.margin": 1, "model.start": "xavier"}) == "native"
    assert kernel({}, **{"model.activation": "tanh"}) == kernel({}, **{"model.pooling": "mean"}) == "torch"
    assert kernel({}, **{"run.device": "cuda"}) == "torch"
    assert kernel({"model": {"name": "mlp"}}) == "torch"
    assert kernel({"model": {"kernel": "torch"}}) == "torch"


@needs_kernels
def test_auto_is_native_for_flgos_network_which_has_such_layers() -> None:
    pixels, labels = np.zeros((2, 3, 32, 32), np.uint8), np.arange(2)
    photographs = Dataset(pixels, labels, pixels, labels, 2)
    assert chosen(load({"model": {"name": "flgo_cnn"}}), photographs).model.kernel == "native"


def test_auto_is_torch_where_nothing_was_built(unbuilt: None) -> None:
    assert kernel({}) == "torch"


def test_native_is_refused_where_nothing_was_built(unbuilt: None) -> None:
    with pytest.raises(UserError, match=r'`model.kernel` = "native": they were not built. "torch" works everywhere'):
        kernel({"model": {"kernel": "native"}})


@pytest.mark.parametrize(
    ("tables", "complaint"),
    [
        ({"model": {"name": "mlp", "kernel": "native"}}, "the network has no layer that has one"),
        ({"model": {"pooling": "mean", "kernel": "native"}}, "'lenet5' has ReLU and the maximum, and no other"),
        ({"model": {"kernel": "native"}, "run": {"device": "cuda"}}, "`run.device` is 'cuda'"),
        ({"model": {"kernel": "fast"}}, "`model.kernel` must be 'auto', 'native' or 'torch', got 'fast'"),
    ],
)
def test_a_kernel_that_cannot_be_is_refused(tables: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        kernel(tables)


def test_another_kernel_keeps_the_other_settings_of_the_model() -> None:
    config = load({"model": {"name": "mlp", "hidden": 3}}, {"model.kernel": "torch"})
    assert config.model.kernel == "torch"
    assert config.model.settings == {"hidden": 3}
    assert load(config, {"model.hidden": 4}).model.kernel == "torch"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("missing.so", "AFBS_NATIVE_FILE names {}, and there is no such file."),
        ("text.so", "{}, which AFBS_NATIVE_FILE names, is no library of this version of afbs."),
    ],
)
def test_a_library_that_the_environment_names_wrongly_is_named(tmp_path: Path, name: str, reason: str) -> None:
    (tmp_path / "text.so").write_text("no library")
    command, environment = [sys.executable, "-m", "afbs.native"], {**os.environ, "AFBS_NATIVE_FILE": name}
    found = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert reason.format(tmp_path / name) in found.stdout


@needs_kernels
def test_a_run_records_what_it_took(tmp_path: Path) -> None:
    afbs.run(IMAGES, folder=tmp_path / "run")
    assert tomllib.loads((tmp_path / "run/config.toml").read_text())["model"]["kernel"] == "native"
    assert json.loads((tmp_path / "run/meta.json").read_text())["kernel"] == "native"


@needs_kernels
def test_a_native_run_is_not_taken_up_with_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    afbs.run(IMAGES, folder=tmp_path / "run")
    (tmp_path / "run/result.json").unlink()
    with pytest.raises(UserError, match=r"`\[model\]` was changed"):
        afbs.resume(tmp_path / "run", **TORCH)
    monkeypatch.setattr(choice, "best", lambda: None)
    with pytest.raises(
        UserError, match=r"began with it and needs it to its end: resume it on the CPU .* `afbs doctor`"
    ):
        afbs.resume(tmp_path / "run")


@needs_kernels
def test_a_native_run_is_verified_where_nothing_was_built(tmp_path: Path, unbuilt: None) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choice, "best", best)
        afbs.run(IMAGES, folder=tmp_path / "run")
    assert afbs.verify(tmp_path / "run").good


@needs_kernels
def test_a_network_of_ones_own_is_native_if_one_of_its_layers_can_be() -> None:
    assert kernel({}, model=Own) == kernel({}, model={"name": Own}, **NATIVE) == "native"
    assert kernel({}, model=Own, **{"task.name": "regression"}) == "native"
    assert kernel({}, model=plain) == kernel({}, model=Own, **TORCH) == "torch"
    assert kernel({}, model={"name": Own, "side": 4}) == "torch"
    assert kernel({}, model=Own, **{"run.device": "cuda"}) == "torch"
    with pytest.raises(UserError, match=r"the network has no layer that has one, as afbs.nn.ConvPoolReLU"):
        kernel({}, model=plain, **NATIVE)


def test_a_network_is_not_built_where_nothing_depends_on_it(unbuilt: None) -> None:
    def unbuildable() -> nn.Module:
        raise AssertionError

    assert kernel({}, model=unbuildable) == "torch"


def own_run(folder: Path, model: Any, kernel: str, executor: dict[str, Any] | None = None) -> afbs.Result:
    tables = {**settings(run__virtual_days=0.05), "executor": executor or {"name": "inline"}}
    return afbs.run(tables, folder=folder, progress=False, model={"name": model, "kernel": kernel})


@needs_kernels
@pytest.mark.parametrize(
    "executor", [{"name": "inline"}, {"name": "processes", "workers": 1}], ids=lambda it: it["name"]
)
def test_torch_in_a_network_of_ones_own_is_torch_to_the_bit(tmp_path: Path, executor: dict[str, Any]) -> None:
    ours, theirs = own_run(tmp_path / "ours", Own, "torch", executor), own_run(tmp_path / "theirs", plain, "torch")
    native = own_run(tmp_path / "native", Own, "native", executor)
    assert ours.params.tobytes() == theirs.params.tobytes() != native.params.tobytes()


@needs_kernels
def test_a_run_of_ones_own_network_records_what_it_took_and_keeps_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    own_run(folder, Own, "auto")
    assert tomllib.loads((folder / "config.toml").read_text())["model"]["kernel"] == "native"
    assert json.loads((folder / "meta.json").read_text())["kernel"] == "native"
    (folder / "result.json").unlink()
    assert afbs.resume(folder, model=Own).done
    (folder / "result.json").unlink()
    monkeypatch.setattr(choice, "best", lambda: None)
    given: list[dict[str, Any]] = [{}, {"model": Own}]
    for again in given:
        with pytest.raises(UserError, match="began with it and needs it to its end"):
            afbs.resume(folder, **again)
