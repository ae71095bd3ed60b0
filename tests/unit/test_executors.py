"""Both executors keep the same promises; the worker processes also survive what may happen to them."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace

import numpy as np
import pytest
from torch import Tensor

from afbs.clients.workload import Workload
from afbs.core.local import Dynamic
from afbs.executors.inline import Inline
from afbs.executors.processes import Processes, ProcessPool, WorkerError
from afbs.interfaces import Executor, Session
from afbs.types import Evaluate, Evaluated, Fetch, ModelChoice, Order, Shipped, Train, UserError, Vector
from small import Softmax, workload

SIZE = 9


def order(client: int, occurrence: int = 0, sequence: int = 0) -> Order:
    return Order(client, 0, occurrence, sequence, 0.0, rate=0.1)


@contextmanager
def working(executor: Executor, work: Workload) -> Iterator[Session]:
    with closing(executor.start()) as pool, closing(pool.session(work)) as session:
        yield session


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessPool]:
    with closing(Processes(workers=2).start()) as pool:
        yield pool


@pytest.fixture(scope="module")
def processes(pool: ProcessPool) -> Iterator[Session]:
    with closing(pool.session(workload())) as session:
        yield session


@pytest.fixture(params=["inline", "processes"])
def session(request: pytest.FixtureRequest, processes: Session) -> Iterator[Session]:
    if request.param == "processes":
        yield processes
    else:
        with working(Inline(), workload()) as inline:
            yield inline


def everything(session: Session, number: int) -> dict[int, Shipped | Evaluated]:
    done: dict[int, Shipped | Evaluated] = {}
    while len(done) < number:
        done |= {result.task: result for result in session.collect()}
    return done


def alone(work: Workload, given: Order, base: Vector) -> bytes:
    """What this process makes of an order."""
    with working(Inline(), work) as inline:
        slot, row = inline.store.block(1)
        inline.submit(Train(0, given, inline.store.put(base), slot))
        inline.collect()
        return row[0].tobytes()


def test_a_vector_that_was_put_can_be_read_until_it_is_dropped(session: Session) -> None:
    vector = np.arange(SIZE, dtype=np.float32)
    slot = session.store.put(vector)
    vector[:] = -1.0
    assert session.store.get(slot).tolist() == list(range(SIZE))
    assert session.store.peak_bytes >= 4 * SIZE
    session.store.drop(slot)


def test_results_land_in_the_rows_they_were_meant_for(session: Session) -> None:
    initial = session.initial()
    base = session.store.put(initial)
    first, rows = session.store.block(4)
    for client in range(4):
        session.submit(Train(client, order(client), base, first + client))
    done = everything(session, 4)
    assert all(isinstance(result, Shipped) and result.outcome == "done" for result in done.values())
    for client in range(4):
        assert rows[client].tobytes() == alone(workload(), order(client), initial)
    session.store.release(first)
    session.store.drop(base)


def test_evaluations_come_back_with_their_number(session: Session) -> None:
    base = session.store.put(session.initial())
    session.submit(Evaluate(41, base, 0))
    found = everything(session, 1)[41]
    assert isinstance(found, Evaluated)
    assert found.totals["confusion"].sum() == 11
    session.store.drop(base)


def test_nothing_is_collected_when_nothing_is_under_way(session: Session) -> None:
    assert session.collect() == []
    assert session.collect(0.0) == []


def test_there_is_nothing_to_fetch_where_everything_is_trained(session: Session) -> None:
    with pytest.raises(ValueError, match="nowhere to fetch from"):
        session.submit(Fetch(0, order(0), 0))


def test_the_initial_model_is_the_same_everywhere(session: Session) -> None:
    with working(Inline(), workload()) as inline:
        assert session.initial().tobytes() == inline.initial().tobytes()


def test_the_initial_model_stays_what_it_was_when_something_has_been_trained(session: Session) -> None:
    initial = session.initial()
    base = session.store.put(initial)
    first, _ = session.store.block(1)
    session.submit(Train(0, order(0), base, first))
    everything(session, 1)
    assert session.initial().tobytes() == initial.tobytes()
    session.store.release(first)
    session.store.drop(base)


@pytest.mark.parametrize("executor", [Inline(), Processes(workers=2)], ids=["inline", "processes"])
def test_a_client_remembers_what_it_learned_once_its_step_was_applied_and_only_if_it_is_kept(
    executor: Executor,
) -> None:
    work = workload(rule=Dynamic(0.5))

    with working(executor, work) as session:
        initial = session.initial()

    def learned(session: Session, given: Order) -> bytes:
        slot, row = session.store.block(1)
        base = session.store.put(initial)
        session.submit(Train(given.sequence, given, base, slot))
        everything(session, 1)
        found = row[0].tobytes()
        session.store.release(slot)
        session.store.drop(base)
        return found

    with working(executor, work) as session:
        fresh = learned(session, order(1, sequence=0))
        assert not any(vector.any() for vector in session.remembered().values())
        session.settle(order(1, sequence=0), kept=False)
        assert learned(session, order(1, sequence=1)) == fresh
        session.settle(order(1, sequence=1), kept=True)
        remembered = dict(session.remembered())
        assert list(remembered) == [1]
        assert remembered[1].any()
        changed = learned(session, order(1, sequence=2))
        assert changed != fresh
    with working(executor, work) as session:
        session.restore(remembered)
        assert learned(session, order(1, sequence=2)) == changed
        assert learned(session, order(2, sequence=3)) == learned(session, order(2, sequence=4))


def test_a_worker_that_dies_is_replaced_and_its_tasks_are_done(processes: Session, pool: ProcessPool) -> None:
    initial = processes.initial()
    base = processes.store.put(initial)
    victim = pool.workers[0].process
    os.kill(victim.pid, signal.SIGKILL)
    victim.wait()
    first, rows = processes.store.block(4)
    for client in range(4):
        processes.submit(Train(client, order(client), base, first + client))
    assert sorted(everything(processes, 4)) == [0, 1, 2, 3]
    assert [row.tobytes() for row in rows] == [alone(workload(), order(client), initial) for client in range(4)]
    processes.store.release(first)
    processes.store.drop(base)


class Deadly(Softmax):
    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            os._exit(3)
        return super().forward(x)


def test_workers_that_keep_dying_say_what_the_last_one_exited_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("afbs.executors.processes._LIVES", 0)
    with working(Processes(workers=1), changed(Deadly)) as session:
        first, _ = session.store.block(1)
        session.submit(Train(0, order(0), session.store.put(session.initial()), first))
        with pytest.raises(WorkerError, match=r"exit code 3 \(see what it wrote above\)\.$"):
            session.collect()


class Raises(Softmax):
    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            raise ArithmeticError("not today")
        return super().forward(x)


class CannotBeBuilt(Softmax):
    def __init__(self, shape: tuple[int, ...], classes: int):
        raise UserError("`model` does not want to.")


def changed(model: type) -> Workload:
    return replace(workload(), model=ModelChoice(model))


def test_what_training_raises_comes_back_with_its_traceback() -> None:
    with working(Processes(workers=1), changed(Raises)) as session:
        first, _ = session.store.block(1)
        session.submit(Train(0, order(0), session.store.put(session.initial()), first))
        with pytest.raises(WorkerError, match="ArithmeticError: not today"):
            session.collect()


def test_a_users_mistake_in_a_worker_is_a_users_mistake_here_and_leaves_no_process() -> None:
    with closing(Processes(workers=1).start()) as pool, pytest.raises(UserError, match="`model` does not want to"):
        pool.session(changed(CannotBeBuilt))
    assert pool.workers[0].process.returncode is not None


def test_workers_that_were_never_needed_are_gone_at_once() -> None:
    pool = Processes(workers=2).start()
    pool.close()
    pool.close()
    assert [worker.process.returncode for worker in pool.workers] == [-signal.SIGKILL] * 2


def test_more_workers_than_open_files_allow_are_refused_before_any_is_started() -> None:
    allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(allowed, 256), most))
    try:
        with pytest.raises(UserError, match=r"`executor\.workers` = 4096 needs more open files"):
            Processes(workers=4096).start()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, most))
