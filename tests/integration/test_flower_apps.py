"""The apps as a Flower user writes them: a loader, a training function, a project, a fleet's commands."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from flwr.app import Context, RecordDict, UserConfig
from torch.utils.data import TensorDataset
from typer.testing import CliRunner

import afbs
from afbs.apps import Lesson
from afbs.apps.client import client_app, node_of
from afbs.apps.cluster import Cluster
from afbs.apps.data import samples
from afbs.apps.mortal import mortal
from afbs.apps.project import write_project
from afbs.apps.setup import configuration, on_node
from afbs.cli import app as commands
from afbs.executors.inline import InlineSession
from afbs.experiment.serving import serve
from afbs.types import Dataset, RunError, UserError
from deployment import CLIENTS, Deployment, tables
from grid import MemoryNode
from small import Softmax

EXAMPLE = Path(__file__).parents[2] / "examples" / "flower-mnist"


@pytest.fixture(autouse=True)
def _quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def with_apps(deployment: Deployment, **chosen: Any) -> None:
    """Every node runs an app made with these."""
    for client in range(CLIENTS):
        settings = {"client-id": client, "home": str(deployment.place / f"node-{client}")}
        app = client_app(deployment.tables, **chosen, **deployment.overrides)
        deployment.nodes.add(MemoryNode(100 + client, app, settings, deployment.lasts))


def test_a_node_trains_on_what_its_loader_gives(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path, tables("fedbuff", run={"versions": 3}), clients=0)

    def load(context: Context) -> Any:
        client = int(context.node_config["client-id"])
        rng = np.random.default_rng(client)
        return rng.normal(size=(5 + client, 2)), rng.integers(3, size=5 + client)

    with_apps(deployment, load=load)
    result = deployment.serve()
    assert afbs.load(deployment.folder).record.meta["clients"]["examples"] == [5, 6, 7, 8, 9, 10]  # type: ignore[index]
    assert result.record.result is not None
    assert result.record.result["versions"] == 3


def test_a_training_function_of_ones_own_changes_the_network(tmp_path: Path) -> None:
    """Everybody adds the rate to every weight, so after one round the model is the first one plus the rate."""
    settings = tables("fedavg", run={"versions": 1, "in_flight": 3}, training={"lr": 0.5, "lr_decay_unit": "none"})
    deployment = Deployment(tmp_path, settings, clients=0)
    seen: list[Lesson] = []

    def train(model: torch.nn.Module, data: TensorDataset, order: Lesson) -> dict[str, float]:
        seen.append(order)
        assert len(data) == 10
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(order.rate)
        return {"steps": 1, "samples": len(data), "loss": 0.25}

    with_apps(deployment, train=train)
    result = deployment.serve()
    assert {(lesson.rate, lesson.epochs, lesson.batch_size) for lesson in seen} == {(0.5, 2, 4)}
    initial = InlineSession(deployment.workload()).initial()
    np.testing.assert_allclose(result.params, initial + 0.5, rtol=1e-6)
    assert result.told.loss.tolist() == [0.25] * 3, "what it returns is in the server's record"


def test_what_a_loader_got_wrong_is_said_in_a_sentence(tmp_path: Path) -> None:
    config = configuration(tables("fedbuff"), {}, {"model": Softmax})
    context = Context(1, 1, {"client-id": 0, "home": str(tmp_path)}, RecordDict(), {})
    node = node_of(context, config, lambda context: (np.zeros((3, 2)), np.zeros(2, int)), None)
    with pytest.raises(UserError, match=r"samples of shape \(3, 2\) and labels of shape \(2,\)"):
        node.examples()


def test_a_node_that_was_given_no_number_makes_one_up_and_keeps_it(tmp_path: Path) -> None:
    config = configuration(tables("fedbuff"), {}, {"model": Softmax})
    contexts = [Context(1, each, {"home": str(tmp_path / name)}, RecordDict(), {}) for each, name in enumerate("aab")]
    first, again, other = (node_of(context, config, None, None).client for context in contexts)
    assert first == again != other


def test_settings_of_one_run_reach_server_and_nodes_alike() -> None:
    told: UserConfig = {"set": "training.lr=0.25 algorithm.name=fedavg"}
    server = configuration(tables("fedbuff"), told, {})
    node = on_node(tables("fedbuff"), told, {})
    assert server.training.lr == node.training.lr == 0.25
    assert server.tables["algorithm"] == node.tables["algorithm"]
    assert server.tables["algorithm"]["name"] == "fedavg"


def test_a_node_answers_questions_without_importing_torch(tmp_path: Path) -> None:
    script = f"""
