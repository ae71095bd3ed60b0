"""What every algorithm must keep to, for those who write their own."""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Callable
from math import inf
from typing import Any

from afbs.interfaces import Algorithm, Availability
from afbs.record.lines import line_of
from afbs.seeds import Key
from afbs.testing._algorithm_case import Case, WithLateClients, anew
from afbs.testing._algorithm_vectors import COMPUTING
from afbs.testing._algorithm_watched import Watched
from afbs.testing.federation import Losses, Outcome, happens
from afbs.transports.replay import Replay
from afbs.types import Arrived, ClientInfo, Decided, Dispatched, Facts, Lost, Stopped, UserError


def check_algorithm(algorithm: Algorithm[Any], *, seconds: float = 1.0) -> None:
    """Raises AssertionError with a sentence if an algorithm breaks a promise of `afbs.interfaces.Algorithm`.

    It is tried in a small federation of plain numpy. A job there takes 1 to 20 times `seconds`: more for an algorithm
    that waits for hours, and steps nowhere in a few minutes.
    """
    case = Case.of(algorithm, seconds)
    for check in (*DECIDING, *COMPUTING):
        try:
            check(case)
        except UserError as error:
            raise AssertionError(str(error)) from error
        except AssertionError:
            raise
        except Exception as error:
            raise AssertionError(f"{type(error).__name__}, when {check.__doc__}: {error}.") from error


def _settings(case: Case) -> None:
    """its settings were read"""
    kind = type(case.algorithm)
    frozen = getattr(getattr(kind, "__dataclass_params__", None), "frozen", False)
    assert frozen, f"`{kind.__name__}` must be a frozen dataclass: `@dataclass(frozen=True)`."
    assert anew(case.algorithm) == case.algorithm, "It is another one when it is made again from its settings."


def _pure(case: Case) -> None:
    """every method was called twice, a client joined late and some were lost"""
    watched = Watched(case.algorithm)
    late = ClientInfo(case.number, 7, cluster=4)
    connection = WithLateClients(case.world.clients, late, case.latency(longest=9))
    events = case.run(watched, horizon=200, in_flight=case.in_flight, connection=connection).events
    assert watched.calls["joined"] == 2, "`joined` was never called."  # a mistake of ours
    heard = {event.update.client for event in events if isinstance(event, Arrived)}
    assert late.id in heard, f"A client that joined late was never asked in {200 * case.seconds:g} s."


def _deterministic(case: Case) -> None:
    """it was run again with the same seed"""
    for seed in (1, 2):
        first = case.run(seed=seed, availability=Losses(0.2))
        again = case.run(anew(case.algorithm), seed=seed, availability=Losses(0.2))
        differs = next((i for i, (a, b) in enumerate(zip(_told(first), _told(again), strict=False)) if a != b), None)
        when = "" if differs is None else f": first {first.events[differs]}, then {again.events[differs]}"
        assert _told(first) == _told(again), f"With the same seed it decided differently{when}."


def _told(outcome: Outcome) -> list[dict[str, Any]]:
    return [line_of(event) for event in outcome.events]


def _undisturbed(case: Case) -> None:
    """nobody was lost"""
    _follow_the_books(case.run(), case, least=5)


def _some_lost(case: Case) -> None:
    """three in ten jobs were lost"""
    _follow_the_books(case.run(availability=Losses(0.3)), case, least=5)


def _all_lost(case: Case) -> None:
    """everybody was lost at first"""
    availability = Losses(1.0, until=60 * case.seconds)
    _follow_the_books(case.run(horizon=200, availability=availability), case, least=4)


def _follow_the_books(outcome: Outcome, case: Case, least: int) -> None:
    """Versions count up by one; every update is used or dropped once, and none waits much longer than jobs take."""
    arrived: dict[int, float] = {}
    spent: set[int] = set()
    busy: set[int] = set()
    version = 0
    for event in outcome.events:
        match event:
            case Dispatched(_, order):
                assert order.client not in busy, f"Client {order.client} was asked while it had work to do."
                busy.add(order.client)
            case Lost(_, order):
                busy.remove(order.client)
            case Arrived(_, update):
                busy.remove(update.client)
                arrived[update.sequence] = update.time
            case Decided(_, new, step):
                assert new == version + 1, f"Version {new} follows version {version}."
                version = new
                taken = [update.sequence for update in (*step.used, *step.dropped)]
                assert len(taken) == len(set(taken)), f"Step {version} takes an update twice."
                assert spent.isdisjoint(taken), f"Step {version} takes an update that an earlier one has taken."
                spent.update(taken)
                assert len(step.weights) == len(step.used), f"Step {version} has not a weight for each update."
    ended = outcome.events[-1]
    assert isinstance(ended, Stopped), f"The run ended with {type(ended).__name__}."
    assert ended.reason == "horizon", f"The run came to a standstill at {ended.time:g} s: {ended.reason}."
    patience = ended.time - 60 * case.seconds
    left = [number for number, time in arrived.items() if time < patience and number not in spent]
    assert not left, f"Of the updates that arrived long before the end, {len(left)} were neither used nor dropped."
    assert version >= least, f"There were only {version} steps in {ended.time:g} s; jobs take {case.jobs}."


