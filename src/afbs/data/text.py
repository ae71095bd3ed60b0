"""Texts and labels in a table."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, final

import numpy as np
from annotated_types import Ge, Le
from numpy.typing import NDArray

from afbs.data._arrays import every_fifth
from afbs.data._own import dataset, file_recipe, numbered
from afbs.data._store import cached
from afbs.data._tables import columns
from afbs.data._text import tokenised
from afbs.interfaces import Source
from afbs.types import Dataset, UserError


@final
@dataclass(frozen=True)
class Text(Source):
    """Your own texts: a .csv, .tsv or .parquet file with a column of text, one of labels and, if wanted, one of owners.

    Without a `test` file every fifth text of each class is for testing. `owner` names the column that says whose text
    it is, for natural clients.
    """

    path: str
    test: str = ""
    text: str = "text"
    label: str = "label"
    owner: str = ""
    vocabulary: Annotated[int, Ge(1)] = 50_000
    ngrams: Annotated[int, Ge(1), Le(5)] = 2
    length: Annotated[int, Ge(1)] = 256

    def load(self) -> Dataset:
        paths = [Path(path).expanduser() for path in (self.path, self.test) if path]
        return cached("text", file_recipe(self, *paths), lambda: self._convert(*paths))

    def _convert(self, path: Path, test: Path | None = None) -> Dataset:
        texts, labels, owners = self._table(path, self.owner)
        if test is None:
            train, held = every_fifth(numbered(labels))
            test_texts, test_labels = texts[held], labels[held]
            texts, labels = texts[train], labels[train]
            owners = None if owners is None else owners[train]
        else:
            test_texts, test_labels, _ = self._table(test, "")
        if not len(test_texts):
            raise UserError(f"{path}: every class needs at least five texts, or set `data.test`.")
        rows = tokenised(texts.tolist(), test_texts.tolist(), self.ngrams, self.vocabulary, self.length)
        return dataset(str(path), rows.train, labels, rows.test, test_labels, owners, rows.tokens)

    def _table(self, path: Path, owner: str) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any] | None]:
        names = [self.text, self.label, *([owner] if owner else [])]
        found = columns(path, names)
        for name, column in zip(names, found, strict=True):
            if None in column:
                raise UserError(f"{path}, row {column.index(None) + 1}: {name!r} is empty.")
        labels = np.array(found[1])
        if labels.dtype.kind in "US" and all(label.lstrip("-").isdecimal() for label in found[1]):
            labels = labels.astype(np.int64)
        return np.array(found[0], object), labels, np.array(found[2]) if owner else None
