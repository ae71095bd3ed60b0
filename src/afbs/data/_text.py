"""Text as rows of numbers: words and pairs of words, each by its place in a vocabulary.

0 is padding and 1 is whatever the vocabulary does not know. The vocabulary comes from the training split alone: the
most frequent n-grams, ties in alphabetical order.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

PADDING, UNKNOWN, _FIRST = 0, 1, 2
_APART = re.compile(r"([.,'()!?])")
_AWAY = re.compile(r'["]')
_SPACE = re.compile(r"<br\s*/?>|[;:]")


class Tokenised(NamedTuple):
    """Two splits as rows of numbers below `tokens`."""

    train: NDArray[np.int32]
    test: NDArray[np.int32]
    tokens: int


def words(text: str) -> list[str]:
    """Lower case, punctuation apart from words; quotation marks, colons and semicolons are left out."""
    plain = _SPACE.sub(" ", _AWAY.sub("", text.lower()))
    return _APART.sub(r" \1 ", plain).split()


def grams(tokens: Sequence[str], ngrams: int) -> list[str]:
    """All runs of one to `ngrams` words, the short ones first."""
    runs = (tokens[start : start + size] for size in range(1, ngrams + 1) for start in range(len(tokens) - size + 1))
    return [" ".join(run) for run in runs]


def vocabulary(texts: Iterable[str], ngrams: int, limit: int) -> dict[str, int]:
    """The place of each of the `limit` most frequent n-grams."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(grams(words(text), ngrams))
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:limit]
    return {gram: place for place, (gram, _) in enumerate(ranked, _FIRST)}


def encode(texts: Sequence[str], places: Mapping[str, int], ngrams: int, length: int) -> NDArray[np.int32]:
    """A row a text, padded at the end. A text that has more than `length` n-grams loses its last words."""
    rows = [[places.get(gram, UNKNOWN) for gram in _fitting(words(text), ngrams, length)] for text in texts]
    matrix = np.full((len(rows), max(1, *map(len, rows))), PADDING, np.int32)
    for number, row in enumerate(rows):
        matrix[number, : len(row)] = row
    return matrix


def pad(matrix: NDArray[np.int32], width: int) -> NDArray[np.int32]:
    """The same rows, `width` long."""
    return np.pad(matrix, ((0, 0), (0, width - matrix.shape[1])), constant_values=PADDING)


def _fitting(tokens: list[str], ngrams: int, length: int) -> list[str]:
    # w words have at most w * ngrams - ngrams * (ngrams - 1) / 2 runs; short texts have fewer.
    most = (length + ngrams * (ngrams - 1) // 2) // ngrams
    return grams(tokens[:most] if len(tokens) > most else tokens, ngrams)[:length]


def tokenised(train: Sequence[str], test: Sequence[str], ngrams: int, limit: int, length: int) -> Tokenised:
    """Both splits by the training split's vocabulary, in rows of one width."""
    places = vocabulary(train, ngrams, limit)
    rows = [encode(texts, places, ngrams, length) for texts in (train, test)]
    width = max(matrix.shape[1] for matrix in rows)
    return Tokenised(pad(rows[0], width), pad(rows[1], width), _FIRST + len(places))
