"""Policy that nobody signed, that was changed, that is older, or that can't be loaded: CP-08, CP-09, CP-10, CP-12."""

import asyncio
import contextlib
import io
import itertools
import tarfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from opensafe.errors import OpenSafeError
from opensafe.policy import archive, keys, sign
from opensafe.policy.manifest import ALLOWED, CONFIG, MANIFEST, SIGNATURE, TOOLS, WASM, read_manifest, revision_of
from opensafe.proof.escape.probe import Run, Severity
from opensafe.proof.escape.trial import Trial
from opensafe.proof.private import DaemonFailedError

from .ground import SHIPPED, Yard
from .mutants import DAEMONS
from .row import row
from .site import Site, nonce

#: Something that the policy in force blocks.
_BLOCKED: Final = {"command": "cat /etc/shadow"}
_COUNTED: Final = b'"calls_per_minute":'
#: Before the words of the one of two engines that was the first to refuse.
_HELPER: Final = "egress helper: "
_GZIP: Final = 31

Members = dict[str, bytes]
Variants = Callable[[Members, Members, Ed25519PrivateKey], Iterator[tuple[str, bytes]]]
"""Of a good bundle's members, an older one's, and the key that is trusted."""


def _unsigned(good: Members) -> Iterator[tuple[str, bytes]]:
    """Archives whose manifest is in order, and whose signature is none."""
    stranger = Ed25519PrivateKey.generate()
    signature = msgspec.json.decode(good[SIGNATURE])
    foreign = msgspec.json.decode(sign.signed(good, stranger)[SIGNATURE])["signature"]

    def says(**changed: str) -> bytes:
        return archive.pack({**good, SIGNATURE: msgspec.json.encode({**signature, **changed})})

    yield "no signature", archive.pack({name: data for name, data in good.items() if name != SIGNATURE})
    yield "another's key", archive.pack(sign.signed(good, stranger))
    yield "another's signature under the trusted key's id", says(signature=foreign)
    yield "algorithm none", says(algorithm="none")
    yield "algorithm none, signature of zeros", says(algorithm="none", signature="0" * 128)
    yield "an empty signature", says(signature="")
    yield "no key", says(key="")
    yield "an empty file", archive.pack({**good, SIGNATURE: b""})


def _changed(good: Members, older: Members, key: Ed25519PrivateKey) -> Iterator[tuple[str, bytes]]:
    """Archives under a signature that holds, of which something else does not."""
    config = bytearray(good[CONFIG])
    at = config.index(_COUNTED) + len(_COUNTED)
    config[at] = ord("9") if config[at] != ord("9") else ord("8")
    wasm = bytearray(good[WASM])
    wasm[-1] ^= 1
    plain = archive.pack(good)
    yield "one byte of the settings", archive.pack({**good, CONFIG: bytes(config)})
    yield "one byte of the module", archive.pack({**good, WASM: bytes(wasm)})
    yield "a manifest of another bundle", archive.pack({**good, MANIFEST: older[MANIFEST]})
    yield "a file that is not listed", archive.pack(_unlisted(good, key))
    yield "a file of another name", archive.pack({**good, "extra.rego": b"package extra"})
    yield "a file missing", archive.pack({name: data for name, data in good.items() if name != CONFIG})
    members = [(name, data) for name, data in good.items()]
    yield "a member twice, the changed one last", _tar([*members, (CONFIG, bytes(config))])
    yield "a member twice, the changed one first", _tar([(CONFIG, bytes(config)), *members])
    yield "a member outside", _tar([*members, ("../policy.wasm", b"")])
    yield "a member from the root", _tar([*members, ("/etc/cron.d/opensafe", b"")])
    yield "a member's name in another form", _tar([*members, (f"./{CONFIG}", bytes(config))])
    yield "a link", _tar(members, link=CONFIG)
    yield "a tail", plain + b"\0" * 512
    yield "a second archive behind", plain + archive.pack({**good, CONFIG: bytes(config)})
    yield "cut short", plain[:-9]


