"""Text as rows of characters, for predicting the next one.

The text that ships with the package, `harbour.txt`, was written for it: six voices of one small harbour, of a thousand
characters each. It is Apache-2.0 like everything else here.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from typing import Annotated, ClassVar, final

import numpy as np
from annotated_types import Ge, Le
from numpy.typing import NDArray

from afbs.data._about import About
from afbs.data._own import file_recipe
from afbs.data._store import cached
from afbs.files import ENCODING, path_of
from afbs.interfaces import Source
from afbs.types import Dataset, UserError

_UNKNOWN = 1
_PARTS = 10


@final
@dataclass(frozen=True)
class Characters(Source):
    """A text in rows of characters; without a `path`, a short one in six voices that comes with the package.

    A line that begins with `# ` begins a new voice; a text without such lines is taken for ten of equal length. Voices
    are the labels and the owners, and the last fifth of each is for testing.
    """

    about: ClassVar[About] = About(298, 35, 6, "Apache-2.0", "written for afbs")

    path: str = ""
    """A text file of your own, in UTF-8."""

    length: Annotated[int, Ge(1), Le(65_536)] = 32
    """How many characters are predicted in a row; a row has one more."""

    def load(self) -> Dataset:
        if not self.path:
            text = resources.files("afbs.data").joinpath("harbour.txt").read_text(ENCODING)
            return cached("characters", {"length": self.length}, lambda: self._convert("harbour.txt", text))
        path = path_of("data.path", self.path)
        recipe = file_recipe(self, path)
        try:
            text = path.read_text(ENCODING)
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"`data.path`: {path} cannot be read as text: {error}.") from error
        return cached("characters", recipe, lambda: self._convert(str(path), text))

    def _convert(self, where: str, text: str) -> Dataset:
        voices = _voices(text)
        cuts = [(name, voice[: 4 * len(voice) // 5], voice[4 * len(voice) // 5 :]) for name, voice in voices]
        known = {letter: number for number, letter in enumerate(sorted({*"".join(cut[1] for cut in cuts)}), 2)}
        # Rows to train on overlap by half, which is like twice as much text; rows to test with do not.
        train = [self._rows(part, known, max(1, self.length // 2)) for _, part, _ in cuts]
        test = [self._rows(part, known, self.length) for _, _, part in cuts]
        if not all(len(rows) for rows in (*train, *test)):
            shortest = min(len(voice) for _, voice in voices)
            raise UserError(
                f"{where}: its shortest voice has {shortest} characters, too few for rows of `data.length` = "
                f"{self.length}: five times as many are needed, and five more."
            )
        numbers = [np.repeat(np.arange(len(rows)), [len(part) for part in rows]) for rows in (train, test)]
        x, test_x = np.concatenate(train), np.concatenate(test)
        names = tuple(name for name, _ in voices)
        return Dataset(
            x,
            numbers[0],
            test_x,
            numbers[1],
            len(names),
            tokens=len(known) + 2,
            owners=numbers[0],
            names=names,
            owner_names=names,
        )

    def _rows(self, text: str, known: dict[str, int], stride: int) -> NDArray[np.int32]:
        codes = np.array([known.get(letter, _UNKNOWN) for letter in text], np.int32)
        starts = range(0, len(codes) - self.length, stride)
        rows = [codes[start : start + self.length + 1] for start in starts]
        return np.array(rows, np.int32).reshape(len(rows), self.length + 1)


def _voices(text: str) -> list[tuple[str, str]]:
    """What each is called, and what it says."""
    found: list[tuple[str, str]] = []
    for part in ("\n" + text).split("\n# ")[1:]:
        name, _, said = part.partition("\n")
        found.append((name.strip(), said.strip()))
    if len(found) > 1:
        return found
    size = -(-len(text) // _PARTS)
    return [(f"part {i + 1}", text[i * size : (i + 1) * size]) for i in range(_PARTS)]
