"""Other readings of the paper, and the algorithm behind one of its figures."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch

from afbs.algorithms.afbs import AFBS
from afbs.algorithms.fedbuff import FedBuff
from afbs.clients.samples import Samples
from afbs.clients.workload import Workload
from afbs.config import load
from afbs.data.cifar10 import Cifar10
from afbs.data.digits import Digits
from afbs.engine.plan import follow, plan
from afbs.interfaces import Algorithm, Plain
from afbs.latency.always import Always
from afbs.latency.uniform import Uniform
from afbs.partitions.clustered import Clustered
from afbs.reproduce.aged import Aged
from afbs.reproduce.handling import handled
from afbs.reproduce.participation import took_part
from afbs.reproduce.stepping import full_steps
from afbs.reproduce.variants import AtFlush, Augmented, EqualVolumes, HeldOut, Pixels
from afbs.seeds import Key
from afbs.transports.simulated import VirtualTime
from afbs.types import ClientInfo, Dataset, Decided, Dispatched, ModelChoice, Training


def events(algorithm: Algorithm[Any], latency: Uniform, versions: int = 40) -> list[Any]:
    clients = [ClientInfo(client, 10 + client) for client in range(300)]
    connection = VirtualTime(clients, latency, Always(), seed=1)
    settings: Any = {"in_flight": 50, "horizon": 1e9, "seed": 1, "rate": Training().rate, "versions": versions}
    return list(follow(plan(algorithm, clients, connection.reachable, **settings), connection))


def test_clients_are_asked_right_after_a_step_only() -> None:
    happened = events(AtFlush("fedbuff"), Uniform())
    steps = {0.0, *(event.time for event in happened if isinstance(event, Decided))}
    orders = [event for event in happened if isinstance(event, Dispatched)]
    assert {event.time for event in orders} <= steps
    usual = events(FedBuff(), Uniform())
    assert not {event.time for event in usual if isinstance(event, Dispatched)} <= steps
    ages = [update.staleness for event in happened if isinstance(event, Decided) for update in event.step.used]
    assert np.mean(ages[-200:]) == pytest.approx((50 - 10) / 10, rel=0.1)


def test_a_share_of_every_clients_samples_is_held_out() -> None:
    labels, key = np.arange(4000) % 10, Key.root(3, "partition")
    whole = Clustered(clients=30, clusters=2).split(labels, None, key)
    kept = HeldOut(clients=30, clusters=2, held_out=0.1).split(labels, None, key)
    assert kept.clusters == whole.clusters
    for mine, all_of_mine in zip(kept.indices, whole.indices, strict=True):
        assert set(mine) <= set(all_of_mine)
        assert len(mine) == len(all_of_mine) - len(all_of_mine) // 10


@pytest.mark.parametrize("clusters", [1, 3])
def test_where_volumes_are_equal_afbs_drops_nothing(clusters: int) -> None:
    """4,000 samples for 300 clients: some have 14 and others 13, and that alone would let it drop."""
    labels, key = np.arange(4000) % 10, Key.root(3, "partition")
    whole = Clustered(clients=300, clusters=clusters, volume_sigma=0.0).split(labels, None, key)
    equal = EqualVolumes(clients=300, clusters=clusters, volume_sigma=0.0).split(labels, None, key)
    assert equal.clusters == whole.clusters
    for mine, all_of_mine in zip(equal.indices, whole.indices, strict=True):
        assert set(mine) <= set(all_of_mine)
        assert len(mine) >= len(all_of_mine) - 1
    dropped = {}
    for name, split in (("whole", whole), ("equal", equal)):
        clusters_of = split.clusters or [0] * 300
        clients = [ClientInfo(number, len(mine), clusters_of[number]) for number, mine in enumerate(split.indices)]
        connection = VirtualTime(clients, Uniform(), Always(), seed=1)
        settings: Any = {"in_flight": 50, "horizon": 1e9, "seed": 1, "rate": Training().rate, "versions": 40}
        happened = follow(plan(AFBS(), clients, connection.reachable, **settings), connection)
        dropped[name] = sum(len(event.step.dropped) for event in happened if isinstance(event, Decided))
    assert dropped["equal"] == 0
    assert dropped["whole"] > 0


def test_a_step_has_as_many_stale_updates_as_it_should_and_they_are_that_old() -> None:
    steps = [event for event in events(Aged(fresh=2, stale=3), Uniform(60, 60)) if isinstance(event, Decided)]
    for event in steps[-10:]:
        ages = [event.version - 1 - update.base_version for update in event.step.used]
        assert ages.count(0) == 2
        assert len(ages) == 5
        assert all(age >= 10 for age in ages if age)
    alone = [event for event in events(Aged(1, 0, alone=True), Uniform(60, 60), 5) if isinstance(event, Decided)]
    assert [update.client for event in alone for update in event.step.used] == [
        150
    ] * 5  # of 0 to 299, who have 10 to 309


@pytest.mark.parametrize(("balanced", "ends"), [(False, (0.0, 0.2, 1.0)), (True, (-1.0, -0.6, 1.0))])
def test_pixels_are_given_to_the_network_as_they_are_or_balanced(
    monkeypatch: pytest.MonkeyPatch, balanced: bool, ends: tuple[float, ...]
) -> None:
    x = np.array([0, 51, 255], np.uint8).reshape(1, 1, 1, 3).repeat(3, 1)
    y = np.zeros(1, np.int64)
    monkeypatch.setattr(Cifar10, "load", lambda self: Dataset(x, y, x, y, 10, (0.49, 0.48, 0.45), (0.2, 0.2, 0.3)))
    work = Workload(Pixels(balanced).load(), [y], ModelChoice("lenet5"), Training(), Plain(), "delta", 0)
    assert Samples(work).client(0)[0].numpy() == pytest.approx(np.tile(np.array(ends), (1, 3, 1, 1)), abs=1e-6)


def test_clients_see_images_that_are_shifted_and_mirrored_and_tests_see_them_as_they_are() -> None:
    image = np.arange(1, 51, dtype=np.float32).reshape(2, 5, 5)
    framed = np.pad(image, ((0, 0), (4, 4), (4, 4)))
    cuts = [framed[:, y : y + 5, x : x + 5] for y in range(9) for x in range(9)]
    plain, mirrored = {cut.tobytes() for cut in cuts}, {cut[:, :, ::-1].tobytes() for cut in cuts}
    seen: list[torch.Tensor] = []

    def model(x: torch.Tensor) -> torch.Tensor:
        seen.append(x)
        return torch.zeros(len(x), 3)

    x, y = torch.from_numpy(image).repeat(300, 1, 1, 1), torch.zeros(300, dtype=torch.long)
    for _ in range(2):
        torch.manual_seed(1)
        assert float(Augmented().loss(model, x, y)) == pytest.approx(math.log(3))
    found = Counter(each.numpy().tobytes() for each in seen[0])
    assert found.keys() <= plain | mirrored
    assert 100 < sum(found[cut] for cut in found if cut in plain) < 200
    assert len(found) > 100
    assert torch.equal(seen[0], seen[1])
    Augmented().tally(model, x, y)
    assert torch.equal(seen[-1], x)


def test_without_clusters_the_slow_labels_count_less() -> None:
    with_clusters, without = took_part(True, False, 1), took_part(False, False, 1)
    for found in (with_clusters, without):
        assert sum(found["used"]) == pytest.approx(1, abs=1e-3)
    assert without["used"][0] > 2 * without["used"][9]
    assert max(with_clusters["used"]) < 1.6 * min(with_clusters["used"])
    assert sum(with_clusters["never"]) == 0 < sum(without["never"])


def test_a_plan_is_worth_its_steps_at_the_rates_they_are_taken_with() -> None:
    """One client that has everything, two epochs, and a rate that halves with every version."""
    tables = {
        "data": {"name": "digits"},
        "partition": {"name": "iid", "clients": 1},
        "model": {"name": "mlp"},
        "training": {"lr": 0.1, "epochs": 2, "batch_size": 64, "lr_decay": 0.5, "lr_decay_unit": "update"},
        "run": {"in_flight": 1, "versions": 3},
    }
    local = 2 * math.ceil(len(Digits().load().train_y) / 64)
    for name in ("fedavg", "fedbuff"):
        algorithm = {"name": name, **({"buffer_size": 1} if name == "fedbuff" else {})}
        assert full_steps(load({**tables, "algorithm": algorithm})) == pytest.approx(local * (1 + 0.5 + 0.25))
    half = {"name": "fedasync", "mixing": 0.5}  # of one client all is fresh: half of each way
    assert full_steps(load({**tables, "algorithm": half})) == pytest.approx(local * (1 + 0.5 + 0.25) / 2)


def test_every_method_is_timed() -> None:
    assert set(handled(1000, 40, 15, 12)) == {"fedbuff", "afbs", "ca2fl"}
