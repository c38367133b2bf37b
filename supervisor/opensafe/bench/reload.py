"""`opensafe bench reload`: from a bundle in place, or a changed source, to a verdict that carries the new revision.

A client asks for decisions while the bundle changes, five milliseconds after each answer; the time ends with the first
answer from the new revision, so it holds the file watch, both engines, the canary, the record and one decision. The
daemon, its key and its bundles are the bench's own.
"""

import asyncio
import pathlib
import shutil
import tempfile
import time
from collections.abc import Callable
from typing import Final

import msgspec

from opensafe.client import Client
from opensafe.errors import InvalidArgument
from opensafe.policy import native
from opensafe.policy.build import assemble
from opensafe.policy.manifest import WASM
from opensafe.policy.sources import Sources
from opensafe.proof.private import PrivateDaemon

from .site import Site
from .timing import Times

_ROLES: Final = {"bench": ("developer",)}
_DEADLINE_S: Final = 10
#: Between two questions of the client: without a pause it would be the load that is measured.
_PACE_S: Final = 0.005
#: Between two changes, which a site makes minutes apart: a worker stands by again in both processes (policy/crew.py).
_LULL_S: Final = 0.5
_CANARY: Final = "opensafe/gate/canary.rego"
_MARK: Final = "is in force"


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """bundle: a module that no cache has. cached: one that is there. source: a changed rule, compiled by opa first."""

    bundle: Times
    cached: Times
    source: Times


def measure(opa: pathlib.Path, policies: pathlib.Path, runs: int) -> Measured:
    """Change the bundle `runs` times in each of the three ways. Needs root. Raises OpenSafeError."""
    if not (policies / _CANARY).is_file():
        raise InvalidArgument("the Rego sources are not there", value=policies, remedy="Run this in a checkout.")
    with tempfile.TemporaryDirectory(prefix="opensafe-bench-") as name:
        directory = pathlib.Path(name)
        directory.chmod(0o755)
        site = Site(directory / "site")
        site.put(site.next({})[0])
        copy = pathlib.Path(shutil.copytree(policies, directory / "policies"))
        with PrivateDaemon("bench", _ROLES, bundle=site.place, key=site.public) as daemon:
            return asyncio.run(_measure(daemon, site, Sources(opa, copy), copy, runs))


async def _measure(daemon: PrivateDaemon, site: Site, sources: Sources, policies: pathlib.Path, runs: int) -> Measured:
    async with Client.connect(daemon.socket_of("bench")) as client:
        session = await client.create_session("bench")
        caches = [daemon.state / role / "cache" for role in ("front", "helper")]

        async def changed(members: Callable[[], dict[str, bytes]], *, built: bool = False) -> int:
            """Nanoseconds from a bundle in place (built: from before its members are made) to a verdict on it.

            Returns when all is quiet again.
            """
            begun = time.monotonic_ns()
            content, manifest = site.next(members())
            if not built:
                begun = time.monotonic_ns()
            site.put(content)
            async with asyncio.timeout(_DEADLINE_S):
                while (await _revision(client, session)) != manifest.revision:  # noqa: ASYNC110 - the pace of a client
                    await asyncio.sleep(_PACE_S)
                taken = time.monotonic_ns() - begun
                optimised = [native.cached_path(cache, manifest.files[WASM], native.Tier.OPTIMISED) for cache in caches]
                while not all(path.exists() for path in optimised):  # noqa: ASYNC110 - another process makes them
                    await asyncio.sleep(0.02)
            await asyncio.sleep(_LULL_S)
            return taken

        canary = (policies / _CANARY).read_text()

        def rewritten() -> dict[str, bytes]:
            (policies / _CANARY).write_text(canary.replace(_MARK, f"{_MARK} ({site.number})"))
            return {WASM: assemble(sources, policies, site.number + 1)[WASM]}

        await changed(dict)  # the first also fills the caches
        return Measured(
            cached=Times.of([await changed(dict) for _ in range(runs)]),
            bundle=Times.of([await changed(site.unknown_module) for _ in range(runs)]),
            source=Times.of([await changed(rewritten, built=True) for _ in range(runs)]),
        )


async def _revision(client: Client, session: str) -> str:
    verdict = await client.decide(session, "Bash", {"command": "ls"})
    return verdict.bundle_revision
