"""A user's mistake gets a sentence that says where and what, and nothing is lost."""

from __future__ import annotations

import errno
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import afbs
from afbs.executors._failure import failure
from afbs.interfaces import Algorithm, Partition, Source
from afbs.record import writer
from afbs.seeds import Key
from afbs.types import ClientInfo, Dataset, Split
from tiny import TINY, command, lines, run, settings, toml


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"algorithm.bufer_size": 3}, "no setting `algorithm.bufer_size`; did you mean 'buffer_size'?"),
        ({"run.seeds": 3}, "no setting `run.seeds`; did you mean 'seed'?"),
        ({"algoritm": {"name": "afbs"}}, "no table `[algoritm]`; did you mean 'algorithm'?"),
        ({"algorithm": "fedbuf"}, "`algorithm.name`: there is no algorithm called 'fedbuf'; did you mean 'fedbuff'?"),
        ({"data": "digit"}, "`data.name`: there is no data called 'digit'; did you mean 'digits'?"),
        ({"model": "lenet"}, "`model.name`: there is no model called 'lenet'; did you mean 'lenet5'?"),
        ({"latency": "unifrom"}, "did you mean 'uniform'?"),
        ({"partition": "zzz"}, "there are: clustered, dirichlet"),
        ({"model.hiden": 3}, "no setting `model.hiden`; did you mean 'hidden'?"),
        ({"availability.rate": 1}, "no setting `availability.rate`; this one has no settings."),
        ({"algorithm.buffer_size": "3"}, "`algorithm.buffer_size` must be a valid integer, got '3'."),
        ({"algorithm.buffer_size": 2.5}, "`algorithm.buffer_size` must be a valid integer, got 2.5."),
        ({"algorithm.buffer_size": True}, "`algorithm.buffer_size` must be a valid integer, got True."),
        ({"algorithm.buffer_size": 0}, "`algorithm.buffer_size` must be greater than or equal to 1, got 0."),
        ({"training.lr": -0.1}, "`training.lr` must be greater than 0, got -0.1."),
        ({"training.lr": float("inf")}, "`training.lr` must be a finite number, got inf."),
        ({"run.virtual_days": float("inf")}, "`run.virtual_days` must be a finite number, got inf."),
        ({"run.virtual_days": float("nan")}, "`run.virtual_days` must be"),
        ({"training.lr_decay_unit": "epoch"}, "'update', 'virtual_time' or 'none', got 'epoch'."),
        ({"evaluation.target": 85}, "`evaluation.target` must be between 0 and 1, as accuracy is a share, got 85."),
        ({"run": 3}, "`[run]` must be a table, got 3."),
        ({"algorithm": 3}, "`[algorithm]` must be a table or an afbs.interfaces.Algorithm, got 3."),
        ({"algorithm.name": 3}, "`algorithm.name` must be text, got 3."),
        ({"name": 3}, "`name` must be text, got 3."),
        ({"partition.clusters": 21}, "`partition.clusters` must be at most `partition.clients` (20), got 21."),
        ({"clusters.number": 21}, "`clusters.number` must not be above the number of clients (20), got 21."),
        ({"clusters.number": 10**18}, "`clusters.number` must not be above the number of clients (20), got 1000"),
        ({"clusters.number": -1}, "`clusters.number` must be greater than or equal to 0, got -1."),
        ({"clusters.width": 10**9}, "`clusters.width` must be less than or equal to 4096, got 1000000000."),
        ({"clusters.noise": float("inf")}, "`clusters.noise` must be a finite number, got inf."),
        ({"clusters.noise": 1e300}, "`clusters.noise` must be less than or equal to 100, got 1e+300."),
        (
            {"clusters": {"name": "dp", "epsilon": 1e300}},
            "`clusters.epsilon` must be less than or equal to 1000, got 1e+300.",
        ),
        (
            {"clusters": {"name": "dp", "epsilon": 1e-300}},
            "`clusters.epsilon` must be greater than or equal to 0.0001, got",
        ),
        (
            {"clusters": {"name": "dp", "releases": 10**9}},
            "`clusters.releases` must be less than or equal to 10000, got",
        ),
        (
            {"clusters": {"name": "secure", "starts": 10**9}},
            "`clusters.starts` must be less than or equal to 1000, got",
        ),
        (
            {"clusters": {"name": "secure", "noise": 1e300}},
            "`clusters.noise` must be less than or equal to 1000000, got",
        ),
        ({"clusters": {"name": "none", "number": 3}}, "`clusters.number` must be 1, got 3."),
        ({"run.in_flight": 21}, "`run.in_flight` must be at most the number of clients (20), got 21."),
        ({"algorithm.buffer_size": 9}, "a step waits for 9 updates, but only `run.in_flight` = 8 jobs are under way"),
        ({"model": {"name": "lenet5"}}, "needs images of at least 12 × 12 pixels"),
        ({"run.device": "gpu"}, "`run.device` = 'gpu' cannot be used here:"),
        ({"algorithm": "nowhere.at_all:X"}, "no module called 'nowhere' can be imported"),
        ({"algorithm": "afbs.types:Nothing"}, "has no attribute 'Nothing'"),
        ({"algorithm": "afbs.types:Step"}, "is not a subclass of afbs.interfaces.Algorithm"),
        ({"algorithm": ":"}, "`algorithm.name` must be a name or `package.module:Name`, got ':'."),
        ({"data": "npz"}, "`data.path` must be given."),
    ],
)
def test_wrong_settings_are_refused_with_their_place_and_value(
    overrides: dict[str, Any], message: str, tmp_path: Path
) -> None:
    kept = {key: value for key, value in TINY.items() if key not in overrides or "." in key}
    if "model" in overrides:
        kept["model"] = {}
    with pytest.raises(afbs.UserError) as refused:
        afbs.run(kept, runs=tmp_path, **overrides)
    assert message in str(refused.value)
    assert not list(tmp_path.iterdir())


