"""Credentials that are put into requests at the edge: the guest writes a placeholder, the server reads the secret.

Only a request that is read here, to the host that the credential is bound to, in the header that it is bound to, gets
one. Wherever else the text of a placeholder is seen it is misplaced, and the rules refuse it: it would teach nobody
anything, but shows a program that sends its credentials astray.
"""

import base64
import binascii
import ctypes
import html
import json
import re
import urllib.parse
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from opensafe.model.termination import PLACEHOLDER, Credential

#: What the rules are told.
PUT, MISPLACED = "put", "misplaced"
_PR_SET_DUMPABLE: Final = 4
#: RFC 9110, 11.1: a scheme, blanks, and what it takes.
_SCHEME: Final = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9._-]{0,31}) +(?P<rest>[^ ,]+)", re.ASCII)


def hide_memory() -> None:
    """Close this process to others of its user, who could read its memory (prctl(2)). Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_DUMPABLE)")


class Found(msgspec.Struct, frozen=True):
    """use: PUT, MISPLACED or "". header, value: to be set. secrets: what the answer must not show."""

    use: str = ""
    header: str = ""
    value: str = ""
    secrets: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Found(use={self.use!r}, header={self.header!r})"


_NOTHING: Final = Found()
_ASTRAY: Final = Found(MISPLACED)


class Credentials:
    """Those of this site. `close` forgets them."""

    def __init__(self, held: Iterable[Credential] = ()) -> None:
        self._held: dict[tuple[str, str], list[tuple[str, bytearray]]] = {}
        for one in held:
            self._held.setdefault((one.host, one.header), []).append((one.placeholder, bytearray(one.secret)))

    def close(self) -> None:
        """Forget them; of the copies that the interpreter made, this reaches its own alone."""
        for pairs in self._held.values():
            for _, secret in pairs:
                secret[:] = bytes(len(secret))
        self._held.clear()

    def look(self, host: str, target: str, headers: Mapping[str, str]) -> Found:
        """What to do with a request. host: canonical, of one that is terminated here; "" where it is not.

        target: with the query. headers: by lower-case name, repeated ones joined.
        """
        if not self._held:
            return _NOTHING
        if _shows(target) or _shows(urllib.parse.unquote(target)):
            return _ASTRAY
        found = _NOTHING
        for name, value in headers.items():
            if not _shows(value) and not _shows(_basic(value)):
                continue
            put = self._put(host, name, value)
            if put is None or found is not _NOTHING:
                return _ASTRAY
            found = put
        return found

    def _put(self, host: str, header: str, value: str) -> Found | None:
        for placeholder, held in self._held.get((host, header), ()):
            secret = held.decode("ascii")
            if value == placeholder:
                return Found(PUT, header, secret, _forms(secret))
            parts = _SCHEME.fullmatch(value)
            if parts is None:
                continue
            scheme, rest = parts["scheme"], parts["rest"]
            if rest == placeholder:
                return Found(PUT, header, f"{scheme} {secret}", _forms(secret))
            user, colon, password = _basic(value).partition(":")
            if colon and password == placeholder and not _shows(user):
                # A user that the guest chooses stands before it, so the secret's digits differ by where it begins.
                pair = base64.b64encode(f"{user}:{secret}".encode()).decode()
                return Found(PUT, header, f"{scheme} {pair}", _forms(secret, pair))
        return None


def _forms(*texts: str) -> tuple[str, ...]:
    """As a server that repeats them may write them: as they are, in JSON, in a URL and in HTML."""
    each = []
    for text in texts:
        quoted, escaped = json.dumps(text)[1:-1], urllib.parse.quote(text, safe="")
        lower = re.sub("%..", lambda byte: byte[0].lower(), escaped)
        each += [text, quoted, quoted.replace("/", "\\/"), escaped, lower, html.escape(text)]
    return tuple(dict.fromkeys(each))


def _shows(text: str) -> bool:
    return PLACEHOLDER in text.lower()


def _basic(value: str) -> str:
    """User and password of a value that has them (RFC 7617); "" otherwise."""
    parts = _SCHEME.fullmatch(value)
    if parts is None or parts["scheme"].lower() != "basic":
        return ""
    rest = parts["rest"]
    try:
        return base64.b64decode(rest + "=" * (-len(rest) % 4), validate=True).decode("utf-8")
    except (binascii.Error, ValueError):
        return ""
