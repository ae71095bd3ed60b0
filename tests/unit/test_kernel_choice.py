"""`model.kernel`: what `auto` becomes, and that it stays what it became."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

import afbs
from afbs.config import load, with_kernel
from afbs.models.lenet5 import LeNet5
from afbs.native import choice
from afbs.types import UserError
from kernels import needs_kernels
from tiny import settings

IMAGES: dict[str, Any] = {
    **settings(run__virtual_days=0.05),
    "data": {"name": "mnist5k"},
    "model": {"name": "lenet5"},
}
TORCH: dict[str, Any] = {"model.kernel": "torch"}


@pytest.fixture
def unbuilt(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if there had been no compiler."""
    monkeypatch.setattr(choice, "best", lambda: None)
    monkeypatch.setattr(choice, "why_not", lambda: "they were not built")


def kernel(tables: dict[str, Any], **overrides: Any) -> str:
    config = with_kernel(load(tables, overrides))
    assert config.tables["model"]["kernel"] == config.model.kernel
    return config.model.kernel


@needs_kernels
def test_auto_is_native_for_lenet5_on_a_processor() -> None:
    assert kernel({}) == kernel({"model": {"name": "lenet5"}}) == kernel({}, model=LeNet5) == "native"
    assert kernel({}, **{"model.memory_format": "contiguous"}) == "native"
    assert kernel({}, **{"run.device": "cuda"}) == "torch"
    assert kernel({"model": {"name": "mlp"}}) == "torch"
    assert kernel({"model": {"kernel": "torch"}}) == "torch"


def test_auto_is_torch_where_nothing_was_built(unbuilt: None) -> None:
    assert kernel({}) == "torch"


def test_native_is_refused_where_nothing_was_built(unbuilt: None) -> None:
    with pytest.raises(UserError, match=r'`model.kernel` = "native": they were not built. "torch" works everywhere'):
        kernel({"model": {"kernel": "native"}})


@pytest.mark.parametrize(
    ("tables", "complaint"),
    [
        ({"model": {"name": "mlp", "kernel": "native"}}, "only 'lenet5' has one"),
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
    with pytest.raises(UserError, match=r'`model.kernel` = "native"'):
        afbs.resume(tmp_path / "run")
