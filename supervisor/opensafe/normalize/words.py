"""A word of shell text, decoded: quotes and escapes undone, known variables put in, the rest marked as a hole."""

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final

from tree_sitter import Node

from .expansions import arithmetic, counts, descend, expand, printed_name
from .word import HOLE, NUMBER, TOLD, UNKNOWN, Scope, Word

#: Characters of one word.
_MAX_WORD: Final = 64 * 1024
_MAX_BRACES: Final = 64
_MAX_BRACED: Final = 256
_MAX_BRACE_DEPTH: Final = 16


class _Pieces:
    """The state of one word under construction."""

    __slots__ = ("brace", "glob", "listed", "masked", "out", "size", "split")

    def __init__(self) -> None:
        self.out: list[str] = []
        self.masked: list[str] = []
        self.glob = False
        self.brace = False
        self.split = False
        self.size = 0
        self.listed: list[int] = []

    def put(self, text: str) -> None:
        """Text in which no brace or comma means anything. What does not fit is left out, which `size` tells."""
        self.size += len(text)
        if self.size > _MAX_WORD:
            return
        self.out.append(text)
        self.masked.append(f"{_QUOTED}{text.translate(_MASK)}{_QUOTED}")

    def add(self, word: Word) -> None:
        if word.glob:
            self.listed.append(len(self.out))
        self.put(word.text)
        self.glob |= word.glob
        self.split |= word.split

    def text(self) -> str:
        """The pieces together. A name put behind a path, or cut from what lies beneath it, is not known."""
        for at in self.listed:
            text, before = self.out[at], "".join(self.out[:at])
            beneath = not _GLOB.search(text)
            if (beneath and len("".join(self.out)) > len(text)) or ("/" in text and before[:1] in ("/", ".")):
                self.out[at] = self.masked[at] = HOLE
        return "".join(self.out)

    def hole(self, *, quoted: bool = False) -> None:
        self.put(HOLE)
        self.split |= not quoted

    def several(self) -> list[tuple[str, str]] | None:
        """What braces make of the word: texts, and what of each stood outside quotes; None beyond what is followed."""
        masked = "".join(self.masked)
        words = expand_braces(masked) if len(masked) <= _MAX_BRACED else None
        if words is None:
            return None
        return [(word.translate(_UNMASK), word) for word in words if word]


#: Stand for quoted characters that mean something to brace expansion, and for the quotes. No accepted text has them.
_QUOTED: Final = "\ue000"
_MASK: Final = {ord(char): 0xE001 + at for at, char in enumerate("{},.$~")}
_UNMASK: Final = {ord(_QUOTED): None, **{code: char for char, code in _MASK.items()}}
_BRACES: Final = re.compile(r"\{[^{}]*(?:,|\.\.)")
_ALL_ITEMS: Final = re.compile(r'"\$\{([A-Za-z_][A-Za-z0-9_]*)\[@\]\}"')
_VARIABLE: Final = re.compile(r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\})")
_SPLITS: Final = re.compile(r"[^*?\[\\\n\t]*\S[^*?\[\\\n\t]*")
_GLOB: Final = re.compile(r"[*?\[]")
ENDS_WORD: Final = re.compile(r"(?<!\\)(?:\\\\)*[\s;&|()<>]")
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_DOUBLE_ESCAPED: Final = re.compile(r'\\([$`"\\\n])')
_ALL_ARGUMENTS: Final = frozenset({'"$@"', '"${@}"'})


def read_words(node: Node, scope: Scope) -> list[Word]:
    """The words a node stands for: one, or several where braces multiply it."""
    words = _words(node, scope)
    grown = sum([len(word.text) for word in words]) - (node.end_byte - node.start_byte)
    return words if grown <= 0 or scope.room(grown) else [UNKNOWN]


def _words(node: Node, scope: Scope) -> list[Word]:
    kind = node.type
    if kind in ("word", "number"):
        text = scope.source[node.start_byte : node.end_byte].decode("utf-8", "replace")
        if text.isalnum():
            return [Word(text)]
    source = scope.source[node.start_byte : node.end_byte].decode("utf-8", "replace")
    if source in _ALL_ARGUMENTS:
        arguments = scope.arguments()
        return [UNKNOWN] if arguments is None else list(arguments)
    listed = _ALL_ITEMS.fullmatch(source)
    if listed is not None:
        items = scope.array(listed[1])
        if items is not None:
            return list(items)
    if kind in ("simple_expansion", "expansion"):
        parts = _split(source, scope)
        if parts is not None:
            return parts
    pieces = _Pieces()
    _piece(node, scope, pieces)
    if pieces.size > _MAX_WORD:
        scope.doubt(f"a word of more than {_MAX_WORD} characters")
        return [UNKNOWN]
    text = pieces.text()
    if pieces.brace and _BRACES.search(source):
        several = pieces.several() if scope.is_bash else None
        if several is None:
            return [UNKNOWN]
        return [
            Word(
                _tilde(bare, text, scope) if bare[:1] == "~" else text,
                pieces.glob and _GLOB.search(text) is not None,
                pieces.split and HOLE in text,
            )
            for text, bare in several
        ]
    if source.startswith("~"):
        text = _tilde(source, text, scope)
    return [Word(text, pieces.glob, pieces.split)]


