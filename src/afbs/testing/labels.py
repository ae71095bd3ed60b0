"""What every label mechanism keeps to, whatever it asks of clients."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator, Mapping
from typing import Any, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray

from afbs.config import load
from afbs.interfaces import LabelMechanism
from afbs.privacy.exposure import Exposing
from afbs.privacy.halves import TwoHalves
from afbs.seeds import Key
from afbs.testing._label_halves import check_halves
from afbs.types import Grouping, UserError

KEY = Key.root(1, "check_label_mechanism")
CLASSES = 6
SIZES = (16, 12, 8)
"""How many clients of each of three kinds there are: different, so that clusters have an order."""
LIES: Mapping[str, Any] = {
    "negative": [-5, 90, 3, 0, 0, 1],
    "not finite": [np.nan, 1, 1, 1, 1, 1],
    "infinite": [np.inf, 0, 0, 0, 0, 0],
    "not whole": [0.5] * CLASSES,
    "none at all": [0] * CLASSES,
    "too few": [3, 4, 5],
    "too many": [1] * (CLASSES + 1),
    "beyond belief": [2.0**60, 0, 0, 0, 0, 0],
    "a table": [[1, 2], [3, 4]],
    "text": ["many"] * CLASSES,
}
ABSURD = (math.nan, math.inf, -math.inf, 1e300, -1e300, 1e-300, 10**30, -(10**30), "text")


def check_label_mechanism(mechanism: LabelMechanism) -> None:
    """Hold a mechanism to what the others keep to; `AssertionError` says what it does not.

    Its clients are of three kinds: give it one that finds three clusters, or as many as it thinks fit (`number=0`).
    """
    counts = population()
    _check_settings(mechanism, counts)
    found = mechanism.group({client: row.copy() for client, row in counts.items()}, KEY)
    _check_grouping(found, counts)
    _check_repeatable(mechanism, counts, found)
    if isinstance(mechanism, TwoHalves):
        kinds = "The battery's clients are of three kinds: give it a mechanism with `number` 3 or 0"
        assert mechanism.number in (0, 3), f"{kinds}, not {mechanism.number}."
        _check_lies(mechanism, counts, found)
        check_halves(mechanism, counts, KEY, found)
    if isinstance(mechanism, Exposing):
        _check_exposure(mechanism, counts)


def population() -> dict[int, NDArray[np.int64]]:
    """Clients of three kinds, each with two labels of its own and few of the others."""
    rng = np.random.default_rng(20260)
    kinds = [kind for kind, size in enumerate(SIZES) for _ in range(size)]
    counts = {}
    for client, kind in enumerate(rng.permutation(kinds).tolist()):
        shares = np.full(CLASSES, 0.01)
        shares[2 * kind : 2 * kind + 2] = 0.48
        counts[client] = rng.multinomial(int(rng.integers(150, 400)), shares)
    return counts


def _check_settings(mechanism: Any, counts: Mapping[int, NDArray[np.int64]]) -> None:
    """A setting is either refused by name or can be worked with."""
    made = getattr(mechanism, "__dataclass_params__", None)
    if made is None:
        return
    assert made.frozen, "A mechanism is its settings and nothing else: make it a frozen dataclass."
    _loaded(mechanism)
    for name, value in _absurd(mechanism):
        refusal = ""
        try:
            _loaded(dataclasses.replace(mechanism, **{name: value})).group(counts, KEY)
        except UserError as error:
            refusal = str(error)
        except Exception as error:
            raise AssertionError(
                f"`{name}` = {value!r} must be refused with a `UserError` or work; it gave {error!r}."
            ) from error
        assert not refusal or name in refusal, f"`{name}` = {value!r} is refused without being named: {refusal}"


def _absurd(mechanism: Any) -> Iterator[tuple[str, Any]]:
    hints = get_type_hints(type(mechanism), include_extras=True)
    for field in dataclasses.fields(mechanism):
        hint = hints.get(field.name, Any)
        plain = next(iter(get_args(hint)), hint)
        if plain in (int, float):
            yield from ((field.name, value) for value in ABSURD)


def _loaded(mechanism: LabelMechanism) -> LabelMechanism:
    return load({"clusters": mechanism}).clusters


def _check_grouping(found: Grouping, counts: Mapping[int, NDArray[np.int64]]) -> None:
    assert set(found.cluster_of) == set(counts), "Every client must be in a cluster, and nobody else."
    ids = set(found.cluster_of.values())
    assert all(isinstance(cluster, int) for cluster in ids), "A cluster's id must be an int."
    assert ids == set(range(len(ids))), f"Clusters must be numbered from 0 without a gap, got {sorted(ids)}."
    try:
        written = json.dumps(dict(found.notes))
    except TypeError as error:
        raise AssertionError(f"The notes are written to a run's record as JSON, and cannot be: {error}.") from error
    for client, row in counts.items():
        assert json.dumps(row.tolist()) not in written, f"The notes hold the label counts of client {client}."


def _check_repeatable(mechanism: LabelMechanism, counts: Mapping[int, NDArray[np.int64]], found: Grouping) -> None:
    untouched = {client: row.copy() for client, row in counts.items()}
    again = mechanism.group(untouched, KEY)
    assert again == found, "The same clients and the same key must give the same clusters and notes."
    unchanged = all(np.array_equal(untouched[client], row) for client, row in counts.items())
    assert unchanged, "The clients' label counts were changed."
    backwards = mechanism.group(dict(sorted(counts.items(), reverse=True)), KEY)
    assert backwards.cluster_of == found.cluster_of, "The order in which clients are named must not matter."


def _check_lies(mechanism: LabelMechanism, counts: Mapping[int, NDArray[np.int64]], honest: Grouping) -> None:
    """Whoever's counts are no counts shares one cluster with all the like, and changes nobody else's."""
    liar = len(counts)
    for lie, row in LIES.items():
        found = mechanism.group({**counts, liar: np.array(row)}, KEY)
        others = {client: cluster for client, cluster in found.cluster_of.items() if client != liar}
        assert others == honest.cluster_of, f"A client whose counts are {lie} changes the clusters of others."
        unknown = found.notes.get("unknown_cluster")
        assert found.cluster_of.get(liar) == unknown, f"A client whose counts are {lie} must be in the unknown cluster."
        assert unknown not in others.values(), "Nobody who answered may be in the unknown cluster."
        assert found.notes.get("refused", {}).get(liar), (
            f"There must be a reason why counts that are {lie} are refused."
        )
    nothing, negative = np.zeros(CLASSES, np.int64), np.full(CLASSES, -1)
    silent = mechanism.group({**counts, liar: nothing, liar + 1: negative}, KEY)
    shared = silent.cluster_of[liar] == silent.cluster_of[liar + 1]
    assert shared, "It must not pay to refuse: all who do share one cluster."


def _check_exposure(mechanism: Exposing, counts: Mapping[int, NDArray[np.int64]]) -> None:
    table = np.array(list(counts.values()))
    found = mechanism.exposure(table, KEY)
    assert found.sentence, "An exposure needs a sentence for whoever has to decide."
    assert found.findings, "An exposure needs a finding, be it that nothing is sent."
    assert all(len(groups) == len(table) for groups in found.groups), "An exposure has a cluster for each client."
    for finding in found.findings:
        shares = [share for share in (finding.distance, finding.top, finding.exact) if share is not None]
        assert all(0 <= share <= 1 for share in shares), f"Shares lie between 0 and 1; not so in {finding}."
