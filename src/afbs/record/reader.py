"""Reads a run folder, as `docs/run-folder.md` describes it; while the run goes on, after it ended, or after it died.

`read` gives a whole run as columns in one pass; `read_meta`, `read_config`, `read_result` and `is_done` read one small
file each; `lines` gives the lines one by one for a replay, and `tail` what was appended since an offset. A line that
cannot be read (a torn last one, say) is skipped and counted. A resumed run may tell a part of itself twice; the later
telling counts.
"""

from __future__ import annotations

import os
import shlex
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from afbs.record.columns import Log
from afbs.record.files import content, opened, unreadable
from afbs.record.kinds import Line, Told
from afbs.record.parsing import parsed, told
from afbs.record.recorded import Recorded
from afbs.record.schema import MetaFile, ResultFile, meta_from, result_from
from afbs.record.seal import Seal
from afbs.types import UserError

_DEEPEST = 20
_LARGEST = 1 << 63


class Place(NamedTuple):
    """How far `events.jsonl` has been read. `mark` are the last bytes read: a run that is taken up again cuts the file
    back, and it may have grown past `offset` before anybody looks."""

    offset: int = 0
    mark: bytes = b""


START = Place()
_MARK = 64


class Tail(NamedTuple):
    """`place` is where to go on next time. `restarted`: the file was cut back, so everything before is void."""

    lines: list[Told]
    place: Place
    unreadable: int = 0
    restarted: bool = False


def is_run(folder: Path) -> bool:
    """Whether there is a `meta.json`, though it may turn out not to be readable."""
    return os.path.lexists(folder / "meta.json")


def find(folders: Iterable[str | Path]) -> list[Path]:
    """The run folders among and below `folders`, in the order given, those of one folder by name."""
    found: dict[Path, None] = {}
    for given in folders:
        folder = Path(given)
        if not os.path.isdir(folder):  # noqa: PTH112 - a path may hold what pathlib raises at
            raise UserError(f"`{folder}` is not a folder. Name a run folder, or a folder of runs.")
        inside = [folder] if is_run(folder) else below(folder)
        if not inside:
            raise UserError(f"`{folder}` holds no run: there is no `meta.json` in it or in the folders below.")
        found.update(dict.fromkeys(inside))
    if not found:
        raise UserError("Name at least one run folder.")
    return list(found)


def below(folder: Path) -> list[Path]:
    """The run folders below `folder`, by name. Links are not followed, and nothing inside of a run is searched."""
    found = []
    for path, folders, files in os.walk(folder):
        if "meta.json" in files or "meta.json" in folders:
            found.append(Path(path))
            folders.clear()
    return sorted(found)


def read(folder: str | Path) -> Recorded:
    """The whole run as columns. Without `meta.json` there is no run; what else is damaged is told in `problems`."""
    folder = Path(folder)
    meta = read_meta(folder)
    problems: list[str] = []
    config: Mapping[str, Any] = {}
    result: ResultFile | None = None
    try:
        config = read_config(folder)
    except UserError as error:
        problems.append(str(error))
    try:
        result = read_result(folder)
    except UserError as error:
        problems.append(str(error))
    log, unread = Log(), 0
    seal, whole = Seal(), True
    for raw in _raw(folder):
        whole = seal.check(raw.rstrip(b"\n")) and whole
        try:
            log.add(told(parsed(raw)))
        except ValueError:
            unread += bool(raw.strip())
    sealed = result.get("seal") if result is not None and not meta.get("light") else None
    if sealed and not (whole and seal.text() == sealed):
        problems.append(f"`{folder / 'events.jsonl'}` is not the record that `result.json` was written for.")
    return Recorded(folder, meta, config, result, *log.columns(), unread, tuple(problems))


def read_meta(folder: str | Path) -> MetaFile:
    """`meta.json`, if it is of the schema this reader knows."""
    path = Path(folder) / "meta.json"
    try:
        return meta_from(content(path), path)
    except FileNotFoundError:
        raise UserError(f"`{folder}` is not a run folder: it has no `meta.json`.") from None


