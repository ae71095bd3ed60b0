"""Replayed presences, against a clock that looks at every second of them."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afbs.latency.trace import TraceAvailability
from afbs.seeds import Key
from afbs.types import ClientInfo

CLIENT = ClientInfo(3, 100)
KEY = Key.root(0, "test")
Spans = list[tuple[int, int]]

spans = st.lists(
    st.tuples(st.integers(0, 40), st.integers(1, 40)).map(lambda pair: (pair[0], pair[0] + pair[1])),
    min_size=1,
    max_size=6,
)
HORIZON = 200
"""Longer than any file with the longest period after it."""


def trace(spans: Spans, period: float = 0.0) -> TraceAvailability:
    with tempfile.NamedTemporaryFile("w", suffix=".csv", delete=False) as file:
        file.write("client,start,end\n" + "".join(f"3,{start},{end}\n" for start, end in spans))
    there = TraceAvailability(file.name, period)
    there.back(CLIENT, 0.0, KEY)
    Path(file.name).unlink()
    return there


def clock(spans: Spans, period: int) -> list[bool]:
    """For each second whether the client is there during it."""
    there = [False] * HORIZON
    for start, end in spans:
        for second in range(start, end):
            for repeated in range(second % period, HORIZON, period) if period else [second]:
                there[repeated] = True
    return there


@settings(max_examples=300)
@given(spans, st.one_of(st.just(0), st.integers(1, 60)), st.integers(0, 99), st.integers(1, 60))
def test_a_trace_says_what_a_clock_sees(spans: Spans, period: int, start: int, lasting: int) -> None:
    there, replayed = clock(spans, period), trace(spans, period)
    seconds = [second for second in range(start, HORIZON) if there[second]]
    assert replayed.back(CLIENT, start, KEY) == (seconds[0] if seconds else math.inf)
    absent = [second for second in range(start, start + lasting) if not there[second]]
    assert replayed.vanishes(CLIENT, start, start + lasting, KEY) == (absent[0] if absent else None)


def test_a_presence_within_another_does_not_end_it() -> None:
    there = trace([(0, 1000), (500, 600)])
    assert there.back(CLIENT, 700, KEY) == 700
    assert there.vanishes(CLIENT, 700, 1000, KEY) is None


def test_presences_that_touch_are_one() -> None:
    assert trace([(0, 1000), (1000, 2000)]).vanishes(CLIENT, 900, 1100, KEY) is None


def test_a_client_that_is_always_there_keeps_its_job_over_the_end_of_a_period() -> None:
    there = trace([(0, 1000), (1000, 2000)], period=2000)
    assert there.vanishes(CLIENT, 1900, 2100, KEY) is None
    assert there.vanishes(CLIENT, 1900, 1e7, KEY) is None


def test_what_is_beyond_a_period_is_wrapped_to_its_beginning() -> None:
    there = trace([(1500, 2500)], period=2000)
    assert [there.back(CLIENT, time, KEY) for time in (0, 499, 500, 1700, 2600)] == [0, 499, 1500, 1700, 3500]
    assert there.vanishes(CLIENT, 1600, 2500, KEY) is None
    assert there.vanishes(CLIENT, 1600, 2501, KEY) == 2500


@pytest.mark.parametrize("period", [7.3, 86_400.1, 1.7])
def test_a_client_that_is_back_can_work_however_the_clock_rounds(period: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.csv"
        path.write_text(f"client,start,end\n3,{0.3 * period},{0.6 * period}\n")
        there = TraceAvailability(str(path), period)
        time = 0.0
        for _ in range(2000):
            back = there.back(CLIENT, time, KEY)
            assert there.back(CLIENT, back, KEY) == back
            lost = there.vanishes(CLIENT, back, back + period, KEY)
            assert lost is not None
            assert lost == pytest.approx(back + 0.3 * period, rel=1e-9)
            assert there.back(CLIENT, lost, KEY) > lost
            time = lost


def test_a_trace_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_bytes(b"\xef\xbb\xbfclient,start,end\n3,10,20\n")
    assert TraceAvailability(str(path)).back(CLIENT, 0.0, KEY) == 10
