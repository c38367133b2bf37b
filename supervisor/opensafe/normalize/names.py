"""What a text's variables and parameters hold, where that can be told from the text as a whole.

A variable is known that is set once, at the top, and named nowhere else; it is a number where every mention of it
counts.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from .commands import Collector
from .word import UNKNOWN, Word

_NAME: Final = re.compile(rb"(?<!-type )(?<!\w-)(?<![./\\])(?<!\s-(?=[a-zA-Z][\s)\"']))\b[A-Za-z0-9_]+")
_PLAIN: Final = re.compile(
    rb"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)(?:\}|[%#/^,]|:[0-9 ]|:?[-+][\w.,/:+-]*\}))"
)
_SAME: Final = re.compile(rb"\b([A-Za-z_]\w*)=\"?\$\{?\1\}?\"?(?=[\s;&|)]|\Z)")
_NUMERIC_VALUE: Final = (
    rb"-?[0-9]{1,18}(?=[\s;&|)]|\Z)|\$(?:SECONDS|EPOCHSECONDS|RANDOM)(?=[\s;&|)]|\Z)|\$\(\(|\$\{#[A-Za-z_@*][A-Za-z0-9_]*(?:\[[@*]\])?\}(?=[\s;&|)]|\Z)|\$[#?$!](?=[\s;&|)]|\Z)"
    rb"|\"?(?:\$\((?:'[^'\n]*'|[^()`$;&<>\n']){0,200}?(?:wc\s+-[lwcm]+(?:\s*<\s*(?:[\w./-]+|\"\$\w+\"))?|nproc|date\s+\+%s|stat\s+-c\s*'?%[sYaXZ]'?\s+[\w./-]+|git\s+rev-list\s+--count\s+[\w./-]+|grep\s+-c\s+[\w'^.-]+\s+[\w./-]+|grep\s+-n\w*\s+(?:'[^'\n]*'|[\w./^-]+)\s+[\w./-]+\s*\|\s*(?:head\s+-n?\s*1\s*\|\s*)?cut\s+-d\s*:\s+-f\s*1(?:\s*\|\s*(?:head|tail)\s+-n?\s*1)?)\s*\)|\$\(grep\s+-c\s+(?:'[^'\n]*'|\"[^\"$`\n]*\")\s+(?:[\w./-]+|\"\$\w+\")\)|`wc\s+-[lwcm]+\s*<\s*[\w./-]+`)\"?"
)
_ARITHMETIC_SPAN: Final = re.compile(rb"\(\([^'\"`\[\n]{0,200}?\)\)")
_REDEFINED: Final = re.compile(
    rb"\b(?:wc|nproc|date|grep|id|stat|git|seq|pwd|uname|whoami|hostname|basename|echo|tr|cut|sed)\s*\(\s*\)|\bfunction\b"
)

_SETS_LATER: Final = re.compile(
    rb"(?:^|[;&|\n({]\s*|\b(?:do|then|else|while)\s+|IFS=\S*\s+)(?:\.|source|eval|read|readarray|mapfile|printf\s+-v)\s"
)
_MAX_NUMBERS: Final = 64
_MATCHED: Final = re.compile(rb"=~\s*([^\n]*?)\s*\]\]")
_DIGITS: Final = re.compile(rb"\((?:\[0-9\]|\[\[:digit:\]\])[+*]?\)")
_GROUP: Final = re.compile(rb"\((?!\?)[^()]*\)")


class Surroundings(Protocol):
    """What the texts around and the environment say."""

    def inherited(self, name: str, scope: "Names") -> Word | None:
        """A variable's value from outside the text."""

    def unset_outside(self, name: str, scope: "Names") -> bool:
        """Whether no text around the one that asks, nor the environment, sets a variable."""

    def holds_number(self, name: str, scope: "Names") -> bool:
        """Whether a variable holds a plain number or nothing, by all texts that may set it."""


