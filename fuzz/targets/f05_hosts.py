"""F5: what names a network peer is read as one host or refused, and matched label by label.

References: `urllib.parse` and a cut after the URL Standard (WHATWG) for where the host stands in a text, libc's
inet_aton and inet_pton for addresses, address ranges as numbers, and a comparison of lists of labels.
"""

import re
import socket
import unicodedata
import urllib.parse
from typing import Final

from opensafe.egress import paths
from opensafe.egress.callers import Callers
from opensafe.egress.judge import EgressJudge, Question
from opensafe.egress.reports import Reports
from opensafe.model.facts import ClassTables
from opensafe.normalize import urls
from opensafe.proof.fuzzing import inner
from opensafe.proof.fuzzing.draw import Draw
from opensafe.proof.fuzzing.target import Target, holds
from opensafe.proof.mutants import Mutant

_LISTED: Final = ("example.test", "*.a.test", "*.b.a.test", "10.0.0.1", "Deep.*", "*.xn--bcher-kva.test")
_TABLES: Final = ClassTables(hosts={pattern: (pattern,) for pattern in _LISTED})
_JUDGE: Final = EgressJudge(Callers(), Reports(lambda _connection: None))


def one(data: bytes) -> None:
    """Read a text as a host, as a question at the gateway, and as a path."""
    draw = Draw(data)
    what, port = draw.number(0, 3), draw.number(0, 65536)
    text = draw.rest().decode("utf-8", "surrogateescape")
    if what == 3:
        _path(text)
        return
    _name(text)
    _url(text)
    _question(text, port)


def _name(text: str) -> None:
    name = urls.canonical_name(text)
    if name is None:
        return
    holds(name.isascii() and name == name.lower(), "a canonical name is lower-case ASCII", name)
    holds(urls.canonical_name(name) == name, "a canonical name is its own canonical name", (text, name))
    if text.isascii():
        other = urls.canonical_name(text.swapcase())
        holds(other == name, "case makes no difference", (text, name, other))
    plain = unicodedata.normalize("NFKC", text).lower()
    if plain.isascii() and ":" not in plain:
        other = urls.canonical_name(plain)
        holds(other in (None, name), "compatible characters make no difference", (text, name, other))
    reached = _reached(text.strip("[]")) if text.isascii() else None
    if reached is not None:
        holds(name == reached, "an address has one spelling, that of what is reached", (text, name, reached))
    if urls.is_address(name):
        holds(_reached(name) is not None, "what is said to be an address is one", (text, name))
    _classes(name)


def _reached(text: str) -> str | None:
    """Where libc would connect to; None where the text is no address. inet_aton stops at a space: not asked then."""
    if not text or "\0" in text or any(char.isspace() for char in text):
        return None
    if ":" not in text:
        try:
            return socket.inet_ntoa(socket.inet_aton(text))
        except (OSError, UnicodeError):
            return None
    try:
        raw = socket.inet_pton(socket.AF_INET6, text)
    except (OSError, UnicodeError):
        return None
    reached = inner.carried(raw)
    if len(reached) == 4:
        return socket.inet_ntoa(reached)
    return _plain6(raw)


def _plain6(raw: bytes) -> str:
    """RFC 5952, without a dotted end: the longest run of zero groups becomes `::`, the first of equal ones."""
    groups = " ".join(f"{int.from_bytes(raw[at : at + 2]):x}" for at in range(0, 16, 2))
    found = max(re.finditer(r"(?:\b0\b ?){2,}", groups), key=lambda run: run[0].count("0"), default=None)
    if found is None:
        return groups.replace(" ", ":")
    return "::".join(":".join(part.split()) for part in (groups[: found.start()], groups[found.end() :]))


