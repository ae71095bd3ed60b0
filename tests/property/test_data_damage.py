"""However a file is damaged, the answer is a sentence (a UserError) or the data, never another exception."""

from __future__ import annotations

import gzip
import io
import struct
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from afbs.data._cifar import CifarBinary
from afbs.data._hub_files import HubParquet
from afbs.data._idx import Idx
from afbs.data._raw import Format, Part, Published, confirm, digest
from afbs.data._tables import GlueTsv, columns
from afbs.data.npz import Npz
from afbs.data.text import Text
from afbs.latency.trace import Trace
from afbs.seeds import Key
from afbs.types import ClientInfo, UserError

RNG = np.random.default_rng(0)
GREY = RNG.integers(0, 256, (2, 1, 28, 28), dtype=np.uint8)
COLOUR = RNG.integers(0, 256, (2, 3, 32, 32), dtype=np.uint8)
LABELS = np.array([1, 0])
TEXTS = ["a good one", 'the "worst" of all']


def idx(array: np.ndarray) -> bytes:
    return struct.pack(f">{1 + array.ndim}i", 2048 + array.ndim, *array.shape) + array.tobytes()


def png(image: np.ndarray) -> dict[str, bytes]:
    buffer = io.BytesIO()
    Image.fromarray(image[0]).save(buffer, "PNG")
    return {"bytes": buffer.getvalue()}


def table() -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.table({"image": [png(image) for image in GREY], "label": LABELS}), buffer)
    return buffer.getvalue()


def archive() -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, train_x=GREY, train_y=LABELS, test_x=GREY, test_y=LABELS)
    return buffer.getvalue()


def published(x: np.ndarray | list[str], shape: tuple[int, ...]) -> Published:
    whole = digest(Part((), x, LABELS))
    return Published((1, 1), (1, 1), shape, {"train": whole, "test": whole})


TSV = "sentence\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in zip(TEXTS, LABELS, strict=True))
PUBLISHED: dict[str, tuple[Format, dict[str, bytes], Published]] = {
    "idx": (
        Idx(),
        {
            f"{split}-{kind}": content
            for split in ("train", "t10k")
            for kind, content in (
                ("images-idx3-ubyte", idx(GREY[:, 0])),
                ("labels-idx1-ubyte", idx(LABELS.astype("u1"))),
            )
        },
        published(GREY, (1, 28, 28)),
    ),
    "idx.gz": (
        Idx(),
        {
            f"{split}-{kind}.gz": gzip.compress(content, mtime=0)
            for split in ("train", "t10k")
            for kind, content in (
                ("images-idx3-ubyte", idx(GREY[:, 0])),
                ("labels-idx1-ubyte", idx(LABELS.astype("u1"))),
            )
        },
        published(GREY, (1, 28, 28)),
    ),
    "cifar": (
        CifarBinary(("a.bin",), ("b.bin",)),
        dict.fromkeys(("a.bin", "b.bin"), np.hstack([LABELS[:, None].astype("u1"), COLOUR.reshape(2, -1)]).tobytes()),
        published(COLOUR, (3, 32, 32)),
    ),
    "tsv": (GlueTsv(), dict.fromkeys(("train.tsv", "dev.tsv"), TSV.encode()), published(TEXTS, ())),
    "parquet": (
        HubParquet(),
        dict.fromkeys(("train-00000-of-00001.parquet", "test-00000-of-00001.parquet"), table()),
        published(GREY, (1, 28, 28)),
    ),
}


@st.composite
def damage(draw: st.DrawFn) -> Callable[[bytes], bytes]:
    """Cut short, some bytes changed, or some bytes put in."""
    kind = draw(st.sampled_from(["cut", "change", "insert"]))
    where = draw(st.floats(0, 1))
    junk = draw(st.binary(min_size=1, max_size=8))

    def apply(content: bytes) -> bytes:
        place = int(where * len(content))
        if kind == "cut":
            return content[:place]
        return content[:place] + junk + content[place + (len(junk) if kind == "change" else 0) :]

    return apply


@pytest.mark.parametrize("name", PUBLISHED)
@given(hurt=damage(), which=st.integers(0, 3))
def test_a_damaged_published_file_is_refused_or_still_the_same(
    name: str, hurt: Callable[[bytes], bytes], which: int
) -> None:
    kind, files, known = PUBLISHED[name]
    chosen = sorted(files)[which % len(files)]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for file, content in files.items():
            (folder / file).write_bytes(hurt(content) if file == chosen else content)
        found = kind.find(folder)
        assert found is not None
        with suppress(UserError):
            raw = kind.read(found)
            confirm(name, raw, known)
            assert sorted(raw.train[0].y.tolist() + raw.test[0].y.tolist()) == [0, 0, 1, 1]


@given(hurt=damage())
def test_a_damaged_npz_file_is_refused_or_read(hurt: Callable[[bytes], bytes]) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / "own.npz"
        path.write_bytes(hurt(archive()))
        with suppress(UserError):
            Npz(str(path))._convert(path)


@given(hurt=damage())
def test_a_damaged_table_or_trace_is_refused_or_read(hurt: Callable[[bytes], bytes]) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / "own.csv"
        path.write_bytes(hurt(b'text,label\n"a, b",0\nc,1\n' * 6))
        with suppress(UserError):
            columns(path, ("text", "label"))
        with suppress(UserError):
            Text(str(path))._convert(path)
        path.write_bytes(hurt(b"client,start,duration\n0,0,5\n0,10,7\n1,0,3\n"))
        with suppress(UserError):
            assert Trace(str(path)).duration(ClientInfo(0, 1), 4.0, Key.root(0, "trace")) > 0


def test_the_untouched_files_are_accepted() -> None:
    for name, (kind, files, known) in PUBLISHED.items():
        with tempfile.TemporaryDirectory() as temporary:
            for file, content in files.items():
                (Path(temporary) / file).write_bytes(content)
            found = kind.find(Path(temporary))
            assert found is not None
            confirm(name, kind.read(found), known)
