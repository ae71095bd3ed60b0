"""SST-2 (Socher et al. 2013) as in GLUE (arXiv 1804.07461): phrases of film reviews, praise or not.

GLUE's own test split has no labels, so the 872 sentences of its development split are what is tested on, as in the
AFBS paper, whose accuracies are whole numbers of 872.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, ClassVar, final

import numpy as np
from annotated_types import Ge, Le
from numpy.typing import NDArray

from afbs.data._about import About
from afbs.data._hub_files import HubParquet
from afbs.data._official import Official, load
from afbs.data._raw import Part, Published, Raw
from afbs.data._tables import GlueTsv
from afbs.data._text import tokenised
from afbs.interfaces import Source
from afbs.types import Dataset


@final
@dataclass(frozen=True)
class Sst2(Source):
    """68,221 phrases of film reviews, praise or not, as n-grams of words."""

    vocabulary: Annotated[int, Ge(1)] = 50_000
    """So many of the training split's most frequent n-grams are known."""
    ngrams: Annotated[int, Ge(1), Le(5)] = 2
    """The longest run of words that counts as one token."""
    length: Annotated[int, Ge(1)] = 256
    """Tokens of a text beyond this are cut off."""

    about: ClassVar[About] = About(67_349, 872, 2, "none stated; cite", "huggingface.co/datasets/stanfordnlp/sst2")
    official: ClassVar[Official] = Official(
        name="sst2",
        published=Published(train=(29_780, 37_569), test=(428, 444)),
        formats=(GlueTsv(), HubParquet("sentence", test="validation", text=True)),
        folders=("SST-2", "sst2", "sst-2"),
        hub="stanfordnlp/sst2",
    )

    def load(self) -> Dataset:
        return load(self.official, asdict(self), self._convert)

    def _convert(self, raw: Raw) -> Dataset:
        (train, train_y), (test, test_y) = ((_texts(parts), _labels(parts)) for parts in (raw.train, raw.test))
        train_x, test_x, tokens = tokenised(train, test, self.ngrams, self.vocabulary, self.length)
        return Dataset(train_x, train_y, test_x, test_y, 2, tokens=tokens)


def _texts(parts: Sequence[Part]) -> list[str]:
    return [text for part in parts for text in part.x]


def _labels(parts: Sequence[Part]) -> NDArray[np.int64]:
    return np.concatenate([part.y for part in parts])
