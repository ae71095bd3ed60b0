"""LeNet-5's native gradient: as near the truth as torch's, at every size, and as wild where the numbers are."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from afbs.clients.lenet5 import NativeLenet5
from afbs.clients.samples import Samples
from afbs.clients.workload import Workload
from afbs.interfaces import Plain
from afbs.models.lenet5 import LeNet5
from afbs.native.library import best
from afbs.types import Dataset, ModelChoice, Training, UserError
from kernels import LEVELS, needs_kernels
from lenet5 import COLOUR, GREY, batch, by_torch, distance, native, network, reference, scored, source, through

NEAR = 1e-6
"""Of the gradient's length. Torch's own distance from the reference is about as large."""


@pytest.fixture(params=LEVELS)
def level(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Everything that the library holds and this processor can."""
    monkeypatch.setenv("AFBS_NATIVE_LEVEL", request.param)
    return str(request.param)


def test_where_there_is_a_compiler_the_kernels_were_built() -> None:
    assert best() or not shutil.which("cc"), "install the package: `pip install --editable .`"


def check(shape: tuple[int, ...], classes: int, n: int, **settings: int) -> None:
    x, y = batch(shape, classes, n, seed=n)
    model = network(shape, classes, seed=n, **settings)
    assert distance(native(model, shape, classes, x, y), reference(model, x, y)) < NEAR, (shape, classes, n)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 19, 31, 32, 33, 64, 130])
@pytest.mark.parametrize("shape", [COLOUR, GREY], ids=["colour", "grey"])
def test_the_gradient_is_right_at_every_batch_size(level: str, shape: tuple[int, ...], n: int) -> None:
    check(shape, 10, n)


@pytest.mark.parametrize("classes", [2, 3, 10, 62, 100])
@pytest.mark.parametrize("shape", [COLOUR, GREY], ids=["colour", "grey"])
def test_the_gradient_is_right_for_any_number_of_classes(level: str, shape: tuple[int, ...], classes: int) -> None:
    check(shape, classes, 9)


@pytest.mark.parametrize("shape", [(1, 12, 12), (3, 12, 40), (2, 33, 47), (4, 64, 64), (3, 31, 29)])
def test_the_gradient_is_right_for_images_of_other_sizes(level: str, shape: tuple[int, ...]) -> None:
    check(shape, 4, 5)


@pytest.mark.parametrize("margin", [0, 1, 2, 5])
@pytest.mark.parametrize("shape", [COLOUR, GREY, (2, 33, 47)], ids=["colour", "grey", "odd"])
def test_the_gradient_is_right_with_any_margin(level: str, shape: tuple[int, ...], margin: int) -> None:
    check(shape, 10, 5, margin=margin)


@pytest.mark.long
@pytest.mark.parametrize("classes", [2, 10, 100])
@pytest.mark.parametrize("shape", [COLOUR, GREY], ids=["colour", "grey"])
def test_the_gradient_is_right_at_all_batch_sizes_up_to_130(level: str, shape: tuple[int, ...], classes: int) -> None:
    for n in range(1, 131):
        check(shape, classes, n)


@pytest.mark.parametrize("shape", [COLOUR, GREY], ids=["colour", "grey"])
def test_the_scores_are_right(level: str, shape: tuple[int, ...]) -> None:
    x, y = batch(shape, 10, 567)
    model = network(shape, 10)
    with torch.no_grad():
        expected = model.module(x)
    found, labels = zip(*scored(NativeLenet5(model, source(x, y, 10), shape, 10)), strict=True)
    torch.testing.assert_close(torch.cat(found), expected, rtol=1e-5, atol=1e-6)
    assert torch.equal(torch.cat(labels), y)


