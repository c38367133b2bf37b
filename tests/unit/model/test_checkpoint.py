"""Checkpoints are C2SP's: the published example verifies, ours come back as they were, and nothing else is read."""

import base64

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from hypothesis import given
from hypothesis import strategies as st

from opensafe.model import checkpoint
from opensafe.model.chain import Head
from opensafe.model.checkpoint import Checkpoint, Note, NoteError, Signature, VerifierKey

#: The example of the signed-note format.
KEY = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
NOTE = (
    "If you think cryptography is the answer to your problem,\n"
    "then you don't know what your problem is.\n"
    "\n"
    "\u2014 PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n"
).encode()

LEAF = "ab" * 32
HEADS = st.builds(Head, st.integers(0, 2**50), st.binary(min_size=32, max_size=32).map(bytes.hex))
CHECKPOINTS = st.builds(
    Checkpoint,
    origin=st.from_regex(r"[a-z0-9./-]{1,40}", fullmatch=True),
    size=st.integers(0, 2**50),
    root=st.binary(min_size=32, max_size=32),
    ledger=HEADS,
    time_us=st.integers(0, 2**50),
)


def text(*lines):
    return "".join(f"{line}\n" for line in lines).encode()


ROOT = base64.b64encode(bytes(32)).decode()
SIGNATURE = "\u2014 a " + base64.b64encode(bytes(68)).decode()


def test_the_published_example_verifies():
    key, note = checkpoint.parse_key(KEY), checkpoint.parse_note(NOTE)
    [signature] = note.signatures
    assert (signature.name, signature.key_id) == (key.name, key.key_id)
    Ed25519PublicKey.from_public_bytes(key.public).verify(signature.made, note.body)
    assert (key.encode(), note.encode()) == (KEY, NOTE)


@given(CHECKPOINTS)
def test_a_signed_checkpoint_comes_back(made):
    private = Ed25519PrivateKey.generate()
    key = VerifierKey(made.origin, private.public_key().public_bytes_raw())
    note = Note(made.body(), (Signature(key.name, key.key_id, private.sign(made.body())),))
    read = checkpoint.parse_note(note.encode())
    assert checkpoint.parse_checkpoint(read.body) == made
    private.public_key().verify(read.signatures[0].made, read.body)
    assert checkpoint.parse_key(key.encode()) == key


def test_the_first_three_lines_are_origin_size_and_root():
    made = Checkpoint(origin="example.test/log", size=20852163, root=bytes(range(32)), ledger=Head(3, LEAF), time_us=5)
    assert made.body().decode().split("\n")[:3] == [
        "example.test/log", "20852163", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
    ]  # fmt: skip


def test_another_logs_checkpoint_is_read_and_its_extension_lines_are_let_through():
    read = checkpoint.parse_checkpoint(text("sum.test/db", "7", ROOT, "anything else"))
    assert read == Checkpoint(origin="sum.test/db", size=7, root=bytes(32))


@pytest.mark.parametrize(
    "body",
    [
        b"", b"\n", text("a", "1"), text("", "1", ROOT), text("a", "01", ROOT), text("a", "-1", ROOT),
        text("a", "1", ROOT[:-1]), text("a", "1", "AAAA"), text("a", "1", ROOT.replace("A=", "B=")),
        text("a", "1", ROOT, ""), text("a", "1", ROOT).rstrip(b"\n"), text("a", "9" * 17, ROOT),
    ],
)  # fmt: skip
def test_what_is_no_checkpoint_is_refused(body):
    with pytest.raises(NoteError):
        checkpoint.parse_checkpoint(body)


@pytest.mark.parametrize(
    "data",
    [
        b"", b"a\n", b"a\n\n", b"a\n\nb\n", text("a", "", SIGNATURE).rstrip(b"\n"), text("a", SIGNATURE),
        text("a", "", SIGNATURE, "b"), text("a\r", "", SIGNATURE), text("a\x00", "", SIGNATURE),
        b"\xff" + text("a", "", SIGNATURE), text("a", "", "\u2014 a AAAA"), text("a", "", "\u2014  " + SIGNATURE[4:]),
        text("a" * checkpoint.MAX_NOTE, "", SIGNATURE),
    ],
)  # fmt: skip
def test_what_is_no_signed_note_is_refused(data):
    with pytest.raises(NoteError):
        checkpoint.parse_note(data)


@pytest.mark.parametrize(
    "key", ["", "a", "a+b", KEY.replace("c74f20a3", "c74f20a4"), KEY[:-4], KEY.replace("+AR", "+Ah"), " " + KEY[12:]]
)
def test_what_is_no_key_is_refused(key):
    with pytest.raises(NoteError):
        checkpoint.parse_key(key)
