from __future__ import annotations

from math import sqrt

import pytest

from afbs.core.staleness import constant, discounted_mean, hinge, polynomial


@pytest.mark.parametrize("rule", [constant, polynomial, hinge])
def test_a_fresh_update_is_worth_all(rule: object) -> None:
    assert rule(0) == 1.0  # type: ignore[operator]


def test_the_polynomial_discount_is_one_over_a_root_by_default() -> None:
    assert [polynomial(age) for age in (3, 8)] == pytest.approx([1 / 2, 1 / 3])
    assert polynomial(4, exponent=1.0) == pytest.approx(1 / 5)


def test_the_hinge_forgives_a_while_and_then_falls_with_the_originals_plus_one() -> None:
    assert hinge(6) == 1.0
    assert hinge(7) == pytest.approx(1 / 11)
    assert hinge(5, slope=0.5, grace=3) == pytest.approx(1 / 2)


def test_a_buffers_weights_are_discounted_each_by_the_freshest_or_not_at_all() -> None:
    ages = [3, 0, 8]
    assert discounted_mean(ages, "each") == pytest.approx([1 / 6, 1 / 3, 1 / 9])
    assert discounted_mean([3, 1, 8], "freshest") == pytest.approx([1 / (3 * sqrt(2))] * 3)
    assert discounted_mean(ages, "none") == pytest.approx([1 / 3] * 3)


def test_an_empty_buffer_has_no_weights() -> None:
    assert discounted_mean([], "each") == discounted_mean([], "freshest") == discounted_mean([], "none") == ()
