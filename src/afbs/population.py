"""The clients of a run: who has which data, and what the server may know of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from afbs.clients.profile import label_counts, strata
from afbs.config import Config
from afbs.seeds import Key
from afbs.types import ClientId, ClientInfo, Dataset, Grouping, Split, UserError

_ROWS = 4096


@dataclass(frozen=True)
class Population:
    """The clients of a run: their data, what the server knows of them, and what each holds out for testing."""

    dataset: Dataset
    split: Split
    grouping: Grouping | None
    clients: Sequence[ClientInfo]
    held: Sequence[NDArray[np.int64]] = ()

    def label_counts(self) -> dict[ClientId, NDArray[np.int64]]:
        return label_counts(*strata(self.dataset.train_y, self.dataset.classes), self.split.indices)

    def owner_names(self) -> list[str] | None:
        """For each client what its owner is called, where every client is one owner's; else None."""
        owners, names = self.dataset.owners, self.dataset.owner_names
        if owners is None or not names:
            return None
        whose = [np.unique(owners[chosen]) for chosen in self.split.indices]
        return [names[owner[0]] for owner in whose] if all(len(owner) == 1 for owner in whose) else None


def populate(config: Config) -> Population:
    """The clients that a configuration describes."""
    dataset = config.data.load()
    if not isinstance(dataset, Dataset):
        raise UserError(f"`data`: {_called(config.data)}.load must give an afbs.types.Dataset, got {_kind(dataset)}.")
    kept = None
    if (
        config.evaluation.validation
        and isinstance(dataset.train_x, np.ndarray)
        and isinstance(dataset.train_y, np.ndarray)
    ):
        dataset, kept = _with_validation(dataset, config.evaluation.validation, Key.root(config.run.seed, "validation"))
    _check_form(dataset)
    _check_samples("train", dataset.train_x, dataset.train_y, dataset.classes)
    _check_samples("test", dataset.test_x, dataset.test_y, dataset.classes)
    config.task.check(dataset)
    split = _split(config, dataset, kept)
    if not isinstance(split, Split):
        raise UserError(
            f"`partition`: {_called(config.partition)}.split must give an afbs.types.Split, got {_kind(split)}."
        )
    _check_split(split, len(dataset.train_y))
    number = len(split.indices)
    if config.run.in_flight > number:
        raise UserError(
            f"`run.in_flight` must be at most the number of clients ({number}), got {config.run.in_flight}."
        )
    awaits = config.algorithm.awaits
    if awaits > config.run.in_flight:
        raise UserError(
            f"`algorithm`: a step waits for {awaits} updates, but only `run.in_flight` = {config.run.in_flight} jobs "
            "are under way at a time. A smaller buffer or more in flight would do."
        )
    grouping = None
    if config.algorithm.clustered:
        counts = label_counts(*strata(dataset.train_y, dataset.classes), split.indices)
        most = max(1, awaits // 2)  # more clusters would leave a buffer fewer than two updates of each to compare
        grouping = config.clusters.group(counts, Key.root(config.run.seed, "clusters"), most)
    cluster_of = grouping.cluster_of if grouping else {}
    split, held = _holding_out(split, config.evaluation.held_out, holding_key(config.run.seed))
    clients = [
        ClientInfo(client, len(chosen), cluster_of.get(client, 0)) for client, chosen in enumerate(split.indices)
    ]
    return Population(dataset, split, grouping, clients, held)


def holding_key(seed: int) -> Key:
    """By which clients draw what they keep for testing; each has a child of it."""
    return Key.root(seed, "held out")


def held_out(chosen: NDArray[np.int64], share: float, key: Key) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """What a client trains on, and what it keeps for testing; who has one sample trains on it."""
    number = min(len(chosen) - 1, max(1, round(share * len(chosen)))) if share else 0
    drawn = key.generator().permutation(len(chosen))
    return chosen[np.sort(drawn[number:])], chosen[np.sort(drawn[:number])]


def _holding_out(split: Split, share: float, key: Key) -> tuple[Split, Sequence[NDArray[np.int64]]]:
    """What clients train on, and what each keeps for testing."""
    if not share:
        return split, ()
    parts = [held_out(chosen, share, key.child(client)) for client, chosen in enumerate(split.indices)]
    return replace(split, indices=[train for train, _ in parts]), [held for _, held in parts]


def _with_validation(dataset: Dataset, share: float, key: Key) -> tuple[Dataset, NDArray[np.int64]]:
    """The data with a share of the training samples in the place of the test set, and which samples remain.

    What remains is only named, not copied; and the test set is let go unread.
    """
    samples = len(dataset.train_y)
    number = round(share * samples)
    if not 0 < number < samples:
        raise UserError(
            f"`evaluation.validation` = {share} of {samples} training samples is {number}: one at least must be set "
            "aside, and one must remain."
        )
    drawn = key.generator().permutation(samples)
    aside, kept = np.sort(drawn[:number]), np.sort(drawn[number:])
    return replace(dataset, test_x=dataset.train_x[aside], test_y=dataset.train_y[aside]), kept


def _split(config: Config, dataset: Dataset, kept: NDArray[np.int64] | None) -> Split:
    key = Key.root(config.run.seed, "partition")
    if kept is None:
        return config.partition.split(strata(dataset.train_y, dataset.classes)[0], dataset.owners, key)
    owners = None if dataset.owners is None else dataset.owners[kept]
    split: Any = config.partition.split(strata(dataset.train_y[kept], dataset.classes)[0], owners, key)
    if not isinstance(split, Split):
        return split  # type: ignore[no-any-return]  # its caller says what is wrong with it
    _check_split(split, len(kept))
    return replace(split, indices=[kept[chosen] for chosen in split.indices])


def _check_form(dataset: Dataset) -> None:
    """What a source of the user's own may have got wrong; the package's own cannot."""
    for name in ("train_x", "train_y", "test_x", "test_y"):
        values = getattr(dataset, name)
        if not isinstance(values, np.ndarray):
            raise UserError(f"`data`: `{name}` must be a numpy array, got {_kind(values)}.")
    train, test = dataset.train_x, dataset.test_x
    pixels = [values.dtype == np.uint8 for values in (train, test)]
    if train.ndim < 2 or train.shape[1:] != test.shape[1:] or pixels[0] != pixels[1]:
        raise UserError(
            f"`data`: training samples are {train.dtype} of shape {train.shape[1:]}, test samples {test.dtype} of "
            f"shape {test.shape[1:]}; expected the same, with at least one number a sample."
        )
    for name, fits in (("shift", np.isfinite), ("scale", lambda values: np.isfinite(values) & (values != 0))):
        values = np.asarray(getattr(dataset, name), np.float64)
        if len(values) not in (1, train.shape[1]) or not fits(values).all():
            raise UserError(
                f"`data`: `{name}` must be one number or one for each of {train.shape[1]} channels, all finite"
                f"{' and not 0' if name == 'scale' else ''}."
            )


def _check_samples(split: str, samples: NDArray[Any], labels: NDArray[Any], classes: int) -> None:
    if len(samples) != len(labels) or not len(labels):
        raise UserError(f"`data`: {len(samples)} {split} samples with {len(labels)} labels; each sample needs one.")
    if not classes:
        _check_finite(f"the label of {split} sample", labels)
        _check_finite(f"{split} sample", samples)
        return
    if not np.issubdtype(labels.dtype, np.integer):
        raise UserError(f"`data`: the labels of the {split} samples must be whole numbers, got {labels.dtype}.")
    wrong = np.flatnonzero((labels < 0) | (labels >= classes))
    if len(wrong):
        where = int(wrong[0])
        raise UserError(
            f"`data`: the label of {split} sample {where} is {int(labels[where])}; "
            f"with {classes} classes labels go from 0 to {classes - 1}."
        )
    _check_finite(f"{split} sample", samples)


def _check_finite(what: str, values: NDArray[Any]) -> None:
    for start in range(0, len(values), _ROWS) if np.issubdtype(values.dtype, np.floating) else ():
        with np.errstate(over="ignore"):
            part = values[start : start + _ROWS].astype(np.float32)
        if not np.isfinite(part).all():
            where = start + int(np.argwhere(~np.isfinite(part))[0][0])
            raise UserError(f"`data`: {what} {where} has a value that is not finite as float32.")


def _check_split(split: Split, samples: int) -> None:
    if not len(split.indices):
        raise UserError("`partition`: there are no clients; at least one is needed.")
    for client, chosen in enumerate(split.indices):
        if not len(chosen):
            raise UserError(f"`partition`: client {client} has no samples; every client needs at least one.")
        if not isinstance(chosen, np.ndarray) or not np.issubdtype(chosen.dtype, np.integer):
            raise UserError(f"`partition`: the samples of client {client} must be an array of whole numbers.")
        if chosen.min() < 0 or chosen.max() >= samples:
            wrong = int(chosen.min() if chosen.min() < 0 else chosen.max())
            raise UserError(f"`partition`: client {client} has sample {wrong}; they go from 0 to {samples - 1}.")


def _called(part: object) -> str:
    return type(part).__name__


def _kind(value: object) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"
