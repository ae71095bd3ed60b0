"""`afbs run`, `compare`, `resume`, `show`."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from afbs.cli._settings import Settings, parsed
from afbs.cli._telling import explained, note
from afbs.cli.sweep import end_if_failed, refuse_report
from afbs.metrics import ACCURACY, Metric
from afbs.types import UserError

if TYPE_CHECKING:
    from afbs.config import Config
    from afbs.experiment.result import Result
    from afbs.record.schema import ResultFile

RunsFolder = Annotated[Path, typer.Option("--runs", help="Where new run folders are made.")]
console = Console(emoji=False)
_FREE = ("run.device", "run.checkpoint_seconds")
"""What may be set when a run is resumed, beside `[executor]`."""


def add(app: typer.Typer) -> None:
    app.command("run")(run)
    app.command("compare")(compare)
    app.command("resume")(resume)
    app.command("show")(show)


def run(
    file: Annotated[Path, typer.Argument(metavar="FILE.toml", help="The configuration; see examples/.")],
    settings: Settings = None,
    folder: Annotated[Path | None, typer.Option("--folder", "-o", help="The run folder; must not exist.")] = None,
    runs: RunsFolder = Path("runs"),
) -> None:
    """Run one configuration, FILE.toml, and write a run folder.

    Everything in FILE.toml has a default; examples/ has some to start from.

    With `--set algorithm.name=fedbuff`, settings that both have are kept.

    Ctrl-C saves the run and says how to resume it.
    """
    from afbs import experiment
    from afbs.config import load

    config = load(file, parsed(settings))
    with explained():
        result = experiment.run(config, folder=folder, runs=runs, on_note=note)
    _print_table([result])
    console.print(f"Folder: {escape(str(result.folder))}", highlight=False, soft_wrap=True)


def compare(
    files: Annotated[list[Path], typer.Argument(metavar="FILE.toml...", help="One or more configurations.")],
    algorithms: Annotated[str, typer.Option(help="Run each file with these algorithms, e.g. afbs,fedbuff.")] = "",
    seeds: Annotated[str, typer.Option(help="Run everything with these seeds, e.g. 1,2,3.")] = "",
    settings: Settings = None,
    runs: RunsFolder = Path("runs"),
    report: Annotated[Path | None, typer.Option(help="Also write a report (HTML) here.")] = None,
) -> None:
    """Run several configurations on the same clients, latencies and seeds, and compare them in a table.

    One is enough: `afbs compare FILE.toml --algorithms afbs,fedbuff --seeds 1,2`.

    The same command goes on where it stopped, and runs nothing twice.
    """
    from afbs.sweeps.comparing import compared

    refuse_report(report)
    configs = _configs(files, parsed(settings), algorithms, seeds)
    with explained():
        outcome = compared(configs, runs=runs, on_note=note)
    results = list(outcome.results.values())
    if results:
        _print_table(results)
    if report and results:
        from afbs.report import write

        write([result.folder for result in results], report, note)
        console.print(f"Report: {escape(str(report))}", highlight=False, soft_wrap=True)
    end_if_failed(outcome)


def resume(
    folder: Annotated[Path, typer.Argument(help="The folder of a run that was interrupted or killed.")],
    settings: Settings = None,
) -> None:
    """Continue a run that was interrupted or killed.

    It goes on where its last checkpoint left it, and its final model is the
    same, bit for bit, as if nothing had happened.

    With --set, what only says how it is computed may change: `executor.workers`, `run.device`.
    """
    from afbs import experiment
    from afbs.record.reader import is_done

    if is_done(folder):
        console.print("This run has ended; there is nothing left to do.")
        return
    changes = parsed(settings)
    for path in changes:
        if not path.startswith("executor.") and path not in _FREE:
            raise UserError(
                f"`--set {path}`: a run goes on with the settings that it began with. Only `[executor]`, "
                "`run.device` and `run.checkpoint_seconds` may change."
            )
    with explained():
        result = experiment.resume(folder, on_note=note, **changes)
    _print_table([result])


def show(
    folder: Annotated[Path, typer.Argument(help="A run folder, or a configuration with --partition.")],
    partition: Annotated[bool, typer.Option("--partition", help="Draw who has what instead.")] = False,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Save the drawing, too (PNG, PDF).")] = None,
    settings: Settings = None,
) -> None:
    """Show what a run found, or with --partition who has which data.

    With --partition, FOLDER may also be a configuration that has not been run.
    """
    if partition:
        from afbs.config import load
        from afbs.partitions.show import drawing, save_figure
        from afbs.population import populate

        population = populate(load(folder / "config.toml" if folder.is_dir() else folder, parsed(settings)))
        counts = list(population.label_counts().values())
        console.print(drawing(counts))
        if output:
            save_figure(counts, output)
        return
    from afbs.experiment.result import Result

    result = Result.open(folder)
    _print_table([result])
    for problem in result.record.problems:
        note(problem)
    if result.record.result is not None:
        _print_facts(result.record.result)
    elif not result.record.problems:
        reached = result.record.seconds / 86_400
        again = escape(shlex.quote(str(folder)))
        console.print(f"Not ended; it reached day {reached:.2f}. Continue with: afbs resume {again}", soft_wrap=True)


def _print_facts(facts: ResultFile) -> None:
    """The summary of a run that has ended, as far as it was written."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    counted: dict[str, Mapping[str, float | None]] = {
        "updates": facts.get("updates", {}),
        "jobs": facts.get("jobs", {}),
        "wall": facts.get("wall", {}),
    }
    for name, numbers in counted.items():
        for key, value in numbers.items():
            text = "–" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:,.3f}"
            table.add_row(escape(f"{name}.{key}"), text)
    table.add_row("evaluations", _count(facts.get("evaluations")))
    table.add_row(
        "upload", f"{_megabytes(facts.get('upload_bytes'))}, {_megabytes(facts.get('skipped_upload_bytes'))} spared"
    )
    console.print(table)
    console.print(f"sha256 {escape(facts.get('sha256', '–'))}", highlight=False, soft_wrap=True)


