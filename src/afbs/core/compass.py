"""Clients that arrive together: the scheduler of FedCompass (arXiv 2309.14675), as pure functions on a small state.

A client's pace, in seconds a step, is learned from its answers. With it a client is given just so many steps that it
arrives with a group that is expected already; where no group fits, it opens one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import floor, inf
from typing import NamedTuple

from afbs.types import ClientId, Order, Step, Update


class Pace(NamedTuple):
    """Between `least` and `most` steps are given. A group is waited for `slack` times as long as it should take, and
    the latest answer counts for the share `momentum` in a client's pace."""

    least: int
    most: int
    slack: float
    momentum: float


class Group(NamedTuple):
    """`expected` is when its clients should arrive, `latest` when those who have not are waited for no more."""

    expected: float
    latest: float
    awaited: frozenset[ClientId]
    arrived: tuple[Update, ...] = ()


class Groups(NamedTuple):
    """Who is expected when. A client's first job belongs to no group; those who miss their group are `late`."""

    seconds: Mapping[ClientId, float] = {}
    groups: Mapping[int, Group] = {}
    place: Mapping[ClientId, int] = {}
    late: tuple[Update, ...] = ()
    opened: int = 0

    def assign(self, client: ClientId, now: float, pace: Pace) -> tuple[Groups, int]:
        """How many steps a client is given now, and the group that it thereby joins or opens."""
        if client not in self.seconds:
            return self, pace.most
        a_step = self.seconds[client]
        ahead = [(name, group.expected - now) for name, group in self.groups.items() if group.expected > now]
        fits = [(floor(left / a_step), name) for name, left in ahead if pace.least <= left / a_step < pace.most + 1]
        if fits:
            steps, name = max(fits)
            group = self.groups[name]
            return self._with(name, group._replace(awaited=group.awaited | {client}), client), steps
        steps = self._opening(a_step, now, pace)
        group = Group(now + steps * a_step, now + steps * a_step * pace.slack, frozenset([client]))
        return self._with(self.opened, group, client)._replace(opened=self.opened + 1), steps

    def _opening(self, a_step: float, now: float, pace: Pace) -> int:
        """The steps of one who opens a group: so many that the fastest of another could join it on their next turn."""
        found = -1
        for group in self.groups.values():
            if now < group.latest:
                fastest = min(self.seconds[client] for client in group.awaited | {u.client for u in group.arrived})
                steps = floor((group.latest + fastest * pace.most - now) / a_step)
                if steps <= pace.most:
                    found = max(found, steps)
        return pace.most if found < 0 else max(found, pace.least)

    def _with(self, name: int, group: Group, client: ClientId) -> Groups:
        return self._replace(groups={**self.groups, name: group}, place={**self.place, client: name})

    def answered(self, update: Update, pace: Pace) -> tuple[Groups, Step | None]:
        """One arrived: on its own, late, or with its group, which steps once it is complete."""
        order, client = update.order, update.client
        now = (update.time - order.time) / (order.steps or pace.most)
        before = self.seconds.get(client)
        learned = now if before is None else (1 - pace.momentum) * before + pace.momentum * now
        state = self._replace(seconds={**self.seconds, client: learned})
        if client not in self.place:
            return state, Step((update,))
        name = self.place[client]
        group = self.groups[name]
        if update.time > group.latest:
            state, step = state.without(client)
            return state._replace(late=(*state.late, update)), step
        group = group._replace(awaited=group.awaited - {client}, arrived=(*group.arrived, update))
        state = state._replace(groups={**self.groups, name: group})
        return (state, None) if group.awaited else state.step([name])

    def lost(self, order: Order) -> tuple[Groups, Step | None]:
        return self.without(order.client) if order.client in self.place else (self, None)

    def without(self, client: ClientId) -> tuple[Groups, Step | None]:
        """A client is awaited no more; its group may be complete now."""
        name = self.place[client]
        group = self.groups[name]._replace(awaited=self.groups[name].awaited - {client})
        place = {other: known for other, known in self.place.items() if other != client}
        if not group.awaited and not group.arrived:
            rest = {known: other for known, other in self.groups.items() if known != name}
            return self._replace(groups=rest, place=place), None
        state = self._replace(groups={**self.groups, name: group}, place=place)
        return (state, None) if group.awaited else state.step([name])

    def wake(self) -> float | None:
        return min((group.latest for group in self.groups.values() if group.arrived), default=None)

    def due(self, time: float) -> list[int]:
        return [name for name, group in self.groups.items() if group.arrived and group.latest <= time]

    def step(self, names: Sequence[int]) -> tuple[Groups, Step]:
        """What has arrived of these groups, and all who are late. Who is awaited still will be late."""
        used = sorted(
            [*self.late, *(update for name in names for update in self.groups[name].arrived)],
            key=lambda update: update.sequence,
        )
        here = {update.client for update in used}
        groups = {name: group for name, group in self.groups.items() if name not in names}
        for name in names:
            if self.groups[name].awaited:
                groups[name] = Group(-inf, -inf, self.groups[name].awaited)
        place = {client: name for client, name in self.place.items() if client not in here}
        return Groups(self.seconds, groups, place, (), self.opened), Step(tuple(used))
