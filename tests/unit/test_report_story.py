"""The verdict claims what the record supports and no more."""

from __future__ import annotations

import json
from pathlib import Path

from scipy import stats

from afbs.report.arms import Arm
from afbs.report.load import compared
from afbs.report.standings import student_t
from afbs.report.story import Story, verdict
from synthetic import columns, write_small


def arms(root: Path) -> list[Arm]:
    return compared([root]).arms


def said(root: Path) -> Story:
    return verdict(arms(root))


def test_a_clear_lead_names_the_winner_and_the_margin(tmp_path: Path) -> None:
    write_small(tmp_path / "a", [0.1, 0.80])
    write_small(tmp_path / "b", [0.1, 0.72], algorithm="fedbuff")
    write_small(tmp_path / "c", [0.1, 0.50], algorithm="fedavg")
    headline = said(tmp_path).headline
    assert headline == "AFBS won: 80.0 % accuracy, 8.0 points above FedBuff and 30.0 points above FedAvg."


def test_a_difference_within_the_sampling_error_of_the_test_set_is_no_victory(tmp_path: Path) -> None:
    """Of 100 test samples at 80 % the standard error is 4 points, so 5 points apart may be chance."""
    write_small(tmp_path / "a", [0.80], test_size=100)
    write_small(tmp_path / "b", [0.75], algorithm="fedbuff", test_size=100)
    write_small(tmp_path / "c", [0.20], algorithm="fedavg", test_size=100)
    headline = said(tmp_path).headline
    assert headline == (
        "AFBS leads with 80.0 % accuracy, but FedBuff (75.0 %) is too close to call; FedAvg is last with 20.0 %."
    )


def test_with_several_seeds_the_differences_seed_by_seed_decide(tmp_path: Path) -> None:
    """Leads of -5, 5 and 9 points are 3 on average with a standard error of 4.2: nothing is shown."""
    for seed, (first, second) in enumerate([(0.7, 0.75), (0.8, 0.75), (0.9, 0.81)]):
        write_small(tmp_path / f"a{seed}", [first], seed=seed)
        write_small(tmp_path / f"b{seed}", [second], seed=seed, algorithm="fedbuff")
    found = said(tmp_path)
    assert found.headline == (
        "AFBS leads with 80.0 ± 10.0 % accuracy, but 3 seeds leave it open whether that beats FedBuff (77.0 %)."
    )
    assert not any("One seed" in caveat for caveat in found.caveats)


def test_a_lead_in_every_seed_is_a_victory_however_far_the_seeds_lie_apart(tmp_path: Path) -> None:
    """Leads of 2.9, 3.0 and 3.1 points: standard error 0.058, times 4.3 is 0.25."""
    for seed, (first, second) in enumerate([(0.7, 0.671), (0.8, 0.77), (0.9, 0.869)]):
        write_small(tmp_path / f"a{seed}", [first], seed=seed)
        write_small(tmp_path / f"b{seed}", [second], seed=seed, algorithm="fedbuff")
    assert said(tmp_path).headline == "AFBS won: 80.0 ± 10.0 % accuracy, 3.0 points above FedBuff."


def test_other_seeds_cannot_be_paired(tmp_path: Path) -> None:
    """The same accuracies under other seeds: errors of 5.8 points each, so 3 points may be chance."""
    for seed, (first, second) in enumerate([(0.7, 0.671), (0.8, 0.77), (0.9, 0.869)]):
        write_small(tmp_path / f"a{seed}", [first], seed=seed)
        write_small(tmp_path / f"b{seed}", [second], seed=seed + 10, algorithm="fedbuff")
    assert "3 seeds leave it open" in said(tmp_path).headline


def test_two_seeds_need_a_very_steady_lead(tmp_path: Path) -> None:
    """Leads of 9 and 11 points: standard error 1 point, but with one degree of freedom t is 12.7."""
    for seed, second in enumerate([0.71, 0.69]):
        write_small(tmp_path / f"a{seed}", [0.8], seed=seed)
        write_small(tmp_path / f"b{seed}", [second], seed=seed, algorithm="fedbuff")
    assert "2 seeds leave it open" in said(tmp_path).headline


def test_the_quantiles_are_those_of_students_distribution() -> None:
    for freedom in range(1, 30):
        exact = float(stats.t.ppf(0.975, freedom))
        assert exact <= student_t(freedom) < exact + 0.2