class Names:
    """The variables of one text."""

    def __init__(self, source: bytes, surroundings: Surroundings, collector: Collector) -> None:
        self.source = source
        self._surroundings = surroundings
        self._collector = collector
        self._known: dict[str, Word] = {}
        self._fed: dict[str, Word] = {}
        self._plain: Counter[str] = Counter()
        self._mapped: dict[str, Sequence[Word]] = {}
        self._local: dict[str, Word] = {}
        self._arrays: dict[str, Sequence[Word]] = {}
        self._given: Sequence[Word] | None = None
        self._mentions: Counter[bytes] | None = None
        self._numeric: dict[str, bool] = {}
        self.assigning = ""
        self.later = False
        self.redefines = _REDEFINED.search(source) is not None

    def lookup(self, name: str) -> Word | None:
        lost = self._collector.lost
        if name.isdigit():
            given = self.arguments()
            return None if given is None or name == "0" else ([*given, *[Word("")] * 10])[int(name) - 1]
        if name in self._fed and self.mentions(name) == 1:
            return self._fed[name]
        if name in self._local:
            return self._local[name] if self.mentions(name) == 1 else None
        if self.mentions("IFS") or "names" in lost or f"${name}" in lost:
            return None
        value = self._known.get(name)
        if value is None:
            return self._surroundings.inherited(name, self)
        if self.mentions(name) == 1 and (value != UNKNOWN or not self._plain[name]):
            return value
        several = self._plain[name]
        return Word("*", glob=True) if several and several == self.mentions(name) else None

    def unset(self, name: str) -> bool:
        """Whether neither the call's environment nor the text sets the name, but for what is being read."""
        lost = self._collector.lost
        own = self.assigning == name and not self._collector.repeats
        return (
            "names" not in lost
            and f"${name}" not in lost
            and name not in self._known
            and self.mentions(name) == own
            and not _SETS_LATER.search(self.source)
            and self._surroundings.unset_outside(name, self)
        )

    def array(self, name: str) -> Sequence[Word] | None:
        """The items of an array that is set once, at the top, and only expanded as a whole behind that."""
        lost = self._collector.lost
        mapped = self._mapped.get(name)
        items = self._arrays.get(name) if mapped is None else mapped
        if items is None or "names" in lost or (mapped is None and f"${name}" in lost):
            return None
        whole = len(re.findall(rb"\$\{#?" + name.encode() + rb"\[[@*]\]\}", self.source))
        return items if self.mentions(name) == 1 + whole else None

    def associative(self, name: str) -> bool:
        """Whether each mention of the name stands behind its only declaration, as an associative array, at the top."""
        declared = re.search(rb"(?:\A|[;\n])\s*declare -A " + name.encode() + rb"(?=[=;\s]|\Z)", self.source)
        lost = self._collector.lost
        return (
            declared is not None
            and "names" not in lost
            and re.search(rb"\b" + name.encode() + rb"\b", self.source[: declared.end() - len(name)]) is None
        )

    def held(self, name: str) -> Word | None:
        """What the text sets the name to, once and to what is known."""
        value = self._known.get(name)
        lost = self._collector.lost
        if _SETS_LATER.search(self.source) or not lost.isdisjoint(("names", f"${name}")):
            return None
        return value if value is not None and self.mentions(name) == 1 else None

    def arguments(self) -> Sequence[Word] | None:
        """The arguments of the function whose body is walked, where each is one known word."""
        given = self._given
        if given is None or "arguments" in self._collector.lost or len(given) > 10:
            return None
        return given if all(word.fixed() is not None for word in given) else None

    def numeric(self, name: str) -> bool:
        """Whether every mention of the name counts: a number assigned to it, or a part of arithmetic."""
        lost = self._collector.lost
        if "names" in lost or f"${name}" in lost or self.redefines:
            return False
        if name == "BASH_REMATCH":
            groups = [group for match in _MATCHED.findall(self.source) for group in _GROUP.findall(match)]
            return bool(groups) and all(map(_DIGITS.fullmatch, groups))
        return self._surroundings.holds_number(name, self)

    def only_counts(self, name: str) -> bool:
        """Whether this text gives the name nothing but numbers."""
        mentions = self.mentions(name)
        if mentions and name not in self._numeric:
            if len(self._numeric) >= _MAX_NUMBERS:
                return False
            word = re.escape(name.encode())
            declared = len(re.findall(rb"\b(?:local|declare)(?: \w+)* " + word + rb"(?=[;\s]|\Z)", self.source))
            numbers = declared + len(
                re.findall(rb"(?:^|[\s;&|({])" + word + rb"\+?=(?=" + _NUMERIC_VALUE + rb")", self.source)
            )
            loops = len(
                re.findall(
                    rb"\bfor "
                    + word
                    + rb" in (?:\"\$\{!\w+\[@\]\}\""
                    + (rb"" if b"-A" not in self.source else rb"(?!)")
                    + rb"|[0-9]+ ?|\{[0-9]+\.\.[0-9]+\}|\$\(seq [0-9 ]+\))+(?=[;\n])",
                    self.source,
                )
            )
            spans = b" ".join(_ARITHMETIC_SPAN.findall(self.source))
            within = len(re.findall(rb"(?<![$\w{])" + word + rb"\b", spans))
            within += len(re.findall(rb"\[" + word + rb"\]", self.source))
            lets = b" ".join(re.findall(rb"\blet [\"']?[\w=+*/%() -]+", self.source))
            within += len(re.findall(rb"(?<![$\w])" + word + rb"\b", lets))
            fed = rb"\bseq [0-9 -]+\| *while (?:IFS= )?read (?:-r )?" + word + rb" *[;\n]"
            within += len(re.findall(fed, self.source))
            self._numeric[name] = numbers + loops + within >= mentions
        return not mentions or (self._numeric[name])

    def printed_texts(self) -> Iterable[bytes]:
        """What stands between the quotes of what echo prints: a word in it is none of the shell's names."""
        return ()

    def mentions(self, name: str) -> int:
        """How often the text holds `name` other than as a plain expansion."""
        if self._mentions is None:
            counts = Counter(_NAME.findall(self.source))
            counts.subtract(plain or braced for plain, braced in _PLAIN.findall(self.source))
            counts.subtract(_SAME.findall(self.source))
            for told in self.printed_texts():
                counts.subtract(_NAME.findall(told))
            self._mentions = counts
        return self._mentions[name.encode()]
