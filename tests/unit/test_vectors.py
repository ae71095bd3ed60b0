from __future__ import annotations

import numpy as np

from afbs.core.vectors import total, weighted_sum


def test_a_weighted_sum_weighs_rows() -> None:
    rows = np.array([[1.0, 2.0], [10.0, 20.0]], np.float32)
    found = weighted_sum((0.5, 0.25), rows)
    assert found.tolist() == [3.0, 6.0]
    assert found.dtype == np.float32


def test_a_total_adds_up_and_leaves_its_arguments_alone() -> None:
    vectors = [np.array([1.0, 2.0], np.float32), np.array([3.0, 4.0], np.float32)]
    assert total(vectors).tolist() == [4.0, 6.0]
    assert vectors[0].tolist() == [1.0, 2.0]


def test_a_total_in_double_precision_loses_nothing_small() -> None:
    """In single precision 2**24 swallows every 1 added to it."""
    vectors = [np.array([2.0**24], np.float32)] + [np.array([1.0], np.float32)] * 8
    assert total(vectors)[0] == 2.0**24
    assert total(vectors, np.float64)[0] == 2.0**24 + 8
    assert total(vectors, np.float64).dtype == np.float32