def _classes(name: str) -> None:
    classes = urls.classify_host(name, _TABLES)
    for pattern in _LISTED:
        listed = urls.canonical_name(pattern.removeprefix("*."))
        expected = listed is not None and _matches(name, listed, wild=pattern.startswith("*."))
        holds((pattern in classes) == expected, "a pattern holds for whole labels", (pattern, name))
    if not urls.is_address(name):
        return
    refused = classes.keys() & {"private", "loopback", "link_local", "metadata"}
    holds(
        bool(refused) or not inner.is_inner(inner.packed(name)),
        "an inner address has its class",
        (name, sorted(classes)),
    )


def _matches(name: str, listed: str, *, wild: bool) -> bool:
    if not wild:
        return name == listed
    labels, end = name.split("."), listed.split(".")
    return not urls.is_address(name) and len(labels) > len(end) and labels[-len(end) :] == end


def _url(text: str) -> None:
    host = urls.parse_host(text, tables=_TABLES)
    if host is None:
        return
    for reader in (_urllib, _whatwg):
        seen = reader(text)
        if seen is None:
            continue
        name, port = seen
        holds(name == host.name, f"{reader.__name__[1:]} reads the same host", (text, host.name, name))
        written = host.port if port is not None else None
        holds(port == written, f"{reader.__name__[1:]} reads the same port", (text, host.port, port))
    holds(host.port is None or 0 < host.port < 65536, "a port is a port", (text, host.port))


def _urllib(text: str) -> tuple[str | None, int | None] | None:
    try:
        split = urllib.parse.urlsplit(text if re.match(r"[A-Za-z][A-Za-z0-9+.-]*://|//", text) else f"//{text}")
        host, port = split.hostname or "", split.port
    except ValueError:
        return None
    return _reached(host) or urls.canonical_name(host), port


def _whatwg(text: str) -> tuple[str | None, int | None] | None:
    """The authority state of a special scheme: white space and control characters around are gone, a tab or a line's
    end anywhere, a backslash is a slash, the last `@` ends the user.
    """
    text = re.sub(r"[\t\n\r]", "", text.strip("".join(map(chr, range(33)))))
    scheme = re.match(r"[A-Za-z][A-Za-z0-9+.-]*:(?=[/\\]{2})", text)
    rest = (text[scheme.end() :] if scheme else text).replace("\\", "/")
    authority = re.split(r"[/?#]", rest.removeprefix("//"), maxsplit=1)[0]
    host = urllib.parse.unquote(authority.rpartition("@")[2])
    split = re.fullmatch(r"(\[[^\]]*\]|[^:]*)(?::([0-9]*))?", host)
    if split is None:
        return None
    return _reached(split[1].strip("[]")) or urls.canonical_name(split[1]), int(split[2]) if split[2] else None


def _question(text: str, port: int) -> None:
    """The gateway reads the name of a question, whose port is the one that was connected to."""
    verdict = _JUDGE.weigh(None, Question(source="10.0.0.1", layer="http", name=text, port=port), None)
    holds(not verdict.allowed, "without a policy nothing is allowed", text)
    if not verdict.name:
        holds(verdict.hits, "a refusal says why", text)
        return
    holds(text.isascii(), "on the wire a name is ASCII", text)
    holds(not set(text) & set("/?#"), "nothing follows an authority", text)
    _, written = _whatwg(text) or (None, None)
    holds(written in (None, port), "the port named is the port reached", (text, port))


def _path(text: str) -> None:
    path = paths.judged(text)
    if not path:
        return
    raw = re.split(r"[?#]", text, maxsplit=1)[0]
    holds(urllib.parse.unquote(path) == path, "a path is decoded as often as a server could", (raw, path))
    holds(urllib.parse.unquote(raw) == path, "the path judged is the path sent", (raw, path))
    walked: list[str] = []
    for segment in path.split("/")[1:]:
        walked = walked[:-1] if segment.split(";")[0] == ".." else [*walked, segment]
    holds("/" + "/".join(walked) == path, "no server would walk to another path", (raw, path))
    holds("\\" not in path and not re.search(r"[\x00-\x1f]", path), "no separator of another kind", (raw, path))


