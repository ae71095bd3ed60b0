"""What `afbs reproduce` is made of: the published figures, the cells, and how the two stand side by side."""

from __future__ import annotations

import tomllib
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from afbs.models.flgo_cnn import FlgoCnn
from afbs.models.lenet5 import LeNet5
from afbs.reproduce import EXHIBITS, Choice
from afbs.reproduce.beside import accuracy_row, remark, time_row
from afbs.reproduce.exhibits import Gathered
from afbs.reproduce.exhibits.fair import RATES, SERVER
from afbs.reproduce.exhibits.published import neighbour, reason
from afbs.reproduce.exhibits.settings import OPTIONS, contradict
from afbs.reproduce.found import Evidence, thinned, write
from afbs.reproduce.published import figures, published, target
from afbs.reproduce.running import wanted
from afbs.reproduce.spec import GLOROT, STOCK, Spec
from afbs.types import UserError


def test_the_published_figures_ship_with_the_package() -> None:
    numbers = Counter(figure.table for figure in published() if figure.method != "target")
    assert numbers == {"2": 77, "2_commented_out_in_source": 11, "3": 12, "4": 77, "5": 16}
    assert figures("2")["afbs", "cifar10", 1] == 65.79
    assert figures("4")["fedasync", "mnist", 1] is None
    assert target("cifar100") == 0.15


def test_every_published_figure_has_a_run_or_a_reason() -> None:
    runs = {spec.name for spec in wanted([EXHIBITS["published"]], Choice())}
    beside = 0
    for figure in published():
        spec = neighbour(figure)
        assert (spec is None) == bool(reason(figure))
        if spec is not None:
            assert spec.name in runs
            beside += 1
    assert beside == 77 + 12 + 77


def test_runs_that_tables_share_are_one_cell_and_others_are_not() -> None:
    everything = wanted(list(EXHIBITS.values()), Choice())
    assert len({spec.cell.id for spec in everything}) == len({spec.cell.digest for spec in everything})
    assert len({spec.name for spec in everything}) == len(everything)
    assert set(wanted([EXHIBITS["table2"]], Choice())) == set(wanted([EXHIBITS["table4"]], Choice()))
    assert set(wanted([EXHIBITS["fig-curves"]], Choice())) < set(wanted([EXHIBITS["table2"]], Choice()))


def test_tables_two_and_four_are_in_the_setting_of_the_paper() -> None:
    cells = [spec.cell.config for spec in wanted([EXHIBITS["table2"]], Choice())]
    assert len(cells) == 77
    for config in cells:
        text = config.tables["data"]["name"] == "sst2"
        assert config.tables["partition"]["clients"] == (60 if text else 600)
        assert config.run.in_flight == (12 if text else 120)
        assert config.run.virtual_days == (10 if text else 20)
        assert (config.training.lr, config.training.epochs, config.training.batch_size) == (0.01, 5, 64)
        assert (config.training.lr_decay, config.training.lr_decay_unit) == (0.999, "update")
        assert config.tables["clusters"]["number"] == config.tables["partition"]["clusters"]


def test_what_other_weights_gave_stands_beside_where_it_is_known_and_is_never_asked_for() -> None:
    exhibit, choice = EXHIBITS["table2"], Choice(("mnist", "sst2"), (1,), ("afbs",))
    ours, other = Spec("mnist", 1, "afbs"), Spec("mnist", 1, "afbs", changes=(GLOROT,))
    assert exhibit.beside(choice) == [other]
    assert other not in exhibit.specs(choice)
    runs = Gathered({ours.name: run(ours, 0.975), other.name: run(other, 0.985)})
    mnist, sst2 = exhibit.page(choice, runs).tables
    assert mnist.rows == [["AFBS", "98.91", "97.50", "-1.41", "98.50", ""]]
    assert mnist.values[0]["from_glorots_weights"] == 98.5
    assert sst2.rows == [["AFBS", "63.99", "not run", "–", "–", ""]]


