"""An algorithm under observation: every method is called twice, and nothing may have changed by it."""

from __future__ import annotations

import io
import pickle
from collections import Counter
from textwrap import shorten
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, Literal

from afbs.interfaces import Algorithm, LocalRule
from afbs.seeds import Key
from afbs.types import ClientInfo, Facts, Memory, Order, Step, Update, Vector


class _Pickler(pickle.Pickler):
    """Writes down what values hold; what can only be called, or only looked through, is passed over."""

    def persistent_id(self, value: Any) -> str | None:
        passed = isinstance(value, FunctionType | MethodType | BuiltinFunctionType) or hasattr(value, "sample")
        return "passed over" if passed else None


def _written(value: Any) -> bytes:
    text = io.BytesIO()
    _Pickler(text).dump(value)
    return text.getvalue()


def _same(first: Any, again: Any) -> bool:
    try:
        if first == again:
            return True
    except ValueError:  # arrays do not say whether they are equal
        pass
    return _written(first) == _written(again)


class Watched(Algorithm[Any]):
    """Passes everything on, and counts."""

    def __init__(self, watched: Algorithm[Any]):
        self.watched = watched
        self.holds = watched.holds  # type: ignore[misc]
        self.calls: Counter[str] = Counter()

    def twice(self, method: str, *given: Any) -> Any:
        self.calls[method] += 1
        before = _written(given)
        first = getattr(self.watched, method)(*given)
        after = _written(given)
        again = getattr(self.watched, method)(*given)
        assert before == after, f"`{method}` changed what it was given; it must return new state."
        if not _same(first, again):
            answers = f"{shorten(str(first), 300)}; then {shorten(str(again), 300)}"
            raise AssertionError(f"`{method}` answered differently when it was asked again: {answers}.")
        return first

    @property
    def adds(self) -> bool:
        return self.watched.adds

    @property
    def ships(self) -> Literal["delta", "end"]:
        return self.watched.ships

    @property
    def local(self) -> LocalRule:
        return self.watched.local

    @property
    def awaits(self) -> int:
        return self.watched.awaits

    def init(self, clients: Any) -> Any:
        return self.twice("init", clients)

    def dispatch(self, state: Any, pool: Any, key: Key) -> Any:
        return self.twice("dispatch", state, pool, key)

    def receive(self, state: Any, update: Update, key: Key) -> Any:
        return self.twice("receive", state, update, key)

    def lost(self, state: Any, order: Order) -> Any:
        return self.twice("lost", state, order)

    def wake(self, state: Any) -> Any:
        return self.twice("wake", state)

    def woken(self, state: Any, time: float, key: Key) -> Any:
        return self.twice("woken", state, time, key)

    def stalled(self, state: Any) -> Any:
        return self.twice("stalled", state)

    def joined(self, state: Any, client: ClientInfo) -> Any:
        return self.twice("joined", state, client)

    def weigh(self, used: Any) -> Any:
        return self.twice("weigh", used)

    def begin(self, params: Vector) -> Memory:
        return self.twice("begin", params)  # type: ignore[no-any-return]

    def apply(self, memory: Memory, params: Vector, step: Step, vectors: Any) -> tuple[Memory, Vector]:
        return self.twice("apply", memory, params, step, vectors)  # type: ignore[no-any-return]

    def look(self, memory: Memory, params: Vector, updates: Any, vectors: Any) -> Facts:
        return self.twice("look", memory, params, updates, vectors)  # type: ignore[no-any-return]
