"""A label mechanism's conversation, carried by messages: every question goes to its node, silence is an answer too."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, final

from afbs.privacy.halves import Answer, Talk
from afbs.privacy.messages import RefusedError, packed, unpacked
from afbs.transports.flower import messages
from afbs.transports.flower.wire import Failure, Heard
from afbs.types import ClientId, Grouping


class Asker(Protocol):
    """Brings a question to a client's node."""

    def __call__(self, client: ClientId, question: bytes, then: Callable[[Heard], None]) -> None: ...


@final
class Conversation:
    """Goes on whenever all answers to the last questions are in. `then` is given the grouping."""

    def __init__(self, talk: Talk, ask: Asker, then: Callable[[Grouping], None]):
        self._talk = talk
        self._ask = ask
        self._then = then
        self._answers: dict[ClientId, Answer] = {}
        self._missing: set[ClientId] = set()
        self._go_on(None)

    def _go_on(self, answers: Mapping[ClientId, Answer] | None) -> None:
        try:
            questions = next(self._talk) if answers is None else self._talk.send(answers)
        except StopIteration as end:
            self._then(end.value)
            return
        self._answers = {}
        self._missing = set(questions)
        if not questions:
            self._go_on({})
            return
        for client, question in questions.items():
            self._ask(client, packed(question), lambda heard, client=client: self._heard(client, heard))  # type: ignore[misc]

    def _heard(self, client: ClientId, heard: Heard) -> None:
        answer = _answer(heard)
        if answer is not None:
            self._answers[client] = answer
        self._missing.discard(client)
        if not self._missing:
            self._go_on(self._answers)


def _answer(heard: Heard) -> Answer | None:
    """None: the client did not answer in time."""
    if isinstance(heard, Failure):
        return None
    try:
        content, refused = messages.labelled_of(heard)
        return RefusedError(refused) if refused else unpacked(content)
    except messages.BadMessageError as error:
        return RefusedError(str(error))
    except RefusedError as refusal:
        return refusal
