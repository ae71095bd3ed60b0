"""The page as a file: whole, small, quick to make, and calm about bad input."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from afbs.cli import app
from afbs.report import write
from afbs.report.figures import figures
from afbs.report.load import compared
from afbs.report.payload import script_json
from afbs.report.sections import sections
from afbs.types import UserError
from synthetic import write_run, write_small


def text_of(page: Path) -> str:
    """Without the scripts: what a reader without JavaScript sees."""
    return re.sub(r"<script.*?</script>", "", page.read_text(), flags=re.DOTALL)


def data_of(page: Path) -> dict[str, object]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page.read_text(), re.DOTALL)
    assert found is not None
    data: dict[str, object] = json.loads(found[1])
    return data


def test_the_story_is_text_and_needs_no_script(tmp_path: Path) -> None:
    write_small(tmp_path / "runs" / "a", [0.1, 0.9])
    write_small(tmp_path / "runs" / "b", [0.1, 0.5], algorithm="fedbuff")
    text = text_of(write([tmp_path / "runs"], tmp_path / "out" / "report.html"))
    assert "AFBS won: 90.0 % accuracy, 40.0 points above FedBuff." in text
    assert 'title="best">90.00</strong>' in text
    assert "One seed each" in text
    assert "algorithm.name" in text


def test_the_runs_are_dated_to_the_minute_and_a_commit_is_short(tmp_path: Path) -> None:
    write_small(tmp_path / "a", [0.1], meta={"created": "2026-01-02T03:04:05+00:00", "git": "0123456789abcdef"})
    write_small(tmp_path / "b", [0.1], seed=2, meta={"created": "<yesterday>"})
    text = text_of(write([tmp_path], tmp_path / "report.html"))
    assert "<td>2026-01-02 03:04 UTC</td><td>0123456789</td>" in text
    assert "<td>&lt;yesterday&gt;</td><td>–</td>" in text


def test_every_figure_says_in_one_sentence_how_to_read_it(tmp_path: Path) -> None:
    write_small(tmp_path / "a", [0.1])
    for section in sections(compared([tmp_path]).arms):
        assert section.reading.endswith(".")
        assert section.reading.count(". ") == 0
        assert section.reading.count(".") == 1


def test_the_page_refers_to_nothing_outside_of_itself(tmp_path: Path) -> None:
    text = text_of(write([write_run(tmp_path / "run", horizon=30_000)], tmp_path / "report.html"))
    assert not re.findall(r"""(?:src|href)\s*=\s*["']?[^"'#\s]""", text)
    assert "@import" not in text
    assert "url(" not in text


def test_json_in_a_script_cannot_end_the_script() -> None:
    hostile = {"</script><script>alert(1)//": "<!-- & \u2028\u2029"}
    text = script_json(hostile)
    assert not set("<>&\u2028\u2029") & set(text)
    assert json.loads(text) == hostile


def test_many_long_runs_stay_below_ten_megabytes(tmp_path: Path) -> None:
    """Forty runs of 2,000 evaluations and 4,000 clients would be tens of megabytes if nothing were thinned."""
    ids = list(range(4000))
    clients = {"id": ids, "examples": ids, "cluster": [i % 5 for i in ids], "latency": [i / 7 for i in ids]}
    for i in range(40):
        accuracies = [0.5 + 0.4 * ((i * 7919 + j * 104729) % 9973) / 9973 for j in range(2000)]
        write_small(tmp_path / "runs" / f"{i}", accuracies, seed=i, meta={"clients": clients})
    page = write([tmp_path / "runs"], tmp_path / "report.html")
    assert page.stat().st_size < 10_000_000
    runs = data_of(page)["runs"]
    assert isinstance(runs, list)
    assert len(runs) == 40


def test_runs_with_different_metrics_stand_side_by_side(tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "a", horizon=30_000)
    poor = write_small(tmp_path / "runs" / "b", [], algorithm="fedbuff")
    with (poor / "events.jsonl").open("a") as file:
        for version in range(3):
            file.write(json.dumps({"event": "eval", "time": version * 9e3, "version": version, "accuracy": 0.2}) + "\n")
    text = text_of(write([tmp_path / "runs"], tmp_path / "report.html"))
    assert "loss was not recorded" in text


def test_a_killed_run_is_reported_as_such(tmp_path: Path) -> None:
    text = text_of(write([write_run(tmp_path / "run", horizon=30_000, ended=False)], tmp_path / "report.html"))
    assert "unfinished" in text
    assert "1 unreadable line skipped" in text
    assert "did not end" in text


def test_a_run_that_has_only_begun_makes_a_page(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "meta.json").write_text('{"schema": 2}')
    assert "No run has been evaluated yet." in text_of(write([tmp_path / "run"], tmp_path / "report.html"))


def test_names_are_escaped_in_the_text(tmp_path: Path) -> None:
    evil = "<script>alert('x')</script>\"&"
    write_small(tmp_path / "runs" / "a", [0.1], algorithm=evil, config={"data": {"name": evil, evil: evil}})
    write_small(tmp_path / "runs" / "b", [0.1], algorithm="fedbuff")
    page = write([tmp_path / "runs"], tmp_path / "report.html")
    assert "<script>alert" not in page.read_text()
    assert "&lt;script&gt;alert(&#x27;x&#x27;)" in page.read_text()


def test_another_schema_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    write_small(tmp_path / "runs" / "a", [0.1], meta={"schema": 1})
    with pytest.raises(UserError, match="has schema 1"):
        write([tmp_path / "runs"], tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    run = write_small(tmp_path / "run", [0.1])
    (tmp_path / "taken").mkdir()
    with pytest.raises(UserError, match="taken` cannot be written: Is a directory"):
        write([run], tmp_path / "taken")
    with pytest.raises(UserError, match="cannot be made a folder"):
        figures([run], run / "meta.json", "svg")


def test_the_command_writes_where_it_is_told(tmp_path: Path) -> None:
    write_small(tmp_path / "runs" / "a", [0.1])
    page = tmp_path / "deep" / "page.html"
    done = CliRunner().invoke(app, ["report", str(tmp_path / "runs"), "-o", str(page)])
    assert done.exit_code == 0
    assert page.exists()
    done = CliRunner().invoke(app, ["figures", str(tmp_path / "runs"), "-o", str(tmp_path / "f"), "--format", "svg"])
    assert done.exit_code == 0
    assert (tmp_path / "f" / "table.tex").exists()


def test_the_command_says_what_is_wrong_with_a_folder(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["report", str(tmp_path), "-o", str(tmp_path / "report.html")])
    assert isinstance(done.exception, UserError)
    assert "holds no run" in str(done.exception)
