"""An animated drawing of a plan: how a buffer fills, and what AFBS drops of it. SVG and CSS, nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from math import log, sqrt

from afbs.core.selection import BEST, SURVIVOR
from afbs.types import Decided, Update

WIDTH, HEIGHT = 760, 580
COLOURS = ("#3b82f6", "#f08332", "#1fae8f", "#b069db", "#d4a017")
STYLE = """
.drawing{--ink:#1f2328;--soft:#59636e;--line:#d1d9e0;--card:#f6f8fa;font-family:system-ui,sans-serif}
@media(prefers-color-scheme:dark){.drawing{--ink:#e6edf3;--soft:#9da7b3;--line:#3d444d;--card:#1b2027}}
"""
_MOTION = """
.drawing .moves{animation-duration:%ss;animation-iteration-count:infinite;animation-timing-function:ease-in-out}
@media(prefers-reduced-motion:reduce){.drawing .moves{animation:none!important}}
"""
# Seconds of each part of a buffer's act.
ARRIVE, GATHER, READ, JUDGE, RULE, LEAVE, PAUSE = 0.42, 1.0, 0.6, 1.6, 2.2, 1.1, 0.9
_STRIP, _SLOT = 100, 70
_LEFT, _RIGHT, _TOP, _BOTTOM = 74, 486, 214, 520
_MODEL, _BIN = (630, 250), (630, 462)
_LINES = (
    "Updates arrive. Only metadata is known.",
    "★ is the best of its cluster.",
    "Staler and smaller: dropped, never trained.",
    "The rest is trained and averaged.",
)


@dataclass
class Film:
    """Shapes, each with the moments at which it changes, on one clock that starts over at `seconds`."""

    seconds: float
    shapes: list[str] = field(default_factory=list)
    rules: list[str] = field(default_factory=list)

    def add(self, shape: str, moments: Sequence[tuple[float, str]], still: str) -> None:
        """`shape` has a place `{motion}`; `still` is how it looks where nothing may move."""
        name = f"m{len(self.rules)}"
        stops = "".join(f"{100 * time / self.seconds:.4f}%{{{look}}}" for time, look in moments)
        self.rules.append(f"@keyframes {name}{{{stops}}}")
        motion = f'class="moves" style="{still};animation-name:{name}"'
        self.shapes.append(shape.replace("{motion}", motion))

    def window(self, shape: str, windows: Sequence[tuple[float, float]], still: bool = False) -> None:
        """A shape that is seen from one moment to another, or several times."""
        moments = [(0.0, "opacity:0")]
        for start, end in windows:
            start = max(start, 0.01)
            moments += [(start - 0.01, "opacity:0"), (start + 0.25, "opacity:1")]
            moments += [(end - 0.25, "opacity:1"), (min(end, self.seconds), "opacity:0")]
        self.add(shape, [*moments, (self.seconds, "opacity:0")], f"opacity:{int(still)}")


def film(steps: Sequence[Decided], cluster_of: Mapping[int, int], title: str) -> str:
    """The drawing of consecutive steps of one plan."""
    size = max(len(step.step.used) + len(step.step.dropped) for step in steps)
    act = size * ARRIVE + GATHER + READ + JUDGE + RULE + LEAVE + PAUSE
    moving = Film(seconds=act * len(steps))
    everybody = [update for step in steps for update in (*step.step.used, *step.step.dropped)]
    volumes = [update.examples for update in everybody]
    scale = _Scale(max(update.staleness for update in everybody), min(volumes), max(volumes))
    trained = dropped = 0
    counts = [(0, 0)]
    for number, decided in enumerate(steps):
        _act(moving, decided, cluster_of, scale, number * act, still=number == 0)
        trained, dropped = trained + len(decided.step.used), dropped + len(decided.step.dropped)
        counts.append((trained, dropped))
    _captions(moving, act, size, len(steps))
    _counters(moving, act, counts, steps[0].version - 1)
    style = STYLE + _MOTION % f"{moving.seconds:.2f}" + "\n".join(moving.rules)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="drawing" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'font-size="17" fill="var(--ink)"><title>{escape(title)}</title><style>{style}</style>'
        + "\n".join([*_stage(size), *moving.shapes])
        + "</svg>\n"
    )


@dataclass(frozen=True)
class _Scale:
    stalest: int
    smallest: int
    largest: int

    def x(self, staleness: float) -> float:
        return _LEFT + 34 + (_RIGHT - _LEFT - 62) * staleness / max(1, self.stalest)

    def y(self, examples: float) -> float:
        return _BOTTOM - 30 - (_BOTTOM - _TOP - 58) * log(examples / self.smallest) / log(self.largest / self.smallest)

    def radius(self, examples: int) -> float:
        return 11 + 15 * sqrt(examples / self.largest)


def _stage(size: int) -> Iterator[str]:
    width = size * _SLOT
    left = (WIDTH - width) / 2
    yield f'<rect x="{left}" y="{_STRIP - 40}" width="{width}" height="80" rx="16" fill="var(--card)" stroke="var(--line)"/>'
    for i in range(size):
        yield f'<circle cx="{_slot(i, size)[0]}" cy="{_STRIP}" r="24" fill="none" stroke="var(--line)" stroke-dasharray="3 5"/>'
    yield f'<path d="M{_LEFT} {_TOP - 20}V{_BOTTOM}H{_RIGHT}" fill="none" stroke="var(--soft)" stroke-width="1.5"/>'
    yield f'<text x="{_RIGHT}" y="{_BOTTOM + 26}" text-anchor="end" fill="var(--soft)">staler →</text>'
    yield f'<text x="{_LEFT - 14}" y="{_TOP - 16}" text-anchor="end" fill="var(--soft)" transform="rotate(-90 {_LEFT - 14} {_TOP - 16})">more data →</text>'
    x, y = _MODEL
    yield f'<rect x="{x - 96}" y="{y - 58}" width="192" height="116" rx="16" fill="var(--card)" stroke="var(--line)"/>'
    yield f'<text x="{x}" y="{y - 16}" text-anchor="middle" fill="var(--soft)">the model, version</text>'
    for (bx, by), words in (((x, y + 112), "trained"), (_BIN, "never trained")):
        yield f'<text x="{bx}" y="{by + 34}" text-anchor="middle" fill="var(--soft)">{words}</text>'


def _slot(place: int, size: int) -> tuple[float, float]:
    return (WIDTH - size * _SLOT) / 2 + _SLOT * (place + 0.5), _STRIP


def _act(film: Film, decided: Decided, cluster_of: Mapping[int, int], scale: _Scale, start: float, still: bool) -> None:
    step = decided.step
    why = dict(zip((*step.used, *step.dropped), step.why, strict=True))
    updates = sorted(why, key=lambda update: update.sequence)
    size = len(updates)
    gather = start + size * ARRIVE
    judge = gather + GATHER + READ
    rule = judge + JUDGE
    leave = rule + RULE
    clusters = sorted(set(cluster_of.values()))
    colours = {each: COLOURS[clusters.index(cluster_of[each.client]) % len(COLOURS)] for each in updates}
    for update in (each for each in updates if why[each] == BEST):
        x, y = scale.x(update.staleness + 0.5), scale.y(update.examples)
        size_of = f'width="{_RIGHT - x:.0f}" height="{_BOTTOM - y:.0f}" rx="6"'
        corner = f'<rect x="{x:.0f}" y="{y:.0f}" {size_of} fill="{colours[update]}" fill-opacity=".13" {{motion}}/>'
        film.window(corner, [(judge, leave + 0.4)], still)
    places = _apart(updates, scale)
    for place, update in enumerate(updates):
        colour, (x, y) = colours[update], places[update]
        here, there = _slot(place, size), (x, y)
        gone = update in step.dropped
        end, arrived = (_BIN if gone else _MODEL), start + (place + 1) * ARRIVE
        moments = [
            (0.0, _look((-40, _STRIP), 0)),
            (max(0.0, arrived - ARRIVE), _look((-40, _STRIP), 1 if arrived > ARRIVE else 0)),
            (arrived, _look(here, 1)),
            (gather + 0.3, _look(here, 1)),
            (gather + GATHER, _look(there, 1)),
            (leave, _look(there, 1)),
            (leave + LEAVE, _look(end, 0, 0.3)),
            (film.seconds, _look(end, 0, 0.3)),
        ]
        film.add(
            "<g {motion}>" + "".join(_disc(update, scale, colour)) + "</g>", _ordered(moments), _look(there, int(still))
        )
        on_top: list[str] = []
        if gone:
            on_top.append(_ring(update, scale, colour))
        elif why[update] in (BEST, SURVIVOR):
            mark = "★" if why[update] == BEST else "lucky"
            lift = scale.radius(update.examples) + (5 if mark == "★" else 6)
            on_top.append(
                f'<text x="{x:.0f}" y="{y - lift:.0f}" text-anchor="middle" fill="{colour}" '
                f'font-size="{22 if mark == "★" else 14}" font-weight="600" {{motion}}>{mark}</text>'
            )
        for shape in on_top:
            begin = rule if gone or why[update] == SURVIVOR else judge
            placed = shape if not gone else f'<g transform="translate({x:.0f} {y:.0f})"><g {{motion}}>{shape}</g></g>'
            film.window(placed, [(begin, leave + (0.1 if gone else 0.3))], still)


def _apart(updates: Sequence[Update], scale: _Scale) -> dict[Update, tuple[float, float]]:
    """Where each lies, those of one staleness side by side."""
    places = {}
    for age in {update.staleness for update in updates}:
        alike = sorted((each for each in updates if each.staleness == age), key=lambda each: each.examples)
        step = min(26.0, (scale.x(1) - scale.x(0)) * 0.72 / len(alike))
        for i, update in enumerate(alike):
            places[update] = scale.x(age) + step * (i - (len(alike) - 1) / 2), scale.y(update.examples)
    return places


def _ordered(moments: Sequence[tuple[float, str]]) -> list[tuple[float, str]]:
    kept: dict[float, str] = {}
    for time, look in moments:
        kept.setdefault(time, look)
    return sorted(kept.items())


def _look(place: tuple[float, float], opacity: float, scale: float = 1.0) -> str:
    return f"transform:translate({place[0]:.0f}px,{place[1]:.0f}px) scale({scale:g});opacity:{opacity}"


def _disc(update: Update, scale: _Scale, colour: str) -> Iterator[str]:
    yield f'<circle r="{scale.radius(update.examples):.1f}" fill="{colour}"/>'
    yield f'<text y="5.5" text-anchor="middle" fill="#fff" font-size="15" font-weight="600">{update.staleness}</text>'


def _ring(update: Update, scale: _Scale, colour: str) -> str:
    radius = scale.radius(update.examples)
    return (
        f'<circle r="{radius + 0.6:.1f}" fill="var(--card)" stroke="{colour}" stroke-width="2" stroke-dasharray="4 3"/>'
        f'<path d="M-5 -5L5 5M5 -5L-5 5" stroke="{colour}" stroke-width="2.4" stroke-linecap="round"/>'
    )


def _captions(film: Film, act: float, size: int, acts: int) -> None:
    gather = size * ARRIVE + GATHER * 0.7
    times = [0.0, gather, gather + 0.3 * GATHER + READ + JUDGE, act - LEAVE - PAUSE, act]
    for i, line in enumerate(_LINES):
        windows = [(n * act + times[i], n * act + times[i + 1]) for n in range(acts)]
        text = f'<text x="{WIDTH / 2}" y="36" text-anchor="middle" font-size="21" font-weight="600" {{motion}}>{line}</text>'
        film.window(text, windows, still=i == 2)


def _counters(film: Film, act: float, counts: Sequence[tuple[int, int]], version: int) -> None:
    for n, numbers in enumerate(counts):
        start = 0.0 if n == 0 else n * act - PAUSE
        end = film.seconds if n == len(counts) - 1 else (n + 1) * act - PAUSE
        for (x, y), number in ((_MODEL, version + n), ((_MODEL[0], _MODEL[1] + 112), numbers[0]), (_BIN, numbers[1])):
            up = 26 if (x, y) == _MODEL else 8
            text = f'<text x="{x}" y="{y + up}" text-anchor="middle" font-size="36" font-weight="700" {{motion}}>{number}</text>'
            film.add(text, _shown(start, end, film.seconds), f"opacity:{int(n == 0)}")


def _shown(start: float, end: float, seconds: float) -> list[tuple[float, str]]:
    """Without fading: two numbers in one place must not be seen at once."""
    moments = [(0.0, f"opacity:{int(start == 0)}")]
    if start > 0:
        moments += [(start - 0.001, "opacity:0"), (start, "opacity:1")]
    if end < seconds:
        moments += [(end - 0.001, "opacity:1"), (end, "opacity:0")]
    return [*moments, (seconds, f"opacity:{int(end >= seconds)}")]