def read_config(folder: str | Path) -> dict[str, Any]:
    """`config.toml`; empty where there is none."""
    path = Path(folder) / "config.toml"
    try:
        found = tomllib.loads(content(path).decode("utf-8-sig"))
    except FileNotFoundError:
        return {}
    except RecursionError:
        raise UserError(f"`{path}` is damaged: it is nested too deep.") from None
    except UnicodeDecodeError:
        raise UserError(f"`{path}` is damaged: it is not text in UTF-8.") from None
    except ValueError as error:
        raise UserError(f"`{path}` is damaged: it is not TOML ({error}).") from None
    _refuse_odd(found, path)
    return found


def read_result(folder: str | Path) -> ResultFile | None:
    """`result.json`; None until the run has ended."""
    path = Path(folder) / "result.json"
    try:
        return result_from(content(path), path)
    except FileNotFoundError:
        return None
    except UserError as error:
        again = f"afbs resume {shlex.quote(str(folder))}"
        raise UserError(f"{error} Remove it, and this writes it again: {again}") from None


def is_done(folder: str | Path) -> bool:
    """Whether a run has ended. Reads `result.json` alone; a folder that holds no run is refused."""
    if read_result(folder) is not None:
        return True
    if not any(os.path.lexists(Path(folder) / name) for name in ("meta.json", "config.toml")):
        raise UserError(f"`{folder}` is not a run folder: it has no `meta.json`.")
    return False


def lines(folder: str | Path, until: int | None = None) -> Iterator[tuple[int, Line]]:
    """Every line with the offset at which it begins, up to the one that begins at `until`; for a replay.

    A replay cannot do without a line, so one that cannot be read is a UserError; an unfinished last one is not there.
    """
    offset = 0
    for raw in _raw(Path(folder)):
        if (until is not None and offset >= until) or not raw.endswith(b"\n"):
            return
        try:
            line = parsed(raw)
            told(line)
        except ValueError as error:
            path = Path(folder) / "events.jsonl"
            raise UserError(f"`{path}` is damaged at byte {offset}: {error}.") from None
        yield offset, line
        offset += len(raw)


def tail(folder: str | Path, place: Place = START, most: int = 1 << 22) -> Tail:
    """What was appended since `place`, at most about `most` bytes of it; an unfinished line waits for next time."""
    path = Path(folder) / "events.jsonl"
    try:
        with opened(path) as file:
            file.seek(place.offset - len(place.mark))
            restarted = file.read(len(place.mark)) != place.mark
            start = 0 if restarted else place.offset
            file.seek(start)
            chunk = file.read(most)
            if chunk and b"\n" not in chunk:
                chunk += file.readline()
    except FileNotFoundError:
        return Tail([], Place(), restarted=place.offset > 0)
    except OSError as error:
        raise unreadable(path, error) from None
    whole = chunk[: chunk.rfind(b"\n") + 1]
    good: list[Told] = []
    bad = 0
    for raw in whole.split(b"\n"):
        try:
            good.append(told(parsed(raw)))
        except ValueError:
            bad += bool(raw.strip())
    mark = whole[-_MARK:] or (b"" if restarted else place.mark)
    return Tail(good, Place(start + len(whole), mark), bad, restarted)


def _raw(folder: Path) -> Iterator[bytes]:
    path = folder / "events.jsonl"
    try:
        file = opened(path)
    except FileNotFoundError:
        return
    with file:
        try:
            yield from file
        except OSError as error:
            raise unreadable(path, error) from None


def _refuse_odd(value: Any, path: Path, deep: int = 0) -> None:
    """TOML that no configuration needs and that some printer would stumble over."""
    if deep > _DEEPEST:
        raise UserError(f"`{path}` is damaged: it is nested too deep.")
    if isinstance(value, int) and not -_LARGEST <= value < _LARGEST:
        raise UserError(f"`{path}` is damaged: it holds a number of more than 64 bits.")
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _refuse_odd(part, path, deep + 1)
