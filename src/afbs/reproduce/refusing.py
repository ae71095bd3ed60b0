"""Refuses a choice that an exhibit has nothing for, or would not heed."""

from __future__ import annotations

from collections.abc import Iterable

from afbs.reproduce.choice import Choice
from afbs.reproduce.exhibits import Exhibit
from afbs.reproduce.spec import METHODS, NEWER, Spec
from afbs.types import UserError


def suited(exhibits: Iterable[Exhibit], choice: Choice) -> tuple[list[str], list[str]]:
    """The names of those that have something for the choice, and a sentence about each of the others."""
    names, objections = [], []
    for exhibit in exhibits:
        try:
            refuse(exhibit, choice)
            names.append(exhibit.name)
        except UserError as error:
            objections.append(str(error))
    return names, objections


def refuse(exhibit: Exhibit, choice: Choice) -> None:
    """Raises a UserError that says what there is."""
    given = {"--dataset": choice.datasets, "--clusters": choice.clusters, "--methods": choice.methods}
    given |= {"--seeds": choice.seeds, "--virtual-days": (choice.days,) if choice.days else ()}
    chosen = [option for option, values in given.items() if values]
    if exhibit.measure is not None:
        _refuse_unheeded(exhibit.name, [option for option in chosen if option not in exhibit.heeds])
        return
    every, taken = exhibit.specs(Choice()), exhibit.specs(choice)
    for option, values in list(given.items())[:3]:
        there = _sorted(_of(spec, option) for spec in every)
        unknown = [value for value in values if value not in there]
        if unknown and not set(there) <= {*METHODS, *NEWER} and option == "--methods":
            _refuse_unheeded(exhibit.name, [option])
        if unknown:
            raise UserError(f"`{option}`: {exhibit.name} has no {unknown[0]}; it has {_listed(there)}.")
        if values and any(_of(spec, option) not in values for spec in taken):
            _refuse_unheeded(exhibit.name, [option])
    if not taken:
        there = _sorted(f"{spec.dataset} with {spec.clusters}" for spec in every)
        raise UserError(
            f"{exhibit.name} has no run for {' and '.join(chosen)} together; it has {_listed(there)} clusters."
        )


def _refuse_unheeded(name: str, options: list[str]) -> None:
    if options:
        raise UserError(f"`{options[0]}`: {name} leaves no such choice. Leave the option out.")


def _of(spec: Spec, option: str) -> str | int:
    found: dict[str, str | int] = {"--dataset": spec.dataset, "--clusters": spec.clusters, "--methods": spec.method}
    return found[option]


def _sorted(values: Iterable[str | int]) -> list[str | int]:
    return sorted(set(values), key=lambda value: (isinstance(value, str), value))


def _listed(values: list[str | int]) -> str:
    return ", ".join(map(str, values))
