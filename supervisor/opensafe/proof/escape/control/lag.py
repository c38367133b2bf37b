"""What the way out lets through once a bundle that forbids it is in force: CP-21. It needs the small internet."""

import asyncio
import contextlib
import pathlib
import pwd
import tempfile
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Final

from opensafe.client import Client
from opensafe.errors import OpenSafeError
from opensafe.proof import private
from opensafe.proof.escape.bundles import in_force
from opensafe.proof.escape.ground import daemon
from opensafe.proof.escape.host import nonce
from opensafe.proof.escape.network.policy import Bundles
from opensafe.proof.escape.probe import Run, Severity
from opensafe.proof.escape.trial import Trial
from opensafe.proof.mutants import Mutant, planted
from opensafe.proof.planting import plant
from opensafe.proof.world import Event, Kind, World, plan

from .mutants import ACKNOWLEDGED
from .row import row
from .stranger import Attempt, stranger

#: A name of the site's that the next bundle does not allow, of an address that nothing else uses, and one that stays.
_NAME: Final = f"{plan.spell('198.51.100.63')}.trap.test"
_STAYS: Final = "allowed.test"
_UPLINK: Final = "10.202.119.200/30"
_EGRESS_USER: Final = "opensafe-egress"
_PROGRAM: Final = "/workspace/probe.py"
#: Attempts that must follow the acknowledgement.
_AFTER: Final = 5
_BEGIN_S: Final = 30.0

#: Asks for the name, then for the one that stays, which tells the host that it has asked.
_ASK: Final = """
import socket
def get(name, path):
    with socket.create_connection((socket.gethostbyname(name), 80), 1.5) as peer:
        peer.settimeout(1.5)
        peer.sendall(f"GET {{path}} HTTP/1.1\\r\\nHost: {{name}}\\r\\nConnection: close\\r\\n\\r\\n".encode())
        return peer.recv(400).split(b"\\r\\n")[0]
for number in range(10_000):
    for name, path in (({name!r}, "/hello?{word}"), ({stays!r}, "/hello?asked-{word}")):
        try:
            print(number, name, get(name, path), flush=True)
        except OSError as error:
            print(number, name, error, flush=True)
"""


@contextlib.asynccontextmanager
async def _daemon(world: World, mutants: Sequence[Mutant]) -> AsyncIterator[tuple[private.PrivateDaemon, Bundles]]:
    """A daemon before the world whose bundle allows the name."""
    with contextlib.ExitStack() as stack:
        directory = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="opensafe-control-")))
        source = stack.enter_context(planted(*mutants)) if mutants else None
        bundles = Bundles(directory, pathlib.Path(private.programs().bundle))
        bundles.activate(traps=True)
        async with daemon("escape", bundles, more=f"[egress]\n{world.egress(_UPLINK)}", source=source) as begun:
            yield begun, bundles


async def _revoked(world: World, mutants: Sequence[Mutant] = ()) -> Run:
    """A program asks all the time; a bundle without the name comes into force, and it asks on."""
    word = nonce()
    async with _daemon(world, mutants) as (of, bundles), Client.connect(of.socket_of("default")) as client:
        session = await client.create_session("lag")
        asking = asyncio.create_task(_ask(client, session, word))
        since_us, asked, writable, fault = 0, False, list[str](), ""
        try:
            await world.until(lambda event: _is(event, f"?{word}"), _BEGIN_S)
            since_us = await in_force(client, bundles.activate(traps=False))
            await _asked_on(world, word, since_us)
            asked = True
            writable = await _writable(of)
        except TimeoutError:
            fault = "the bundle was not in force, or it went on asking for neither name"
        finally:
            with contextlib.suppress(OpenSafeError):
                await client.close_session(session)
            said = await asking
    late = [event for event in world.log if _is(event, f"?{word}") and event.at_us > since_us > 0]
    found = [f"{len(late)} requests for {_NAME} arrived after the bundle without it was in force"] if late else []
    return Run(
        began=since_us > 0,
        finished=asked,
        found="; ".join(found + writable),
        layer="both engines swap, and what is open is judged again, before a bundle is told to be in force",
        hints=tuple(said.decode(errors="replace").splitlines()[-4:]),
        fault=fault and f"{fault}: {said[-300:]!r}",
    )


async def _ask(client: Client, session: str, word: str) -> bytes:
    sandbox = (await client.create_sandbox(session)).sandbox.sandbox_id
    await plant(client.files(session, sandbox), _PROGRAM, _ASK.format(name=_NAME, stays=_STAYS, word=word).encode())
    command = f"python3 {_PROGRAM} http://{_NAME}/ http://{_STAYS}/"
    try:
        return (await client.run_call(session, sandbox, "lag", "Bash", {"command": command})).stdout
    except OpenSafeError as error:
        return str(error).encode()


async def _asked_on(world: World, word: str, since_us: int) -> None:
    """Return once it has gone on asking. Raises TimeoutError."""

    def later(event: Event) -> bool:
        return _is(event, f"?asked-{word}") and event.at_us > since_us

    await world.until(lambda event: later(event) and sum(map(later, world.log)) > _AFTER, _BEGIN_S)


async def _writable(of: private.PrivateDaemon) -> list[str]:
    """Envoy's configuration, opened for writing by Envoy's own user. Raises FileNotFoundError where there is none."""
    user, configuration = pwd.getpwnam(_EGRESS_USER), of.run / "envoy.json"
    configuration.stat()
    paths = [str(configuration), *(str(path) for path in of.run.glob("egress-tls/*"))]
    answers = await stranger(user.pw_gid, [Attempt(do="append", path=path) for path in paths], uid=user.pw_uid)
    return [f"Envoy can write {path}" for path, answer in zip(paths, answers, strict=True) if not answer.error]


def _is(event: Event, query: str) -> bool:
    return event.kind is Kind.REQUEST and f"/hello{query} ".encode() in event.data


TRIALS: Final[tuple[Trial, ...]] = (
    row(
        id="CP-21",
        title="a name of the way out is asked for while a bundle without it comes into force; Envoy's files written",
        severity=Severity.EXFIL,
        attacks=("T1048", "T1562.001"),
        breach="the world gets a request for it after the daemon told that the bundle is in force",
        control="mutant: a bundle is told to be in force before the helper has swapped",
        attempts=(_revoked,),
        weak=partial(_revoked, mutants=ACKNOWLEDGED),
    ),
)
