"""Messages between halves: bytes and back without pickling, and nothing is used before it is checked."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from afbs.privacy.messages import RefusedError, exact, numbers, packed, unpacked, whole

MESSAGE = {
    "number": np.array(7),
    "rows": np.arange(6, dtype=np.float64).reshape(2, 3),
    "words": np.array([2**64 - 1, 0], np.uint64),
    "none": np.zeros((0, 32), np.uint8),
}


def test_a_message_survives_as_bytes() -> None:
    again = unpacked(packed(MESSAGE))
    assert sorted(again) == sorted(MESSAGE)
    for name, array in MESSAGE.items():
        assert again[name].dtype == array.dtype
        assert again[name].shape == array.shape
        assert np.array_equal(again[name], array)


def test_plain_numbers_and_views_can_be_sent() -> None:
    again = unpacked(packed({"a": 3, "b": 0.5, "c": np.arange(12).reshape(3, 4).T[::2]}))  # type: ignore[dict-item]
    assert (int(again["a"]), float(again["b"])) == (3, 0.5)
    assert again["c"].tolist() == [[0, 4, 8], [2, 6, 10]]


@pytest.mark.parametrize("value", [None, "text", [1, 2], {"a": 1}, np.array("text"), np.array([None]), True, 10**30])
def test_what_is_no_number_is_not_sent(value: Any) -> None:
    with pytest.raises(RefusedError, match="the thing is"):
        packed({"thing": value})


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff" * 40, packed(MESSAGE)[:-1], packed(MESSAGE)[1:]])
def test_bytes_that_are_no_message_are_refused(content: bytes) -> None:
    with pytest.raises(RefusedError, match="no message"):
        unpacked(content)


def test_a_pickle_is_not_opened() -> None:
    class Trap:
        def __reduce__(self) -> Any:
            return pytest.fail, ("it was opened",)

    with pytest.raises(RefusedError):
        unpacked(pickle.dumps(Trap()))


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "missing"),
        (np.array([1.0, np.nan]), "not finite"),
        (np.array([np.inf, 1.0]), "not finite"),
        (np.array(["a", "b"]), "not made of numbers"),
        (np.array([1j, 0]), "not made of numbers"),
        (np.zeros((2, 1)), r"has the shape \(2, 1\), not 2"),
        (np.zeros(3), r"has the shape \(3,\), not 2"),
    ],
)
def test_numbers_are_finite_and_of_the_shape_that_is_wanted(value: Any, reason: str) -> None:
    with pytest.raises(RefusedError, match=reason):
        numbers({"x": value}, "x", (2,))


def test_bytes_and_words_are_of_the_very_kind_that_is_wanted() -> None:
    assert exact(MESSAGE, "words", np.uint64, (None,)).tolist() == [2**64 - 1, 0]
    with pytest.raises(RefusedError, match="made of uint64, not of uint8"):
        exact(MESSAGE, "words", np.uint8, (2,))


@pytest.mark.parametrize("value", [-1, 11, 0.5, np.array([3]), 2.0**60, np.nan, np.inf, "3", False])
def test_a_number_out_of_its_range_is_refused(value: Any) -> None:
    assert whole({"x": np.array(10)}, "x", 10) == 10
    with pytest.raises(RefusedError, match="the x"):
        whole({"x": value}, "x", 10)


@pytest.mark.parametrize("message", [None, 7, "text", [("x", 1)]])
def test_what_is_no_mapping_is_no_message(message: Any) -> None:
    with pytest.raises(RefusedError, match="no message"):
        numbers(message, "x")
