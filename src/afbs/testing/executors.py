"""What every executor must keep to, for those who write their own."""

from __future__ import annotations

from contextlib import closing

import numpy as np
from torch import Tensor, nn

from afbs.clients.workload import Workload
from afbs.core.local import Dynamic
from afbs.executors.inline import Inline
from afbs.interfaces import Executor, LocalRule, Plain, Session
from afbs.types import Dataset, Evaluate, Evaluated, ModelChoice, Order, Shipped, Train, Training, Vector

_CLIENTS = 4


class Softmax(nn.Module):
    """One dense layer."""

    def __init__(self, shape: tuple[int, ...], classes: int):
        super().__init__()
        self.dense = nn.Linear(shape[0], classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.dense(x)  # type: ignore[no-any-return]


def check_executor(executor: Executor) -> None:
    """Raises AssertionError with a sentence if an executor breaks a promise of `afbs.interfaces`.

    What it computes must be what `inline` computes, bit for bit.
    """
    assert type(executor.number) is int, f"`number` must be a property that is a whole number, got {executor.number!r}."
    with closing(executor.start()) as pool, closing(pool.session(_workload(Plain()))) as session:
        _check_store(session)
        _check_training(session, Plain())
        _check_evaluation(session)
        assert session.collect(0.0) == [], "`collect` returned something though nothing was under way."
    with closing(executor.start()) as pool, closing(pool.session(_workload(Dynamic(0.1)))) as session:
        _check_memory(session)
    pool.close()
    pool.close()


def _check_store(session: Session) -> None:
    store, size = session.store, len(session.initial())
    vector = np.arange(size, dtype=np.float32)
    slot = store.put(vector)
    vector[:] = 0
    assert store.get(slot).tolist() == list(range(size)), "`put` must keep a copy."
    first, rows = store.block(3)
    assert rows.shape == (3, size), f"A block of 3 has the shape {rows.shape}, not {(3, size)}."
    rows[1] = 7.0
    assert (store.get(first + 1) == 7.0).all(), "Row 1 of a block is not in the slot after its first."
    store.release(first)
    store.drop(slot)
    assert store.peak_bytes >= 4 * 4 * size, "`peak_bytes` is less than four vectors that were there at once."


def _check_training(session: Session, rule: LocalRule) -> None:
    """All at once, in whatever order they are done; and one whose vector is not finite."""
    initial = session.initial()
    expected = _inline([_order(client) for client in range(_CLIENTS)], initial, rule)
    base = session.store.put(initial)
    first, rows = session.store.block(_CLIENTS + 1)
    for client in range(_CLIENTS):
        session.submit(Train(client, _order(client), base, first + client))
    session.submit(Train(_CLIENTS, _order(0)._replace(rate=float("inf"), sequence=99), base, first + _CLIENTS))
    done = _everything(session, _CLIENTS + 1)
    for client in range(_CLIENTS):
        found = done[client]
        assert isinstance(found, Shipped), f"A `Train` came back as {type(found).__name__}."
        assert found.outcome == "done", f"Training client {client} came back as {found.outcome!r}."
        assert (found.steps, found.samples) == (2, 20), f"2 steps on 20 samples were asked for, got {found}."
        same = rows[client].tobytes() == expected[client].tobytes()
        assert same, f"Client {client} was not trained as `inline` trains it, bit for bit."
    spoilt = done[_CLIENTS]
    assert isinstance(spoilt, Shipped)
    assert spoilt.outcome == "not finite", f"A vector that is not finite came back as {spoilt.outcome!r}."
    session.store.release(first)
    session.store.drop(base)


def _check_evaluation(session: Session) -> None:
    base = session.store.put(session.initial())
    session.submit(Evaluate(41, base, 0))
    found = _everything(session, 1)[41]
    assert isinstance(found, Evaluated), f"An `Evaluate` came back as {type(found).__name__}."
    counted = int(found.totals["confusion"].sum())
    assert counted == 11, f"11 test samples were asked for, {counted} counted."
    session.store.drop(base)


def _check_memory(session: Session) -> None:
    """What a client learned counts once its step has been applied, and not before."""
    initial = session.initial()
    base = session.store.put(initial)
    first, rows = session.store.block(3)
    trained = []
    for turn, kept in enumerate((False, True, True)):
        order = _order(1)._replace(occurrence=0, sequence=turn)
        session.submit(Train(turn, order, base, first + turn))
        _everything(session, 1)
        trained.append(rows[turn].copy())
        session.settle(order, kept)
    assert trained[0].tobytes() == trained[1].tobytes(), "A client remembers a job that was not kept."
    assert trained[1].tobytes() != trained[2].tobytes(), "A client does not remember a job that was kept."
    remembered = {client: vector.copy() for client, vector in session.remembered().items()}
    assert set(remembered) == {1}, f"Client 1 alone has something to remember, got {sorted(remembered)}."
    session.restore(remembered)
    again = session.remembered()[1].tobytes()
    assert again == remembered[1].tobytes(), "What was restored is not what was remembered."


def _inline(orders: list[Order], initial: Vector, rule: LocalRule) -> list[Vector]:
    found = []
    with closing(Inline().start()) as pool, closing(pool.session(_workload(rule))) as session:
        base = session.store.put(initial)
        for order in orders:
            slot, rows = session.store.block(1)
            session.submit(Train(0, order, base, slot))
            session.collect()
            found.append(rows[0].copy())
    return found


def _everything(session: Session, number: int) -> dict[int, Shipped | Evaluated]:
    done: dict[int, Shipped | Evaluated] = {}
    while len(done) < number:
        done |= {result.task: result for result in session.collect()}
    return done


def _order(client: int) -> Order:
    return Order(client, 0, client, client, 0.0, 0.1, epochs=2)


def _workload(rule: LocalRule) -> Workload:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(51, 2)).astype(np.float32)
    y = rng.integers(3, size=51)
    data = Dataset(x[:40], y[:40], x[40:], y[40:], 3)
    training = Training(epochs=1, batch_size=10)
    return Workload(data, list(np.arange(40).reshape(4, 10)), ModelChoice(Softmax), training, rule, "delta", seed=1)
