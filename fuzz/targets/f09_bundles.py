"""F9: a bundle is taken only where a trusted signature covers exactly the files that are in it.

Reference: the members that were signed. Whatever was done to the archive, what is taken is what was signed, or nothing.
That its number grows is the daemon's check, and that its module answers the engine's; both come after.
"""

import gzip
import hashlib
import io
import tarfile
from typing import Final

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from opensafe.errors import BundleRefused
from opensafe.policy import archive, manifest, sign
from opensafe.policy.keys import key_id
from opensafe.proof.fuzzing import values
from opensafe.proof.fuzzing.draw import Draw
from opensafe.proof.fuzzing.target import Target, holds
from opensafe.proof.mutants import Mutant

_KEY: Final = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
_OTHER: Final = Ed25519PrivateKey.from_private_bytes(bytes(range(1, 33)))
_TRUSTED: Final = {key_id(_KEY.public_key()): _KEY.public_key()}
_FILES: Final = {manifest.CONFIG: b"{}", manifest.RULES: b"[]", manifest.VECTORS: b"[1]", manifest.WASM: b"\0asm"}
_NAMES: Final = (
    *manifest.MEMBERS,
    manifest.MANIFEST,
    manifest.SIGNATURE,
    manifest.TOOLS,
    "../x",
    "/x",
    "x",
    "./config.json",
)
_KINDS: Final = (tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.GNUTYPE_SPARSE)


def _signed() -> dict[str, bytes]:
    hashes = {name: hashlib.sha256(content).hexdigest() for name, content in _FILES.items()}
    listed = manifest.Manifest(
        format=manifest.FORMAT, number=7, revision=manifest.revision_of(7, hashes), abi=manifest.ABI_VERSION,
        entrypoints=manifest.ENTRYPOINTS, files=hashes,
    )  # fmt: skip
    return sign.signed({**_FILES, manifest.MANIFEST: sign.encode(listed)}, _KEY)


_SIGNED: Final = _signed()


def one(data: bytes) -> None:
    """Change a signed bundle and look at what is taken of it; or read bytes as one."""
    draw = Draw(data)
    what = draw.number(0, 7)
    if what == 7:
        _taken(draw.rest())
        return
    members = list(_SIGNED.items())
    if what == 6:
        holds(_taken(_packed(members)), "what was signed is taken")
    for _ in range(draw.number(1, 2)):
        _change(draw, members)
    kinds = {draw.number(0, 9): draw.pick(_KINDS)} if what == 5 else {}
    content = _packed(members, kinds)
    if what == 4:
        content = _changed(draw, content)
    _taken(content)


def _taken(content: bytes) -> bool:
    """Whether it is taken, by all checks that come before the module is compiled."""
    try:
        members = archive.unpack(content, manifest.ALLOWED)
        by = sign.verify(members, _TRUSTED)
        read = manifest.read_manifest(members)
    except BundleRefused:
        return False
    holds(by in _TRUSTED, "who signed is trusted", by)
    holds(members[manifest.MANIFEST] == _SIGNED[manifest.MANIFEST], "the manifest is the one that was signed", members)
    files = {name: data for name, data in members.items() if name not in (manifest.MANIFEST, manifest.SIGNATURE)}
    holds(files == _FILES, "the files are those that were signed", files)
    holds(read.number == 7 and read.files.keys() == files.keys(), "the manifest lists the files", read)
    signature = msgspec.json.decode(members[manifest.SIGNATURE])
    holds(signature["algorithm"] == "ed25519", "no other algorithm is taken", signature)
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(content))) as tar:
        names = tar.getnames()
    holds(len(names) == len(set(names)), "no member stands twice", names)
    return True


