"""The comparison as Markdown, CSV and LaTeX."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from afbs.report import tables
from afbs.report.load import compared
from synthetic import write_small


def three(root: Path) -> tables.Table:
    write_small(root / "a", [0.1, 0.9])
    write_small(root / "b", [0.1, 0.8], algorithm="fedbuff")
    write_small(root / "c", [0.6, 0.7], algorithm="fedavg")
    return tables.summary(compared([root]).arms, [0.5, 0.85])


def test_the_best_is_first_and_the_second_second_in_each_column(tmp_path: Path) -> None:
    table = three(tmp_path)
    final = [row[0].place for row in table.cells]
    sooner = [row[2].place for row in table.cells]
    assert final == [1, 2, 0]
    assert sooner == [2, 2, 1]


def test_a_target_that_only_one_reached_has_no_ranks(tmp_path: Path) -> None:
    cells = [row[3] for row in three(tmp_path).cells]
    assert [cell.text for cell in cells] == ["100.0 s", "not reached", "not reached"]
    assert [cell.place for cell in cells] == [0, 0, 0]


def test_markdown_marks_best_and_second(tmp_path: Path) -> None:
    lines = tables.markdown(three(tmp_path)).splitlines()
    assert lines[2].startswith("| AFBS | **90.00** |")
    assert lines[3].startswith("| FedBuff | <u>80.00</u> |")
    assert len({line.count("|") for line in lines}) == 1


def test_latex_is_a_booktabs_table_with_bold_and_underline(tmp_path: Path) -> None:
    text = tables.latex(three(tmp_path))
    assert r"\toprule" in text
    assert r"\bottomrule" in text
    assert r"AFBS & \textbf{90.00}" in text
    assert r"FedBuff & \underline{80.00}" in text
    assert r"Time to 50 \%" in text


def test_csv_holds_the_exact_numbers(tmp_path: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(tables.as_csv(three(tmp_path)))))
    assert rows[0]["Arm"] == "AFBS"
    assert float(rows[0]["Final accuracy"]) == 0.9
    assert float(rows[0]["Time to 50 % (s)"]) == 100.0
    assert rows[1]["Time to 85 % (s)"] == ""


def test_several_seeds_give_mean_and_deviation(tmp_path: Path) -> None:
    for seed, accuracy in enumerate([0.5, 0.6, 0.7]):
        write_small(tmp_path / str(seed), [accuracy], seed=seed)
    table = tables.summary(compared([tmp_path]).arms, [])
    assert table.cells[0][0].text == "60.00 ± 10.00"
    row = next(csv.DictReader(io.StringIO(tables.as_csv(table))))
    assert abs(float(row["Final accuracy sd"]) - 0.1) < 1e-9


def test_names_cannot_break_out_of_any_format(tmp_path: Path) -> None:
    evil = "=cmd|'x'!A1 | $\\input{x}$ & _<script>"
    write_small(tmp_path / "a", [0.5], algorithm=evil)
    table = tables.summary(compared([tmp_path]).arms, [])
    assert tables.as_csv(table).splitlines()[1].lstrip('"').startswith("'=")
    line = tables.markdown(table).splitlines()[2]
    assert "\\<script\\>" in line
    assert "\\|" in line
    row = tables.latex(table).splitlines()[5]
    assert r"\textbackslash{}input\{x\}" in row
    assert r"\$" in row
    assert r"\_" in row
