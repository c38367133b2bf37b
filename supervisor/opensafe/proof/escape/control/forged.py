"""Bundles that must not come into force: without a signature that counts, or with one over something else."""

import io
import tarfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from opensafe.policy import archive, sign
from opensafe.policy.manifest import CONFIG, MANIFEST, SIGNATURE, TOOLS, WASM, read_manifest, revision_of

_COUNTED: Final = b'"calls_per_minute":'
#: zlib's window bits for a gzip header.
_GZIP: Final = 31

Members = dict[str, bytes]
Variants = Callable[[Members, Members, Ed25519PrivateKey], Iterator[tuple[str, bytes]]]
"""Of a good bundle's members, an older one's, and the key that is trusted."""


def unsigned(good: Members, _older: Members, _key: Ed25519PrivateKey) -> Iterator[tuple[str, bytes]]:
    """Archives whose manifest is in order, and whose signature is none."""
    stranger = Ed25519PrivateKey.generate()
    signature = msgspec.json.decode(good[SIGNATURE])
    foreign = msgspec.json.decode(sign.signed(good, stranger)[SIGNATURE])["signature"]

    def says(**fields: str) -> bytes:
        return archive.pack({**good, SIGNATURE: msgspec.json.encode({**signature, **fields})})

    yield "no signature", archive.pack({name: data for name, data in good.items() if name != SIGNATURE})
    yield "another's key", archive.pack(sign.signed(good, stranger))
    yield "another's signature under the trusted key's id", says(signature=foreign)
    yield "algorithm none", says(algorithm="none")
    yield "algorithm none, signature of zeros", says(algorithm="none", signature="0" * 128)
    yield "an empty signature", says(signature="")
    yield "no key", says(key="")
    yield "an empty file", archive.pack({**good, SIGNATURE: b""})


def changed(good: Members, older: Members, key: Ed25519PrivateKey) -> Iterator[tuple[str, bytes]]:
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
