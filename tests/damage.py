"""Ways in which a run folder can be damaged: by a full disk, a flipped bit, a careless copy, or on purpose.

`damage` picks one or a few by a seeded generator and says what it did, so that a failing case can be made again.
Nothing outside of the folder is touched, and nothing in it is run.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

FILES = ("meta.json", "events.jsonl", "config.toml", "result.json", "model.safetensors")
DOCUMENTS = ("meta.json", "result.json")
ODD: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1,
    7,
    2.5,
    -0.5,
    1e308,
    -1e308,
    float("nan"),
    float("inf"),
    10**30,
    -(10**30),
    2**63,
    2**53,
    "",
    "x",
    "<script>alert(1)</script>",
    "\u2028\0",
    "y" * 5000,
    [],
    {},
    [None],
    ["x"],
    [1, "x"],
    [[1]],
    [[1], [2, 3]],
    [-1],
    [10**30],
    {"id": [1]},
    {"client": [1]},
    {"x": None},
)
_DEEP = 200_000
Damage: TypeAlias = Callable[[Path, Path, random.Random], str]


def truncated(folder: Path, other: Path, rng: random.Random) -> str:
    path = _some_file(folder, rng)
    size = rng.randrange(path.stat().st_size + 1)
    path.write_bytes(path.read_bytes()[:size])
    return f"{path.name} cut to {size} bytes"


def flipped(folder: Path, other: Path, rng: random.Random) -> str:
    path = _some_file(folder, rng)
    content = bytearray(path.read_bytes())
    for _ in range(rng.choice((1, 1, 3, 40))):
        if content:
            content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    path.write_bytes(content)
    return f"bits of {path.name} flipped"


def overwritten(folder: Path, other: Path, rng: random.Random) -> str:
    """A stretch becomes zeros, as after a power cut, or noise; or is told twice."""
    path = _some_file(folder, rng)
    content = path.read_bytes()
    start = rng.randrange(len(content) + 1)
    part = content[start : start + rng.randrange(1, 400)]
    new = rng.choice((b"\0" * len(part), rng.randbytes(len(part)), part + part, b"", b"\xff\xfe", b"\n", b"\r\n"))
    path.write_bytes(content[:start] + new + content[start + len(part) :])
    return f"{len(part)} bytes of {path.name} at {start} became {new[:20]!r}"


def swapped(folder: Path, other: Path, rng: random.Random) -> str:
    """A file of another run, or another file of this one."""
    path, source = _some_file(folder, rng), _some_file(rng.choice((folder, other)), rng)
    shutil.copyfile(source, path) if source != path else None
    return f"{path.name} became {source.parent.name}/{source.name}"


def retyped(folder: Path, other: Path, rng: random.Random) -> str:
    """A field of a document or of a line becomes something else, or goes missing."""
    if rng.random() < 0.5:
        path = _regular(folder / rng.choice(DOCUMENTS))
        document = _object(path)
        said = mistype(document, rng)
        path.write_text(json.dumps(document))
        return f"{path.name}: {said}"
    path = _regular(folder / "events.jsonl")
    lines = path.read_bytes().splitlines()
    said = "nothing"
    for _ in range(rng.choice((1, 1, 5))):
        place = _line(lines, rng)
        if place is not None:
            event = json.loads(lines[place])
            said = f"line {place}: {mistype(event, rng)}"
            lines[place] = json.dumps(event).encode()
    path.write_bytes(b"\n".join(lines) + b"\n")
    return f"{path.name}, {said}"


def reordered(folder: Path, other: Path, rng: random.Random) -> str:
    """Lines go missing, come twice, come out of order, or come from another run."""
    path = _regular(folder / "events.jsonl")
    lines = path.read_bytes().splitlines(keepends=True)
    foreign = (other / "events.jsonl").read_bytes().splitlines(keepends=True)
    start, length = rng.randrange(len(lines) + 1), rng.randrange(1, 60)
    kind = rng.choice(("dropped", "doubled", "shuffled", "foreign"))
    part = lines[start : start + length]
    new = {"dropped": [], "doubled": part + part, "foreign": foreign[start : start + length]}.get(kind)
    if new is None:
        new = rng.sample(part, len(part))
    path.write_bytes(b"".join(lines[:start] + new + lines[start + length :]))
    return f"{length} lines of {path.name} from {start} {kind}"


def replaced(folder: Path, other: Path, rng: random.Random) -> str:
    """What stands there is valid, and is not what it should be."""
    path = folder / rng.choice(names(folder))
    deep = b"[" * _DEEP if path.suffix != ".toml" else b"a = " + b"[" * _DEEP
    text: Any = rng.choice(
        (
            b"",
            b"null",
            b"7",
            b"[]",
            b"{}",
            b'"x"',
            b"true",
            b"NaN",
            b"\xff" * 10,
            b"\xef\xbb\xbf{}",
            b"\n\n\n",
            b'{"event": "step"}\n',
            b'{"schema": 2}',
            b'{"schema": 1}',
            b'{"schema": "2"}',
            b'{"schema": 2.0}',
            b'{"schema": null}',
            b'{"schema": 99}',
            b'{"name": "\\ud800", "schema": 2}',
            b'{"schema": 2, "seed": ' + b"9" * 6000 + b"}",
            b"x = 0x" + b"f" * 6000,
            b"".join(b"a%d." % i for i in range(3000)) + b"b = 1",
            deep,
            b'{"a":' * _DEEP,
        )
    )
    _remove(path)
    path.write_bytes(text)
    return f"{path.name} became {text[:30]!r}"


def lost(folder: Path, other: Path, rng: random.Random) -> str:
    path = folder / rng.choice(names(folder))
    _remove(path)
    return f"{path.name} removed"


def no_file(folder: Path, other: Path, rng: random.Random) -> str:
    """Something that is not a regular file takes the place of one."""
    path = folder / rng.choice(names(folder))
    _remove(path)
    kind = rng.choice(("folder", "pipe", "loop", "long loop", "nowhere", "link to a folder", "device", "link"))
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        targets = {
            "loop": path,
            "long loop": folder / "loop",
            "nowhere": folder / "nowhere",
            "link to a folder": folder,
            "device": Path("/dev/zero"),
            "link": other / path.relative_to(folder),
        }
        if kind == "long loop" and not os.path.lexists(folder / "loop"):
            (folder / "loop").symlink_to(path)
        path.symlink_to(targets[kind])
    return f"{path.name} is a {kind}"


DAMAGES: tuple[Damage, ...] = (
    truncated,
    flipped,
    overwritten,
    swapped,
    retyped,
    retyped,
    retyped,
    reordered,
    replaced,
    lost,
    no_file,
)


def damage(folder: Path, other: Path, rng: random.Random) -> str:
    """One damage, or a few. `other` is a whole run from which parts may be taken. What was done, in words."""
    said = []
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        try:
            said.append(rng.choice(DAMAGES)(folder, other, rng))
        except (
            OSError,
            ValueError,
            IndexError,
            RecursionError,
        ):  # what an earlier damage left cannot be damaged this way
            continue
    return "; ".join(said)


def names(folder: Path) -> list[str]:
    """The files of a run, and its checkpoints and their folder where it has some."""
    kept = sorted(f"checkpoints/{path.name}" for path in folder.glob("checkpoints/*.safetensors"))
    return [*FILES, *kept, *(["checkpoints"] if kept else [])]


def cases(number: int, seed: int = 0) -> Iterator[random.Random]:
    """A generator for each case, so that a case does not depend on those before it."""
    for case in range(number):
        yield random.Random(f"{seed} {case}")


def mistype(value: Any, rng: random.Random) -> str:
    """Change one field somewhere below `value`."""
    path = []
    while True:
        keys: list[Any] = list(value) if isinstance(value, dict) else list(range(len(value)))
        if not keys:
            return "nothing"
        key = rng.choice(keys)
        path.append(str(key))
        inner = value[key]
        if isinstance(inner, dict | list) and inner and rng.random() < 0.6:
            value = inner
            continue
        if isinstance(value, dict) and rng.random() < 0.2:
            del value[key]
            return f"{'.'.join(path)} is gone"
        value[key] = rng.choice(ODD)
        return f"{'.'.join(path)} = {str(value[key])[:30]}"


def _some_file(folder: Path, rng: random.Random) -> Path:
    """One that is there, and is a file of this folder."""
    paths = [folder / name for name in names(folder)]
    return rng.choice([path for path in paths if path.is_file() and not path.is_symlink()])


def _regular(path: Path) -> Path:
    """Refuses what an earlier damage made something else: a pipe would wait, a link lead out of the folder."""
    if path.is_symlink() or not path.is_file():
        raise ValueError("not a file any more")
    return path


def _line(lines: list[bytes], rng: random.Random) -> int | None:
    """Rather a line of which there are few than one of thousands; and one that is an object."""
    kind = rng.choice((b'"step"', b'"eval"', b'"end"', b'"dispatch"', b'"arrival"', b""))
    found = [i for i, line in enumerate(lines) if kind in line]
    place = rng.choice(found) if found else None
    return place if place is not None and isinstance(json.loads(lines[place]), dict) else None


def _object(path: Path) -> dict[str, Any]:
    found = json.loads(path.read_bytes())
    if not isinstance(found, dict):
        raise ValueError("not an object")
    return found


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
