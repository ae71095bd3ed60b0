"""What every peer is given: the data, the clients and the clock. Needs numpy and torch alone.

A peer's script runs in that peer's environment, where afbs is not installed, so nothing here imports it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

EPOCHS, BATCH, LEARNING_RATE = 5, 64, 0.01
BUFFER, IN_FLIGHT = 10, 120
LONGEST = 6000
"""Clients answer after 0 to this many virtual seconds, equally likely, drawn once a client."""


@dataclass(frozen=True)
class Work:
    """Images as uint8 (N, 3, 32, 32), and for each client the indices of its samples."""

    train_x: np.ndarray
    train_y: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray
    clients: list[np.ndarray]
    shift: tuple[float, ...]
    scale: tuple[float, ...]

    @classmethod
    def load(cls, path: Path) -> Work:
        with np.load(path) as file:
            clients = np.split(file["members"], np.cumsum(file["sizes"])[:-1])
            arrays = {name: file[name] for name in ("train_x", "train_y", "test_x", "test_y")}
            return cls(**arrays, clients=clients, shift=tuple(file["shift"]), scale=tuple(file["scale"]))

    def tensors(self, part: str) -> tuple[Tensor, Tensor]:
        """All samples of `train` or `test`, converted and normalised once, and their labels."""
        images, labels = getattr(self, f"{part}_x"), getattr(self, f"{part}_y")
        shift = torch.tensor(self.shift, dtype=torch.float32).view(-1, 1, 1)
        scale = torch.tensor(self.scale, dtype=torch.float32).view(-1, 1, 1)
        return torch.from_numpy(images).float().div_(255).sub_(shift).div_(scale), torch.from_numpy(labels)


class Meter:
    """Counts what a peer does, from inside its own loop, and ends the program when enough rounds are measured.

    With `--wait` each round starts when a line comes in, so that several programs can be measured in turn.
    """

    def __init__(self, peer: str, algorithm: str, version: str, patches: list[str], options: argparse.Namespace):
        self._about = {"peer": peer, "algorithm": algorithm, "version": version, "patches": patches}
        self._options = options
        self._left = options.warm_up
        self._rounds = -1
        self._samples = 0
        self._arrived = 0
        self._start = (0.0, 0.0)
        # What a peer prints goes to the error stream; the results alone go out.
        self._out = os.fdopen(os.dup(1), "w", buffering=1)
        os.dup2(2, 1)
        sys.stdout = sys.stderr

    @property
    def begun(self) -> bool:
        """Whether an update has arrived yet."""
        return self._rounds >= 0 or self._arrived > 0

    def trained(self, samples: int) -> None:
        self._samples += samples

    def arrived(self, updates: int = 1) -> None:
        self._arrived += updates
        self._left -= updates
        if self._left > 0:
            return
        if self._rounds >= 0:
            self._report()
        self._rounds += 1
        if self._rounds == self._options.rounds:
            sys.exit()
        if self._options.wait:
            print(json.dumps({"ready": True}), file=self._out)
            sys.stdin.readline()
        self._left, self._samples, self._arrived = self._options.updates, 0, 0
        self._start = (time.perf_counter(), time.process_time())

    def _report(self) -> None:
        wall = time.perf_counter() - self._start[0]
        cpu = time.process_time() - self._start[1]
        figures: dict[str, Any] = {
            "updates": self._arrived,
            "updates_per_s": self._arrived / wall,
            "samples_per_s": self._samples / wall,
            "updates_per_cpu_s": self._arrived / cpu,
        }
        print(json.dumps({**self._about, **figures}), file=self._out)


def options(description: str | None, updates: int, warm_up: int, **choices: tuple[str, ...]) -> argparse.Namespace:
    """The command line of a peer's script. Each of `choices` is an option whose first value is the default."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("work", type=Path, help="the file that `python -m benchmarks.peers.export` wrote")
    parser.add_argument("--updates", type=int, default=updates, help="client updates of a round")
    parser.add_argument("--warm-up", type=int, default=warm_up, help="client updates before the first round")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--wait", action="store_true", help="start each round when a line comes in")
    for name, values in choices.items():
        parser.add_argument(f"--{name}", choices=values, default=values[0])
    torch.set_num_threads(1)
    torch.manual_seed(0)
    np.random.seed(0)
    return parser.parse_args()


def latencies(clients: int) -> np.ndarray:
    """Whole virtual seconds, one number a client."""
    return np.random.default_rng(0).integers(1, LONGEST + 1, clients)
