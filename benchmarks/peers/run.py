"""`python -m benchmarks.peers.run --env flgo=PATH --env pfl=PATH ...` measures other simulators and ours in turn.

PATH is an environment with that peer, made as `benchmarks/peers/README.md` says. Every program warms up, then waits;
a round lets each of them work for a while, alone among these, and then runs afbs. So a machine that grows busier or
quieter touches all alike. Ratios are printed with their range over the rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import time
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from afbs import experiment
from afbs.record.recorder import Progress
from benchmarks import workload
from benchmarks.peers import export

PROGRAMS = {
    "flgo fedbuff, as shipped": ("flgo", "run_flgo", "--data=shipped", "--updates=10"),
    "flgo fedbuff, tensors in memory": ("flgo", "run_flgo", "--data=memory"),
    "flsim fedbuff": ("flsim", "run_flsim"),
    "appfl fedbuff": ("appfl", "run_appfl"),
    "flgo fedavg, tensors in memory": ("flgo", "run_flgo", "--data=memory", "--algorithm=fedavg", "--updates=120"),
    "pfl fedavg": ("pfl", "run_pfl"),
}
OURS = ("fedbuff", "afbs")
WORKERS = 2
BUFFER = 10
"""Arrivals of a step, for FedBuff and AFBS alike."""
WARM_STEPS = 2
Figures = dict[str, Any]


class Program:
    """A peer's script that waits for its turns. What it prints besides results goes to `log`."""

    def __init__(self, python: Path, arguments: list[str], log: Path):
        self._log = log
        with log.open("w") as chatter:
            self._process = subprocess.Popen(
                [python, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=chatter,
                text=True,
                env={**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
            )
        self._next()

    def turn(self, last: bool) -> Figures:
        assert self._process.stdin
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        figures = self._next()
        if not last:
            self._next()
        return figures

    def stop(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _next(self) -> Figures:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"It ended before its time:\n{self._log.read_text()[-2000:]}")
        return dict(json.loads(line))


def ours(algorithm: str, data: Any, days: float, runs: Path) -> Figures:
    """One run of afbs, from its second step on: the workers have started and are warm, as the peers are."""
    seen: list[tuple[int, float, float]] = []

    def note(progress: Progress) -> None:
        if progress.version >= WARM_STEPS:
            seen.append((progress.version, time.perf_counter(), _cpu()))

    result = experiment.run(
        workload.config(algorithm, data, days, workers=WORKERS), runs=runs, on_progress=note
    ).record.result
    assert result
    train, evaluate, total = (result["wall"][part] for part in ("train", "evaluate", "total"))
    assert train is not None
    assert evaluate is not None
    assert total is not None
    (first, start, used), (last, end, used_at_end) = seen[0], seen[-1]
    arrived = (last - first) * BUFFER
    share = arrived / result["updates"]["arrived"]
    return {
        "peer": "afbs",
        "algorithm": algorithm,
        "updates": arrived,
        "updates_per_s": arrived / (end - start),
        "samples_per_s": result["jobs"]["samples"] * share / (end - start),
        "updates_per_cpu_s": arrived / (used_at_end - used),
        "workers_busy": (train + evaluate) / (WORKERS * total),
    }


def _cpu() -> float:
    """Processor seconds of this process and its children up to now. Peers are children too, but they are waiting."""
    seconds = sum(os.times()[:2])
    for child in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
        fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
        seconds += sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")
    return seconds


def measure(environments: dict[str, Path], only: list[str], rounds: int, days: float) -> dict[str, list[Figures]]:
    found: defaultdict[str, list[Figures]] = defaultdict(list)
    data = export.data()
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        export.write(folder / "work.npz", data)
        programs: dict[str, Program] = {}
        for label, (peer, script, *settings) in PROGRAMS.items():
            if peer in environments and (not only or any(part in label for part in only)):
                print(f"{label}: warming up …", flush=True)
                python = environments[peer] / "bin" / "python"
                work = str(folder / "work.npz")
                arguments = ["-m", f"benchmarks.peers.{script}", work, "--wait", f"--rounds={rounds}", *settings]
                programs[label] = Program(python, arguments, folder / f"{len(programs)}.log")
                stack.callback(programs[label].stop)
        for turn in range(rounds):
            for label, program in programs.items():
                _tell(found, label, program.turn(turn == rounds - 1))
            for algorithm in OURS:
                _tell(found, f"afbs {algorithm}", ours(algorithm, data, days, folder / "runs"))
    return dict(found)


def _tell(found: defaultdict[str, list[Figures]], label: str, figures: Figures) -> None:
    found[label].append(figures)
    print(json.dumps(figures), flush=True)


def table(found: dict[str, list[Figures]]) -> list[str]:
    """Ours over theirs, as the clock saw it and as it would be on cores that nobody else uses."""
    own = [f"afbs {algorithm}" for algorithm in OURS]
    heads = ["updates/s", "samples/s", "updates/CPU s"]
    heads += [f"{name} ÷ it, {how}" for name in own for how in ("wall", f"CPU × {WORKERS}")]
    lines = [f"| | {' | '.join(heads)} |", "|" + "---|" * (1 + len(heads))]
    for label, rounds in found.items():
        cells = [
            f"{np.median([one[key] for one in rounds]):,.1f}"
            for key in ("updates_per_s", "samples_per_s", "updates_per_cpu_s")
        ]
        for name in own:
            # Our workers each have a core there; a peer has one whatever the machine, and so has no factor.
            factor = 1 if label in own else WORKERS
            cells.append(ratio(found[name], rounds, "updates_per_s"))
            cells.append(ratio(found[name], rounds, "updates_per_cpu_s", factor))
        lines.append(f"| {label} | {' | '.join(cells)} |")
    return lines


def ratio(over: list[Figures], under: list[Figures], key: str, factor: float = 1) -> str:
    """Median over the rounds, and the range."""
    each = [factor * a[key] / b[key] for a, b in zip(over, under, strict=True)]
    return f"{np.median(each):.1f} ({min(each):.1f} to {max(each):.1f})"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers.run", description=__doc__)
    parser.add_argument("--env", action="append", default=[], metavar="PEER=PATH", help="flgo, flsim, appfl, pfl")
    parser.add_argument("--only", action="append", default=[], metavar="PART", help="programs whose name has this part")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--days", type=float, default=0.1, help="virtual days of each of our runs")
    given = parser.parse_args()
    environments = {peer: Path(path) for peer, path in (pair.split("=", 1) for pair in given.env)}
    unknown = environments.keys() - {peer for peer, *_ in PROGRAMS.values()}
    if unknown:
        parser.error(f"--env: no script for {', '.join(sorted(unknown))}")
    print("\n".join(table(measure(environments, given.only, given.rounds, given.days))))


if __name__ == "__main__":
    main()
