"""Which part of a table or figure is wanted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from afbs import registry
from afbs.reproduce.spec import CLUSTERS, COLUMNS, METHODS, NEWER, Spec
from afbs.types import UserError


@dataclass(frozen=True)
class Choice:
    """Nothing chosen is everything. `days` 0 is as long as an exhibit says; so are no `seeds`."""

    datasets: tuple[str, ...] = ()
    clusters: tuple[int, ...] = ()
    methods: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()
    days: float = 0.0

    def __post_init__(self) -> None:
        _refuse_unknown("--dataset", self.datasets, tuple(CLUSTERS))
        _refuse_unknown("--methods", self.methods, (*METHODS, *NEWER))
        if any(seed < 0 for seed in self.seeds):
            raise UserError(f"`--seeds` must be 0 or more, got {min(self.seeds)}.")
        if self.days < 0:
            raise UserError(f"`--virtual-days` must be more than 0, got {self.days:g}.")

    @property
    def suffix(self) -> str:
        """What tells the results of a part from those of the whole."""
        words = [*self.datasets, *(f"k{number}" for number in self.clusters), *self.methods]
        words += [f"seed{seed}" for seed in self.seeds] + [f"{self.days:g}d"] * bool(self.days)
        return "".join(f"-{word}" for word in words)

    def columns(self) -> list[tuple[str, int]]:
        """The columns of Tables 2 and 4 that are wanted, in the order in which they are run."""
        return [column for column in COLUMNS if self.takes(*column)]

    def takes(self, dataset: str, clusters: int) -> bool:
        return (not self.datasets or dataset in self.datasets) and (not self.clusters or clusters in self.clusters)

    def of(self, methods: Sequence[str]) -> list[str]:
        return [method for method in methods if not self.methods or method in self.methods]

    def with_seeds(self, specs: Sequence[Spec], usual: Sequence[int] = (1,)) -> Iterator[Spec]:
        """Every run with every seed that is wanted, and as long as is wanted; a seed is finished before the next."""
        for seed in self.seeds or usual:
            for spec in specs:
                yield replace(spec, seed=seed, days=self.days or spec.days)


def _refuse_unknown(option: str, given: Sequence[str], known: Sequence[str]) -> None:
    unknown = [name for name in given if name not in known]
    if unknown:
        raise UserError(f"`{option}`: there is no {unknown[0]!r}{registry.hint(unknown[0], list(known))}")