def _configs(files: Sequence[Path], overrides: dict[str, Any], algorithms: str, seeds: str) -> list[Config]:
    from afbs.config import load

    for option, given, path in (("--algorithms", algorithms, "algorithm.name"), ("--seeds", seeds, "run.seed")):
        if given and path in overrides:
            raise UserError(f"`--set {path}` and `{option}` say the same thing twice: one of them is enough.")
    chosen: list[dict[str, Any]] = [{"algorithm.name": name.strip()} for name in algorithms.split(",") if name.strip()]
    repeated = [{"run.seed": _number(seed)} for seed in seeds.split(",") if seed.strip()]
    _refuse_twice("FILE.toml", [str(file.resolve()) for file in files])
    _refuse_twice("--algorithms", [each["algorithm.name"] for each in chosen])
    _refuse_twice("--seeds", [each["run.seed"] for each in repeated])
    if chosen or repeated:
        labels = _labels(files)
        return [
            load(file, {**algorithm, **seed, **overrides, "name": _joined(label, algorithm, seed)})
            for file, label in zip(files, labels if len(files) > 1 else [""], strict=True)
            for algorithm in chosen or [{}]
            for seed in repeated or [{}]
        ]
    configs = [load(file, overrides) for file in files]
    if len({config.name for config in configs}) == len(files):
        return configs
    return [load(config, {"name": label}) for config, label in zip(configs, _labels(files), strict=True)]


def _refuse_twice(option: str, given: Sequence[Any]) -> None:
    """What is there twice would be run once."""
    for place, value in enumerate(given):
        if value in given[:place]:
            raise UserError(f"`{option}`: {value} is there twice; once is enough, as a repeated run finds the same.")


def _labels(files: Sequence[Path]) -> list[str]:
    """What files are called in a table: their names, or where these are equal, their paths."""
    stems = [file.stem for file in files]
    return stems if len(set(stems)) == len(stems) else [str(file.with_suffix("")) for file in files]


def _joined(label: str, *changes: Mapping[str, Any]) -> str:
    return "-".join(filter(None, [label, *(str(value) for change in changes for value in change.values())]))


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise UserError(f"`--seeds` must be whole numbers with commas between them, got {text!r}.") from None


def _print_table(results: Sequence[Result]) -> None:
    target, metric = results[0].record.target, results[0].metric
    if metric != ACCURACY:
        console.print(escape(f"Of {metric.axis}; {metric.better} is better."), highlight=False)
    table = Table(box=SIMPLE_HEAD, header_style="bold", padding=(0, 1, 0, 0))
    table.add_column("run")
    reaching = "to target" if not target else f"to {target:.0%}" if metric.share else f"to {target:.4g}"
    for heading in ("best", "final", reaching, "versions", "trained", "dropped", "wall"):
        table.add_column(heading, justify="right", no_wrap=True)
    for result in results:
        row = result.summary()
        reached = row["time_to_target"]
        dropped, trained = row["dropped"], row["trained"]
        table.add_row(
            escape(row["name"]),
            _level(metric, result.best),
            _level(metric, result.final),
            "–" if reached is None else f"{reached / 86_400:.2f} d" if reached >= 864 else f"{reached:.0f} s",
            _count(row["versions"]),
            _count(trained),
            "–" if dropped is None else f"{dropped:,} ({dropped / max(1, dropped + (trained or 0)):.0%})",
            "–" if row["wall"] is None else f"{row['wall']:.1f} s",
        )
    console.print(table)
    for result in results:
        rejected = (result.record.result or {}).get("updates", {}).get("rejected")
        if rejected:
            console.print(
                f"{escape(result.record.name)}: {rejected:,} updates were not finite and were rejected. A smaller "
                "`training.lr` may help.",
                soft_wrap=True,
            )


def _count(number: int | None) -> str:
    return "–" if number is None else f"{number:,}"


def _level(metric: Metric, value: float) -> str:
    return "–" if not math.isfinite(value) else f"{value:.2%}" if metric.share else f"{value:.4g}"


def _megabytes(size: int | None) -> str:
    return "–" if size is None else f"{size / 1e6:,.1f} MB"
