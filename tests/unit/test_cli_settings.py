"""`--set TABLE.KEY=VALUE`."""

from __future__ import annotations

from typing import Any

import pytest

from afbs.cli._settings import parsed
from afbs.types import UserError


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("run.seed=3", {"run.seed": 3}),
        (" training.lr = 0.5 ", {"training.lr": 0.5}),
        ("run.seed=1_000", {"run.seed": 1000}),
        ("algorithm.name=fedbuff", {"algorithm.name": "fedbuff"}),
        ("algorithm.name='fedbuff'", {"algorithm.name": "fedbuff"}),
        ("record.labels=true", {"record.labels": True}),
        ("record.labels=False", {"record.labels": False}),
        ("availability.away=inf", {"availability.away": float("inf")}),
        ("data.path=C:\\data=x.npz", {"data.path": "C:\\data=x.npz"}),
        ("data.path=2024-01-01", {"data.path": "2024-01-01"}),
        ("data.path=12:30:00", {"data.path": "12:30:00"}),
        ("data.path=a#b", {"data.path": "a#b"}),
        ("data.path=1\nrun.seed=2", {"data.path": "1\nrun.seed=2"}),
        ("data.path=", {"data.path": ""}),
        ("name=3", {"name": "3"}),
        ("name='three'", {"name": "three"}),
        ("name=", {"name": ""}),
        ("model.sizes=[1, 2]", {"model.sizes": [1, 2]}),
    ],
)
def test_a_setting_is_read_as_toml_or_as_text(given: str, found: dict[str, Any]) -> None:
    assert parsed([given]) == found


@pytest.mark.parametrize("given", ["run.seed", "seed=3", ".seed=3", "run.=3", "=3", "", ".=3", "="])
def test_what_is_no_setting_is_refused_with_an_example(given: str) -> None:
    with pytest.raises(UserError, match=r"`--set` wants TABLE\.KEY=VALUE, as in training\.lr=0\.1, got "):
        parsed([given])


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("7" * 5000, "has a whole number of thousands of digits; the largest allowed is"),
        ("[" * 9999, "nested too deeply"),
    ],
)
def test_a_value_that_cannot_be_read_is_refused(value: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        parsed([f"run.seed={value}"])


def test_the_last_of_two_wins() -> None:
    assert parsed(["run.seed=1", "run.seed=2"]) == {"run.seed": 2}
