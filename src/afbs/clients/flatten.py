"""A model as one flat float32 vector.

The vector holds the parameters in the order of `module.parameters()`, then the floating-point buffers in the order of
`module.buffers()`. So BatchNorm's running mean and variance travel and are averaged like weights. Integer buffers
(BatchNorm's `num_batches_tracked`) do not travel: an average of counters means nothing. They start every job anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import final

import torch
from torch import Tensor, nn

from afbs.clients.pull import Pull
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
        by_rows = _sparse_parameters(module)
        self._by_rows: list[tuple[nn.Parameter, Tensor, tuple[int, int]]] = []
        dense: list[tuple[int, int]] = []
        learning: list[tuple[int, int]] = []
        place = 0
        for tensor in [*parameters, *buffers]:
            end = place + tensor.numel()
            tensor.data = self.vector[place:end].view(tensor.shape)
            if isinstance(tensor, nn.Parameter):
                view = self.gradient[place:end].view(tensor.shape)
                if id(tensor) in by_rows:
                    self._by_rows.append((tensor, view, (place, end)))
                else:
                    dense = _extended(dense, place, end)
                    tensor.grad = view if tensor.requires_grad else None
                if tensor.requires_grad:
                    learning = _extended(learning, place, end)
            place = end
        self._dense = [(self.trainable[first:end], self.gradient[first:end], (first, end)) for first, end in dense]
        self.learning = [(self.trainable[first:end], self.gradient[first:end]) for first, end in learning]
        """The stretches of parameters that are not frozen, each with its gradient."""

    def backward(self, loss: Tensor) -> None:
        """Leaves the gradient of `loss` where the steps find it."""
        for parameter, _, _ in self._by_rows:
            parameter.grad = None
        for _, gradient, _ in self._dense:
            gradient.zero_()
        loss.backward()

    def sgd(self, pull: Pull | None = None) -> Callable[[float], None]:
        """How a job takes a step of SGD, at a rate, along the gradient and what pulls at it. Rows of an embedding that
        no sample used, and at which nothing pulls, are not touched."""
        if pull is None:
            return self._follow
        dense = [(params, gradient, pull.over(*place)) for params, gradient, place in self._dense]
        tables = [(parameter, pull.over(*place).rows(parameter.data)) for parameter, _, place in self._by_rows]

        def descend(rate: float) -> None:
            for params, gradient, own in dense:
                params.add_(gradient.add_(own.at(params)), alpha=-rate)
            for parameter, rows in tables:
                rows.descend(parameter.grad, rate)

        return descend

    def _follow(self, rate: float) -> None:
        for params, gradient, _ in self._dense:
            params.add_(gradient, alpha=-rate)
        for parameter, _, _ in self._by_rows:
            _add_rows(parameter.data, parameter.grad, -rate)

    def whole_gradient(self, pull: Pull | None = None) -> Tensor:
        """The gradient and what pulls at it as one flat tensor; where no sample used a row of an embedding it is 0."""
        for parameter, view, _ in self._by_rows:
            view.zero_()
            _add_rows(view, parameter.grad, 1.0)
        return self.gradient if pull is None else self.gradient.add_(pull.at(self.trainable))

    def load(self, vector: Tensor) -> None:
        """Become this model."""
        self.vector.copy_(vector)
        for buffer, initial in self._counters:
            buffer.copy_(initial)


def restore(module: nn.Module, vector: Tensor) -> None:
    """Copies such a vector into a module that keeps its own tensors."""
    buffers = [buffer for buffer in module.buffers() if buffer.is_floating_point()]
    tensors: list[Tensor] = [*module.parameters(), *buffers]
    sizes = [tensor.numel() for tensor in tensors]
    if sum(sizes) != len(vector):
        raise ValueError(f"it has {sum(sizes):,} numbers, and what was trained has {len(vector):,}")
    with torch.no_grad():
        for tensor, part in zip(tensors, torch.split(vector, sizes), strict=True):
            tensor.copy_(part.view(tensor.shape))


def _extended(stretches: list[tuple[int, int]], first: int, end: int) -> list[tuple[int, int]]:
    """With one more stretch, which is joined to the last if it begins where that ends."""
    if stretches and stretches[-1][1] == first:
        return [*stretches[:-1], (stretches[-1][0], end)]
    return [*stretches, (first, end)]


def _sparse_parameters(module: nn.Module) -> set[int]:
    """The tables of embeddings that were made with `sparse=True`: a step touches few of their rows."""
    tables = [part for part in module.modules() if isinstance(part, nn.Embedding | nn.EmbeddingBag) and part.sparse]
    return {id(table.weight) for table in tables if table.weight.requires_grad}


def _add_rows(table: Tensor, gradient: Tensor | None, factor: float) -> None:
    if gradient is not None:
        table.index_add_(0, gradient._indices()[0], gradient._values(), alpha=factor)
