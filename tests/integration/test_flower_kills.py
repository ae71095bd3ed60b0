"""A server that is killed at any moment goes on from its folder, on the same nodes, and loses nothing acknowledged."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import afbs
from afbs.record.writer import Writer
from afbs.transports.flower.fleet import FlowerFleet
from afbs.transports.flower.wire import Wire
from deployment import ALGORITHMS, Deployment, tables
from grid import MemoryGrid


class KilledError(BaseException):
    """What the tests use for kill -9: nothing is saved after it."""


@pytest.fixture(autouse=True)
def _quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture
def kill_after(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Ends the server at one of its lines, messages or turns, in the middle of whatever it was doing."""
    left = [10**9]

    def counted(original: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                raise KilledError
            result = original(*args, **kwargs)
            left[0] -= 1
            if left[0] < 0:
                raise KilledError
            return result

        return call

    monkeypatch.setattr(Writer, "line", counted(Writer.line))
    monkeypatch.setattr(Writer, "file", counted(Writer.file))
    monkeypatch.setattr(Wire, "ask", counted(Wire.ask))

    def set_left(number: int) -> None:
        left[0] = number

    return set_left


def lives_of(deployment: Deployment, kill_after: Callable[[int], None], rng: random.Random, most: int = 90) -> int:
    """How many lives the run took, each of which ended after at most so many of its lines and messages."""
    for life in range(1, 80):
        kill_after(rng.randrange(1, most))
        try:
            deployment.serve(MemoryGrid(deployment.nodes))
        except KilledError:
            continue
        return life
    raise AssertionError("It never came to its end.")


@pytest.mark.parametrize("kill", range(50))
def test_a_server_killed_at_random_moments_goes_on_from_its_folder(
    kill: int, kill_after: Callable[[int], None], tmp_path: Path
) -> None:
    rng = random.Random(kill)
    algorithm = ALGORITHMS[kill % len(ALGORITHMS)]
    upload = ("eager", "on_demand", "auto")[kill % 3]
    held_out = {"held_out": 0.2} if kill % 2 else {}
    deployment = Deployment(tmp_path, tables(algorithm, transport={"upload": upload}, evaluation=held_out))
    lives = lives_of(deployment, kill_after, rng)
    assert lives > 1
    result = afbs.load(deployment.folder)
    assert result.record.result is not None
    np.testing.assert_array_equal(result.params, deployment.oracle())
    assert afbs.verify(deployment.folder, **deployment.overrides).good
    steps = deployment.recorded("step")
    assert [line["version"] for line in steps] == list(range(1, 9))
    assert not [order for line in steps for order in (*line["rejected"], *line["missing"])]
    arrived = [line["order"] for line in deployment.recorded("arrival")]
    assert len(arrived) == len(set(arrived))
    taken = [order for line in steps for part in ("used", "dropped") for order in line[part]["order"]]
    assert len(taken) == len(set(taken))
    assert set(taken) <= set(arrived)
    assert len(deployment.recorded("resume")) <= lives
    tested = deployment.recorded("clients")
    assert [line["version"] for line in tested][-1:] == ([8] if held_out else []), (
        "whoever was killed, the last model is"
    )


@pytest.mark.parametrize("upload", ["eager", "on_demand", "auto"])
@pytest.mark.parametrize("algorithm", ["afbs", "fedavg", "feddyn"])
def test_whenever_it_is_killed_it_ends_in_the_same_bits_where_arrivals_come_in_the_same_order(
    upload: str, algorithm: str, kill_after: Callable[[int], None], tmp_path: Path
) -> None:
    """One order out at a time: who is killed when changes the clock and nothing else."""
    run = {"in_flight": 1, "versions": 5, "seed": 4}
    chosen = {"buffer_size": 1} if algorithm == "afbs" else {}
    settings = tables(algorithm, transport={"upload": upload}, run=run, algorithm=chosen)
    settings["training"] = {**settings["training"], "lr_decay_unit": "none"}
    whole, broken = (Deployment(tmp_path / name, settings) for name in ("whole", "broken"))
    for each in (whole, broken):
        each.place.mkdir()
    kill_after(10**9)
    expected = whole.serve()
    assert lives_of(broken, kill_after, random.Random(7), most=25) > 3
    steps = [[(line["version"], line["used"]["order"]) for line in each.recorded("step")] for each in (whole, broken)]
    assert steps[0] == steps[1]
    np.testing.assert_array_equal(expected.params, afbs.load(broken.folder).params)


def test_what_auto_measured_outlives_the_server(kill_after: Callable[[int], None], tmp_path: Path) -> None:
    deployment = Deployment(tmp_path, tables("fedbuff", transport={"upload": "auto"}))
    kill_after(150)
    with pytest.raises(KilledError):
        deployment.serve(MemoryGrid(deployment.nodes))
    measured = deployment.recorded("fleet")[-1]["measured"]
    assert measured["asked"] > 8
    kill_after(10**9)
    recalled: list[dict[str, Any]] = []

    def meet(fleet: FlowerFleet) -> None:
        gather = fleet.gather_again

        def listen(*told: Any) -> None:
            gather(*told)
            recalled.append(fleet.orders.uploads.measured())

        fleet.gather_again = listen  # type: ignore[method-assign, assignment]

    deployment.serve(MemoryGrid(deployment.nodes), meet)
    assert recalled == [measured]


def test_what_was_uploaded_before_a_kill_is_used_though_its_node_is_gone(
    kill_after: Callable[[int], None], tmp_path: Path
) -> None:
    deployment = Deployment(tmp_path, tables("fedbuff", transport={"upload": "eager"}))
    kill_after(10**9)
    seen: list[int] = []
    original = Writer.line

    def line(self: Writer, fields: Any, wall: float | None = None) -> None:
        original(self, fields, wall)
        if fields["event"] == "arrival":
            seen.append(fields["client"])
            if len(seen) == 2:
                raise KilledError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Writer, "line", line)
        with pytest.raises(KilledError):
            deployment.serve(MemoryGrid(deployment.nodes))
    first = [line["order"] for line in deployment.recorded("arrival")]
    for client in seen:
        deployment.nodes.kill(100 + client)
    result = deployment.serve(MemoryGrid(deployment.nodes))
    steps = deployment.recorded("step")
    assert set(first) <= set(steps[0]["used"]["order"])
    np.testing.assert_array_equal(result.params, deployment.oracle())