@dataclass(frozen=True)
class OneHasNothing(Partition):
    def split(self, labels: Any, owners: Any, key: Key) -> Split:
        return Split([np.arange(10), np.array([], dtype=np.int64), np.arange(10, 20)])


def test_a_client_without_samples_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(afbs.UserError, match="client 1 has no samples"):
        afbs.run(settings(run__in_flight=2, algorithm__buffer_size=1), runs=tmp_path, partition=OneHasNothing())


@dataclass(frozen=True)
class Given(Source):
    train_y: tuple[int, ...]
    samples: int = 60

    def load(self) -> Dataset:
        x = np.zeros((self.samples, 4), np.float32)
        return Dataset(x, np.array(self.train_y), x[:10], np.zeros(10, np.int64), classes=3)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0] * 59 + [3], "the label of train sample 59 is 3; with 3 classes labels go from 0 to 2"),
        ([0, -1] + [2] * 58, "the label of train sample 1 is -1"),
        ([0] * 59, "60 train samples with 59 labels"),
    ],
)
def test_labels_that_do_not_fit_are_refused(labels: list[int], message: str, tmp_path: Path) -> None:
    with pytest.raises(afbs.UserError, match=message):
        afbs.run(TINY, runs=tmp_path, data=Given(tuple(labels)))


class Net(nn.Module):
    """A network that may be told to misbehave."""

    def __init__(self, shape: tuple[int, ...], classes: int, trouble: str = ""):
        super().__init__()
        self.dense = nn.Linear(int(np.prod(shape)), classes)
        self.trouble = trouble

    def forward(self, x: Tensor) -> Tensor:
        scores = self.dense(x.flatten(1))
        if self.trouble == "raises" and self.training:
            raise ArithmeticError("the user's own bug")
        if self.trouble == "narrow":
            return scores[:, :1]
        if self.trouble == "explodes":
            # Only for whoever has a sample whose first feature is large: the log of a negative number.
            return scores + torch.log(torch.where((x.flatten(1)[:, :1] > 1.0).any() & self.training, -1.0, 1.0))
        return scores


