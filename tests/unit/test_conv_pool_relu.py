"""`afbs.nn.ConvPoolReLU` against the three layers it stands for."""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from afbs.native.library import levels
from afbs.nn import ConvPoolReLU, conv_pool_relu
from kernels import LEVELS, needs_kernels
from layers import coarse, gradients, three_layers


@st.composite
def cases(draw: st.DrawFn) -> dict[str, Any]:
    kernel, margin = draw(st.sampled_from([3, 5])), draw(st.integers(0, 3))
    side = st.integers(max(1, kernel + 1 - 2 * margin), 24)
    return {
        "channels": draw(st.sampled_from([1, 2, 3, 4, 6, 8, 9, 12, 16, 17, 30, 32])),
        "outputs": draw(st.sampled_from([1, 2, 3, 5, 6, 8, 9, 15, 16, 17, 24, 33, 48, 64, 78])),
        "kernel": kernel,
        "margin": margin,
        "height": draw(side),
        "width": draw(side),
        "n": draw(st.integers(1, 5)),
        "bias": draw(st.booleans()),
        "level": draw(st.sampled_from(levels())),
    }


@needs_kernels
@given(case=cases())
def test_any_shape_gives_what_the_three_layers_give(case: dict[str, Any]) -> None:
    torch.manual_seed(0)
    fused = ConvPoolReLU(case["channels"], case["outputs"], case["kernel"], padding=case["margin"], bias=case["bias"])
    coarse(fused)
    x = torch.randn(case["n"], case["channels"], case["height"], case["width"]).mul(4).round() / 4
    plain = three_layers(fused).double()
    expected = plain(x.double())
    weights = torch.randn(expected.shape)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AFBS_NATIVE_LEVEL", case["level"])
        assert fused._is_native(x)
        assert torch.equal(fused(x).double(), expected)
        found = gradients(fused, x, weights)
    for ours, theirs in zip(found, gradients(plain, x.double(), weights.double()), strict=True):
        assert (ours.double() - theirs).norm() <= 2e-6 * theirs.norm()


def test_it_has_the_parameters_of_a_convolution_and_begins_as_one() -> None:
    torch.manual_seed(3)
    fused = ConvPoolReLU(3, 8, 5, padding=2)
    torch.manual_seed(3)
    plain = nn.Conv2d(3, 8, 5, padding=2)
    assert list(fused.state_dict()) == list(plain.state_dict()) == ["weight", "bias"]
    assert all(torch.equal(a, b) for a, b in zip(fused.parameters(), plain.parameters(), strict=True))


FEW, MANY, MANY_TAPS = (2, 7, 3), (16, 32, 3), (16, 32, 5)
"""Channels, outputs and kernel of layers that go different ways."""