def _unlisted(good: Members, key: Ed25519PrivateKey) -> Members:
    """A bundle in order without tools of the site's, and tools of the site's."""
    manifest = read_manifest(good)
    files = {name: digest for name, digest in manifest.files.items() if name != TOOLS}
    revision = revision_of(manifest.number, files)
    shorter = sign.encode(msgspec.structs.replace(manifest, files=files, revision=revision))
    return {**sign.signed({**good, MANIFEST: shorter}, key), TOOLS: good[TOOLS]}


def _tar(members: Sequence[tuple[str, bytes]], link: str = "") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as packed:
        for name, data in members:
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            if name == link:
                entry.type, entry.linkname, entry.size = tarfile.SYMTYPE, "/etc/passwd", 0
            packed.addfile(entry, io.BytesIO(data) if entry.size else None)
    deflate = zlib.compressobj(6, zlib.DEFLATED, _GZIP)
    return deflate.compress(buffer.getvalue()) + deflate.flush()


def _members(content: bytes) -> Members:
    return archive.unpack(content, ALLOWED)


async def _offered(yard: Yard, on: str, variants: Variants) -> Run:
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


async def _signatures(yard: Yard, on: str = SHIPPED) -> Run:
    return await _offered(yard, on, lambda good, _older, _key: _unsigned(good))


async def _contents(yard: Yard, on: str = SHIPPED) -> Run:
    return await _offered(yard, on, _changed)


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
    async with site.turn, site.client() as client:
        session = await client.create_session(word)
        sandbox = (await client.create_sandbox(session)).sandbox.sandbox_id
        good = _members(site.bundles.next({})[0])
        broken = site.bundles.next({WASM: good[WASM][: len(good[WASM]) // 2]})[0]
        for content in (b"", b"no archive", archive.pack({**good, WASM: b""}), broken):
            await site.settled(content)
        judged = await client.decide(session, "Bash", _BLOCKED)
        with contextlib.suppress(OpenSafeError):
            await client.run_call(session, sandbox, word, "Bash", _BLOCKED)
        with contextlib.suppress(OpenSafeError):
            await client.close_session(session)
    activated = site.records("bundle", state="activated")[-1]["revision"]
    decision = site.records("decision", decision_id=judged.decision_id)[0]
    found = []
    if decision["result"]["action"] == "allow":
        found.append("after a failed reload what policy blocks is allowed, as is on record")
    if decision["bundles"]["opensafe"]["revision"] != activated:
        found.append("the last good bundle is not in force")
    started, why = await _start(yard, on)
    return Run(began=True, finished=True, found="; ".join(found + started), layer=f"the last good bundle holds; {why}")


async def _start(yard: Yard, on: str) -> tuple[list[str], str]:
    """Starts without a bundle, and with one that nobody signed."""
    source = None if on == SHIPPED else await yard.source(DAEMONS[on])
    served, why = [], ""
    async with Site.open(source, begin=False) as site:
        good = _members(site.bundles.place.read_bytes())
        unsigned = archive.pack({name: data for name, data in good.items() if name != SIGNATURE})
        for what, content in (("no", None), ("an unsigned", unsigned)):
            site.bundles.place.unlink(missing_ok=True)
            if content is not None:
                site.bundles.put(content)
            try:
                await asyncio.to_thread(site.daemon.start)
            except DaemonFailedError as error:
                why = str(error).splitlines()[0]
                continue
            async with site.client() as client:
                await client.create_sandbox(await client.create_session("unjudged"))
            served.append(f"with {what} bundle the daemon starts, and {len(site.ledger('sandbox'))} sandbox")
            await asyncio.to_thread(site.daemon.stop)
    return served, why


TRIALS: Final[tuple[Trial, ...]] = (
    row(
        id="CP-08",
        title="bundles without signature, by another key, under another algorithm or none",
        severity=Severity.INTEGRITY,
        attacks=("T1553", "T1562.001"),
        breach="the log has it activated",
        control="mutant: a signature is verified where there is one",
        attempts=(_signatures,),
        weak=partial(_signatures, on="trusting"),
    ),
    row(
        id="CP-09",
        title="signed bundles with a byte changed, files added, members twice, outside, linked; cut and prolonged",
        severity=Severity.INTEGRITY,
        attacks=("T1553", "T1565.001"),
        breach="the log has it activated",
        control="mutant: digests of the manifest are not compared",
        attempts=(_contents,),
        weak=partial(_contents, on="trusting"),
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
