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
from torch._subclasses import FakeTensorMode
from torch.func import functional_call, grad, vmap
from torch.nn.functional import conv2d, max_pool2d

from afbs.native.library import levels
from afbs.nn import ConvPoolReLU, conv_pool_relu
from kernels import LEVELS, needs_kernels
from layers import coarse, gradients, is_native, three_layers


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
        result = fused(x)
        assert is_native(result)
        assert torch.equal(result.double(), expected)
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


IMAGES = torch.randn(2, 3, 12, 13, generator=torch.Generator().manual_seed(5))
UNUSUAL: dict[str, dict[str, Any]] = {
    "a tall kernel": {"kernel_size": (5, 3)},
    "a broad kernel": {"kernel_size": (3, 5)},
    "a large kernel": {"kernel_size": 7},
    "one pixel": {"kernel_size": 1},
    "an even kernel": {"kernel_size": 4},
    "a broad margin": {"padding": (1, 2)},
    "a high margin": {"padding": (2, 0), "bias": False},
    "padding by name": {"padding": "same"},
    "no padding by name": {"padding": "valid"},
    "a kernel of its own and padding by name": {"kernel_size": (5, 3), "padding": "same"},
    "steps of two": {"stride": 2},
    "steps of two in one direction": {"stride": (1, 2), "padding": 1},
    "holes": {"dilation": 2},
    "holes in one direction": {"dilation": (1, 2), "padding": 2},
    "groups": {"groups": 3},
    "a margin that reflects": {"padding": 1, "padding_mode": "reflect"},
    "a margin that goes round": {"padding": 2, "padding_mode": "circular", "bias": False},
}


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("settings", UNUSUAL.values(), ids=UNUSUAL)
def test_a_convolution_that_the_kernel_does_not_have_is_torchs(settings: dict[str, Any], bias: bool) -> None:
    layer = ConvPoolReLU(3, 6, **{"kernel_size": 3, "bias": bias, **settings})
    plain = three_layers(layer)
    result, expected = layer(IMAGES), plain(IMAGES)
    weights = torch.randn(expected.shape)
    assert not layer.can_be_native
    assert torch.equal(result, expected)
    pairs = zip(gradients(layer, IMAGES, weights), gradients(plain, IMAGES, weights), strict=True)
    assert all(torch.equal(ours, theirs) for ours, theirs in pairs)


@pytest.mark.parametrize("settings", [{"padding": (2, 2)}, {"kernel_size": (5, 5), "stride": (1, 1)}], ids=str)
def test_one_number_may_be_written_as_two(settings: dict[str, Any]) -> None:
    layer = ConvPoolReLU(3, 4, **{"kernel_size": 3, **settings})
    assert layer.can_be_native
    torch.testing.assert_close(layer(IMAGES), three_layers(layer)(IMAGES))


def test_what_is_set_after_a_layer_was_made_counts() -> None:
    layer = ConvPoolReLU(3, 4, 3)
    layer.stride = (2, 2)
    assert torch.equal(layer(IMAGES), three_layers(layer)(IMAGES))


def other_types() -> list[Any]:
    layer, x = ConvPoolReLU(3, 4, 3), torch.randn(2, 3, 8, 8)
    return [
        pytest.param(layer.double(), x.double(), id="double"),
        pytest.param(ConvPoolReLU(3, 4, 3), x.to(memory_format=torch.channels_last), id="channels last"),
        pytest.param(ConvPoolReLU(3, 4, 3), x[:0], id="no samples"),
        pytest.param(ConvPoolReLU(3, 4, 3), x[0], id="no batch"),
        pytest.param(ConvPoolReLU(3, 4, 3).bfloat16(), x.bfloat16(), id="half precision"),
    ]


@pytest.mark.parametrize(("layer", "x"), other_types())
def test_what_the_kernel_cannot_do_torch_does(layer: ConvPoolReLU, x: Tensor) -> None:
    result = layer(x)
    assert not is_native(result)
    assert torch.equal(result, three_layers(layer).to(x.dtype)(x))


