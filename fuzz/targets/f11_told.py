"""F11: what agents and guests word is one record, one line and no more, wherever it is told; secrets are out of it.
What a guest's file helper prints is exactly its records, wherever the stream is cut.

References: Python's own reading of escapes, `json`, and a cut of CEF by its published rules.
"""

import json
import re
from typing import Final

import msgspec

from opensafe.api import file_records
from opensafe.audit import cef, masked, ocsf
from opensafe.audit.ocsf_event import Place
from opensafe.errors import FileFailed
from opensafe.model import chain
from opensafe.model.canonical import NotCanonicalError
from opensafe.model.masking import mask
from opensafe.model.printable import harmless
from opensafe.model.records import RefusalRecord
from opensafe.proof.fuzzing.draw import Draw
from opensafe.proof.fuzzing.target import Target, holds
from opensafe.proof.mutants import Mutant

_PLACE: Final = Place(index=7, leaf="ab" * 32, prev="cd" * 32, chain="opensafe/0123", signed=9, version="1.2.3")
_WORD: Final = "Zm9vYmFyQmF6cXV4MDEyMzQ1Njc4OWFiY2RlZmdo"
#: In parts: as a whole each would be a finding of whoever scans this file.
_SECRETS: Final = (
    "ghp_" + _WORD[:36],
    "AKIA" + "IOSFODNN7EXAMPLE",
    "glpat-" + _WORD[:20],
    "xoxb-" + "1234-" + _WORD[:24],
)
_FRAMES: Final = (
    "%s", "TOKEN=%s", "curl -H 'Authorization: Bearer %s' x",
    'a "%s" b', "\n%s\n", "https://u:%s@h.test/", "(%s)", "[%s]",
    "é %s", "\\n%s", "--password %s", "%s,%s",
)  # fmt: skip


def one(data: bytes) -> None:
    """Word something, with or without a secret in it, and have it told in each way; or read a guest's records."""
    draw = Draw(data)
    if draw.number(0, 3) == 3:
        _records(draw.data(64), draw.rest())
        return
    secret = draw.pick(_SECRETS) if draw.flag() else ""
    frame = draw.pick(_FRAMES)
    text = draw.rest().decode("utf-8", "surrogateescape")
    if secret:
        text = f"{text}\n{frame.replace('%s', secret)}\n{text}"
    _shown(text)
    _masked(text, secret)
    _recorded(text, secret)


def _shown(text: str) -> None:
    """On a terminal."""
    shown = harmless(text)
    holds(shown.isprintable(), "nothing steers a terminal or reorders text", shown)
    if "\\" not in text:
        back = shown.encode("ascii", "backslashreplace").decode("unicode_escape")
        holds(back == text, "what is shown tells what it was", (text, shown))


def _masked(text: str, secret: str) -> None:
    """Masking takes all of a secret, nothing of JSON's form, and is done after once."""
    out, kinds = mask(text)
    holds(not secret or secret not in out, "a secret is out", (secret, out))
    holds(bool(kinds) == (out != text), "a mask is told", (text, kinds))
    holds(mask(out) == (out, ()), "a second time there is nothing to mask", (text, out))
    document = json.dumps({"argument": text, "list": [text, 1]}, ensure_ascii=False)
    hidden, _ = mask(document)
    try:
        read = json.loads(hidden)
    except ValueError:
        holds(False, "masked JSON is JSON", hidden)
        return
    holds(read.keys() == {"argument", "list"} and read["list"][1:] == [1], "masked JSON has its form", hidden)
    holds(not secret or secret not in hidden, "a secret is out of JSON", (secret, hidden))


def _recorded(text: str, secret: str) -> None:
    """A refused call is one line of the log, and of an export."""
    record = RefusalRecord(
        time_us=1,
        principal="agent",
        session_id="ses-1",
        call_id="call-1",
        tool=text[:64],
        reason="INVALID",
        message=text,
    )
    try:
        line = chain.seal(chain.Head(), record).line
    except NotCanonicalError:
        holds(any("\ud800" <= char <= "\udfff" for char in text), "whatever is Unicode can be recorded", text)
        return
    holds(line.count(b"\n") == 0 and len(list(chain.verify([line]))) == 1, "a record is one line", line)
    holds(json.loads(line)["message"] == text, "what is recorded is what was worded", (text, line))
    fields = masked.masked(record, msgspec.json.encode(record))
    kept = msgspec.json.encode(fields or record)
    holds(not secret or secret.encode() not in kept, "a secret is out of the record", kept)
    event = ocsf.Mapper().event(record, _PLACE)
    if event is None:
        return
    _cef(cef.line(msgspec.json.decode(msgspec.json.encode(event))), text)