def _split(source: str, scope: Scope) -> list[Word] | None:
    """The words that a plain variable with a known value of several makes without quotes; None for any other."""
    found = _VARIABLE.fullmatch(source)
    value = scope.lookup(found[1] or found[2]) if found is not None else None
    text = value.fixed() if value is not None else None
    if not text or " " not in text or not _SPLITS.fullmatch(text):
        return None
    return [Word(word) for word in text.split()]


def read_word(node: Node, scope: Scope) -> Word:
    """The single word a node stands for (an assigned value, a redirection's target)."""
    words = read_words(node, scope)
    return words[0] if len(words) == 1 else UNKNOWN


def _piece(node: Node, scope: Scope, pieces: _Pieces) -> None:
    kind = node.type
    source = scope.source
    match kind:
        case "word" | "number" | "brace_expression" | "variable_name" | "test_operator" | "{" | "}" | "[" | "]":
            text = source[node.start_byte : node.end_byte].decode("utf-8", "replace")
            if ENDS_WORD.search(text):
                scope.doubt("the grammar takes for one word what the shell splits")
            _unquoted(text, pieces)
            if node.child_count:
                descend(node, scope)
        case "string":
            _double_quoted(node, scope, pieces)
        case "raw_string":
            text = source[node.start_byte + 1 : node.end_byte - 1].decode("utf-8", "replace")
            pieces.put(text)
        case "ansi_c_string":
            pieces.put(decode_ansi_c(source[node.start_byte + 2 : node.end_byte - 1].decode("utf-8", "replace")))
        case "concatenation" | "translated_string" | "command_name":
            end = node.start_byte
            for child in node.children:
                if child.start_byte != end:
                    scope.doubt("a word has a gap in it")
                    pieces.put(HOLE)
                end = child.end_byte
                if not (kind == "translated_string" and child.type == "$"):
                    _piece(child, scope, pieces)
        case "simple_expansion" | "expansion":
            pieces.add(expand(node, scope, quoted=False))
        case "command_substitution":
            scope.nested(node)
            tame = printed_name(node, scope)
            exact = scope.echoed(node) if tame is None else None
            if tame is not None:
                pieces.add(tame)
            elif exact is not None:
                pieces.put(exact)
            else:
                number = counts(node, scope)
                pieces.put(NUMBER if number else TOLD if scope.told else HOLE)
                pieces.split |= not number
        case "process_substitution":
            scope.nested(node)
            pieces.put("/dev/fd/" + HOLE)
        case "arithmetic_expansion":
            arithmetic(node, scope)
            pieces.put(HOLE)
        case "extglob_pattern" | "regex":
            descend(node, scope)
            pieces.hole()
        case "$" | ":" | "," | "=" | "==" | "!" | "-" | "+" | "/" | "%" | "#" | "@" | "*" | "?" | "..":
            _unquoted(source[node.start_byte : node.end_byte].decode("utf-8", "replace"), pieces)
        case _:
            scope.doubt(f"unexpected {kind} in a word")
            descend(node, scope)
            pieces.hole()


def _escaped(found: re.Match[str]) -> str:
    return "" if found[1] == "\n" else f"{_QUOTED}{found[1].translate(_MASK)}{_QUOTED}"


def _unquoted(text: str, pieces: _Pieces) -> None:
    if "\\" not in text:
        bare = text
        pieces.out.append(text)
        pieces.masked.append(text)
    else:
        bare = _ESCAPED.sub("", text)
        pieces.out.append(_ESCAPED.sub(lambda found: "" if found[1] == "\n" else found[1], text))
        pieces.masked.append(_ESCAPED.sub(_escaped, text))
    if _GLOB.search(bare):
        pieces.glob = True
    if "{" in text:
        pieces.brace = True


def _double_quoted(node: Node, scope: Scope, pieces: _Pieces) -> None:
    source = scope.source
    at = node.start_byte + 1
    for child in node.named_children:
        kind = child.type
        if kind == "string_content":
            continue
        start = child.start_byte
        while source[start : start + 1].isspace():  # blanks before an expansion, put into it by the grammar
            start += 1
        pieces.put(_in_double_quotes(source[at:start]))
        at = child.end_byte
        match kind:
            case "simple_expansion" | "expansion":
                pieces.add(expand(child, scope, quoted=True))
            case "command_substitution":
                scope.nested(child)
                tame = printed_name(child, scope)
                exact = scope.echoed(child) if tame is None else None
                if tame is not None:
                    pieces.add(tame)
                elif exact is not None:
                    pieces.put(exact)
                elif counts(child, scope):
                    pieces.put(NUMBER)
                else:
                    pieces.put(TOLD if scope.told else HOLE)
            case "arithmetic_expansion":
                arithmetic(child, scope)
                pieces.put(NUMBER)
            case _:
                scope.doubt(f"unexpected {kind} in double quotes")
                descend(child, scope)
                pieces.hole()
    pieces.put(_in_double_quotes(source[at : node.end_byte - 1]))


