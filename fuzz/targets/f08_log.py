"""F8: a log that was touched anywhere is told from one that was not, by its chain, or by a head kept elsewhere.

References: the change that was made, of which the first line that can't stand where it does is known; RFC 6962's tree
hash written down as the RFC has it; Python's json module for what a line says.
"""

import hashlib
import json
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from opensafe.model import chain, checkpoint, merkle
from opensafe.model.canonical import NotCanonicalError, canonical_json, leaf_hash, read_canonical
from opensafe.proof.fuzzing import values
from opensafe.proof.fuzzing.draw import Draw
from opensafe.proof.fuzzing.target import Target, holds
from opensafe.proof.mutants import Mutant

_KEY: Final = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
_PUBLIC: Final = checkpoint.VerifierKey("log.test", _KEY.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw))
_NAMES: Final = ("kind", "call", "a", "\u00e9", "index", "prev")
_TEXTS: Final = ("decision", "a\nb", '"}\n{"', "\u2028", "\x1b[2J", "\x7f", "é", "")


def one(data: bytes) -> None:
    """Make a log, touch it, and verify; or read bytes as a record; or touch a signed checkpoint."""
    draw = Draw(data)
    match draw.number(0, 3):
        case 0:
            _line(draw.rest())
        case 1:
            _note(draw)
        case _:
            lines = _log(draw)
            _untouched(lines)
            _tree([merkle.leaf(line) for line in lines], draw)
            _touched(draw, lines)


def _log(draw: Draw) -> list[bytes]:
    head, lines = chain.Head(), list[bytes]()
    for _ in range(draw.number(1, 7)):
        record: dict[str, Any] = {"kind": draw.pick(_TEXTS), "call": draw.pick(_TEXTS), "n": draw.number(0, 300)}
        sealed = chain.seal(head, record)
        holds(b"\n" not in sealed.line, "a record is one line", sealed.line)
        holds(
            json.loads(sealed.line) == {**record, "index": head.size, "prev": head.leaf}, "a line says what was sealed"
        )
        head, lines = sealed.head, [*lines, sealed.line]
    return lines


def _head(lines: Sequence[bytes]) -> chain.Head:
    """Where a log ends. Raises ChainBrokenError."""
    links = list(chain.verify(lines))
    holds([link.index for link in links] == list(range(len(links))), "every record has its place", links)
    return chain.Head(len(links), links[-1].leaf) if links else chain.Head()


def _untouched(lines: Sequence[bytes]) -> None:
    head = _head(lines)
    holds(head == chain.Head(len(lines), leaf_hash(lines[-1])), "what was appended is verified", head)


def _touched(draw: Draw, lines: list[bytes]) -> None:
    kept, at = _head(lines), draw.number(0, len(lines) - 1)
    touched, first = _touch(draw, lines, at)
    if touched == lines:
        return
    try:
        head = _head(touched)
    except chain.ChainBrokenError as broken:
        # Of the last two, if they do not fit, the end alone could say which is the bad one.
        near = {first, first - 1} if first is not None and first == len(touched) - 1 else {first}
        holds(first is None or broken.index in near, "the first bad record is named", (broken.index, first, touched))
        return
    holds(first is None or first >= len(touched) - 1, "a change before the end breaks the chain", (first, touched))
    holds(head != kept, "a change at the end shows against a kept head", (head, touched))


def _touch(draw: Draw, lines: list[bytes], at: int) -> tuple[list[bytes], int | None]:
    """The log with one change, and the first line that is out of place; None where only the end can tell."""
    before, line, after = lines[:at], lines[at], lines[at + 1 :]
    match draw.number(0, 7):
        case 7:  # a fragment that nothing accounts for
            return [*before, b'{"kind":', line, *after], at
        case 0:  # one byte
            place = draw.number(0, len(line) - 1)
            changed = line[:place] + bytes([draw.byte()]) + line[place + 1 :]
            return [*before, changed, *after], at if b"\n" not in changed and changed != line else None
        case 1:  # one value, in canonical form
            record = json.loads(line)
            record["call"] = str(record["call"]) + "x"
            return [*before, canonical_json(record), *after], at
        case 2:
            return before + after, at if after else None
        case 3 if after:
            return [*before, after[0], line, *after[1:]], at
        case 4:
            return [*before, line, line, *after], at + 1
        case 5:  # a forged record, and nothing bound to it
            forged = chain.seal(_head(before), {"kind": "decision", "forged": True})
            return [*before, forged.line, line, *after], None
        case _:  # all that follows, bound anew
            head, anew = _head(before), list(before)
            for number, old in enumerate(lines[at:]):
                record = json.loads(old)
                sealed = chain.seal(head, record | {"call": "forged"} if number == 0 else record)
                head, anew = sealed.head, [*anew, sealed.line]
            return anew, None


def _line(text: bytes) -> None:
    """What is read as canonical is the one form of what it says, to every reader."""
    try:
        value = read_canonical(text)
    except (NotCanonicalError, msgspec.DecodeError, ValueError, RecursionError):
        return
    holds(json.loads(text) == value, "another reader reads the same", text)
    try:
        holds(canonical_json(value) == text, "there is one canonical form", text)
    except NotCanonicalError as error:
        holds(str(error).startswith("nested deeper"), "what was read can be written", (text, str(error)))
    spaced = json.dumps(value).encode()
    if spaced != text:
        try:
            read_canonical(spaced)
        except (NotCanonicalError, msgspec.DecodeError, ValueError, RecursionError):
            return
        holds(False, "another form is refused", spaced)


