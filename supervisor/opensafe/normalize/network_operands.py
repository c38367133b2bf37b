"""Operands of the programs that talk to a peer: a peer is a host with or without a scheme, all else is a file."""

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Final

from .options import Use, split_options
from .word import HOLE, UNKNOWN, Word

_REMOTE: Final = re.compile(r"(?:([^@/\s:]+)@)?([^@/\s:\[\]]+|\[[^\]]+\]):(?!//)(.*)", re.DOTALL)
_PORTISH: Final = re.compile(r"[0-9]{1,5}(?:-[0-9]{1,5})?")
_DIG_WORDS: Final = frozenset(
    {"A", "AAAA", "ANY", "AXFR", "CAA", "CNAME", "DNSKEY", "DS", "HINFO", "IN", "CH", "MX", "NAPTR", "NS",
     "PTR", "SOA", "SRV", "TXT"}
)  # fmt: skip


def netcat(args: Sequence[Word]) -> Iterator[Use]:
    options = dict.fromkeys("eciIgGmopqsTVwXxO", "")
    operands, given = split_options(args, options)
    for name, value in given:
        if name in ("x", "g"):
            yield Use("host", value)
    listens = any(re.match(r"-[A-Za-z]*l", word.text) for word in args)
    local = any(re.match(r"-[A-Za-z]*U", word.text) for word in args)
    if local:
        yield from (Use("read", word) for word in operands[:1])
    elif operands and not (listens and _PORTISH.fullmatch(operands[0].text)):
        yield Use("host", _with_port(operands))


def _with_port(operands: Sequence[Word]) -> Word:
    host = operands[0]
    if len(operands) > 1 and _PORTISH.fullmatch(operands[1].text) and host.known and host.text.count(":") == 0:
        return Word(f"{host.text}:{operands[1].text}")
    return host


def telnet(args: Sequence[Word]) -> Iterator[Use]:
    operands, _ = split_options(args, dict.fromkeys("lbenSX", ""))
    if operands:
        yield Use("host", _with_port(operands))


def ssh(args: Sequence[Word]) -> Iterator[Use]:
    valued = dict.fromkeys("BbcDEeFIiJLlmOopQRSWw", "")
    operands, options = split_options(args, valued)
    port = next((value.text for name, value in options if name == "p"), "")
    for name, value in options:
        if name in ("J", "W"):
            yield from (Use("host", Word(hop), "ssh") for hop in value.text.split(","))
        elif name in ("i", "F"):
            yield Use("read", value)
        elif name == "E":
            yield Use("write", value)
    if operands and "://" not in operands[0].text:
        text = operands[0].text
        yield Use("host", Word(f"{text}:{port}" if port and ":" not in text else text), "ssh")


def copy(args: Sequence[Word]) -> Iterator[Use]:
    """scp, sftp, rsync: `[user@]host:path` is remote, all else is local; the last operand is written."""
    operands, options = split_options(args, dict.fromkeys("cDeFiJlMoPSXTB", ""))
    for name, value in options:
        if name in ("i", "F"):
            yield Use("read", value)
        elif name == "J":
            yield Use("host", value, "ssh")
    deletes = any(word.text.startswith("--del") for word in args)
    for at, word in enumerate(operands):
        remote = remote_of(word)
        if "://" in word.text:
            continue
        last = at == len(operands) - 1 and at > 0
        if remote is not None:
            yield remote
        else:
            yield Use("write" if last else "read", word)
        if last and deletes and remote is None:
            yield Use("delete", word)


def sftp(args: Sequence[Word]) -> Iterator[Use]:
    operands, _ = split_options(args, dict.fromkeys("BbcDFiJloPRSs", ""))
    for word in operands[:1]:
        if "://" not in word.text:
            yield remote_of(word) or Use("host", word, "ssh")


def remote_of(word: Word) -> Use | None:
    found = _REMOTE.fullmatch(word.text)
    if found is None or found[2].startswith((".", "/")):
        return None
    return Use("host", Word(f"{found[1]}@{found[2]}" if found[1] else found[2]), "ssh")


def dig(args: Sequence[Word]) -> Iterator[Use]:
    operands, options = split_options(args, dict.fromkeys("bcfkpqtxy", ""))
    for name, value in options:
        if name in ("q", "x"):
            yield Use("host", value)
        elif name in ("f", "k"):
            yield Use("read", value)
    for word in operands:
        text = word.text
        if text.startswith("@"):
            yield Use("host", Word(text[1:]), "dns")
        elif not text.startswith("+") and text.upper() not in _DIG_WORDS:
            yield Use("host", word)


def socat(args: Sequence[Word]) -> Iterator[Use]:
    for word in args:
        if word.text.startswith("-") and word.text != "-":
            continue
        kind, _, rest = word.text.partition(":")
        if re.fullmatch(r"(?i)(tcp|udp|openssl|ssl|sctp|socks4a?|proxy|dtls)[46]?(-connect|-sendto|-datagram)?", kind):
            yield Use("host", Word(rest.split(",")[0]), kind.lower()[:3])
        elif re.match(r"(?i)(open|create|file|gopen|unix)", kind):
            yield from (Use(role, Word(rest.split(",")[0])) for role in ("read", "write"))
        elif HOLE in kind:
            yield Use("host", UNKNOWN)


def openssl(args: Sequence[Word]) -> Iterator[Use]:
    for option, value in pairwise(args):
        match option.text:
            case "-connect" | "-proxy" | "-host":
                yield Use("host", value, "tls")
            case "-in" | "-inkey" | "-key" | "-cert" | "-CAfile" | "-config" | "-kfile" | "-certfile":
                yield Use("read", value)
            case "-out" | "-keyout" | "-writerand":
                yield Use("write", value)
            case _:
                pass


def httpie(args: Sequence[Word]) -> Iterator[Use]:
    operands, _ = split_options(args, dict.fromkeys("aops", ""))
    for word in operands[:2]:
        if not re.fullmatch(r"[A-Z]+", word.text) and not re.search(r"[^/]=|:=", word.text):
            yield Use("host", word, "http")


def pip(args: Sequence[Word]) -> Iterator[Use]:
    valued = dict.fromkeys(["trusted-host", "proxy", "r", "requirement", "t", "target", "i", "index-url"], "")
    for name, value in split_options(args, valued)[1]:
        if name in ("trusted-host", "proxy"):
            yield Use("host", value)
        elif name in ("r", "requirement"):
            yield Use("read", value)
        elif name in ("t", "target"):
            yield Use("write", value)


NETWORK_PROGRAMS: Final[dict[str, Callable[[Sequence[Word]], Iterator[Use]]]] = {
    "dig": dig, "drill": dig, "ftp": telnet, "http": httpie, "https": httpie, "nc": netcat, "ncat": netcat,
    "netcat": netcat, "openssl": openssl, "pip": pip, "pip3": pip, "rsync": copy, "scp": copy, "sftp": sftp,
    "socat": socat, "ssh": ssh, "telnet": telnet, "tftp": telnet,
}  # fmt: skip
