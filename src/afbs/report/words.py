"""Numbers as people say them."""

from __future__ import annotations

import math

from afbs.metrics import Metric


def percent(share: float, digits: int = 1) -> str:
    return "–" if not math.isfinite(share) else f"{100 * share:.{digits}f} %"


def gap(metric: Metric, difference: float) -> str:
    """By how much one is ahead of another: shares in percentage points."""
    size = f"{100 * abs(difference):.1f} points" if metric.share else metric.text(abs(difference), 0)
    return f"{size} {'above' if metric.better == 'more' else 'below'}"


def level(metric: Metric, mean: float, deviation: float = math.nan) -> str:
    """`81.2 ± 0.4 % accuracy`, `RMSE 54.2 ± 0.3 mg`."""
    if metric.share:
        plus = f" ± {100 * deviation:.1f}" if math.isfinite(deviation) else ""
        return f"{100 * mean:.1f}{plus} % {metric.called}"
    plus = f" ± {deviation:.2g}" if math.isfinite(deviation) else ""
    return f"{metric.called} {mean:.4g}{plus}{f' {metric.unit}' if metric.unit else ''}"


def duration(seconds: float | None) -> str:
    if seconds is None or not math.isfinite(seconds):
        return "–"
    for size, unit in ((86_400, "days"), (3_600, "h"), (60, "min")):
        if abs(seconds) >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s" if abs(seconds) >= 10 or seconds == 0 else f"{seconds:.2g} s"


def count(number: float) -> str:
    """Thousands are set apart by a thin space."""
    return "–" if not math.isfinite(number) else f"{round(number):,}".replace(",", "\u2009")


def data_size(size: float) -> str:
    if not math.isfinite(size):
        return "–"
    for unit in ("B", "kB", "MB", "GB"):
        if abs(size) < 1000:
            return f"{size:.0f} {unit}" if unit == "B" or abs(size) >= 100 else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def listing(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def plural(number: int, one: str, many: str | None = None) -> str:
    return f"{count(number)} {one if number == 1 else many or one + 's'}"


def clip(text: str, most: int = 120) -> str:
    """A name from a file may be as long as it likes; a page may not."""
    return text if len(text) <= most else text[: most - 1] + "…"
