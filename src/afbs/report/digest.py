"""A run reduced to what its figures need: a few kilobytes, whether it had a hundred arrivals or a million.

Curves keep their extremes when they are thinned; everything else is counted into bins, so nothing is left out.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from afbs.metrics import Metric
from afbs.record.columns import UNTOLD, Floats, Ints
from afbs.record.recorded import Recorded, setting, versions_of
from afbs.record.schema import MetaFile
from afbs.report.measures import (
    cluster_flow,
    label_shares,
    participation,
    scale_over_time,
    some_clients,
    staleness_counts,
    thin,
    weight_by_staleness,
)


@dataclass(frozen=True)
class Totals:
    """The numbers from which tables and sentences are made. What a run does not tell is nan."""

    best: float
    best_time: float
    final: float
    seconds: float
    steps: float
    scale_mean: float
    scale_sum: float
    used: float
    dropped: float
    rejected: float
    missing: float
    staleness_all: float
    staleness_used: float
    examples_all: float
    examples_used: float
    delivered: float
    never: float
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
    metrics: tuple[Metric, ...]
    facts: Totals
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
    fairness: dict[str, list[float]]
    remarks: tuple[str, ...]

    @property
    def metric(self) -> Metric:
        """The one to watch. `curve` has all of them by name, `full` only this one."""
        return self.metrics[0]

    @property
    def light(self) -> bool:
        """Whether nothing was kept of single updates."""
        return self.meta.get("light", False)

    @property
    def clock(self) -> str:
        """What its time is called."""
        return "virtual time" if setting(self.config, "transport", "name") in (None, "simulated") else "real time"


def digest(run: Recorded, points: int = 500, clients: int = 5000, bins: int = 50) -> Digest:
    """`points`, `clients` and `bins` bound what is kept of the curves, of the clients, and of what is counted."""
    order = np.argsort(run.orders.finish)
    finish = run.orders.finish[order][~run.orders.lost[order]]
    keep = thin(run.evals.time, run.watched, points)
    curve = {
        "time": run.evals.time[keep],
        "version": run.evals.version[keep].astype(np.float64),
        "updates": np.full(len(keep), np.nan)
        if run.light
        else np.searchsorted(finish[np.isfinite(finish)], run.evals.time[keep], "right").astype(np.float64),
        "wall": run.evals.wall[keep],
        **{metric.name: run.evals.of(metric.name)[keep] for metric in run.metrics},
    }
    cluster_of = dict(zip(run.clients.id.tolist(), run.clients.cluster.tolist(), strict=True))
    who = participation(run)
    facts = _facts(run, who)
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
        horizon=run.seconds if versions_of(run.config) else run.horizon,
        metrics=run.metrics,
        facts=facts,
        curve=curve,
        full=(run.evals.time, run.watched),
        staleness=staleness_counts(run),
        reasons=_reasons(run),
        flow=cluster_flow(run, cluster_of, bins),
        scale=scale_over_time(run, bins),
        weights=weight_by_staleness(run),
        clients=some_clients(who, clients),
        per_class=run.evals.per_class[-1] if len(run.evals.per_class) else np.empty(0),
        confusion=run.confusion,
        clusters=label_shares(run, cluster_of),
        fairness=_fairness(run),
        remarks=_remarks(run, facts),
    )


def state_of(run: Recorded) -> str:
    """`ended`, `interrupted`, or `unfinished`: still going, or killed."""
    if run.end is None:
        return "unfinished" if run.result is None else "ended"
    return "interrupted" if run.end.reason == "interrupted" else "ended"


def _facts(run: Recorded, who: dict[str, NDArray[Any]]) -> Totals:
    result = run.result or {}
    jobs, updates = result.get("jobs", {}), run.updates
    reached = np.flatnonzero(run.watched == run.best)
    size = 4.0 * run.meta.get("parameters", math.nan)
    counted = _counted(run)
    heard = who["arrived"] > 0
    return Totals(
        **counted,
        best=run.best,
        best_time=float(run.evals.time[reached[0]]) if len(reached) else math.nan,
        final=run.final,
        seconds=run.seconds,
        scale_mean=_mean(run.steps.scale),
        scale_sum=math.nan if run.light else float(run.steps.scale.sum()),
        staleness_all=_mean(updates.staleness),
        staleness_used=_mean(updates.staleness[updates.used]),
        examples_all=_mean(updates.examples),
        examples_used=_mean(updates.examples[updates.used]),
        delivered=math.nan if run.light else int(heard.sum()),
        never=math.nan if run.light else int((heard & (who["used"] == 0)).sum()),
        clients=len(who["id"]),
        test_size=float(run.confusion.sum()) if run.confusion is not None else math.nan,
        trained=jobs.get("trained", math.nan),
        skipped=jobs.get("skipped", math.nan),
        samples=jobs.get("samples", math.nan),
        upload=result.get("upload_bytes", counted["used"] * size),
        upload_saved=result.get("skipped_upload_bytes", counted["dropped"] * size),
        wall=_last_wall(run),
    )


def _counted(run: Recorded) -> dict[str, float]:
    """Steps and what became of updates: as the lines tell it, or the summary where they were not kept."""
    if run.light:
        result = run.result or {}
        told = result.get("updates", {})
        names = ("used", "dropped", "rejected", "missing")
        return {"steps": result.get("versions", math.nan), **{name: told.get(name, math.nan) for name in names}}
    return {
        "steps": len(run.steps.version),
        "used": int(run.updates.used.sum()),
        "dropped": int((~run.updates.used).sum()),
        "rejected": int(run.steps.rejected.sum()),
        "missing": int(run.steps.missing.sum()),
    }


def _fairness(run: Recorded) -> dict[str, list[float]]:
    """The watched metric over clients, each time that they were tested on what they hold out."""
    told = [(said.time, said.values.get(run.metric.name, {})) for said in run.fairness]
    spread = {name: [values.get(name, math.nan) for _, values in told] for name in ("mean", "worst", "spread")}
    return {"time": [time for time, _ in told], **spread} if told else {}


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


def _remarks(run: Recorded, facts: Totals) -> tuple[str, ...]:
    """What a reader should know before trusting the figures."""
    said = []
    if run.light:
        said.append("of its record only the evaluations were kept")
    if run.unreadable:
        said.append(f"{run.unreadable} unreadable line{'s' if run.unreadable > 1 else ''} skipped")
    if run.resumes:
        said.append(f"resumed {run.resumes} time{'s' if run.resumes > 1 else ''}")
    if not len(run.evals.time):
        said.append("no evaluation yet")
    else:
        absent = [each.called for each in run.metrics if not np.isfinite(run.evals.of(each.name)).any()]
        said += [f"{name} was not recorded" for name in absent]
    if facts.rejected > 0:
        said.append(f"{facts.rejected:.0f} updates were not finite and were left out")
    if facts.missing > 0:
        said.append(f"{facts.missing:.0f} updates were announced and never came")
    return (*said, *run.problems)


def _mean(values: NDArray[Any]) -> float:
    return float(values.mean()) if len(values) else math.nan
