"""A convolution, the maximum of 2 × 2 and ReLU as one layer."""

from __future__ import annotations

from ctypes import byref
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import max_pool2d, relu

from afbs.native.library import LayerShape, best, kernels

_KERNELS = (3, 5)
_LARGEST = 2**28
"""Numbers of one sample, before or after: the kernels count pixels in 32 bits."""


@final
class ConvPoolReLU(nn.Conv2d):
    """Stands for `nn.Conv2d(…)`, `nn.MaxPool2d(2)`, `nn.ReLU()` in any order of the last two, with their parameters.

    On a CPU, contiguous float32 images go through one native kernel that uses one thread. All else goes through torch:
    other devices, types and layouts, kernels other than 3 × 3 and 5 × 5, `torch.compile`, autocast, and machines on
    which the kernels were not built. There is no second derivative.
    """

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: int, padding: int = 0, bias: bool = True
    ) -> None:
        super().__init__(in_channels, out_channels, kernel_size, padding=padding, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        if not self._is_native(x):
            return relu(max_pool2d(super().forward(x), 2))
        bias = x.new_zeros(self.out_channels) if self.bias is None else self.bias
        result: Tensor = _Fused.apply(x, self.weight, bias, self.padding[0])  # type: ignore[no-untyped-call]
        return result

    def _is_native(self, x: Tensor) -> bool:
        kernel, margin = self.kernel_size[0], int(self.padding[0])
        return (
            x.device.type == self.weight.device.type == "cpu"
            and x.dtype == self.weight.dtype == torch.float32
            and x.dim() == 4
            and x.shape[1] == self.in_channels
            and x.is_contiguous()
            and kernel in _KERNELS
            and len(x) > 0
            and min(x.shape[2:]) + 2 * margin > kernel
            and (x.shape[2] + 2 * margin) * (x.shape[3] + 2 * margin) * max(x.shape[1], self.out_channels) < _LARGEST
            and not torch.compiler.is_compiling()
            and not torch.is_autocast_enabled("cpu")
            and best() is not None
        )


class _Fused(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, margin: int) -> Tensor:
        n, channels, height, width = x.shape
        outputs, _, kernel, _ = weight.shape
        shape = LayerShape(channels, height, width, margin, kernel, outputs)
        native = kernels()
        rows, columns = ((side + 2 * margin - kernel + 1) // 2 for side in (height, width))
        weight = weight.contiguous()
        out = x.new_empty(n, outputs, rows, columns)
        learns = any(ctx.needs_input_grad)
        maxima = torch.empty(n if learns else 0, native.layer_maxima(byref(shape)), dtype=torch.int32)
        room = x.new_empty(native.layer_room(byref(shape)))
        native.layer_forward(
            byref(shape),
            x.data_ptr(),
            n,
            weight.data_ptr(),
            bias.contiguous().data_ptr(),
            out.data_ptr(),
            maxima.data_ptr() if learns else None,
            room.data_ptr(),
        )
        if learns:
            ctx.save_for_backward(x, maxima, weight)
            ctx.shape, ctx.room = shape, room
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor, Tensor, None]:
        x, maxima, weight = ctx.saved_tensors
        shape: LayerShape = ctx.shape
        of_images = torch.empty_like(x) if ctx.needs_input_grad[0] else None
        of_weight, of_bias = torch.empty_like(weight), weight.new_empty(shape.outputs)
        kernels().layer_backward(
            byref(shape),
            x.data_ptr(),
            maxima.data_ptr(),
            gradient.contiguous().data_ptr(),
            len(x),
            weight.data_ptr(),
            of_weight.data_ptr(),
            of_bias.data_ptr(),
            None if of_images is None else of_images.data_ptr(),
            ctx.room.data_ptr(),
        )
        return of_images, of_weight, of_bias, None
