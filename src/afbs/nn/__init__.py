"""Layers for networks of your own that are faster than torch's on a CPU."""

from afbs.nn.conv_pool_relu import ConvPoolReLU

__all__ = ["ConvPoolReLU"]
