"""`python -m benchmarks [--quick] [NAME ...]` prints ratios and keeps them."""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import cluster, curves, deployment, kernels, loading, overhead, planner, server, throughput, workload

RESULTS = Path(__file__).parent / "results"
NAMES = ("throughput", "kernels", "curves", "overhead", "planner", "server", "loading", "cluster", "deployment")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("only", nargs="*", metavar="NAME", help=f"{', '.join(NAMES)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="a few minutes less, and more noise")
    options = parser.parse_args()
    parts: dict[str, tuple[Any, Callable[[], dict[str, Any]]]] = {
        "throughput": (
            throughput,
            lambda: throughput.measure(1 if options.quick else 3, 0.05 if options.quick else workload.DAYS),
        ),
        "kernels": (kernels, lambda: kernels.measure(2 if options.quick else 8)),
        "curves": (curves, lambda: curves.measure(0.5 if options.quick else 2.0)),
        "overhead": (overhead, lambda: overhead.measure(*((0.05, 0.1) if options.quick else (0.5, 1.0)))),
        "planner": (planner, lambda: planner.measure(10**4 if options.quick else 10**6, 70_000)),
        "server": (server, lambda: server.measure(200 if options.quick else 1000)),
        "loading": (loading, lambda: loading.measure(10 if options.quick else 40)),
        "cluster": (cluster, lambda: cluster.measure(1 if options.quick else 3, 0.15 if options.quick else 0.6)),
        "deployment": (deployment, lambda: deployment.measure(50 if options.quick else 250)),
    }
    RESULTS.mkdir(exist_ok=True)
    machine = f"{platform.processor() or platform.machine()}, Python {platform.python_version()}"
    found = {}
    lines = ["| what | measured |", "|---|---|"]
    for name, (module, measure) in parts.items():
        if options.only and name not in options.only:
            continue
        print(f"{name} …", flush=True)
        found[name] = measure()
        for what, figure in module.rows(found[name]):
            lines.append(f"| {what} | {figure} |")
            print(f"  {what}: {figure}", flush=True)
        (RESULTS / f"{name}.json").write_text(json.dumps({"machine": machine, **found[name]}, indent=2) + "\n")
    if "planner" in found:
        planner.plot(found["planner"], RESULTS / "planner.svg")
    (RESULTS / "latest.json").write_text(json.dumps({"machine": machine, **found}, indent=2) + "\n")
    (RESULTS / "latest.md").write_text(
        "\n".join([f"Measured on {machine}. Ratios travel, times do not.", "", *lines, ""])
    )


if __name__ == "__main__":
    main()
