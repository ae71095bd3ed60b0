"""What the figures show of a run, counted and averaged from its columns."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from afbs.record.columns import Floats, Ints
from afbs.record.recorded import Recorded

MOST_CLUSTERS = 12
OLDEST = 1_000_000
OTHERS = -1
"""Stands for all clusters that are too rare to have a colour of their own."""


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


def staleness_counts(run: Recorded) -> tuple[Ints, Ints]:
    """How many updates of each staleness were kept and dropped."""
    ages = np.clip(run.updates.staleness, 0, OLDEST)
    length = int(ages.max()) + 1 if len(ages) else 1
    return (
        np.bincount(ages[run.updates.used], minlength=length),
        np.bincount(ages[~run.updates.used], minlength=length),
    )


def cluster_flow(run: Recorded, cluster_of: dict[int, int], bins: int) -> dict[str, Any]:
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


def scale_over_time(run: Recorded, bins: int) -> dict[str, Floats]:
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


def weight_by_staleness(run: Recorded) -> dict[str, Floats]:
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


def participation(run: Recorded) -> dict[str, NDArray[Any]]:
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


def some_clients(who: dict[str, NDArray[Any]], most: int) -> dict[str, Any]:
    """All of them, or all that never counted (as far as they fit) and an even sample of the rest."""
    total = len(who["id"])
    if total <= most:
        return {**who, "total": total}
    starved = np.flatnonzero((who["arrived"] > 0) & (who["used"] == 0))[: most // 2]
    rest = np.setdiff1d(np.arange(total), starved)
    even = rest[np.linspace(0, len(rest) - 1, most - len(starved)).astype(np.int64)]
    chosen = np.sort(np.concatenate([starved, even]))
    return {name: column[chosen] for name, column in who.items()} | {"total": total}


def label_shares(run: Recorded, cluster_of: dict[int, int]) -> dict[str, Any]:
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
