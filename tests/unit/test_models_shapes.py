"""The networks: how large they are and what they take."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.functional import avg_pool2d, conv2d

from afbs import registry
from afbs.clients.flatten import FlatModel
from afbs.models.batchnorm_cnn import BatchNormCnn
from afbs.models.fasttext import FastText
from afbs.models.flgo_cnn import FlgoCnn
from afbs.models.lenet5 import LeNet5
from afbs.models.mlp import MLP
from afbs.types import UserError


def size(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize(
    ("shape", "classes", "parameters"),
    [((1, 28, 28), 10, 61_706), ((3, 32, 32), 10, 62_006), ((3, 32, 32), 100, 69_656)],
)
def test_lenet5_has_the_known_number_of_parameters(shape: tuple[int, ...], classes: int, parameters: int) -> None:
    model = LeNet5(shape=shape, classes=classes)
    assert size(model) == parameters
    assert model(torch.zeros(2, *shape)).shape == (2, classes)


@pytest.mark.parametrize("shape", [(1, 12, 12), (3, 12, 40), (3, 33, 47), (3, 64, 64)])
def test_lenet5_takes_images_of_other_sizes(shape: tuple[int, ...]) -> None:
    assert LeNet5(shape=shape, classes=4)(torch.zeros(2, *shape)).shape == (2, 4)


def test_lenet5_of_1998_bends_with_tanh_before_it_takes_the_mean() -> None:
    torch.manual_seed(0)
    model, x = LeNet5(shape=(1, 28, 28), classes=10, activation="tanh", pooling="mean"), torch.randn(3, 1, 28, 28)
    (w1, b1, w2, b2, w3, b3, w4, b4, w5, b5) = model.parameters()
    maps = avg_pool2d(torch.tanh(conv2d(x, w1, b1, padding=2)), 2)
    maps = avg_pool2d(torch.tanh(conv2d(maps, w2, b2)), 2)
    hidden = torch.tanh(torch.tanh(maps.flatten(1) @ w3.T + b3) @ w4.T + b4)
    torch.testing.assert_close(model(x), hidden @ w5.T + b5)


def test_a_margin_makes_lenet5s_maps_larger() -> None:
    # 32 + 2·2 − 4 = 32, halved 16; 16 − 4 = 12, halved 6: 16·6·6 features instead of 16·5·5
    assert size(LeNet5(shape=(3, 32, 32), classes=10, margin=2)) == 62_006 + (576 - 400) * 120
    with pytest.raises(UserError, match=r"`model.margin` = 0 leaves nothing of images of 12 × 12 pixels"):
        LeNet5(shape=(1, 12, 12), classes=4, margin=0)


def test_lenet5s_weights_are_drawn_as_they_should_be() -> None:
    torch.manual_seed(0)
    glorot, he = (
        [parameter.detach() for parameter in LeNet5(shape=(3, 32, 32), classes=10, start=start).parameters()]
        for start in ("xavier", "kaiming")
    )
    dense = 4  # the first dense layer, of 400 inputs and 120 outputs; Glorot's is even within √(6 / 520)
    assert glorot[dense].abs().max().item() == pytest.approx((6 / 520) ** 0.5, rel=0.01)
    assert glorot[dense].std().item() == pytest.approx((2 / 520) ** 0.5, rel=0.02)
    assert he[dense].std().item() == pytest.approx((2 / 400) ** 0.5, rel=0.02)
    assert he[2].std().item() == pytest.approx((2 / 150) ** 0.5, rel=0.05)  # 6 maps of 5 × 5
    assert all(parameter.abs().max() == 0 for parameter in (*glorot, *he) if parameter.dim() == 1)


def test_flgos_network_has_the_known_number_of_parameters() -> None:
    # convolutions 3·64·25 + 64 and 64·64·25 + 64, dense 1600·384 + 384, 384·192 + 192, 192·10 + 10
    expected = 4864 + 102_464 + 614_784 + 73_920 + 1930
    model = FlgoCnn(shape=(3, 32, 32), classes=10)
    assert size(model) == expected
    assert model(torch.zeros(2, 3, 32, 32)).shape == (2, 10)


def test_flgos_network_for_digits_is_another_one() -> None:
    # convolutions 32·25 + 32 and 32·64·25 + 64, which keep their 28 and 14 pixels a side; dense 64·7·7·512 + 512, 5130
    model = FlgoCnn(shape=(1, 28, 28), classes=10)
    assert size(model) == 832 + 51_264 + 1_606_144 + 5130
    assert model(torch.zeros(2, 1, 28, 28)).shape == (2, 10)


def test_the_perceptron_takes_anything() -> None:
    model = MLP(shape=(1, 8, 8), classes=10, hidden=30)
    assert size(model) == 64 * 30 + 30 + 30 * 10 + 10
    assert model(torch.zeros(2, 1, 8, 8)).shape == (2, 10)
    assert MLP(shape=(7,), classes=3)(torch.zeros(5, 7)).shape == (5, 3)


def test_fasttext_is_the_mean_of_its_grams_whatever_the_padding() -> None:
    torch.manual_seed(0)
    model = FastText(shape=(6,), classes=2, tokens=9, dimension=4)
    vectors = model.embedding.weight
    expected = model.head((vectors[2] + vectors[5] + vectors[5]) / 3)
    for row in ([2, 5, 5, 0, 0, 0], [2, 5, 5]):
        torch.testing.assert_close(model(torch.tensor([row]))[0], expected)
    together = model(torch.tensor([[2, 5, 5, 0, 0, 0], [1, 2, 3, 4, 5, 6]]))
    torch.testing.assert_close(together[0], expected)


def test_fasttext_begins_as_flgos_does() -> None:
    model = FastText(shape=(6,), classes=2, tokens=1000)
    assert size(model) == 1000 * 64 + 64 * 2 + 2
    assert model.embedding.weight[1:].abs().max() <= 0.5
    assert model.embedding.weight[1:].std().item() == pytest.approx(1 / 12**0.5, rel=0.02)
    assert model.head.bias.abs().max() == 0


def test_an_empty_text_gives_the_bias_and_padding_never_learns() -> None:
    model = FastText(shape=(3,), classes=2, tokens=5, dimension=4)
    before = model.embedding.weight[0].clone()
    scores = model(torch.tensor([[0, 0, 0], [1, 2, 0]]))
    torch.testing.assert_close(scores[0], model.head.bias)
    scores.sum().backward()
    assert model.embedding.weight.grad is not None
    assert model.embedding.weight.grad[0].abs().max() == 0
    torch.testing.assert_close(model.embedding.weight[0], before)


def test_the_flat_vector_carries_batch_normalisation() -> None:
    flat = FlatModel(BatchNormCnn(shape=(1, 8, 8), classes=3, width=4))
    # two convolutions, two normalisations of 4 and 8 channels, one linear layer; then means and variances
    trainable = 4 * 9 + 2 * 4 + 8 * 4 * 9 + 2 * 8 + 8 * 3 + 3
    assert len(flat.trainable) == trainable
    assert len(flat.vector) == trainable + 2 * 4 + 2 * 8
    before = flat.vector.clone()
    flat.module.train()
    flat.module(torch.randn(16, 1, 8, 8))
    assert not torch.equal(flat.vector[trainable:], before[trainable:])
    assert torch.equal(flat.vector[:trainable], before[:trainable])


def test_batch_normalisation_can_train_on_a_single_sample() -> None:
    model = BatchNormCnn(shape=(1, 4, 4), classes=3)
    model.train()
    assert model(torch.randn(1, 1, 4, 4)).isfinite().all()


@pytest.mark.parametrize(
    ("build", "shape", "complaint"),
    [
        (LeNet5, (1, 8, 8), r"'lenet5' needs images of at least 12 × 12 pixels, got samples of \(1, 8, 8\)"),
        (LeNet5, (64,), "'lenet5' needs images"),
        (FlgoCnn, (1, 15, 28), "'flgo_cnn' needs images of at least 16 × 16 pixels"),
        (BatchNormCnn, (64,), "'batchnorm_cnn' needs images"),
        (BatchNormCnn, (1, 3, 9), "'batchnorm_cnn' needs images of at least 4 × 4 pixels"),
    ],
)
def test_samples_that_do_not_fit_are_refused(build: type[nn.Module], shape: tuple[int, ...], complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        build(shape=shape, classes=2)


def test_fasttext_needs_text() -> None:
    with pytest.raises(UserError, match="'fasttext' needs text"):
        FastText(shape=(1, 28, 28), classes=2, tokens=0)


@pytest.mark.parametrize("kind", ["data", "partition", "model", "latency", "availability"])
def test_every_part_has_a_line_that_says_what_it_is(kind: str) -> None:
    for name in registry.names(kind):
        assert registry.summary(registry.find(kind, name)).endswith("."), name
