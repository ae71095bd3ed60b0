"""Texts and labels in a table."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, final

import numpy as np
from annotated_types import Ge, Le
from numpy.typing import NDArray

from afbs.data._arrays import every_fifth
from afbs.data._columns import Column, column
from afbs.data._own import dataset, file_recipe
from afbs.data._store import cached
from afbs.data._tables import columns
from afbs.data._text import tokenised
from afbs.files import path_of
from afbs.interfaces import Source
from afbs.types import Dataset, UserError

_NUMBER = re.compile("-?[0-9]{1,18}")


@final
@dataclass(frozen=True)
class Text(Source):
    """Your own texts: a .csv, .tsv or .parquet file with a column of text, one of labels and, if wanted, one of owners.

    Without a `test` file every fifth text of each class is for testing. `owner` names the column that says whose text
    it is, for natural clients.
    """

    path: str
    """The file: .csv, .tsv or .parquet."""
    test: str = ""
    """Another one for testing; without it every fifth text of each class is."""
    text: str = "text"
    """The column of texts."""
    label: str = "label"
    """The column of labels."""
    owner: str = ""
    """The column that says whose text it is, for natural clients."""
    vocabulary: Annotated[int, Ge(1)] = 50_000
    """So many of the training split's most frequent n-grams are known."""
    ngrams: Annotated[int, Ge(1), Le(5)] = 2
    """The longest run of words that counts as one token."""
    length: Annotated[int, Ge(1)] = 256
    """Tokens of a text beyond this are cut off."""

    def load(self) -> Dataset:
        paths = [path_of("data.path", self.path), *([path_of("data.test", self.test)] if self.test else [])]
        return cached("text", file_recipe(self, *paths), lambda: self._convert(*paths))

    def _convert(self, path: Path, test: Path | None = None) -> Dataset:
        texts, labels, owners = self._table(path, self.owner)
        if test is None:
            train, held = every_fifth(labels.codes)
            test_texts, test_labels = texts[held], labels[held]
            texts, labels = texts[train], labels[train]
            owners = None if owners is None else owners[train]
        else:
            test_texts, test_labels, _ = self._table(test, "")
        if not len(test_texts):
            raise UserError(f"{path}: every class needs at least five texts, or set `data.test`.")
        rows = tokenised(texts.tolist(), test_texts.tolist(), self.ngrams, self.vocabulary, self.length)
        return dataset(str(path), rows.train, labels, rows.test, test_labels, owners, rows.tokens)

    def _table(self, path: Path, owner: str) -> tuple[NDArray[Any], Column, Column | None]:
        names = [self.text, self.label, *([owner] if owner else [])]
        found = columns(path, names)
        for name, values in zip(names, found, strict=True):
            if None in values:
                raise UserError(f"{path}, row {values.index(None) + 1}: {name!r} is empty.")
        texts, labels, *owners = found
        if not all(isinstance(text, str) for text in texts):
            raise UserError(f"{path}: the column {self.text!r} must hold text.")
        if all(isinstance(label, str) and _NUMBER.fullmatch(label) for label in labels):
            labels = [int(label) for label in labels]
        whose = column(f"{path}: the column {owner!r}", np.array(owners[0], object)) if owner else None
        return np.array(texts, object), column(f"{path}: the column {self.label!r}", np.array(labels, object)), whose
