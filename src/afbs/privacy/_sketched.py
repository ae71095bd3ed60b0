"""Mechanisms in which a client sends one sketch and the server runs K-means on the sketches."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from afbs.core.clustering import choose, kmeans, nearest, renamed
from afbs.privacy.halves import Answer, Talk, TwoHalves, check_answers, checked_counts
from afbs.privacy.keys import Secrets, derive
from afbs.privacy.messages import Message, RefusedError, exact, numbers, whole
from afbs.seeds import Key
from afbs.types import ClientId, Grouping

Array = NDArray[np.float64]


class SketchClient:
    """The client's half: answers with its sketch, and remembers of which labels each release was."""

    def __init__(self, mechanism: Sketched, counts: NDArray[Any], secrets: Secrets, remembered: Message | None) -> None:
        self._mechanism = mechanism
        self._counts = counts
        self._secrets = secrets
        self._marks: dict[int, bytes] = {}
        if remembered is not None:
            releases = exact(remembered, "releases", np.int64, (None,)).tolist()
            marks = exact(remembered, "marks", np.uint8, (len(releases), 32))
            self._marks = {release: mark.tobytes() for release, mark in zip(releases, marks, strict=True)}

    def answer(self, question: Message) -> Message:
        release = whole(question, "release")
        counts = checked_counts(self._counts)
        sketch = self._mechanism.sketch(counts, self._secrets, release)
        mark = derive(self._secrets.own + counts.astype("<i8").tobytes(), f"release/{release}")
        if self._marks.setdefault(release, mark) != mark and self._mechanism.budgeted:
            raise RefusedError("its labels changed since it answered: another answer would be a release more")
        return {"sketch": sketch}

    def remembered(self) -> Message:
        marks = b"".join(self._marks.values())
        return {
            "releases": np.array(list(self._marks), np.int64),
            "marks": np.frombuffer(marks, np.uint8).reshape(len(self._marks), 32),
        }


class Sketched(TwoHalves):
    """`sketch` runs on the client, `point` on the server; what passes between them is all the server ever sees."""

    repeats: ClassVar[bool] = True
    budgeted: ClassVar[bool] = False
    """Whether each release costs privacy that was promised, so that a client gives it for one set of labels alone."""

    @abstractmethod
    def sketch(self, counts: NDArray[np.int64], secrets: Secrets, release: int) -> Array:
        """What leaves the client."""

    @abstractmethod
    def point(self, sketch: Array, examples: int, classes: int) -> Array:
        """A sketch as a point to cluster; raises `RefusedError` if no honest client could have sent it."""

    def client(
        self, client: ClientId, counts: NDArray[Any], secrets: Secrets, remembered: Message | None = None
    ) -> SketchClient:
        return SketchClient(self, counts, secrets, remembered)

    def found(
        self, examples: Mapping[ClientId, int], classes: int, key: Key, most: int = 10, before: Grouping | None = None
    ) -> Talk:
        release = 0 if before is None else int(before.notes["releases"])
        points, refused = self._points((yield self._questions(examples, release)), examples, classes)
        clients = sorted(points)
        check_answers(self.number, len(clients), refused)
        rows = np.array([points[client] for client in clients])
        seed = key.integer()
        number = self.number or choose(rows, most, seed)
        clustered = kmeans(rows, number, seed)
        if before is not None and before.centroids is not None:
            clustered = renamed(clustered, before.centroids)
        cluster_of = dict(zip(clients, clustered.labels.tolist(), strict=True))
        return self.grouping(cluster_of, refused, clustered.centroids, classes, release + 1)

    def admit(self, grouping: Grouping, examples: Mapping[ClientId, int], classes: int) -> Talk:
        points, refused = self._points((yield self._questions(examples, 0)), examples, classes)
        assert grouping.centroids is not None
        cluster_of = {client: nearest(grouping.centroids, point) for client, point in points.items()}
        return self.enlarged(grouping, cluster_of, refused, classes)

    @staticmethod
    def _questions(examples: Mapping[ClientId, int], release: int) -> dict[ClientId, Message]:
        return {client: {"release": np.array(release)} for client in examples}

    def _points(
        self, answers: Mapping[ClientId, Answer], examples: Mapping[ClientId, int], classes: int
    ) -> tuple[dict[ClientId, Array], dict[ClientId, str]]:
        points, refused = {}, {}
        for client in examples:
            try:
                points[client] = self._point(answers.get(client), examples[client], classes)
            except RefusedError as refusal:
                refused[client] = str(refusal)
        return points, refused

    def _point(self, answer: Answer | None, examples: int, classes: int) -> Array:
        if answer is None:
            raise RefusedError("did not answer")
        if isinstance(answer, RefusedError):
            raise answer
        return self.point(numbers(answer, "sketch"), examples, classes)
