"""The deciding half of a run: the order of events, by metadata alone.

    1. The plan is told an instant.
    2. Everything that arrived in it is received, one update at a time; what was lost is reported; whoever came back
       or joined is idle again; then the algorithm is woken, if this is the moment it asked for. A step is taken the
       moment an algorithm asks for it.
    3. Only then is the algorithm asked, once, whom to dispatch, from the version that now exists.
    4. If nobody is under way and nobody was dispatched, the algorithm may step with what it has; if that does not
       help, the run has stalled and ends.

The plan does nothing itself: it says what was decided, waits to be told what happened, and is pure between the two.
It alone owns the version, the clock and the counters. What it says is enough to decide everything again.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from math import inf, nextafter
from operator import attrgetter
from typing import Any

from afbs.engine.answers import (
    checked_ask,
    checked_extras,
    checked_list,
    checked_moment,
    checked_weights,
    pair,
    wrong,
    wrong_step,
)
from afbs.engine.pool import IdleClients
from afbs.interfaces import Algorithm, Connection
from afbs.seeds import Key
from afbs.types import (
    Arrived,
    ClientId,
    ClientInfo,
    Decided,
    Dispatched,
    Event,
    Facts,
    Instant,
    Joined,
    Left,
    Looked,
    Lost,
    Order,
    Returned,
    RunError,
    Step,
    Stopped,
    Training,
    Update,
    Waiting,
    Woken,
)

_ARRIVAL = attrgetter("sequence")
"""In this order clients are idle again, so that what a step drops changes nothing about who is drawn after it."""

Plan = Generator[Event | Waiting, Instant | None, None]


def plan(
    algorithm: Algorithm[Any],
    clients: Sequence[ClientInfo],
    reachable: Callable[[ClientId], bool],
    *,
    in_flight: int,
    horizon: float,
    seed: int,
    rate: Callable[[int, float], float],
    versions: int = 0,
    look: Callable[[Sequence[Update]], Facts] | None = None,
) -> Plan:
    """Everything that happens until `horizon`, or until there are so many versions.

    At `Waiting` it must be sent the next instant, or None if there will be none.
    """
    sampling = Key.root(seed, "sample").digest
    selection = Key.root(seed, "select").digest
    examples = {client.id: client.examples for client in clients}
    occurrences = dict.fromkeys(examples, 0)
    idle = IdleClients((client.id for client in clients if client.examples > 0), in_flight, reachable)
    state = algorithm.init(clients)
    holds = algorithm.holds
    receive = algorithm.receive
    waiting: dict[int, Update] = {}
    looked: list[Facts] = []
    version = arrivals = orders = asked = 0
    time = 0.0
    to_the_end = Waiting(horizon)
    key = Key(selection, (version,))

    def decided(method: str, step: Step) -> Decided:
        nonlocal version, key
        try:
            used, dropped, notes, _, why = step
            taken = used + dropped
            for update in taken:
                del waiting[update.sequence]
        except (TypeError, ValueError, AttributeError, KeyError):
            raise wrong_step(algorithm, method, step) from None
        if not taken:
            raise wrong_step(algorithm, method, step)
        if notes or why:
            checked_extras(algorithm, method, step)
        version += 1
        idle.version = version
        key = Key(selection, (version,))
        if holds:
            for update in sorted(taken, key=_ARRIVAL):
                idle.add(update.client)
        weights = checked_weights(algorithm, algorithm.weigh(used), len(used))
        return Decided(time, version, Step(used, dropped, notes, weights, why))

    def heard(method: str, answer: tuple[Any, Step | None]) -> Step | None:
        nonlocal state
        if type(answer) is not tuple or len(answer) != 2:
            raise pair(algorithm, method, answer, "a step or None")
        state, step = answer
        return step

    def asked_to_look(updates: Sequence[Update]) -> Facts:
        assert look is not None
        looked.append(look(updates))
        return looked[-1]

    seeing = asked_to_look if look is not None else None
    new = tuple.__new__  # half the time of calling the class, four times an arrival

    while True:
        if versions and version >= versions:
            yield Stopped(time, "versions")
            return
        choice = algorithm.dispatch(state, idle, Key(sampling, (asked,)))
        if type(choice) is not tuple or len(choice) != 2:
            raise pair(algorithm, "dispatch", choice, "a list of clients")
        state, chosen = choice
        asked += 1
        if idle.gone:
            for client in idle.let_go():
                yield Left(time, client)
        for ask in chosen if type(chosen) is list else checked_list(algorithm, chosen):
            client, epochs, steps = (ask, 0, 0) if type(ask) is int else checked_ask(algorithm, ask)
            if not idle.remove(client):
                raise _not_idle(algorithm, client, examples)
            what = (client, version, occurrences[client], orders, time, rate(version, time), epochs, steps)
            order = new(Order, what)
            occurrences[client] += 1
            orders += 1
            idle.busy += 1
            yield new(Dispatched, (time, order))

        if not idle.busy:
            step = heard("stalled", algorithm.stalled(state))
            if step is not None:
                yield decided("stalled", step)
                continue

        alarm = algorithm.wake(state)
        pause = to_the_end
        if alarm is not None:
            alarm = max(checked_moment(algorithm, alarm), nextafter(time, inf))
            if alarm <= horizon:
                pause = Waiting(alarm)
        instant = yield pause
        if instant is None:
            if pause is to_the_end:
                if waiting and holds and not idle.busy:
                    kept = f"{len(waiting)} updates that were neither used nor dropped"
                    raise wrong(algorithm, "receive", f"keeps {kept}: their clients wait, and nobody is left to ask.")
                yield Stopped(time, "stalled")
                return
            instant = Instant(pause.until)
        elif instant.time >= horizon and (instant.time > horizon or (instant.quiet and pause is to_the_end)):
            yield Stopped(horizon, "horizon")
            return
        elif instant.time <= time:
            raise RunError(f"The transport reported {instant.time!r} s after {time!r} s; time must go on.")
        time, delivered, failed, returned, joined = instant
        idle.time = time
        for order in delivered:
            client = order.client
            idle.busy -= 1
            update = new(Update, (order, version, examples[client], arrivals, time, seeing))
            waiting[arrivals] = update
            arrivals += 1
            if not holds:
                idle.add(client)
            yield new(Arrived, (time, update))
            answer = receive(state, update, key)
            if type(answer) is not tuple or len(answer) != 2:
                raise pair(algorithm, "receive", answer, "a step or None")
            state, step = answer
            if looked:
                for facts in looked:
                    yield Looked(time, update, facts)
                looked.clear()
            if step is not None:
                yield decided("receive", step)
        for order in failed:
            idle.busy -= 1
            idle.add(order.client)
            yield Lost(time, order)
            step = heard("lost", algorithm.lost(state, order))
            if step is not None:
                yield decided("lost", step)
        for client in returned:
            idle.add(client)
            yield Returned(time, client)
        for info in joined:
            state = algorithm.joined(state, info)
            if info.id not in examples and info.examples > 0:
                idle.add(info.id)
                occurrences[info.id] = 0
            examples[info.id] = info.examples
            yield Joined(time, info)
        if alarm is not None and time >= alarm:
            alarm = algorithm.wake(state)
            if alarm is not None and alarm <= time:
                yield Woken(time)
                step = heard("woken", algorithm.woken(state, time, key))
                if step is not None:
                    yield decided("woken", step)
                again = algorithm.wake(state)
                if again is not None and again <= time:
                    moment = f"{again:g} s, though it was woken at {time:g} s"
                    raise wrong(
                        algorithm, "wake", f"asks for {moment}: `woken` must change the state, or it never ends."
                    )


def follow(events: Plan, connection: Connection) -> Iterator[Event | Waiting]:
    """What a plan says, while its orders are carried out and it is told what happens.

    An order is sent when the reader asks for what comes after it, so it can be written down before. In real time a
    connection returns now and then though nothing happened: then the reader gets `Waiting`, until what is now. An
    answer to an order that nobody gave, or a second answer, is not passed on; nor is a return of someone who had not
    left.
    """
    out: set[int] = set()
    away: set[ClientId] = set()
    event = next(events, None)
    while event is not None:
        kind = type(event)
        if kind is Waiting:
            until = event.until  # type: ignore[union-attr]
            instant = connection.receive(until)
            if instant is not None:
                time, delivered, failed, returned, joined = instant
                if len(delivered) == 1 and not (failed or returned or joined) and delivered[0].sequence in out:
                    out.remove(delivered[0].sequence)  # as nearly always
                else:
                    instant = _expected(instant, out, away)
                    if time < until and instant.quiet:
                        yield Waiting(time)
                        continue
            try:
                event = events.send(instant)
            except StopIteration:
                return
            continue
        yield event
        if kind is Dispatched:
            order = event.order  # type: ignore[union-attr]
            out.add(order.sequence)
            connection.send(order)
        elif kind is Left:
            away.add(event.client)  # type: ignore[union-attr, arg-type]
            connection.watch(event.client)  # type: ignore[union-attr, arg-type]
        event = next(events, None)


def _expected(instant: Instant, out: set[int], away: set[ClientId]) -> Instant:
    """Each order that is out once, each client that is away once, and nobody else; they are so no longer."""
    delivered = {order.sequence: order for order in instant.delivered if order.sequence in out}
    out.difference_update(delivered)
    failed = {order.sequence: order for order in instant.failed if order.sequence in out}
    out.difference_update(failed)
    returned = [client for client in dict.fromkeys(instant.returned) if client in away]
    away.difference_update(returned)
    return Instant(instant.time, [*delivered.values()], [*failed.values()], returned, instant.joined)


def stop_when_lr_below(
    events: Iterator[Event | Waiting], training: Training, least: float
) -> Iterator[Event | Waiting]:
    """The same events, cut off after the step from which on clients would train with a smaller learning rate."""
    for event in events:
        yield event
        if isinstance(event, Decided) and training.rate(event.version, event.time) < least:
            yield Stopped(event.time, "learning rate")
            return


def _not_idle(algorithm: Algorithm[Any], client: ClientId, known: dict[ClientId, int]) -> Exception:
    state = "has work to do or waits for a step" if client in known else "does not exist"
    advice = "dispatch only whom `pool` offers"
    return wrong(algorithm, "dispatch", f"asks client {client}, who {state} or cannot be reached: {advice}.")