def _in_double_quotes(raw: bytes) -> str:
    text = raw.decode("utf-8", "replace")
    if "\\" not in text:
        return text
    return _DOUBLE_ESCAPED.sub(lambda found: "" if found[1] == "\n" else found[1], text)


def _tilde(source: str, text: str, scope: Scope) -> str:
    """`~` and `~+` where they are unquoted and alone before the first slash; another user's home is not known."""
    _, slash, tail = text.partition("/")
    value = scope.lookup({"~": "HOME", "~+": "PWD"}.get(source.partition("/")[0], ""))
    return (value.text if value is not None and not value.glob else HOLE) + slash + tail


_ANSI_C: Final = re.compile(
    r"\\(?:([abeEfnrtv\\'\"?])|([0-7]{1,3})|x\{?([0-9a-fA-F]{1,2})\}?|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|c(.))",
    re.DOTALL,
)
_ANSI_C_NAMES: Final = dict(zip("abeEfnrtv\\'\"?", "\a\b\x1b\x1b\f\n\r\t\v\\'\"?", strict=True))


def decode_ansi_c(text: str) -> str:
    """The inside of `$'…'`, decoded as bash does; HOLE where bytes are made that are no text."""

    def one(found: re.Match[str]) -> str:
        name, octal, hexa, short, wide, control = found.groups()
        if name:
            return _ANSI_C_NAMES[name]
        if control:
            return chr(ord(control) & 0x1F)
        if octal or hexa:
            value = int(octal, 8) & 0xFF if octal else int(hexa, 16)
            return chr(value) if value < 0x80 else HOLE
        value = int(short or wide, 16)
        return chr(value) if value <= 0x10FFFF and not 0xD800 <= value <= 0xDFFF else HOLE

    return _ANSI_C.sub(one, text)


def expand_braces(text: str) -> list[str] | None:
    """Brace expansion of unquoted text without escapes; None beyond 64 words."""
    out = list(islice(_braces(text, 0), _MAX_BRACES + 1))
    return None if len(out) > _MAX_BRACES or None in out else [word for word in out if word is not None]


_SEQUENCE: Final = re.compile(
    r"(-?[0-9]{1,6})\.\.(-?[0-9]{1,6})(?:\.\.(-?[0-9]{1,6}))?|([A-Za-z])\.\.([A-Za-z])(?:\.\.(-?[0-9]{1,6}))?"
)


def _braces(text: str, depth: int) -> Iterator[str | None]:
    """The words in bash's order; None where the nesting is too deep to say."""
    found = _first_list(text)
    if found is None:
        yield text
        return
    if depth == _MAX_BRACE_DEPTH:
        yield None
        return
    start, end, items = found
    for item in items:
        for middle in _braces(item, depth + 1):
            for tail in _braces(text[end:], depth + 1):
                yield None if middle is None or tail is None else text[:start] + middle + tail


def _first_list(text: str) -> tuple[int, int, list[str]] | None:
    """The first brace pair that bash would expand: where it stands and its alternatives."""
    for start, char in enumerate(text):
        if char != "{" or text[start - 1 : start] == "$":
            continue
        level, cuts = 0, [start + 1]
        for at in range(start, len(text)):
            if text[at] == "{":
                level += 1
            elif text[at] == "," and level == 1:
                cuts.append(at + 1)
            elif text[at] == "}":
                level -= 1
                if level == 0:
                    items = [text[a : b - 1] for a, b in zip(cuts, [*cuts[1:], at + 1], strict=True)]
                    if len(items) == 1:
                        sequence = _sequence(items[0])
                        if sequence is None:
                            break
                        items = sequence
                    return start, at + 1, items
    return None


def _sequence(text: str) -> list[str] | None:
    found = _SEQUENCE.fullmatch(text)
    if found is None:
        return None
    first, last, step, letter, until, stride = found.groups()
    if letter:
        a, b, by = ord(letter), ord(until), abs(int(stride or 1)) or 1
        return [chr(c) for c in (range(a, b + 1, by) if a <= b else range(a, b - 1, -by))]
    low, high, by = int(first), int(last), abs(int(step or 1)) or 1
    width = max(len(first), len(last)) if re.match(r"-?0\d", first) or re.match(r"-?0\d", last) else 0
    numbers = range(low, high + 1, by) if low <= high else range(low, high - 1, -by)
    return [str(number).zfill(width) for number in numbers[: _MAX_BRACES + 1]]
