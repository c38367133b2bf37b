"""Keys that sign bundles: Ed25519 (RFC 8032) in PEM files that openssl reads too.

The private key belongs to whoever signs; nothing of the daemon ever opens it. The daemon gets public keys as text,
read by its root process from files that only root can change.
"""

import hashlib
import os
import pathlib
import stat
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from opensafe.errors import BundleRefused, InvalidArgument

PRIVATE: Final = "policy.key"
PUBLIC: Final = "policy.pub"
_MAX_BYTES: Final = 4096

Trusted: TypeAlias = Mapping[str, Ed25519PublicKey]
"""The public keys whose bundles are taken, by key id."""


def key_id(key: Ed25519PublicKey) -> str:
    """Sixteen hexadecimal digits: the beginning of the SHA-256 of the raw public key."""
    return hashlib.sha256(key.public_bytes(Encoding.Raw, PublicFormat.Raw)).hexdigest()[:16]


def trust(texts: Iterable[str]) -> Trusted:
    """Public keys from PEM texts. Raises BundleRefused: for one that is none, and where there is none at all."""
    keys = [_public(text) for text in texts]
    if not keys:
        raise BundleRefused(
            "keys: no key is trusted, so no bundle is", remedy="Set policy.trusted_keys to public key files."
        )
    return {key_id(key): key for key in keys}


def trust_files(paths: Iterable[pathlib.Path]) -> Trusted:
    """`trust` of files, for programs that run by hand. Raises BundleRefused."""
    return trust(read_public(path) for path in paths)


def read_public(path: pathlib.Path) -> str:
    """The text of a public key file. Raises BundleRefused."""
    try:
        with path.open("rb") as file:
            return file.read(_MAX_BYTES).decode("ascii")
    except OSError as error:
        raise BundleRefused(f"keys: {error.strerror}", value=path) from error
    except UnicodeDecodeError as error:
        raise BundleRefused("keys: not a PEM file", value=path) from error


def generate(directory: pathlib.Path) -> tuple[pathlib.Path, str]:
    """Make a key pair in `directory`: the public key's file and its id. Raises InvalidArgument: there is one."""
    directory.mkdir(mode=0o755, parents=True, exist_ok=True)
    private = Ed25519PrivateKey.generate()
    public = private.public_key()
    secret = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    _create(directory / PRIVATE, secret, 0o600)
    path = directory / PUBLIC
    _create(path, public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo), 0o644)
    return path, key_id(public)


def read_private(path: pathlib.Path) -> Ed25519PrivateKey:
    """The key to sign with. Raises InvalidArgument: not there, not Ed25519, encrypted, readable by others."""
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise InvalidArgument("others may read the private key", value=path, remedy=f"chmod 600 {path}")
            key = load_pem_private_key(file.read(_MAX_BYTES), password=None)
    except OSError as error:
        raise InvalidArgument(
            f"the private key can't be read: {error.strerror}",
            value=path,
            remedy="Make one with `opensafe policy keygen DIR`.",
        ) from error
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise InvalidArgument("not a private key in PEM without password", value=path) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise InvalidArgument("not an Ed25519 key", value=path)
    return key


def _public(text: str) -> Ed25519PublicKey:
    try:
        key = load_pem_public_key(text.encode())
    except (ValueError, UnsupportedAlgorithm) as error:
        raise BundleRefused("keys: not a public key in PEM", value=text[:40]) from error
    if not isinstance(key, Ed25519PublicKey):
        raise BundleRefused("keys: not an Ed25519 key", value=text[:40])
    return key


def _create(path: pathlib.Path, content: bytes, mode: int) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    except FileExistsError as error:
        raise InvalidArgument("there is a key already", value=path, remedy="Name another directory.") from error
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