def test_seeds_that_agree_make_a_victory_with_its_spread(tmp_path: Path) -> None:
    for seed, offset in enumerate([-0.01, 0.0, 0.01]):
        write_small(tmp_path / f"a{seed}", [0.8 + offset], seed=seed)
        write_small(tmp_path / f"b{seed}", [0.7 + offset], seed=seed, algorithm="fedbuff")
    assert said(tmp_path).headline == "AFBS won: 80.0 ± 1.0 % accuracy, 10.0 points above FedBuff."


def test_a_single_seed_is_admitted(tmp_path: Path) -> None:
    write_small(tmp_path / "a", [0.8])
    write_small(tmp_path / "b", [0.7], algorithm="fedbuff")
    assert said(tmp_path).caveats[0].startswith("One seed each")


def test_runs_that_went_differently_far_are_compared_where_both_have_been(tmp_path: Path) -> None:
    write_small(tmp_path / "a", [0.1, 0.5, 0.6, 0.9])
    write_small(tmp_path / "b", [0.1, 0.7], algorithm="fedbuff", ended=False)
    found = said(tmp_path)
    assert found.headline.startswith("FedBuff won: 70.0 % accuracy after 100 s")
    assert any("compared at 100 s" in caveat for caveat in found.caveats)
    assert any("1 run did not end" in caveat for caveat in found.caveats)


def test_the_speed_sentence_says_who_was_first_and_who_never_came(tmp_path: Path) -> None:
    goal = {"evaluation": {"target": 0.5}}
    write_small(tmp_path / "a", [0.1, 0.6, 0.6, 0.6], config=goal)
    write_small(tmp_path / "b", [0.1, 0.2, 0.3, 0.5], config=goal, algorithm="fedbuff")
    write_small(tmp_path / "c", [0.1, 0.2, 0.2, 0.2], config=goal, algorithm="fedavg")
    sentence = said(tmp_path).why[0]
    assert sentence == (
        "To 50 %, AFBS was the fastest with 100 s; FedBuff took 5.0 min, 3.0 times as long; FedAvg never got there."
    )


def test_a_target_that_only_some_seeds_reach_is_told_as_such(tmp_path: Path) -> None:
    goal = {"evaluation": {"target": 0.5}}
    for seed, second in enumerate([0.6, 0.4]):
        write_small(tmp_path / f"a{seed}", [0.1, 0.6], seed=seed, config=goal)
        write_small(tmp_path / f"b{seed}", [0.1, second], seed=seed, config=goal, algorithm="fedbuff")
    assert said(tmp_path).why[0] == "AFBS reached 50 % after 100 s; FedBuff got there with 1 of 2 seeds."


def test_a_target_that_no_arm_reaches_with_all_seeds_names_those_that_sometimes_do(tmp_path: Path) -> None:
    goal = {"evaluation": {"target": 0.5}}
    for seed, first in enumerate([0.6, 0.4]):
        write_small(tmp_path / "alone" / f"a{seed}", [0.1, first], seed=seed, config=goal)
    assert said(tmp_path / "alone").why[0] == "It reached the target of 50 % with 1 of 2 seeds."
    for seed in range(2):
        write_small(tmp_path / "alone" / f"b{seed}", [0.1, 0.2], seed=seed, config=goal, algorithm="fedbuff")
    assert said(tmp_path / "alone").why[0] == "Only AFBS (with 1 of 2 seeds) reached the target of 50 %."


def test_a_starved_class_is_told(tmp_path: Path) -> None:
    for name, classes in (("afbs", [0.9, 0.7]), ("fedbuff", [0.9, 0.05])):
        folder = write_small(tmp_path / name, [0.1], algorithm=name)
        last = {"event": "eval", "time": 9e2, "version": 9, "accuracy": 0.5, "per_class": classes}
        with (folder / "events.jsonl").open("a") as file:
            file.write(json.dumps(last) + "\n")
    assert "On its weakest class, AFBS has 70.0 % and FedBuff has 5.0 %." in said(tmp_path).why


