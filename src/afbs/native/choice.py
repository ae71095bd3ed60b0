"""Which kernel a network is trained with."""

from __future__ import annotations

from dataclasses import replace

from afbs.native.library import best, why_not
from afbs.types import ModelChoice, UserError


def settled(choice: ModelChoice, device: str, usual: bool = True) -> ModelChoice:
    """The same with `auto` decided, once and for all: `native` where it can be, else `torch`.

    `usual` is the gradient of a classification's cross-entropy, in float32.
    """
    if choice.kernel == "torch":
        return choice
    obstacle = _obstacle(choice, device, usual)
    if obstacle and choice.kernel == "native":
        raise UserError(f'`model.kernel` = "native": {obstacle}. "torch" works everywhere, "auto" takes what there is.')
    return replace(choice, kernel="torch" if obstacle else "native")


def _obstacle(choice: ModelChoice, device: str, usual: bool) -> str | None:
    if choice.build != "lenet5" and getattr(choice.build, "__module__", None) != "afbs.models.lenet5":
        return "of the networks only 'lenet5' has one (afbs.nn.ConvPoolReLU is for those of your own)"
    if not usual:
        return "it is for classification, in float32 and as `[training]` says, without a function of your own"
    if device != "cpu":
        return f"it runs on the CPU, and `run.device` is {device!r}"
    return None if best() else why_not()