def test_a_model_that_scores_the_wrong_number_of_classes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(afbs.UserError, match=r"a score for each class: for 2 samples \(2, 10\), got \(2, 1\)"):
        afbs.run(TINY, runs=tmp_path, model={"name": Net, "trouble": "narrow"})


def test_a_model_that_does_not_fit_the_samples_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        afbs.UserError, match=r"`model` cannot score samples \(numbers of shape \(2, 1, 8, 8\)\): mat1 and"
    ):
        afbs.run(TINY, runs=tmp_path, model=lambda: nn.Linear(3, 10))
    whole = np.arange(240).reshape(60, 4), np.arange(60) % 3
    with pytest.raises(afbs.UserError, match=r"`model` cannot score samples \(token numbers of shape \(2, 4\)\): "):
        afbs.run(TINY, runs=tmp_path, data=whole)


def test_a_model_beyond_all_memory_is_refused(tmp_path: Path) -> None:
    beyond: dict[str, Any] = {"model.hidden": 10**14}
    with pytest.raises(afbs.UserError, match=r"`model` could not be built: .*allocate"):
        afbs.run(TINY, runs=tmp_path, **beyond)


def test_an_algorithm_that_lacks_a_method_is_refused(tmp_path: Path) -> None:
    class Unfinished(Algorithm[None]):
        def init(self, clients: Sequence[ClientInfo]) -> None: ...

    with pytest.raises(
        afbs.UserError, match="`algorithm`: the class Unfinished still needs these methods: apply, receive"
    ):
        afbs.run(TINY, runs=tmp_path, algorithm=Unfinished)


def test_a_model_that_raises_fails_the_run_with_its_own_line_its_traceback_and_the_command_that_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broken_net.py").write_text(
        "from torch import nn\n"
        "class Broken(nn.Linear):\n"
        "    def __init__(self, shape, classes):\n"
        "        super().__init__(64, classes)\n"
        "    def forward(self, x):\n"
        "        if self.training: raise ArithmeticError('the user\\'s own bug')\n"
        "        return super().forward(x.flatten(1))\n"
    )
    tables = {**settings(executor__name="processes", executor__workers=1), "model": {"name": "broken_net:Broken"}}
    import tomli_w

    (tmp_path / "broken.toml").write_text(tomli_w.dumps(tables))
    assert command(monkeypatch, "run", tmp_path / "broken.toml", "--runs", tmp_path / "runs") == 1
    said = capsys.readouterr().err.splitlines()
    (folder,) = (tmp_path / "runs").iterdir()
    assert said[0] == "The run failed: A worker failed: ArithmeticError: the user's own bug"
    assert said[1] == "Traceback (most recent call last):"
    assert "broken_net.py" in "".join(said)
    assert "ArithmeticError: the user's own bug" in said[2:]
    assert said[-1].endswith(f"To go on: afbs resume {folder}")


def test_a_worker_that_keeps_dying_ends_the_run_with_the_command_that_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "deadly_net.py").write_text(
        "import os\n"
        "from torch import nn\n"
        "class Deadly(nn.Linear):\n"
        "    def __init__(self, shape, classes):\n"
        "        super().__init__(64, classes)\n"
        "    def forward(self, x):\n"
        "        if self.training and 'OMP_NUM_THREADS' in os.environ: os._exit(7)\n"
        "        return super().forward(x.flatten(1))\n"
    )
    tables = {**settings(executor__name="processes", executor__workers=1), "model": {"name": "deadly_net:Deadly"}}
    import tomli_w

    (tmp_path / "deadly.toml").write_text(tomli_w.dumps(tables))
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert command(monkeypatch, "run", tmp_path / "deadly.toml", "-o", tmp_path / "run") == 1
    said = capsys.readouterr().err
    assert "the last one with exit code 7" in said
    assert f"To go on: afbs resume {tmp_path / 'run'}" in said


