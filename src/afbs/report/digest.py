"""A run reduced to what its figures need: a few kilobytes, whether it had a hundred arrivals or a million.

Curves keep their extremes when they are thinned; everything else is counted into bins, so nothing is left out.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from afbs.record.columns import UNTOLD, Floats, Ints
from afbs.record.recorded import Recorded, setting
from afbs.record.schema import MetaFile

MOST_CLUSTERS = 12
OLDEST = 1_000_000
OTHERS = -1
"""Stands for all clusters that are too rare to have a colour of their own."""


@dataclass(frozen=True)
class Facts:
    """The numbers from which tables and sentences are made. What a run does not tell is nan."""

    best: float
    best_time: float
    final: float
    seconds: float
    steps: int
    scale_mean: float
    scale_sum: float
    arrived: int
    used: int
    dropped: int
    rejected: int
    missing: int
    lost: int
    staleness_all: float
    staleness_used: float
    examples_all: float
    examples_used: float
    delivered: int
    never: int
    clients: int
    test_size: float
    trained: float
    skipped: float
    samples: float
    upload: float
    upload_saved: float
    wall: float


class Reason(NamedTuple):
    """How many updates counted, or were dropped, for one reason."""

    used: bool
    why: str
    number: int


@dataclass(frozen=True)
class Digest:
    """One run, small. `adds` and `server_rate` say whether and by how much the weights of a step move the model."""

    name: str
    folder: str
    algorithm: str
    title: str
    seed: int | None
    state: str
    sha256: str | None
    config: Mapping[str, Any]
    meta: MetaFile
    adds: bool | None
    server_rate: float
    target: float | None
    horizon: float
    facts: Facts
    curve: dict[str, Floats]
    full: tuple[Floats, Floats]
    staleness: tuple[Ints, Ints]
    reasons: tuple[Reason, ...]
    flow: dict[str, Any]
    scale: dict[str, Floats]
    weights: dict[str, Floats]
    clients: dict[str, Any]
    per_class: Floats
    confusion: Ints | None
    clusters: dict[str, Any]
    remarks: tuple[str, ...]


def digest(run: Recorded, points: int = 500, clients: int = 5000, bins: int = 50) -> Digest:
    """`points`, `clients` and `bins` bound what is kept of the curves, of the clients, and of what is counted."""
    order = np.argsort(run.orders.finish)
    finish = run.orders.finish[order][~run.orders.lost[order]]
    keep = thin(run.evals.time, run.evals.accuracy, points)
    curve = {
        "time": run.evals.time[keep],
        "version": run.evals.version[keep].astype(np.float64),
        "updates": np.searchsorted(finish[np.isfinite(finish)], run.evals.time[keep], "right").astype(np.float64),
        "wall": run.evals.wall[keep],
        "accuracy": run.evals.accuracy[keep],
        "loss": run.evals.loss[keep],
    }
    cluster_of = dict(zip(run.clients.id.tolist(), run.clients.cluster.tolist(), strict=True))
    who = _participation(run)
    small = run.meta.copy()
    small.pop("clients", None)
    small.pop("labels", None)
    return Digest(
        name=run.name,
        folder=run.folder.name,
        algorithm=run.algorithm,
        title=run.title,
        seed=run.seed,
        state=state_of(run),
        sha256=run.result.get("sha256") if run.result else None,
        config=run.config,
        meta=small,
        adds=run.meta.get("adds"),
        server_rate=_server_rate(run),
        target=run.target,
        horizon=run.horizon,
        facts=_facts(run, who),
        curve=curve,
        full=(run.evals.time, run.evals.accuracy),
        staleness=_staleness(run),
        reasons=_reasons(run),
        flow=_flow(run, cluster_of, bins),
        scale=_scale(run, bins),
        weights=_weights(run),
        clients=_some_clients(who, clients),
        per_class=run.evals.per_class[-1] if len(run.evals.per_class) else np.empty(0),
        confusion=run.confusion,
        clusters=_clusters(run, cluster_of),
        remarks=_remarks(run),
    )


def state_of(run: Recorded) -> str:
    """`ended`, `interrupted`, or `unfinished`: still going, or killed."""
    if run.end is None:
        return "unfinished" if run.result is None else "ended"
    return "interrupted" if run.end.reason == "interrupted" else "ended"


def thin(x: Floats, y: Floats, most: int) -> Ints:
    """Which points to keep: all if they are few, else the first, last, lowest and highest of equal stretches."""
    if len(x) <= most:
        return np.arange(len(x))
    edges = np.linspace(0, len(x), max(1, most // 4) + 1).astype(np.int64)
    known = np.where(np.isfinite(y), y, np.nanmedian(y) if np.isfinite(y).any() else 0.0)
    kept: set[int] = set()
    for low, high in pairwise(edges.tolist()):
        if high > low:
            part = known[low:high]
            kept |= {int(low), int(high) - 1, int(low + part.argmin()), int(low + part.argmax())}
    return np.array(sorted(kept), np.int64)


def _facts(run: Recorded, who: dict[str, NDArray[Any]]) -> Facts:
    result = run.result or {}
    jobs, updates = result.get("jobs", {}), run.updates
    reached = np.flatnonzero(run.evals.accuracy == run.best_accuracy)
    size = 4.0 * run.meta.get("parameters", math.nan)
    used, dropped = int(updates.used.sum()), int((~updates.used).sum())
    return Facts(
        best=run.best_accuracy,
        best_time=float(run.evals.time[reached[0]]) if len(reached) else math.nan,
        final=run.final_accuracy,
        seconds=run.seconds,
        steps=len(run.steps.version),
        scale_mean=_mean(run.steps.scale),
        scale_sum=float(run.steps.scale.sum()),
        arrived=run.arrivals,
        used=used,
        dropped=dropped,
        rejected=int(run.steps.rejected.sum()),
        missing=int(run.steps.missing.sum()),
        lost=int(run.orders.lost.sum()),
        staleness_all=_mean(updates.staleness),
        staleness_used=_mean(updates.staleness[updates.used]),
        examples_all=_mean(updates.examples),
        examples_used=_mean(updates.examples[updates.used]),
        delivered=int((who["arrived"] > 0).sum()),
        never=int(((who["arrived"] > 0) & (who["used"] == 0)).sum()),
        clients=len(who["id"]),
        test_size=float(run.confusion.sum()) if run.confusion is not None else math.nan,
        trained=jobs.get("trained", math.nan),
        skipped=jobs.get("skipped", math.nan),
        samples=jobs.get("samples", math.nan),
        upload=result.get("upload_bytes", used * size),
        upload_saved=result.get("skipped_upload_bytes", dropped * size),
        wall=_last_wall(run),
    )


def _server_rate(run: Recorded) -> float:
    rate = setting(run.config, "algorithm", "server_lr")
    return float(rate) if isinstance(rate, int | float) and 0 < rate < 1e6 else 1.0


def _last_wall(run: Recorded) -> float:
    walls = [*run.evals.wall[-1:], *run.steps.wall[-1:], *([run.end.wall] if run.end else [])]
    known = [wall for wall in walls if math.isfinite(wall)]
    return float(max(known)) if known else math.nan


def _reasons(run: Recorded) -> tuple[Reason, ...]:
    """Those that the steps gave, the most frequent first, what counted before what did not."""
    known = run.updates.why != UNTOLD
    found = Counter(zip(run.updates.used[known].tolist(), run.updates.why[known].tolist(), strict=True))
    told = [Reason(used, run.updates.reasons[why], number) for (used, why), number in found.items()]
    return tuple(sorted(told, key=lambda reason: (not reason.used, -reason.number, reason.why)))


def _staleness(run: Recorded) -> tuple[Ints, Ints]:
    """How many updates of each staleness were kept and dropped."""
    ages = np.clip(run.updates.staleness, 0, OLDEST)
    length = int(ages.max()) + 1 if len(ages) else 1
    return (
        np.bincount(ages[run.updates.used], minlength=length),
        np.bincount(ages[~run.updates.used], minlength=length),
    )


def _flow(run: Recorded, cluster_of: dict[int, int], bins: int) -> dict[str, Any]:
    """What an average step kept and dropped of each cluster, over virtual time."""
    updates, steps = run.updates, run.steps
    if not len(steps.time):
        return {}
    clusters = np.array([cluster_of.get(int(client), 0) for client in updates.client], np.int64)
    names = _frequent(clusters)
    clusters = np.where(np.isin(clusters, names), clusters, OTHERS)
    edges = np.linspace(0.0, max(float(steps.time[-1]), 1.0), min(bins, len(steps.time)) + 1)
    bin_of_step = np.clip(np.searchsorted(edges, steps.time, "right") - 1, 0, len(edges) - 2)
    number = np.bincount(bin_of_step, minlength=len(edges) - 1)
    place = bin_of_step[updates.step]

    def per_step(chosen: NDArray[np.bool_]) -> Floats:
        with np.errstate(invalid="ignore"):
            return np.bincount(place[chosen], minlength=len(number)) / np.where(number, number, np.nan)

    return {
        "time": (edges[:-1] + edges[1:]) / 2,
        "width": float(edges[1] - edges[0]),
        "clusters": names,
        "kept": [per_step((clusters == name) & updates.used) for name in names],
        "dropped": [per_step((clusters == name) & ~updates.used) for name in names],
    }


def _frequent(clusters: Ints) -> list[int]:
    """The clusters, or the most frequent ones and `OTHERS` for the rest."""
    names, number = np.unique(clusters, return_counts=True)
    if len(names) <= MOST_CLUSTERS:
        return [int(name) for name in names]
    common = names[np.argsort(-number, kind="stable")[: MOST_CLUSTERS - 1]]
    return [*sorted(int(name) for name in common), OTHERS]


def _scale(run: Recorded, bins: int) -> dict[str, Floats]:
    """The total weight of a step over virtual time: the mean and the middle 80 % of each stretch."""
    time, scale = run.steps.time, run.steps.scale
    if not len(time):
        return {}
    parts = np.array_split(np.arange(len(time)), min(bins, len(time)))
    return {
        "time": np.array([time[part].mean() for part in parts]),
        "mean": np.array([scale[part].mean() for part in parts]),
        "low": np.array([np.quantile(scale[part], 0.1) for part in parts]),
        "high": np.array([np.quantile(scale[part], 0.9) for part in parts]),
    }


def _weights(run: Recorded) -> dict[str, Floats]:
    """The mean weight of an update by its staleness, as a multiple of an equal share of its step."""
    updates = run.updates
    chosen = updates.used & np.isfinite(updates.weight)
    if not chosen.any():
        return {}
    share = updates.weight[chosen] * np.maximum(run.steps.used, 1)[updates.step[chosen]]
    ages = np.clip(updates.staleness[chosen], 0, OLDEST)
    number = np.bincount(ages)
    # A staleness that hardly ever occurs has no mean worth drawing.
    there = np.flatnonzero(number >= (5 if len(ages) > 500 else 1))
    mean = np.bincount(ages, share)[there] / number[there]
    keep = thin(there.astype(np.float64), mean, 300)
    return {"staleness": there[keep].astype(np.float64), "weight": mean[keep]}


def _participation(run: Recorded) -> dict[str, NDArray[Any]]:
    """One row a client: how much it has, how long it takes, how often it delivered and how often that counted."""
    ids = run.clients.id
    row = {int(client): i for i, client in enumerate(ids)}
    place = np.array([row.get(int(client), -1) for client in run.updates.client], np.int64)
    used = np.bincount(place[run.updates.used & (place >= 0)], minlength=len(ids))
    arrived = np.bincount(place[place >= 0], minlength=len(ids))
    return {
        "id": ids,
        "examples": run.clients.examples,
        "latency": _latency(run, row),
        "cluster": run.clients.cluster,
        "arrived": arrived,
        "used": used,
    }


def _latency(run: Recorded, row: dict[int, int]) -> Floats:
    """What was drawn for the client, or the mean of what its jobs took."""
    drawn, orders = run.clients.latency, run.orders
    if np.isfinite(drawn).any():
        return drawn
    done = np.isfinite(orders.finish) & ~orders.lost
    place = np.array([row.get(int(client), -1) for client in orders.client[done]], np.int64)
    took = (orders.finish - orders.start)[done][place >= 0]
    place = place[place >= 0]
    number = np.bincount(place, minlength=len(drawn))
    return np.where(number > 0, np.bincount(place, took, len(drawn)) / np.maximum(number, 1), np.nan)


def _some_clients(who: dict[str, NDArray[Any]], most: int) -> dict[str, Any]:
    """All of them, or all that never counted (as far as they fit) and an even sample of the rest."""
    total = len(who["id"])
    if total <= most:
        return {**who, "total": total}
    starved = np.flatnonzero((who["arrived"] > 0) & (who["used"] == 0))[: most // 2]
    rest = np.setdiff1d(np.arange(total), starved)
    even = rest[np.linspace(0, len(rest) - 1, most - len(starved)).astype(np.int64)]
    chosen = np.sort(np.concatenate([starved, even]))
    return {name: column[chosen] for name, column in who.items()} | {"total": total}


def _clusters(run: Recorded, cluster_of: dict[int, int]) -> dict[str, Any]:
    """The mean label shares of each cluster, and how far its clients lie from that mean."""
    labels, told = run.meta.get("labels"), run.meta.get("clients")
    if not labels or not labels[0] or not told or len(labels) != len(told["id"]):
        return {}
    counts = np.array(labels, np.float64)
    totals = counts.sum(axis=1, keepdims=True)
    shares = counts / np.where(totals > 0, totals, 1.0)
    groups = np.array([cluster_of[client] for client in told["id"]])
    names = sorted(set(groups.tolist()))[:50]
    means = np.array([shares[groups == name].mean(axis=0) for name in names])
    overall = shares.mean(axis=0)
    inside = np.concatenate([np.abs(shares[groups == n] - means[i]).sum(axis=1) / 2 for i, n in enumerate(names)])
    return {
        "total": len(set(groups.tolist())),
        "names": names,
        "sizes": [int((groups == name).sum()) for name in names],
        "shares": means,
        "inside": float(inside.mean()),
        "overall": float((np.abs(shares - overall).sum(axis=1) / 2).mean()),
    }


def _remarks(run: Recorded) -> tuple[str, ...]:
    """What a reader should know before trusting the figures."""
    said = []
    if run.unreadable:
        said.append(f"{run.unreadable} unreadable line{'s' if run.unreadable > 1 else ''} skipped")
    if run.resumes:
        said.append(f"resumed {run.resumes} time{'s' if run.resumes > 1 else ''}")
    if not len(run.evals.accuracy):
        said.append("no evaluation yet")
    elif not np.isfinite(run.evals.loss).any():
        said.append("loss was not recorded")
    if run.steps.rejected.sum():
        said.append(f"{int(run.steps.rejected.sum())} updates were not finite and were left out")
    if run.steps.missing.sum():
        said.append(f"{int(run.steps.missing.sum())} updates were announced and never came")
    return (*said, *run.problems)


def _mean(values: NDArray[Any]) -> float:
    return float(values.mean()) if len(values) else math.nan