def test_a_client_that_joined_just_before_a_kill_is_told_of_afterwards(
    kill_after: Callable[[int], None], tmp_path: Path
) -> None:
    deployment = Deployment(tmp_path, tables("fedbuff", transport={"clients": 4}, run={"versions": 15}), clients=4)
    deployment.nodes.at(20.0, lambda: deployment.nodes.add(deployment.node(5)))
    kill_after(10**9)
    original = Writer.line

    def line(self: Writer, fields: Any, wall: float | None = None) -> None:
        if fields["event"] == "joined":
            raise KilledError
        original(self, fields, wall)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Writer, "line", line)
        with pytest.raises(KilledError):
            deployment.serve(MemoryGrid(deployment.nodes))
    assert not deployment.recorded("joined")
    deployment.serve(MemoryGrid(deployment.nodes))
    assert [line["client"] for line in deployment.recorded("joined")] == [5]
    assert any(line["client"] == 5 for line in deployment.recorded("arrival"))
    assert afbs.verify(deployment.folder, **deployment.overrides).good


def test_settings_that_changed_are_refused_when_it_goes_on(kill_after: Callable[[int], None], tmp_path: Path) -> None:
    deployment = Deployment(tmp_path, tables("fedbuff"))
    kill_after(60)
    with pytest.raises(KilledError):
        deployment.serve(MemoryGrid(deployment.nodes))
    kill_after(10**9)
    deployment.tables["training"]["lr"] = 0.2
    with pytest.raises(afbs.UserError, match="`\\[training\\]` was changed after the run began"):
        deployment.serve(MemoryGrid(deployment.nodes))
