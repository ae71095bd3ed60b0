"""The two halves of a label mechanism, and how they talk.

The server's half is a generator: it yields a question for each client and is sent the answers; it returns the
`Grouping`. The client's half answers questions; its label counts stay inside it. Whatever carries the messages, a
function call or a network, the halves are the same:

    client:  half = mechanism.client(id, counts, Secrets(os.urandom(32), mechanism.shared_secret()), remembered)
             answer = half.answer(question)             or `RefusedError`
             half.remembered()                          on disk before the answer is sent, where halves are short-lived
    server:  talk = mechanism.found(examples, classes, key)
             questions = next(talk); questions = talk.send(answers); …  until StopIteration has the `Grouping`
             mechanism.admit(grouping, late, classes)   for clients that come late
             mechanism.found(…, before=grouping)        to cluster again, if the clients planned for it

A client's promises outlive its process only if its memory does: whoever loses it may be asked again what it answered
once. The memory is a message like the others (`messages.packed` makes bytes of it) and holds no label and no secret.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Generator, Mapping
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from afbs.interfaces import LabelMechanism
from afbs.privacy.keys import Secrets, simulated
from afbs.privacy.messages import Message, RefusedError
from afbs.seeds import Key
from afbs.types import ClientId, Grouping, UserError

Answer: TypeAlias = Message | RefusedError
Talk: TypeAlias = Generator[Mapping[ClientId, Message], Mapping[ClientId, Answer], Grouping]
"""Yields questions, is sent answers. Whoever is missing among the answers did not answer in time."""

LabelCounts: TypeAlias = Mapping[ClientId, NDArray[Any]]


class ClientHalf(Protocol):
    """The only place where a client's label counts are."""

    def answer(self, question: Message) -> Message:
        """Raises `RefusedError` rather than give away more than was agreed."""

    def remembered(self) -> Message:
        """What it must not forget: a half that is made with this answers and refuses as this one would."""


class TwoHalves(LabelMechanism):
    """A mechanism that asks clients something. With one cluster there is nothing to ask."""

    number: int

    repeats: ClassVar[bool] = False
    """Whether a client that is asked the same in another run answers the same, so that its memory and its own secret
    are for all runs. Otherwise each run has its own."""

    @property
    def name(self) -> str:
        return type(self).__module__.rpartition(".")[2]

    def shared_secret(self) -> bytes | None:
        """What all clients share, read from where the settings say it is; only clients may call this."""
        return None

    @abstractmethod
    def client(
        self, client: ClientId, counts: NDArray[Any], secrets: Secrets, remembered: Message | None = None
    ) -> ClientHalf:
        """The client's half, new or with the memory of an earlier one; a memory that is damaged is refused."""

    @abstractmethod
    def found(
        self, examples: Mapping[ClientId, int], classes: int, key: Key, most: int = 10, before: Grouping | None = None
    ) -> Talk:
        """Ask everyone and cluster; whoever gives no believable answer is in the cluster after the last.

        With `before` this is a re-clustering: one more release, and clusters keep the ids of those they lie closest to.
        """

    @abstractmethod
    def admit(self, grouping: Grouping, examples: Mapping[ClientId, int], classes: int) -> Talk:
        """Late clients go to the nearest centroid. Nobody else's cluster changes."""

    @abstractmethod
    def released(self, classes: int) -> dict[str, Any]:
        """What the server learns, for the record."""

    def grouping(
        self,
        cluster_of: Mapping[ClientId, int],
        refused: Mapping[ClientId, str],
        centroids: NDArray[np.float64],
        classes: int,
        releases: int,
    ) -> Grouping:
        """The clusters, the unknown among them, and what the record says of them."""
        unknown = len(centroids)
        notes = {
            "mechanism": self.name,
            "number": len(centroids),
            "chosen_by": "setting" if self.number else "silhouette",
            "released": self.released(classes),
            "releases": releases,
            "refused": dict(refused),
            "unknown_cluster": unknown if refused else None,
        }
        everyone = {**cluster_of, **dict.fromkeys(refused, unknown)}
        return Grouping(dict(sorted(everyone.items())), notes, centroids)

    def enlarged(
        self, before: Grouping, cluster_of: Mapping[ClientId, int], refused: Mapping[ClientId, str], classes: int
    ) -> Grouping:
        """The same clusters with late clients in them."""
        assert before.centroids is not None
        late = {*cluster_of, *refused}
        unknown = {client: why for client, why in before.notes["refused"].items() if client not in late}
        known = {c: k for c, k in before.cluster_of.items() if c not in late and c not in unknown}
        releases = int(before.notes["releases"])
        return self.grouping({**known, **cluster_of}, {**unknown, **refused}, before.centroids, classes, releases)

    def group(self, counts: LabelCounts, key: Key, most: int = 10) -> Grouping:
        """Both halves in one process, with secrets that follow from the key unless the settings name one."""
        if self.number == 1:
            return one_cluster(counts, self.name)
        check_number(self.number, len(counts))
        shared = self.shared_secret()
        clients = {client: self.client(client, row, simulated(key, client, shared)) for client, row in counts.items()}
        return converse(self.found(examples_of(counts), classes_of(counts), key.child(2), most), clients)


