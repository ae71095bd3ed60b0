"""`afbs audit` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from afbs.cli import app
from afbs.types import UserError

CONFIG = """
[data]
name = "digits"
[partition]
name = "clustered"
clients = 40
clusters = 3
[model]
name = "mlp"
[run]
in_flight = 10
[clusters]
name = "dp"
number = 3
epsilon = 4.0
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "clients.toml"
    path.write_text(CONFIG)
    return path


def invoke(*arguments: object) -> str:
    result = CliRunner().invoke(app, ["audit", *map(str, arguments)], env={"COLUMNS": "200"}, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_it_attacks_the_users_own_clients_and_model(config: Path, tmp_path: Path) -> None:
    output = invoke(config, "--mechanisms", "dp,none", "--folder", tmp_path / "audit")
    assert "dp (chosen)" in output
    assert "epsilon 4" in output
    report = json.loads((tmp_path / "audit" / "audit.json").read_text())[0]
    assert (report["clients"], report["classes"], report["clusters"]) == (40, 10, 3)
    assert [verdict["mechanism"] for verdict in report["verdicts"]] == ["dp", "none"]
    assert report["verdicts"][0]["settings"]["epsilon"] == 4.0
    assert "trained the configured model" in report["side_channel"]["note"]
    assert report["side_channel"]["top"] > 0.6


def test_labels_alone_will_do_and_several_numbers_of_clusters(config: Path, tmp_path: Path) -> None:
    invoke(
        config, "--labels", "6x200", "--clusters", "2,3", "--mechanisms", "plain_for_research", "-o", tmp_path / "audit"
    )
    reports = json.loads((tmp_path / "audit" / "audit.json").read_text())
    assert [report["clusters"] for report in reports] == [2, 3]
    assert [report["verdicts"][0]["agreement"] > 0.7 for report in reports] == [True, True]
    assert all(report["classes"] == 6 for report in reports)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--labels", "ten"], "CLASSESxSAMPLES"),
        (["--labels", "10xmany"], "whole numbers"),
        (["--clusters", "0"], "whole numbers"),
        (["--mechanisms", "projektion"], "did you mean 'projection'"),
    ],
)
def test_a_users_mistake_is_explained(config: Path, arguments: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        CliRunner().invoke(app, ["audit", str(config), *arguments], catch_exceptions=False)
