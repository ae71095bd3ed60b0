"""How fast a plan is made, by metadata alone, and how that grows with the number of clients."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from afbs import registry
from afbs.engine.plan import follow, plan
from afbs.latency.always import Always
from afbs.latency.uniform import Uniform
from afbs.transports.simulated import VirtualTime
from afbs.types import Arrived, ClientInfo, Training


def measure(largest: int, arrivals: int) -> dict[str, Any]:
    """Arrivals a second (of this process's own time) for every algorithm at 600 clients, and FedBuff's growth."""
    found: dict[str, Any] = {name: {"600": rate(name, 600, 120, arrivals)} for name in registry.names("algorithm")}
    clients = 1000
    while clients <= largest:
        for name in ("fedbuff", "afbs"):
            found[name][str(clients)] = rate(name, clients, clients // 10, arrivals)
        clients *= 10
    found["peak_gb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return found


def rate(algorithm: str, clients: int, in_flight: int, arrivals: int) -> float:
    sizes = np.random.default_rng(0).lognormal(4, 1, clients).astype(int) + 1
    infos = [ClientInfo(client, int(size), client % 3) for client, size in enumerate(sizes)]
    chosen = registry.find("algorithm", algorithm)()
    connection = VirtualTime(infos, Uniform(), Always(), seed=1)
    settings: Any = {"in_flight": in_flight, "horizon": 1e15, "seed": 1, "rate": Training().rate}
    began, seen = 0.0, 0
    for event in follow(plan(chosen, infos, connection.reachable, **settings), connection):
        if type(event) is Arrived:
            began = began or time.process_time()
            seen += 1
            if seen == arrivals:
                break
    return arrivals / (time.process_time() - began)


def rows(found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for name, rates in found.items():
        if isinstance(rates, dict):
            text = ", ".join(f"{arrivals / 1000:.0f}k/s at {int(clients):,}" for clients, arrivals in rates.items())
            yield f"{name}: arrivals planned, by clients", text


def plot(found: dict[str, Any], path: Path) -> None:
    """Microseconds an arrival against the number of clients: flat is what it should be."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(5, 3), layout="constrained")
    for name, marker in (("fedbuff", "o"), ("afbs", "s")):
        clients = [int(number) for number in found[name]]
        axes.plot(clients, [1e6 / found[name][str(number)] for number in clients], marker=marker, label=name)
    axes.set(xscale="log", xlabel="clients (a tenth of them in flight)", ylabel="µs an arrival", ylim=(0, None))
    axes.legend(frameon=False)
    figure.savefig(path)
    plt.close(figure)
