"""Downloads through the hub's own library, from a server on this machine that speaks as the hub does."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("huggingface_hub")

CONTENT = {
    "data/train-00000-of-00001.parquet": bytes(range(256)) * 2**13,
    "data/test-00000-of-00001.parquet": b"test" * 1000,
    "README.md": b"not wanted",
}
SCRIPT = """
import sys
from pathlib import Path
from afbs.data._hub import HuggingFace, download
from afbs.types import UserError
try:
    download(HuggingFace(), "someone/toy", ("train", "test"), Path(sys.argv[1]))
except (UserError, ConnectionError) as error:
    sys.exit(str(error))
"""


class LocalHub(ThreadingHTTPServer):
    """`stall` makes the first download stop half-way; `lie` gives other bytes than those announced."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.stall = self.lie = False
        self.stalled = threading.Event()
        self.over = threading.Event()
        self.fetched: list[tuple[str, str | None]] = []


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: LocalHub

    def log_message(self, *_: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path.startswith("/api/datasets/someone/toy"):
            self.answer(200, json.dumps(description()).encode(), {"Content-Type": "application/json"})
            return
        for name, content in CONTENT.items():
            if path.endswith(f"/{name}"):
                self.send_file(name, content)
                return
        self.answer(404, b"{}", {"Content-Type": "application/json"})

    def send_file(self, name: str, content: bytes) -> None:
        wanted = self.headers.get("Range")
        start = int(wanted.removeprefix("bytes=").partition("-")[0]) if wanted else 0
        digest = f'"{hashlib.sha256(content).hexdigest()}"'
        headers = {"X-Repo-Commit": "a" * 40, "ETag": digest, "X-Linked-Etag": digest, "X-Linked-Size": len(content)}
        if wanted:
            headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        if self.command == "GET":
            self.server.fetched.append((name, wanted))
        body = bytes(len(content) - start) if self.server.lie else content[start:]
        self.answer(206 if wanted else 200, body, headers)

    def answer(self, status: int, body: bytes, headers: dict[str, Any]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": len(body)}.items():
            self.send_header(name, str(value))
        self.end_headers()
        if self.command == "HEAD":
            return
        if self.server.stall and len(body) > 100_000:
            self.server.stall = False
            self.wfile.write(body[: len(body) // 2])
            self.wfile.flush()
            self.server.stalled.set()
            self.server.over.wait(60)
            self.close_connection = True
            return
        self.wfile.write(body)


def description() -> dict[str, Any]:
    siblings = [
        {
            "rfilename": name,
            "size": len(content),
            "blobId": "b" * 40,
            "lfs": {"size": len(content), "sha256": hashlib.sha256(content).hexdigest(), "pointerSize": 130},
        }
        for name, content in CONTENT.items()
    ]
    facts = {"id": "someone/toy", "sha": "a" * 40, "private": False, "disabled": False}
    return {**facts, "downloads": 0, "likes": 0, "tags": [], "siblings": siblings}


@pytest.fixture
def hub() -> Iterator[LocalHub]:
    server = LocalHub()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.over.set()
    server.shutdown()
    server.server_close()
    thread.join()


def client(hub: LocalHub, folder: Path) -> subprocess.Popen[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    settings = {
        "HF_ENDPOINT": f"http://127.0.0.1:{hub.server_address[1]}",
        "HF_HOME": str(folder / "home"),
        "HF_HUB_DISABLE_TELEMETRY": "1",
    }
    command = [sys.executable, "-c", SCRIPT, str(folder / "files")]
    return subprocess.Popen(command, env={**clean, **settings}, stderr=subprocess.PIPE, text=True)


def assert_complete(folder: Path) -> None:
    for name, content in CONTENT.items():
        path = folder / "files" / name
        assert path.read_bytes() == content if name.endswith(".parquet") else not path.exists()


def test_the_parquet_files_are_fetched_and_nothing_else(hub: LocalHub, tmp_path: Path) -> None:
    process = client(hub, tmp_path)
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    assert_complete(tmp_path)


def test_a_killed_download_goes_on_where_it_was(hub: LocalHub, tmp_path: Path) -> None:
    hub.stall = True
    process = client(hub, tmp_path)
    assert hub.stalled.wait(60)
    partial = tmp_path / "files" / "data" / "train-00000-of-00001.parquet.part"
    while process.poll() is None and not (partial.exists() and partial.stat().st_size):
        hub.over.wait(0.05)
    process.kill()
    process.communicate()
    assert process.returncode < 0
    size = partial.stat().st_size
    hub.fetched.clear()
    again = client(hub, tmp_path)
    _, errors = again.communicate()
    assert again.returncode == 0, errors
    assert_complete(tmp_path)
    assert dict(hub.fetched)["data/train-00000-of-00001.parquet"] == f"bytes={size}-"


def test_a_download_that_breaks_off_keeps_what_it_has(hub: LocalHub, tmp_path: Path) -> None:
    hub.stall = True
    hub.over.set()
    process = client(hub, tmp_path)
    _, errors = process.communicate()
    assert process.returncode == 1
    assert "was cut off after 1,048,576 of 2,097,152 bytes" in errors
    again = client(hub, tmp_path)
    again.communicate()
    assert again.returncode == 0
    assert_complete(tmp_path)


def test_wrong_bytes_are_refused(hub: LocalHub, tmp_path: Path) -> None:
    hub.lie = True
    process = client(hub, tmp_path)
    _, errors = process.communicate()
    assert process.returncode == 1
    assert "sha256" in errors
    assert not list((tmp_path / "files" / "data").glob("*.parquet"))