def converse(
    talk: Talk,
    clients: Mapping[ClientId, ClientHalf],
    listen: Callable[[ClientId, Message], None] = lambda client, answer: None,
) -> Grouping:
    """Both halves in one process. `listen` hears every answer that the server gets."""
    try:
        questions = next(talk)
        while True:
            answers = {client: _answer(clients[client], question) for client, question in questions.items()}
            for client, answer in answers.items():
                if not isinstance(answer, RefusedError):
                    listen(client, answer)
            questions = talk.send(answers)
    except StopIteration as end:
        grouping: Grouping = end.value
        return grouping


def checked_counts(counts: NDArray[Any]) -> NDArray[np.int64]:
    """A client's own counts, if they are counts."""
    try:
        row = np.asarray(counts)
    except ValueError:  # rows of different lengths
        row = np.empty(0)
    if row.ndim != 1 or row.size == 0 or row.dtype.kind not in "iuf":
        raise RefusedError("label counts are not one row of numbers")
    if not np.all(np.isfinite(row)):
        raise RefusedError("label counts are not finite")
    if np.any(row < 0):
        raise RefusedError("label counts are negative")
    if np.any(row != np.floor(row)) or row.sum() > 2.0**53:
        raise RefusedError("label counts are not whole numbers of a believable size")
    if row.sum() == 0:
        raise RefusedError("has no samples")
    return row.astype(np.int64)


def examples_of(counts: LabelCounts) -> dict[ClientId, int]:
    """What the server knows of each simulated client's size; 0 where its counts are no counts."""
    found = {}
    for client, row in counts.items():
        try:
            found[client] = int(checked_counts(row).sum())
        except RefusedError:
            found[client] = 0
    return found


def classes_of(counts: LabelCounts) -> int:
    """How many labels there are: what most clients say."""
    lengths, votes = np.unique([np.size(row) for row in counts.values()], return_counts=True)
    return int(lengths[np.argmax(votes)])


def one_cluster(counts: LabelCounts, mechanism: str) -> Grouping:
    """One cluster needs no labels: nobody is asked."""
    notes = {"mechanism": mechanism, "number": 1, "released": {"what": "nothing"}, "releases": 0, "refused": {}}
    return Grouping(dict.fromkeys(sorted(counts), 0), notes)


def check_answers(number: int, answered: int, refused: Mapping[ClientId, str]) -> None:
    """Enough clients must be left to cluster."""
    if not answered and refused:
        reasons = list(refused.values())
        raise UserError(f"`clusters`: no client took part. The reason of most: {max(reasons, key=reasons.count)}.")
    check_number(number, answered)


def check_number(number: int, clients: int) -> None:
    if number > clients:
        raise UserError(f"`clusters.number` must not be above the number of clients ({clients}), got {number}.")


def _answer(client: ClientHalf, question: Message) -> Answer:
    try:
        return client.answer(question)
    except RefusedError as refusal:
        return refusal