def misfits() -> list[Any]:
    """Layers whose tensors are not what their settings say, and images that do not fit."""
    x, short, odd, mixed = IMAGES, ConvPoolReLU(3, 4, 3), ConvPoolReLU(3, 4, 3), ConvPoolReLU(3, 4, 3)
    short.bias = nn.Parameter(torch.zeros(2))
    odd.weight = nn.Parameter(torch.zeros(4, 2, 3, 3))
    mixed.weight = nn.Parameter(mixed.weight.detach().double())
    biased = ConvPoolReLU(3, 4, 3)
    biased.bias = nn.Parameter(torch.zeros(4, dtype=torch.float64))
    return [
        pytest.param(short, x, id="too few biases"),
        pytest.param(odd, x, id="weights for fewer channels"),
        pytest.param(mixed, x, id="weights of another type"),
        pytest.param(biased, x, id="biases of another type"),
        pytest.param(ConvPoolReLU(3, 4, 3), x[:, :2].contiguous(), id="too few channels"),
        pytest.param(ConvPoolReLU(3, 4, 3), x.double(), id="images of another type"),
        pytest.param(ConvPoolReLU(3, 4, 5), x[:, :, :4].contiguous(), id="images smaller than the kernel"),
        pytest.param(ConvPoolReLU(3, 4, 3), x[:, :, :3].contiguous(), id="images smaller than a window"),
        pytest.param(ConvPoolReLU(3, 4, 3, padding=2), x[:, :, :0].contiguous(), id="images without rows"),
        pytest.param(ConvPoolReLU(3, 4, 3, padding=-1), x, id="a margin below nothing"),
    ]


@pytest.mark.parametrize(("layer", "x"), misfits())
def test_sizes_and_types_that_do_not_agree_are_refused_by_torch(layer: ConvPoolReLU, x: Tensor) -> None:
    with pytest.raises(RuntimeError) as refused:
        layer(x)
    with pytest.raises(RuntimeError) as expected:
        max_pool2d(conv2d(x, layer.weight, layer.bias, padding=layer.padding), 2)
    assert str(refused.value) == str(expected.value)


@needs_kernels
def test_parameters_need_not_lie_together() -> None:
    layer = ConvPoolReLU(3, 40, 3, padding=1)
    plain = three_layers(layer)
    layer.weight = nn.Parameter(layer.weight.detach().to(memory_format=torch.channels_last))
    layer.bias = nn.Parameter(torch.stack([layer.get_parameter("bias").detach(), torch.full((40,), 9.0)], 1)[:, 0])
    assert not layer.weight.is_contiguous()
    assert not layer.bias.is_contiguous()
    result = layer(IMAGES)
    assert is_native(result)
    weights = torch.randn(result.shape)
    torch.testing.assert_close(result, plain(IMAGES))
    torch.testing.assert_close(gradients(layer, IMAGES, weights), gradients(plain, IMAGES, weights))


@needs_kernels
def test_a_gradient_need_not_lie_together_and_may_be_asked_for_twice() -> None:
    """That of a sum is one number, seen everywhere."""
    layer, x = ConvPoolReLU(3, 8, 3, padding=1), torch.randn(32, 3, 64, 64)
    total = layer(x).sum()
    found = [torch.autograd.grad(total, list(layer.parameters()), retain_graph=True) for _ in range(2)]
    expected = torch.autograd.grad(layer(x), list(layer.parameters()), torch.ones(32, 8, 32, 32))
    for each in found:
        assert all(torch.equal(ours, theirs) for ours, theirs in zip(each, expected, strict=True))


def test_without_the_library_torch_does_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conv_pool_relu, "best", lambda: None)
    layer, x = ConvPoolReLU(3, 4, 3), torch.randn(2, 3, 8, 8)
    assert torch.equal(layer(x), three_layers(layer)(x))


def test_under_autocast_torch_does_it() -> None:
    layer, x = ConvPoolReLU(3, 4, 3), torch.randn(2, 3, 8, 8)
    with torch.autocast("cpu", torch.bfloat16):
        assert layer(x).dtype == torch.bfloat16


def test_torch_func_takes_gradients_and_maps_over_samples() -> None:
    layer = ConvPoolReLU(3, 4, 3, padding=1)
    plain, parameters = three_layers(layer), dict(layer.named_parameters())

    def loss(values: dict[str, Any], x: Tensor) -> Tensor:
        result: Tensor = functional_call(layer, values, (x[None],)).square().sum()
        return result

    found = vmap(grad(loss), (None, 0))(parameters, IMAGES)
    for number, x in enumerate(IMAGES):
        plain.zero_grad()
        plain(x[None]).square().sum().backward()
        for name, parameter in plain[0].named_parameters():
            torch.testing.assert_close(found[name][number], parameter.grad)
    torch.testing.assert_close(vmap(layer)(IMAGES[:, None])[:, 0], plain(IMAGES))


def test_tensors_without_numbers_have_shapes() -> None:
    """As `torch.export` and tools that count operations use them."""
    layer = ConvPoolReLU(3, 4, 5)
    with FakeTensorMode(allow_non_fake_inputs=True):
        assert layer(torch.randn(2, 3, 12, 13)).shape == (2, 4, 4, 4)
    assert layer.to("meta")(IMAGES.to("meta")).shape == (2, 4, 4, 4)


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
