"""A word of shell text, decoded: quotes and escapes undone, known variables put in, the rest marked as a hole."""

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final

from tree_sitter import Node

from .expansions import arithmetic, counts, descend, expand, printed_name
from .word import HOLE, NUMBER, TOLD, UNKNOWN, Scope, Word

_MAX_BRACES: Final = 64
_MAX_BRACED: Final = 256
_MAX_BRACE_DEPTH: Final = 16


class _Pieces:
    """The state of one word under construction."""

    __slots__ = ("brace", "glob", "listed", "out", "split")

    def __init__(self) -> None:
        self.out: list[str] = []
        self.glob = False
        self.brace = False
        self.split = False
        self.listed: list[int] = []

    def add(self, word: Word) -> None:
        if word.glob:
            self.listed.append(len(self.out))
        self.out.append(word.text)
        self.glob |= word.glob
        self.split |= word.split

    def text(self) -> str:
        """The pieces together. A name put behind a path, or cut from what lies beneath it, is not known."""
        for at in self.listed:
            text, before = self.out[at], "".join(self.out[:at])
            beneath = not _GLOB.search(text)
            if (beneath and len("".join(self.out)) > len(text)) or ("/" in text and before[:1] in ("/", ".")):
                self.out[at] = HOLE
        return "".join(self.out)

    def hole(self, *, quoted: bool = False) -> None:
        self.out.append(HOLE)
        self.split |= not quoted


_BRACES: Final = re.compile(r"\{[^{}]*(?:,|\.\.)")
_PLAIN_BRACES: Final = re.compile(r"[A-Za-z0-9_./,{}=:@%+~-]*")
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
    text = pieces.text()
    if pieces.brace and _BRACES.search(source):
        if len(source) > _MAX_BRACED or not _PLAIN_BRACES.fullmatch(source):
            return [UNKNOWN]
        several = expand_braces(source) if scope.is_bash else None
        return [UNKNOWN] if several is None else [Word(text) for text in several]
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
            pieces.out.append(text)
        case "ansi_c_string":
            pieces.out.append(decode_ansi_c(source[node.start_byte + 2 : node.end_byte - 1].decode("utf-8", "replace")))
        case "concatenation" | "translated_string" | "command_name":
            end = node.start_byte
            for child in node.children:
                if child.start_byte != end:
                    scope.doubt("a word has a gap in it")
                    pieces.out.append(HOLE)
                end = child.end_byte
                if not (kind == "translated_string" and child.type == "$"):
                    _piece(child, scope, pieces)
        case "simple_expansion" | "expansion":
            pieces.add(expand(node, scope, quoted=False))
        case "command_substitution":
            scope.nested(node)
            tame = printed_name(node, scope)
            if tame is not None:
                pieces.add(tame)
            else:
                number = counts(node, scope)
                pieces.out.append(NUMBER if number else TOLD if scope.told else HOLE)
                pieces.split |= not number
        case "process_substitution":
            scope.nested(node)
            pieces.out.append("/dev/fd/" + HOLE)
        case "arithmetic_expansion":
            arithmetic(node, scope)
            pieces.out.append(HOLE)
        case "extglob_pattern" | "regex":
            descend(node, scope)
            pieces.hole()
        case "$" | ":" | "," | "=" | "==" | "!" | "-" | "+" | "/" | "%" | "#" | "@" | "*" | "?" | "..":
            _unquoted(source[node.start_byte : node.end_byte].decode("utf-8", "replace"), pieces)
        case _:
            scope.doubt(f"unexpected {kind} in a word")
            descend(node, scope)
            pieces.hole()


def _unquoted(text: str, pieces: _Pieces) -> None:
    if "\\" not in text:
        bare = text
        pieces.out.append(text)
    else:
        bare = _ESCAPED.sub("", text)
        pieces.out.append(_ESCAPED.sub(lambda found: "" if found[1] == "\n" else found[1], text))
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
        pieces.out.append(_in_double_quotes(source[at:start]))
        at = child.end_byte
        match kind:
            case "simple_expansion" | "expansion":
                pieces.add(expand(child, scope, quoted=True))
            case "command_substitution":
                scope.nested(child)
                tame = printed_name(child, scope)
                if tame is not None:
                    pieces.add(tame)
                elif counts(child, scope):
                    pieces.out.append(NUMBER)
                else:
                    pieces.out.append(TOLD if scope.told else HOLE)
            case "arithmetic_expansion":
                arithmetic(child, scope)
                pieces.out.append(NUMBER)
            case _:
                scope.doubt(f"unexpected {kind} in double quotes")
                descend(child, scope)
                pieces.hole()
    pieces.out.append(_in_double_quotes(source[at : node.end_byte - 1]))


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


_SEQUENCE: Final = re.compile(r"(-?[0-9]{1,6})\.\.(-?[0-9]{1,6})(?:\.\.(-?[0-9]{1,6}))?|([A-Za-z])\.\.([A-Za-z])")


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
    first, last, step, letter, until = found.groups()
    if letter:
        a, b = ord(letter), ord(until)
        return [chr(c) for c in (range(a, b + 1) if a <= b else range(a, b - 1, -1))]
    low, high, by = int(first), int(last), abs(int(step or 1)) or 1
    width = max(len(first), len(last)) if re.match(r"-?0\d", first) or re.match(r"-?0\d", last) else 0
    numbers = range(low, high + 1, by) if low <= high else range(low, high - 1, -by)
    return [str(number).zfill(width) for number in numbers[: _MAX_BRACES + 1]]
