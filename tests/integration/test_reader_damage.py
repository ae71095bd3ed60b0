"""Whatever has become of a record, it is read as far as it goes, and a page can be made of it."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afbs.record import reader
from afbs.report.arms import arms_of
from afbs.report.digest import digest
from afbs.report.follow import Cursor, Follower
from afbs.report.page import render
from afbs.report.payload import plain
from afbs.types import UserError
from synthetic import write_run

ODD = st.sampled_from([None, "x", -5, 10**30, 1e400, [], {}, [None], ["x"], {"client": [1]}, True, 0, [[1]], 2.5])


def sample() -> tuple[dict[str, Any], list[dict[str, Any]]]:
    with tempfile.TemporaryDirectory() as root:
        folder = write_run(Path(root) / "run", clients=20, in_flight=10, horizon=15_000, evaluations=4)
        lines = (folder / "events.jsonl").read_text().splitlines()
        return json.loads((folder / "meta.json").read_text()), [json.loads(line) for line in lines]


META, EVENTS = sample()
STEPS = [i for i, event in enumerate(EVENTS) if event["event"] in ("step", "eval", "end")]


@st.composite
def damaged(draw: st.DrawFn) -> tuple[dict[str, Any], list[str]]:
    """Some values of some lines, and of the header, become something else or go missing."""
    events = [dict(event) for event in EVENTS]
    for _ in range(draw(st.integers(1, 6))):
        event = events[draw(st.sampled_from(STEPS) | st.integers(0, len(events) - 1))]
        field = draw(st.sampled_from(sorted(event)))
        inner = event[field]
        if isinstance(inner, dict) and inner and draw(st.booleans()):
            event[field] = {**inner, draw(st.sampled_from(sorted(inner))): draw(ODD)}
        elif draw(st.booleans()):
            event[field] = draw(ODD)
        else:
            event.pop(field)
            event.setdefault("event", "step")
    meta = dict(META)
    if draw(st.booleans()):
        meta[draw(st.sampled_from(sorted(set(meta) - {"schema"})))] = draw(ODD)
    if draw(st.booleans()):
        name = draw(st.sampled_from(["id", "examples", "cluster", "latency"]))
        meta["clients"] = {**META["clients"], name: draw(ODD)}
    return meta, [json.dumps(event) for event in events]


@settings(max_examples=60)
@given(damaged())
def test_a_damaged_record_is_read_shown_and_followed(record: tuple[dict[str, Any], list[str]]) -> None:
    meta, lines = record
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root)
        (folder / "meta.json").write_text(json.dumps(meta))
        (folder / "events.jsonl").write_text("\n".join(lines) + "\n")
        (folder / "result.json").write_text('{"jobs": [], "upload_bytes": "many", "target": {}}')
        run = reader.read(folder)
        assert len(run.updates.client) == run.steps.used.sum() + run.steps.dropped.sum()
        assert "The verdict" in render(arms_of([digest(run)]))
        follower = Follower(folder)
        follower.poll()
        json.dumps(plain(follower.since(Cursor())[0]), allow_nan=False)


@settings(max_examples=60)
@given(st.binary(max_size=400), st.integers(0, 5000))
def test_torn_and_foreign_bytes_never_stop_the_reader(rubbish: bytes, place: int) -> None:
    whole = "\n".join(json.dumps(event) for event in EVENTS).encode()
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root)
        (folder / "meta.json").write_text(json.dumps(META))
        (folder / "events.jsonl").write_bytes(whole[:place] + rubbish + whole[place:])
        assert len(reader.read(folder).evals.time) >= 1


@settings(max_examples=40)
@given(st.binary(max_size=60))
def test_a_header_that_is_no_header_is_refused_in_words(rubbish: bytes) -> None:
    with tempfile.TemporaryDirectory() as root:
        (Path(root) / "meta.json").write_bytes(rubbish)
        with pytest.raises(UserError, match=r"meta\.json|schema"):
            reader.read(root)