def test_a_choice_takes_a_part() -> None:
    choice = Choice(("mnist",), (1,), ("fedavg", "afbs"), (4, 5), 0.5)
    names = [spec.name for spec in wanted([EXHIBITS["table4"]], choice)]
    assert names == [
        "mnist-k1-afbs-0.5d-seed4",
        "mnist-k1-fedavg-0.5d-seed4",
        "mnist-k1-afbs-0.5d-seed5",
        "mnist-k1-fedavg-0.5d-seed5",
    ]
    assert choice.suffix == "-mnist-k1-fedavg-afbs-seed4-seed5-0.5d"
    with pytest.raises(UserError, match="did you mean 'fedavg'"):
        Choice(methods=("fedavgg",))


def test_changes_are_part_of_a_name_and_of_the_settings() -> None:
    spec = Spec("cifar10", 3, "afbs", 2, 3.0, (("algorithm.weights", "each"), ("partition.volume_sigma", 0.0)))
    assert spec.name == "cifar10-k3-afbs-weights-each-volume-sigma-0-3d-seed2"
    assert spec.cell.config.tables["algorithm"]["weights"] == "each"
    assert spec.cell.config.tables["partition"]["volume_sigma"] == 0.0
    assert spec.cell.id.endswith(spec.cell.digest[:8])


@pytest.mark.parametrize(
    ("paper", "values", "told"),
    [
        (65.79, [0.60, 0.62], ["65.79", "61.00 ± 1.41", "-4.79"]),
        (65.79, [0.70], ["65.79", "70.00", "+4.21"]),
        (65.79, [], ["65.79", "not run", "–"]),
        (None, [0.5], ["–", "50.00", "–"]),
    ],
)
def test_accuracies_stand_beside_the_paper_in_points(paper: float | None, values: list[float], told: list[str]) -> None:
    assert accuracy_row(paper, values)[0] == told


@pytest.mark.parametrize(
    ("paper", "values", "told"),
    [
        (100_000.0, [150_000.0], ["100,000", "150,000", "+50 %"]),
        (100_000.0, [80_000.0, 100_000.0], ["100,000", "90,000 ± 14,142", "-10 %"]),
        (100_000.0, [80_000.0, None], ["100,000", "80,000 (1 of 2)", "-20 %"]),
        (100_000.0, [None], ["100,000", "not reached (43.8 %)", "–"]),
        (None, [None], ["not reached", "not reached (43.8 %)", "–"]),
        (None, [70_000.0], ["not reached", "70,000", "–"]),
        (None, [], ["not reached", "not run", "–"]),
    ],
)
def test_times_stand_beside_the_paper_in_percent(
    paper: float | None, values: list[float | None], told: list[str]
) -> None:
    assert time_row(paper, values, [0.4375] * len(values))[0] == told


def test_a_thinned_curve_keeps_the_best_the_first_at_the_target_and_the_last_third() -> None:
    points = [
        (float(moment), moment, 0.5 if moment < 333 else 0.9 if moment == 777 else 0.7, 1.0) for moment in range(1000)
    ]
    points[555] = (555.0, 555, 0.9, 1.0)
    kept = thinned(points, target=0.6, end=999.0, most=10)
    assert kept[0] == points[0]
    assert points[555] in kept
    assert next(point for point in kept if point[2] >= 0.6) == points[333]
    assert kept[-334:] == points[-334:]
    assert len(kept) <= 334 + 9
    assert thinned(points[:10], 0.6, 9.0, 10) == points[:10]


def test_a_configuration_that_does_a_run_again_says_how_numpy_multiplied(tmp_path: Path) -> None:
    spec = Spec("cifar10", 3, "afbs")
    settings = {"name": spec.name, "run": {"seed": 1}}
    write(run(spec, 0.5, made={"blas": "openblas SkylakeX"}), settings, tmp_path / "told")
    command = f"# OPENBLAS_CORETYPE=SkylakeX afbs run results/cells/{spec.name}/config.toml"
    assert (tmp_path / "told" / "config.toml").read_text().splitlines()[0] == command
    assert tomllib.loads((tmp_path / "told" / "config.toml").read_text()) == settings
    write(run(spec, 0.5), settings, tmp_path / "untold")
    assert "#" not in (tmp_path / "untold" / "config.toml").read_text()


