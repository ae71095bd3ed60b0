"""Draws the pictures of the pages from real plans. Nothing is trained for them.

python docs/drawings.py docs/images
"""

from __future__ import annotations

import sys
from pathlib import Path

from making import animation, figures, flow

import afbs
from afbs.experiment import schedule
from afbs.types import Arrived, Decided

ROOT = Path(__file__).parents[1]


def plan(**overrides: object) -> tuple[list[Decided], list[Arrived], dict[int, int]]:
    """The steps and arrivals of the quickstart, and who is in which cluster."""
    config = afbs.configure(ROOT / "examples" / "quickstart.toml", overrides)
    clients = afbs.populate(config).clients
    events = list(schedule(config, clients))
    steps = [event for event in events if isinstance(event, Decided)]
    arrivals = [event for event in events if isinstance(event, Arrived)]
    return steps, arrivals, {client.id: client.cluster for client in clients}


def telling(steps: list[Decided], number: int) -> list[Decided]:
    """The first so many consecutive steps, once the run is under way, that each drop some and have every cluster."""
    for first in range(20, len(steps) - number):
        chosen = steps[first : first + number]
        if all(3 <= len(step.step.dropped) <= 6 for step in chosen):
            return chosen
    return steps[:number]


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    steps, _, cluster_of = plan()
    title = "A buffer fills with ten updates; AFBS drops those both staler and smaller than the best of their cluster"
    drawn = {
        "buffer": animation.film(telling(steps, 3), cluster_of, title),
        "flow": flow.drawing(),
        "selection": figures.selection(telling(steps, 9), cluster_of),
        "discounts": figures.discounts(),
        "staleness": figures.staleness({name: plan(latency={"name": name})[1] for name in figures.LATENCIES}),
    }
    for name, text in drawn.items():
        (folder / f"{name}.svg").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
