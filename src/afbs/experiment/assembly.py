"""Puts a configuration together: data → clients → transport → plan, and the workload that is trained."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import ceil

from afbs.clients.batches import steps_of
from afbs.clients.workload import Workload
from afbs.config import Config
from afbs.engine.evaluations import Subject, Timetable
from afbs.engine.plan import follow, plan, stop_when_lr_below
from afbs.interfaces import Connection, Plain, Scene
from afbs.population import Population
from afbs.tasks import on_clients, on_test_set
from afbs.types import ClientInfo, Event, Facts, Order, Update, UserError, Waiting


def connect(config: Config, clients: Sequence[ClientInfo]) -> Connection:
    training, examples = config.training, {client.id: client.examples for client in clients}

    def work(order: Order) -> float:
        usual = order._replace(steps=0, epochs=0)
        asked, normal = (steps_of(each, training, examples[each.client]) for each in (order, usual))
        return asked / normal

    scene = Scene(clients, config.latency, config.availability, config.run.seed, work)
    connection = config.transport.connect(scene)
    if not connection.ahead:
        raise UserError(
            f"`transport.name` = {config.tables['transport']['name']!r} keeps real time (its connection's `ahead` is "
            "False), and a simulation is read ahead. Real clients are served by `afbs.serve`: docs/design.md, "
            '"Writing a transport".'
        )
    return connection


def schedule(
    config: Config,
    clients: Sequence[ClientInfo],
    connection: Connection | None = None,
    look: Callable[[Sequence[Update]], Facts] | None = None,
) -> Iterator[Event | Waiting]:
    """The plan of a run, by metadata alone, as its connection makes it go.

    Without a connection it is simulated, and `clients` are all there will ever be; else those there are at first.
    """
    if connection is None:
        connection, clients = connect(config, clients), at_first(config, clients)
    decisions = plan(
        config.algorithm,
        clients,
        connection.reachable,
        in_flight=config.run.in_flight,
        horizon=config.run.horizon,
        seed=config.run.seed,
        rate=config.training.rate,
        versions=config.run.versions,
        look=look,
    )
    events = follow(decisions, connection)
    least = config.run.stop_when_lr_below
    return stop_when_lr_below(events, config.training, least) if least else events


def at_first(config: Config, clients: Sequence[ClientInfo]) -> Sequence[ClientInfo]:
    """The simulated clients that are there from the beginning."""
    return [client for client in clients if not is_late(config, client)]


def is_late(config: Config, client: ClientInfo) -> bool:
    """Whether a simulated client is not there from the beginning."""
    return not config.availability.steady and config.availability.joins(client) > 0


def check_training(config: Config) -> None:
    """A training function takes its own steps: it would leave out what the algorithm adds to each. And a client
    remembers one thing at most, and only where it waits for the step that decides whether it may."""
    algorithm, training, rule = config.algorithm, config.training, config.algorithm.local
    if training.remember and (rule.stateful or training.function):
        other = "a training function of your own" if training.function else "what the algorithm has clients remember"
        raise UserError(f"`training.remember` = true is for the built-in training, and not with {other}.")
    if algorithm.looks and (rule.stateful or training.remember):
        raise UserError("`algorithm`: it cannot look into updates and have clients that remember at the same time.")
    if (rule.stateful or training.remember) and not algorithm.holds:
        raise UserError(
            "`algorithm`: clients that remember must wait for their step (`holds`), or their order is lost."
        )
    if training.function and not isinstance(rule, Plain):
        raise UserError(
            f"`training.function`: clients of {config.tables['algorithm']['name']!r} add a term to every gradient "
            f"({type(rule).__name__}), which a training function of your own would leave out. Algorithms such as "
            "'afbs', 'fedbuff' and 'fedavg' add none."
        )


def workload(config: Config, population: Population) -> Workload:
    """What every worker is told once."""
    algorithm = config.algorithm
    check_training(config)
    return Workload(
        dataset=population.dataset,
        indices=population.split.indices,
        model=config.model,
        training=config.training,
        rule=algorithm.local,
        ships=algorithm.ships,
        seed=config.run.seed,
        device=config.run.device,
        task=config.task,
        held=population.held,
    )


def tested(config: Config, work: Workload) -> Subject:
    """The test set, when it is looked at, and what comes of it."""
    table = Timetable(config.evaluation.grid(config.run.horizon), config.evaluation.every)
    return Subject("eval", table, work.evaluation_parts, on_test_set(config.task))


def subjects(config: Config, work: Workload) -> list[Subject]:
    """Everything that models are tested on."""
    found = [tested(config, work)]
    if any(len(chosen) for chosen in work.held):
        found.append(held_out(config, work.client_parts))
    return found


def held_out(config: Config, parts: int) -> Subject:
    """What the clients hold out: looked at at moments of the run's time, or of its versions where they end it."""
    points, versions = config.evaluation.held_out_points, config.run.versions
    table = (
        Timetable([0.0], ceil(versions / points))
        if versions
        else Timetable(config.evaluation.client_grid(config.run.horizon))
    )
    return Subject("clients", table, parts, on_clients(config.task))