def test_the_last_third_is_what_counts_where_a_model_sways() -> None:
    """Of 3 days the last: 0.4, 0.6 and 0.5, whatever came before and whichever is last."""
    day = 86_400.0
    before = ((0.0, 0, 0.1, 2.3), (1.9 * day, 5, 0.9, 1.0))
    curve = (*before, (2 * day, 6, 0.4, 1.0), (2.5 * day, 8, 0.6, 1.0), (3 * day, 9, 0.5, 1.0))
    one = run(Spec("cifar10", 3, "afbs", days=3.0), 0.5, curve=curve)
    assert one.late == (0.4, 0.6, 0.5)
    assert one.level == pytest.approx(0.5)


def run(spec: Spec, final: float, **facts: Any) -> Evidence:
    """What such a run might have found."""
    known = {
        "name": spec.name,
        "seed": spec.seed,
        "best": final,
        "final": final,
        "target": 0.5,
        "time_to_target": None,
        "reason": "horizon",
        "virtual_seconds": spec.virtual_days * 86_400,
        "horizon": spec.virtual_days * 86_400,
        "versions": 100,
        "updates": {},
        "trained": 1000,
        "per_class": (),
        "heard": {},
        "sha256": "",
        "seal": "",
        "made": {},
        "curve": ((0.0, 0, 0.1, 2.3), (spec.virtual_days * 86_400, 100, final, 1.0)),
    }
    return Evidence(**{**known, **facts})


def test_a_run_that_froze_says_when() -> None:
    spec = Spec("cifar10", 1, "afbs")
    frozen = run(spec, 0.6, reason="learning rate", virtual_seconds=12.5 * 86_400)
    assert remark([frozen], 20) == "ended at day 12.5, learning rate below 1 %"
    assert remark([run(Spec("cifar10", 1, "afbs", days=0.5), 0.3)], 20) == "0.5 of 20 days"
    assert remark([run(spec, 0.6)], 20) == ""


def test_ablations_test_an_arm_against_the_one_it_names_seed_by_seed() -> None:
    exhibit, choice = EXHIBITS["ablations"], Choice(clusters=(1,), methods=("afbs", "fedbuff"))
    gains = {1: 0.03, 2: 0.05, 3: 0.04}
    runs = {
        spec.name: run(spec, 0.4 + 0.02 * spec.seed + (gains[spec.seed] if spec.method == "afbs" else 0.0))
        for spec in wanted([exhibit], choice)
    }
    step = next(table for table in exhibit.page(choice, Gathered(runs)).tables if table.name == "step-k1")
    told = {row["arm"]: row for row in step.values}
    assert told["AFBS"]["against"] == "FedBuff"
    assert told["AFBS"]["difference"] == pytest.approx(0.04)
    # three gains of mean 0.04 and deviation 0.01: t = 0.04 / (0.01 / √3) = 6.928, of which p is 0.0202 with two degrees
    assert told["AFBS"]["p"] == pytest.approx(0.0202, abs=2e-4)
    assert told["FedBuff"]["difference"] == pytest.approx(-0.04)


def test_table_three_shares_runs_with_table_two_but_for_those_that_must_come_to_rest() -> None:
    three, two = (set(wanted([EXHIBITS[name]], Choice())) for name in ("table3", "table2"))
    shared = {(spec.dataset, spec.clusters, spec.method) for spec in three & two}
    assert shared == {(dataset, clusters, "afbs") for dataset in ("mnist", "cifar100") for clusters in (3, 5)}
    swaying = {spec for spec in three if spec.cell.config.run.stop_when_lr_below == 0}
    assert {spec.dataset for spec in swaying} == {"cifar10"}
    assert len(swaying) == 4
    assert {spec.cell.config.run.stop_when_lr_below for spec in two} == {0.0001}


