"""`[sweep.search]`: Optuna chooses settings, on samples that are neither trained on nor tested with.

Trials are asked for in batches, run as cells, and told in their order, and every trial has a sampler of its own seed: a
search that was stopped and goes on finds what it would have found, with any number of cores.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, Literal, final, get_type_hints

from annotated_types import Ge, Gt, Le, Lt

from afbs import registry
from afbs.config import Config, load
from afbs.experiment.result import Result
from afbs.seeds import Key
from afbs.sweeps.cells import Cell
from afbs.sweeps.outcome import TIME
from afbs.sweeps.settings import SEED, Described, expanded
from afbs.types import UserError

TUNED = "tuned"


@dataclass(frozen=True)
class SearchSettings:
    """Table `[sweep.search]`: for each arm so many `trials`, a `batch` at a time, by Optuna's samplers and pruners.

    A trial is one run with this `seed`, tested on a share of the training samples, `validation`. `space` has for each
    setting a list of choices, or `{low, high}` with `log` or `step`.
    """

    trials: Annotated[int, Ge(1), Le(100_000)] = 20
    """For each arm."""
    batch: Annotated[int, Ge(1), Le(100_000)] = 4
    """Asked for at once, run side by side."""
    sampler: Literal["tpe", "random", "gp", "qmc"] = "tpe"
    """How Optuna chooses what to try."""
    pruner: Literal["none", "median", "halving", "hyperband"] = "none"
    """How it gives up early; `halving` and `hyperband` depend on timing."""
    seed: Annotated[int, Ge(0)] = 0
    """Of every trial's run, and of the sampler."""
    validation: Annotated[float, Gt(0), Lt(1)] = 0.1
    """This share of the training samples is set aside to test trials on."""
    space: Mapping[str, Any] = field(default_factory=dict)
    """For each setting a range `{low, high, log}` or a list of choices."""


def checked(given: Mapping[str, Any], varied: Iterable[str] = ()) -> SearchSettings:
    """`varied` are the settings of the grid, which are compared and not searched."""
    wanted = get_type_hints(SearchSettings, include_extras=True)
    registry.refuse_unknown("sweep.search", given, [each.name for each in fields(SearchSettings)])
    values: dict[str, Any] = {
        key: value if key == "space" else registry.checked(f"sweep.search.{key}", wanted[key], value)
        for key, value in given.items()
    }
    if not isinstance(values.get("space"), Mapping) or not values["space"]:
        raise UserError(
            '`sweep.search.space` must name what to search, as in "training.lr" = {low = 0.01, high = 1.0}.'
        )
    elsewhere = dict.fromkeys(varied, "varies in the grid")
    elsewhere |= {SEED: "is `sweep.search.seed`", "evaluation.validation": "is `sweep.search.validation`"}
    for path in values["space"]:
        if path in elsewhere:
            raise UserError(f'`sweep.search.space."{path}"` cannot be searched: it {elsewhere[path]}.')
    return SearchSettings(**values)


