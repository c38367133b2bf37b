"""A proof holds for its record alone, and with a key for what that key signed."""

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from opensafe.console.inclusion import check
from opensafe.errors import AuditError
from opensafe.model import merkle
from opensafe.model.checkpoint import Checkpoint, Note, Signature, VerifierKey
from opensafe.model.proof import Inclusion, encoded

LINES = [f'{{"index":{index}}}'.encode() for index in range(7)]
LEAVES = [merkle.leaf(line) for line in LINES]
PRIVATE = Ed25519PrivateKey.generate()
KEY = VerifierKey("opensafe/test", PRIVATE.public_key().public_bytes_raw())
OTHER = VerifierKey(KEY.name, Ed25519PrivateKey.generate().public_key().public_bytes_raw())
AT = 4


def note(root=None):
    made = Checkpoint(origin=KEY.name, size=len(LINES), root=root or merkle.root(LEAVES), time_us=5)
    signature = Signature(KEY.name, KEY.key_id, PRIVATE.sign(made.body()))
    return Note(made.body(), (signature,)).encode().decode()


def proof(**other):
    path = encoded(merkle.inclusion(LEAVES, AT))
    fields = {"index": AT, "record": LINES[AT].decode(), "checkpoint": note(), "path": path}
    return msgspec.json.encode(Inclusion(**fields | other))


def test_it_holds_with_the_key_that_signed():
    found = check(proof(), AT, LINES[AT], KEY)
    assert (found.index, found.leaf, found.key) == (AT, LEAVES[AT].hex(), KEY.name)
    assert (found.checkpoint.size, found.checkpoint.root, found.hashes) == (7, merkle.root(LEAVES), 3)


def test_without_a_key_it_holds_for_the_root_alone():
    assert check(proof(), AT, LINES[AT], None).key == ""


@pytest.mark.parametrize("key", [KEY, None])
@pytest.mark.parametrize(
    "made",
    [
        proof(index=3),
        proof(record=LINES[3].decode()),
        proof(path=()),
        proof(path=encoded(merkle.inclusion(LEAVES, 3))),
        proof(path=("not base64",)),
        proof(checkpoint=note(bytes(32))),
        proof(checkpoint="nonsense"),
        b"[]",
        b"[" * 100_000,
        b"",
    ],
    ids=["index", "record", "short", "path", "encoding", "root", "note", "form", "deep", "empty"],
)
def test_one_that_was_changed_does_not_hold(made, key):
    with pytest.raises(AuditError):
        check(made, AT, LINES[AT], key)


def test_the_proof_of_another_record_is_none_of_this_one():
    with pytest.raises(AuditError, match="another record"):
        check(proof(), AT, LINES[3], KEY)
    with pytest.raises(AuditError, match="another record"):
        check(proof(), 3, LINES[AT], KEY)


def test_another_key_did_not_sign():
    with pytest.raises(AuditError, match="no signature"):
        check(proof(), AT, LINES[AT], OTHER)