def test_the_fair_comparison_tries_long_what_was_best_in_short_with_each_rate_and_then_takes_the_test_set() -> None:
    exhibit, choice = EXHIBITS["fair"], Choice(clusters=(1,), methods=("fedavg",))
    trials = wanted([exhibit], choice)
    assert len(trials) == 12
    assert all(spec.cell.config.evaluation.validation == 0.1 for spec in trials)
    some = {spec.name: run(spec, 0.1) for spec in trials[:11]}
    assert exhibit.then(choice, Gathered(some)) == []
    short = {trials[9].name: 0.6, trials[2].name: 0.5, trials[5].name: 0.4}
    tried = {spec.name: run(spec, short.get(spec.name, 0.2)) for spec in trials}

    finals = list(exhibit.then(choice, Gathered(tried)))
    assert [spec.changes for spec in finals] == [trials[place].changes for place in (2, 5, 9)]
    assert all(spec.virtual_days == 5 and spec.seed == trials[0].seed for spec in finals)
    assert exhibit.then(choice, Gathered(tried | {spec.name: run(spec, 0.6) for spec in finals[:2]})) == finals

    best = finals[1]
    tried |= {spec.name: run(spec, accuracy) for spec, accuracy in zip(finals, (0.4, 0.5, 0.1), strict=True)}
    again = replace(best, seed=12)
    assert exhibit.then(choice, Gathered(tried)) == [*finals, again]
    tried |= {again.name: run(again, 0.42)}
    beside = list(exhibit.then(choice, Gathered(tried))[len(finals) + 1 :])
    assert [rates(spec, "server_lr") for spec in beside] == [(0.03, 0.5), (0.03, 2.0)]
    assert {(spec.virtual_days, spec.seed) for spec in beside} == {(5, trials[0].seed)}
    tried |= {spec.name: run(spec, 0.3) for spec in beside}
    compared = exhibit.then(choice, Gathered(tried))[len(finals) + 3 :]
    assert [spec.seed for spec in compared] == [1, 2, 3]
    for spec in compared:
        assert spec.cell.config.evaluation.validation == 0
        assert spec.cell.config.training == best.cell.config.training
        assert spec.cell.config.algorithm == best.cell.config.algorithm
        assert spec.seed not in {best.seed, again.seed}
    told = {table.name: table for table in exhibit.page(choice, Gathered(tried)).tables}
    assert [row[-2:] for row in told["finals-k1"].rows] == [["", ""], ["42.00", "*"], *[["", ""]] * 3]
    assert sum("*" in field for row in told["trials-k1"].rows for field in row) == 5


