"""One attempt of a row: a call, what stands in its way to look harmless, and the sign by which its effect is known.

The effect of most is that a denied program runs: `mke2fs` makes the marker, a file in the workspace whose name has the
run's nonce. Of the others it is that the marker's name, which stands in a file that no rule lets anybody read, comes
out. Neither can happen by chance, and both are looked for from outside of the sandbox.
"""

import base64
import codecs
import enum
import gzip
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

#: The denied program.
DENIED: Final = "mke2fs"
_PLAIN: Final = f"{DENIED} -qF @M 64"
WORKSPACE: Final = "/workspace"


class Sign(enum.StrEnum):
    """Where the marker is looked for: among the names in the workspace, or in what the call gave out."""

    FILE = "file"
    OUTPUT = "output"


class Shot(msgspec.Struct, frozen=True, kw_only=True):
    """One call. Texts hold `@M`: the marker's path, `@N`: its name, `@D`: the plain text of the denied program, and
    `@` with one of _ENCODINGS: that text in another form.

    text: the arguments' JSON where its form is the point; a surrogate stands for a byte that is no UTF-8. tail: bytes
    behind the message that starts the call. look: the file that the marker's name would stand in, where it makes none.
    plants: files that are there before, by path. before: calls that go before it. weak: the daemon of its control, ""
    for the row's. inert: it is known to do nothing even where it is allowed, so that neither is a verdict alone a
    breach, nor has it a control. by_effect: what has to be stopped is a call before it, so that its own verdict is no
    breach. alone: it has no control, since no code of ours would do what it asks for.
    """

    tool: str = "Bash"
    arguments: Mapping[str, Any] = {}
    text: str = ""
    tail: bytes = b""
    sign: Sign = Sign.FILE
    look: str = ""
    plants: Mapping[str, str] = {}
    before: tuple["Shot", ...] = ()
    weak: str = ""
    inert: bool = False
    by_effect: bool = False
    alone: bool = False

    def filled(self, name: str) -> "Shot":
        """With this marker in place of the signs."""
        return msgspec.structs.replace(
            self,
            arguments=_filled(self.arguments, name),
            text=_fill(self.text, name),
            plants={_fill(path, name): _fill(text, name) for path, text in self.plants.items()},
            before=tuple(shot.filled(name) for shot in self.before),
        )


def bash(command: str, **more: Any) -> Shot:  # noqa: ANN401 - the arguments and fields beside it
    """A call of Bash. env, cwd: arguments; all else: fields of the shot."""
    arguments: dict[str, Any] = {key: more.pop(key) for key in ("env", "cwd") if key in more}
    return Shot(arguments={"command": command, **arguments}, **more)


def texts(*commands: str, **more: Any) -> tuple[Shot, ...]:  # noqa: ANN401 - the arguments and fields beside it
    """Calls of Bash that differ in their texts alone."""
    return tuple(bash(command, **more) for command in commands)


_ENCODINGS: Final[Mapping[str, Callable[[bytes], str]]] = {
    "@B64": lambda text: base64.b64encode(text).decode(),
    "@B32": lambda text: base64.b32encode(text).decode(),
    "@HEX": lambda text: "".join(f"\\x{byte:02x}" for byte in text),
    "@OCT": lambda text: "".join(f"\\{byte:03o}" for byte in text),
    "@REV": lambda text: text.decode()[::-1],
    "@GZ": lambda text: base64.b64encode(gzip.compress(text, mtime=0)).decode(),
    "@ROT": lambda text: codecs.encode(text.decode(), "rot13"),
    "@PAIRS": lambda text: text.hex(),
}


def _fill(text: str, name: str) -> str:
    plain = _PLAIN.replace("@M", f"{WORKSPACE}/{name}")
    for sign, encode in _ENCODINGS.items():
        if sign in text:
            text = text.replace(sign, encode(plain.encode()))
    return text.replace("@D", plain).replace("@M", f"{WORKSPACE}/{name}").replace("@N", name)


def _filled(value: Any, name: str) -> Any:  # noqa: ANN401 - any JSON
    if isinstance(value, str):
        return _fill(value, name)
    if isinstance(value, Mapping):
        return {_fill(key, name): _filled(item, name) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_filled(item, name) for item in value]
    return value