@dataclasses.dataclass(frozen=True)
class _OnlyOneLives(Losses):
    """Every job of every client but client 2 is lost."""

    def vanishes(self, client: ClientInfo, start: float, finish: float, key: Key) -> float | None:
        return None if client.id == 2 else super().vanishes(client, start, finish, key)


def _one_lives(case: Case) -> None:
    """everybody but one was lost for a while"""
    availability = _OnlyOneLives(1.0, until=200 * case.seconds)
    outcome = case.run(in_flight=case.number, horizon=400, availability=availability)
    _follow_the_books(outcome, case, least=1)
    late = [event for event in outcome.events if isinstance(event, Decided) and event.time > 300 * case.seconds]
    assert late, "It never stepped again after everybody but one client had been lost for a while."


@dataclasses.dataclass(frozen=True)
class _Gone(Availability):
    """After a while nobody but client 2 can be reached any more."""

    after: float

    def back(self, client: ClientInfo, time: float, key: Key) -> float:
        return time if client.id == 2 or time < self.after else inf

    def vanishes(self, client: ClientInfo, start: float, finish: float, key: Key) -> None:
        return None


def _one_left(case: Case) -> None:
    """nobody but one client could be reached any more"""
    outcome = case.run(horizon=300, availability=_Gone(30 * case.seconds))
    stopped = outcome.events[-1]
    assert stopped == Stopped(300 * case.seconds, "horizon"), (
        f"With one client left the run came to a standstill at {stopped.time:g} s: "
        "`stalled` must step with what there is."
    )
    late = [e.step for e in outcome.events if isinstance(e, Decided) and e.time > 100 * case.seconds]
    assert late, "With one client left it never stepped again."


def _alone(case: Case) -> None:
    """there was one client in all"""
    alone = case.alone()
    outcome = case.run(world=alone, in_flight=1, horizon=400)
    _follow_the_books(outcome, case, least=5)
    far = [float(abs(alone.gradient(0, model)).max()) for model in outcome.models]
    assert far[-1] < far[0], f"One client alone got no nearer to its optimum: its slope was {far[0]}, is {far[-1]}."


def _empty(case: Case) -> None:
    """one client had no examples"""
    clients = [dataclasses.replace(case.world.clients[0], examples=0), *case.world.clients[1:]]
    outcome = case.run(world=dataclasses.replace(case.world, clients=clients), in_flight=case.number)
    assert 0 not in {order.client for order in outcome.orders}, "A client without examples was asked."


def _from_the_record(case: Case) -> None:
    """it was decided again from the record alone"""
    from afbs.engine.witness import Witness

    outcome = case.run(availability=Losses(0.2))
    lines = [json.loads(json.dumps(line)) for line in _told(outcome)]
    witness = Witness(lines)
    facts = witness.facts()

    def look(updates: object) -> Facts:
        assert facts, "It looks at more than it did when it was recorded."
        return facts.popleft()

    again = happens(
        anew(case.algorithm),
        case.world.clients,
        Replay(lines),
        in_flight=case.in_flight,
        horizon=150 * case.seconds,
        seed=4,
        look=look,
    )
    for event in again:
        if witness.done or isinstance(event, Stopped):
            break
        try:
            witness.see(event)
        except UserError as error:
            raise AssertionError(f"Decided again from the record alone, it decides otherwise. {error}") from error
    assert witness.done, "Decided again from its record, the run ends before its record does."


def _copied(case: Case) -> None:
    """a copy of it was run"""
    assert _told(case.run(copy.deepcopy(case.algorithm))) == _told(case.run()), "A copy of it decides differently."


DECIDING: tuple[Callable[[Case], None], ...] = (
    _settings,
    _undisturbed,
    _pure,
    _deterministic,
    _copied,
    _some_lost,
    _all_lost,
    _one_lives,
    _one_left,
    _alone,
    _empty,
    _from_the_record,
)