def test_selection_and_step_size_are_told_from_the_steps(tmp_path: Path) -> None:
    """AFBS keeps (staleness 0, 90 examples) and drops (4, 10): 2.0 old on average, 0.0 kept; 50 examples, 90 kept."""
    mine = {"version": 1, "time": 5.0, "used": columns((1, 0, 90), weights=[1.0]), "dropped": columns((2, 4, 10))}
    theirs = {"version": 1, "time": 5.0, "used": columns((1, 0, 90), (2, 4, 10), weights=[0.3, 0.2]), "dropped": {}}
    write_small(tmp_path / "a", [0.8], steps=[mine])
    write_small(tmp_path / "b", [0.7], steps=[theirs], algorithm="fedbuff")
    why = " ".join(said(tmp_path).why)
    assert "AFBS dropped 50 % of the updates that came in" in why
    assert "0.0 versions old on average instead of 2.0" in why
    assert "90 examples instead of 50" in why
    assert "AFBS moved the model 2.0 times as far, so step size may be part of its result" in why


def test_a_larger_server_rate_counts_as_a_larger_step(tmp_path: Path) -> None:
    step = {"version": 1, "time": 5.0, "used": columns((1, 0, 90), weights=[0.5]), "dropped": {}}
    fast = {"algorithm": {"name": "fedbuff", "server_lr": 3.0}}
    write_small(tmp_path / "a", [0.8], steps=[step], algorithm="fedbuff", config=fast)
    write_small(tmp_path / "b", [0.7], steps=[step])
    assert any("moved the model 3.0 times as far" in sentence for sentence in said(tmp_path).why)


def test_weights_are_called_a_movement_only_where_the_record_says_so(tmp_path: Path) -> None:
    step = {"version": 1, "time": 5.0, "used": columns((1, 0, 90), weights=[0.5]), "dropped": {}}
    double = step | {"used": columns((1, 0, 90), weights=[1.0])}
    for i, adds in enumerate((True, False, None)):
        write_small(tmp_path / f"{i}" / "a", [0.8], steps=[double])
        write_small(tmp_path / f"{i}" / "b", [0.7], steps=[step], algorithm="mine", meta={"adds": adds})
        moved = any("times as far" in sentence for sentence in said(tmp_path / f"{i}").why)
        assert moved == (adds is True)


def test_clients_that_never_count_are_the_price(tmp_path: Path) -> None:
    step = {"version": 1, "time": 5.0, "used": columns((1, 0, 90), weights=[1.0]), "dropped": columns((2, 4, 10))}
    about = {"clients": {"id": [1, 2, 3], "examples": [90, 10, 5], "cluster": [0, 0, 0], "latency": None}}
    write_small(tmp_path / "a", [0.8], steps=[step], meta=about)
    assert any(
        "1 of 2 clients that delivered updates never had one counted" in sentence for sentence in said(tmp_path).why
    )


def test_other_settings_that_differ_are_pointed_out(tmp_path: Path) -> None:
    write_small(tmp_path / "a", [0.8], config={"training": {"lr": 0.1}})
    write_small(tmp_path / "b", [0.7], config={"training": {"lr": 0.01}}, algorithm="fedbuff")
    assert any("differ in their [training] settings" in caveat for caveat in said(tmp_path).caveats)


def test_a_run_without_evaluations_gets_no_verdict(tmp_path: Path) -> None:
    write_small(tmp_path / "a", [], ended=False)
    assert said(tmp_path).headline == "No run has been evaluated yet."


def test_the_end_is_a_mean_of_several_evaluations_where_there_are_many(tmp_path: Path) -> None:
    """20 evaluations: the last five count. 0.6, 0.8, 0.6, 0.8, 0.7 are 0.7 on average, with a lucky last one."""
    write_small(tmp_path / "a", [0.1] * 15 + [0.6, 0.8, 0.6, 0.8, 0.7])
    write_small(tmp_path / "b", [0.1] * 15 + [0.3, 0.2, 0.3, 0.2, 0.5], algorithm="fedbuff")
    assert said(tmp_path).headline == "AFBS won: 70.0 % accuracy, 40.0 points above FedBuff."


def test_curves_that_swing_more_than_they_differ_have_no_winner(tmp_path: Path) -> None:
    """Both swing by about 22 points around their mean, so 10 points between the means are within two errors."""
    swinging = [0.9, 0.5, 0.9, 0.5, 0.7]
    write_small(tmp_path / "a", [0.1] * 15 + swinging)
    write_small(tmp_path / "b", [0.1] * 15 + [level - 0.1 for level in swinging], algorithm="fedbuff")
    assert "too close to call" in said(tmp_path).headline
