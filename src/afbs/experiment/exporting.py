"""The final model of a run as the network that was trained, and as a file that knows its parameters by name."""

from __future__ import annotations

import importlib.util
import io
import logging
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save
from torch import nn

from afbs import registry
from afbs.clients.build import build
from afbs.clients.flatten import restore
from afbs.config import load
from afbs.experiment.result import Result
from afbs.record.reader import read_config, read_meta
from afbs.record.schema import MetaFile
from afbs.record.writer import replace_file
from afbs.seeds import Key
from afbs.types import Dataset, UserError


def model(run: Result | str | Path, *, model: Any = None) -> nn.Module:
    """The network of a run with its final weights, on the CPU, ready to be asked (`eval`).

    It is built from the run folder alone, without the data. A network that was given as an object and cannot be found
    by name (a class in a notebook) must be given again: `afbs.model(result, model=MyNet)`.
    """
    return _restored(_opened(run), model)


def export_model(run: Result | str | Path, file: str | Path, *, model: Any = None) -> Path:
    """Writes the final model to `file`: `.pt` (a state_dict), `.safetensors` or `.onnx`."""
    path = Path(file)
    if path.suffix not in _FORMATS:
        raise UserError(f"A model's file ends in .pt, .safetensors or .onnx, got {str(file)!r}.")
    result = _opened(run)
    content = _FORMATS[path.suffix](_restored(result, model), result)
    try:
        replace_file(path, content)
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}.") from error
    return path


def _opened(run: Result | str | Path) -> Result:
    return run if isinstance(run, Result) else Result.open(run)


def _restored(result: Result, network: Any) -> nn.Module:
    params = torch.from_numpy(result.params.copy())  # what was read may not be written to
    meta = read_meta(result.folder)
    table = read_config(result.folder).get("model", {})
    given = table if network is None else {**table, "name": network}
    config = load({"model": given}, modules=(*meta.get("modules", ()), Path()))
    if network is None and isinstance(config.model.build, str):
        _find(config.model.build)
    # What does not travel with the vector, a table of drawn indices say, is drawn as it was for the run.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(Key.root(meta.get("seed") or 0, "model").integer())
        module = build(config.model, _samples(result.folder, meta))
    try:
        restore(module, params)
    except ValueError as error:
        raise UserError(f"`model` is not the network that was trained in {result.folder}: {error}.") from None
    return module.eval()


def _find(name: str) -> None:
    try:
        registry.find("model", name)
    except UserError as error:
        raise UserError(
            f"{error} It must be given again, in Python: afbs.model(…, model=…), or afbs.export_model(…, model=…)"
        ) from None


def _samples(folder: Path, meta: MetaFile) -> Dataset:
    """Two empty samples of the run's kind: all that a network must know of its data to be built."""
    known = meta.get("input")
    if known is None or "outputs" not in meta:  # an older run: the data themselves say it
        config = load(folder / "config.toml", modules=meta.get("modules", ()))
        data = config.data.load()
        return replace(data, classes=config.task.sizes(data)[1])
    try:
        x = np.zeros((2, *known["shape"]), np.int64 if known["tokens"] else np.float32)
    except (ValueError, MemoryError):
        what = f"no memory holds samples of shape {known['shape']}"
        raise UserError(f"`{folder / 'meta.json'}` is damaged: {what}.") from None
    y = np.zeros(2, np.int64)
    return Dataset(x, y, x, y, meta["outputs"], tokens=known["tokens"])


def _pt(module: nn.Module, result: Result) -> bytes:
    file = io.BytesIO()
    torch.save(module.state_dict(), file)
    return file.getvalue()


def _safetensors(module: nn.Module, result: Result) -> bytes:
    """Every name has its numbers, also where two names share them."""
    named = {name: tensor.clone().contiguous() for name, tensor in module.state_dict().items()}
    content: bytes = save(named)
    return content


def _onnx(module: nn.Module, result: Result) -> bytes:
    for name in ("onnx", "onnxscript"):
        if importlib.util.find_spec(name) is None:
            raise UserError(f"An .onnx file needs the package {name}. Try: pip install 'afbs[onnx]'")
    data = _samples(result.folder, read_meta(result.folder))
    sample = torch.from_numpy(np.array(data.train_x[:2]))
    sample = sample.long() if data.tokens else sample.float()
    with _hushed(), tempfile.TemporaryDirectory(prefix="afbs-onnx-") as place:
        path = Path(place) / "model.onnx"
        try:
            torch.onnx.export(
                module,
                (sample,),
                str(path),
                input_names=["samples"],
                output_names=["scores"],
                dynamic_shapes=({0: torch.export.Dim("batch")},),
                dynamo=True,
                external_data=False,
                verbose=False,
            )
        except torch.onnx.OnnxExporterError as error:
            what = "torch.onnx cannot follow what it computes. The other formats take any network"
            raise UserError(f"`model` cannot be written as .onnx: {what}.") from error
        return path.read_bytes()


@contextmanager
def _hushed() -> Iterator[None]:
    """Without what torch warns and logs about its own insides."""
    log = logging.getLogger("torch.onnx")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(before)


_FORMATS: dict[str, Callable[[nn.Module, Result], bytes]] = {
    ".pt": _pt,
    ".safetensors": _safetensors,
    ".onnx": _onnx,
}
