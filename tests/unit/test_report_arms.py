"""Runs that differ by their seed alone are one arm; labels say what else differs."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

from afbs import registry, report
from afbs.report.arms import settings_of
from afbs.report.load import compared
from afbs.report.palette import looks
from afbs.report.sections import sections
from afbs.report.story import verdict
from synthetic import columns, write_small


def test_seeds_and_bookkeeping_do_not_make_a_new_arm(tmp_path: Path) -> None:
    write_small(tmp_path / "a", [0.5], seed=1, config={"run": {"seed": 1, "workers": 1, "name": "x"}})
    write_small(tmp_path / "b", [0.7], seed=2, config={"run": {"seed": 2, "workers": 8, "name": "y"}})
    (arm,) = compared([tmp_path]).arms
    assert (arm.label, arm.seeds, len(arm.runs)) == ("AFBS", 2, 2)
    final = arm.fact("final")
    assert final.mean == 0.6
    assert abs(final.deviation - 0.1 * 2**0.5) < 1e-12


def test_a_second_run_of_a_seed_is_no_second_sample(tmp_path: Path) -> None:
    """Seed 1 found 0.5 and 0.7, so 0.6; seed 2 found 0.8: a mean of 0.7, and a deviation of 0.1 · √2."""
    for name, seed, accuracy in (("a", 1, 0.5), ("b", 1, 0.7), ("c", 2, 0.8)):
        write_small(tmp_path / name, [accuracy], seed=seed)
    (arm,) = compared([tmp_path]).arms
    assert (len(arm.runs), arm.seeds) == (3, 2)
    final = arm.fact("final")
    assert abs(final.mean - 0.7) < 1e-12
    assert abs(final.deviation - 0.1 * 2**0.5) < 1e-12
    assert final.number == 2


def test_two_runs_of_one_seed_alone_have_no_spread(tmp_path: Path) -> None:
    for name, accuracy in (("a", 0.5), ("b", 0.7)):
        write_small(tmp_path / name, [accuracy])
    (arm,) = compared([tmp_path]).arms
    assert arm.seeds == 1
    assert math.isnan(arm.fact("final").deviation)
    assert verdict([arm]).caveats[0].startswith("One seed")


def test_the_copy_of_a_run_is_left_out_and_named(tmp_path: Path) -> None:
    for name, seed, sha in (("a", 1, "x"), ("b", 1, "x"), ("c", 1, "y"), ("d", 2, "x")):
        (write_small(tmp_path / name, [0.5], seed=seed) / "result.json").write_text(json.dumps({"sha256": sha}))
    write_small(tmp_path / "e", [0.5], ended=False)
    write_small(tmp_path / "f", [0.5], ended=False)
    found = compared([tmp_path])
    assert [run.folder for run in found.arms[0].runs] == ["a", "c", "e", "f", "d"]
    assert found.left_out == ("Left out as the copy of another run, with the same settings, seed and final model: b.",)


def test_the_page_lists_the_reasons_that_the_steps_gave(tmp_path: Path) -> None:
    used = columns((1, 0, 9), (2, 0, 9), (3, 1, 9), weights=[1, 1, 1]) | {"why": ["fresh enough"] * 2 + ["<lucky>"]}
    step = {"version": 1, "time": 1.0, "used": used, "dropped": columns((4, 9, 1)) | {"why": ["drawn by lot"]}}
    write_small(tmp_path / "a", [0.5], steps=[step])
    write_small(tmp_path / "b", [0.5], algorithm="fedbuff", steps=[step | {"dropped": {}}])
    (buffer,) = (section for section in sections(compared([tmp_path / "a"]).arms) if section.id == "buffer")
    cells = re.findall(r"<td>(.*?)</td>", buffer.body)
    assert [cells[i : i + 4] for i in range(0, len(cells), 4)] == [
        ["kept", "fresh enough", "2", "50.0 %"],
        ["kept", "&lt;lucky&gt;", "1", "25.0 %"],
        ["dropped", "drawn by lot", "1", "25.0 %"],
    ]


def test_no_algorithm_is_named_where_runs_are_shown() -> None:
    """What they have to say of themselves stands in the record. The product's own name is no algorithm's."""
    place = Path(report.__file__).parent
    files = [path for path in place.rglob("*") if path.suffix in (".py", ".js", ".html", ".css")]
    names = [name for name in registry.names("algorithm") if name != "afbs"]
    found = [
        (path.name, name)
        for path in files
        for name in (*names, "AFBS", '== "afbs"')
        if re.search(rf"(?i:\b{name}\b)" if name in names else re.escape(name), path.read_text())
    ]
    assert len(files) > 20
    assert found == []


def test_the_confusion_of_an_arm_is_that_of_all_its_seeds(tmp_path: Path) -> None:
    """100 samples of one class each: 50 and 70 of them are right."""
    write_small(tmp_path / "a", [0.5], seed=1, test_size=100)
    write_small(tmp_path / "b", [0.7], seed=2, test_size=100)
    write_small(tmp_path / "c", [0.5], seed=3, ended=False)
    (arm,) = compared([tmp_path]).arms
    assert arm.confusion is not None
    assert arm.confusion.tolist() == [[120, 80], [0, 0]]


def test_arms_of_one_algorithm_are_told_apart_by_what_differs(tmp_path: Path) -> None:
    for name, survival in (("a", "buffer"), ("b", "none")):
        write_small(tmp_path / name, [0.5], config={"algorithm": {"name": "afbs", "survival": survival}})
    write_small(tmp_path / "c", [0.5], algorithm="fedbuff")
    labels = [arm.label for arm in compared([tmp_path]).arms]
    assert labels == ["AFBS (survival buffer)", "AFBS (survival none)", "FedBuff"]


def test_the_settings_that_differ_are_marked_and_the_others_are_not(tmp_path: Path) -> None:
    write_small(tmp_path / "a", [0.5], config={"training": {"lr": 0.1, "epochs": 5}})
    write_small(tmp_path / "b", [0.5], algorithm="fedbuff", config={"training": {"lr": 0.1, "epochs": 1}})
    marked = {row.path: row.differs for row in settings_of(compared([tmp_path]).arms)}
    assert marked["training.epochs"]
    assert marked["algorithm.name"]
    assert not marked["training.lr"]
    assert not marked["run.seed"]


def test_an_algorithm_keeps_its_colour_whatever_it_is_compared_with() -> None:
    alone = looks(["fedbuff"])[0]
    assert looks(["afbs", "mine", "fedbuff"])[2] == alone


def test_every_arm_has_its_own_line_in_grey() -> None:
    given = looks(["afbs", "fedbuff", "ca2fl", "fedavg", "feddyn", "fedasync", "fedfa", "mine", "yours", "afbs"])
    assert len({look.light for look in given}) == 10
    assert len({(look.dash, look.marker) for look in given}) == 10


def test_line_colours_stand_out_from_their_background_by_three_to_one() -> None:
    names = ["afbs", "fedbuff", "ca2fl", "fedavg", "feddyn", "fedasync", "fedfa", "a", "b", "c", "d", "e", "f"]
    for look in looks(names):
        assert contrast(look.light, "#fdfcfa") >= 3
        assert contrast(look.dark, "#141518") >= 3


def contrast(first: str, second: str) -> float:
    """WCAG 2: (L1 + 0.05) / (L2 + 0.05)."""
    light, dark = sorted((luminance(first), luminance(second)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