def test_rates_of_the_fair_comparison_that_do_not_hold_with_a_second_seed_make_way_for_the_next_best() -> None:
    exhibit, choice = EXHIBITS["fair"], Choice(clusters=(1,), methods=("fedavg",))
    trials = wanted([exhibit], choice)
    tried = {
        spec.name: run(spec, 0.3 if spec is trials[place // 4 * 4 + 1] else 0.2) for place, spec in enumerate(trials)
    }
    low, middle, high = exhibit.then(choice, Gathered(tried))
    tried |= {low.name: run(low, 0.4), middle.name: run(middle, 0.5), high.name: run(high, 0.45)}
    second = {spec: replace(spec, seed=12) for spec in (low, middle, high)}

    tried |= {second[middle].name: run(second[middle], 0.2)}  # 0.35 in the mean
    assert exhibit.then(choice, Gathered(tried)) == [low, middle, high, second[middle], second[high]]
    tried |= {second[high].name: run(second[high], 0.37)}  # 0.41: better than the lowest rate's 0.4, and at an edge
    around = exhibit.then(choice, Gathered(tried))[5:]
    assert [rates(spec, "server_lr") for spec in around] == [(0.3, 1.0), (0.1, 0.5), (0.1, 2.0)]
    tried |= {spec.name: run(spec, 0.1) for spec in around}
    compared = exhibit.then(choice, Gathered(tried))[8:]
    assert [(spec.cell.config.training.lr, spec.seed) for spec in compared] == [(0.1, 1), (0.1, 2), (0.1, 3)]
    table = next(table for table in exhibit.page(choice, Gathered(tried)).tables if table.name == "finals-k1")
    assert [row[-2:] for row in table.rows] == [["", ""], ["20.00", ""], ["37.00", "*"], *[["", ""]] * 3]
    assert [row["second_seed"] for row in table.values] == [None, 0.2, 0.37, None, None, None]


def test_a_second_seed_that_is_easier_shields_nobody_from_a_rival_that_is_better_with_the_first() -> None:
    exhibit, choice = EXHIBITS["fair"], Choice(clusters=(1,), methods=("fedavg",))
    trials = wanted([exhibit], choice)
    tried = {
        spec.name: run(spec, 0.3 if spec is trials[place // 4 * 4 + 1] else 0.2) for place, spec in enumerate(trials)
    }
    low, middle, high = exhibit.then(choice, Gathered(tried))
    again = replace(middle, seed=12)
    tried |= {low.name: run(low, 0.4), middle.name: run(middle, 0.5), high.name: run(high, 0.45)}
    tried |= {again.name: run(again, 0.6)}
    first, *_ = beside = exhibit.then(choice, Gathered(tried))[4:]
    tried |= {spec.name: run(spec, 0.51 if spec is first else 0.3) for spec in beside}
    (second,) = exhibit.then(choice, Gathered(tried))[6:]
    assert second == replace(first, seed=12)
    tried |= {second.name: run(second, 0.58)}  # 0.545 in the mean, where the other has 0.55
    told = next(table for table in exhibit.page(choice, Gathered(tried)).tables if table.name == "finals-k1")
    assert [row["value"] for row, text in zip(told.values, told.rows, strict=True) if text[-1] == "*"] == [1.0]


def test_the_fair_comparison_goes_on_around_the_best_and_beyond_an_edge_while_that_is_better() -> None:
    exhibit, choice = EXHIBITS["fair"], Choice(clusters=(1,), methods=("fedasync",))
    trials = wanted([exhibit], choice)
    corner = trials[3]  # the lowest client's rate and the highest mixing
    tried = {spec.name: run(spec, 0.2) for spec in trials} | {corner.name: run(corner, 0.6)}
    finals = list(exhibit.then(choice, Gathered(tried)))
    tried |= {spec.name: run(spec, 0.6 if spec.changes == corner.changes else 0.5) for spec in finals}
    again = next(spec for spec in exhibit.then(choice, Gathered(tried)) if spec not in finals)
    assert (again.changes, again.seed) == (corner.changes, 12)
    tried |= {again.name: run(again, 0.6)}
    finals.append(again)

    around = [spec for spec in exhibit.then(choice, Gathered(tried)) if spec not in finals]
    assert [rates(spec) for spec in around] == [(0.003, 0.9), (0.01, 0.6), (0.01, 1.0)]
    assert all(spec.virtual_days == 5 and spec.cell.config.evaluation.validation == 0.1 for spec in around)
    assert exhibit.then(choice, Gathered(tried | {around[0].name: run(around[0], 0.1)})) == [*finals, *around]

    worse = {spec.name: run(spec, 0.5) for spec in around}
    compared = exhibit.then(choice, Gathered(tried | worse))[len(finals) + 3 :]
    assert [(*rates(spec), spec.seed) for spec in compared] == [(0.01, 0.9, 1), (0.01, 0.9, 2), (0.01, 0.9, 3)]

    better = {spec.name: run(spec, accuracy) for spec, accuracy in zip(around, (0.7, 0.62, 0.65), strict=True)}
    (second,) = exhibit.then(choice, Gathered(tried | better))[len(finals) + 3 :]
    assert (rates(second), second.seed) == ((0.003, 0.9), 12)
    better |= {second.name: run(second, 0.7)}
    further = exhibit.then(choice, Gathered(tried | better))[len(finals) + 4 :]
    assert [rates(spec) for spec in further] == [(0.001, 0.9), (0.003, 0.6), (0.003, 1.0)]
    table = {table.name: table for table in exhibit.page(choice, Gathered(tried | better)).tables}["finals-k1"]
    assert [row[1:4] for row in table.rows[3:]] == [
        ["0.003", "mixing 0.9", "beyond the grid"],
        ["0.01", "mixing 0.6", "20.00"],
        ["0.01", "mixing 1", "beyond the grid"],
        ["0.001", "mixing 0.9", "beyond the grid"],
        ["0.003", "mixing 0.6", "beyond the grid"],
        ["0.003", "mixing 1", "beyond the grid"],
    ]


def rates(spec: Spec, server: str = "mixing") -> tuple[float, float]:
    return spec.cell.config.training.lr, spec.cell.config.tables["algorithm"][server]


def test_whatever_lies_beyond_the_grids_of_the_fair_comparison_can_be_run() -> None:
    for method, server in SERVER.items():
        for ladder in (RATES, server):
            assert sorted({*ladder.below, *ladder.grid, *ladder.above}) == [
                *reversed(ladder.below),
                *ladder.grid,
                *ladder.above,
            ]
            for value in (*ladder.below, *ladder.above):
                config = Spec("cifar10", 1, method, changes=((ladder.path, value),)).cell.config
                table, _, key = ladder.path.partition(".")
                assert config.tables[table][key] == value


def test_the_nearest_settings_come_first() -> None:
    exhibit, choice = EXHIBITS["settings"], Choice()
    near = "cifar10-k1-afbs-lr-decay-unit-none"
    accuracy = {spec.name: 0.45 if spec.name.startswith(near) else 0.40 for spec in wanted([exhibit], choice)}
    runs = {spec.name: run(spec, accuracy[spec.name]) for spec in wanted([exhibit], choice)}
    table = exhibit.page(choice, Gathered(runs)).tables[0]
    assert table.values[0]["option"] == "no decay"
    assert table.values[0]["distance"] == pytest.approx(((25 + 3 * 100) / 4) ** 0.5, abs=1e-3)
    told = {row["option"]: row["distance"] for row in table.values}
    assert told["as first read"] == pytest.approx(10)
    assert told["AFBS: no λ"] == pytest.approx(10)  # the other three as they are without it


def test_the_network_that_takes_long_is_tried_on_all_four_and_not_run_to_the_end() -> None:
    exhibit, choice = EXHIBITS["settings"], Choice()
    runs = {spec.name: run(spec, 0.48 if "flgo_cnn" in spec.name else 0.40) for spec in wanted([exhibit], choice)}
    assert not exhibit.then(choice, Gathered(runs))
    title, *found, distance = exhibit.page(choice, Gathered(runs)).tables[0].rows[0]
    assert (title, found, distance) == ("FLGO's own network and augmentation", ["48.00"] * 4, "2.00")


def test_settings_are_held_against_the_paper_by_the_mean_of_the_last_tenth() -> None:
    """0.6 just before the last tenth and 0.46, 0.50 in it: two points are missing to 50 %."""
    exhibit, choice = EXHIBITS["settings"], Choice(methods=("afbs",))
    first = exhibit.specs(choice)[0]
    end = first.virtual_days * 86_400
    swaying = ((0.89 * end, 7, 0.6, 1.0), (0.95 * end, 8, 0.46, 1.0), (end, 9, 0.5, 1.0))
    table = exhibit.page(choice, Gathered({first.name: run(first, 0.5, curve=swaying)})).tables[0]
    assert table.rows[0] == ["as first read", "48.00", "2.00"]


def test_what_comes_nearer_is_tried_together_and_the_nearest_to_the_end() -> None:
    exhibit, choice = EXHIBITS["settings"], Choice()
    better = {"lr-decay-unit-none": 0.46, "per-job": 0.44, "lr-decay-unit-virtual-time": 0.42}

    def accuracy(spec: Spec) -> float:
        return max((value for word, value in better.items() if word in spec.name), default=0.40)

    both = (("training.lr_decay_unit", "none"), ("latency.per", "job"))
    runs = {spec.name: run(spec, accuracy(spec)) for spec in wanted([exhibit], choice)}
    together = exhibit.then(choice, Gathered(runs))
    assert {spec.changes[:2] for spec in together} == {both}
    assert sorted(spec.method for spec in together) == ["afbs", "ca2fl", "fedavg", "fedbuff"]
    runs |= {spec.name: run(spec, 0.49) for spec in together}
    last = [spec for spec in exhibit.then(choice, Gathered(runs)) if spec not in together]
    assert {spec.changes for spec in last} == {both}
    assert {spec.virtual_days for spec in last} == {20}
    runs |= {spec.name: run(spec, 0.6) for spec in last}
    assert set(exhibit.then(choice, Gathered(runs))) == {*together, *last}
    assert exhibit.page(choice, Gathered(runs)).tables[-1].rows[0][:4] == ["AFBS", "65.79", "60.00", "-5.79"]


def test_a_single_choice_that_comes_nearer_is_run_to_the_end_and_one_within_chance_is_not() -> None:
    exhibit, choice = EXHIBITS["settings"], Choice()
    for accuracy, days in ((0.46, {20.0}), (0.40, set())):
        runs = {
            spec.name: run(spec, accuracy if "momentum" in spec.name else 0.40) for spec in wanted([exhibit], choice)
        }
        assert {spec.virtual_days for spec in exhibit.then(choice, Gathered(runs))} == days


def test_four_starts_stand_beside_the_paper_where_the_rate_is_gone_at_once() -> None:
    exhibit, choice = EXHIBITS["settings"], Choice()
    glorot = Spec("mnist", 1, "fedasync", changes=(GLOROT,))
    assert glorot in exhibit.specs(choice)
    runs = {glorot.name: run(glorot, 0.8375), "mnist-k1-fedasync-20d-seed1": run(glorot, 0.167)}
    starts = next(table for table in exhibit.page(choice, Gathered(runs)).tables if table.name == "starts")
    assert starts.rows[0] == ["FedAsync, MNIST", "85.16", "16.70", "83.75", "not run", "not run"]
    assert starts.values[0]["Glorot and Bengio's"] == 83.75


def test_afbs_from_four_starts_stands_beside_both_of_the_papers_figures() -> None:
    exhibit, choice = EXHIBITS["settings"], Choice()
    stock = Spec("cifar10", 1, "afbs", changes=STOCK["cifar10"])
    assert stock in exhibit.specs(choice)
    assert stock not in exhibit.specs(Choice(methods=("fedbuff",)))
    runs = {stock.name: replace(run(stock, 0.66), time_to_target=105_000.0)}
    long = next(table for table in exhibit.page(choice, Gathered(runs)).tables if table.name == "long")
    assert [row[2] for row in long.rows] == ["not run", "not run", "not run", "66.00"]
    assert long.rows[-1] == ["FLGO's own network", "65.79", "66.00", "+0.21", "101,582", "105,000", "+3 %"]


def test_the_papers_own_times_are_held_against_the_sizes_of_two_networks() -> None:
    sizes = EXHIBITS["table5"].page(Choice(), Gathered({})).tables[-1]
    assert [row[-1] for row in sizes.rows] == ["1.00", "2.08", "1.68", "1.84", "1.38"]
    for row, shape in ((0, (1, 28, 28)), (0, (3, 32, 32)), (1, (1, 28, 28)), (1, (3, 32, 32))):
        network = (LeNet5, FlgoCnn)[row](shape=shape, classes=10)
        size = sum(parameter.numel() for parameter in network.parameters())
        assert f"{size:,}" == sizes.rows[row][1 if shape[0] == 1 else 2]


def test_plain_sgd_is_told_after_as_many_steps_as_a_run_is_worth() -> None:
    """Rounds have 20 steps: after 100 of them the model of round 5 is as good as halfway from 0.1 to 0.3."""
    exhibit, choice = EXHIBITS["steps"], Choice(seeds=(1,))
    first = exhibit.specs(choice)[0]
    assert first.cell.config.training.steps == 20
    runs = {first.name: run(first, 0.3, curve=((0.0, 0, 0.1, 2.3), (600.0, 10, 0.3, 2.0)))}
    (table,) = exhibit.page(choice, Gathered(runs, {"cifar10": {"fedasync": 100}})).tables
    assert table.rows == [["100", "FedAsync", "17.01", "20.0", "not run", "not run"]]


def test_choices_are_tried_together_only_where_their_settings_can_be_had_together() -> None:
    """Clients that are asked at a step only are another algorithm, which has none of the others' settings; parts of one
    network go together."""
    options = {option.title: option for option in OPTIONS}
    at_step, job = options["clients are asked at a step only"], options["latency drawn once a job"]
    tanh, margin = options["LeNet-5 with tanh"], options["LeNet-5 with a margin of two"]
    assert not contradict(at_step, job)
    assert not contradict(tanh, margin)
    assert contradict(at_step, options["AFBS: no λ"])
    assert contradict(options["no decay"], options["decay by virtual time"])
    assert contradict(options["pixels 0 to 1, not normalised"], options["pixels −1 to 1"])
    assert contradict(options["FLGO's own network and augmentation"], tanh)
