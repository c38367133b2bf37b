"""What a bundle consists of: member names, manifest, self-test vectors, and the loaded Bundle."""

import hashlib
from typing import Annotated, Any, Final

import msgspec

from opensafe.model.decision import Action
from opensafe.model.facts import ClassTables

#: Layout of the archive and meaning of the manifest.
FORMAT: Final = 1
PACKAGE: Final = "opensafe"
MANIFEST: Final = "manifest.json"
WASM: Final = "policy.wasm"
CONFIG: Final = "config.json"
VECTORS: Final = "vectors.json"
MEMBERS: Final = (CONFIG, WASM, VECTORS)  # beside the manifest, which lists them
#: Every bundle answers these.
ENTRYPOINTS: Final = ("gate/bash", "gate/exec", "gate/list", "gate/read", "gate/sandbox", "gate/write")

Sha256 = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}$")]


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The list of a bundle's content. `revision` is `number-digest`; the digest covers all members."""

    format: int
    number: Annotated[int, msgspec.Meta(ge=1, le=2**53 - 1)]
    revision: Annotated[str, msgspec.Meta(pattern=r"^[1-9][0-9]{0,15}-[0-9a-f]{12}$")]
    abi: tuple[int, int]
    entrypoints: tuple[str, ...]
    files: dict[str, Sha256]


class Vector(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A question whose verdict a bundle must give before it is used: action and the rules that decide it."""

    name: str
    entrypoint: str
    input: dict[str, Any]
    action: Action
    rules: tuple[str, ...]


class Bundle(msgspec.Struct, frozen=True, kw_only=True):
    """A verified bundle. `data` is the JSON of the guest's `data` document, `digest` the archive's SHA-256."""

    revision: str
    digest: str
    wasm: bytes
    data: bytes
    tables: ClassTables
    entrypoints: tuple[str, ...]
    vectors: tuple[Vector, ...]


def guest_data(config: dict[str, Any], revision: str) -> bytes:
    """The document that rules read: `data.opensafe.config` and the revision they echo."""
    return msgspec.json.encode({PACKAGE: {"config": config, "version": revision}}, order="sorted")


def revision_of(number: int, files: dict[str, str]) -> str:
    """`number-digest`: twelve hexadecimal digits over the members' names and digests."""
    listing = "".join(f"{files[name]}  {name}\n" for name in sorted(files))
    return f"{number}-{hashlib.sha256(listing.encode()).hexdigest()[:12]}"
