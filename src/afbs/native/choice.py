"""Which kernel a network is trained with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from afbs.native.library import best, why_not
from afbs.types import ModelChoice, UserError

_LENET5 = {"activation": "relu", "pooling": "max"}
"""What its kernel has."""
_OTHERWISE = '"torch" works everywhere, "auto" takes what there is.'


def settled(
    choice: ModelChoice,
    device: str,
    usual: bool = True,
    fused: Callable[[], bool] = lambda: False,
    otherwise: str = _OTHERWISE,
) -> ModelChoice:
    """The same with `auto` decided, once and for all: `native` where it can be, else `torch`.

    `usual` is the gradient of a classification's cross-entropy, in float32: LeNet-5 has a kernel for that. `fused` says
    whether another network has layers with kernels. It is asked last, for it may have to build the network.
    `otherwise` is what to do where `native` cannot be.
    """
    if choice.kernel == "torch":
        return choice
    obstacle = _obstacle(choice, device, usual, fused)
    if obstacle and choice.kernel == "native":
        raise UserError(f'`model.kernel` = "native": {obstacle}. {otherwise}')
    return replace(choice, kernel="torch" if obstacle else "native")


def is_lenet5(choice: ModelChoice) -> bool:
    """Whether it is the network that is one kernel as a whole."""
    return _is_named_lenet5(choice) and all(choice.settings.get(key, own) == own for key, own in _LENET5.items())


def _is_named_lenet5(choice: ModelChoice) -> bool:
    return choice.build == "lenet5" or getattr(choice.build, "__module__", None) == "afbs.models.lenet5"


def _obstacle(choice: ModelChoice, device: str, usual: bool, fused: Callable[[], bool]) -> str | None:
    lenet5 = is_lenet5(choice)
    if _is_named_lenet5(choice) and not lenet5:
        return "that of 'lenet5' has ReLU and the maximum, and no other activation or pooling"
    if lenet5 and not usual:
        return "it is for classification, in float32 and as `[training]` says, without a function of your own"
    if device != "cpu":
        return f"it runs on the CPU, and `run.device` is {device!r}"
    if best() is None:
        return why_not()
    return (
        None
        if lenet5 or fused()
        else "the network has no layer that has one, as afbs.nn.ConvPoolReLU of 3 × 3 or 5 × 5 has"
    )
