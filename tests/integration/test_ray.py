"""The executor `ray`, on real clusters without a network."""

from __future__ import annotations

from pathlib import Path

import pytest

from on_ray import ALGORITHMS, alone


def test_ray_keeps_the_promises_of_an_executor(tmp_path: Path) -> None:
    assert alone("contract", tmp_path) == "kept"


@pytest.mark.long
def test_two_nodes_end_in_the_same_bytes_as_processes_even_when_a_worker_is_killed(tmp_path: Path) -> None:
    found = alone("equality", tmp_path)
    assert set(found) == set(ALGORITHMS)
    for digests in found.values():
        assert digests["ray"] == digests["processes"]
        assert digests["killed"] == digests["processes"]


@pytest.mark.long
def test_a_node_that_is_lost_is_made_up_for_by_the_other_though_nothing_takes_its_place(tmp_path: Path) -> None:
    there, here = alone("node_lost", tmp_path)
    assert there == here


@pytest.mark.long
def test_when_the_head_is_lost_the_run_says_so_and_goes_on_from_its_folder(tmp_path: Path) -> None:
    found = alone("head_lost", tmp_path)
    assert "The Ray cluster cannot be reached any more" in found["said"]
    assert found["same"]


@pytest.mark.long
def test_a_sweep_on_ray_finds_what_one_here_finds(tmp_path: Path) -> None:
    found = alone("sweep", tmp_path)
    assert found["ray"] == found["local"]
    assert len(found["local"]) == 4
