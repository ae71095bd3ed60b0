"""Mechanisms in which a client sends one sketch and the server runs K-means on the sketches."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from afbs.core.clustering import choose, kmeans, nearest, renamed
from afbs.privacy._halves import (
    Answer,
    Message,
    RefusedError,
    Talk,
    TwoHalves,
    check_answers,
    checked_counts,
)
from afbs.privacy._keys import Secrets
from afbs.seeds import Key
from afbs.types import ClientId, Grouping

Array = NDArray[np.float64]


@dataclass(frozen=True)
class SketchClient:
    """The client's half: answers with its sketch."""

    mechanism: Sketched
    counts: NDArray[Any] = field(repr=False)
    secrets: Secrets

    def answer(self, question: Message) -> Message:
        release = int(question["release"])
        return {"sketch": self.mechanism.sketch(checked_counts(self.counts), self.secrets, release)}


class Sketched(TwoHalves):
    """`sketch` runs on the client, `point` on the server; what passes between them is all the server ever sees."""

    @abstractmethod
    def sketch(self, counts: NDArray[np.int64], secrets: Secrets, release: int) -> Array:
        """What leaves the client."""

    @abstractmethod
    def point(self, sketch: Array, examples: int, classes: int) -> Array:
        """A sketch as a point to cluster; raises `RefusedError` if no honest client could have sent it."""

    def client(self, client: ClientId, counts: NDArray[Any], secrets: Secrets) -> SketchClient:
        return SketchClient(self, counts, secrets)

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
        sketch = np.asarray(answer.get("sketch"))
        if sketch.dtype.kind not in "iuf":
            raise RefusedError("the sketch is not made of numbers")
        if not np.all(np.isfinite(sketch)):
            raise RefusedError("the sketch is not finite")
        return self.point(sketch.astype(np.float64), examples, classes)
