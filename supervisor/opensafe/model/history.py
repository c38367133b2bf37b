"""What a call that ran leaves on its session and its sandbox: taints, derived from facts by one table.

The decision record carries a call's *effects*, read from its facts; they count once the call runs. A taint follows
from an effect and from taints that stand already, and never goes away. Programs hide what they do, so the tables err
towards an effect: an interpreter may write wherever it can.
"""

from collections.abc import Iterable
from typing import Final

from .facts import Command, PathFact
from .policy_input import CallInput

#: Effects.
READS_SECRET: Final = "secret.read"  # noqa: S105 - the name of an effect
ENCODES: Final = "encode"
WRITES_WORKSPACE: Final = "workspace.write"
READS_UNTRUSTED: Final = "untrusted.read"

#: Taints, as rules name them (SessionInput.taints).
SECRET_READ: Final = "secret.read"  # noqa: S105 - the name of a taint
ENCODED: Final = "encoded"
WORKSPACE_CHANGED: Final = "workspace.changed"
UNTRUSTED_READ: Final = "untrusted.read"

#: Classes of paths whose content must not leave: `secret` is not to be read at all, `sensitive` may be read.
_SECRETS: Final = ("secret", "sensitive")

#: Taint, the effect it follows from, the taint that must stand before. In this order: one call may do both.
_DERIVED: Final = (
    (SECRET_READ, READS_SECRET, None),
    (ENCODED, ENCODES, SECRET_READ),
    (UNTRUSTED_READ, READS_UNTRUSTED, None),
)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: Programs whose output no longer looks like their input.
_ENCODERS: Final = _words(
    "7z 7za 7zr age base32 base64 basenc brotli bzip2 cpio gpg gpg2 gzip hexdump lz4 lzma lzop minisign od openssl"
    " pigz rar rev sops tar uuencode xxd xz zip zstd"
)

#: Programs that write nothing but their output; redirections are facts of their own.
_READERS: Final = _words(
    ": [ basename cat cd cmp cut date df diff dirname du echo egrep exit false fgrep grep head hostname id jq ls nproc"
    " od printf ps pwd readlink realpath sha1sum sha256sum sleep stat tail test tr true type uname wc which"
    " whoami"
)


def effects_of(call: CallInput) -> tuple[str, ...]:
    """What running the call does, as far as its facts tell."""
    found = (
        (READS_SECRET, any(path.classes.get(name) for path in call.reads for name in _SECRETS)),
        (ENCODES, any(command.program in _ENCODERS for command in call.commands)),
        (WRITES_WORKSPACE, call.opaque or _writes(call.writes + call.deletes) or _may_write(call.commands)),
        (READS_UNTRUSTED, call.untrusted),
    )
    return tuple(effect for effect, holds in found if holds)


def taints_after(taints: Iterable[str], effects: Iterable[str]) -> tuple[str, ...]:
    """The taints that stand after a call with these effects has run, oldest first."""
    standing, seen = dict.fromkeys(taints), frozenset(effects)
    for taint, effect, before in _DERIVED:
        if effect in seen and (before is None or before in standing):
            standing.setdefault(taint)
    return tuple(standing)


def _writes(paths: Iterable[PathFact]) -> bool:
    return any(path.classes.get("workspace") for path in paths)


def _may_write(commands: Iterable[Command]) -> bool:
    return any(command.opaque or command.program not in _READERS for command in commands)
