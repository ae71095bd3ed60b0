"""Durations and presences that could never end are refused before anything runs."""

from __future__ import annotations

import math
from typing import Any

import pytest

from afbs.config import load
from afbs.seeds import Key
from afbs.types import ClientInfo, UserError

INF = math.inf


@pytest.mark.parametrize(
    ("part", "settings", "complaint"),
    [
        (
            "latency",
            {"name": "lognormal", "sigma": 1000.0},
            "`latency.sigma` must be less than or equal to 20, got 1000",
        ),
        ("latency", {"name": "lognormal", "sigma": INF}, "`latency.sigma` must be less than or equal to 20, got inf"),
        ("latency", {"name": "lognormal", "median": INF}, "`latency.median` must be less than or equal to 1000000000"),
        (
            "latency",
            {"name": "lognormal", "median": 1e-300},
            "`latency.median` must be greater than or equal to 0.000001",
        ),
        ("latency", {"name": "long_tailed", "shortest": 1e-300}, "`latency.shortest` must be greater than or equal to"),
        ("latency", {"name": "long_tailed", "longest": INF, "tail": 0.01}, "`latency.tail` must be at least 0.1 where"),
        ("latency", {"name": "proportional", "seconds_per_example": 1e-300}, "`latency.seconds_per_example` must be"),
        ("latency", {"name": "proportional", "network_sigma": 900.0}, "`latency.network_sigma` must be less than"),
        ("latency", {"name": "uniform", "high": 10**30}, "`latency.high` must be less than or equal to 1000000000"),
        ("latency", {"name": "trace", "path": "x.csv", "period": 1e-9}, "`latency.period` must be 0 (the file is not"),
        ("availability", {"name": "trace", "path": "x.csv", "period": 1e-9}, "`availability.period` must be 0 (the"),
        (
            "availability",
            {"name": "windows", "period": 1e-9},
            "`availability.period` must be greater than or equal to 1",
        ),
        ("availability", {"name": "windows", "period": INF}, "`availability.period` must be less than or equal to"),
        ("availability", {"name": "windows", "share": 1e-300}, "`availability.share` must be greater than or equal"),
        ("availability", {"name": "dropouts", "away": math.nan}, "`availability.away` must be"),
        ("availability", {"name": "departures", "leave": math.nan}, "`availability.leave` must be"),
    ],
)
def test_what_would_never_end_is_refused_with_its_range(part: str, settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UserError) as refused:
        load({part: settings})
    assert complaint in str(refused.value)


@pytest.mark.parametrize(
    "settings",
    [
        {"name": "lognormal", "median": 1e9, "sigma": 20.0},
        {"name": "lognormal", "median": 1e-6, "sigma": 20.0},
        {"name": "long_tailed", "shortest": 1e9, "longest": INF, "tail": 0.1},
        {"name": "long_tailed", "shortest": 1e-6, "longest": 1e9, "tail": 5e-324},
        {
            "name": "proportional",
            "seconds_per_example": 1e9,
            "speed_sigma": 20.0,
            "network": 1e9,
            "network_sigma": 20.0,
        },
        {"name": "uniform", "low": 10**9, "high": 10**9},
    ],
)
def test_every_duration_within_the_ranges_is_a_number_that_moves_the_clock(settings: dict[str, Any]) -> None:
    latency = load({"latency": settings}).latency
    century = 36_525 * 86_400.0
    for job in range(500):
        duration = latency.duration(ClientInfo(3, 10**9), century, Key.root(job, "test"))
        assert duration < INF
        assert century + duration > century
