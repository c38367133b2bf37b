"""What `opensafe console` does: finds the sockets it may use, or starts the demo's daemon, and serves."""

import asyncio
import contextlib
import os
import pathlib
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from opensafe.errors import InvalidArgument, NotPermitted

from . import present
from .exits import Exit

if TYPE_CHECKING:
    from opensafe.proof.private import PrivateDaemon

#: Whose socket is tried first.
_PREFER: Final = "operator"
#: Where the nightly unit keeps its reports.
_REPORTS: Final = pathlib.Path("/var/lib/opensafe-redteam")
_DEMO_ROLES: Final = {
    "demo": ("developer",),
    "alice": ("reviewer", "auditor", "operator"),
    "bob": ("reviewer", "auditor"),
}


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for; the options of cli/console.py."""

    principals: tuple[str, ...]
    sockets: tuple[pathlib.Path, ...]
    listen: str
    names: tuple[str, ...]
    header: str
    users: tuple[str, ...]
    secure: bool
    reports: pathlib.Path | None
    key: pathlib.Path | None
    idle_s: int
    demo: bool


def perform(asked: Asked) -> int:
    """Serve; the exit status. Raises InvalidArgument, NotPermitted, HostUnsuitable, AuditError, Unavailable."""
    try:
        from opensafe.console.serving import Serving, serve
    except ImportError as error:
        raise InvalidArgument(str(error)) from None

    from opensafe.audit.checkpoints import read_key

    with _ground(asked) as ground:
        key = read_key(ground.key) if ground.key is not None else None
        wish = Serving(
            seats=ground.seats,
            listen=asked.listen,
            names=tuple(name.lower() for name in asked.names),
            header=asked.header,
            users=_users(asked.users),
            secure=asked.secure,
            reports=ground.reports,
            key=key,
            idle_s=float(asked.idle_s),
        )
        asyncio.run(serve(wish, lambda links: _tell(wish.listen, links)))
    return Exit.OK


def _tell(listen: str, links: Mapping[str, str]) -> None:
    if not links:
        present.out(f"serving on {listen}")
    for name, link in links.items():
        present.out(f"{name}  {link}")
    sys.stdout.flush()  # it may go to a pipe, and a link is over in ten minutes


def _users(pairs: tuple[str, ...]) -> dict[str, str]:
    users: dict[str, str] = {}
    for pair in pairs:
        user, equals, principal = pair.rpartition("=")
        if not equals or not user or not principal:
            raise InvalidArgument("no user and principal", value=pair, remedy="Write it as USER=NAME.")
        users[user] = principal
    return users


class _Ground(NamedTuple):
    """What the console stands on: sockets by principal, the key of the log's checkpoints, where reports are."""

    seats: dict[str, pathlib.Path]
    key: pathlib.Path | None
    reports: pathlib.Path


@contextlib.contextmanager
def _ground(asked: Asked) -> Iterator[_Ground]:
    from opensafe.client import find_socket

    if asked.demo:
        with _demo() as (daemon, directory):
            seats = {name: daemon.socket_of(name) for name in _DEMO_ROLES if name != "demo"}
            yield _Ground(seats, asked.key or daemon.state / "audit/key.pub", asked.reports or directory)
        return
    paths = [*map(find_socket, asked.principals), *asked.sockets] or [find_socket(prefer=_PREFER)]
    yield _Ground({path.parent.name: path for path in paths}, asked.key, asked.reports or _REPORTS)


@contextlib.contextmanager
def _demo() -> "Iterator[tuple[PrivateDaemon, pathlib.Path]]":
    """A directory, and a daemon with the session of `make demo`; the session lives on while it is looked at.

    It has a copy of the bundle: another can be put in force, and nothing else notices.
    """
    from opensafe.client import Client
    from opensafe.proof import seed
    from opensafe.proof.private import PrivateDaemon, programs

    if os.geteuid() != 0:
        raise NotPermitted("a daemon of its own needs root", remedy="Run it as root, or without --demo.")

    async def play(socket: pathlib.Path) -> None:
        async with Client.connect(socket) as client:
            session = await client.create_session("demo-agent", "demo")
            made = await client.create_sandbox(session)
            await seed.prepare(client, session, made.sandbox_id)
            await seed.take(client, session, made.sandbox_id)

    with tempfile.TemporaryDirectory(prefix="opensafe-demo-") as directory:
        bundle = pathlib.Path(shutil.copy(programs().bundle, directory))
        with PrivateDaemon("console", _DEMO_ROLES, bundle=bundle) as daemon:
            with present.progress("playing the demo's session"):
                asyncio.run(play(daemon.socket_of("demo")))
            reports = pathlib.Path(directory, "reports")
            reports.mkdir()
            yield daemon, reports
