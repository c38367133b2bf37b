"""Listening, start and stop: on loopback or a unix socket, for as many principals as have sockets it may use."""

import asyncio
import contextlib
import logging
import os
import pathlib
import signal
import socket
import stat
import tempfile
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from typing import Final

import msgspec
import uvicorn

from opensafe import listening
from opensafe.errors import InvalidArgument, NotPermitted
from opensafe.model.checkpoint import VerifierKey

from .app import Console, build
from .assets import Assets
from .candidates import Candidates
from .feed import Feed
from .page import Pages
from .pages import routes
from .proving import Proving
from .signing_in import IDLE_S, LIFE_S, Doorkeeper

#: Connections at once; each live page holds one.
CONNECTIONS_MAX: Final = 256


class Serving(msgspec.Struct, frozen=True, kw_only=True):
    """How to serve.

    seats: principals and their sockets. listen: HOST:PORT, or the path of a socket to make. names: further ones that a
    Host header may say. header: by which a proxy names its user, only on a unix socket; users: of the proxy to
    principals. secure: the proxy ends TLS. reports: where the reports of proof are read and written. key: the audit
    log's public key.
    """

    seats: Mapping[str, pathlib.Path]
    listen: str
    names: tuple[str, ...] = ()
    header: str = ""
    users: Mapping[str, str] = {}
    secure: bool = False
    reports: pathlib.Path | None = None
    key: VerifierKey | None = None
    life_s: float = LIFE_S
    idle_s: float = IDLE_S


async def serve(wish: Serving, ready: Callable[[Mapping[str, str]], None]) -> None:
    """Serve until SIGTERM or SIGINT. ready: is told a link for each principal, at the start and at each SIGHUP.

    Raises InvalidArgument, NotPermitted, HostUnsuitable.
    """
    if wish.header and not wish.listen.startswith("/"):
        raise NotPermitted(
            "on an address everybody on this host could name themselves in that header",
            value=wish.header,
            remedy="Give --listen the path of a socket that the proxy alone may use.",
        )
    logging.getLogger("asyncio").setLevel(logging.ERROR)  # it warns of browsers that leave in the middle of an answer
    assets = Assets()
    doors = Doorkeeper(frozenset(wish.seats), wish.users, life_s=wish.life_s, idle_s=wish.idle_s)
    with _listening(wish.listen) as listener, _place() as place:
        base, names = _known_as(listener, wish)
        async with _feeds(wish.seats) as feeds, Proving(wish.reports) as proving:
            console = Console(
                doors=doors,
                feeds=feeds,
                pages=Pages(assets),
                candidates=Candidates(place),
                proving=proving,
                header=wish.header,
                secure=wish.secure,
                key=wish.key,
            )
            config = uvicorn.Config(
                build(console, names, routes(), assets),
                log_level="warning",
                access_log=False,
                server_header=False,
                proxy_headers=False,
                ws="none",
                lifespan="on",
                limit_concurrency=CONNECTIONS_MAX,
                timeout_graceful_shutdown=3,
            )

            def links() -> None:
                ready({name: f"{base}/sign-in?token={doors.link(name)}" for name in wish.seats})

            server = _Server(config, feeds.values())
            with _on({signal.SIGHUP: links, signal.SIGTERM: server.leave, signal.SIGINT: server.leave}):
                if wish.header:
                    ready({})
                else:
                    links()
                await server.serve(sockets=[listener])


class _Server(uvicorn.Server):
    """One whose owner takes the signals: uvicorn's own handlers send SIGTERM again at the end, past all cleaning up.

    feeds: what open streams wait for; they are ended first.
    """

    def __init__(self, config: uvicorn.Config, feeds: Collection[Feed]) -> None:
        super().__init__(config)
        self._feeds = feeds

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the streams, then the rest."""
        for feed in self._feeds:
            await feed.end()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Nothing."""
        yield

    def leave(self) -> None:
        """End serving; a second time without waiting for who is still being answered."""
        self.force_exit, self.should_exit = self.should_exit, True


@contextlib.contextmanager
def _on(handlers: Mapping[signal.Signals, Callable[[], None]]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    for number, handler in handlers.items():
        loop.add_signal_handler(number, handler)
    try:
        yield
    finally:
        for number in handlers:
            loop.remove_signal_handler(number)


@contextlib.contextmanager
def _place() -> Iterator[pathlib.Path]:
    """A directory that nobody else reads, gone in the end."""
    with tempfile.TemporaryDirectory(prefix="opensafe-console-") as name:
        yield pathlib.Path(name)


@contextlib.asynccontextmanager
async def _feeds(seats: Mapping[str, pathlib.Path]) -> AsyncIterator[dict[str, Feed]]:
    async with contextlib.AsyncExitStack() as stack:
        yield {name: await stack.enter_async_context(Feed.following(name, path)) for name, path in seats.items()}


def _known_as(listener: socket.socket, wish: Serving) -> tuple[str, frozenset[str]]:
    """The URL to print, and what a Host header may say."""
    if listener.family == socket.AF_UNIX:
        first = wish.names[0] if wish.names else "localhost"
        return f"{'https' if wish.secure else 'http'}://{first}", frozenset({"localhost", *wish.names})
    host, port = listener.getsockname()[:2]
    return listening.url(host, port), listening.known_as(host, port, wish.names)


@contextlib.contextmanager
def _listening(where: str) -> Iterator[socket.socket]:
    made = _unix(pathlib.Path(where)) if where.startswith("/") else _loopback(where)
    with made:
        made.setblocking(False)
        try:
            yield made
        finally:
            if where.startswith("/"):
                pathlib.Path(where).unlink(missing_ok=True)


def _unix(path: pathlib.Path) -> socket.socket:
    """A socket that user and group may use; one that an earlier console left is replaced."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if path.exists() and stat.S_ISSOCK(path.lstat().st_mode):
            path.unlink()
        before = os.umask(0o117)
        try:
            listener.bind(os.fspath(path))
        finally:
            os.umask(before)
        listener.listen(CONNECTIONS_MAX)
    except OSError as error:
        listener.close()
        raise InvalidArgument(f"can't listen there: {error.strerror}", value=path) from error
    return listener


def _loopback(where: str) -> socket.socket:
    host, port = listening.address(where, example="127.0.0.1:8900")
    if not listening.is_loopback(host):
        raise NotPermitted(
            "the console listens on loopback or a unix socket",
            value=where,
            remedy="Put a proxy that ends TLS and signs people in before it: docs/console.md.",
        )
    return listening.listener(host, port, CONNECTIONS_MAX)
