"""Who has what, drawn: a row a client, a column a class, and how volumes are spread."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from afbs.types import UserError

if TYPE_CHECKING:
    from rich.console import RenderableType

_ROWS, _COLUMNS, _BAR = 30, 25, 32
_SHADES = " ░▒▓█"


def drawing(counts: Sequence[NDArray[np.int64]]) -> RenderableType:
    """For a terminal. `counts` has the samples of each class for each client."""
    from rich.console import Group

    matrix = _ordered(counts)
    return Group(_summary(matrix), "", *_shares(matrix), "", "Clients by volume", _volumes(matrix.sum(axis=1)))


def save_figure(counts: Sequence[NDArray[np.int64]], path: Path) -> None:
    """The same as a picture; the ending of `path` says which kind."""
    from matplotlib.figure import Figure

    matrix = _ordered(counts)
    volumes = matrix.sum(axis=1)
    figure = Figure(figsize=(9, 5), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(2, 1))
    image = left.imshow(_fractions(matrix), aspect="auto", interpolation="nearest", cmap="Blues", vmin=0, vmax=1)
    left.set(xlabel="class", ylabel="client, by its most frequent class", title="share of a client's samples")
    figure.colorbar(image, ax=left)
    right.hist(volumes, bins=_bins(volumes), color="tab:blue")
    right.set(xlabel="samples", ylabel="clients", title="volumes")
    if volumes.max() > 10 * max(1, volumes.min()):
        right.set_xscale("log")
    try:
        figure.savefig(path)
    except (OSError, ValueError) as error:
        raise UserError(f"`--output`: {path} cannot be written: {error}.") from error


def _ordered(counts: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """A row a client: by the most frequent class, and within it by volume."""
    matrix = np.stack([np.asarray(row, np.int64) for row in counts])
    return matrix[np.lexsort((-matrix.sum(axis=1), matrix.argmax(axis=1)))]


def _fractions(matrix: NDArray[np.int64]) -> NDArray[np.float64]:
    fractions: NDArray[np.float64] = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)
    return fractions


def _summary(matrix: NDArray[np.int64]) -> str:
    volumes = matrix.sum(axis=1)
    held = (matrix > 0).sum(axis=1)
    return (
        f"{len(matrix):,} clients have {volumes.sum():,} samples of {matrix.shape[1]} classes. "
        f"A client has {volumes.min():,} to {volumes.max():,} samples (median {np.median(volumes):,.0f}) "
        f"of {held.min()} to {held.max()} classes (median {np.median(held):.0f})."
    )


def _shares(matrix: NDArray[np.int64]) -> tuple[str, Any]:
    from rich.table import Table

    groups = np.array_split(np.arange(matrix.shape[1]), min(_COLUMNS, matrix.shape[1]))
    shown = np.unique(np.linspace(0, len(matrix) - 1, min(_ROWS, len(matrix))).round().astype(int))
    every = "all clients" if len(shown) == len(matrix) else f"{len(shown)} of {len(matrix):,} clients"
    table = Table(box=None)
    for group in groups:
        name = str(group[0]) if len(group) == 1 else f"{group[0]}-{group[-1]}"
        table.add_column(name, no_wrap=True, justify="center", min_width=2)
    table.add_column("samples", justify="right")
    fractions = _fractions(matrix)
    for row in shown:
        cells = [_shade(float(fractions[row, group].sum())) for group in groups]
        table.add_row(*cells, f"{matrix[row].sum():,}")
    return f"Share of a client's samples in each class; {every}", table


def _shade(share: float) -> str:
    """Nothing for nothing, the full block for everything, and at least a trace for anything."""
    level = 0 if share == 0 else max(1, min(len(_SHADES) - 1, round(share * (len(_SHADES) - 1))))
    return _SHADES[level] * 2


def _volumes(volumes: NDArray[np.int64]) -> Any:
    from rich.table import Table

    table = Table(box=None, show_header=False)
    table.add_column(justify="right")
    table.add_column()
    edges = _bins(volumes)
    numbers, _ = np.histogram(volumes, edges)
    for low, high, number in zip(edges[:-1], edges[1:] - 1, numbers, strict=True):
        bar = "█" * max(round(_BAR * number / max(1, numbers.max())), 1 if number else 0)
        table.add_row(f"{low:,.0f}" if low == high else f"{low:,.0f} to {high:,.0f}", f"{bar} {number:,}")
    return table


def _bins(volumes: NDArray[np.int64]) -> NDArray[np.float64]:
    """Whole numbers, about equally far apart on a logarithmic scale; the last is beyond the largest volume."""
    low, high = max(1, int(volumes.min())), int(volumes.max()) + 1
    edges = np.unique(np.geomspace(low, max(high, low + 1), 11).round())
    if volumes.min() < 1:
        edges = np.concatenate([[0.0], edges])
    return edges
