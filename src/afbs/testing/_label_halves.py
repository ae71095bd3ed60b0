"""What the two halves of a label mechanism keep to, whoever is on the other side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from afbs.privacy.halves import Answer, Talk, TwoHalves, examples_of
from afbs.privacy.keys import Secrets, simulated
from afbs.privacy.messages import Message, RefusedError, packed, unpacked
from afbs.seeds import Key
from afbs.types import ClientId, Grouping

Counts = Mapping[ClientId, NDArray[np.int64]]
Ask = Callable[[ClientId, Message], Any]

SPOILT: Mapping[str, Callable[[NDArray[Any]], Any]] = {
    "not finite": lambda array: np.full(array.shape, np.nan),
    "huge": lambda array: np.full(array.shape, 1e300),
    "of another shape": lambda array: np.zeros([length + 1 for length in array.shape] or (1,), array.dtype),
    "text": lambda array: np.array("text"),
    "objects": lambda array: np.array([None, {}], object),
    "nothing": lambda array: None,
}


def check_halves(mechanism: TwoHalves, counts: Counts, key: Key, found: Grouping) -> None:
    """`found` is what the mechanism finds for these clients and this key in one process."""
    table = _Table(mechanism, counts, key)
    _check_messages(table, found)
    _check_malformed_questions(table)
    _check_restarts(table, found)
    _check_malformed_answers(table)
    _check_late(table)


class _Table:
    """The clients of a mechanism, and a way to let them talk that can be disturbed."""

    def __init__(self, mechanism: TwoHalves, counts: Counts, key: Key) -> None:
        self.mechanism, self.counts, self.key = mechanism, counts, key
        self.classes = len(next(iter(counts.values())))
        self.asked: dict[ClientId, list[Message]] = {}
        self.told: dict[ClientId, list[Message]] = {}

    def secrets(self, client: ClientId) -> Secrets:
        return simulated(self.key, client, self.mechanism.shared_secret())

    def half(self, client: ClientId, remembered: Message | None = None) -> Any:
        return self.mechanism.client(client, self.counts[client], self.secrets(client), remembered)

    def found(self, but: ClientId | None = None) -> Talk:
        there = {client: row for client, row in self.counts.items() if client != but}
        return self.mechanism.found(examples_of(there), self.classes, self.key.child(2))

    def talk(self, talk: Talk, ask: Ask | None = None, beside: str = "honest clients") -> Grouping:
        """Let the server's half ask; `ask` may answer in the clients' place. None is silence."""
        try:
            return self._talk(talk, ask)
        except Exception as error:
            raise AssertionError(
                f"The server's half must come to an end beside {beside}; it gave {error!r}."
            ) from error

    def _talk(self, talk: Talk, ask: Ask | None) -> Grouping:
        halves: dict[ClientId, Any] = {}
        self.asked, self.told = {}, {}

        def honest(client: ClientId, question: Message) -> Any:
            if client not in halves:
                halves[client] = self.half(client)
            return halves[client].answer(question)

        ask = ask or honest
        try:
            questions = next(talk)
            while True:
                answers: dict[ClientId, Answer] = {}
                for client, question in questions.items():
                    self.asked.setdefault(client, []).append(question)
                    try:
                        answer = ask(client, question)
                    except RefusedError as refusal:
                        answer = refusal
                    if answer is not None:
                        answers[client] = answer
                        self.told.setdefault(client, []).append(answer)
                questions = talk.send(answers)
        except StopIteration as end:
            grouping: Grouping = end.value
            return grouping


def _check_messages(table: _Table, found: Grouping) -> None:
    """The server knows what it was sent, and nothing else."""
    heard = table.talk(table.found())
    assert heard == found, (
        "`group` must find what the two halves find: the label counts leave clients by messages alone."
    )
    told = {client: iter(answers) for client, answers in table.told.items()}
    replayed = table.talk(table.found(), lambda client, question: next(told[client]))
    assert replayed == found, "The server's half must depend on the answers alone: the same answers, another grouping."
    for client, answers in table.told.items():
        secrets = table.secrets(client)
        for content in map(packed, answers):
            assert secrets.own not in content, f"An answer of client {client} holds its own secret."
            assert (secrets.shared or secrets.own) not in content, (
                f"An answer of client {client} holds a shared secret."
            )


def _check_restarts(table: _Table, found: Grouping) -> None:
    """Every message a new process: only bytes are carried and kept."""
    memory: dict[ClientId, bytes] = {}

    def ask(client: ClientId, question: Message) -> Message:
        half = table.half(client, unpacked(memory[client]) if client in memory else None)
        answer = half.answer(unpacked(packed(question)))
        memory[client] = packed(half.remembered())
        return unpacked(packed(answer))

    restarted = table.talk(table.found(), ask, "clients that forget all but what they `remembered()`")
    assert restarted == found, (
        "Halves that forget all but what they `remembered()` must answer like those that never stop."
    )
    for client, content in memory.items():
        row = table.counts[client]
        for kind in (np.int64, np.int32, np.float64, np.float32):
            assert row.astype(kind).tobytes() not in content, f"The memory of client {client} holds its label counts."
        assert table.secrets(client).own not in content, f"The memory of client {client} holds its secret."
    client, other = sorted(table.asked)[:2]
    lasting, restored = table.half(client), table.half(client, unpacked(memory[client]))
    for question in table.asked[client]:
        lasting.answer(question)
    later = [*table.asked[client], *table.asked[other]]
    later += [changed for question in table.asked[client] for changed in _rearranged(question)]
    for question in later:
        before, after = _outcome(lasting, question), _outcome(restored, question)
        assert before == after, "A restored half must answer and refuse exactly like one that never stopped."
        restored = table.half(client, unpacked(packed(restored.remembered())))


def _check_malformed_answers(table: _Table) -> None:
    """One client talks nonsense, from its first answer on or from a later one."""
    client = min(table.counts)
    others = table.talk(table.found(but=client)).cluster_of
    table.talk(table.found())
    rounds = len(table.asked[client])
    for begin in sorted({0, 1, 2, 3, rounds - 1} & set(range(rounds))):
        for what in ("silence", "no message", *SPOILT):
            where = f"a client whose answer {begin + 1} is {what}"
            found = table.talk(table.found(), _garbled(table, client, begin, what), where)
            kept = {other: cluster for other, cluster in found.cluster_of.items() if other != client}
            assert kept == others, f"The clusters of others must not change by {where}."
            unknown = found.notes.get("unknown_cluster")
            assert found.cluster_of[client] == unknown is not None, f"The unknown cluster is the place for {where}."
            assert found.notes["refused"].get(client), f"The notes must give the reason for {where}."


def _garbled(table: _Table, client: ClientId, begin: int, what: str) -> Ask:
    halves = {each: table.half(each) for each in table.counts}
    number = 0

    def ask(each: ClientId, question: Message) -> Any:
        nonlocal number
        answer = halves[each].answer(question)
        if each != client:
            return answer
        number += 1
        if number <= begin:
            return answer
        return {"silence": None, "no message": 7, **_spoilt(answer)}[what]

    return ask


def _check_malformed_questions(table: _Table) -> None:
    """A client refuses a nonsensical question; nothing else may happen to it."""
    table.talk(table.found())
    client = min(table.counts)
    for question in table.asked[client]:
        for what, spoilt in {**_spoilt(question), "no message": 7, "empty": {}}.items():
            half = table.half(client)
            try:
                half.answer(spoilt)
            except RefusedError:
                continue
            except Exception as error:
                raise AssertionError(
                    f"A question that is {what} must be refused; the client gave {error!r}."
                ) from error


def _check_late(table: _Table) -> None:
    """A late client joins those like it; one that cannot be believed joins the unknown; nobody else moves."""
    late = min(table.counts)
    before = table.talk(table.found(but=late))
    examples = {late: int(table.counts[late].sum())}
    after = table.talk(table.mechanism.admit(before, examples, table.classes))
    kept = {client: after.cluster_of[client] for client in before.cluster_of}
    assert kept == before.cluster_of, "A late client must not move those who are there."
    top = int(table.counts[late].argmax()) // 2
    mates = [before.cluster_of[c] for c in before.cluster_of if int(table.counts[c].argmax()) // 2 == top]
    usual = max(set(mates), key=mates.count)
    assert after.cluster_of.get(late) == usual, "A late client must join the cluster of those like it."
    for what, answer in {"silence": None, "no message": 7, "a refusal": RefusedError("does not want to")}.items():
        after = table.talk(table.mechanism.admit(before, examples, table.classes), lambda client, question: answer)  # noqa: B023
        assert after.cluster_of.get(late) not in before.cluster_of.values(), f"A late client's {what} needs no cluster."
        assert {c: after.cluster_of[c] for c in before.cluster_of} == before.cluster_of, (
            f"A late client's {what} moves others."
        )


def _spoilt(message: Message) -> dict[str, Message]:
    return {what: {name: spoil(np.asarray(value)) for name, value in message.items()} for what, spoil in SPOILT.items()}


def _rearranged(message: Message) -> Iterator[Message]:
    """Questions that could be meant, but are others than before: one array the other way round, or shorter."""
    for name, value in message.items():
        array = np.asarray(value)
        if array.ndim:
            yield {**message, name: np.flip(array, axis=0).copy()}
            yield {**message, name: np.flip(array, axis=-1).copy()}
            yield {**message, name: array[1:]}
        elif array.dtype.kind in "iu":
            yield {**message, name: array + 1}


def _outcome(half: Any, question: Message) -> bytes | str:
    try:
        return packed(half.answer(question))
    except RefusedError as refusal:
        return str(refusal)
