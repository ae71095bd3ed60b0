"""Scenes on a Ray cluster of two nodes, played by a process of their own in a network that has nothing but itself.

`python on_ray.py SCENE FOLDER` is run by `alone` below `unshare`: Ray listens on every interface there is.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import afbs
from afbs.record.recorder import Progress
from tiny import settings

ALGORITHMS = ("afbs", "fedasync", "feddyn")


def alone(scene: str, folder: Path) -> Any:
    """What a scene found, by a process without a network."""
    command = ["unshare", "--map-root-user", "--net", sys.executable, __file__, scene, str(folder)]
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    environment = {**os.environ, "PYTHONPATH": path, "RAY_USAGE_STATS_ENABLED": "0"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return json.loads((folder / "found.json").read_text())


def tables(algorithm: str, **changes: Any) -> dict[str, Any]:
    few = {"algorithm__name": algorithm, "run__virtual_days": 0.3, "run__checkpoint_seconds": 0.5, **changes}
    found = settings(**few)
    if algorithm not in ("afbs", "fedbuff"):
        found["algorithm"] = {"name": algorithm}
    return found


@contextmanager
def two_nodes() -> Iterator[str]:
    """Two nodes with one processor each."""
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    cluster.add_node(num_cpus=1)
    try:
        yield cluster.address
    finally:
        ray.shutdown()
        cluster.shutdown()


def pids(name: str) -> list[int]:
    """Processes in this network whose command line has this in it."""
    found = []
    for place in Path("/proc").iterdir():
        if not place.name.isdigit():
            continue
        try:
            same = (place / "ns" / "net").stat().st_ino == Path("/proc/self/ns/net").stat().st_ino
            if same and name.encode() in (place / "cmdline").read_bytes():
                found.append(int(place.name))
        except OSError:
            continue
    return found


def once(version: int, what: Callable[[], None]) -> Callable[[Progress], None]:
    """Does something when a run has come to a version."""
    done: list[bool] = []

    def observe(state: Progress) -> None:
        if state.version >= version and not done:
            done.append(True)
            what()

    return observe


def contract(folder: Path) -> Any:
    from afbs.executors.ray import Ray
    from afbs.testing.executors import check_executor

    check_executor(Ray(workers=2))
    return "kept"


def equality(folder: Path) -> Any:
    """The sha256 of final models: by processes, on two nodes, and on two nodes one of whose workers is killed. And how
    many of the two workers, one on each node, had the server's memory."""
    found: dict[str, dict[str, str]] = {}
    with two_nodes() as address:
        on_ray = {"name": "ray", "address": address, "workers": 2}
        for name in ALGORITHMS:
            killed: list[int] = []
            sharing: list[int] = []

            def look(sharing: list[int] = sharing) -> None:
                maps = [Path(f"/proc/{number}/maps").read_text() for number in pids("ray::Worker")]
                sharing.append(sum("memfd:afbs" in lines for lines in maps))

            def kill(killed: list[int] = killed) -> None:
                killed += pids("ray::Worker")[:1]
                os.kill(killed[0], signal.SIGKILL)

            plain = afbs.run(tables(name), folder=folder / f"{name}-1", executor={"name": "processes"}, progress=False)
            there = afbs.run(
                tables(name), folder=folder / f"{name}-2", executor=on_ray, progress=False, on_progress=once(2, look)
            )
            maimed = afbs.run(
                tables(name), folder=folder / f"{name}-3", executor=on_ray, progress=False, on_progress=once(2, kill)
            )
            digests = [(run.record.result or {})["sha256"] for run in (plain, there, maimed)]
            found[name] = dict(zip(("processes", "ray", "killed"), digests, strict=True))
            assert killed
            assert sharing == [1]
    return found


def node_lost(folder: Path) -> Any:
    """The sha256 of final models: by this process, and on two nodes of which one is lost and not replaced."""

    def kill() -> None:
        (second,) = [
            number for number in pids("raylet/raylet") if b"--head" not in Path(f"/proc/{number}/cmdline").read_bytes()
        ]
        os.kill(second, signal.SIGKILL)

    with two_nodes() as address:
        on_ray = {"name": "ray", "address": address, "workers": 2}
        there = afbs.run(
            tables("afbs"), folder=folder / "ray", executor=on_ray, progress=False, on_progress=once(2, kill)
        )
    here = afbs.run(tables("afbs"), folder=folder / "here", executor={"name": "inline"}, progress=False)
    return [(run.record.result or {})["sha256"] for run in (there, here)]


def head_lost(folder: Path) -> Any:
    """What is said when the head is gone, and the final model of the run that goes on from its folder."""

    def kill() -> None:
        for number in (*pids("gcs_server"), *pids("raylet/raylet")):
            os.kill(number, signal.SIGKILL)
        while pids("afbs.executors._ray_driver"):  # which Ray ends; the run is too short for it to be missed otherwise
            time.sleep(0.1)

    said = "nothing"
    with two_nodes() as address:
        on_ray = {"name": "ray", "address": address, "workers": 2}
        try:
            afbs.run(tables("afbs"), folder=folder / "run", executor=on_ray, progress=False, on_progress=once(5, kill))
        except afbs.RunError as error:
            said = str(error)
    again = afbs.resume(folder / "run", executor={"name": "inline"}, progress=False)
    whole = afbs.run(tables("afbs"), folder=folder / "whole", progress=False)
    return {"said": said, "same": again.params.tobytes() == whole.params.tobytes()}


def sweep(folder: Path) -> Any:
    """The digests of a sweep's models, run here and as tasks on a cluster."""
    found = {}
    for runner in ("local", "ray"):
        with two_nodes() as address:
            os.environ["RAY_ADDRESS"] = address
            grid = {"algorithm.name": ["afbs", "fedavg"], "run.seed": [1, 2]}
            source = {**tables("afbs"), "sweep": {"grid": grid, "runner": runner}}
            outcome = afbs.sweep(source, folder=folder / runner, progress=False)
            assert outcome.failed == {}, outcome.failed
            found[runner] = outcome.cells["sha256"].tolist()
    return found


def _loopback() -> None:
    up, running, loopback, set_flags = 0x1, 0x40, 0x8, 0x8914
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, set_flags, struct.pack("16sh", b"lo", up | running | loopback))


if __name__ == "__main__":
    _loopback()
    place = Path(sys.argv[2])
    (place / "found.json").write_text(json.dumps(globals()[sys.argv[1]](place)))
