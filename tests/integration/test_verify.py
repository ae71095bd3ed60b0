"""A run is what its record says: decided again from it alone, resumed under its eyes, exported and tried again."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

import afbs
import tiny
from afbs import registry
from afbs.core import selection
from afbs.experiment.running import Interrupted
from afbs.record.final import sha256

ALGORITHMS = registry.names("algorithm")
SEVERAL: dict[str, dict[str, Any]] = {
    "plain": {},
    "windows": {"availability": {"name": "windows", "period": 4000.0}},
    "dropouts": {"availability": {"name": "dropouts", "probability": 0.3, "away": 500.0}},
    "deadline": {"algorithm.deadline": 300.0},
}


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]


def doctored(folder: Path, number: int, line: dict[str, Any]) -> None:
    """One line of the record, changed."""
    all_lines = (folder / "events.jsonl").read_text().splitlines()
    all_lines[number] = json.dumps(line, separators=(",", ":"), ensure_ascii=False)
    (folder / "events.jsonl").write_text("\n".join(all_lines) + "\n")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.run(tmp_path_factory.mktemp("run")).folder


@pytest.fixture
def copy(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "copy"))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_is_decided_again_from_its_record_alone(algorithm: str, tmp_path: Path) -> None:
    folder = tiny.run(tmp_path, algorithm={"name": algorithm}).folder
    verdict = afbs.verify(folder)
    assert verdict.good
    assert verdict.steps == sum(line["event"] == "step" for line in lines(folder)) > 0


@pytest.mark.parametrize("how", SEVERAL)
@pytest.mark.parametrize("algorithm", ["afbs", "fedavg"])
def test_whoever_comes_and_goes_it_is_decided_again(algorithm: str, how: str, tmp_path: Path) -> None:
    folder = tiny.run(tmp_path, algorithm={"name": algorithm}, **SEVERAL[how]).folder
    kinds = {line["event"] for line in lines(folder)}
    wanted = {"windows": {"left", "returned", "lost"}, "dropouts": {"lost"}, "deadline": {"woken"}}.get(how, set())
    assert wanted <= kinds
    assert afbs.verify(folder).good


def test_trained_again_the_model_is_the_same(finished: Path) -> None:
    verdict = afbs.verify(finished, train=True)
    assert verdict.good
    assert verdict.trained


def swapped(folder: Path, params: Any) -> str:
    """Another final model in the file; its digest."""
    (folder / "model.safetensors").write_bytes(save({"params": params}))
    return sha256(params)


def test_a_run_that_trains_to_another_model_is_noticed(copy: Path) -> None:
    result = json.loads((copy / "result.json").read_text())
    digest = swapped(copy, np.zeros_like(afbs.load(copy).params))
    (copy / "result.json").write_text(json.dumps({**result, "sha256": digest}))
    assert afbs.verify(copy).good
    assert "the final model is another" in afbs.verify(copy, train=True).problem
    meta = json.loads((copy / "meta.json").read_text())
    meta["machine"]["blas"] = "openblas Pentium"
    (copy / "meta.json").write_text(json.dumps(meta))
    assert "OPENBLAS_CORETYPE=Pentium" in afbs.verify(copy, train=True).problem


def test_a_final_model_that_is_not_the_runs_is_noticed_by_everyone_who_reads_it(copy: Path) -> None:
    swapped(copy, np.zeros_like(afbs.load(copy).params))
    for train in (False, True):
        assert "is not the model that the run ended with" in afbs.verify(copy, train=train).problem
    with pytest.raises(afbs.UserError, match="is not the model that the run ended with"):
        afbs.export_model(copy, copy / "model.pt")


def test_a_final_model_that_is_gone_is_computed_again_as_the_sentence_says(copy: Path) -> None:
    before = afbs.load(copy).params
    (copy / "model.safetensors").unlink()
    assert "is gone, though the run has ended" in afbs.verify(copy).problem
    (copy / "result.json").unlink()
    assert (afbs.resume(copy, progress=False).params == before).all()


@pytest.mark.parametrize(("table", "line"), [("training", "epochs = 2"), ("run", "virtual_days = 0.15")])
def test_a_setting_that_decides_no_step_is_noticed_too(copy: Path, table: str, line: str) -> None:
    text = (copy / "config.toml").read_text()
    assert line in text
    (copy / "config.toml").write_text(text.replace(line, line + "5" if "." in line else "epochs = 3"))
    assert afbs.verify(copy).problem == f"`[{table}]` in `config.toml` is not what the run began with."


def test_a_record_that_is_not_the_results_is_told_to_everyone_who_reads_it(copy: Path) -> None:
    assert afbs.load(copy).record.problems == ()
    text = (copy / "events.jsonl").read_text()
    for changed in ("", text + text.splitlines()[-1] + "\n", text.replace('"accuracy":0.', '"accuracy":0.9')):
        (copy / "events.jsonl").write_text(changed)
        (problem,) = afbs.load(copy).record.problems
        assert "is not the record that `result.json` was written for" in problem


def numbers(line: dict[str, Any], path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The places of all numbers in a line, but for the clock on the wall."""
    found: list[tuple[Any, ...]] = []
    for key, value in line.items() if isinstance(line, dict) else enumerate(line):
        if isinstance(value, dict | list):
            found += numbers(value, (*path, key))  # type: ignore[arg-type]
        elif isinstance(value, int | float) and key != "wall":
            found.append((*path, key))
    return found


