"""One node of four is a minute slower: how soon AFBS and FedAvg reach the target, on a real Flower deployment here.

    python -m benchmarks.fleet [--slow 60] [--target 0.95] [--folder slow-node]

Takes about ten minutes, nearly all of it waiting for the slow node.
"""

from __future__ import annotations

import argparse
import subprocess
from collections.abc import Mapping
from pathlib import Path

import afbs
from afbs.apps.cluster import CONNECTION, Cluster
from afbs.apps.project import write_project

_NODES = 4
_ARMS: Mapping[str, tuple[str, ...]] = {
    "afbs": ("algorithm.buffer_size=2", "run.versions=24"),
    "fedavg": ("run.versions=8",),
}
_CLIENT = """
import os
import time
from pathlib import Path

from afbs.apps import client_app
from slow.dataset import load


def train(network, data, lesson):
    import torch

    time.sleep(float(os.environ.get("SLOW_SECONDS", "0")))
    optimizer = torch.optim.SGD(network.parameters(), lr=lesson.rate)
    for _ in range(lesson.epochs):
        for x, y in torch.utils.data.DataLoader(data, lesson.batch_size, shuffle=True):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(network(x), y).backward()
            optimizer.step()
    return {"samples": lesson.epochs * len(data)}


app = client_app(Path(__file__).parent / "afbs.toml", load=load, train=train)
"""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fleet", description=__doc__)
    parser.add_argument("--slow", type=float, default=60.0, help="seconds by which one node is slower")
    parser.add_argument("--target", type=float, default=0.95, help="the accuracy to reach")
    parser.add_argument(
        "--folder", type=Path, default=Path("slow-node"), help="a new folder for the fleet and its runs"
    )
    options = parser.parse_args()
    app, cluster = options.folder.absolute() / "slow", Cluster(options.folder / "fleet")
    write_project(app)
    (app / "slow" / "client_app.py").write_text(_CLIENT)
    try:
        cluster.up(_NODES - 1, options.folder / "runs", warm=True)
        cluster.register([_NODES - 1])
        cluster.add_node(_NODES - 1, warm=True, settings={"SLOW_SECONDS": str(options.slow)})
        times = {name: _time_to(name, options.target, app, cluster, options.folder.absolute()) for name in _ARMS}
    finally:
        cluster.down()
    for name, (seconds, best) in times.items():
        reached = "never" if seconds is None else f"after {seconds:.0f} s"
        print(f"{name}: {options.target:.0%} {reached}; best {best:.1%}")
    afbs_time, fedavg_time = times["afbs"][0], times["fedavg"][0]
    if afbs_time and fedavg_time:
        print(f"FedAvg ÷ AFBS: {fedavg_time / afbs_time:.1f}")


def _time_to(name: str, target: float, app: Path, cluster: Cluster, place: Path) -> tuple[float | None, float]:
    settings = [f"algorithm.name={name}", f"evaluation.target={target}", "transport.upload=eager", *_ARMS[name]]
    told = f'set="{" ".join(settings)}" folder="{place / name}"'
    command = ["flwr", "run", str(app), CONNECTION, "--stream", "--run-config", told]
    subprocess.run(command, env=cluster.environment(), check=True)
    result = afbs.load(place / name)
    return result.time_to(target), result.best


if __name__ == "__main__":
    main()
