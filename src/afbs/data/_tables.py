"""Tables of text on disk: TSV as GLUE writes it, CSV, and Parquet."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from afbs.data._raw import Part, Raw, require
from afbs.files import ENCODING
from afbs.types import UserError


@dataclass(frozen=True, slots=True)
class GlueTsv:
    """A header line, then a sentence, a tab and a label a line. No quoting: a quotation mark is one."""

    train: str = "train.tsv"
    test: str = "dev.tsv"

    @property
    def layout(self) -> str:
        return f"{self.train}, {self.test}"

    def find(self, folder: Path) -> Mapping[str, Path] | None:
        paths = {name: folder / name for name in (self.train, self.test)}
        return require(folder, {name: path if path.is_file() else None for name, path in paths.items()})

    def read(self, files: Mapping[str, Path]) -> Raw:
        return Raw([_glue(files[self.train])], [_glue(files[self.test])])


def columns(path: Path, names: Sequence[str]) -> list[list[Any]]:
    """The named columns of a .csv, .tsv or .parquet file."""
    if not path.is_file():
        raise UserError(f"There is no file {path}.")
    if path.suffix == ".parquet":
        return read_parquet(path, names)
    try:
        with path.open(encoding=ENCODING, newline="") as file:
            reader = csv.reader(file, delimiter="\t" if path.suffix == ".tsv" else ",", strict=True)
            return _checked(path, reader, names)
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror or error}).") from error


def read_parquet(path: Path, names: Sequence[str]) -> list[list[Any]]:
    """Some columns of a Parquet file."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ModuleNotFoundError as error:
        raise UserError(f"Reading {path} needs pyarrow: pip install 'afbs[hub]'.") from error
    try:
        there = pq.read_schema(path).names
        if missing := [name for name in names if name not in there]:
            raise UserError(f"{path} has no column {missing[0]!r}; it has: {', '.join(there)}.")
        table = pq.read_table(path, columns=list(names))
        return [table.column(name).to_pylist() for name in names]
    except (pa.ArrowException, ValueError, OSError, MemoryError) as error:  # a damaged file may claim anything
        raise UserError(f"{path} is no Parquet file, or it is cut short or damaged ({error}).") from error


def _glue(path: Path) -> Part:
    with path.open(encoding=ENCODING, newline="\n") as file:
        texts, labels = _checked(path, (line.rstrip("\r\n").split("\t") for line in file), ("sentence", "label"))
    for line, label in enumerate(labels, 2):
        if not label.isdecimal():
            raise UserError(f"{path}, line {line}: the label is {label!r}, expected a whole number.")
    return Part((path,), texts, np.array([int(label) for label in labels], np.int64))


def _checked(path: Path, rows: Iterable[list[str]], names: Sequence[str]) -> list[list[str]]:
    numbered = _numbered(path, rows)
    line, header = next(numbered, (1, []))
    if missing := [name for name in names if name not in header]:
        raise UserError(f"{path}, line {line}: there is no column {missing[0]!r}; there are: {', '.join(header)}.")
    places = [header.index(name) for name in names]
    found: list[list[str]] = [[] for _ in names]
    for line, row in numbered:
        if len(row) != len(header):
            raise UserError(f"{path}, line {line}: {len(row)} columns, expected {len(header)} ({', '.join(header)}).")
        for column, place in zip(found, places, strict=True):
            column.append(row[place])
    if not found[0]:
        raise UserError(f"{path} has no rows.")
    return found


def _numbered(path: Path, rows: Iterable[list[str]]) -> Iterator[tuple[int, list[str]]]:
    """Rows with the line on which each ends; a quoted field may span several."""
    count = 0
    source = iter(rows)
    while True:
        try:
            row = next(source)
        except StopIteration:
            return
        except (csv.Error, UnicodeDecodeError) as error:
            line = getattr(source, "line_num", count)
            raise UserError(f"{path}, line {line + 1}: {error}.") from error
        count += 1
        if row:
            yield getattr(source, "line_num", count), row
