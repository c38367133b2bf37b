"""F11: what an agent or a guest says becomes one record, one line, one event: nothing in it ends it, hides in it or
steers whoever reads it.

References: readers of the formats, written here: CEF's escapes, NUL-terminated records, Python's json module.
"""

import json
import re
from typing import Any, Final

from opensafe.api import file_records
from opensafe.audit import cef
from opensafe.cli import present
from opensafe.errors import FileFailed
from opensafe.model import masking
from opensafe.proof.fuzzing.draw import Draw
from opensafe.proof.fuzzing.target import Target, holds
from opensafe.proof.mutants import Mutant

_MAX: Final = 1023
_LINE_ENDS: Final = re.compile("[\n\v\f\r\x1c-\x1e\x85\u2028\u2029]")
_STEERS: Final = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]")


def one(data: bytes) -> None:
    """Put a text where records, events and terminals have texts, or read bytes as a guest's records."""
    draw = Draw(data)
    what = draw.number(0, 3)
    if what == 3:
        _records(draw.data(64), draw.rest())
        return
    text = draw.rest().decode("utf-8", "replace")
    if what == 0:
        _event(text)
    elif what == 1:
        _masked(text)
    else:
        _shown(text)


def _event(text: str) -> None:
    event: Any = {
        "metadata": {"product": {"vendor_name": "OpenSafe", "name": text, "version": "1"}, "correlation_uid": text},
        "class_uid": 6003, "activity_id": 1, "severity_id": 1, "message": text, "time": 7, "status_detail": text,
        "unmapped": {"record": {"index": 3, "leaf": "ab"}}, "actor": {"user": {"name": text}},
        "api": {"operation": text, "request": {"data": {"command": text}}},
    }  # fmt: skip
    line = cef.line(event)
    holds(not _LINE_ENDS.search(line), "an event is one line", line)
    holds(not _STEERS.sub("", line) or not re.search("[\x00-\x1f\x7f-\x9f]", line), "an event steers no terminal", line)
    extension = _extension(line)
    fields = re.findall(r"(\w+)=((?:[^=\\]|\\.)*?)(?= \w+=|$)", extension)
    joined = " ".join(f"{key}={value}" for key, value in fields)
    holds(joined == extension, "an extension is keys and values", (joined, extension))
    keys = [key for key, _ in fields]
    holds(len(keys) == len(set(keys)) and keys[0] == "rt", "no field is forged", (keys, line))
    said = dict(fields)
    if text:
        expected = re.sub("[\x00-\x09\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029]", "?", text[:_MAX])
        holds(_plain(said["suser"]) == expected, "a value is read as it was", (said["suser"], text))


def _extension(line: str) -> str:
    """What stands behind the seventh bar that no backslash stands before."""
    at, bars = 0, 0
    while bars < 7:
        if line[at] == "\\":
            at += 1
        elif line[at] == "|":
            bars += 1
        at += 1
    return line[at:]


def _plain(value: str) -> str:
    ends = {"n": "\n", "r": "\r"}
    return re.sub(r"\\(.)", lambda found: ends.get(found[1], found[1]), value)


def _masked(text: str) -> None:
    once, kinds = masking.mask(text)
    twice, again = masking.mask(once)
    holds((twice, again) == (once, ()), "masking again finds nothing", (text, once, twice))
    holds(bool(kinds) == (once != text) and set(kinds) <= set(masking.KINDS), "what is masked is told", (text, kinds))
    encoded = json.dumps({"a": text})
    read = json.loads(masking.mask(encoded)[0])
    holds(read.keys() == {"a"} and isinstance(read["a"], str), "masked JSON is JSON", (text, encoded))
    key = f"{text[:20]} AKIAABCDEFGHIJKLMNOP "
    holds("AKIAABCDEFGHIJKLMNOP" not in masking.mask(key)[0], "a key is masked wherever a word begins", key)


def _shown(text: str) -> None:
    shown = present.harmless(text)
    holds(not _LINE_ENDS.search(shown), "what is shown is one line", shown)
    holds(not _STEERS.search(shown), "what is shown steers no terminal", shown)
    holds(text.isprintable() is (shown == text), "what is harmless is shown as it is", (text, shown))
    holds(file_records.printable(text).isprintable(), "a guest's words are printable", text)