def test_the_own_line_of_an_exception_is_found_though_its_message_has_several() -> None:
    trace = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    g()\n    ^^^\nValueError: one\ntwo\n'
    assert failure(trace) == f"A worker failed: ValueError: one\n{trace.rstrip()}"
    assert failure("Killed\n") == "A worker failed: Killed\nKilled"


def test_an_update_that_is_not_finite_is_rejected_and_recorded_and_the_rest_count(tmp_path: Path) -> None:
    data = np.zeros((400, 4), np.float32)
    labels = np.arange(400) % 4
    data[np.arange(400), labels] = 1.0
    data[labels == 3] = 3.0
    tables = settings(partition__clusters=4, partition__alpha=0.05, clusters__number=4)
    tables["model"] = {"name": Net, "trouble": "explodes"}
    result = afbs.run(tables, folder=tmp_path / "run", data=(data, labels))
    facts = result.record.result
    assert facts is not None
    updates = facts["updates"]
    assert updates["rejected"] > 0
    assert updates["used"] > 0
    assert np.isfinite(result.params).all()
    steps = [line for line in lines(result.folder) if line["event"] == "step"]
    assert sum(len(step["rejected"]) for step in steps) == updates["rejected"]
    for step in steps:
        assert not set(step["rejected"]) & set(step["used"]["order"])
        assert len(step["used"]["weight"]) == len(step["used"]["order"])
    assert facts["jobs"]["trained"] == updates["used"] + updates["rejected"]


NOTHING = "Not one of [0-9]+ updates was finite, so the model is what it was at first. `task`: Classification.loss"


def test_a_step_of_which_nothing_is_finite_leaves_the_model_as_it_was(tmp_path: Path) -> None:
    with pytest.warns(RuntimeWarning, match=NOTHING):
        result = run(tmp_path, **{"training.lr": 1e30})
    assert result.record.result is not None
    assert result.record.result["updates"]["used"] == 0
    assert result.record.result["updates"]["rejected"] == result.record.result["jobs"]["trained"] > 0
    assert len(set(result.history.accuracy)) == 1


def test_a_folder_that_is_not_a_run_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for ask in (afbs.load, afbs.resume):
        with pytest.raises(afbs.UserError, match="is not a run folder"):
            ask(tmp_path)
    for name in ("show", "resume"):
        assert command(monkeypatch, name, tmp_path) == 2
        assert command(monkeypatch, name, tmp_path / "missing") == 2
    said = capsys.readouterr().err
    assert said.count("Error:") == 4
    assert "Traceback" not in said


def test_an_output_folder_that_exists_is_refused_and_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "precious").write_text("mine")
    assert command(monkeypatch, "run", toml(tmp_path), "--folder", tmp_path / "run") == 2
    assert "exists already" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["precious"]


