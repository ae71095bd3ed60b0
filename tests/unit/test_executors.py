"""Both executors keep the same promises; the worker processes also survive what may happen to them."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from torch import Tensor

from afbs.clients.workload import Workload
from afbs.engine.executors.inline import Inline
from afbs.engine.executors.processes import Processes, Staff, WorkerError
from afbs.interfaces import Executor
from afbs.types import Evaluated, Job, ModelChoice, Trained, UserError
from small import Softmax, workload

SIZE = 9


@pytest.fixture(scope="module")
def processes() -> Iterator[Processes]:
    executor = Processes(workload(), Staff(2))
    yield executor
    executor.close()


@pytest.fixture(params=["inline", "processes"])
def executor(request: pytest.FixtureRequest, processes: Processes) -> Iterator[Executor]:
    if request.param == "processes":
        yield processes
    else:
        inline = Inline(workload())
        yield inline
        inline.close()


def everything(executor: Executor, number: int) -> dict[int, Trained | Evaluated]:
    done: dict[int, Trained | Evaluated] = {}
    while len(done) < number:
        done |= {result.task: result for result in executor.collect()}
    return done


def test_a_published_vector_can_be_read_until_it_is_retired(executor: Executor) -> None:
    slot = executor.publish(np.arange(SIZE, dtype=np.float32))
    assert executor.read(slot).tolist() == list(range(SIZE))
    executor.retire(slot)


def test_results_land_in_the_rows_they_were_meant_for(executor: Executor) -> None:
    initial = executor.initial()
    base = executor.publish(initial)
    first, rows = executor.block(4)
    for client in range(4):
        executor.train(client, Job(client, 0, 0.1), base, first + client)
    done = everything(executor, 4)
    assert all(isinstance(result, Trained) and result.finite for result in done.values())
    alone = Inline(workload())
    for client in range(4):
        slot, row = alone.block(1)
        alone.train(client, Job(client, 0, 0.1), alone.publish(initial), slot)
        alone.collect()
        assert rows[client].tobytes() == row[0].tobytes()
    alone.close()
    executor.release(first)
    executor.retire(base)


def test_evaluations_come_back_with_their_number(executor: Executor) -> None:
    base = executor.publish(executor.initial())
    executor.evaluate(41, base, 0)
    found = everything(executor, 1)[41]
    assert isinstance(found, Evaluated)
    assert found.confusion.sum() == 11
    executor.retire(base)


def test_nothing_is_collected_when_nothing_is_under_way(executor: Executor) -> None:
    assert executor.collect() == []


def test_the_initial_model_is_the_same_everywhere(executor: Executor) -> None:
    alone = Inline(workload())
    assert executor.initial().tobytes() == alone.initial().tobytes()
    alone.close()


def test_a_worker_that_dies_is_replaced_and_its_tasks_are_done(processes: Processes) -> None:
    base = processes.publish(processes.initial())
    victim = processes._staff.workers[0].process
    os.kill(victim.pid, signal.SIGKILL)
    victim.wait()
    first, _ = processes.block(4)
    for client in range(4):
        processes.train(client, Job(client, 0, 0.1), base, first + client)
    assert sorted(everything(processes, 4)) == [0, 1, 2, 3]
    processes.release(first)
    processes.retire(base)


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
    executor = Processes(changed(Raises), Staff(1))
    try:
        first, _ = executor.block(1)
        executor.train(0, Job(0, 0, 0.1), executor.publish(executor.initial()), first)
        with pytest.raises(WorkerError, match="ArithmeticError: not today"):
            executor.collect()
    finally:
        executor.close()


def test_a_users_mistake_in_a_worker_is_a_users_mistake_here_and_leaves_no_process() -> None:
    staff = Staff(1)
    with pytest.raises(UserError, match="`model` does not want to"):
        Processes(changed(CannotBeBuilt), staff)
    assert staff.workers[0].process.returncode is not None


def test_workers_that_were_never_needed_are_gone_at_once() -> None:
    staff = Staff(2)
    staff.close()
    staff.close()
    assert [worker.process.returncode for worker in staff.workers] == [-signal.SIGKILL] * 2
