"""The command line as its users meet it: exit codes, Ctrl-C, tables, help, a terminal and a log."""

from __future__ import annotations

import fcntl
import inspect
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import typer

import afbs
from afbs import experiment
from afbs.cli import app
from tiny import TINY, command, lines, run, settings, toml

AFBS = [sys.executable, "-m", "afbs"]


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> afbs.Result:
    return run(tmp_path_factory.mktemp("ended"))


def test_a_run_ends_with_a_table_and_its_folder_and_code_0(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(monkeypatch, "run", toml(tmp_path), "--folder", tmp_path / "run") == 0
    said = capsys.readouterr().out
    facts = afbs.load(tmp_path / "run").record.result
    assert facts is not None
    for words in ("best", "final", "to 50%", "trained", "dropped", "wall", f"{facts['best']:.2%}"):
        assert words in said
    assert f"Folder: {tmp_path / 'run'}" in said


def test_set_changes_single_settings_and_keeps_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changes = ["algorithm.name=fedbuff", "training.lr=0.2", "run.seed=7", "name=changed"]
    sets = [part for change in changes for part in ("--set", change)]
    assert command(monkeypatch, "run", toml(tmp_path), "--folder", tmp_path / "run", *sets) == 0
    config = afbs.load(tmp_path / "run").record.config
    assert config["algorithm"]["name"] == "fedbuff"
    assert config["algorithm"]["buffer_size"] == 4
    assert config["training"]["lr"] == 0.2
    assert config["training"]["epochs"] == 2
    assert config["run"]["seed"] == 7
    assert config["name"] == "changed"


@pytest.mark.parametrize("setting", ["training.lr", "lr=3", "training.lr=fast", "training.rl=1"])
def test_a_wrong_set_is_refused_with_code_2(
    setting: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(monkeypatch, "run", toml(tmp_path), "--runs", tmp_path / "runs", "--set", setting) == 2
    said = capsys.readouterr()
    assert said.err.startswith("Error:")
    assert "Traceback" not in said.err
    assert not (tmp_path / "runs").exists()


def test_compare_runs_every_algorithm_and_seed_and_fits_80_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--algorithms", "afbs,fedbuff", "--seeds", "1,2", "--runs", str(tmp_path / "runs")]
    assert command(monkeypatch, "compare", toml(tmp_path), *arguments) == 0
    said = capsys.readouterr().out
    for name in ("afbs-1", "afbs-2", "fedbuff-1", "fedbuff-2"):
        assert len(re.findall(rf"^ {name} .*%.* s *$", said, re.MULTILINE)) == 1
    assert max(map(len, said.splitlines()[1:])) <= 80
    (folder,) = (tmp_path / "runs").glob("compare-*")
    assert said.startswith(f"4 cells, in {folder}.\n")
    folders = list(folder.glob("cells/*"))
    assert len(folders) == 4
    before = [(folder / "result.json").stat().st_mtime_ns for folder in folders]
    assert command(monkeypatch, "compare", toml(tmp_path), *arguments) == 0
    again = capsys.readouterr().out
    assert again.startswith("4 of 4 cells were done before")
    assert [line for line in again.splitlines() if " s " in line] == [
        line for line in said.splitlines() if " s " in line
    ]
    assert [(folder / "result.json").stat().st_mtime_ns for folder in folders] == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--algorithms", "afbs", "--set", "algorithm.name=fedbuff"], "`--set algorithm.name` and `--algorithms`"),
        (["--seeds", "1,2", "--set", "run.seed=7"], "`--set run.seed` and `--seeds`"),
        (["--seeds", "1,2,01"], "`--seeds`: 1 is there twice"),
        (["--algorithms", "afbs,afbs"], "`--algorithms`: afbs is there twice"),
        (["tiny.toml"], "tiny.toml is there twice"),
    ],
)
def test_compare_refuses_what_would_give_rows_under_wrong_names(
    arguments: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert command(monkeypatch, "compare", toml(tmp_path), *arguments, "--runs", tmp_path / "runs") == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("names", "options", "expected"),
    [
        (["a.toml", "b.toml"], ("", ""), ["a", "b"]),
        (["a.toml", "x/a.toml"], ("", ""), ["a", "x/a"]),
        (["a.toml", "x/a.toml"], ("", "1"), ["a-1", "x/a-1"]),
        (["a.toml", "b.toml"], ("afbs", "1"), ["a-afbs-1", "b-afbs-1"]),
        (["a.toml"], ("", ""), ["afbs-digits"]),
    ],
)
def test_rows_of_files_without_a_name_are_told_apart_by_the_file(
    names: list[str], options: tuple[str, str], expected: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from afbs.cli.runs import _configs

    monkeypatch.chdir(tmp_path)
    (tmp_path / "x").mkdir()
    for rate, name in enumerate(names, start=1):
        Path(name).write_text(f'data.name = "digits"\ntraining.lr = 0.{rate}\n')
    found = _configs([Path(name) for name in names], {}, *options)
    assert [config.name for config in found] == expected
    assert [config.training.lr for config in found] == [0.1, 0.2][: len(names)]


def test_compare_writes_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = tmp_path / "report.html"
    assert command(monkeypatch, "compare", toml(tmp_path), "--runs", tmp_path / "runs", "--report", report) == 0
    assert "tiny" in report.read_text()


def test_show_tells_what_a_run_did(
    ended: afbs.Result, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(monkeypatch, "show", ended.folder) == 0
    said = capsys.readouterr().out
    assert ended.record.result is not None
    for words in ("updates.dropped", "jobs.trained", "wall.total", ended.record.result["sha256"]):
        assert words in said


def test_show_partition_draws_who_has_what_before_anything_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(monkeypatch, "show", toml(tmp_path), "--partition") == 0
    assert len(capsys.readouterr().out.splitlines()) > 5


def test_resuming_a_run_that_has_ended_says_so_and_changes_nothing(
    ended: afbs.Result, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (ended.folder / "events.jsonl").read_bytes()
    assert command(monkeypatch, "resume", ended.folder) == 0
    assert "nothing left to do" in capsys.readouterr().out
    assert (ended.folder / "events.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    ("kind", "some"),
    [
        ("algorithms", ["afbs", "fedavg", "fedbuff"]),
        ("datasets", ["digits", "mnist5k"]),
        ("models", ["lenet5", "mlp"]),
        ("latencies", ["uniform"]),
    ],
)
def test_list_names_what_there_is(
    kind: str, some: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(monkeypatch, "list", kind) == 0
    said = capsys.readouterr().out
    for name in some:
        assert re.search(rf"^{name} +\S", said, re.MULTILINE)


def test_list_settings_shows_defaults(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(monkeypatch, "list", "algorithms", "--settings") == 0
    assert "buffer_size = 10" in capsys.readouterr().out
    assert command(monkeypatch, "list", "models", "--settings") == 0
    said = capsys.readouterr().out
    assert "hidden = 64" in said
    assert "classes" not in said  # what the data say is no setting


def test_an_unknown_kind_or_command_has_code_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(monkeypatch, "list", "algorithm") == 2
    assert "did you mean 'algorithms'?" in capsys.readouterr().err
    assert command(monkeypatch, "rum") == 2
    assert command(monkeypatch, "run") == 2


@pytest.mark.parametrize("name", ["run", "compare", "sweep", "resume", "list", "show"])
def test_help_says_what_each_command_does(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(monkeypatch, name, "--help") == 0
    said = capsys.readouterr().out
    assert max(map(len, said.splitlines())) <= 80
    assert len([line for line in said.splitlines() if line.strip()]) >= 6


def test_help_describes_every_argument_and_breaks_no_paragraph_in_mid_sentence() -> None:
    for name, each in every_command(typer.main.get_command(app)):
        arguments = [parameter for parameter in each.params if isinstance(parameter, click.Argument)]
        assert all(getattr(argument, "help", None) for argument in arguments), name
        for paragraph in inspect.cleandoc(each.help or "").split("\n\n"):
            assert "\n" not in paragraph or max(map(len, paragraph.splitlines())) < 79, name


def every_command(found: click.Command, name: str = "afbs") -> Iterator[tuple[str, click.Command]]:
    if not isinstance(found, click.Group):
        yield name, found
        return
    for word, inner in found.commands.items():
        yield from every_command(inner, f"{name} {word}")


def test_a_run_in_a_log_has_no_control_characters_and_no_bar(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from afbs import progress

    monkeypatch.setattr(progress, "_LOG_SECONDS", 0.0)
    assert command(monkeypatch, "run", toml(tmp_path), "--folder", tmp_path / "run") == 0
    out, said = capsys.readouterr()
    assert "\x1b" not in out + said
    assert "━" not in said
    logged = [line for line in said.splitlines() if line.startswith("tiny: ")]
    assert len(logged) > 3
    assert all(
        re.fullmatch(r"tiny: day \S+ · v\d+ · acc. \S+ · \d+ updates/s · .*(left|done|starting)", line)
        for line in logged
    )


def test_a_run_on_a_terminal_of_80_columns_shows_a_bar_with_everything_in_one_line(tmp_path: Path) -> None:
    arguments = [*AFBS, "run", str(toml(tmp_path)), "--folder", str(tmp_path / "run")]
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "xterm-256color"
        os.environ.pop("COLUMNS", None)
        os.execv(arguments[0], arguments)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    said = b""
    try:
        while chunk := os.read(terminal, 65536):
            said += chunk
    except OSError:  # how a pseudo-terminal says that nobody is there any more
        pass
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", said.decode())
    drawn = [line for line in re.split(r"[\r\n]+", plain) if "━" in line]
    last = drawn[-1]
    assert re.search(r"tiny ━+ day 0.15/0.15 · v\d+ · acc. \d+\.\d% · \d+ updates/s · done", last)
    assert max(map(len, drawn)) <= 80


def test_the_command_to_resume_can_be_pasted_whatever_the_folder_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "my [red] :x: run"
    folder.mkdir()
    assert command(monkeypatch, "run", toml(tmp_path), "--folder", folder) == 2
    assert capsys.readouterr().err.endswith(f"afbs resume '{folder}'\n")

    def stopped(*_: object, **__: object) -> afbs.Result:
        raise experiment.Interrupted(folder)

    monkeypatch.setattr(experiment, "run", stopped)
    assert command(monkeypatch, "run", toml(tmp_path), "--folder", folder) == 130
    assert capsys.readouterr().out.endswith(f"afbs resume '{folder}'\n")


@pytest.mark.parametrize("name", ["show", "resume"])
def test_a_file_is_not_a_run_folder(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(monkeypatch, name, toml(tmp_path)) == 2
    assert "is not a run folder" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["drawing.xyz", "nowhere/drawing.png"])
def test_a_drawing_that_cannot_be_written_is_refused_with_code_2(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(monkeypatch, "show", toml(tmp_path), "--partition", "--output", tmp_path / name) == 2
    assert f"`--output`: {tmp_path / name} cannot be written: " in capsys.readouterr().err


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """A real process in a session of its own, as in a terminal, so that Ctrl-C goes to all of its group."""
    return subprocess.Popen(
        [*AFBS, *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def test_ctrl_c_saves_the_run_and_resume_ends_in_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    longer = settings(run__virtual_days=0.4, training__epochs=5)
    path = toml(tmp_path, run__virtual_days=0.4, training__epochs=5, executor__name="processes", executor__workers=2)
    process = start(tmp_path, "run", str(path), "--folder", "run", "--set", "run.checkpoint_seconds=0.02")
    folder = tmp_path / "run"
    while process.poll() is None and not list(folder.glob("checkpoints/*.safetensors")):
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    said, complaints = process.communicate(timeout=60)
    assert process.returncode == 130
    assert said.strip().splitlines()[-1] == "Stopped. Continue with: afbs resume run"
    assert complaints == ""
    assert not (folder / "result.json").exists()
    assert command(monkeypatch, "show", folder) == 0
    assert f"afbs resume {folder}" in capsys.readouterr().out.replace("\n", "")
    assert command(monkeypatch, "resume", folder) == 0
    whole = afbs.run(longer, folder=tmp_path / "whole")
    resumed = afbs.load(folder)
    assert resumed.params.tobytes() == whole.params.tobytes()
    assert lines(folder) == lines(whole.folder)
    assert resumed.record.result is not None
    assert whole.record.result is not None
    for counted in ("updates", "jobs", "evaluations"):
        assert resumed.record.result[counted] == whole.record.result[counted]


def test_ctrl_c_before_anything_was_trained_leaves_a_run_that_can_be_resumed(tmp_path: Path) -> None:
    path = toml(tmp_path, executor__name="processes", executor__workers=1)
    process = start(tmp_path, "run", str(path), "--folder", "run")
    while process.poll() is None and not (tmp_path / "run" / "config.toml").exists():
        time.sleep(0.005)
    os.killpg(process.pid, signal.SIGINT)
    said, complaints = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "afbs resume run" in said
    assert "Traceback" not in complaints
    assert afbs.resume(tmp_path / "run").params.tobytes() == afbs.run(TINY, folder=tmp_path / "whole").params.tobytes()


def test_asking_for_help_imports_nothing_heavy() -> None:
    script = (
        "import sys; sys.argv = ['afbs', '--help']\n"
        "from afbs import cli\n"
        "try: cli.main()\n"
        "except SystemExit: pass\n"
        "heavy = 'torch', 'sklearn', 'pandas', 'scipy', 'matplotlib', 'plotly'\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout.splitlines()[-1] == "[]"