def _change(draw: Draw, members: list[tuple[str, bytes]]) -> None:
    at = draw.number(0, len(members) - 1)
    name, content = members[at]
    match draw.number(0, 7):
        case 0:
            del members[at]
            if not members:
                members.append((name, content))
        case 1:
            members[at] = (name, content[:1] + draw.data(3) + content[1:])
        case 2:
            members.append((draw.pick(_NAMES), draw.pick((b"{}", b"[]", content))))
        case 3:
            members.append((name, draw.pick((content, b"{}"))))
        case 4:
            members[at] = (draw.pick(_NAMES), content)
        case 5:
            _json(draw, members, manifest.SIGNATURE)
        case 6:
            _json(draw, members, manifest.MANIFEST)
        case _:  # signed by somebody else, or in another's name
            signed = sign.signed(dict(members) if manifest.MANIFEST in dict(members) else dict(_SIGNED), _OTHER)
            forged = msgspec.json.decode(signed[manifest.SIGNATURE])
            if draw.flag():
                forged["key"] = key_id(_KEY.public_key())
            members[:] = [one for one in members if one[0] != manifest.SIGNATURE]
            members.append((manifest.SIGNATURE, msgspec.json.encode(forged)))


def _json(draw: Draw, members: list[tuple[str, bytes]], wanted: str) -> None:
    for at, (name, content) in enumerate(members):
        if name == wanted:
            try:
                read = msgspec.json.decode(content)
            except msgspec.DecodeError:
                return
            members[at] = (name, msgspec.json.encode(_edited(draw, read)))


def _edited(draw: Draw, read: object) -> object:
    if isinstance(read, dict) and "algorithm" in read and draw.flag():
        return {**read, "algorithm": draw.pick(("none", "", "ED25519", "rsa"))}
    return values.edited(draw, read)


def _packed(members: list[tuple[str, bytes]], kinds: dict[int, bytes] | None = None) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for at, (name, content) in enumerate(members):
            entry = tarfile.TarInfo(name)
            entry.type = (kinds or {}).get(at, tarfile.REGTYPE)
            entry.linkname = manifest.CONFIG
            entry.size = len(content) if entry.type == tarfile.REGTYPE else 0
            tar.addfile(entry, io.BytesIO(content))
    return gzip.compress(buffer.getvalue(), 1, mtime=0)


def _changed(draw: Draw, content: bytes) -> bytes:
    plain = gzip.decompress(content)
    at = draw.number(0, len(plain) - 1)
    changed = gzip.compress(plain[:at] + draw.data(6) + plain[at + draw.number(0, 6) :], 1, mtime=0)
    return draw.pick((changed, changed + changed, changed + b"x", changed[:-3]))


def seeds() -> list[bytes]:
    """Every change of every member."""
    made = [bytes([kind % 7, 0, at, kind, 1, *range(at, at + 12)]) for at in range(6) for kind in range(8)]
    unlisted = bytes([0, 0, 0, 2, _NAMES.index(manifest.TOOLS), 0])
    return [*made, unlisted, b"\7" + archive.pack({"x": b"y"}), b"\7" + _packed(list(_SIGNED.items()))]


TARGET: Final = Target(
    id="F9",
    title="bundles: archive, manifest, signature",
    one=one,
    seeds=seeds,
    modules=("opensafe.policy.archive", "opensafe.policy.sign", "opensafe.policy.manifest"),
    floor=45,
    longest=2048,
    mutants=(
        Mutant(
            id="F9-extra", file="policy/manifest.py", old="(members.keys() - {MANIFEST, SIGNATURE})", new="set()",
            says="a file that is not listed is let in",
        ),
        Mutant(
            id="F9-hash", file="policy/manifest.py",
            old="if hashlib.sha256(members[name]).hexdigest() != manifest.files[name]:", new="if False:",
            says="files need not be what the manifest lists",
        ),
        Mutant(
            id="F9-signature", file="policy/sign.py",
            old="key.verify(bytes.fromhex(found.signature), members[MANIFEST])", new="pass",
            says="the signature is not verified",
        ),
        Mutant(
            id="F9-algorithm", file="policy/sign.py", old="if found.algorithm != ALGORITHM:", new="if False:",
            says="a signature may name any algorithm",
        ),
        Mutant(
            id="F9-twice", file="policy/archive.py", old="if member.name in members:", new="if False:",
            says="a member may stand twice",
        ),
        Mutant(
            id="F9-kind", file="policy/archive.py", old="if not member.isreg() or member.issparse():", new="if False:",
            says="a member may be a link",
        ),
    ),
)  # fmt: skip
