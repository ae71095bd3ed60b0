"""Sees to it that a run which is taken up, or decided again, is decided as its record says.

Another version of the package, an edited algorithm, another trace or a doctored record: the first difference is named.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, final

from afbs.record.lines import PLANNED, line_of, same
from afbs.types import Event, Facts, Stopped, UserError


class DifferentlyDecidedError(UserError):
    """A run would now be decided in another way. `version` is the first step that differs or cannot be reached."""

    def __init__(self, version: int, recorded: Mapping[str, Any] | None, decided: Mapping[str, Any] | None):
        self.version = version
        self.recorded = recorded
        self.decided = decided
        super().__init__(
            f"Step {version} is not what it was: the record has {_told(recorded)}, and now it is {_told(decided)}. The "
            "package, the algorithm, a file it reads or the record has been changed since."
        )


@final
class Witness:
    """Holds the lines of a record against what is decided now, one after another."""

    def __init__(self, recorded: Iterable[Mapping[str, Any]]):
        self._lines = [line for line in recorded if line["event"] in PLANNED]
        self._place = 0
        self.version = 0

    @property
    def done(self) -> bool:
        """Whether everything that was recorded has been decided again."""
        return self._place == len(self._lines)

    def see(self, event: Event) -> None:
        if isinstance(event, Stopped):
            return
        planned = line_of(event)
        recorded = self._lines[self._place] if self._place < len(self._lines) else None
        if recorded is None or not same(planned, recorded):
            raise DifferentlyDecidedError(self.version + 1, recorded, planned)
        self._place += 1
        if planned["event"] == "step":
            self.version = planned["version"]

    def refuse_rest(self) -> None:
        """Something was recorded that is not decided any more."""
        raise DifferentlyDecidedError(self.version + 1, self._lines[self._place], None)

    def facts(self) -> deque[Facts]:
        """What a content-based algorithm was told, in order."""
        return deque(line["facts"] for line in self._lines if line["event"] == "look")


def _told(line: Mapping[str, Any] | None) -> str:
    """A line in a few words."""
    if line is None:
        return "nothing"
    kind, time = line["event"], line.get("time")
    if kind == "step":
        clients = [line.get(part, {}).get("client", []) for part in ("used", "dropped")]
        return f"a step at {time:g} s that uses clients {clients[0]} and drops {clients[1]}"
    facts = ", ".join(f"{name} {value}" for name, value in line.items() if name not in ("event", "time", "facts"))
    return f"a line `{kind}` at {time:g} s ({facts})" if facts else f"a line `{kind}` at {time:g} s"
