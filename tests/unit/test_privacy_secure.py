"""`secure`: sums come out right, nothing else comes out, and clients give away no more than they agreed to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from scipy.stats import kstest

from afbs.core.sketch import proportions
from afbs.privacy._masking import ring
from afbs.privacy._secure_client import contribution
from afbs.privacy._secure_messages import ATTEMPTS, JOIN, OPEN, SUM, VOUCH
from afbs.privacy.halves import converse, examples_of
from afbs.privacy.keys import simulated
from afbs.privacy.messages import RefusedError, packed, unpacked
from afbs.privacy.secure import Secure
from afbs.seeds import Key
from afbs.types import Grouping, UserError
from labels import clustered

KEY = Key.root(5, "clusters")
EXACT = Secure(number=2, starts=2, steps=3, neighbours=4, noise=0.0)


@pytest.fixture(scope="module")
def counts() -> dict[int, np.ndarray]:
    return clustered(2, seed=4, clients=12, classes=4, each=100)[0]


def session(
    mechanism: Secure,
    counts: Mapping[int, np.ndarray],
    absent: Callable[[int, Mapping[str, Any]], bool] = lambda client, question: False,
    watch: Callable[[np.ndarray], None] = lambda sums: None,
) -> tuple[Grouping, list[tuple[int, dict[str, Any]]]]:
    """Run the protocol; whoever is `absent` for a question does not answer it. Also everything the server was sent."""
    halves = {client: mechanism.client(client, row, simulated(KEY, client)) for client, row in counts.items()}
    heard: list[tuple[int, dict[str, Any]]] = []
    talk = mechanism.found(examples_of(counts), 4, KEY.child(2), watch=watch)
    try:
        questions = next(talk)
        while True:
            answers: dict[int, Any] = {}
            for client, question in questions.items():
                if not absent(client, question):
                    try:
                        answers[client] = halves[client].answer(question)
                        heard.append((client, dict(answers[client])))
                    except RefusedError as refusal:
                        answers[client] = refusal
            questions = talk.send(answers)
    except StopIteration as end:
        return end.value, heard


def test_a_sum_is_the_sum_of_what_clients_would_have_said(counts: dict[int, np.ndarray]) -> None:
    opened: list[np.ndarray] = []
    session(EXACT, counts, watch=opened.append)
    shares = np.array([proportions(row) for row in counts.values()])
    for sums in opened:
        assert np.allclose(sums[:, :, 0].sum(axis=1), 12)
        assert np.allclose(sums[:, :, 1:-1].sum(axis=1), shares.sum(axis=0), atol=1e-6)


def test_without_noise_it_is_lloyds_algorithm(counts: dict[int, np.ndarray]) -> None:
    """An independent loop over the same starts: assign, average, and the centroids of the best start at the end."""
    opened: list[np.ndarray] = []
    found, _ = session(EXACT, counts, watch=opened.append)
    shares = np.array([proportions(row) for row in counts.values()])
    before, after = opened[-2], opened[-1]
    means = before[:, :, 1:-1] / np.maximum(before[:, :, :1], 1)
    for start in range(2):
        if before[start, :, 0].min() < 1.5:
            continue  # a cluster with hardly a client starts elsewhere
        nearest = ((shares[:, None] - means[start]) ** 2).sum(axis=2).argmin(axis=1)
        expected = [shares[nearest == cluster].sum(axis=0) for cluster in range(2)]
        assert np.allclose(after[start, :, 1:-1], expected, atol=1e-6)
    assert found.centroids is not None
    chosen = ((shares[:, None] - found.centroids) ** 2).sum(axis=2).argmin(axis=1)
    assert chosen.tolist() == list(found.cluster_of.values())


def test_a_masked_vector_looks_uniform_and_repeats_nothing(counts: dict[int, np.ndarray]) -> None:
    _, heard = session(EXACT, counts)
    masked = np.concatenate([answer["masked"] for _, answer in heard if "masked" in answer])
    assert kstest(masked / 2.0**64, "uniform").pvalue > 1e-4
    assert len(np.unique(masked)) == len(masked)


def test_the_server_is_sent_masks_keys_and_ids_alone(counts: dict[int, np.ndarray]) -> None:
    _, heard = session(EXACT, counts)
    assert {name for _, answer in heard for name in answer} == {
        "public", "masked", "vouched", "seeds", "own", "cluster",
    }  # fmt: skip
    assert all(answer["cluster"].shape == () for _, answer in heard if "cluster" in answer)


@pytest.mark.parametrize("gone", [1, 3])
def test_sums_are_right_though_clients_drop_out_in_the_middle(counts: dict[int, np.ndarray], gone: int) -> None:
    opened: list[np.ndarray] = []
    lost = set(range(gone))

    def absent(client: int, question: Mapping[str, Any]) -> bool:
        return client in lost and int(question["ask"]) == SUM and int(question["step"]) >= 2

    found, _ = session(EXACT, counts, absent, opened.append)
    staying = np.array([proportions(row) for client, row in counts.items() if client not in lost])
    everyone = np.array([proportions(row) for row in counts.values()])
    assert np.allclose(opened[0][:, :, 1:-1].sum(axis=1), everyone.sum(axis=0), atol=1e-6)
    assert np.allclose(opened[1][:, :, 1:-1].sum(axis=1), staying.sum(axis=0), atol=1e-6)
    assert np.allclose(opened[2][:, :, 1:-1].sum(axis=1), staying.sum(axis=0), atol=1e-6)
    assert found.notes["refused"] == dict.fromkeys(lost, "did not answer")
    assert {found.cluster_of[client] for client in lost} == {2}


def test_a_third_may_leave_and_each_gets_new_neighbours() -> None:
    counts, truth = clustered(2, seed=4, clients=60, classes=4, each=400)
    rng = np.random.default_rng(0)
    leaves = {client: int(rng.integers(1, 4)) for client in rng.permutation(60)[:20].tolist()}

    def absent(client: int, question: Mapping[str, Any]) -> bool:
        return "step" in question and int(question["step"]) >= leaves.get(client, 99)

    found, _ = session(Secure(number=2, starts=2, steps=4, neighbours=8, noise=0.0), counts, absent)
    assert set(found.notes["refused"]) == set(leaves)
    assert len({(truth[client], found.cluster_of[client]) for client in counts if client not in leaves}) == 2


@pytest.mark.parametrize("moment", [VOUCH, OPEN])
def test_a_client_lost_after_its_vector_was_counted_costs_one_attempt(
    counts: dict[int, np.ndarray], moment: int
) -> None:
    opened: list[np.ndarray] = []
    left: set[int] = set()

    def absent(client: int, question: Mapping[str, Any]) -> bool:
        if client == 5 and int(question["ask"]) == moment:
            left.add(client)
        return client in left

    found, _ = session(EXACT, counts, absent, opened.append)
    staying = np.array([proportions(row) for client, row in counts.items() if client != 5])
    assert all(np.allclose(sums[:, :, 1:-1].sum(axis=1), staying.sum(axis=0), atol=1e-6) for sums in opened)
    assert found.notes["refused"] == {5: "did not answer"}


def test_noise_of_the_stated_size_is_on_every_sum(counts: dict[int, np.ndarray]) -> None:
    mechanism = Secure(number=2, starts=20, steps=1, neighbours=4, noise=0.5)
    opened: list[np.ndarray] = []
    session(mechanism, counts, watch=opened.append)
    total = np.array([proportions(row) for row in counts.values()]).sum(axis=0)
    gaps = opened[0][:, :, 1:-1].sum(axis=1) - total  # 2 clusters: the variances add
    assert gaps.std() == pytest.approx(0.5 * 2**0.5, rel=0.25)


def test_numbers_that_no_labels_give_are_noticed(counts: dict[int, np.ndarray]) -> None:
    """The server cannot say who lied, so it stops rather than cluster by a lie."""
    halves: dict[int, Any] = {
        client: EXACT.client(client, row, simulated(KEY, client)) for client, row in counts.items()
    }

    class Liar:
        def answer(self, question: Any) -> Any:
            answer = halves[0].answer(question)
            return {"masked": answer["masked"] + np.uint64(2**40)} if "masked" in answer else answer

    others: dict[int, Any] = {**halves, 0: Liar()}
    with pytest.raises(UserError, match="cannot be true"):
        converse(EXACT.found(examples_of(counts), 4, KEY.child(2)), others)


def test_a_masked_vector_of_the_wrong_length_is_left_out(counts: dict[int, np.ndarray]) -> None:
    halves: dict[int, Any] = {
        client: EXACT.client(client, row, simulated(KEY, client)) for client, row in counts.items()
    }

    class Short:
        def answer(self, question: Any) -> Any:
            answer = halves[0].answer(question)
            return {"masked": answer["masked"][:-1]} if "masked" in answer else answer

    others: dict[int, Any] = {**halves, 0: Short()}
    found = converse(EXACT.found(examples_of(counts), 4, KEY.child(2)), others)
    assert "length" in found.notes["refused"][0]


def test_a_key_that_is_none_costs_its_sender_and_not_its_neighbours(counts: dict[int, np.ndarray]) -> None:
    """Under the point of order one every secret is zero; neighbours would refuse to go on with it."""
    halves: dict[int, Any] = {
        client: EXACT.client(client, row, simulated(KEY, client)) for client, row in counts.items()
    }

    class Keyless:
        def answer(self, question: Any) -> Any:
            return {"public": np.zeros(32, np.uint8)} if int(question["ask"]) == JOIN else halves[0].answer(question)

    others: dict[int, Any] = {**halves, 0: Keyless()}
    found = converse(EXACT.found(examples_of(counts), 4, KEY.child(2)), others)
    assert found.notes["refused"] == {0: "sent no key"}


def test_two_clients_are_too_few_to_hide_among() -> None:
    with pytest.raises(UserError, match="at least 3 clients"):
        Secure(number=2).group({0: np.array([1, 2]), 1: np.array([2, 1])}, KEY)


# what a client refuses, whatever the server says


def restored(half: Any, counts: np.ndarray) -> Any:
    """The same client in another process: what it remembered went over a disk."""
    return EXACT.client(0, counts, simulated(KEY, 0), unpacked(packed(half.remembered())))


@pytest.fixture(params=["lasting", "restored"])
def asked(
    counts: dict[int, np.ndarray], request: pytest.FixtureRequest
) -> tuple[Any, dict[str, Any], dict[str, Any], dict[str, Any]]:
    """A client in the middle of the protocol, and the three questions of its last sum."""
    halves = {client: EXACT.client(client, row, simulated(KEY, client)) for client, row in counts.items()}
    talk = EXACT.found(examples_of(counts), 4, KEY.child(2))
    questions = next(talk)
    last: dict[int, dict[str, Any]] = {}
    while SUM not in last or OPEN not in last:
        last[int(questions[0]["ask"])] = dict(questions[0])
        questions = talk.send({client: halves[client].answer(question) for client, question in questions.items()})
    half = halves[0] if request.param == "lasting" else restored(halves[0], counts[0])
    return half, last[SUM], last[VOUCH], last[OPEN]


def test_a_restored_client_gives_the_same_answers_again(counts: dict[int, np.ndarray], asked: Any) -> None:
    client, *questions = asked
    other = restored(client, counts[0])
    for question in questions:
        mine, its = client.answer(question), other.answer(question)
        assert {name: array.tolist() for name, array in mine.items()} == {n: a.tolist() for n, a in its.items()}


def test_a_client_without_its_memory_would_vouch_twice(counts: dict[int, np.ndarray], asked: Any) -> None:
    """What the memory is for: a new half knows of no promise, takes the sum again, and may be told otherwise."""
    client, question, vouch, _ = asked
    ids = vouch["alive"]
    otherwise = {**vouch, "alive": ids[1:], "dropped": ids[:1]}
    forgetful = EXACT.client(0, counts[0], simulated(KEY, 0))
    with pytest.raises(RefusedError, match="no part in"):
        forgetful.answer(vouch)
    forgetful.answer(question)
    assert len(forgetful.answer(otherwise)["seeds"]) == 1
    with pytest.raises(RefusedError, match="differently"):
        client.answer(otherwise)


def test_the_memory_holds_neither_labels_nor_secrets_nor_masks(counts: dict[int, np.ndarray], asked: Any) -> None:
    client, question, vouch, opening = asked
    content = packed(client.remembered())
    own = simulated(KEY, 0).own
    masks = [client.answer(opening)["own"].tobytes(), *(row.tobytes() for row in client.answer(vouch)["vouched"])]
    for secret in (own, *masks, counts[0].astype(np.int64).tobytes(), proportions(counts[0]).tobytes()):
        assert secret not in content
    assert question["publics"][0].tobytes() in content


@pytest.mark.parametrize("name", ["sessions", "labels", "chosen", "sums", "told", "sizes", "neighbours", "publics"])
def test_a_damaged_memory_is_refused(counts: dict[int, np.ndarray], asked: Any, name: str) -> None:
    client, *_ = asked
    memory = client.remembered()
    longer = np.concatenate([memory[name], np.ones((1, *memory[name].shape[1:]), memory[name].dtype)])
    for damaged in (longer, memory[name].astype(np.float64), None):
        changed: dict[str, Any] = {**memory, name: damaged}
        with pytest.raises(RefusedError):
            EXACT.client(0, counts[0], simulated(KEY, 0), changed)


def test_a_client_whose_labels_changed_in_a_session_refuses(counts: dict[int, np.ndarray], asked: Any) -> None:
    """Two vectors of one session under different labels would be one release more than was planned."""
    client, question, _, _ = asked
    changed = EXACT.client(0, counts[0] + 1, simulated(KEY, 0), client.remembered())
    with pytest.raises(RefusedError, match="labels changed"):
        changed.answer(question)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"centroids": np.full((2, 2, 4), np.nan)}, "not finite"),
        ({"centroids": np.full((2, 2, 4), 3.0)}, "no label proportions"),
        ({"centroids": np.zeros((9, 2, 4))}, "more starts or clusters than agreed"),
        ({"centroids": np.zeros((2, 3, 4))}, "more starts or clusters than agreed"),
        ({"centroids": np.zeros((2, 2, 5))}, "has counts of 4 labels"),
        ({"centroids": np.zeros((2, 4))}, "shape"),
        ({"step": np.array(4)}, "the step is not a whole number from 0 to 3"),
        ({"attempt": np.array(ATTEMPTS)}, "the attempt is not"),
        ({"clients": np.array(-1)}, "the clients is not a whole number"),
        ({"neighbours": np.array([1, 1, 2, 3])}, "twice"),
        ({"neighbours": np.array([0, 1, 2, 3])}, "itself"),
        ({"publics": np.zeros((4, 32), np.uint8), "clients": np.array(13)}, "key that is none"),
        ({"publics": np.zeros((3, 32), np.uint8)}, "shape"),
        ({"session": np.array(0.5)}, "the session is not a whole number"),
        ({"ask": np.array(9)}, "the ask is not"),
    ],
)
def test_a_question_that_no_honest_server_asks_is_refused(
    asked: Any, change: dict[str, np.ndarray], reason: str
) -> None:
    client, question, _, _ = asked
    with pytest.raises(RefusedError, match=reason):
        client.answer({**question, **change})


def test_a_client_is_not_told_twice_differently_who_is_there(asked: Any) -> None:
    client, _, vouch, _ = asked
    client.answer(vouch)  # the same again is the same answer
    ids = vouch["alive"]
    with pytest.raises(RefusedError, match="differently"):
        client.answer({**vouch, "alive": ids[1:], "dropped": ids[:1]})


def test_a_client_does_not_vouch_where_most_neighbours_are_said_to_be_gone(
    counts: dict[int, np.ndarray], asked: Any
) -> None:
    _, question, vouch, _ = asked
    fresh = EXACT.client(0, counts[0], simulated(KEY, 0))
    fresh.answer(question)
    ids = vouch["alive"]
    with pytest.raises(RefusedError, match="too few of its neighbours are there"):
        fresh.answer({**vouch, "alive": ids[:2], "dropped": ids[2:]})


def test_a_server_that_calls_a_client_dropped_does_not_get_its_own_mask(asked: Any) -> None:
    """Its neighbours then give away the shared masks and do not vouch, so the client keeps its own."""
    client, _, _, opening = asked
    with pytest.raises(RefusedError, match="vouch"):
        client.answer({**opening, "by": opening["by"][:2], "vouched": opening["vouched"][:2]})


def test_a_server_cannot_vouch_in_the_neighbours_place(asked: Any) -> None:
    client, _, _, opening = asked
    forged = np.zeros_like(opening["vouched"])
    with pytest.raises(RefusedError, match="vouch"):
        client.answer({**opening, "vouched": forged})


def test_the_same_sum_is_not_masked_for_other_neighbours(asked: Any) -> None:
    client, question, _, _ = asked
    other = {**question, "publics": np.roll(question["publics"], 1, axis=0)}
    with pytest.raises(RefusedError, match="other neighbours"):
        client.answer(other)


def test_masks_differ_as_soon_as_the_question_differs(asked: Any) -> None:
    """So a client that is asked something else than the others spoils the sum instead of standing out in it."""
    client, question, _, _ = asked
    one = client.answer(question)["masked"]
    other = client.answer({**question, "attempt": np.array(1)})["masked"]
    assert not np.any(one == other)


def test_a_client_chooses_once(counts: dict[int, np.ndarray]) -> None:
    client = EXACT.client(0, counts[0], simulated(KEY, 0))
    question = {"ask": np.array(4), "session": np.array(0), "centroids": np.eye(4)[:2]}
    assert client.answer(question) == client.answer(question)
    with pytest.raises(RefusedError, match="twice"):
        client.answer({**question, "centroids": np.eye(4)[1:3]})


def test_a_client_answers_for_no_more_sums_than_agreed(asked: Any) -> None:
    client, question, _, _ = asked
    for crowd in range(EXACT.steps + ATTEMPTS):
        client.answer({**question, "clients": np.array(1000 + crowd)})
    with pytest.raises(RefusedError, match="more sums"):
        client.answer({**question, "clients": np.array(2000)})


def test_a_second_session_is_refused_unless_planned(counts: dict[int, np.ndarray]) -> None:
    client = EXACT.client(0, counts[0], simulated(KEY, 0))
    with pytest.raises(RefusedError, match="planned"):
        client.answer({"ask": np.array(0), "session": np.array(1)})


def test_what_a_client_adds_is_one_place_its_proportions_and_last_its_distance() -> None:
    row, centroids = np.array([0.5, 0.5]), np.array([[[0.0, 1.0], [0.5, 0.4]]])
    place = [[0.0, 0.0, 0.0, 0.0], [1.0, 0.5, 0.5, 0.0]]  # the second centroid is nearer, at a distance of 0.1
    assert np.allclose(contribution(row, centroids, judged=False).reshape(2, 4), place)
    place[0][3] = 0.01
    assert np.allclose(contribution(row, centroids, judged=True).reshape(2, 4), place)


def test_distances_are_told_in_the_last_step_alone(counts: dict[int, np.ndarray]) -> None:
    opened: list[np.ndarray] = []
    session(EXACT, counts, watch=opened.append)
    assert [bool(np.any(sums[:, :, -1])) for sums in opened] == [False, False, True]


def test_the_notes_admit_what_the_noise_promises_a_whole_client(counts: dict[int, np.ndarray]) -> None:
    """One start and one step open two sums: 4 · 2 + 4 · 1 = 12, so noise of √12 is a multiplier of one."""
    mechanism = Secure(number=2, starts=1, steps=1, noise=12**0.5)
    assert mechanism.epsilon() == pytest.approx(4.38, abs=0.06)  # Φ(1/2 − ε) − e^ε Φ(−1/2 − ε) = 1e-5
    assert EXACT.epsilon() is None
    assert EXACT.group(counts, KEY).notes["released"]["epsilon_for_a_whole_client"] is None


@pytest.mark.parametrize(
    ("clients", "neighbours", "each"), [(4, 20, 3), (20, 20, 19), (21, 20, 20), (50, 20, 20), (50, 7, 6)]
)
def test_neighbours_are_mutual_and_as_many_as_asked(clients: int, neighbours: int, each: int) -> None:
    found = ring(list(range(clients)), neighbours, np.random.default_rng(0))
    assert {len(set(others)) for others in found.values()} == {each}
    assert all(client in found[other] for client, others in found.items() for other in others)
    assert all(client not in others for client, others in found.items())
