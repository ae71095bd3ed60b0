"""What a run writes about labels: the mechanism and what was released; no counts, no secret, in any file."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from afbs import experiment
from afbs.config import load
from afbs.population import populate
from afbs.privacy.keys import derive, simulated
from afbs.seeds import Key

SECRET = "a secret that no file may hold, 2026"
MECHANISMS: dict[str, dict[str, Any]] = {
    "projection": {"secret_env": "AFBS_TEST_SECRET"},
    "dp": {"epsilon": 2.0},
    "secure": {"starts": 2, "steps": 4, "neighbours": 4},
    "plain_for_research": {},
    "none": {},
}


def tables(name: str) -> dict[str, Any]:
    number = {} if name == "none" else {"number": 3}
    return {
        "data": {"name": "digits"},
        "partition": {"name": "clustered", "clients": 24, "clusters": 3},
        "model": {"name": "mlp"},
        "training": {"epochs": 1},
        "latency": {"name": "uniform"},
        "clusters": {"name": name, **number, **MECHANISMS[name]},
        "algorithm": {"name": "afbs", "buffer_size": 4},
        "run": {"in_flight": 8, "virtual_days": 0.5},
        "executor": {"name": "inline"},
        "evaluation": {"points": 2},
    }


@pytest.mark.parametrize("name", MECHANISMS)
def test_no_file_of_a_run_holds_label_counts_or_the_secret(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("AFBS_TEST_SECRET", SECRET)
    caplog.set_level(logging.DEBUG)
    config = load(tables(name))
    result = experiment.run(config, folder=tmp_path / "run")
    population = populate(config)
    files = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    printed = "".join(capfd.readouterr()) + caplog.text
    written = b"\n".join(path.read_bytes() for path in files) + printed.encode()
    assert len(files) >= 4

    key = Key.root(config.run.seed, "clusters")
    secrets = [SECRET.encode(), derive(SECRET.encode(), "projection/10/5"), simulated(key, 0).shared or b""]
    secrets += [simulated(key, client).own for client in range(24)]
    for secret in secrets:
        assert secret not in written
        assert secret.hex().encode() not in written
    squeezed = written.replace(b" ", b"").replace(b"\n", b"")
    for row in population.label_counts().values():
        shares = row / row.sum()
        for numbers in (row.tolist(), [float(count) for count in row], shares.tolist()):
            assert json.dumps(numbers).replace(" ", "").encode() not in squeezed
        for kind in (np.int64, np.int32, np.float64, np.float32):
            assert row.astype(kind).tobytes() not in written
            if row.max() < row.sum():  # a row of one 1 and zeros is in any file of floats
                assert shares.astype(kind).tobytes() not in written or kind in (np.int64, np.int32)

    meta = json.loads((tmp_path / "run" / "meta.json").read_text())
    assert meta["clusters"]["mechanism"] == name
    assert meta["clusters"]["released"]["what"]
    assert result.done


@pytest.mark.parametrize("name", MECHANISMS)
def test_the_run_that_follows_has_the_clusters_that_the_mechanism_found(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AFBS_TEST_SECRET", SECRET)
    config = load(tables(name))
    population = populate(config)
    assert population.grouping is not None
    experiment.run(config, folder=tmp_path / "run")
    clients = json.loads((tmp_path / "run" / "meta.json").read_text())["clients"]
    assert dict(zip(clients["id"], clients["cluster"], strict=True)) == population.grouping.cluster_of
    assert len(set(clients["cluster"])) == (1 if name == "none" else 3)


@pytest.mark.parametrize(("buffer_size", "number"), [(4, 2), (8, 3), (2, 1)])
def test_a_chosen_number_of_clusters_leaves_two_updates_of_a_buffer_to_each(buffer_size: int, number: int) -> None:
    chosen = tables("plain_for_research")
    chosen["clusters"]["number"] = 0
    chosen["algorithm"]["buffer_size"] = buffer_size
    grouping = populate(load(chosen)).grouping
    assert grouping is not None
    assert len(set(grouping.cluster_of.values())) == number


def test_the_secret_is_in_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AFBS_TEST_SECRET", SECRET)
    wrong = tables("projection")
    wrong["clusters"]["number"] = 25
    with pytest.raises(Exception, match="number of clients") as caught:
        populate(load(wrong))
    chain = [caught.value, caught.value.__cause__, caught.value.__context__]
    assert all(SECRET not in repr(error) for error in chain)
