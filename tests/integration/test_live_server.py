"""The live server lists, streams, and keeps to its folder."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from afbs.report.live import allowed_hosts, application, listening, serve, token_for
from afbs.types import UserError
from serving import served
from synthetic import write_run, write_small


class Browser:
    """Asks the application without a network, and remembers its cookies."""

    def __init__(self, app: Any):
        self._app, self._cookies = app, httpx.Cookies()

    def get(self, path: str, **more: Any) -> httpx.Response:
        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(self._app)
            address = "http://127.0.0.1"
            async with httpx.AsyncClient(transport=transport, base_url=address, cookies=self._cookies) as client:
                answer = await client.get(path, **({"follow_redirects": True} | more))
                self._cookies = client.cookies
                return answer

        return asyncio.run(ask())


def client(root: Path, **more: Any) -> Browser:
    return Browser(application(root, **more))


def messages(response: httpx.Response) -> Iterator[dict[str, Any]]:
    for line in response.iter_lines():
        if line.startswith("data: "):
            yield json.loads(line[6:])


def test_the_list_names_every_run_and_its_state(tmp_path: Path) -> None:
    write_small(tmp_path / "one", [0.1, 0.6])
    write_small(tmp_path / "deep" / "two", [0.3], algorithm="fedbuff", ended=False)
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "meta.json").write_text('{"schema": 7}')
    runs = {run["id"]: run for run in client(tmp_path).get("/api/runs").json()["runs"]}
    assert runs["one"]["state"] == "ended"
    assert runs["one"]["value"] == "60.0 %"
    assert runs["deep/two"]["state"] == "running"
    assert runs["odd"]["state"] == "unreadable"
    assert "schema 7" in runs["odd"]["remark"]


def test_an_empty_folder_is_an_empty_list(tmp_path: Path) -> None:
    assert client(tmp_path).get("/api/runs").json()["runs"] == []


def test_a_line_that_is_appended_arrives_and_nothing_else_does(tmp_path: Path) -> None:
    folder = write_small(tmp_path / "run", [0.1, 0.2], ended=False)
    with served(tmp_path) as address, httpx.stream("GET", f"{address}/api/stream?run=run", timeout=20) as response:
        said = messages(response)
        first = next(said)
        assert (first["id"], first["fresh"], len(first["evals"])) == ("run", True, 2)
        line = {"event": "eval", "time": 300.0, "version": 3, "accuracy": 0.7, "loss": 0.1, "wall": 1.0}
        with (folder / "events.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")
        second = next(said)
        assert not second["fresh"]
        assert [row[3] for row in second["evals"]] == [0.7]


def test_two_runs_are_told_in_one_stream(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_run(tmp_path / name, horizon=30_000)
    with (
        served(tmp_path) as address,
        httpx.stream("GET", f"{address}/api/stream?run=a&run=b", timeout=20) as response,
    ):
        said = messages(response)
        assert {next(said)["id"], next(said)["id"]} == {"a", "b"}


@pytest.mark.parametrize("name", ["../outside", "/etc", "run/../../outside", "nothing", ""])
def test_a_run_outside_of_the_folder_cannot_be_asked_for(tmp_path: Path, name: str) -> None:
    write_small(tmp_path / "outside", [0.1])
    write_small(tmp_path / "runs" / "run", [0.1])
    assert client(tmp_path / "runs").get("/api/stream", params={"run": name}).status_code == 404


@pytest.mark.parametrize(
    "path",
    ["/static/../live.py", "/static/..%2flive.py", "/static/%2e%2e/%2e%2e/live.py", "/static/page.py", "/meta.json"],
)
def test_no_other_file_is_served(tmp_path: Path, path: str) -> None:
    write_small(tmp_path / "run", [0.1])
    assert client(tmp_path).get(path).status_code == 404


def test_a_link_that_leads_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    outside = write_small(tmp_path / "outside", [0.1])
    inside = tmp_path / "runs"
    write_small(inside / "fine", [0.1])
    (inside / "whole").symlink_to(outside)
    write_small(inside / "file", [0.1])
    (inside / "file" / "events.jsonl").unlink()
    (inside / "file" / "events.jsonl").symlink_to(outside / "events.jsonl")
    assert [run["id"] for run in client(inside).get("/api/runs").json()["runs"]] == ["fine"]


def test_with_a_token_nothing_is_told_without_it(tmp_path: Path) -> None:
    browser = client(tmp_path, token="correct horse")
    for path in ("/", "/api/runs", "/api/stream?run=x", "/static/live.js", "/?token=wrong", "/api/runs?token="):
        assert browser.get(path).status_code == 401
    assert browser.get("/?token=correct%20horse").status_code == 200
    assert browser.get("/api/runs").status_code == 200


def test_the_token_does_not_stay_in_the_address(tmp_path: Path) -> None:
    answer = client(tmp_path, token="correct horse").get("/?token=correct%20horse", follow_redirects=False)
    assert answer.headers["location"] == "/"
    assert "httponly" in answer.headers["set-cookie"].lower()
    assert "samesite=strict" in answer.headers["set-cookie"].lower()


def test_a_page_elsewhere_cannot_name_itself_this_machine(tmp_path: Path) -> None:
    browser = client(tmp_path, hosts=allowed_hosts("127.0.0.1"))
    assert browser.get("/api/runs").status_code == 200
    assert browser.get("/api/runs", headers={"host": "evil.example"}).status_code == 400


def test_a_token_is_made_up_only_where_others_can_reach_the_page() -> None:
    assert token_for("127.0.0.1", None) is None
    assert token_for("::1", None) is None
    made = token_for("0.0.0.0", None)
    assert made is not None
    assert len(made) >= 20
    assert token_for("0.0.0.0", "a long secret") == "a long secret"
    with pytest.raises(UserError, match="at least 8 characters"):
        token_for("0.0.0.0", "short")


def test_the_page_forbids_what_it_does_not_need(tmp_path: Path) -> None:
    headers = client(tmp_path).get("/").headers
    assert "default-src 'self'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"


def test_a_port_that_is_taken_is_refused_with_a_sentence(tmp_path: Path) -> None:
    with listening("127.0.0.1", 0) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=f"`--port` {port} cannot be used"):
            serve(tmp_path, "127.0.0.1", port, None, lambda port: None)


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not a folder"):
        serve(tmp_path / "nothing", "127.0.0.1", 0, None, lambda port: None)


def test_a_missing_package_is_named_with_its_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(UserError, match=r"needs uvicorn. Install it with: pip install 'afbs\[live\]'"):
        serve(tmp_path, "127.0.0.1", 0, None, lambda port: None)