_TEXTS: Final = (
    "example.test", "x.a.test", "nota.test", "a.test", "y.b.a.test", "EXAMPLE.test.", "http://example.test:80/x",
    "https://user:pw@x.a.test/", "http://a@b@c.test", "http://a.test\\@evil.test/", "http://a.test#@evil.test",
    "2130706433", "0x7f.1", "0177.0.0.01", "127.1", "127.0.0.1", "0x7f000001", "169.254.169.254", "http://0/",
    "[::1]", "[::ffff:127.0.0.1]:80", "[64:ff9b::a9fe:a9fe]", "[fe80::1%25eth0]", "fd00:ec2::254", "[::7f00:1]",
    "１２７.０.０.１", "ｅｘａｍｐｌｅ.test", "bücher.test", "x.xn--bcher-kva.test", "a。test", "http://[::1]:65536/",
    "//x.a.test:443", "ftp://x.a.test", "ssh://git@x.a.test:22/r", "http://x.a.test:0x50", "http://a.test%2e", "::",
)  # fmt: skip
_PATHS: Final = (
    "/a/b", "/a/%2e%2e/b", "/a/..;/b", "/a//b", "/%252e", "/a\\b", "/a/./b?x=../", "/ä/%C3%A4", "/%ff", "/x;y",
)  # fmt: skip


def seeds() -> list[bytes]:
    """Spellings of hosts that programs have read differently, and of paths."""
    hosts = [bytes([index % 3, 0, 0, 80]) + text.encode() for index, text in enumerate(_TEXTS)]
    return [*hosts, *(b"\x03\0\0\0" + path.encode() for path in _PATHS)]


_URLS: Final = "normalize/urls.py"
TARGET: Final = Target(
    id="F5",
    title="hosts, addresses, patterns and paths of the network",
    one=one,
    seeds=seeds,
    modules=("opensafe.normalize.urls", "opensafe.egress.paths", "opensafe.egress.judge"),
    floor=100,
    words=(
        b"http://", b"https://", b"//", b"@", b"\\", b":80", b":443", b"#", b"?", b"%2e", b"%2f", b"..", b"/", b";",
        b"[::ffff:", b"[64:ff9b::", b"[::1]", b"]", b"0x7f", b"0177", b"127.1", b"a.test", b"*.", b"example.test",
        b"xn--", b"169.254.169.254", "。".encode(), "ａ".encode(), b"%25", b"\0",
    ),
    mutants=(
        Mutant(
            id="F5-suffix", file=_URLS,
            old="found.update(dict.fromkeys(self._deeper.get(parent, ()), True))",
            new="found.update({n: True for k, ns in self._deeper.items() if host.endswith(k) for n in ns})",
            says="a pattern matches the end of the text, not whole labels",
        ),
        Mutant(
            id="F5-case", file=_URLS,
            old='host = host.lower().removesuffix(".")', new='host = host.removesuffix(".")',
            says="names are not lowered",
        ),
        Mutant(
            id="F5-mapped", file=_URLS,
            old="if address.ipv4_mapped is not None:", new="if False:",
            says="an IPv4 address in an IPv6 one is judged as IPv6",
        ),
        Mutant(
            id="F5-octal", file=_URLS,
            old='return int(text, 8) if text.startswith("0") else int(text)', new="return int(text)",
            says="octal parts of an address are read as decimal",
        ),
        Mutant(
            id="F5-backslash", file=_URLS,
            old=r"""\x20\x7f-\xa0\\<>""", new=r"""\x20\x7f-\xa0<>""",
            says="a backslash may stand in an authority",
        ),
        Mutant(
            id="F5-port", file="egress/judge.py",
            old="or host.port not in (None, question.port)", new="",
            says="a name may carry another port than the one reached",
        ),
        Mutant(
            id="F5-decode", file="egress/paths.py",
            old='"//" in path or _DOUBTFUL.search(path)', new='"//" in path',
            says="a path escaped twice is judged as if it were escaped once",
        ),
    ),
)  # fmt: skip
