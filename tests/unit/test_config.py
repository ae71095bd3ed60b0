"""Configurations: defaults, overrides, and that what is written out gives the same run again."""

from __future__ import annotations

import dataclasses
import os
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w

from afbs import registry
from afbs.algorithms.afbs import AFBS
from afbs.algorithms.fedbuff import FedBuff
from afbs.config import TABLES, Config, Evaluation, Record, RunSettings, load
from afbs.data import Arrays
from afbs.executors.inline import Inline
from afbs.executors.processes import Processes
from afbs.interfaces import Latency
from afbs.latency.uniform import Uniform
from afbs.types import Training, UserError
from small import Softmax

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(
    path
    for path in ROOT.glob("examples/**/*.toml")
    if path.name != "pyproject.toml" and "\n[sweep" not in path.read_text()
)


def test_an_empty_configuration_is_complete() -> None:
    config = load({})
    assert config.algorithm == AFBS()
    assert config.training == Training()
    assert config.name == "afbs-mnist5k"
    assert set(config.tables) == {"name", *TABLES}


def test_what_is_written_out_gives_the_same_configuration_again(tmp_path: Path) -> None:
    config = load({"algorithm": {"name": "fedbuff", "buffer_size": 3}, "training": {"lr": 0.5}})
    path = tmp_path / "config.toml"
    path.write_text(tomli_w.dumps(config.tables))
    assert load(path) == config


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_is_a_valid_configuration(path: Path) -> None:
    assert isinstance(load(path), Config)


def test_single_settings_and_tables_override_and_leave_the_rest() -> None:
    config = load({"training": {"lr": 0.5, "epochs": 2}}, {"training.lr": 0.25, "run": {"seed": 9}})
    assert (config.training.lr, config.training.epochs, config.run.seed) == (0.25, 2, 9)


def test_another_algorithm_keeps_the_settings_that_both_have() -> None:
    tables = {"algorithm": {"name": "afbs", "buffer_size": 3, "survival": "none"}}
    for override in ({"algorithm.name": "fedbuff"}, {"algorithm": {"name": "fedbuff"}}, {"algorithm": "fedbuff"}):
        assert load(tables, override).algorithm == FedBuff(buffer_size=3)


def test_another_model_does_not_keep_the_settings_of_the_one_before() -> None:
    config = load({"model": {"name": "mlp", "hidden": 3}}, {"model": {"name": "lenet5"}})
    assert config.tables["model"] == {"name": "lenet5", "kernel": "auto"}


def test_a_setting_of_a_users_own_model_can_be_changed() -> None:
    config = load(load({}, {"model": {"name": Softmax, "width": 2}}), {"model.width": 3})
    assert config.model.build is Softmax
    assert config.model.settings == {"width": 3}


def test_a_name_alone_stands_for_its_table() -> None:
    assert load({}, {"algorithm": "fedavg"}).tables["algorithm"]["name"] == "fedavg"


def test_objects_classes_and_functions_may_stand_for_tables() -> None:
    config = load({}, {"algorithm": FedBuff(buffer_size=3), "latency": Uniform, "model": Softmax})
    assert config.algorithm == FedBuff(buffer_size=3)
    assert config.latency == Uniform()
    assert config.model.build is Softmax
    assert config.tables["model"]["name"] == "small:Softmax"


def test_an_object_with_settings_out_of_range_is_refused_like_a_table() -> None:
    with pytest.raises(UserError, match=r"`algorithm\.buffer_size` must be greater than or equal to 1, got 0"):
        load({}, {"algorithm": FedBuff(buffer_size=0)})


def test_the_source_is_not_changed_by_overrides() -> None:
    tables = {"training": {"lr": 0.5}}
    load(tables, {"training.lr": 0.1, "algorithm": "fedavg"})
    assert tables == {"training": {"lr": 0.5}}


def test_arrays_and_pairs_stand_for_data_and_are_not_written_out() -> None:
    x, y = np.zeros((10, 2), np.float32), np.arange(10) % 2
    config = load({}, {"data": (x, y)})
    assert isinstance(config.data, Arrays)
    assert config.data.train_x is x
    pairs = [(row, int(label)) for row, label in zip(x, y, strict=True)]
    from_pairs = load({}, {"data": pairs}).data
    assert isinstance(from_pairs, Arrays)
    assert from_pairs.train_y.tolist() == y.tolist()
    assert "train_x" not in tomllib.loads(tomli_w.dumps(config.tables))["data"]


@dataclass(frozen=True)
class Needy(Latency):
    """A latency with a setting that has no default."""

    seconds: float
    per: Any = "job"

    def duration(self, client: Any, start: float, key: Any, work: float = 1.0) -> float:
        return self.seconds


@dataclass(frozen=True)
class OnlyForCheckers(Latency):
    """A latency whose annotation names something that was never imported."""

    seconds: "Nowhere" = 3.0  # type: ignore[name-defined]  # noqa: F821, UP037
    per: Any = "job"

    def duration(self, client: Any, start: float, key: Any, work: float = 1.0) -> float:
        return 3.0


