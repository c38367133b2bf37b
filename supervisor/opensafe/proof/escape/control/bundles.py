"""Policy that nobody signed, that was changed, that is older, or that can't be loaded: CP-08, CP-09, CP-10, CP-12."""

import asyncio
import contextlib
import itertools
from functools import partial
from typing import Final

from opensafe.errors import OpenSafeError
from opensafe.policy import archive, keys
from opensafe.policy.manifest import ALLOWED, SIGNATURE, WASM
from opensafe.proof.escape.ground import boxed
from opensafe.proof.escape.host import nonce
from opensafe.proof.escape.probe import Run, Severity
from opensafe.proof.escape.trial import Trial
from opensafe.proof.private import DaemonFailedError

from .forged import Members, Variants, changed, unsigned
from .ground import SHIPPED, Yard
from .mutants import DAEMONS
from .row import row
from .site import Site

#: Something that the policy in force blocks.
_BLOCKED: Final = {"command": "cat /etc/shadow"}
#: Before the words of the one of two engines that was the first to refuse.
_HELPER: Final = "egress helper: "


def _members(content: bytes) -> Members:
    return archive.unpack(content, ALLOWED)


async def _offered(yard: Yard, variants: Variants, on: str = SHIPPED) -> Run:
    """Put each in place; found is what came into force, as the log has it."""
    site = await yard.site(on)
    found, reasons = [], list[str]()
    async with site.turn:
        older, good = (_members(site.bundles.next({})[0]) for _ in range(2))
        key = keys.read_private(site.bundles.place.with_name(keys.PRIVATE))
        for what, content in variants(good, older, key):
            if reason := await site.settled(content):
                reasons.append(reason)
            else:
                found.append(f"in force: {what}")
        twin = await site.settled(site.bundles.next({})[0])
    checks = sorted({reason.removeprefix(_HELPER).partition(":")[0] for reason in reasons})
    return Run(
        began=True,
        finished=True,
        found="; ".join(found[:3]),
        layer=f"refused by {', '.join(checks)}",
        hints=tuple(reason[:160] for reason in reasons),
        fault=f"the twin in order was refused: {twin}" if twin else "",
    )


async def _older(yard: Yard, on: str = SHIPPED) -> Run:
    """An earlier one, signed as it must be, offered to a running daemon and found in place by one that starts."""
    site = await yard.site(on)
    async with site.turn:
        first, second = site.bundles.next({})[0], site.bundles.next({})[0]
        fault = await site.settled(first) or await site.settled(second)
        reason = await site.settled(first)
        await asyncio.to_thread(site.daemon.stop)
        await asyncio.to_thread(site.daemon.start)
        numbers = [record["number"] for record in site.records("bundle", state="activated")]
    found = [f"{after} in force after {before}" for before, after in itertools.pairwise(numbers) if after <= before]
    return Run(began=True, finished=True, found="; ".join(found), layer=reason[:120], fault=fault)


async def _unloadable(yard: Yard, on: str = SHIPPED) -> Run:
    """A reload that fails, and what is judged after it; and a start without any policy that can be loaded."""
    site = await yard.site(on)
    word = nonce()
    async with site.turn, site.client() as client, boxed(client, word, closes=False) as (session, sandbox):
        good = _members(site.bundles.next({})[0])
        broken = site.bundles.next({WASM: good[WASM][: len(good[WASM]) // 2]})[0]
        contents = (b"", b"no archive", archive.pack({**good, WASM: b""}), broken)
        reasons = [await site.settled(content) for content in contents]
        judged = await client.decide(session, "Bash", _BLOCKED)
        with contextlib.suppress(OpenSafeError):
            await client.run_call(session, sandbox, word, "Bash", _BLOCKED)
    activated = site.records("bundle", state="activated")[-1]["revision"]
    asked, called = site.records("decision", decision_id=judged.decision_id), site.records("decision", call_id=word)
    found = []
    if not all(reasons):
        found.append("what can't be loaded is in force")
    if any(one["result"]["action"] == "allow" for one in (*asked, *called)):
        found.append("after a failed reload what policy blocks is allowed, as is on record")
    if any(one["bundles"]["opensafe"]["revision"] != activated for one in (*asked, *called)):
        found.append("the last good bundle is not in force")
    started, why = await _start(yard, on)
    return Run(
        began=True,
        finished=bool(asked and called),
        found="; ".join(found + started),
        layer=f"the last good bundle holds; {why}",
        hints=tuple(reason[:160] for reason in reasons),
    )


async def _start(yard: Yard, on: str) -> tuple[list[str], str]:
    """Starts without a bundle, with one that nobody signed, and at last with a good one, which has to serve."""
    source = None if on == SHIPPED else await yard.source(DAEMONS[on])
    served, why = [], ""
    async with Site.open(source, begin=False) as site:
        good = site.bundles.place.read_bytes()
        bare = archive.pack({name: data for name, data in _members(good).items() if name != SIGNATURE})
        for what, content in (("no", None), ("an unsigned", bare)):
            site.bundles.place.unlink(missing_ok=True)
            if content is not None:
                site.bundles.put(content)
            try:
                await asyncio.to_thread(site.daemon.start)
            except DaemonFailedError:
                why = site.daemon.log_tail()[-1]
                continue
            async with site.client() as client:
                await client.create_sandbox(await client.create_session("unjudged"))
            served.append(f"with {what} bundle the daemon starts, and {len(site.ledger('sandbox'))} sandbox")
            await asyncio.to_thread(site.daemon.stop)
        site.bundles.put(good)
        await asyncio.to_thread(site.daemon.start)
    return served, why


TRIALS: Final[tuple[Trial, ...]] = (
    row(
        id="CP-08",
        title="bundles without signature, by another key, under another algorithm or none",
        severity=Severity.INTEGRITY,
        attacks=("T1553", "T1562.001"),
        breach="the log has it activated",
        control="mutant: a signature is verified where there is one",
        attempts=(partial(_offered, variants=unsigned),),
        weak=partial(_offered, variants=unsigned, on="trusting"),
    ),
    row(
        id="CP-09",
        title="signed bundles with a byte changed, files added, members twice, outside, linked; cut and prolonged",
        severity=Severity.INTEGRITY,
        attacks=("T1553", "T1565.001"),
        breach="the log has it activated",
        control="mutant: digests of the manifest are not compared",
        attempts=(partial(_offered, variants=changed),),
        weak=partial(_offered, variants=changed, on="trusting"),
    ),
    row(
        id="CP-10",
        title="an older bundle, validly signed, at a reload and at a start",
        severity=Severity.INTEGRITY,
        attacks=("T1562.010",),
        breach="the log has a lower number activated after a higher one",
        control="mutant: numbers are not compared",
        attempts=(_older,),
        weak=partial(_older, on="trusting"),
        alone=True,
    ),
    row(
        id="CP-12",
        title="bundles that can't be loaded, at a reload and at a start",
        severity=Severity.INTEGRITY,
        attacks=("T1562.001",),
        breach="a blocked call allowed by a decision on record, or a sandbox of a daemon without policy",
        control="mutants: the last good engine is given up, and no verdict is an allow; an unsigned bundle will do",
        attempts=(_unloadable,),
        weak=partial(_unloadable, on="trusting"),
        alone=True,
    ),
)
