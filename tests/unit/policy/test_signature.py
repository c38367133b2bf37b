"""A bundle that no trusted key signed is refused, whatever else is right about it; the signed twin loads."""

import json
import os
import pathlib
import subprocess
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from opensafe.errors import BundleRefused, InvalidArgument
from opensafe.policy import archive, keys, sign
from opensafe.policy.bundle import load
from opensafe.policy.manifest import ALLOWED, MANIFEST, SIGNATURE
from tests.harness.policy import KEY, TRUSTED

Members = dict[str, bytes]
OTHER = Ed25519PrivateKey.generate()


def signature(members: Members, **fields: Any) -> bytes:
    """The archive with these fields of its signature changed; None takes one away."""
    found = json.loads(members[SIGNATURE]) | fields
    left = {name: value for name, value in found.items() if value is not None}
    return archive.pack({**members, SIGNATURE: json.dumps(left).encode()})


def other_id() -> str:
    return keys.key_id(OTHER.public_key())


def claiming(members: Members) -> bytes:
    """Signed by another key that says it were the trusted one."""
    forged = json.loads(sign.signed(members, OTHER)[SIGNATURE])["signature"]
    return signature(members, signature=forged)


def of_another_manifest(members: Members) -> bytes:
    """A good signature of a trusted key, taken from another bundle."""
    manifest = json.loads(members[MANIFEST])
    older = sign.signed({**members, MANIFEST: json.dumps(manifest).encode()}, KEY)
    return archive.pack({**members, SIGNATURE: older[SIGNATURE]})


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda m: archive.pack({k: v for k, v in m.items() if k != SIGNATURE}), "not signed"),
        (lambda m: signature(m, algorithm="none"), "another algorithm.*none"),
        (lambda m: signature(m, algorithm="rs256"), "another algorithm"),
        (lambda m: signature(m, algorithm="Ed25519"), "another algorithm"),
        (lambda m: signature(m, algorithm=""), "another algorithm"),
        (lambda m: signature(m, algorithm=None), "missing required field"),
        (lambda m: signature(m, algorithm=["none"]), "signature"),
        (lambda m: signature(m, key=None), "missing required field"),
        (lambda m: signature(m, key=""), "not trusted"),
        (lambda m: signature(m, key="0" * 16), "not trusted"),
        (lambda m: signature(m, signature=None), "missing required field"),
        (lambda m: signature(m, signature=""), "signature"),
        (lambda m: signature(m, signature="00" * 64), "not that of this manifest"),
        (lambda m: signature(m, more=1), "unknown field"),
        (lambda m: archive.pack({**m, SIGNATURE: b""}), "signature"),
        (lambda m: archive.pack({**m, SIGNATURE: b"[" * 100_000}), "signature"),
        (lambda m: archive.pack(sign.signed(m, OTHER)), "not trusted"),
        (claiming, "not that of this manifest"),
        (of_another_manifest, "not that of this manifest"),
        (lambda m: archive.pack({**m, MANIFEST: m[MANIFEST] + b" "}), "not that of this manifest"),
    ],
)  # fmt: skip
def test_CP_08_what_no_trusted_key_signed_is_refused(
    members: Members, spoil: Callable[[Members], bytes], why: str
) -> None:
    with pytest.raises(BundleRefused, match=why):
        load(spoil(members), trusted=TRUSTED)


def test_the_twin_signed_by_a_trusted_key_loads(members: Members) -> None:
    loaded = load(archive.pack(sign.signed(members, OTHER)), trusted={**TRUSTED, other_id(): OTHER.public_key()})
    assert loaded.key == other_id()
    assert load(archive.pack(members), trusted=TRUSTED).key == keys.key_id(KEY.public_key())


def test_without_a_trusted_key_there_is_none_to_load_by() -> None:
    with pytest.raises(BundleRefused, match="no key is trusted"):
        keys.trust([])


def test_old_content_is_signed_anew_under_a_higher_number(members: Members) -> None:
    loaded = load(sign.sign(archive.pack(members), KEY, 41), trusted=TRUSTED)
    assert loaded.number == 41
    assert loaded.revision.startswith("41-")
    kept = archive.unpack(sign.sign(archive.pack(members), OTHER), ALLOWED)
    assert kept[MANIFEST] == members[MANIFEST]


def test_what_is_no_bundle_is_not_signed(members: Members) -> None:
    with pytest.raises(BundleRefused, match="hash"):
        sign.sign(archive.pack({**members, "policy.wasm": b""}), KEY)


def test_openssl_agrees_with_the_signature(members: Members, tmp_path: pathlib.Path) -> None:
    (tmp_path / "manifest").write_bytes(members[MANIFEST])
    (tmp_path / "signature").write_bytes(bytes.fromhex(json.loads(members[SIGNATURE])["signature"]))
    pem = KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (tmp_path / "key").write_bytes(pem)
    command: list[str | pathlib.Path] = [
        "openssl",
        "pkeyutl",
        "-verify",
        "-rawin",
        "-pubin",
        "-inkey",
        tmp_path / "key",
    ]
    command += ["-in", tmp_path / "manifest", "-sigfile", tmp_path / "signature"]
    assert subprocess.run(command, capture_output=True).returncode == 0
    (tmp_path / "manifest").write_bytes(members[MANIFEST] + b" ")
    assert subprocess.run(command, capture_output=True).returncode != 0


def test_keygen_makes_a_private_key_for_its_owner_alone(tmp_path: pathlib.Path) -> None:
    public, identity = keys.generate(tmp_path / "keys")
    private = tmp_path / "keys" / keys.PRIVATE
    assert private.stat().st_mode & 0o777 == 0o600
    assert list(keys.trust_files([public])) == [identity]
    assert keys.key_id(keys.read_private(private).public_key()) == identity
    with pytest.raises(InvalidArgument, match="a key already"):
        keys.generate(tmp_path / "keys")


def pem(private: Any) -> bytes:
    return private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


@pytest.mark.parametrize(
    ("content", "mode", "why"),
    [
        (pem(OTHER), 0o640, "others may read"),
        (pem(OTHER), 0o604, "others may read"),
        (pem(generate_private_key(SECP256R1())), 0o600, "Ed25519"),
        (b"", 0o600, "PEM"),
        (b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", 0o600, "PEM"),
    ],
)
def test_a_private_key_that_is_none_or_not_private_signs_nothing(
    tmp_path: pathlib.Path, content: bytes, mode: int, why: str
) -> None:
    path = tmp_path / "key"
    path.write_bytes(content)
    os.chmod(path, mode)
    with pytest.raises(InvalidArgument, match=why):
        keys.read_private(path)


@pytest.mark.parametrize("text", ["", "ssh-ed25519 AAAA", pem(OTHER).decode()])
def test_a_public_key_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(BundleRefused, match="keys"):
        keys.trust([text])


def test_another_kind_of_public_key_is_refused() -> None:
    public = generate_private_key(SECP256R1()).public_key()
    text = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    with pytest.raises(BundleRefused, match="not an Ed25519 key"):
        keys.trust([text])


def test_the_signature_is_of_the_form_that_is_documented(members: Members) -> None:
    found = msgspec.json.decode(members[SIGNATURE])
    assert found.keys() == {"algorithm", "key", "signature"}
    assert found["algorithm"] == "ed25519"
