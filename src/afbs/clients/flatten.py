"""A model as one flat float32 vector.

The vector holds the parameters in the order of `module.parameters()`, then the floating-point buffers in the order of
`module.buffers()`. So BatchNorm's running mean and variance travel and are averaged like weights. Integer buffers
(BatchNorm's `num_batches_tracked`) do not travel: an average of counters means nothing. They start every job anew.
"""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor, nn

from afbs.types import UserError


@final
class FlatModel:
    """A module whose parameters, gradients and floating-point buffers are views into flat tensors."""

    def __init__(self, module: nn.Module):
        parameters = list(module.parameters())
        buffers = [buffer for buffer in module.buffers() if buffer.is_floating_point()]
        unfit = [name for name, parameter in module.named_parameters() if parameter.dtype != torch.float32]
        if not parameters or unfit:
            what = f"its parameter {unfit[0]!r} is not" if unfit else "it has none"
            raise UserError(f"`model`: every parameter must be float32; {what}.")
        self.module = module
        self.vector = torch.cat([tensor.detach().reshape(-1).float() for tensor in [*parameters, *buffers]])
        self.trainable = self.vector[: sum(parameter.numel() for parameter in parameters)]
        self.gradient = torch.zeros_like(self.trainable)
        self._counters = [(buffer, buffer.clone()) for buffer in module.buffers() if not buffer.is_floating_point()]
        place = 0
        for tensor in [*parameters, *buffers]:
            tensor.data = self.vector[place : place + tensor.numel()].view(tensor.shape)
            if tensor.requires_grad and place < len(self.trainable):
                tensor.grad = self.gradient[place : place + tensor.numel()].view(tensor.shape)
            place += tensor.numel()

    def load(self, vector: Tensor) -> None:
        """Become this model."""
        self.vector.copy_(vector)
        for buffer, initial in self._counters:
            buffer.copy_(initial)