def test_any_number_that_is_changed_is_noticed_and_the_step_is_named(finished: Path, tmp_path: Path) -> None:
    """Every number of a few lines of each kind. The step that is named is the next one in the record, or an earlier one
    is never named."""
    whole = lines(finished)
    seen: dict[str, int] = {}
    tried = 0
    for number, line in enumerate(whole):
        if line["event"] in ("checkpoint", "resume", "end") or seen.setdefault(line["event"], 0) >= 2:
            continue
        seen[line["event"]] += 1
        following = [later["version"] for later in whole[number:] if later["event"] == "step"]
        for path in numbers(line):
            changed = json.loads(json.dumps(line))
            place = changed
            for key in path[:-1]:
                place = place[key]
            place[path[-1]] += 1
            folder = Path(shutil.copytree(finished, tmp_path / f"{number}-{tried}"))
            doctored(folder, number, changed)
            verdict = afbs.verify(folder)
            assert not verdict.good, (line, path)
            if following:
                assert verdict.step is not None, (line, path, verdict)
                assert verdict.step >= following[0] or line["event"] == "dispatch", (line, path, verdict)
            tried += 1
    assert tried > 60
    assert set(seen) >= {"dispatch", "arrival", "step", "eval"}


def test_a_line_that_is_lost_or_swapped_is_noticed(finished: Path, tmp_path: Path) -> None:
    whole = (finished / "events.jsonl").read_text().splitlines()
    for name, changed in {
        "lost": whole[:20] + whole[21:],
        "swapped": [*whole[:20], whole[21], whole[20], *whole[22:]],
        "doubled": [*whole[:20], whole[20], *whole[20:]],
        "cut": whole[:-3],
    }.items():
        folder = Path(shutil.copytree(finished, tmp_path / name))
        (folder / "events.jsonl").write_text("\n".join(changed) + "\n")
        assert not afbs.verify(folder).good, name