def test_a_folder_below_a_file_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(afbs.UserError, match="cannot be made"):
        afbs.run(TINY, folder=tmp_path / "file" / "run")


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"[run\n", "is not TOML"), (b"\xff\xfe", "cannot be read"), (None, "There is no file")],
)
def test_a_file_that_is_no_configuration_is_refused(
    content: bytes | None,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "a.toml"
    if content is not None:
        path.write_bytes(content)
    assert command(monkeypatch, "run", path) == 2
    assert message in capsys.readouterr().err


class FullDisk:
    """Lets so many bytes of the record through, and then there is no room until `emptied`."""

    def __init__(self, room: int, monkeypatch: pytest.MonkeyPatch):
        self.room = room
        self._open = Path.open
        monkeypatch.setattr(Path, "open", lambda path, *rest, **named: self.open(path, *rest, **named))

    def open(self, path: Path, mode: str = "r", *rest: Any, **named: Any) -> Any:
        file = self._open(path, mode, *rest, **named)
        return _Limited(self, file) if mode in ("ab", "wb") else file


class _Limited:
    def __init__(self, disk: FullDisk, file: Any):
        self.disk, self.file = disk, file

    def write(self, content: bytes) -> int:
        self.disk.room -= len(content)
        if self.disk.room < 0:
            self.file.write(content[: len(content) // 2])
            raise OSError(errno.ENOSPC, "No space left on device")
        return int(self.file.write(content))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)

    def __enter__(self) -> _Limited:
        return self

    def __exit__(self, *exception: object) -> None:
        self.file.close()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> afbs.Result:
    return run(tmp_path_factory.mktemp("whole"))


def test_a_disk_that_fills_up_at_any_moment_leaves_a_folder_that_resumes_to_the_same_bytes(
    tmp_path: Path, whole: afbs.Result
) -> None:
    size = sum(path.stat().st_size for path in whole.folder.rglob("*") if path.is_file())
    config = (whole.folder / "config.toml").stat().st_size
    meta = (whole.folder / "meta.json").stat().st_size
    rooms = [config + 1, config + meta + 1, size // 2, size - 5000, size - 10]
    for number, room in enumerate(rooms):
        folder = tmp_path / str(number)
        with pytest.MonkeyPatch.context() as patch:
            FullDisk(room, patch)
            often: dict[str, Any] = {"run.checkpoint_seconds": 0.0} if number == 2 else {}
            with pytest.raises(afbs.RunError) as stopped:
                afbs.run(TINY, folder=folder, **often)
        assert f"No space left on device. Make room, then: afbs resume {folder}" in str(stopped.value)
        assert not list(folder.rglob("*.part"))
        result = afbs.resume(folder)
        assert result.params.tobytes() == whole.params.tobytes()
        assert lines(folder) == lines(whole.folder)


def test_a_disk_that_is_full_from_the_start_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = toml(tmp_path)
    FullDisk(10, monkeypatch)
    assert command(monkeypatch, "run", path, "--folder", tmp_path / "run") == 1
    assert "No space left on device. Nothing has been run." in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_run_killed_before_it_wrote_anything_but_its_configuration_is_resumed(
    tmp_path: Path, whole: afbs.Result
) -> None:
    writer.create_folder(tmp_path / "run", (whole.folder / "config.toml").read_text())
    assert afbs.resume(tmp_path / "run").params.tobytes() == whole.params.tobytes()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("hidden = 8", "hidden = 9"), r"`\[model\]` was changed"),
        (("virtual_days = 0.15", "virtual_days = 0.0001"), r"`\[run\]` was changed"),
    ],
)
def test_a_run_whose_configuration_was_changed_is_not_taken_up(
    change: tuple[str, str], message: str, tmp_path: Path
) -> None:
    run(tmp_path, **{"run.checkpoint_seconds": 0.0})
    folder = tmp_path / "run"
    (folder / "result.json").unlink()
    config = (folder / "config.toml").read_text()
    assert change[0] in config
    (folder / "config.toml").write_text(config.replace(*change))
    with pytest.raises(afbs.UserError, match=message):
        afbs.resume(folder)


def test_a_record_with_a_torn_last_line_can_still_be_read(tmp_path: Path) -> None:
    result = run(tmp_path)
    with (result.folder / "events.jsonl").open("ab") as file:
        file.write(b'{"event":"step","ver')
    assert afbs.load(result.folder).final == result.final


def test_a_training_function_none_of_whose_updates_is_finite_is_named(tmp_path: Path) -> None:
    def burst(model: nn.Module, data: Any, order: Any) -> dict[str, float]:
        nn.init.constant_(next(model.parameters()), torch.inf)
        return {}

    said: list[str] = []
    run(tmp_path, on_note=said.append, **{"training.function": burst})
    assert "`training.function`: " in said[-1]
    assert "burst gives numbers that are not finite, or `training.lr` = 0.1 is too large." in said[-1]


def test_numbers_in_the_record_are_all_finite_json(tmp_path: Path) -> None:
    with pytest.warns(RuntimeWarning, match=NOTHING):
        result = run(tmp_path, **{"training.lr": 1e30})

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    for line in (result.folder / "events.jsonl").read_text().splitlines():
        json.loads(line, parse_constant=refuse)
