"""A bundle's signature: one Ed25519 signature over the exact bytes of the manifest, which lists all the rest.

Nothing about the algorithm is negotiable: a signature that names another one, or none, is no signature.
"""

from typing import Annotated, Final

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from opensafe.errors import BundleRefused

from . import archive
from .keys import Trusted, key_id
from .manifest import ALLOWED, MANIFEST, SIGNATURE, Manifest, read_manifest, revision_of

ALGORITHM: Final = "ed25519"
_REMEDY: Final = "Sign it: opensafe policy sign BUNDLE --key FILE."


class Signature(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The member `signature.json`: algorithm, id of the key, signature in hexadecimal."""

    algorithm: str
    key: str
    signature: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{128}\Z")]


def verify(members: dict[str, bytes], trusted: Trusted) -> str:
    """The id of the trusted key that signed the manifest. Raises BundleRefused."""
    if MANIFEST not in members:
        raise BundleRefused("manifest: absent", value=MANIFEST)
    if SIGNATURE not in members:
        raise BundleRefused("signature: absent, the bundle is not signed", value=SIGNATURE, remedy=_REMEDY)
    try:
        found = msgspec.json.decode(members[SIGNATURE], type=Signature)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BundleRefused(f"signature: {error}") from error
    if found.algorithm != ALGORITHM:
        raise BundleRefused("signature: another algorithm", value=found.algorithm, limit=ALGORITHM)
    key = trusted.get(found.key)
    if key is None:
        raise BundleRefused(
            "signature: by a key that is not trusted",
            value=found.key,
            limit=", ".join(trusted),
            remedy="Sign it with a trusted key, or add the key to policy.trusted_keys.",
        )
    try:
        key.verify(bytes.fromhex(found.signature), members[MANIFEST])
    except InvalidSignature as error:
        raise BundleRefused("signature: not that of this manifest", value=found.key) from error
    return found.key


def named(members: dict[str, bytes]) -> str:
    """The id of the key that the signature names, "" without one. Nothing is verified: nobody is trusted here."""
    try:
        return msgspec.json.decode(members.get(SIGNATURE, b""), type=Signature).key
    except (msgspec.DecodeError, RecursionError):
        return ""


def sign(content: bytes, key: Ed25519PrivateKey, number: int | None = None) -> bytes:
    """The archive `content`, signed with `key`; with `number` under that one. An old signature is replaced.

    Raises BundleRefused for what is no bundle. Whether it would be loaded, its loading tells.
    """
    members = archive.unpack(content, ALLOWED)
    manifest = read_manifest(members)
    if number is not None:
        renumbered = msgspec.structs.replace(manifest, number=number, revision=revision_of(number, manifest.files))
        members[MANIFEST] = encode(renumbered)
    return archive.pack(signed(members, key))


def signed(members: dict[str, bytes], key: Ed25519PrivateKey) -> dict[str, bytes]:
    """`members` with a signature over their manifest."""
    signature = Signature(
        algorithm=ALGORITHM, key=key_id(key.public_key()), signature=key.sign(members[MANIFEST]).hex()
    )
    return {**members, SIGNATURE: msgspec.json.encode(signature)}


def encode(manifest: Manifest) -> bytes:
    """The manifest's bytes as they are signed."""
    return msgspec.json.encode(manifest, order="sorted")