def test_an_edited_algorithm_is_noticed_at_the_first_step_that_differs(
    finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The score becomes V / (τ + 1): the first buffer in which that changes the choice is named."""
    steps = [line for line in lines(finished) if line["event"] == "step"]
    original = selection.judged

    def edited(examples: Any, staleness: Any, *rest: Any) -> Any:
        return original(examples, [max(0, age - 1) for age in staleness], *rest)

    monkeypatch.setattr("afbs.algorithms.afbs.judged", edited)
    verdict = afbs.verify(finished)
    assert not verdict.good
    assert verdict.step is not None
    assert "is not what it was" in verdict.problem
    assert 1 <= verdict.step <= len(steps)


def test_a_record_that_has_not_ended_is_verified_as_far_as_it_goes(copy: Path) -> None:
    (copy / "result.json").unlink()
    whole = (copy / "events.jsonl").read_bytes().splitlines(keepends=True)
    (copy / "events.jsonl").write_bytes(b"".join(whole[:60]) + b'{"event":"arr')
    assert afbs.verify(copy).good


def test_the_command_says_yes_or_names_the_step(
    copy: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tiny.command(monkeypatch, "verify", copy) == 0
    assert "steps are as decided" in capsys.readouterr().out
    number, line = next((i, line) for i, line in enumerate(lines(copy)) if line["event"] == "step")
    line["used"]["weight"][0] *= 2
    doctored(copy, number, line)
    assert tiny.command(monkeypatch, "verify", copy) == 1
    assert "Step 1 is not what it was" in capsys.readouterr().err


# resume has a witness


class StopAfter:
    def __init__(self, version: int):
        self.version = version

    def __call__(self, progress: Any) -> None:
        if progress.version >= self.version:
            self.version = 10**9
            raise KeyboardInterrupt


def interrupted(folder: Path, version: int = 6, **overrides: Any) -> Path:
    with pytest.raises(Interrupted):
        afbs.run(tiny.TINY, folder=folder, on_progress=StopAfter(version), **overrides)
    return folder


def test_a_run_that_would_be_decided_otherwise_is_not_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = interrupted(tmp_path / "run")
    original = selection.judged

    def edited(examples: Any, staleness: Any, *rest: Any) -> Any:
        return original([1] * len(examples), staleness, *rest)

    monkeypatch.setattr("afbs.algorithms.afbs.judged", edited)
    with pytest.raises(afbs.UserError, match=r"Step \d+ is not what it was"):
        afbs.resume(folder)


def test_a_run_is_not_resumed_with_another_trace(tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    rows = [f"{client},0,{500 + 37 * client}" for client in range(20)]
    trace.write_text("client,start,duration\n" + "\n".join(rows) + "\n")
    folder = interrupted(tmp_path / "run", latency={"name": "trace", "path": str(trace)})
    trace.write_text("client,start,duration\n" + "\n".join(rows).replace("537", "538") + "\n")
    with pytest.raises(afbs.UserError, match="is not what it was"):
        afbs.resume(folder)


def test_checkpoints_of_another_run_are_passed_over(tmp_path: Path) -> None:
    """Another seed's, another algorithm's: neither another model nor a traceback comes of them."""
    whole = afbs.run(tiny.TINY, folder=tmp_path / "whole")
    others: dict[str, Any] = {"seed": {"run.seed": 2}, "algorithm": {"algorithm": {"name": "fedavg"}}}
    for name, other in others.items():
        first = interrupted(tmp_path / f"{name}-1")
        second = interrupted(tmp_path / f"{name}-2", 2, **other)
        shutil.rmtree(first / "checkpoints")
        shutil.copytree(second / "checkpoints", first / "checkpoints")
        notes: list[str] = []
        result = afbs.resume(first, on_note=notes.append)
        assert result.params.tobytes() == whole.params.tobytes()
        assert any("belongs to another run" in note for note in notes)
        assert tiny.lines(first) == tiny.lines(whole.folder)


@pytest.mark.parametrize("damage", ["flipped", "nul", "foreign"])
def test_a_damaged_history_is_not_continued(damage: str, tmp_path: Path) -> None:
    """The right model with a broken history is a wrong answer, too: the run begins anew and says so."""
    whole = afbs.run(tiny.TINY, folder=tmp_path / "whole")
    folder = interrupted(tmp_path / "run")
    events = folder / "events.jsonl"
    content = bytearray(events.read_bytes())
    if damage == "flipped":
        content[content.index(b'"version":1') + 10] ^= 1
    elif damage == "nul":
        content[200:300] = bytes(100)
    else:
        content = bytearray((interrupted(tmp_path / "other", **{"run.seed": 5}) / "events.jsonl").read_bytes())
    events.write_bytes(content)
    notes: list[str] = []
    result = afbs.resume(folder, on_note=notes.append)
    assert any("events.jsonl is not what it was" in note or "has lost what was" in note for note in notes)
    assert result.params.tobytes() == whole.params.tobytes()
    assert tiny.lines(folder) == tiny.lines(whole.folder)
    assert afbs.verify(folder).good


# content-based algorithms


@dataclass(frozen=True)
class DropsTheLongest(afbs.Algorithm[afbs.Buffer]):
    """Looks at how long updates are and drops the longest of four."""

    def init(self, clients: Any) -> afbs.Buffer:
        return afbs.Buffer()

    def receive(self, state: afbs.Buffer, update: Any, key: Any) -> Any:
        buffer = state.add(update)
        if buffer.size < 4:
            return buffer, None
        updates = buffer.updates()
        lengths = update.facts(updates)["lengths"]
        longest = lengths.index(max(lengths))
        rest = tuple(each for place, each in enumerate(updates) if place != longest)
        return afbs.Buffer(), afbs.Step(rest, (updates[longest],), notes={"longest": lengths[longest]})

    def look(self, memory: Any, params: Any, updates: Any, vectors: Any) -> dict[str, Any]:
        return {"lengths": (vectors.astype("float64") ** 2).sum(axis=1).tolist()}

    def apply(self, memory: Any, params: Any, step: Any, vectors: Any) -> Any:
        return memory, params - vectors.mean(axis=0)


@pytest.mark.parametrize("stop", [1, 4, 9])
def test_an_algorithm_that_looks_resumes_to_the_same_bytes_without_training_anew(stop: int, tmp_path: Path) -> None:
    whole = afbs.run(tiny.TINY, folder=tmp_path / "whole", algorithm=DropsTheLongest())
    assert any(line["event"] == "look" for line in lines(whole.folder))
    folder = tmp_path / "run"
    with pytest.raises(Interrupted):
        afbs.run(tiny.TINY, folder=folder, algorithm=DropsTheLongest(), on_progress=StopAfter(stop))
    resumed = afbs.resume(folder, algorithm=DropsTheLongest())
    assert resumed.params.tobytes() == whole.params.tobytes()
    assert tiny.lines(folder) == tiny.lines(whole.folder)
    assert afbs.verify(folder, algorithm=DropsTheLongest()).good
    assert any(line["event"] == "resume" for line in lines(folder))


# the same fleet again


@pytest.mark.parametrize("how", ["plain", "windows", "dropouts"])
def test_a_run_on_its_exported_trace_is_the_same_run(how: str, tmp_path: Path) -> None:
    first = tiny.run(tmp_path, **SEVERAL[how])
    written = afbs.export_trace(first.folder, tmp_path / "fleet.csv")
    assert [path.name for path in written] == ["fleet.csv", "fleet-presence.csv"][: 1 if how == "plain" else 2]
    again: dict[str, Any] = {"latency": {"name": "trace", "path": str(written[0])}}
    if how != "plain":
        again["availability"] = {"name": "observed", "path": str(written[1])}
    second = afbs.run(tiny.TINY, folder=tmp_path / "again", **again)
    kinds = ("dispatch", "arrival", "lost", "step", "eval")
    told = [[line for line in tiny.lines(each.folder) if line["event"] in kinds] for each in (first, second)]
    assert told[0] == told[1]
    assert second.params.tobytes() == first.params.tobytes()


def test_another_algorithm_can_be_tried_on_the_same_fleet(tmp_path: Path) -> None:
    first = tiny.run(tmp_path)
    (written,) = afbs.export_trace(first.folder, tmp_path / "fleet.csv")
    latency = {"name": "trace", "path": str(written), "share": True}
    assert afbs.run(tiny.TINY, folder=tmp_path / "again", latency=latency, algorithm={"name": "fedavg"}).done


# lent, not given


@dataclass(frozen=True)
class Scribbler(DropsTheLongest):
    """Writes into what it was lent."""

    def apply(self, memory: Any, params: Any, step: Any, vectors: Any) -> Any:
        params -= vectors.mean(axis=0)
        return memory, params


@pytest.mark.parametrize("executor", ["inline", "processes"])
def test_what_is_lent_to_an_algorithm_cannot_be_written_to(executor: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="read-only"):
        afbs.run(tiny.TINY, folder=tmp_path / "run", algorithm=Scribbler(), executor={"name": executor})
