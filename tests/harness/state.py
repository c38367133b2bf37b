"""A state directory made by hand: a log, a ledger, a checkpoint, as a daemon leaves them, without one."""

import hashlib

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from opensafe.audit.segment import segment_path
from opensafe.model import chain, merkle
from opensafe.model.checkpoint import Checkpoint, Note, Signature, VerifierKey

NAME = "opensafe/0123"


class State:
    """Grows by `record` and `entry`; `sign` vouches for what is there. `key` is the public key's file."""

    def __init__(self, path):
        self.path = path
        (path / "audit").mkdir(parents=True)
        (path / "bundles").mkdir()
        (path / "keys").mkdir()
        (path / "front").mkdir()
        self._segment = 0
        self._head = chain.Head()
        self._ledger = chain.Head()
        self._tree = merkle.Frontier()
        self._private = Ed25519PrivateKey.generate()
        self._public = VerifierKey(NAME, self._private.public_key().public_bytes_raw())
        self.key = path / "audit" / "key.pub"
        self.key.write_text(f"{self._public.encode()}\n")
        segment_path(path, 0).touch()
        (path / "ledger.jsonl").touch()

    def record(self, record):
        """Append a record; its leaf hash."""
        sealed = chain.seal(self._head, record)
        self._head = sealed.head
        self._tree.append(bytes.fromhex(sealed.leaf))
        self.append(segment_path(self.path, self._segment), sealed.line + b"\n")
        return sealed.leaf

    def entry(self, kind, **fields):
        """Append an entry of the ledger."""
        sealed = chain.seal(self._ledger, {"kind": kind, "exec_id": "", "cell": ""} | fields)
        self._ledger = sealed.head
        self.append(self.path / "ledger.jsonl", sealed.line + b"\n")

    def turn(self):
        """Go on in another segment."""
        self._segment += 1
        segment_path(self.path, self._segment).touch()

    def sign(self):
        """Sign what is there; the note."""
        made = Checkpoint(
            origin=NAME,
            size=self._tree.size,
            root=self._tree.root(),
            ledger=self._ledger,
            time_us=1_790_000_000_000_000,
        )
        signature = Signature(NAME, self._public.key_id, self._private.sign(made.body()))
        note = Note(made.body(), (signature,)).encode()
        (self.path / "audit" / "checkpoint").write_bytes(note)
        self.append(self.path / "audit" / "checkpoints.jsonl", msgspec.json.encode({"note": note.decode()}) + b"\n")
        return note

    def bundle(self, content):
        """Archive a policy bundle; its digest."""
        digest = hashlib.sha256(content).hexdigest()
        (self.path / "bundles" / f"{digest}.tar.gz").write_bytes(content)
        return digest

    @staticmethod
    def append(path, data):
        with path.open("ab") as file:
            file.write(data)
