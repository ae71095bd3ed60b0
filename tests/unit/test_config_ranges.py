"""Settings beyond any use are refused at once, with their range; so are files that only look like configurations."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from afbs.config import load
from afbs.interfaces import Latency
from afbs.types import UserError


@pytest.mark.parametrize(
    ("path", "value", "complaint"),
    [
        (
            "run.seed",
            10**5000,
            "must be less than or equal to 9223372036854775807, got a number of about 5,001 digits.",
        ),
        ("run.seed", 2**63, "must be less than or equal to 9223372036854775807, got a number of about 20 digits."),
        ("run.virtual_days", 1e300, "must be less than or equal to 36525, got 1e+300."),
        ("executor.workers", 10**9, "must be less than or equal to 4096, got 1000000000."),
        ("run.device", "meta", "= 'meta' holds no numbers to train with. 'cpu' would do."),
        ("run.device", "meta:0", "holds no numbers"),
        ("evaluation.points", 1_000_000, "must be less than or equal to 100000, got 1000000."),
        ("training.batch_size", 2**31 + 1, "must be less than or equal to 2147483648, got 2147483649."),
        ("training.epochs", 10**9, "must be less than or equal to 1000000, got 1000000000."),
        ("partition.volume_sigma", 1000.0, "must be less than or equal to 50, got 1000.0."),
        (
            "partition.clients",
            10**30,
            "must not be beyond 9223372036854775807 (2^63 - 1), got a number of about 31 digits.",
        ),
        ("algorithm.buffer_size", 10**30, "must not be beyond 9223372036854775807"),
    ],
    ids=lambda value: value if isinstance(value, str) and "." in value[:12] else "",
)
def test_what_is_beyond_any_use_is_refused_with_its_range(path: str, value: Any, complaint: str) -> None:
    with pytest.raises(UserError) as refused:
        load({}, {path: value})
    assert str(refused.value).startswith(f"`{path}` ")
    assert complaint in str(refused.value)


@pytest.mark.parametrize("value", [[10**5000], 2**63, np.zeros(99), 3 + 4j, [None]], ids=range(5))
def test_a_model_takes_only_settings_that_its_file_can_hold(value: Any) -> None:
    with pytest.raises(UserError, match=r"`model.hidden` must be a number, text, or a list or table of them, .* got "):
        load({"model": {"name": "mlp", "hidden": value}})


def written(folder: Path, content: bytes) -> Path:
    path = folder / "own.toml"
    path.write_bytes(content)
    return path


def test_a_configuration_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    assert load(written(tmp_path, b"\xef\xbb\xbf[run]\nseed = 7\n")).run.seed == 7


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (
            b"[run]\nseed = " + b"7" * 5000,
            "has a whole number of thousands of digits; the largest allowed is 2^63 - 1.",
        ),
        (b"a = " + b"[" * 9999, "its brackets are nested too deeply."),
        (b"[run\n", "is not TOML: "),
        (b"\xff\xfe[\x00", "cannot be read: "),
    ],
    ids=["digits", "depth", "syntax", "encoding"],
)
def test_a_file_that_is_no_configuration_is_named(tmp_path: Path, content: bytes, complaint: str) -> None:
    path = written(tmp_path, content)
    with pytest.raises(UserError) as refused:
        load(path)
    assert str(refused.value).startswith(str(path))
    assert complaint in str(refused.value)


@pytest.mark.parametrize("path", ["", "a\0b", "x" * 300, "~nobody_at_all/own.toml", "/dev/null/own.toml"], ids=repr)
def test_a_path_that_can_be_no_file_is_refused(path: str) -> None:
    with pytest.raises(UserError):
        load(path)


def test_a_setting_that_must_be_given_says_so_and_no_more() -> None:
    with pytest.raises(UserError) as refused:
        load({"data": {"name": "npz"}})
    assert str(refused.value) == "`data.path` must be given."


def test_arrays_that_were_made_in_python_must_be_given_again() -> None:
    with pytest.raises(UserError, match=r"`data\.train_x` must be given\. It was made in Python, and must be given to"):
        load({"data": {"name": "afbs.data:Arrays"}})
    samples, labels = np.zeros((10, 2)), np.arange(10) % 2
    assert load({}, {"data": (samples, labels)}).tables["data"]["name"] == "afbs.data:Arrays"


class Unsaid(Latency):
    def duration(self, client: Any, start: float, key: Any, work: float = 1.0) -> float:
        return 1.0


@dataclass(frozen=True)
class Missaid(Latency):
    per: Any = "round"

    def duration(self, client: Any, start: float, key: Any, work: float = 1.0) -> float:
        return 1.0


@pytest.mark.parametrize(
    ("latency", "complaint"),
    [
        (Unsaid, "the class Unsaid must say how often `duration` is asked, and does not: `per` = 'client'"),
        (Unsaid(), "the class Unsaid must say"),
        ({"name": "test_config_ranges:Unsaid"}, "the class Unsaid must say"),
        (Missaid(), "the class Missaid must say how often `duration` is asked, got 'round'"),
    ],
)
def test_a_latency_must_say_how_often_it_is_asked(latency: Any, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        load({}, {"latency": latency})


@dataclass(frozen=True)
class Picky(Latency):
    seconds: float = 1.0
    per: Any = "job"

    def __post_init__(self) -> None:
        if self.seconds > 9:
            raise ValueError("nobody waits that long")

    def duration(self, client: Any, start: float, key: Any, work: float = 1.0) -> float:
        return self.seconds


def test_what_a_users_own_class_refuses_is_a_sentence() -> None:
    with pytest.raises(UserError, match=r"`\[latency\]`: Picky does not take these settings: nobody waits that long"):
        load({"latency": {"name": "test_config_ranges:Picky", "seconds": 10.0}})
