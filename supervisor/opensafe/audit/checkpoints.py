"""Reading signed checkpoints and the public key, from where they lie.

    audit/key.pub            the public key that the warden published; better: a copy that was kept elsewhere
    audit/checkpoints.jsonl  every checkpoint, `{"note": …}` a line
    audit/checkpoint         the last one

Who verifies trusts one public key and nothing else. Without a key there is nothing that a checkpoint could show.
"""

import pathlib
from collections.abc import Iterator
from typing import Final

import msgspec

from opensafe.errors import AuditError
from opensafe.model.checkpoint import (
    MAX_NOTE,
    NoteError,
    VerifierKey,
    parse_key,
)

_KEY: Final = "The daemon writes it to audit/key.pub below its state directory; root and the service user can read it."
_CHECKPOINT: Final = "The daemon signs one within `audit.checkpoint_s`; root and the service user can read it."
_MAX_KEY: Final = 4096


class _Line(msgspec.Struct, frozen=True):
    note: str


def read_key(path: pathlib.Path) -> VerifierKey:
    """The public key in a file. Raises AuditError."""
    try:
        with path.open("rb") as file:
            return parse_key(file.read(_MAX_KEY).decode())
    except OSError as error:
        raise AuditError(f"no public key can be read: {error.strerror}", value=path, remedy=_KEY) from error
    except (UnicodeDecodeError, NoteError) as error:
        raise AuditError(f"the file is no public key: {error}", value=path, remedy=_KEY) from error


def read_note(path: pathlib.Path) -> bytes:
    """A signed note as it stands in a file. Raises AuditError."""
    try:
        with path.open("rb") as file:
            return file.read(MAX_NOTE + 1)
    except OSError as error:
        raise AuditError(f"no checkpoint can be read: {error.strerror}", value=path, remedy=_CHECKPOINT) from error


def read_notes(state: pathlib.Path) -> Iterator[bytes]:
    """All checkpoints that were kept beside the log, as they stand there; none where it was never signed."""
    path = state / "audit" / "checkpoints.jsonl"
    if path.exists():
        with path.open("rb") as file:
            while line := file.readline(2 * MAX_NOTE):
                if not line.endswith(b"\n") and len(line) < 2 * MAX_NOTE:
                    break  # it is being written
                try:
                    yield msgspec.json.decode(line, type=_Line).note.encode()
                except (msgspec.DecodeError, UnicodeEncodeError):
                    yield line
    last = state / "audit" / "checkpoint"
    if last.exists():
        yield read_note(last)
