"""A local web page that shows runs while they go on. It only reads, and only inside the runs folder.

It listens on this machine alone unless told otherwise; bound to another address it asks for a token. A page elsewhere
cannot reach it by renaming itself to this machine, for the host that a request names is checked.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
import os
import secrets
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from afbs.record import reader
from afbs.report.follow import Cursor, Follower
from afbs.report.glimpse import UNREADABLE, Glimpse, glimpse
from afbs.report.palette import CLUSTERS, looks
from afbs.report.payload import plain
from afbs.report.words import clip
from afbs.types import UserError

POLL_SECONDS = 0.3
_MOST_RUNS = 500
_LINE = 1 << 16
"""More than a torn last line: there is something to catch up with."""
_STATIC = {
    "charts.js": "text/javascript",
    "live.js": "text/javascript",
    "style.css": "text/css",
    "live.css": "text/css",
}
_COOKIE = "afbs_token"
_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


class Runs:
    """The runs below one folder, and a follower for each that somebody has looked at."""

    def __init__(self, root: Path):
        self.root = Path(os.path.realpath(root))
        self._followers: dict[str, Follower] = {}
        self._glimpses: dict[str, Glimpse] = {}

    def names(self) -> list[str]:
        """Newest first. A folder or a file that leads out of the runs folder is not there."""
        found = []
        for folder in reader.below(self.root):
            if all(self._inside(folder / name) for name in ("meta.json", "events.jsonl", "config.toml", "result.json")):
                with contextlib.suppress(OSError):  # it was removed a moment ago
                    found.append((folder.stat().st_mtime, folder.relative_to(self.root).as_posix()))
        return [name for _, name in sorted(found, reverse=True)[:_MOST_RUNS]]

    def follower(self, name: str) -> Follower | None:
        """None for a name that is not in the list, or a run that cannot be read."""
        if name not in self._followers:
            if name not in self.names():
                return None
            try:
                self._followers[name] = Follower(self.root / name)
            except UserError:
                return None
        return self._followers[name]

    def listing(self) -> list[dict[str, Any]]:
        """One line a run, from its small files and the end of its record."""
        lines = []
        for name in self.names():
            try:
                self._glimpses[name] = glimpse(self.root / name, self._glimpses.get(name))
                lines.append({"id": name, **self._glimpses[name].line()})
            except UserError as error:
                lines.append({"id": name, "name": clip(name), "state": UNREADABLE, "remark": clip(str(error), 300)})
        return lines

    def _inside(self, path: Path) -> bool:
        return Path(os.path.realpath(path)).is_relative_to(self.root)


def application(root: Path, token: str | None = None, hosts: list[str] | None = None) -> Any:
    """The web application. With a `token`, every request must carry it (once in the address, then as a cookie)."""
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.middleware import Middleware
    from starlette.middleware.trustedhost import TrustedHostMiddleware
    from starlette.requests import Request
    from starlette.responses import FileResponse, HTMLResponse, JSONResponse, Response, StreamingResponse
    from starlette.routing import Route

    from afbs.report.assets import plotly_path, static

    runs = Runs(root)
    lock = asyncio.Lock()

    async def page(request: Request) -> Response:
        return HTMLResponse(static("live.html"), headers=_HEADERS)

    async def script(request: Request) -> Response:
        name = request.path_params["name"]
        if name == "plotly.js":
            keep = _HEADERS | {"Cache-Control": "max-age=86400"}
            return FileResponse(plotly_path(), media_type="text/javascript", headers=keep)
        if name not in _STATIC:
            return Response("There is no such file.", 404, headers=_HEADERS)
        return Response(static(name), media_type=_STATIC[name], headers=_HEADERS)

    async def listing(request: Request) -> Response:
        async with lock:
            lines = await run_in_threadpool(runs.listing)
        colours = [[look.light, look.dark] for look in CLUSTERS]
        return JSONResponse(plain({"runs": dressed(lines), "clusters": colours}), headers=_HEADERS)

    async def stream(request: Request) -> Response:
        names = request.query_params.getlist("run")[:12]
        async with lock:
            followers = [await run_in_threadpool(runs.follower, name) for name in names]
        if not names or any(follower is None for follower in followers):
            return Response("There is no such run.", 404, headers=_HEADERS)
        chosen = {name: follower for name, follower in zip(names, followers, strict=True) if follower is not None}
        return StreamingResponse(messages(request, chosen), media_type="text/event-stream", headers=_HEADERS)

    async def messages(request: Request, chosen: dict[str, Follower]) -> AsyncIterator[str]:
        told = dict.fromkeys(chosen, Cursor())
        seen: dict[str, object] = {}
        while not await request.is_disconnected():
            catching_up = False
            for name, follower in chosen.items():
                async with lock:
                    await run_in_threadpool(follower.poll)
                if seen.get(name) != (seeing := follower.seen()):
                    seen[name] = seeing
                    message, told[name] = follower.since(told[name])
                    yield f"data: {json.dumps(plain({'id': name, **message}), allow_nan=False)}\n\n"
                catching_up |= follower.behind > _LINE
            if not catching_up:
                await asyncio.sleep(POLL_SECONDS)

    routes = [
        Route("/", page),
        Route("/static/{name}", script),
        Route("/api/runs", listing),
        Route("/api/stream", stream),
    ]
    middleware = [Middleware(TrustedHostMiddleware, allowed_hosts=hosts or ["*"])]
    if token is not None:
        middleware.append(Middleware(_Guard, token=token))
    return Starlette(routes=routes, middleware=middleware)


class _Guard:
    """Lets through what knows the token. The address may carry it once; from then on a cookie does."""

    def __init__(self, app: Any, token: str):
        self._app, self._token = app, token

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        from starlette.requests import Request
        from starlette.responses import PlainTextResponse, RedirectResponse

        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        if secrets.compare_digest(request.cookies.get(_COOKIE, "").encode(), self._token.encode()):
            await self._app(scope, receive, send)
            return
        if secrets.compare_digest(request.query_params.get("token", "").encode(), self._token.encode()):
            welcome = RedirectResponse(request.url.path, 303, headers=_HEADERS)
            welcome.set_cookie(_COOKIE, self._token, httponly=True, samesite="strict")
            await welcome(scope, receive, send)
            return
        refused = PlainTextResponse("Open the address that `afbs live` printed: it has a token in it.", 401, _HEADERS)
        await refused(scope, receive, send)


def dressed(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The runs with their colours. The newest of an algorithm has the algorithm's own."""
    given = looks([str(line.get("algorithm")) for line in lines])
    return [line | look._asdict() for line, look in zip(lines, given, strict=True)]