def _hash(leaves: Sequence[bytes]) -> bytes:
    """MTH of RFC 6962, 2.1, over leaf hashes."""
    if len(leaves) == 1:
        return leaves[0]
    split = 1
    while split * 2 < len(leaves):
        split *= 2
    return hashlib.sha256(b"\x01" + _hash(leaves[:split]) + _hash(leaves[split:])).digest()


def _tree(leaves: Sequence[bytes], draw: Draw) -> None:
    root, at = _hash(leaves), draw.number(0, len(leaves) - 1)
    holds(merkle.root(leaves) == root, "the tree's root is RFC 6962's", len(leaves))
    path = merkle.inclusion(leaves, at)
    holds(merkle.root_by_inclusion(leaves[at], at, len(leaves), path) == root, "a leaf is proved", at)
    other = leaves[at - 1]
    if other != leaves[at]:
        holds(merkle.root_by_inclusion(other, at, len(leaves), path) != root, "no other leaf is proved there", at)
    older = _hash(leaves[: at + 1])
    proof = merkle.consistency(leaves, at + 1)
    holds(merkle.roots_by_consistency(at + 1, len(leaves), older, proof) == (older, root), "growth is proved", at)
    if at + 1 < len(leaves):
        forged = hashlib.sha256(older).digest()
        made = merkle.roots_by_consistency(at + 1, len(leaves), forged, proof)
        holds(made != (forged, root), "growth from another tree is not proved", at)


def _note(draw: Draw) -> None:
    said = checkpoint.Checkpoint(origin="log.test", size=draw.number(0, 999), root=draw.data(32).ljust(32, b"\1"))
    body = said.body()
    signed = checkpoint.Signature(_PUBLIC.name, _PUBLIC.key_id, _KEY.sign(body))
    note = checkpoint.Note(body, (signed,)).encode()
    holds(checkpoint.opened(note, _PUBLIC) == said, "what was signed is read", note)
    if draw.flag():  # another body under the same signature
        other = checkpoint.Checkpoint(origin=said.origin, size=said.size + 1, root=said.root).body()
        touched = checkpoint.Note(other, (signed,)).encode()
    else:
        place = draw.number(0, len(note) - 1)
        touched = note[:place] + draw.data(3) + note[place + draw.number(0, 3) :]
    try:
        read = checkpoint.opened(touched, _PUBLIC)
    except checkpoint.NoteError:
        return
    holds(read == said, "what was not signed is not read", touched)


def seeds() -> list[bytes]:
    """Every kind of change of a few logs, records that are and are not canonical, notes."""
    draw = Draw(bytes(range(256)))
    texts = (
        '{"a":1,"b":"x"}',
        '{"b":1,"a":2}',
        '{"a": 1}',
        '{"a":1.0}',
        '{"a":9007199254740993}',
        '{"a":"\\u00e9"}',
        "[1]",
        "7",
    )
    made = [values.object_of(draw, _NAMES, _TEXTS) for _ in range(6)]
    lines = [b"\0" + text.encode("utf-8", "surrogatepass") for text in (*texts, *made)]
    touched = [
        bytes([2, 4, *range(at, at + 12), 0, at % 5, at % 5, kind]) for at in range(0, 10, 3) for kind in range(7)
    ]
    changed = [bytes([2, count, *[count] * 3 * (count + 1), 0, *[kind] * 6]) for count in range(5) for kind in range(8)]
    return lines + touched + changed + [bytes([1, 3, 9, 32, *range(34), flag, 30]) for flag in (0, 1)]


_CHAIN: Final = "model/chain.py"
TARGET: Final = Target(
    id="F8",
    title="the audit log: chain, canonical form, tree, signed checkpoints",
    one=one,
    seeds=seeds,
    modules=("opensafe.model.chain", "opensafe.model.canonical", "opensafe.model.merkle", "opensafe.model.checkpoint"),
    floor=100,
    longest=512,
    mutants=(
        Mutant(
            id="F8-index", file=_CHAIN, old='if record.get("index") != index:', new="if False:",
            says="a record may carry another's number",
        ),
        Mutant(
            id="F8-prev", file=_CHAIN, old='if record.get("prev") != head.leaf:', new="if False:",
            says="a record need not be bound to the one before",
        ),
        Mutant(
            id="F8-canonical", file="model/canonical.py", old="if _encoder.encode(value) != line:", new="if False:",
            says="a record may have another form",
        ),
        Mutant(
            id="F8-blame", file=_CHAIN, old="raise _blamed(error, line, next(lines, None)) from error", new="raise",
            says="the record behind the changed one is blamed",
        ),
        Mutant(
            id="F8-torn", file=_CHAIN,
            old='if link.record.get("fragment_sha256") != hashlib.sha256(fragment).hexdigest():', new="if False:",
            says="any record excuses a fragment before it",
        ),
        Mutant(
            id="F8-node", file="model/merkle.py", old='b"\\x01"', new='b"\\x00"',
            says="inner nodes are hashed like leaves",
        ),
        Mutant(
            id="F8-signature", file="model/checkpoint.py",
            old="InvalidSignature:\n        return False", new="InvalidSignature:\n        return True",
            says="a signature that does not hold is taken",
        ),
    ),
)  # fmt: skip