import sys
sys.path.insert(0, {str(EXAMPLE)!r})
from flwr.app import Context, RecordDict
from flower_mnist.client_app import app
from flower_mnist.dataset import load
from afbs.apps.client import node_of
from afbs.apps.setup import on_node
from pathlib import Path
context = Context(1, 1, {{"partition-id": 1, "home": {str(tmp_path)!r}}}, RecordDict(), {{}})
node = node_of(context, on_node(Path({str(EXAMPLE)!r}) / "flower_mnist" / "afbs.toml", {{}}, {{}}), load, None)
print(node.examples() > 0, "torch" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["True", "False"], done.stderr


def test_a_new_project_is_written_once(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    done = CliRunner().invoke(commands, ["new", str(folder)])
    assert done.exit_code == 0
    assert "afbs fleet up" in done.output
    assert (folder / "mine" / "client_app.py").exists()
    again = CliRunner().invoke(commands, ["new", str(folder)])
    assert isinstance(again.exception, UserError)


def test_without_a_fleet_its_commands_say_so(tmp_path: Path) -> None:
    place = ["--fleet", str(tmp_path / "none")]
    assert "No fleet is up" in CliRunner().invoke(commands, ["fleet", "status", *place]).output
    assert "Nothing was running" in CliRunner().invoke(commands, ["fleet", "down", *place]).output
    refused = CliRunner().invoke(commands, ["fleet", "run", str(EXAMPLE), *place])
    assert "First: afbs fleet up" in str(refused.exception)


def test_the_commands_for_simulations_leave_a_deployments_folder_alone(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path, tables("fedbuff", run={"versions": 2}))
    deployment.serve()
    (deployment.folder / "result.json").unlink()
    before = (deployment.folder / "events.jsonl").read_bytes()
    with pytest.raises(UserError, match="is for real clients"):
        afbs.resume(deployment.folder, progress=False, **deployment.overrides)
    with pytest.raises(UserError, match="is for real clients"):
        afbs.run(deployment.tables, folder=tmp_path / "new", progress=False, **deployment.overrides)
    assert (deployment.folder / "events.jsonl").read_bytes() == before


def test_labels_that_are_numbers_are_taken_as_such_where_the_task_is_not_to_classify() -> None:
    given = (np.zeros((3, 2), np.float32), np.array([0.5, 1.0, 2.0]))
    data = samples(given, "`load`", numbers=True)
    assert (data.classes, data.train_y.dtype) == (0, np.dtype(np.float32))
    with pytest.raises(UserError, match="for each one a whole number from 0 on"):
        samples(given, "`load`")
    with pytest.raises(UserError, match="a label is not finite"):
        samples((given[0], np.array([0.5, np.nan, 2.0])), "`load`", numbers=True)


def test_an_algorithm_that_asks_for_labels_is_refused_where_they_are_numbers(tmp_path: Path) -> None:
    config = configuration(tables("afbs"), {}, {"model": Softmax, "task": "regression"})
    numbers = Dataset(*(np.zeros((3, 2), np.float32), np.zeros(3, np.float32)) * 2, 0)
    with pytest.raises(UserError, match="asks clients how many samples of each class they have"):
        serve(config, lambda brief: pytest.fail("nobody is asked"), tmp_path / "run", dataset=numbers)
    assert not (tmp_path / "run").exists()


def test_a_new_project_overwrites_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    write_project(folder)  # an empty folder will do
    other = tmp_path / "theirs"
    other.mkdir()
    (other / "pyproject.toml").write_text("precious")
    with pytest.raises(UserError, match="theirs exists already, and nothing in it is overwritten"):
        write_project(other)
    assert [path.name for path in other.iterdir()] == ["pyproject.toml"]
    assert (other / "pyproject.toml").read_text() == "precious"


def test_what_is_no_app_is_not_run(tmp_path: Path) -> None:
    refused = CliRunner().invoke(commands, ["fleet", "run", str(tmp_path), "--fleet", str(tmp_path / "none")])
    assert "it has no pyproject.toml" in str(refused.exception)


def test_where_flower_is_missing_a_fleet_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("afbs.apps.cluster.search_path", lambda: str(tmp_path))
    with pytest.raises(UserError, match=r"pip install 'afbs\[flower\]'"):
        Cluster(tmp_path / "fleet").up(1, tmp_path / "runs")
    assert not (tmp_path / "fleet").exists()


@pytest.fixture
def household(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """A fleet whose parts are small programs in Flower's place: they listen, or do nothing, until they are stopped."""
    place = tmp_path / "bin"
    place.mkdir()
    listen = "import socket,sys,time; s=socket.create_server(('127.0.0.1', int(sys.argv[sys.argv.index('--port')+1])))"
    child = "import subprocess; subprocess.Popen(['sleep', '600'], start_new_session=True)"
    programs = {"flower-superlink": listen, "flower-supernode": child, "flwr": ""}
    for name, program in programs.items():
        wait = "" if name == "flwr" else "; import time; time.sleep(600)"
        (place / name).write_text(f"#!{sys.executable}\n{program}{wait}\n")
        (place / name).chmod(0o755)
    monkeypatch.setattr("afbs.apps.cluster.search_path", lambda: f"{place}{os.pathsep}{os.environ['PATH']}")
    cluster = Cluster(tmp_path / "fleet")
    try:
        yield cluster
    finally:
        cluster.down()
    assert not cluster.running()


def fleet(cluster: Cluster, what: str) -> str:
    done = CliRunner().invoke(commands, ["fleet", what, "--fleet", str(cluster.folder)])
    return done.output + str(done.exception or "")


def test_a_fleet_is_started_once_shown_and_stopped_with_whatever_it_started(household: Cluster) -> None:
    told: list[str] = []
    household.up(4, household.folder / "runs", tell=lambda process: told.append(process.name))
    assert told == ["superlink", "node 0", "node 1", "node 2", "node 3"]
    assert fleet(household, "status").count(" up\n") == 5
    assert f"SuperLink at 127.0.0.1:{household.port}" in fleet(household, "status")
    with pytest.raises(UserError, match=r"is up already\. First: afbs fleet down"):
        household.up(4, household.folder / "runs")
    assert fleet(household, "down").count("stopped") == 5
    assert not household.running()
    assert "Nothing was running" in fleet(household, "down")


def test_what_a_killed_fleet_left_is_said_and_stopped_before_the_next(household: Cluster) -> None:
    household.up(1, household.folder / "runs")
    while len(household.running()) < 3:  # the node's child, too
        time.sleep(0.05)
    before = set(household.running())
    for process in household.processes():
        os.kill(process.pid, signal.SIGKILL)
    while household.alive:
        time.sleep(0.05)
    (household.folder / "superlink.db-wal").write_text("what a killed database left")
    (household.folder / "flwr" / "apps").mkdir()
    assert "1 processes that they started are left" in fleet(household, "status")
    household.up(1, household.folder / "runs")
    assert not before & set(household.running())
    assert not (household.folder / "superlink.db-wal").exists()
    assert (household.folder / "flwr" / "apps").exists(), "what was run is simulated again with its own network"


def test_a_fleet_whose_superlink_is_gone_says_so(household: Cluster, tmp_path: Path) -> None:
    household.up(1, household.folder / "runs")
    household.stop("superlink")
    write_project(tmp_path / "mine")
    refused = CliRunner().invoke(commands, ["fleet", "run", str(tmp_path / "mine"), "--fleet", str(household.folder)])
    assert "The SuperLink of the fleet in" in str(refused.exception)
    assert "is gone. First: afbs fleet down" in str(refused.exception)


def test_a_superlink_that_does_not_come_up_says_its_last_words(household: Cluster, tmp_path: Path) -> None:
    (tmp_path / "bin" / "flower-superlink").write_text("#!/bin/sh\necho the port is taken\nexit 1\n")
    with pytest.raises(RunError, match=r"It ended with 'the port is taken'. Its log: "):
        household.up(1, household.folder / "runs")


STUCK = """
import os, signal, threading
from afbs.apps.mortal import mortal

def stop():  # as Flower does: from a thread, which is the one that gets it
    signal.raise_signal(signal.SIGINT)

signal.signal(signal.SIGINT, lambda number, frame: print("seen", flush=True))
with mortal(lambda text: print(text, flush=True), 0.2):
    threading.Thread(target=stop).start()
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()
"""


def test_a_server_app_that_is_stuck_in_a_call_ends_when_it_is_told_to() -> None:
    """A thread that waits for a lock never runs its handler; the process ends all the same, and says why.

    The handler is run if the signal comes before the wait, and changes nothing.
    """
    done = subprocess.run([sys.executable, "-c", STUCK], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    told = done.stdout.splitlines()[-1]
    assert told == "It was told to stop and is stuck: ending. Started again with its folder, the run goes on."


def test_a_server_app_that_is_not_told_to_stop_goes_on() -> None:
    ended: list[bool] = []
    with mortal(lambda text: None, 0.0, lambda: ended.append(True)):
        pass
    assert not ended
    assert signal.set_wakeup_fd(-1) == -1, "and what it listened with is put back"