def serve(root: Path, host: str, port: int, token: str | None, ready: Callable[[int], None]) -> None:
    """Serve until stopped. `ready` is told the port, which the system chooses if it is 0."""
    if not root.is_dir():
        raise UserError(f"`{root}` is not a folder. Name the folder that holds the runs.")
    try:
        import uvicorn

        app = application(root, token, allowed_hosts(host))
    except ImportError as error:
        missing = f"The live page needs {error.name}."
        raise UserError(f"{missing} Install it with: pip install 'afbs[live]'") from None
    with listening(host, port) as sock:
        ready(sock.getsockname()[1])
        config = uvicorn.Config(app, log_level="warning", ws="none", timeout_graceful_shutdown=1)
        with contextlib.suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[sock])


def listening(host: str, port: int) -> socket.socket:
    """A socket at the address, or a sentence that says why not."""
    with contextlib.ExitStack() as failing:
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            made = failing.enter_context(socket.socket(family, kind, protocol))
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind(address)
        except OSError as error:
            raise UserError(f"`--host` {host} with `--port` {port} cannot be used: {error.strerror}.") from None
        failing.pop_all()
    return made


def token_for(host: str, given: str | None) -> str | None:
    """On this machine alone none is needed; elsewhere the given one, or a new one."""
    if given is not None and len(given) < 8:
        raise UserError("`--token` must have at least 8 characters; leave it out to get a random one.")
    return given if given or loopback(host) else secrets.token_urlsafe(18)


def loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def allowed_hosts(host: str) -> list[str]:
    """Which names a request may give this server; behind a token any will do."""
    return ["localhost", "127.0.0.1", "[::1]", host] if loopback(host) else ["*"]
