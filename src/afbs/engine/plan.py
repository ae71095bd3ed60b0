"""The deciding half of a run: the order of events, by metadata alone.

    1. The transport reports an instant.
    2. Everything that arrived in it is received, one update at a time; what was lost is reported; whoever came back
       or joined is idle again. A step is taken the moment an algorithm asks for it.
    3. Only then is the algorithm asked, once, whom to dispatch, from the version that now exists.
    4. If nobody is under way and nobody was dispatched, the algorithm may step with what it has; if that does not
       help, the run has stalled and ends.

The engine alone owns the version, the clock and the counters. Nothing here knows what a vector is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import Any

from afbs.engine.pool import IdleClients
from afbs.interfaces import Algorithm, Transport
from afbs.seeds import Key
from afbs.types import (
    Arrived,
    ClientInfo,
    Decided,
    Dispatched,
    Event,
    Lost,
    Order,
    Step,
    Stopped,
    Training,
    Update,
    Vector,
)

_ARRIVAL = attrgetter("sequence")
"""In this order clients are idle again, so that what a step drops changes nothing about who is drawn after it."""


def plan(
    algorithm: Algorithm[Any],
    clients: Sequence[ClientInfo],
    transport: Transport,
    *,
    in_flight: int,
    horizon: float,
    seed: int,
    content: Callable[[Order], Vector] | None = None,
) -> Iterator[Event]:
    """Everything that happens until `horizon`, in order. Lazy: it is decided no further than it is read."""
    sampling = Key.root(seed, "sample").digest
    selection = Key.root(seed, "select").digest
    examples = {client.id: client.examples for client in clients}
    occurrences = dict.fromkeys(examples, 0)
    idle = IdleClients((client.id for client in clients if client.examples > 0), in_flight, transport.reachable)
    state = algorithm.init(clients)
    version = arrivals = orders = asked = 0
    time = 0.0
    key = Key(selection, (version,))

    def decided(step: Step) -> Decided:
        nonlocal version, key
        version += 1
        key = Key(selection, (version,))
        if algorithm.holds:
            for update in sorted(step.used + step.dropped, key=_ARRIVAL):
                idle.add(update.client)
        return Decided(time, version, step._replace(weights=algorithm.weigh(step.used)))

    while True:
        state, chosen = algorithm.dispatch(state, idle, Key(sampling, (asked,)))
        asked += 1
        for client in chosen:
            idle.remove(client)
            order = Order(client, version, occurrences[client], orders, time)
            occurrences[client] += 1
            orders += 1
            idle.busy += 1
            transport.send(order)
            yield Dispatched(time, order)

        if not idle.busy:
            state, step = algorithm.stalled(state)
            if step is not None:
                yield decided(step)
                continue

        instant = transport.receive()
        if instant is None:
            yield Stopped(time, "stalled")
            return
        if instant.time > horizon:
            yield Stopped(horizon, "horizon")
            return
        time = instant.time
        for order in instant.delivered:
            client = order.client
            idle.busy -= 1
            update = Update(order, version, examples[client], arrivals, content)
            arrivals += 1
            if not algorithm.holds:
                idle.add(client)
            yield Arrived(time, update)
            state, step = algorithm.receive(state, update, key)
            if step is not None:
                yield decided(step)
        for order in instant.failed:
            idle.busy -= 1
            idle.add(order.client)
            yield Lost(time, order)
            state, step = algorithm.lost(state, order.client)
            if step is not None:
                yield decided(step)
        for client in instant.returned:
            idle.add(client)
        for info in instant.joined:
            state = algorithm.joined(state, info)
            if info.id not in examples and info.examples > 0:
                idle.add(info.id)
                occurrences[info.id] = 0
            examples[info.id] = info.examples


def stop_when_lr_below(events: Iterator[Event], training: Training, least: float) -> Iterator[Event]:
    """The same events, cut off after the step from which on clients would train with a smaller learning rate."""
    for event in events:
        yield event
        if isinstance(event, Decided) and training.rate(event.version, event.time) < least:
            yield Stopped(event.time, "learning rate")
            return