def _cef(line: str, text: str) -> None:
    holds(len(line.splitlines()) == 1, "an event is one line of CEF", line)
    parts = re.split(r"(?<!\\)(?:\\\\)*\|", line, maxsplit=7)
    holds(len(parts) == 8 and parts[0] == "CEF:0", "a line of CEF has its seven bars", line)
    holds(parts[6] in map(str, range(11)), "a text is no severity", line)
    fields = re.findall(r"(\w+)=((?:[^=\\]|\\.)*?)(?= \w+=|$)", parts[7])
    joined = " ".join(f"{key}={value}" for key, value in fields)
    holds(joined == parts[7], "an extension is keys and values", (joined, line))
    keys = [key for key, _ in fields]
    known = {
        key for key in keys if re.fullmatch(r"rt|externalId|act|outcome|reason|suser|dproc|cat|msg|c[sn]\dL?\w*", key)
    }
    holds(keys and set(keys) == known and len(keys) == len(set(keys)), "a text is no key of CEF", (text, line))


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
            holds(not name.startswith(b"/") and name in record, "a name is the one sent", record)
            single = read is file_records.change or (b"/" not in name and 0 < len(name) <= 255)
            holds(single, "an entry is one name", record)
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


#: As a guest prints them, and as it would forge them.
_PRINTED: Final = (
    b"f 12 0644 1700000000.000000000 a.txt\0", b"d 0 0755 -1.000000000 ..\0", b"l 1 0777 1.000000001 a/b\0",
    b"c 0 f x\0", b"m 7 d a/../b\0", b"special a\0: 1 left out: ", b"w 4294967296 f a\0",
    b"f 99999999999999999999 0644 1.000000000 a\0",
)  # fmt: skip


def seeds() -> list[bytes]:
    """Each secret in each frame, and texts that have steered readers of logs."""
    texts = (
        "plain", "a\nb", "\x1b[31m", "\u202e", "\0", "\\", '"', "a|b=c\\d\r\ne", "\u2028x=1", "\x85", "\ud800",
        "[masked:jwt]", '{"a":1}', "\\u001b", "password=", "é", "=", "|", "suser=root", " suser=root", "\\ suser=root",
        "a\\", "|||||||x=", "--password",
    )  # fmt: skip
    framed = [bytes([0, 1, secret, frame]) + b"x" for secret in range(4) for frame in range(len(_FRAMES))]
    printed = [bytes([3, at]) + record for record in _PRINTED for at in (0, 5)]
    return framed + printed + [b"\0\0\0" + text.encode("utf-8", "surrogatepass") for text in texts]


TARGET: Final = Target(
    id="F11",
    title="texts of agents and guests in records, exports and on terminals",
    one=one,
    seeds=seeds,
    modules=("opensafe.model.masking", "opensafe.audit.cef", "opensafe.audit.masked", "opensafe.model.printable",
        "opensafe.api.file_records"),
    floor=40,
    words=(
        b"password=", b"token: ", b"Authorization: ", b"[masked:token]", b"\\n", b'\\"', b"|", b"=", b" act=",
        b"--password ",
        b"\x1b[", b"\xe2\x80\xa8", b"\xc2\x85", b"ghp_", b"-----BEGIN PRIVATE KEY-----", b'","', b'":"',
    ),
    mutants=(
        Mutant(
            id="F11-terminal", file="model/printable.py", old="    if text.isprintable():", new="    if True:",
            says="control characters are shown as they are",
        ),
        Mutant(
            id="F11-bar", file="audit/cef.py", old='.replace("|", "\\\\|")', new="",
            says="a bar in a text is one of the line's",
        ),
        Mutant(
            id="F11-newline", file="audit/cef.py", old='.replace("\\r", " ").replace("\\n", " ")', new="",
            says="a line's end in a text is one of the export's",
        ),
        Mutant(
            id="F11-key", file="audit/cef.py", old='.replace("=", "\\\\=")', new="",
            says="a text may be a key",
        ),
        Mutant(
            id="F11-mask", file="audit/masked.py", old='    "refusal": ("tool", "reason", "message"),\n', new="",
            says="refusals are recorded with their secrets",
        ),
        Mutant(
            id="F11-short", file="model/masking.py", old="\"gl[a-z]{2,5}-[A-Za-z0-9_-]{20,}\"",
            new='"gl[a-z]{2,5}-[A-Za-z0-9_-]{21,}"',
            says="the shortest tokens of an issuer stay",
        ),
        Mutant(
            id="F11-severity", file="audit/cef.py", old='        event["message"],\n    )',
            new='        event["message"],\n        severity,\n    )',
            says="the severity stands twice",
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
