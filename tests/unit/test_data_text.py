"""Text as rows of numbers."""

from __future__ import annotations

import numpy as np
import pytest

from afbs.data._text import UNKNOWN, encode, grams, tokenised, vocabulary, words


def test_words_are_lower_case_and_apart_from_punctuation() -> None:
    assert words("It's GOOD, isn't it? \"Yes\": (very)!<br />") == [
        *("it", "'", "s", "good", ",", "isn", "'", "t", "it", "?", "yes", "(", "very", ")", "!"),
    ]


def test_grams_are_words_then_pairs() -> None:
    assert grams(["a", "b", "c"], 2) == ["a", "b", "c", "a b", "b c"]
    assert grams(["a"], 2) == ["a"]
    assert grams([], 2) == []


def test_the_vocabulary_keeps_the_most_frequent_and_breaks_ties_by_the_alphabet() -> None:
    # a: 3, b: 2, c: 2, d: 1
    places = vocabulary(["a a a", "c b", "b c d"], ngrams=1, limit=3)
    assert places == {"a": 2, "b": 3, "c": 4}


def test_unknown_grams_are_one_and_padding_is_zero() -> None:
    rows = encode(["a z", "a"], {"a": 2, "b": 3}, ngrams=2, length=10)
    np.testing.assert_array_equal(rows, [[2, UNKNOWN, UNKNOWN], [2, 0, 0]])
    assert rows.dtype == np.int32


@pytest.mark.parametrize(("length", "expected"), [(5, [2, 3, 4, 1, 1]), (4, [2, 3, 1]), (1, [2])])
def test_a_long_text_loses_its_last_words_with_their_pairs(length: int, expected: list[int]) -> None:
    places = {"a": 2, "b": 3, "c": 4, "d": 5}
    assert encode(["a b c d e f"], places, ngrams=2, length=length)[0].tolist() == expected


def test_only_the_training_texts_make_the_vocabulary() -> None:
    rows = tokenised(["a b", "a"], ["z z z"], ngrams=1, limit=10, length=10)
    assert rows.tokens == 4
    assert rows.train.shape[1] == rows.test.shape[1] == 3
    np.testing.assert_array_equal(rows.train, [[2, 3, 0], [2, 0, 0]])
    np.testing.assert_array_equal(rows.test, [[1, 1, 1]])


def test_an_empty_text_is_all_padding() -> None:
    np.testing.assert_array_equal(encode(["", "a"], {"a": 2}, 2, 5), [[0], [2]])