def test_annotations_that_cannot_be_looked_up_are_not_checked() -> None:
    assert load({}, {"latency": OnlyForCheckers()}).latency == OnlyForCheckers()


def test_a_setting_without_default_must_be_given() -> None:
    with pytest.raises(UserError, match=r"`latency\.seconds` must be given"):
        load({"latency": {"name": "test_config:Needy"}})
    assert load({"latency": {"name": "test_config:Needy", "seconds": 3.0}}).latency == Needy(3.0)


def test_a_number_may_be_infinite_only_where_it_makes_sense() -> None:
    assert load({"latency": {"name": "test_config:Needy", "seconds": float("inf")}}).latency == Needy(float("inf"))
    with pytest.raises(UserError, match="finite"):
        load({"run": {"virtual_days": float("inf")}})


def test_the_grid_has_the_start_the_horizon_and_so_many_points_between() -> None:
    assert Evaluation(points=4, spacing="linear").grid(100.0) == [0.0, 25.0, 50.0, 75.0, 100.0]
    assert Evaluation(points=3, spacing="log").grid(1000.0) == [0.0, 10.0, 100.0, 1000.0]


def test_the_learning_rate_falls_by_versions_by_virtual_time_or_never() -> None:
    assert Training(lr=1.0, lr_decay=0.5, lr_decay_unit="update").rate(3, 1e9) == 0.125
    assert Training(lr=1.0, lr_decay=0.25, lr_decay_unit="virtual_time", lr_decay_seconds=100).rate(9, 50.0) == 0.5
    assert Training(lr=1.0, lr_decay=0.5, lr_decay_unit="none").rate(3, 1e9) == 1.0


def test_workers_default_to_the_cores_there_are() -> None:
    assert load({"executor": {"workers": 3}}).executor == Processes(workers=3)
    assert Processes(workers=3).number == 3
    assert load({}).executor == Processes()
    assert Processes().number == len(os.sched_getaffinity(0))
    assert load({"executor": {"workers": 3}}, {"executor": "inline"}).executor.number == 1


def test_an_executor_may_be_named_by_its_table_or_by_itself() -> None:
    for given in ({"executor": "inline"}, {"executor.name": "inline"}, {"executor": Inline()}):
        assert load({}, given).executor == Inline()
    with pytest.raises(UserError, match=r"There is no setting `run\.workers`"):
        load({"run": {"workers": 3}})


def test_the_page_names_every_setting_with_its_default() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text()
    sections = dict(re.findall(r"^## `\[(\w+)\]`\n(.*?)(?=^## |\Z)", page, re.M | re.S))
    assert set(sections) == set(TABLES)
    for table, settings in {
        "run": RunSettings,
        "training": Training,
        "evaluation": Evaluation,
        "record": Record,
    }.items():
        for field in dataclasses.fields(settings):
            assert re.search(rf"^\| `{field.name}` \| `?{_as_toml(field.default)}`? \|", sections[table], re.M), (
                field.name
            )
    for table in set(TABLES) - {"run", "training", "evaluation", "record", "model"}:
        for name in registry.names(table):
            row = next(line for line in sections[table].splitlines() if re.match(rf"\| .*`{name}`.* \|", line))
            for field in dataclasses.fields(registry.find(table, name)):
                assert f"`{field.name}`" in row or name == "none", f"{table}.{name}.{field.name}"
                if isinstance(field.default, int | float) and name != "none":
                    assert f"`{field.name}` {_as_toml(field.default)}" in row, f"{table}.{name}.{field.name}"
    for name in registry.names("model"):
        assert f"| `{name}` |" in sections["model"]


def _as_toml(value: object) -> str:
    return (
        str(value).lower()
        if value is None or isinstance(value, bool)
        else f'"{value}"'
        if isinstance(value, str)
        else str(value)
    )


@pytest.mark.parametrize(
    ("number", "name", "kept"),
    [(3, "none", 1), (1, "none", 1), (0, "secure", 1), (3, "secure", 3), (0, "dp", 0), (3, "plain_for_research", 3)],
)
def test_a_new_name_keeps_a_setting_that_the_new_part_takes_and_defaults_the_rest(
    number: int, name: str, kept: int
) -> None:
    before = {"clusters": {"name": "projection", "number": number, "width": 4, "secret_env": "SOMEWHERE"}}
    for overrides in ({"clusters.name": name}, {"clusters": name}, {"clusters": {"name": name}}):
        after = load(before, overrides).tables["clusters"]
        assert (after["name"], after["number"]) == (name, kept)
        assert "width" not in after
    assert load(load(before), {"clusters": name}).tables["clusters"]["number"] == kept


def test_what_is_said_of_the_new_part_itself_is_not_dropped() -> None:
    with pytest.raises(UserError, match=r"`clusters\.number` must be 1, got 3"):
        load({"clusters": {"number": 2}}, {"clusters.name": "none", "clusters.number": 3})


def test_a_setting_beside_a_network_of_ones_own_keeps_the_network() -> None:
    class Network:
        pass

    def build() -> Network:
        return Network()

    for given in (Network, build):
        model = load({}, {"model": given, "model.width": 3}).model
        assert (model.build, model.settings) == (given, {"width": 3})