@pytest.mark.parametrize("shape", [COLOUR, GREY, (2, 33, 47)], ids=["colour", "grey", "odd"])
def test_bytes_give_the_bits_of_the_floats_they_stand_for(level: str, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    pixels, labels = rng.integers(0, 256, (9, *shape), dtype=np.uint8), rng.integers(0, 4, 9)
    chosen = [np.array([8, 1, 3, 0, 7])]
    data = Dataset(pixels, labels, pixels, labels, 4, (0.3, 0.4, 0.5)[: shape[0]], (0.2, 0.3, 0.25)[: shape[0]])
    samples = Samples(Workload(data, chosen, ModelChoice("lenet5"), Training(), Plain(), "delta", 0))
    floats, targets = samples.client(0)
    model = network(shape, 4)
    gradient = NativeLenet5(model, samples, shape, 4)
    assert samples.train_bytes is not None
    assert torch.equal(through(gradient, model), native(model, shape, 4, floats, targets))
    ((found, _),) = scored(gradient)
    everything = samples.test(0)[0]
    other = NativeLenet5(model, source(everything, torch.zeros(9, dtype=torch.int64), 4), shape, 4)
    ((expected, _),) = scored(other)
    assert torch.equal(found, expected)


@needs_kernels
def test_samples_that_are_not_there_are_not_read() -> None:
    pixels, labels = np.zeros((4, 3, 32, 32), np.uint8), np.zeros(9, np.int64)
    data = Dataset(pixels, labels, pixels, labels, 4)
    samples = Samples(Workload(data, [np.array([1, 4])], ModelChoice("lenet5"), Training(), Plain(), "delta", 0))
    with pytest.raises(IndexError, match="samples 1 to 4 of 4"):
        NativeLenet5(network(COLOUR, 4), samples, COLOUR, 4).begin(0)


def test_the_samples_of_a_batch_are_taken_in_the_order_that_was_asked_for(level: str) -> None:
    x, y = batch(COLOUR, 10, 12)
    model = network(COLOUR, 10)
    gradient = NativeLenet5(model, source(x, y, 10), COLOUR, 10)
    assert gradient.begin(0) == 12
    order = torch.randperm(12, generator=torch.Generator().manual_seed(1))
    batches = list(gradient.batches(order.numpy(), [5, 5, 2]))
    assert [len(chosen) for chosen in batches] == [5, 5, 2]
    gradient.of(batches[1])
    chosen = order[5:10]
    assert distance(model.gradient, reference(model, x[chosen], y[chosen])) < NEAR


def test_a_tie_goes_to_the_first_of_its_window(level: str) -> None:
    """Where all pixels and weights are equal, so are the four sums of a window. The gradient shows which one counted:
    the pixels around it differ from sample to sample only in the last row and column, which the first does not see."""
    model = network(COLOUR, 10)
    assert isinstance(model.module, LeNet5)
    first = model.module.features[0]
    assert isinstance(first, nn.Conv2d)
    assert first.bias is not None
    with torch.no_grad():
        first.weight.fill_(0.01)
        first.bias.fill_(0.5)
    x, y = batch(COLOUR, 10, 6)
    x[:] = 1.0
    theirs, ours = by_torch(model, x, y), native(model, COLOUR, 10, x, y)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)
    first.weight.data.zero_()
    x, y = batch(COLOUR, 10, 6)
    exact = reference(model, x, y)
    assert exact[: first.weight.numel()].norm() > 1e-3, "the pixels of the maximum do not show in the gradient"
    assert distance(native(model, COLOUR, 10, x, y), exact) < NEAR


def wild_pixel(value: float) -> Callable[..., None]:
    def change(module: torch.nn.Module, x: Tensor) -> None:
        x[1, 0, 9, 11] = value

    return change


def wild_parameter(name: str, value: float) -> Callable[..., None]:
    def change(module: torch.nn.Module, x: Tensor) -> None:
        module.get_parameter(name).data.view(-1)[3] = value

    return change


def everything_negative(value: float) -> Callable[..., None]:
    """An infinite pixel whose windows all lose: what ReLU and maximum leave out is 0 · ∞ to a plain convolution."""

    def change(module: torch.nn.Module, x: Tensor) -> None:
        module.get_parameter("features.0.weight").data.abs_().neg_()
        x[1, 0, 9, 11] = value

    return change


def huge(module: torch.nn.Module, x: Tensor) -> None:
    """Finite numbers whose sums are not, in whichever order they are added."""
    module.get_parameter("features.0.weight").data.abs_()
    module.get_parameter("features.3.weight").data.abs_().mul_(1e30)
    x.abs_().mul_(1e12)


PARAMETERS = ["features.0.weight", "features.0.bias", "features.3.weight", "features.3.bias"]
PARAMETERS += [f"head.{layer}.{kind}" for layer in (0, 2, 4) for kind in ("weight", "bias")]
WILD = {
    **{f"pixel {value}": wild_pixel(value) for value in (math.nan, math.inf, -math.inf)},
    **{
        f"{name} {value}": wild_parameter(name, value)
        for name in PARAMETERS
        for value in (math.nan, math.inf, -math.inf)
    },
    "only losers": everything_negative(math.inf),
    "overflow": huge,
}


@pytest.mark.parametrize("shape", [COLOUR, GREY, (1, 33, 35)], ids=["colour", "grey", "odd"])
@pytest.mark.parametrize("case", WILD)
def test_nan_and_infinity_come_through_where_torchs_do(level: str, case: str, shape: tuple[int, ...]) -> None:
    model = network(shape, 10)
    x, y = batch(shape, 10, 3)
    WILD[case](model.module, x)
    theirs, ours = by_torch(model, x, y), native(model, shape, 10, x, y)
    assert theirs.isfinite().all() == ("bias -inf" in case), "a bias of -∞ is a channel that is never seen"
    for kind in (torch.isnan, torch.isposinf, torch.isneginf):
        assert torch.equal(kind(ours), kind(theirs)), (kind.__name__, int(kind(ours).sum()), int(kind(theirs).sum()))
    with torch.no_grad():
        scores = model.module(x)
    ((found, _),) = scored(NativeLenet5(model, source(x, y, 10), shape, 10))
    assert torch.equal(found.isnan(), scores.isnan())


@needs_kernels
@pytest.mark.parametrize("label", [-1, 10, -100])
def test_labels_that_are_no_classes_are_refused(label: int) -> None:
    x, y = batch(COLOUR, 10, 3)
    y[1] = label
    with pytest.raises(UserError, match="labels must be 0 to 9"):
        native(network(COLOUR, 10), COLOUR, 10, x, y)


@needs_kernels
def test_images_of_another_shape_are_refused() -> None:
    x, y = batch(GREY, 10, 3)
    with pytest.raises(UserError, match=r"samples of shape \(1, 28, 28\), not \(3, 32, 32\)"):
        native(network(COLOUR, 10), COLOUR, 10, x, y)
