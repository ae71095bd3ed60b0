"""A fused layer, the three it stands for, and what they are compared by."""

from __future__ import annotations

from torch import Tensor, nn

from afbs.nn import ConvPoolReLU

_SETTINGS = ("in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation", "groups", "padding_mode")


def three_layers(fused: ConvPoolReLU) -> nn.Sequential:
    """With the same settings and weights."""
    plain = nn.Conv2d(**{name: getattr(fused, name) for name in _SETTINGS}, bias=fused.bias is not None)
    plain.load_state_dict(fused.state_dict())
    return nn.Sequential(plain, nn.MaxPool2d(2), nn.ReLU())


def is_native(result: Tensor) -> bool:
    """Whether the kernel made this; torch's layers end in a ReLU."""
    return type(result.grad_fn).__name__ != "ReluBackward0"


def coarse(layer: nn.Module) -> None:
    """Multiples of 1/64, so that single and double precision find the same maxima."""
    for parameter in layer.parameters():
        parameter.data.copy_(parameter.data.mul(64).round() / 64)


def gradients(layer: nn.Module, x: Tensor, weights: Tensor) -> list[Tensor]:
    """Of a weighted sum of the outputs: with respect to the images, then to the parameters."""
    x = x.clone().requires_grad_()
    layer.zero_grad(set_to_none=True)
    (layer(x) * weights).sum().backward()
    return [tensor.grad for tensor in (x, *layer.parameters()) if tensor.grad is not None]
