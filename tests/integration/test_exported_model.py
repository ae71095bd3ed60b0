"""The final model comes back as the network that went in, and leaves as a file that others read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

import afbs
from afbs.data.digits import Digits
from afbs.models.mlp import MLP
from tiny import TINY, command, run


class Tied(nn.Module):
    """A running mean, a counter, a drawn table that does not travel, and a weight with two names."""

    def __init__(self, shape: tuple[int, ...], classes: int, width: int = 5):
        super().__init__()
        self.norm = nn.BatchNorm1d(int(np.prod(shape)))
        self.first = nn.Linear(int(np.prod(shape)), width, bias=False)
        self.again = self.first
        self.last = nn.Linear(width, classes)
        self.register_buffer("places", torch.randperm(width))

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.again(self.norm(x.flatten(1)))[:, self.places])


def accuracy(module: nn.Module) -> float:
    """On the test set, prepared as `Dataset` says, without anything of the trainer."""
    data = Digits().load()
    shift, scale = (np.array(each, np.float32).reshape(1, -1, 1, 1) for each in (data.shift, data.scale))
    x = (data.test_x.astype(np.float32) / 255 - shift) / scale
    with torch.no_grad():
        return float((module(torch.from_numpy(x)).argmax(1).numpy() == data.test_y).mean())


def test_the_network_comes_back_with_the_final_weights(tmp_path: Path) -> None:
    result = run(tmp_path)
    for given in (result, result.folder, str(result.folder)):
        module = afbs.model(given)
        assert isinstance(module, MLP)
        assert not module.training
        flat = torch.cat([parameter.detach().flatten() for parameter in module.parameters()]).numpy()
        assert flat.tobytes() == result.params.tobytes()
    assert accuracy(result.model()) == accuracy(module)
    assert accuracy(module) == pytest.approx(result.final, abs=1e-9)


def test_a_network_given_as_an_object_is_given_again_with_its_recorded_settings(tmp_path: Path) -> None:
    result = run(tmp_path, model={"name": Tied, "width": 7}, **{"training.last_batch": "merge"})
    module = afbs.model(result, model=Tied)
    assert isinstance(module, Tied)
    assert isinstance(result.model(model=Tied), Tied)
    assert module.first.weight is module.again.weight
    assert module.first.weight.shape == (7, 64)
    assert accuracy(module) == pytest.approx(result.final, abs=1e-9), "the drawn places are the run's"


def test_neither_data_nor_the_state_of_torch_is_touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 4)).astype(np.float32)
    result = run(tmp_path, data=(x, (x[:, 0] > 0).astype(np.int64)))
    state = torch.get_rng_state()
    module = afbs.model(result)  # the arrays were given in Python, and are not needed
    assert torch.equal(torch.get_rng_state(), state)
    assert module(torch.zeros(3, 4)).shape == (3, 2)


def test_the_input_of_the_network_is_in_the_record(tmp_path: Path) -> None:
    data = Digits().load()
    said = json.loads((run(tmp_path).folder / "meta.json").read_text())["input"]
    assert said == {
        "shape": [1, 8, 8],
        "tokens": 0,
        "unit": 255,
        "shift": list(data.shift),
        "scale": list(data.scale),
    }


def test_a_record_that_does_not_say_what_its_input_is_falls_back_on_the_data(tmp_path: Path) -> None:
    result = run(tmp_path)
    meta = json.loads((result.folder / "meta.json").read_text())
    del meta["input"]
    (result.folder / "meta.json").write_text(json.dumps(meta))
    assert accuracy(afbs.model(result.folder)) == pytest.approx(result.final, abs=1e-9)


@pytest.mark.parametrize("shape", [[2**50], [2**40, 2**40]], ids=str)
def test_a_shape_that_no_memory_holds_is_a_sentence(shape: list[int], tmp_path: Path) -> None:
    result = run(tmp_path)
    meta = json.loads((result.folder / "meta.json").read_text())
    meta["input"]["shape"] = shape
    (result.folder / "meta.json").write_text(json.dumps(meta))
    with pytest.raises(afbs.UserError, match=r"meta.json` is damaged: no memory holds samples of shape \["):
        afbs.model(result.folder)


def test_another_network_is_refused(tmp_path: Path) -> None:
    result = run(tmp_path, model={"name": Tied, "width": 5}, **{"training.last_batch": "merge"})
    with pytest.raises(afbs.UserError) as refused:
        afbs.model(result, model=lambda shape, classes, width: MLP(shape, classes, width))
    # A flat 8 × 8 image to 5 to 10, with biases: 64·5 + 5 + 5·10 + 10. Tied has no first bias, and 4 · 64 of its norm.
    said = f"`model` is not the network that was trained in {result.folder}: it has 385 numbers, and what was trained"
    assert str(refused.value) == f"{said} has 636."


def test_a_run_that_has_not_ended_has_no_model(tmp_path: Path) -> None:
    folder = run(tmp_path).folder
    (folder / "model.safetensors").unlink()
    (folder / "result.json").unlink()
    with pytest.raises(afbs.UserError, match="has no final model: the run has not ended"):
        afbs.model(folder)


@pytest.mark.parametrize("ending", ["pt", "safetensors"])
def test_a_file_knows_the_parameters_by_name(ending: str, tmp_path: Path) -> None:
    result = run(tmp_path, model=Tied, **{"training.last_batch": "merge"})
    path = afbs.export_model(result, tmp_path / f"model.{ending}", model=Tied)
    named = torch.load(path, weights_only=True) if ending == "pt" else load_file(path)
    assert {"norm.running_mean", "first.weight", "again.weight", "last.bias", "places"} <= set(named)
    fresh = Tied((1, 8, 8), 10)
    fresh.load_state_dict(named)
    assert accuracy(fresh.eval()) == pytest.approx(result.final, abs=1e-9)
    assert [file.name for file in tmp_path.iterdir() if file.is_file()] == [path.name]


def test_an_onnx_file_is_made_from_samples_of_the_right_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = run(tmp_path)

    def written(module: nn.Module, samples: tuple[Tensor], file: str, **options: Any) -> None:
        assert samples[0].shape[1:] == (1, 8, 8)
        assert accuracy(module) == pytest.approx(result.final, abs=1e-9)
        Path(file).write_bytes(b"a graph")

    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    monkeypatch.setattr(torch.onnx, "export", written)
    assert afbs.export_model(result, tmp_path / "model.onnx").read_bytes() == b"a graph"


def test_a_network_that_torch_cannot_follow_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = run(tmp_path)

    def refused(*args: Any, **options: Any) -> None:
        raise torch.onnx.OnnxExporterError("a page of graphs")

    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    monkeypatch.setattr(torch.onnx, "export", refused)
    with pytest.raises(afbs.UserError, match=r"`model` cannot be written as \.onnx: .* The other formats take any"):
        afbs.export_model(result, tmp_path / "model.onnx")


def test_without_onnx_a_sentence_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = run(tmp_path)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "onnx" else name)
    with pytest.raises(afbs.UserError, match=r"needs the package onnx\. Try: pip install 'afbs\[onnx\]'"):
        afbs.export_model(result, tmp_path / "model.onnx")
    assert not (tmp_path / "model.onnx").exists()


def test_the_command_writes_a_model_or_a_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = run(tmp_path).folder
    assert command(monkeypatch, "export", folder, "--model", tmp_path / "final.safetensors") == 0
    assert capsys.readouterr().out == f"Wrote {tmp_path / 'final.safetensors'}.\n"
    assert set(load_file(tmp_path / "final.safetensors")) == {
        f"layers.{layer}.{kind}" for layer in (1, 3) for kind in ("weight", "bias")
    }
    assert command(monkeypatch, "export", folder, "--trace", tmp_path / "fleet.csv") == 0
    said, _, simulate = capsys.readouterr().out.partition("\n")
    assert said == f"Wrote {tmp_path / 'fleet.csv'}."
    assert simulate.startswith(f"To run on it: afbs run {folder / 'config.toml'} ")
    assert (tmp_path / "fleet.csv").read_text().startswith("client,start,duration\n")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "give it one of `--to`, `--trace` and `--model`."),
        (["--to", "wandb", "--model", "m.pt"], "give it one of `--to`, `--trace` and `--model`."),
        (["--model", "m.pt", "--follow"], "`--destination` and `--follow` go with `--to`."),
        (["--trace", "f.csv", "--destination", "x"], "`--destination` and `--follow` go with `--to`."),
        (["--model", "m.h5"], "ends in .pt, .safetensors or .onnx, got 'm.h5'."),
        (["--model", "nowhere/m.pt"], "nowhere/m.pt cannot be written: No such file or directory."),
    ],
)
def test_what_cannot_be_exported_is_a_sentence(
    options: list[str],
    said: str,
    ended: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert command(monkeypatch, "export", ended, *options) == 2
    assert said in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return afbs.run(TINY, folder=tmp_path_factory.mktemp("runs") / "run").folder


def test_a_class_that_cannot_be_found_again_is_asked_for(tmp_path: Path) -> None:
    class Local(MLP):  # type: ignore[misc]
        pass

    result = run(tmp_path, model=Local)
    with pytest.raises(afbs.UserError, match=r"It must be given again, in Python: afbs\.model\(…, model=…\)"):
        afbs.model(result)
    assert isinstance(afbs.model(result, model=Local), Local)
