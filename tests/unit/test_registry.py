"""Parts are found by their file's name, or anywhere by `module:Name`."""

from __future__ import annotations

from collections import OrderedDict

import pytest

from afbs import registry
from afbs.algorithms.afbs import AFBS
from afbs.types import UserError

KINDS = ["algorithm", "latency", "availability", "data", "partition", "clusters", "model"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_name_of_a_kind_can_be_found_and_says_what_it_is(kind: str) -> None:
    names = registry.names(kind)
    assert names == sorted(names)
    assert len(names) >= 2
    for name in names:
        assert len(registry.summary(registry.find(kind, name))) > 10


def test_the_eleven_algorithms_are_there() -> None:
    older = ["afbs", "ca2fl", "fedasync", "fedavg", "fedbuff", "feddyn", "fedfa"]
    assert registry.names("algorithm") == sorted([*older, "ace", "fadas", "fedcompass", "fedstaleweight"])


def test_a_file_holds_parts_of_its_own_kind_only() -> None:
    assert "uniform" not in registry.names("availability")
    with pytest.raises(UserError, match="there is no availability called 'uniform'"):
        registry.find("availability", "uniform")


def test_a_path_finds_anything_python_can_import() -> None:
    assert registry.find("algorithm", "afbs.algorithms.afbs:AFBS") is AFBS
    assert registry.find("model", "collections:OrderedDict") is OrderedDict


@pytest.mark.parametrize(
    ("name", "known", "said"),
    [
        ("fedbuf", ["fedavg", "fedbuff"], "; did you mean 'fedbuff'?"),
        ("zzz", ["fedavg", "fedbuff"], "; there are: fedavg, fedbuff."),
    ],
)
def test_a_hint_names_the_nearest_or_all(name: str, known: list[str], said: str) -> None:
    assert registry.hint(name, known) == said


def test_a_private_file_is_no_part() -> None:
    with pytest.raises(UserError):
        registry.find("data", "_own")
