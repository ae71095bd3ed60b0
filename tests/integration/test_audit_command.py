"""`afbs audit` on the command line."""

from __future__ import annotations

import errno
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
        (["--labels", "1000000000x1000000000"], "at most 100,000,000 labels in all, got '1000000000x1000000000'"),
        (["--clusters", "0"], "whole numbers"),
        (["--mechanisms", "projektion"], "did you mean 'projection'"),
        (["--clusters", "1000000000"], r"`partition.clusters` must be at most `partition.clients` \(40\)"),
    ],
)
def test_a_users_mistake_is_explained(config: Path, arguments: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        CliRunner().invoke(app, ["audit", str(config), *arguments], catch_exceptions=False)


def test_a_folder_that_is_a_file_is_explained_before_anything_is_attacked(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "taken").write_text("precious")
    monkeypatch.setattr("afbs.audit.subjects.audited", lambda *given: pytest.fail("the attack began"))
    for folder in (tmp_path / "taken", tmp_path / "taken" / "audit"):
        with pytest.raises(UserError, match=r"The audit cannot be written into .*taken.*`--folder` takes another"):
            CliRunner().invoke(app, ["audit", str(config), "-o", str(folder)], catch_exceptions=False)
    assert (tmp_path / "taken").read_text() == "precious"


@pytest.mark.parametrize("moment", ["mkdir", "write_text"])
def test_a_disk_that_cannot_be_written_is_explained(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    def read_only(path: Path, *given: object, **named: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(Path, moment, read_only)
    arguments = ["audit", str(config), "--labels", "4x50", "--mechanisms", "none", "-o", str(tmp_path / "audit")]
    with pytest.raises(UserError, match=r"cannot be written into .*: Read-only file system\. `--folder`"):
        CliRunner().invoke(app, arguments, catch_exceptions=False)


def test_a_mechanism_of_ones_own_is_audited_by_its_own_method_or_honestly_not_at_all(
    config: Path, tmp_path: Path
) -> None:
    (tmp_path / "own_labels.py").write_text(OWN)
    output = invoke(
        config, "--labels", "4x200", "--set", "clusters.name=own_labels:Silent", "--mechanisms",
        "own_labels:Silent,own_labels:Frank", "-o", tmp_path / "audit",
    )  # fmt: skip
    assert "own_labels:Silent (chosen)" in output
    assert "none known" in output
    assert "No attack on this mechanism is known here, which is no proof that there is none." in output
    assert "what it whispers" in output
    assert "It tells the main label of each client." in output
    quiet, frank = json.loads((tmp_path / "audit" / "audit.json").read_text())[0]["verdicts"]
    assert quiet["membership"] is None
    assert frank["findings"][0]["top"] == 1.0
    assert (tmp_path / "audit" / "audit.png").stat().st_size > 1000


OWN = '''
from dataclasses import dataclass

import numpy as np

from afbs.interfaces import LabelMechanism
from afbs.privacy.exposure import Exposure, groups_of, scored
from afbs.types import Grouping


@dataclass(frozen=True)
class Silent(LabelMechanism):
    """Clusters by the main label."""

    def group(self, counts, key, most=10):
        return Grouping({client: int(np.argmax(row)) for client, row in counts.items()})


@dataclass(frozen=True)
class Frank(Silent):
    """The same, and it says so."""

    def exposure(self, table, key):
        told = np.eye(table.shape[1])[table.argmax(axis=1)]
        return Exposure(
            [groups_of(self.group(dict(enumerate(table)), key))],
            [scored("what it whispers", told, table)],
            None,
            "It tells the main label of each client.",
        )
'''
