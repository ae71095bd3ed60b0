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
"""Numbers of one sample, before or after, and of the weights: the kernels count in 32 bits."""
_PLAIN = (Tensor, nn.Parameter)
"""Others may have no memory to read, or mean something else by it."""


@final
class ConvPoolReLU(nn.Conv2d):
    """Stands for `nn.Conv2d(…)`, `nn.MaxPool2d(2)`, `nn.ReLU()` in any order of the last two. It takes what `nn.Conv2d`
    takes, and has its parameters.

    On a CPU, contiguous float32 images go through one native kernel that uses one thread, if the convolution is 3 × 3
    or 5 × 5 and sets nothing but `bias` and one number of zeros as `padding`. All else goes through torch: other
    settings, devices, types and layouts, `torch.compile`, `torch.func`, autocast, and machines on which the kernels
    were not built. There is no second derivative, and none in forward mode.
    """

    native: bool = True
    """False sends everything through torch; `model.kernel = "torch"` does so in a run."""

    def forward(self, x: Tensor) -> Tensor:
        weight, bias = self.weight, self.bias
        here = self.can_be_native and _is_eager() and best() is not None
        shape = _shape(x, weight, bias, int(self.padding[0])) if here else None
        if shape is None:
            return relu(max_pool2d(self._conv_forward(x, weight, bias), 2))
        if bias is None:
            bias = x.new_zeros(shape.outputs)
        result: Tensor = _Fused.apply(x, weight, bias, shape)  # type: ignore[no-untyped-call]
        return result

    @property
    def can_be_native(self) -> bool:
        """Whether the kernel may be used, and has such a convolution as is set now."""
        return (
            self.native
            and self.kernel_size in [(side, side) for side in _KERNELS]
            and isinstance(self.padding, tuple)
            and self.padding[0] == self.padding[1] >= 0
            and self.stride == self.dilation == (1, 1)
            and self.groups == 1
            and self.padding_mode == "zeros"
        )


def native_layers(module: nn.Module) -> list[ConvPoolReLU]:
    """Those of a network that a native kernel may compute."""
    return [layer for layer in module.modules() if isinstance(layer, ConvPoolReLU) and layer.can_be_native]


def _is_eager() -> bool:
    """Whether numbers are computed now, and in their own type."""
    return not (
        torch.compiler.is_compiling()
        or torch._C._get_tracing_state() is not None
        or torch._C._are_functorch_transforms_active()
        or torch.is_autocast_enabled("cpu")
    )


def _shape(x: Tensor, weight: Tensor, bias: Tensor | None, margin: int) -> LayerShape | None:
    """What the kernel is told, from the tensors as they are. None if it cannot work on them."""
    if not (_is_readable(x) and _is_readable(weight) and (bias is None or _is_readable(bias))):
        return None
    if not (x.dim() == weight.dim() == 4 and x.numel() and weight.numel() and x.is_contiguous()):
        return None
    _, channels, height, width = x.shape
    outputs, kernel = len(weight), weight.shape[-1]
    area = (height + 2 * margin) * (width + 2 * margin)
    fits = (
        kernel in _KERNELS
        and weight.shape == (outputs, channels, kernel, kernel)
        and (bias is None or bias.shape == (outputs,))
        and min(height, width) + 2 * margin > kernel
        and max(area * max(channels, outputs), weight.numel()) < _LARGEST
    )
    return LayerShape(channels, height, width, margin, kernel, outputs) if fits else None


def _is_readable(tensor: Tensor) -> bool:
    """Whether the floats are where a C function finds them."""
    return (
        type(tensor) in _PLAIN
        and tensor.device.type == "cpu"
        and tensor.dtype == torch.float32
        and tensor.layout == torch.strided
    )


class _Fused(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, shape: LayerShape) -> Tensor:
        native, n = kernels(), len(x)
        rows, columns = ((side + 2 * shape.margin - shape.kernel + 1) // 2 for side in (shape.height, shape.width))
        weight, bias = weight.contiguous(), bias.contiguous()  # by name: an address does not keep a tensor
        out = x.new_empty(n, shape.outputs, rows, columns)
        learns = any(ctx.needs_input_grad)
        maxima = torch.empty(n if learns else 0, native.layer_maxima(byref(shape)), dtype=torch.int32)
        room = x.new_empty(native.layer_room(byref(shape)))
        native.layer_forward(
            byref(shape),
            x.data_ptr(),
            n,
            weight.data_ptr(),
            bias.data_ptr(),
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
        gradient = gradient.contiguous()
        shape: LayerShape = ctx.shape
        of_images = torch.empty_like(x) if ctx.needs_input_grad[0] else None
        of_weight, of_bias = torch.empty_like(weight), weight.new_empty(shape.outputs)
        kernels().layer_backward(
            byref(shape),
            x.data_ptr(),
            maxima.data_ptr(),
            gradient.data_ptr(),
            len(x),
            weight.data_ptr(),
            of_weight.data_ptr(),
            of_bias.data_ptr(),
            None if of_images is None else of_images.data_ptr(),
            ctx.room.data_ptr(),
        )
        return of_images, of_weight, of_bias, None
