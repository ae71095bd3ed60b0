"""What a local rule adds to the gradients of one job.

A rule is arithmetic, number by number. So in a table of embeddings a row to which it adds nothing at first, and which
no sample has used, is as it was: steps leave such rows out, which are most of a large vocabulary. What remains is
computed as if nothing were left out, to the last bit.
"""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor

from afbs.interfaces import LocalRule


@final
class Pull:
    """A rule that adds something, the model that a job began with and what its client remembers; for all parameters,
    or a stretch of them."""

    def __init__(self, rule: LocalRule, start: Tensor, state: Tensor | None):
        self._rule, self._start, self._state = rule, start, state

    def at(self, params: Tensor) -> Tensor:
        return _term(self._rule, params, self._start, self._state)

    def over(self, first: int, end: int) -> Pull:
        """The same for a part of the stretch."""
        return Pull(self._rule, self._start[first:end], None if self._state is None else self._state[first:end])

    def rows(self, table: Tensor) -> MovingRows:
        """The same for a table whose rows are mostly left alone."""
        state = None if self._state is None else self._state.view(table.shape)
        return MovingRows(self._rule, table, self._start.view(table.shape), state)


@final
class MovingRows:
    """Those rows of a table that a job has moved or will move by its rule alone; they only become more."""

    def __init__(self, rule: LocalRule, table: Tensor, start: Tensor, state: Tensor | None):
        self._rule, self._table, self._start, self._state = rule, table, start, state
        self._place = torch.full((len(table),), -1, device=table.device)
        self._moving = torch.empty(0, dtype=torch.int64, device=table.device)
        self._began, self._known = start[:0], None if state is None else state[:0]
        self._join(_term(rule, table, start, state).any(1).nonzero()[:, 0])

    def descend(self, gradient: Tensor | None, rate: float) -> None:
        """One step of SGD along the gradient, which is sparse, and the rule's term."""
        if gradient is not None:
            used = gradient._indices()[0]
            self._join(used[self._place[used] < 0].unique())
        params = self._table.index_select(0, self._moving)
        slope = torch.zeros_like(params)
        if gradient is not None:
            slope.index_add_(0, self._place[used], gradient._values())
        slope.add_(_term(self._rule, params, self._began, self._known))
        self._table.index_copy_(0, self._moving, params.add_(slope, alpha=-rate))

    def _join(self, rows: Tensor) -> None:
        if not len(rows):
            return
        number = len(self._moving)
        self._place[rows] = torch.arange(number, number + len(rows), device=rows.device)
        self._moving = torch.cat([self._moving, rows])
        self._began = torch.cat([self._began, self._start.index_select(0, rows)])
        if self._known is not None and self._state is not None:
            self._known = torch.cat([self._known, self._state.index_select(0, rows)])


def _term(rule: LocalRule, params: Tensor, start: Tensor, state: Tensor | None) -> Tensor:
    term: Tensor | None = rule.gradient(params, start, state)
    assert term is not None  # a rule adds something or never does
    return term
