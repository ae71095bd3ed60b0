"""The audit says of each mechanism what is true of it."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from afbs.audit.files import as_csv, as_json, as_markdown, write
from afbs.audit.verdicts import Audit, audit
from afbs.audit.words import sentences
from afbs.core import attacks
from afbs.core.sketch import proportions
from afbs.privacy.dp import DifferentiallyPrivate
from afbs.privacy.keys import Secrets
from afbs.privacy.none import NoLabels
from afbs.privacy.plain_for_research import PlainForResearch
from afbs.privacy.projection import Projection
from afbs.privacy.secure import Secure
from afbs.seeds import Key
from labels import clustered, own_mixtures


def mechanisms(number: int) -> dict[str, Any]:
    return {
        "projection": Projection(number=number),
        "dp": DifferentiallyPrivate(number=number, epsilon=2.0),
        "secure": Secure(number=number, starts=4, steps=6, neighbours=10),
        "none": NoLabels(),
        "plain_for_research": PlainForResearch(number=number),
    }


@pytest.fixture(scope="module")
def found() -> Audit:
    counts, truth = clustered(5, clients=200, each=1667)
    return audit(counts, mechanisms(5), Key.root(1, "audit"), truth)


def attack(found: Audit, mechanism: str, name: str) -> Any:
    verdict = next(verdict for verdict in found.verdicts if verdict.mechanism == mechanism)
    return next(finding for finding in verdict.findings if finding.attack == name)


def verdict(found: Audit, mechanism: str) -> Any:
    return next(verdict for verdict in found.verdicts if verdict.mechanism == mechanism)


def test_the_projection_is_read_by_whoever_knows_it(found: Audit) -> None:
    worst = verdict(found, "projection").worst
    assert worst.top >= 0.75
    assert worst.exact >= 0.40
    assert verdict(found, "projection").membership.measured > 0.9


def test_known_histograms_are_as_good_as_the_projection(found: Audit) -> None:
    known = attack(found, "projection", "known projection").top
    tops = [attack(found, "projection", f"{number} known histograms").top for number in (5, 8, 10, 12)]
    assert tops[0] < tops[-1]
    assert tops[-1] == pytest.approx(known, abs=0.12)


def test_dp_hides_a_sample_and_not_the_main_label(found: Audit) -> None:
    noisy = verdict(found, "dp")
    assert all(finding.exact <= 0.05 for finding in noisy.findings)
    # The best any attack can do is 2Φ(1/2m) − 1 with the multiplier m = 1.994; what is promised is looser.
    assert noisy.membership.measured == pytest.approx(0.198, abs=0.06)
    assert noisy.membership.measured < noisy.membership.allowed
    assert noisy.worst.top > 0.6
    assert "does not hide what a client mostly has" in sentences(found)["dp"]


def test_secure_gives_the_centroid_and_no_more(found: Audit) -> None:
    centroid = attack(found, "secure", "centroid and cluster id")
    masked = attack(found, "secure", "one masked vector")
    assert verdict(found, "secure").worst == centroid
    assert masked.top < 0.25  # ten labels: chance is 0.1, and a little more where labels tie
    assert attack(found, "secure", "differences of sums").exact < 0.02
    assert verdict(found, "secure").agreement > 0.95


def test_without_noise_differences_of_sums_give_clients_away() -> None:
    counts, truth = clustered(3, clients=100, each=500)
    exact = {"secure": Secure(number=3, starts=8, steps=6, neighbours=10, noise=0.0)}
    report = audit(counts, exact, Key.root(1, "audit"), truth)
    assert attack(report, "secure", "differences of sums").exact > 0
    assert report.verdicts[0].membership is not None
    assert report.verdicts[0].membership.measured == 1.0


def test_plain_gives_all_and_none_gives_nothing(found: Audit) -> None:
    assert (verdict(found, "plain_for_research").worst.top, verdict(found, "plain_for_research").worst.exact) == (1, 1)
    assert [finding.attack for finding in verdict(found, "none").findings] == ["nothing is sent"]
    assert verdict(found, "none").worst.top is None
    assert verdict(found, "none").agreement == 0.0


def test_the_side_channel_is_told_with_what_would_close_it(found: Audit) -> None:
    assert found.side_channel.top is not None
    assert found.side_channel.top > 0.8
    assert "secure aggregation" in sentences(found)["side channel"]


def test_every_mechanism_has_a_sentence_and_none_promises_too_much(found: Audit) -> None:
    words = sentences(found)
    assert set(words) == {*mechanisms(5), "side channel"}
    assert all("encrypt" not in text.lower() for text in words.values())
    assert words["projection"].startswith("Not confidential")


def test_where_the_true_clusters_are_unknown_exact_labels_stand_in() -> None:
    counts, _ = clustered(3, clients=40, each=400)
    report = audit(counts, {"plain_for_research": PlainForResearch(number=3)}, Key.root(1, "audit"))
    assert report.reference == "K-means on the exact label proportions"
    assert report.verdicts[0].agreement > 0.8


def test_no_secret_is_in_the_settings_that_are_written() -> None:
    counts, _ = clustered(3, clients=40, each=400)
    named = {"projection": Projection(number=3, secret_file="/somewhere/secret")}
    report = audit(counts, named, Key.root(1, "audit"))
    assert not any("secret" in key for key in report.verdicts[0].settings)


def test_the_tables_agree(found: Audit, tmp_path: Path) -> None:
    files = write([found], tmp_path)
    assert sorted(path.name for path in files) == ["audit.csv", "audit.json", "audit.md", "audit.pdf", "audit.png"]
    assert all(path.stat().st_size > 500 for path in files)
    lines = list(csv.DictReader(io.StringIO(as_csv([found]))))
    document = json.loads(as_json([found]))[0]
    worst = next(line for line in lines if line["attack"] == "known projection + clusters")
    assert float(worst["top"]) == attack(found, "projection", "known projection + clusters").top
    assert document["verdicts"][0]["findings"][0]["top"] == float(lines[0]["top"])
    assert f"{100 * float(worst['top']):.1f} %" in as_markdown([found])


TABLE = [
    # clients' distributions, labels, width, mean total variation, main label found, exact histogram
    ("own", 10, 3, 0.397, 0.62, 0.19),
    ("own", 10, 5, 0.106, 0.91, 0.57),
    ("own", 10, 7, 0.014, 0.995, 0.90),
    ("own", 100, 20, 0.514, 0.65, 0.06),
    ("own", 100, 30, 0.236, 0.89, 0.31),
    ("own", 100, 40, 0.067, 0.98, 0.65),
    ("own", 100, 50, 0.012, 0.997, 0.90),
    ("clusters", 10, 3, 0.469, 0.50, 0.13),
    ("clusters", 10, 5, 0.162, 0.80, 0.50),
    ("clusters", 10, 7, 0.027, 0.98, 0.87),
    ("clusters", 100, 20, 0.702, 0.32, 0.03),
    ("clusters", 100, 30, 0.494, 0.51, 0.13),
    ("clusters", 100, 40, 0.261, 0.70, 0.33),
    ("clusters", 100, 50, 0.089, 0.91, 0.64),
]


@pytest.mark.long
@pytest.mark.parametrize(("kind", "classes", "width", "distance", "top", "exact"), TABLE)
def test_least_squares_find_what_they_are_known_to_find(
    kind: str, classes: int, width: int, distance: float, top: float, exact: float
) -> None:
    """Ten draws of 60 clients and a projection each. A draw varies much: it is compared within three standard errors
    of ours and as many of theirs."""
    seen = []
    for draw in range(10):
        if kind == "own":
            table = own_mixtures(draw, 600, classes)[:60]
        else:
            table = np.array(
                list(clustered(5, draw, clients=600, classes=classes, each=50_000 // classes)[0].values())
            )[:60]
        mechanism, secret = Projection(width=width), bytes([draw, width]) * 16
        secrets = [Secrets(bytes([draw, client]) * 16, secret) for client in range(60)]
        points = [mechanism.sketch(row, own, 0).mean(axis=0) for row, own in zip(table, secrets, strict=True)]
        estimates = attacks.reconstruct(np.array(points), mechanism.projection(secret, classes))
        seen.append(
            (
                attacks.total_variation(estimates, proportions(table)).mean(),
                attacks.top_label_found(estimates, table).mean(),
                attacks.exact_histogram(estimates, table).mean(),
            )
        )
    error = np.std(seen, axis=0) / 10**0.5
    assert np.all(np.abs(np.mean(seen, axis=0) - (distance, top, exact)) <= 3 * 2**0.5 * error + 0.01)


@pytest.mark.long
@pytest.mark.parametrize("classes", [2])
def test_two_labels_are_inverted_by_one_division(classes: int) -> None:
    table = own_mixtures(1, 600, classes)
    mechanism, secret = Projection(), b"s" * 32
    points = [
        mechanism.sketch(row, Secrets(client.to_bytes(32, "big"), secret), 0).mean(axis=0)
        for client, row in enumerate(table)
    ]
    estimates = attacks.reconstruct(np.array(points), mechanism.projection(secret, classes))
    assert attacks.top_label_found(estimates, table).mean() > 0.99
    assert attacks.exact_histogram(estimates, table).mean() > 0.95


@pytest.mark.long
@pytest.mark.parametrize("clusters", [3, 5])
@pytest.mark.parametrize(("epsilon", "expected"), [(0.5, 0.55), (1.0, 0.77), (2.0, 0.91), (4.0, 0.97)])
def test_clusters_by_noisy_counts_are_as_good_as_they_are_known_to_be(
    clusters: int, epsilon: float, expected: float
) -> None:
    from sklearn.metrics import adjusted_rand_score

    agreements = []
    for seed in range(5):
        counts, truth = clustered(clusters, seed, clients=600, each=5000)
        found = DifferentiallyPrivate(number=clusters, epsilon=epsilon).group(counts, Key.root(seed, "clusters"))
        agreements.append(adjusted_rand_score(truth, list(found.cluster_of.values())))
    assert np.mean(agreements) == pytest.approx(expected, abs=0.06)


@pytest.mark.long
@pytest.mark.parametrize(("known", "expected"), [(5, 0.44), (8, 0.69), (10, 0.87), (12, 0.92)])
def test_a_dozen_known_histograms_do_without_the_projection(known: int, expected: float) -> None:
    tops = []
    for draw in range(10):
        table = own_mixtures(draw, 600, 10)
        points, _ = _points(table, draw)
        order = np.random.default_rng(draw).permutation(600)
        learned = attacks.learned_projection(points[order[:known]], proportions(table[order[:known]]))
        others = order[known : known + 60]
        tops.append(attacks.top_label_found(attacks.reconstruct(points[others], learned), table[others]).mean())
    assert np.mean(tops) == pytest.approx(expected, abs=0.1)


@pytest.mark.long
def test_duplicates_give_most_columns_where_many_clients_have_one_label() -> None:
    shares = []
    for draw in range(10):
        points, projection = _points(own_mixtures(draw, 600, 10), draw)
        places = attacks.repeated_points(points, 4e-3)
        distance = np.linalg.norm(projection.T[:, None] - places[None], axis=2)
        shares.append((distance.min(axis=1) < 4e-3).mean())
    assert np.mean(shares) > 0.6


@pytest.mark.long
@pytest.mark.parametrize(("clusters", "expected"), [(3, 0.975), (5, 0.983)])
def test_clusters_by_the_projection_are_as_good_as_they_are_known_to_be(clusters: int, expected: float) -> None:
    from sklearn.metrics import adjusted_rand_score

    agreements = []
    for seed in range(5):
        counts, truth = clustered(clusters, seed, clients=600, each=5000)
        found = Projection(number=clusters).group(counts, Key.root(seed, "clusters"))
        agreements.append(adjusted_rand_score(truth, list(found.cluster_of.values())))
    assert np.mean(agreements) == pytest.approx(expected, abs=0.03)


def _points(table: np.ndarray, draw: int) -> tuple[np.ndarray, np.ndarray]:
    mechanism, secret = Projection(), bytes([draw, 7]) * 16
    secrets = [Secrets(client.to_bytes(16, "big") + bytes([draw]) * 16, secret) for client in range(len(table))]
    rows = [mechanism.sketch(row, own, 0).mean(axis=0) for row, own in zip(table, secrets, strict=True)]
    return np.array(rows), mechanism.projection(secret, table.shape[1])
