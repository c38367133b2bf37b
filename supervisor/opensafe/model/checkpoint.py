"""Signed checkpoints: the audit log's size and root, in the C2SP formats tlog-checkpoint and signed-note.

    opensafe/6f1c…            origin: which log
    1042                      records
    qINS1GRFhWHw…=            root of the tree over them
    ledger 318 9c0e…          the warden's ledger: entries, leaf hash of the last
    time 1793000000000000     microseconds since the epoch

    — opensafe/6f1c… rn4kQ…   key's name, then key id and Ed25519 signature of all above, in base64

`ledger` and `time` are extension lines, which the format leaves to the log. Nothing here signs: the warden has the
private key, and who verifies may have no more than the public one.
"""

import base64
import binascii
import hashlib
import re
from typing import Final

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from .chain import GENESIS, Head

#: Longest note that is read. Ours are shorter than 1 KiB; others' signatures may be added.
MAX_NOTE: Final = 64 << 10
_ED25519: Final = b"\x01"
_NAME: Final = re.compile(r"[^\s+]+")
_SIZE: Final = re.compile(r"0|[1-9][0-9]{0,15}")
_LEDGER: Final = re.compile(r"ledger (0|[1-9][0-9]{0,15}) ([0-9a-f]{64})")
_TIME: Final = re.compile(r"time (0|[1-9][0-9]{0,15})")
_DASH: Final = "\u2014 "


class NoteError(ValueError):
    """The text is no checkpoint, no signed note or no key."""


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """What is signed. root: 32 bytes. ledger: where the warden's ledger ended; time_us: when."""

    origin: str
    size: int
    root: bytes
    ledger: Head = Head()
    time_us: int = 0

    def body(self) -> bytes:
        """The text that is signed."""
        lines = (
            self.origin,
            str(self.size),
            base64.b64encode(self.root).decode(),
            f"ledger {self.ledger.size} {self.ledger.leaf}",
            f"time {self.time_us}",
        )
        return "".join(f"{line}\n" for line in lines).encode()


class Signature(msgspec.Struct, frozen=True):
    """One signature of a note: the key's name, its id (4 bytes) and what it made."""

    name: str
    key_id: bytes
    made: bytes


class Note(msgspec.Struct, frozen=True):
    """A text and its signatures."""

    body: bytes
    signatures: tuple[Signature, ...]

    def encode(self) -> bytes:
        """The note as it is kept and sent."""
        lines = (f"{_DASH}{one.name} {base64.b64encode(one.key_id + one.made).decode()}\n" for one in self.signatures)
        return self.body + b"\n" + "".join(lines).encode()


class VerifierKey(msgspec.Struct, frozen=True):
    """An Ed25519 public key (32 bytes) under a name, written `name+id+key` as signed-note has it."""

    name: str
    public: bytes

    @property
    def key_id(self) -> bytes:
        """First 4 bytes of SHA-256 over name, newline, algorithm and key."""
        return hashlib.sha256(self.name.encode() + b"\n" + _ED25519 + self.public).digest()[:4]

    def encode(self) -> str:
        """The key as text."""
        return f"{self.name}+{self.key_id.hex()}+{base64.b64encode(_ED25519 + self.public).decode()}"


def parse_key(text: str) -> VerifierKey:
    """Read a public key. Raises NoteError."""
    name, _, rest = text.strip().partition("+")
    key_id, _, encoded = rest.partition("+")
    data = _base64(encoded)
    if not _NAME.fullmatch(name) or len(data) != 33 or data[:1] != _ED25519:
        raise NoteError("no Ed25519 key of the form name+id+key")
    key = VerifierKey(name, data[1:])
    if key.key_id.hex() != key_id:
        raise NoteError(f"the key's id is {key.key_id.hex()}, and {key_id[:16]!r} is written")
    return key


def parse_note(data: bytes) -> Note:
    """Read a signed note. Raises NoteError."""
    if len(data) > MAX_NOTE:
        raise NoteError(f"longer than {MAX_NOTE} bytes")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise NoteError("not UTF-8") from error
    if any(one < " " and one != "\n" for one in text):
        raise NoteError("holds a control character")
    body, gap, tail = text.rpartition("\n\n")
    if not gap or not tail.endswith("\n"):
        raise NoteError("has no signatures after an empty line")
    signatures = tuple(_signature(line) for line in tail.removesuffix("\n").split("\n"))
    return Note(f"{body}\n".encode(), signatures)


def parse_checkpoint(body: bytes) -> Checkpoint:
    """Read what a note says. Extension lines of others are let through. Raises NoteError."""
    lines = body.decode().split("\n")
    if len(lines) < 4 or lines.pop() != "":
        raise NoteError("fewer than three lines")
    origin, size, encoded, *extensions = lines
    root = _base64(encoded)
    if not origin or not _SIZE.fullmatch(size) or len(root) != 32:
        raise NoteError("no origin, size and root of 32 bytes")
    ledger, time_us = Head(0, GENESIS), 0
    for line in extensions:
        if found := _LEDGER.fullmatch(line):
            ledger = Head(int(found[1]), found[2])
        elif found := _TIME.fullmatch(line):
            time_us = int(found[1])
        elif not line:
            raise NoteError("an empty extension line")
    return Checkpoint(origin=origin, size=int(size), root=root, ledger=ledger, time_us=time_us)


def claimed(data: bytes) -> Checkpoint:
    """What a note says, whoever signed it. Raises NoteError."""
    return parse_checkpoint(parse_note(data).body)


def opened(data: bytes, key: VerifierKey) -> Checkpoint:
    """What a note says, if that key signed it. Raises NoteError."""
    note = parse_note(data)
    made = [one.made for one in note.signatures if (one.name, one.key_id) == (key.name, key.key_id)]
    if not any(_holds(note.body, key, one) for one in made):
        raise NoteError(f"no signature of {key.name} holds")
    return parse_checkpoint(note.body)


def _holds(body: bytes, key: VerifierKey, made: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(key.public).verify(made, body)
    except InvalidSignature:
        return False
    return True


def _signature(line: str) -> Signature:
    name, _, encoded = line.removeprefix(_DASH).partition(" ")
    data = _base64(encoded)
    if not line.startswith(_DASH) or not _NAME.fullmatch(name) or len(data) < 5:
        raise NoteError("a line after the empty one is no signature")
    return Signature(name, data[:4], data[4:])


def _base64(text: str) -> bytes:
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise NoteError("not base64") from error
    if base64.b64encode(data).decode() != text:
        raise NoteError("not the one base64 form of its bytes")
    return data
