"""Puts a configuration together: data → clients → transport → plan, and the workload that is trained."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from afbs.clients.workload import Workload
from afbs.config import Config
from afbs.engine.evaluations import Timetable
from afbs.engine.plan import follow, plan, stop_when_lr_below
from afbs.interfaces import Connection, Scene
from afbs.population import Population
from afbs.types import ClientInfo, Event, Facts, Update, UserError, Waiting


def connect(config: Config, clients: Sequence[ClientInfo]) -> Connection:
    return config.transport.connect(Scene(clients, config.latency, config.availability, config.run.seed))


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
        connection = connect(config, clients)
        clients = [client for client in clients if not is_late(config, client)]
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


def is_late(config: Config, client: ClientInfo) -> bool:
    """Whether a simulated client is not there from the beginning."""
    return not config.availability.steady and config.availability.joins(client) > 0


def workload(config: Config, population: Population) -> Workload:
    """What every worker is told once."""
    algorithm = config.algorithm
    if algorithm.looks and algorithm.local.stateful:
        raise UserError("`algorithm`: it cannot look into updates and have clients that remember at the same time.")
    if algorithm.local.stateful and not algorithm.holds:
        raise UserError(
            "`algorithm`: clients that remember must wait for their step (`holds`), or their order is lost."
        )
    return Workload(
        dataset=population.dataset,
        indices=population.split.indices,
        model=config.model,
        training=config.training,
        rule=algorithm.local,
        ships=algorithm.ships,
        seed=config.run.seed,
        device=config.run.device,
    )


def timetable(config: Config) -> Timetable:
    return Timetable(config.evaluation.grid(config.run.horizon), config.evaluation.every)