def _records(first: bytes, then: bytes) -> None:
    """A stream cut anywhere gives the same records, and each is exactly one or an error."""
    whole = _cut(first + then)
    holds(whole == _cut(first, then), "where a stream is cut makes no difference", (first, then))
    for record in whole or ():
        for read in (file_records.entry, file_records.change):
            try:
                message = read(record)
            except FileFailed:
                continue
            name = getattr(message, "name", b"") or getattr(message, "path", b"")
            holds(b"\0" not in name and b".." not in name.split(b"/"), "a name stays below", record)
            holds(not name.startswith(b"/") and (name in record), "a name is the one sent", record)
            holds(
                read is file_records.change or (b"/" not in name and 0 < len(name) <= 255),
                "an entry is one name",
                record,
            )
    try:
        done = file_records.left_out(first + then)
    except FileFailed:
        return
    holds(done.left_out_count >= len(done.left_out) <= 1000, "what was left out is counted", done)


def _cut(*pieces: bytes) -> list[bytes] | None:
    records = file_records.Records()
    try:
        found = [record for piece in pieces for record in records.feed(piece)]
        records.end()
    except FileFailed:
        return None
    return found


_TEXTS: Final = (
    "make test", "a\nb", "a\r\nb", "a=b c=d", "a|b\\|c", "\x1b[2J", "\u202eabc", "\u2028", "\x85", "\0", "é",
    'password="hunter22"', "password: x\n", "Authorization: Bearer abcdefgh1234", "sk-ant-" + "a" * 24,
    "--token abcdefgh12",
    "https://u:pw@h.test/", "eyJhbGciOiJI.eyJzdWIiOiIx.abc", "-----BEGIN PRIVATE KEY-----\nabcd\n",
    "act=allowed suser=root",
    "AccountKey=" + "A" * 44, "x" * 1100, "a\\", "a\\=b", "secret='a\\\"b12345678'", '{"token": "abcdefgh12"}',
)  # fmt: skip
_RECORDS: Final = (
    b"f 12 0644 1700000000.000000000 a.txt\0", b"d 0 0755 -1.000000000 ..\0", b"l 1 0777 1.000000001 a/b\0",
    b"c 0 f x\0",
    b"m 7 d a/../b\0", b"special a\0: 1 left out: ", b"f 99999999999999999999 0644 1.000000000 a\0",
    b"w 4294967296 f a\0",
)  # fmt: skip


def seeds() -> list[bytes]:
    """Texts that end lines, forge fields and hold secrets; records that a guest would forge."""
    texts = [bytes([what]) + text.encode() for what in range(3) for text in _TEXTS]
    return texts + [bytes([3, at]) + record for record in _RECORDS for at in (0, 5)]


TARGET: Final = Target(
    id="F11",
    title="lines and records: escapes, masks, a guest's records",
    one=one,
    seeds=seeds,
    modules=("opensafe.audit.cef", "opensafe.model.masking", "opensafe.cli.present", "opensafe.api.file_records"),
    floor=40,
    longest=2048,
    words=(b"\n", b"\r", b"|", b"=", b"\\", b" suser=", b"\x1b[", b"\0", b"password=", b"Bearer ", b'"', b"'", b"AKIA"),
    mutants=(
        Mutant(
            id="F11-newline", file="audit/cef.py",
            old='.replace("=", "\\\\=").replace("\\r", "\\\\r").replace("\\n", "\\\\n")', new='.replace("=", "\\\\=")',
            says="a value's line ends stay",
        ),
        Mutant(
            id="F11-equals", file="audit/cef.py", old='.replace("=", "\\\\=")', new="",
            says="a value may forge a field",
        ),
        Mutant(
            id="F11-control", file="cli/present.py", old="    if text.isprintable():",
            new='    if "\\x1b" not in text:',
            says="only escape sequences are made harmless",
        ),
        Mutant(
            id="F11-mask", file="model/masking.py", old='(?!\\$[\\w{(]|[<*%{\\[]|\\[masked:)',
            new="(?!\\$[\\w{(]|[<*%{])",
            says="what was masked is masked again",
        ),
        Mutant(
            id="F11-name", file="api/file_records.py",
            old='(b"/" in name or name in (b".", b"..") or len(name) > 255)', new='(b"/" in name)',
            says="a guest's entry may be called `..`",
        ),
        Mutant(
            id="F11-cut", file="api/file_records.py", old='(self._rest + data).split(b"\\0")', new='data.split(b"\\0")',
            says="a record that is cut is two",
        ),
    ),
)  # fmt: skip
