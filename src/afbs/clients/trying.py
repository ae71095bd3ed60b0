"""Two samples, before anything is trained: does the network fit the data, and the task the network?

What is said names the class and the method. It also gives lazy layers their shapes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from afbs.clients.samples import standard
from afbs.interfaces import Task
from afbs.tasks import check_names
from afbs.types import Dataset, UserError

_TORCH = (RuntimeError, TypeError, ValueError, IndexError)


def try_out(module: nn.Module, dataset: Dataset, task: Task | None, outputs: int) -> None:
    samples = torch.from_numpy(np.array(dataset.train_x[:2]))
    if dataset.tokens:
        samples = samples.long()
    else:
        factor, offset = standard(dataset)
        samples = samples.float().mul_(factor).add_(offset)
    module.eval()
    if task is None or type(task).fits is not Task.fits:
        _scored(module, samples, dataset, task, outputs)
    if task is not None:
        _asked(task, module, samples, torch.from_numpy(np.array(dataset.train_y[:2])))


def reason(error: BaseException) -> str:
    return str(error).partition("\n")[0].rstrip(".") or type(error).__name__


def _scored(module: nn.Module, samples: Tensor, dataset: Dataset, task: Task | None, outputs: int) -> None:
    try:
        with torch.no_grad():
            if task is None:
                module(samples)
            else:
                task.fits(module, samples, None, outputs)
    except _TORCH as error:
        kind = "token numbers" if dataset.tokens else "numbers"
        shape = tuple(samples.shape)
        raise UserError(f"`model` cannot score samples ({kind} of shape {shape}): {reason(error)}.") from error


def _asked(task: Task, module: nn.Module, x: Tensor, y: Tensor) -> None:
    name = type(task).__name__
    loss = _called(task, "loss", module, x, y)
    if not isinstance(loss, Tensor) or loss.ndim or not loss.requires_grad:
        kind = f"a tensor of shape {tuple(loss.shape)}" if isinstance(loss, Tensor) and loss.ndim else _kind(loss)
        raise UserError(f"`task`: {name}.loss must return the mean loss, a tensor of no dimension, got {kind}.")
    if not torch.isfinite(loss):
        raise UserError(f"`task`: {name}.loss gives {loss.item()} for the first two samples and an untrained network.")
    with torch.inference_mode():
        totals = _called(task, "measure", module, x, y, through="tally")
        found: Any = _called(task, "score", totals, through="conclude").values
    check_names(task, found)


def _called(task: Task, method: str, *given: Any, through: str = "") -> Any:
    try:
        return getattr(task, through or method)(*given)
    except UserError:
        raise
    except Exception as error:  # whatever a user's own class may raise
        shapes = " and ".join(str(tuple(each.shape)) for each in given if isinstance(each, Tensor))
        on = f" for samples and labels of shape {shapes}" if shapes else ""
        raise UserError(
            f"`task`: {type(task).__name__}.{method} raised {type(error).__name__}{on}: {reason(error)}."
        ) from error


def _kind(value: Any) -> str:
    if isinstance(value, Tensor):
        return "one that does not depend on the network's parameters"
    return "nothing" if value is None else f"a {type(value).__name__}"
