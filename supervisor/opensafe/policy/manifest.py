"""What a bundle consists of: member names, manifest, self-test vectors, and the loaded Bundle."""

import hashlib
from typing import Annotated, Any, Final

import msgspec

from opensafe.errors import BundleRefused
from opensafe.model.decision import Action
from opensafe.model.facts import ClassTables
from opensafe.normalize.site_tools import SiteTool

from .catalogue import Catalogue

#: Layout of the archive and meaning of the manifest.
FORMAT: Final = 1
#: OPA's WebAssembly ABI that this daemon speaks.
ABI_VERSION: Final = (1, 3)
PACKAGE: Final = "opensafe"
MANIFEST: Final = "manifest.json"
WASM: Final = "policy.wasm"
CONFIG: Final = "config.json"
VECTORS: Final = "vectors.json"
RULES: Final = "rules.json"
TOOLS: Final = "tools.json"
SIGNATURE: Final = "signature.json"
MEMBERS: Final = (CONFIG, RULES, VECTORS, WASM)  # beside the manifest, which lists them, and its signature
#: A bundle without TOOLS has no tools of the site's own.
ALLOWED: Final = frozenset((SIGNATURE, MANIFEST, TOOLS, *MEMBERS))
#: Every bundle answers these.
ENTRYPOINTS: Final = (
    "gate/bash", "gate/canary", "gate/egress", "gate/exec", "gate/files", "gate/list", "gate/read", "gate/runtime",
    "gate/sandbox", "gate/tool", "gate/write",
)  # fmt: skip

Sha256 = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The list of a bundle's content. `revision` is `number-digest`; the digest covers all members."""

    format: int
    number: Annotated[int, msgspec.Meta(ge=1, le=2**53 - 1)]
    revision: Annotated[str, msgspec.Meta(pattern=r"^[1-9][0-9]{0,15}-[0-9a-f]{12}\Z")]
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
    """A verified bundle.

    digest: the archive's SHA-256. key: id of the key that signed it. data: the JSON of the guest's `data` document.
    module: SHA-256 of `wasm`, which may be empty where the compiled module lies in the engine's cache.
    """

    revision: str
    digest: str
    number: int = 1
    key: str = ""
    module: str = ""
    wasm: bytes
    data: bytes
    tables: ClassTables
    #: "name:port"
    endpoints: tuple[str, ...] = ()
    entrypoints: tuple[str, ...]
    vectors: tuple[Vector, ...]
    rules: Catalogue = ()
    tools: tuple[SiteTool, ...] = ()


def guest_data(config: dict[str, Any], revision: str, tools: tuple[SiteTool, ...] = ()) -> bytes:
    """The document that rules read: `data.opensafe.config`, `tools` among its families, and the revision to echo."""
    config = config | {"tools": config["tools"] | {tool.name: "tool" for tool in tools}}
    return msgspec.json.encode({PACKAGE: {"config": config, "version": revision}}, order="sorted")


def revision_of(number: int, files: dict[str, str]) -> str:
    """`number-digest`: twelve hexadecimal digits over the members' names and digests."""
    listing = "".join(f"{files[name]}  {name}\n" for name in sorted(files))
    return f"{number}-{hashlib.sha256(listing.encode()).hexdigest()[:12]}"


def read_manifest(members: dict[str, bytes]) -> Manifest:
    """The manifest of an archive's members, all of which it lists as they are. Raises BundleRefused."""
    if MANIFEST not in members:
        raise BundleRefused("manifest: absent", value=MANIFEST)
    try:
        manifest = msgspec.json.decode(members[MANIFEST], type=Manifest)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BundleRefused(f"manifest: {error}") from error
    if manifest.format != FORMAT:
        raise BundleRefused("manifest: unknown format", value=manifest.format, limit=FORMAT)
    if manifest.abi != ABI_VERSION:
        raise BundleRefused("abi: not the one this daemon speaks", value=manifest.abi, limit=ABI_VERSION)
    for name in sorted(set(MEMBERS) | set(manifest.files) | (members.keys() - {MANIFEST, SIGNATURE})):
        if name not in manifest.files:
            raise BundleRefused("manifest: a member is not listed", value=name)
        if name not in members:
            raise BundleRefused("manifest: a listed member is absent", value=name)
        if hashlib.sha256(members[name]).hexdigest() != manifest.files[name]:
            raise BundleRefused("hash: a member is not what the manifest lists", value=name)
    if manifest.revision != revision_of(manifest.number, manifest.files):
        raise BundleRefused("revision: not that of the content", value=manifest.revision)
    missing = sorted(set(ENTRYPOINTS) - set(manifest.entrypoints))
    if missing:
        raise BundleRefused("entry points: absent from the manifest", value=", ".join(missing))
    return manifest