@final
class Study:
    """The trials of one arm, kept in Optuna's own journal."""

    def __init__(self, arm: str, base: Config, chosen: SearchSettings, metric: str, journal: Path):
        optuna = _optuna()
        self.arm, self._base, self._chosen = arm, base, chosen
        self._space = {path: _distribution(path, options) for path, options in chosen.space.items()}
        self._watched = base.task.metrics[0]
        self._timed = metric == TIME
        self._best = metric.startswith("best")
        self._smaller = self._timed or self._watched.better == "less"
        self.study = optuna.create_study(
            storage=_storage(journal),
            study_name=arm,
            direction="minimize" if self._smaller else "maximize",
            pruner=_pruner(chosen.pruner, base.evaluation.points // 4),
            load_if_exists=True,
        )
        self._place = journal.parent
        self._going: dict[str, Any] = {}

    @property
    def complete(self) -> bool:
        return self._ended() >= self._chosen.trials

    def ask(self) -> list[Cell]:
        """The next batch; after an interruption, the one that was under way."""
        trial_type, state = _optuna().trial.Trial, _optuna().trial.TrialState
        under_way = [trial for trial in self.study.get_trials(deepcopy=False) if trial.state == state.RUNNING]
        wanted = min(self._chosen.batch, self._chosen.trials - self._ended())
        trials = []
        for place in range(wanted):
            number = under_way[place].number if place < len(under_way) else len(self.study.get_trials(deepcopy=False))
            self.study.sampler = _sampler(self._chosen, self.arm, number)
            if place < len(under_way):
                trials.append(trial_type(self.study, under_way[place]._trial_id))
            else:
                trials.append(self.study.ask())
        cells = [self._cell(trial) for trial in trials]
        self._going = {cell.id: trial for cell, trial in zip(cells, trials, strict=True)}
        return cells

    def prunes(self, cell: Cell, folder: Path) -> bool:
        """Whether what a cell has been evaluated at so far is enough to give it up."""
        trial = self._going.get(cell.id)
        if trial is None or self._chosen.pruner == "none" or not (folder / "meta.json").exists():
            return False
        return self._is_pruned(trial, Result.open(folder))

    def _is_pruned(self, trial: Any, result: Result | None) -> bool:
        if "pruned at" in trial.user_attrs:
            return True
        if self._chosen.pruner == "none" or result is None:
            return False
        known = self.study.get_trials(deepcopy=False)[trial.number].intermediate_values
        sign = -self._watched.sign if self._timed else 1
        for step, level in enumerate(result.record.watched.tolist()):
            if step not in known:
                trial.report(sign * level, step)
                if trial.should_prune():
                    trial.set_user_attr("pruned at", step)
                    return True
        return False

    def tell(self, results: Mapping[str, Result]) -> None:
        """What came of the batch, in the order in which it was asked for."""
        state = _optuna().trial.TrialState
        for key, trial in self._going.items():
            # A cell may end before anybody sees that it could have been given up; that must not matter.
            if self._is_pruned(trial, results.get(key)):
                self.study.tell(trial, state=state.PRUNED)
            elif key in results:
                self.study.tell(trial, self._value(results[key]))
            else:
                self.study.tell(trial, state=state.FAIL)
        self._going = {}

    def best(self) -> dict[str, Any]:
        state = _optuna().trial.TrialState
        if not self.study.get_trials(deepcopy=False, states=(state.COMPLETE,)):
            why = self._place / "sweep.json"
            raise UserError(f"`sweep.search`: not one trial of {self.arm!r} ended; {why} says why.")
        return dict(self.study.best_trial.params)

    def rows(self) -> list[dict[str, Any]]:
        return [
            {"arm": self.arm, "trial": trial.number, **trial.params, "value": trial.value, "state": trial.state.name}
            for trial in self.study.get_trials(deepcopy=False)
        ]

    def _cell(self, trial: Any) -> Cell:
        changes = {path: _suggested(trial, path, space) for path, space in self._space.items()}
        name = f"{self.arm}, trial {trial.number}"
        fixed = {SEED: self._chosen.seed, "evaluation.validation": self._chosen.validation, "name": name}
        return Cell(name, load(self._base, {**changes, **fixed}), self.arm)

    def _value(self, result: Result) -> float:
        if not self._timed:
            return result.best if self._best else result.final
        target, horizon = self._base.evaluation.target, self._base.run.horizon
        if target is None:
            raise UserError("`sweep.metric` = 'time_to_target' needs an `evaluation.target`.")
        reached = result.time_to(target)
        # Never reached is later than ever, and the later the farther away it stayed.
        away = self._watched.sign * (target - result.best) / (1.0 if self._watched.share else abs(target) or 1.0)
        return reached if reached is not None else horizon * (1.0 + away)

    def _ended(self) -> int:
        return sum(trial.state.is_finished() for trial in self.study.get_trials(deepcopy=False))


def searched(
    what: Described,
    overrides: Mapping[str, Any] | None,
    folder: Path,
    run: Callable[[Sequence[Cell], Path, Callable[[Cell, Path], bool]], Mapping[str, Result]],
) -> list[Cell]:
    """Searches for every arm, and gives the cells to compare: each arm as it was written, and as it was tuned.

    `run` carries out cells in a folder, giving up those that it is told to, and gives the results of those that ended.
    """
    chosen = checked(what.settings.search, what.settings.grid)
    _optuna()
    cells = expanded(what, overrides)
    arms = {cell.arm: cell for cell in reversed(cells)}
    place = folder / "search"
    place.mkdir(parents=True, exist_ok=True)
    metric = what.settings.metric
    studies = [Study(arm, arms[arm].config, chosen, metric, place / "journal.log") for arm in reversed(arms)]

    def enough(cell: Cell, path: Path) -> bool:
        return any(study.prunes(cell, path) for study in studies)

    while batch := [cell for study in studies if not study.complete for cell in study.ask()]:
        results = run(batch, place, enough)
        for study in studies:
            study.tell(results)
    best = {study.arm: study.best() for study in studies}
    rows = [row for study in studies for row in study.rows()]
    (place / "trials.json").write_text(json.dumps({"best": best, "trials": rows}, indent=2) + "\n")
    return with_tuned(cells, best)


def with_tuned(cells: Sequence[Cell], best: Mapping[str, Mapping[str, Any]]) -> list[Cell]:
    """Each arm as it was written, and with what was found best for it."""
    tuned = []
    for cell in cells:
        name = cell.name.replace(cell.arm, f"{cell.arm}, {TUNED}", 1)
        changes = {**best.get(cell.arm, {}), "name": name}
        tuned.append(Cell(name, load(cell.config, changes), f"{cell.arm}, {TUNED}"))
    return [*cells, *tuned]


def _suggested(trial: Any, path: str, space: Any) -> Any:
    kind = type(space).__name__
    if kind == "CategoricalDistribution":
        return trial.suggest_categorical(path, space.choices)
    suggest = trial.suggest_int if kind == "IntDistribution" else trial.suggest_float
    step = {} if space.step is None else {"step": space.step}
    return suggest(path, space.low, space.high, log=space.log, **step)


def _distribution(path: str, options: Any) -> Any:
    place = f'`sweep.search.space."{path}"`'
    made = _optuna().distributions
    try:
        if isinstance(options, list | tuple):
            return made.CategoricalDistribution(options)
        if isinstance(options, Mapping) and {"low", "high"} <= set(options) <= {"low", "high", "log", "step"}:
            whole = isinstance(options["low"], int) and isinstance(options["high"], int)
            return (made.IntDistribution if whole else made.FloatDistribution)(**options)
    except (ValueError, TypeError) as error:
        raise UserError(f"{place} cannot be searched: {str(error).rstrip('.')}.") from None
    raise UserError(f"{place} must be a list of choices, or have `low` and `high` (and `log` or `step`).")


def _sampler(chosen: SearchSettings, arm: str, number: int) -> Any:
    seed = Key.root(chosen.seed, f"search/{arm}").child(number).integer() % 2**32
    samplers = _optuna().samplers
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", _optuna().exceptions.ExperimentalWarning)
        if chosen.sampler == "qmc":
            return samplers.QMCSampler(
                seed=chosen.seed % 2**32
            )  # a sequence: every trial has its place in the same one
        made = {"tpe": samplers.TPESampler, "random": samplers.RandomSampler, "gp": samplers.GPSampler}
        return made[chosen.sampler](seed=seed)


def _pruner(name: str, first: int) -> Any:
    """Nobody is given up before the evaluation `first`: how a run begins says little."""
    pruners = _optuna().pruners
    if name == "median":
        return pruners.MedianPruner(n_warmup_steps=first)
    if name == "halving":
        return pruners.SuccessiveHalvingPruner(min_resource=max(1, first))
    return pruners.HyperbandPruner(min_resource=max(1, first)) if name == "hyperband" else pruners.NopPruner()


def _storage(journal: Path) -> Any:
    """Optuna's journal. A line that was being written when its process was killed never was."""
    storages = _optuna().storages
    if journal.exists():
        text = journal.read_bytes()
        if not text.endswith(b"\n"):
            journal.write_bytes(text[: text.rfind(b"\n") + 1])
    return storages.JournalStorage(storages.journal.JournalFileBackend(str(journal), lock_obj=_Claimed()))


class _Claimed:
    """The whole folder is claimed by this process already; a lock of Optuna's own would outlive a kill."""

    def acquire(self) -> bool:
        return True

    def release(self) -> None:
        pass


def _optuna() -> Any:
    try:
        import optuna
    except ModuleNotFoundError:
        raise UserError("`[sweep.search]` needs Optuna: pip install 'afbs[optuna]'.") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna
