"""The paper's sketch: shapes, ranks, noise and what the rows have in common."""

from __future__ import annotations

import numpy as np
import pytest

from afbs.core.sketch import project, proportions, row_mean, tiled, width
from afbs.privacy.keys import Secrets
from afbs.privacy.projection import Projection

SECRETS = Secrets(b"own" * 11, b"shared by all clients" * 2)


@pytest.mark.parametrize(("classes", "expected"), [(1, 1), (2, 1), (9, 5), (10, 5), (100, 50)])
def test_half_as_many_numbers_as_labels_are_kept(classes: int, expected: int) -> None:
    assert width(classes) == expected


def test_volume_does_not_matter() -> None:
    assert np.allclose(proportions([1, 3]), [0.25, 0.75])
    assert np.allclose(proportions([100, 300]), proportions([1, 3]))


@pytest.mark.parametrize("classes", [2, 10, 30])
def test_the_noisy_copies_have_full_rank_and_the_sketch_the_rank_of_its_width(classes: int) -> None:
    rng = np.random.default_rng(classes)
    copies = tiled(rng.dirichlet(np.ones(classes)), 1e-3 * rng.normal(size=(classes, classes)))
    assert np.linalg.matrix_rank(copies) == classes
    projection = Projection().projection(b"s" * 32, classes)
    assert np.linalg.matrix_rank(project(copies, projection)) == width(classes)


def test_a_sketch_is_the_formula() -> None:
    counts = np.array([5, 0, 3, 2])
    mechanism = Projection(width=3, noise=0.0)
    projection = mechanism.projection(SECRETS.shared or b"", 4)
    expected = np.array([0.5, 0.0, 0.3, 0.2]) @ projection.T
    sketch = mechanism.sketch(counts, SECRETS, 0)
    assert sketch.shape == (4, 3)
    assert np.allclose(sketch, expected)
    assert np.allclose(row_mean(sketch), expected)


def test_the_row_mean_has_less_noise_than_a_row() -> None:
    counts = np.array([20] * 25)
    exact = Projection(noise=0.0).sketch(counts, SECRETS, 0)
    gaps = [
        Projection(noise=0.01).sketch(counts, Secrets(bytes([i]) * 32, SECRETS.shared), 0) - exact for i in range(200)
    ]
    rows, means = np.std(gaps), np.std([gap.mean(axis=0) for gap in gaps])
    assert rows / means == pytest.approx(25**0.5, rel=0.1)


def test_lengths_are_kept_on_average() -> None:
    change = np.array([0.5, -0.5, 0, 0, 0, 0.2, -0.2, 0, 0, 0])
    lengths = [
        np.sum((Projection().projection(bytes([i, j]) * 16, 10) @ change) ** 2) for i in range(40) for j in range(40)
    ]
    assert np.mean(lengths) == pytest.approx(change @ change, rel=0.06)  # 1,600 draws of relative spread √(2/5)


def test_every_client_has_the_same_projection_and_its_own_noise() -> None:
    counts = np.array([4, 4, 1, 1])
    one = Projection().sketch(counts, Secrets(b"1" * 32, SECRETS.shared), 0)
    other = Projection().sketch(counts, Secrets(b"2" * 32, SECRETS.shared), 0)
    assert not np.array_equal(one, other)
    assert np.allclose(one, other, atol=0.05)


def test_another_secret_is_another_projection() -> None:
    one, other = (Projection().projection(secret * 32, 10) for secret in (b"a", b"b"))
    assert abs(np.corrcoef(one.ravel(), other.ravel())[0, 1]) < 0.5