def wild(value: float, where: str, sizes: tuple[int, int, int] = FEW) -> tuple[ConvPoolReLU, Tensor]:
    torch.manual_seed(1)
    layer, x = ConvPoolReLU(*sizes, padding=sizes[2] // 2), torch.randn(2, sizes[0], 9, 10)
    if where == "pixel":
        x[1, 0, 4, 5] = value
    elif where == "lost pixel":  # in the last row, which no window sees
        x[1, 1, 8, 3] = value
    else:
        layer.get_parameter(where).data.view(-1)[3] = value
    return layer, x


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("sizes", [FEW, MANY, MANY_TAPS], ids=str)
@pytest.mark.parametrize("where", ["pixel", "lost pixel", "weight", "bias"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e38, -1e38])
def test_nan_infinity_and_overflow_come_through_where_torchs_do(
    value: float, where: str, sizes: tuple[int, int, int], level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AFBS_NATIVE_LEVEL", level)
    layer, x = wild(value, where, sizes)
    plain = three_layers(layer)
    weights = torch.randn(plain(x).shape)
    pairs = [(layer(x), plain(x)), *zip(gradients(layer, x, weights), gradients(plain, x, weights), strict=True)]
    for ours, theirs in pairs:
        for kind in (torch.isnan, torch.isposinf, torch.isneginf):
            assert torch.equal(kind(ours), kind(theirs))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("sizes", [FEW, MANY, MANY_TAPS], ids=str)
@pytest.mark.parametrize("window", [0, 1, 3], ids=["corner", "middle", "edge"])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_nan_and_infinity_in_the_gradient_come_through(
    value: float, window: int, sizes: tuple[int, int, int], level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AFBS_NATIVE_LEVEL", level)
    layer, x = wild(0.0, "pixel", sizes)
    plain = three_layers(layer)
    weights = torch.randn(plain(x).shape)
    weights[0, 2, window, 0 if window == 0 else 2] = value
    for ours, theirs in zip(gradients(layer, x, weights), gradients(plain, x, weights), strict=True):
        assert torch.equal(ours.isfinite(), theirs.isfinite())


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("sizes", [FEW, MANY, MANY_TAPS], ids=str)
@pytest.mark.parametrize("same", ["everywhere", "along rows", "along columns"])
def test_a_tie_goes_to_the_first_of_its_window(
    same: str, sizes: tuple[int, int, int], level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights are any floats, so sums that differ in the order of their terms alone would seldom be equal. The gradient
    of one window shows which pixel it looked at."""
    monkeypatch.setenv("AFBS_NATIVE_LEVEL", level)
    torch.manual_seed(2)
    channels, _, kernel = sizes
    layer = ConvPoolReLU(*sizes)
    assert layer.bias is not None
    layer.bias.data.fill_(30.0)
    x = torch.randn(1, channels, 1 if same != "along rows" else 12, 1 if same != "along columns" else 12)
    x = x.expand(1, channels, 12, 12).contiguous().requires_grad_()
    result = layer(x)
    result[0, :, 1, 1].sum().backward()
    assert x.grad is not None
    seen = x.grad[0].abs().sum(0) > 0
    rows, columns = seen.any(1).nonzero().flatten().tolist(), seen.any(0).nonzero().flatten().tolist()
    if same != "along rows":
        assert rows == list(range(2, 2 + kernel))
    if same != "along columns":
        assert columns == list(range(2, 2 + kernel))


def other_types() -> list[Any]:
    layer, x = ConvPoolReLU(3, 4, 3), torch.randn(2, 3, 8, 8)
    return [
        pytest.param(layer.double(), x.double(), id="double"),
        pytest.param(ConvPoolReLU(3, 4, 3), x.to(memory_format=torch.channels_last), id="channels last"),
        pytest.param(ConvPoolReLU(3, 4, 7), x, id="another kernel"),
        pytest.param(ConvPoolReLU(3, 4, 3), x[:0], id="no samples"),
        pytest.param(ConvPoolReLU(3, 4, 3), x[0], id="no batch"),
        pytest.param(ConvPoolReLU(3, 4, 3).bfloat16(), x.bfloat16(), id="half precision"),
    ]


@pytest.mark.parametrize(("layer", "x"), other_types())
def test_what_the_kernel_cannot_do_torch_does(layer: ConvPoolReLU, x: Tensor) -> None:
    assert not layer._is_native(x)
    assert torch.equal(layer(x), three_layers(layer).to(x.dtype)(x))


def test_without_the_library_torch_does_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conv_pool_relu, "best", lambda: None)
    layer, x = ConvPoolReLU(3, 4, 3), torch.randn(2, 3, 8, 8)
    assert torch.equal(layer(x), three_layers(layer)(x))


def test_images_that_are_too_small_are_refused_as_torch_refuses_them() -> None:
    with pytest.raises(RuntimeError, match=r"[Kk]ernel size|too small"):
        ConvPoolReLU(1, 1, 5)(torch.zeros(1, 1, 4, 4))


def test_under_autocast_torch_does_it() -> None:
    layer, x = ConvPoolReLU(3, 4, 3), torch.randn(2, 3, 8, 8)
    with torch.autocast("cpu", torch.bfloat16):
        assert layer(x).dtype == torch.bfloat16


@needs_kernels
def test_there_is_no_second_derivative_and_it_says_so() -> None:
    layer, x = ConvPoolReLU(1, 2, 3), torch.randn(1, 1, 6, 6, requires_grad=True)
    (first,) = torch.autograd.grad(layer(x).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()


def test_it_can_be_copied_and_pickled() -> None:
    layer, x = ConvPoolReLU(3, 4, 5), torch.randn(2, 3, 12, 12)
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert torch.equal(other(x), layer(x))


def test_images_that_need_no_gradient_get_none() -> None:
    layer, x = ConvPoolReLU(3, 4, 5), torch.randn(2, 3, 12, 12)
    layer(x).sum().backward()
    assert x.grad is None
    assert layer.weight.grad is not None
    with torch.no_grad():
        assert not layer(x).requires_grad
