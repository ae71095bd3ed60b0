"""The native kernels against torch: whole jobs, single steps, and the fused layer; and against what the core could do.

Everything is measured by processor time and in turn, in one thread of one process, so that ratios hold on a busy
machine too.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from time import process_time
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from afbs.clients.trainer import Trainer
from afbs.clients.workload import Workload
from afbs.interfaces import Plain
from afbs.native.library import best, kernels
from afbs.nn import ConvPoolReLU
from afbs.population import populate
from afbs.types import ModelChoice, Order, Training
from benchmarks import workload
from benchmarks.throughput import ratio

FLOPS = 3.2e6
"""Of a sample's gradient of LeNet-5 on 3 × 32 × 32 pixels, by dense arithmetic; conv1's input needs none."""
LAYERS = [
    (3, 6, 5, 0, 32, False),
    (6, 16, 5, 0, 14, True),
    (1, 32, 5, 2, 28, False),
    (32, 64, 5, 2, 14, True),
    (3, 32, 3, 1, 32, False),
    (32, 64, 3, 1, 16, True),
]
"""Channels, outputs, kernel, margin, height and width, and whether the images need a gradient."""


def measure(rounds: int) -> dict[str, Any]:
    if best() is None:
        return {"level": None}
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return {
            "level": best(),
            "jobs": _jobs(rounds),
            "steps": {str(batch): _steps(batch, 4 * rounds) for batch in (64, 32, 19, 5)},
            "layers": [
                {"layer": layer, "batch": batch, **_layer(*layer, batch, 4 * rounds)}
                for layer in LAYERS
                for batch in (64, 16)
            ],
        }
    finally:
        torch.set_num_threads(threads)


def rows(found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    if found["level"] is None:
        yield "native kernels", "not built"
        return
    jobs = found["jobs"]
    yield f"whole jobs: samples/s, native ({found['level']}) ÷ torch", ratio(jobs["native"], jobs["torch"])
    yield "whole jobs: samples/s/core, native", f"{np.median(jobs['native']):,.0f}"
    yield "fused multiply-adds in registers, GFLOP/s", f"{np.median(jobs['peak']) / 1e9:.0f}"
    share = [rate * FLOPS / peak for rate, peak in zip(jobs["native"], jobs["peak"], strict=True)]
    yield (
        "whole jobs: samples/s/core ÷ (peak / 3.2 MFLOP)",
        f"{np.median(share):.2f} ({min(share):.2f} to {max(share):.2f})",
    )
    for batch, rates in found["steps"].items():
        yield f"one step of {batch}: native ÷ torch", ratio(rates["native"], rates["torch"])
    for case in found["layers"]:
        channels, outputs, kernel, margin, side, _ = case["layer"]
        what = f"{channels} → {outputs}, {kernel} × {kernel}, margin {margin}, {side} × {side}, batch {case['batch']}"
        yield f"ConvPoolReLU ÷ three layers: {what}", ratio(case["native"], case["torch"])


def peak() -> float:
    """Flops a second of the best level's fused multiply-adds, without memory."""
    result = ctypes.c_float(0.99)
    began = process_time()
    flops: int = kernels().peak(3_000_000, ctypes.byref(result))
    return flops / (process_time() - began)


def _trainers(batch: int | None = None) -> tuple[dict[str, Trainer], int]:
    data = workload.arrays()
    population = populate(workload.config("fedbuff", data))
    clients = population.split.indices if batch is None else [np.arange(batch)]
    training = Training() if batch is None else Training(epochs=20, batch_size=batch)
    made = {
        kernel: Trainer(
            Workload(population.dataset, clients, ModelChoice("lenet5", {}, kernel), training, Plain(), "delta", 1)
        )
        for kernel in ("native", "torch")
    }
    return made, len(clients)


def _jobs(rounds: int) -> dict[str, list[float]]:
    """Samples a second over log-normal clients, each round over other ones."""
    trainers, clients = _trainers()
    rng = np.random.default_rng(0)
    found: dict[str, list[float]] = {"native": [], "torch": [], "peak": []}
    for _ in range(rounds):
        found["peak"].append(peak())
        chosen = rng.choice(clients, 40)
        spent, samples = dict.fromkeys(trainers, 0.0), dict.fromkeys(trainers, 0)
        for client in chosen:
            for kernel, trainer in trainers.items():
                seconds, done = _job(trainer, int(client))
                spent[kernel] += seconds
                samples[kernel] += done
        for kernel in trainers:
            found[kernel].append(samples[kernel] / spent[kernel])
    return found


def _steps(batch: int, rounds: int) -> dict[str, list[float]]:
    trainers, _ = _trainers(batch)
    found: dict[str, list[float]] = {kernel: [] for kernel in trainers}
    for _ in range(rounds):
        for kernel, trainer in trainers.items():
            seconds, samples = _job(trainer, 0)
            found[kernel].append(samples / seconds)
    return found


def _job(trainer: Trainer, client: int) -> tuple[float, int]:
    base = trainer.initial()
    out = np.empty_like(base)
    began = process_time()
    trained = trainer.train(0, Order(client, 0, 0, 0, 0.0, 0.01), base, out)
    return process_time() - began, trained.samples


def _layer(
    channels: int, outputs: int, kernel: int, margin: int, side: int, learns: bool, batch: int, rounds: int
) -> dict[str, list[float]]:
    """Batches a second, forward and backward."""
    x = torch.randn(batch, channels, side, side, requires_grad=learns)
    fused = ConvPoolReLU(channels, outputs, kernel, padding=margin)
    plain = nn.Sequential(nn.Conv2d(channels, outputs, kernel, padding=margin), nn.MaxPool2d(2), nn.ReLU())
    gradient = torch.randn_like(fused(x))
    found: dict[str, list[float]] = {"native": [], "torch": []}
    for _ in range(rounds):
        found["native"].append(_rate(lambda: _pass(fused, x, gradient)))
        found["torch"].append(_rate(lambda: _pass(plain, x, gradient)))
    return found


def _pass(layer: nn.Module, x: Tensor, gradient: Tensor) -> None:
    layer.zero_grad()
    x.grad = None
    layer(x).backward(gradient)


def _rate(work: Callable[[], None]) -> float:
    work()
    began = process_time()
    for _ in range(3):
        work()
    return 3 / (process_time() - began)
