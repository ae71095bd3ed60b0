"""The battery for label mechanisms: ours pass it, and it notices what it should."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from afbs import registry
from afbs.interfaces import LabelMechanism
from afbs.privacy.halves import Talk
from afbs.privacy.messages import Message
from afbs.privacy.plain_for_research import PlainForResearch
from afbs.privacy.secure import Secure
from afbs.seeds import Key
from afbs.testing import check_label_mechanism
from afbs.types import Grouping

SECURE: dict[str, Any] = {"number": 3, "starts": 4, "steps": 3, "neighbours": 6, "noise": 0.2}
SMALL: dict[str, dict[str, Any]] = {
    "dp": {"number": 3},
    "none": {},
    "plain_for_research": {"number": 3},
    "projection": {"number": 3},
    "secure": SECURE,
}


@pytest.mark.parametrize("name", registry.names("clusters"))
def test_it_keeps_to_what_all_keep_to(name: str) -> None:
    check_label_mechanism(registry.find("clusters", name)(**SMALL[name]))


def fails(mechanism: LabelMechanism, sentence: str) -> None:
    with pytest.raises(AssertionError, match=sentence):
        check_label_mechanism(mechanism)


@dataclass(frozen=True)
class Two(LabelMechanism):
    """Two clusters by the main label, told to the server by a birdie."""

    def group(self, counts: Mapping[int, Any], key: Key, most: int = 10) -> Grouping:
        return Grouping({client: int(np.argmax(row) % 2) for client, row in counts.items()})


def test_a_mechanism_without_halves_is_held_to_its_groups_alone() -> None:
    check_label_mechanism(Two())


def test_groups_that_differ_from_call_to_call_are_noticed() -> None:
    rng = np.random.default_rng(0)

    @dataclass(frozen=True)
    class Fickle(Two):
        def group(self, counts: Mapping[int, Any], key: Key, most: int = 10) -> Grouping:
            drawn = rng.integers(0, 2, len(counts))
            return Grouping(dict(zip(counts, drawn.tolist(), strict=True)))

    fails(Fickle(), "same key must give the same clusters")


def test_a_forgotten_client_is_noticed() -> None:
    @dataclass(frozen=True)
    class Forgetful(Two):
        def group(self, counts: Mapping[int, Any], key: Key, most: int = 10) -> Grouping:
            return Grouping({client: 0 for client in counts if client})

    fails(Forgetful(), "Every client must be in a cluster")


def test_counts_in_the_notes_are_noticed() -> None:
    @dataclass(frozen=True)
    class Talkative(Two):
        def group(self, counts: Mapping[int, Any], key: Key, most: int = 10) -> Grouping:
            return Grouping(dict.fromkeys(counts, 0), {"example": np.asarray(counts[3]).tolist()})

    fails(Talkative(), "notes hold the label counts of client 3")


def test_notes_that_no_record_can_hold_are_noticed() -> None:
    @dataclass(frozen=True)
    class Odd(Two):
        def group(self, counts: Mapping[int, Any], key: Key, most: int = 10) -> Grouping:
            return Grouping(dict.fromkeys(counts, 0), {"centre": np.zeros(3)})

    fails(Odd(), "as JSON, and cannot be")


def test_a_setting_that_is_neither_refused_nor_workable_is_noticed() -> None:
    @dataclass(frozen=True)
    class Unranged(Two):
        epsilon: float = 1.0

        def group(self, counts: Mapping[int, Any], key: Key, most: int = 10) -> Grouping:
            np.zeros(int(self.epsilon * 10))
            return super().group(counts, key)

    fails(Unranged(), "`epsilon` = 1e.300 must be refused with a `UserError` or work")


def test_settings_that_can_be_changed_later_are_noticed() -> None:
    @dataclass
    class Loose(LabelMechanism):
        number: int = 2

        def group(self, counts: Mapping[int, Any], key: Key, most: int = 10) -> Grouping:
            return Grouping(dict.fromkeys(counts, 0))

    fails(Loose(), "frozen dataclass")


@pytest.mark.parametrize("number", [1, 2])
def test_another_number_of_clusters_would_be_no_test(number: int) -> None:
    fails(Secure(number=number), f"`number` 3 or 0, not {number}")


_OPENED: Any = PlainForResearch  # it is final, and a mutant has to be a subclass


@dataclass(frozen=True)
class Plain(_OPENED):
    """Open to mutilation."""

    number: int = 3


def test_a_server_that_looks_at_the_counts_themselves_is_noticed() -> None:
    @dataclass(frozen=True)
    class Peeking(Plain):
        def group(self, counts: Mapping[int, Any], key: Key, most: int = 10) -> Grouping:
            found = super().group(counts, key, most)
            notes = {**found.notes, "busiest": int(max(counts, key=lambda client: np.size(counts[client])))}
            return Grouping(found.cluster_of, notes, found.centroids)

    fails(Peeking(), "leave clients by messages alone")


def test_a_server_that_believes_anything_is_noticed() -> None:
    @dataclass(frozen=True)
    class Gullible(Plain):
        def point(self, sketch: Any, examples: int, classes: int) -> Any:
            return np.resize(sketch, classes) / max(1.0, np.abs(sketch).sum())

    fails(Gullible(), "client whose")


def test_a_client_that_chokes_on_a_question_is_noticed() -> None:
    @dataclass(frozen=True)
    class Trusting(Plain):
        def client(self, client: int, counts: Any, secrets: Any, remembered: Message | None = None) -> Any:
            half = super().client(client, counts, secrets, remembered)
            answer = half.answer
            half.answer = lambda question: (int(question["release"]), answer(question))[1]
            return half

    fails(Trusting(), "A question that is not finite must be refused; the client gave ValueError")


def test_a_half_that_forgets_its_promises_is_noticed() -> None:
    class Forgetful(Secure):  # type: ignore[misc]
        def client(self, client: int, counts: Any, secrets: Any, remembered: Message | None = None) -> Any:
            return super().client(client, counts, secrets, None)

    fails(Forgetful(**SECURE), "forget all but what they `remembered")


def test_a_half_that_forgets_only_what_it_chose_is_noticed() -> None:
    """Its grouping is the same; what it would answer afterwards is not."""

    class Lenient(Secure):  # type: ignore[misc]
        def client(self, client: int, counts: Any, secrets: Any, remembered: Message | None = None) -> Any:
            if remembered is not None:
                remembered = {**remembered, "choices": np.zeros(0, np.int64), "chosen": np.zeros((0, 32), np.uint8)}
            return super().client(client, counts, secrets, remembered)

    fails(Lenient(**SECURE), "restored half must answer and refuse exactly")


def test_late_clients_who_are_put_anywhere_are_noticed() -> None:
    @dataclass(frozen=True)
    class Careless(Plain):
        def admit(self, grouping: Grouping, examples: Mapping[int, int], classes: int) -> Talk:
            yield {client: {"release": np.array(0)} for client in examples}
            return self.enlarged(grouping, dict.fromkeys(examples, 2), {}, classes)

    fails(Careless(), "join the cluster of those like it|needs no cluster")


def test_refusing_may_not_pay() -> None:
    @dataclass(frozen=True)
    class Kind(Plain):
        def group(self, counts: Mapping[int, Any], key: Key, most: int = 10) -> Grouping:
            found = super().group(counts, key, most)
            own = {client: 3 + place for place, client in enumerate(found.notes["refused"])}
            return Grouping({**found.cluster_of, **own}, found.notes, found.centroids)

    fails(Kind(), "all who do share one cluster")


def test_a_secret_in_an_answer_is_noticed() -> None:
    @dataclass(frozen=True)
    class Loud(Plain):
        def client(self, client: int, counts: Any, secrets: Any, remembered: Message | None = None) -> Any:
            half = super().client(client, counts, secrets, remembered)
            answer = half.answer
            key = np.frombuffer(secrets.own, np.uint8)
            half.answer = lambda question: {**answer(question), "key": key}
            return half

    fails(Loud(), "holds its own secret")
