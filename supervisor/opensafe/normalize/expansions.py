"""Expansions, by a positive list: those that give a value and do nothing else, as bash reads them.

A name in arithmetic, in a subscript or behind `!` is not only looked up: bash evaluates what it holds, and
`a[$(cmd)]` runs cmd. So such a name must be proven to hold a plain number; all else is a doubt.
"""

import re
from typing import Final

from tree_sitter import Node

from .word import HOLE, NUMBER, REF, TOLD, UNKNOWN, Scope, Word

_PLAIN: Final = re.compile(r"\$\{?([A-Za-z_][A-Za-z0-9_]*|[0-9])\}?|\$\{([0-9]{1,3})\}")
_CUT: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(%%?|##?)([\w.*/-]+)\}")
_DEFAULT: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*):?[-=]([\w/][\w.,/:+-]*)\}")
_REPLACED: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(//?)([\w.,: +@-]+)/([\w.,: +@\\-]*)\}")
_CASED: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?:,,?|\^\^?)\}")
_NUMBERS: Final = frozenset({"$#", "$?", "$$", "$!", "${#}", "${?}", "${$}", "${!}"})
_HEAD: Final = re.compile(r"\$\{#?(?:[A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*#?$!_-])")
_KEYS: Final = re.compile(r"\$\{![A-Za-z_][A-Za-z0-9_]*(?:[@*]|\[[@*]\])\}")
_LENGTH: Final = re.compile(r"\$\{#(?:[A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*])(?:\[[@*]\])?\}")
_SUBSCRIPT: Final = re.compile(r"\[([^\[\]]*)\]")
_TRANSFORM: Final = re.compile(r"@[QULuEAaKk]")
_WITH_OPERAND: Final = re.compile(r":?[-=?+]|##?|%%?|//?|\^\^?|,,?")
_SUBSTITUTES: Final = re.compile(rb"\$[({\[]|`|[<>]\(")
_ESCAPED: Final = re.compile(rb"\\.", re.DOTALL)
_ARITHMETIC: Final = re.compile(
    r"""\s+ | (?P<array>\$\{[A-Za-z_]\w*\[[0-9]\]\}|[A-Za-z_]\w*\[[0-9]\])
      | 0[xX][0-9a-fA-F]+ | [0-9]+(?:\#[0-9a-zA-Z]+)?
      | (?P<name>\$?[A-Za-z_][A-Za-z0-9_]*|\$\{[A-Za-z_][A-Za-z0-9_]*\})
      | \$\{\#(?:[A-Za-z_][A-Za-z0-9_]*|[@*])(?:\[[@*]\])?\} | \$[#?$!] | (?P<position>\$[0-9]|\$\{[0-9]+\})
      | [-+*/%()<>=!&|^~?:,;] | (?P<hole>\0)""",
    re.VERBOSE,
)  # fmt: skip
_NUMBER: Final = re.compile(r"-?[0-9]{1,18}")
_COUNTS: Final = re.compile(
    r"(?:[^()`$;&<>|\n]*\|)*\s*(?:wc\s+-[lwcm]+(?:\s*<\s*(?:[\w./-]+|\"\$\w+\"))?|grep\s+-c\s+(?:[\w'\"^.-]+|'[^'\n]*'|\"[^\"$`\n]*\")(?:\s+\"\$\w+\"|\s+[\w./-]+|\s*<\s*[\w./-]+)?"
    r"|awk\s+(?:-F\s*\S{1,4}\s+)?'\s*\{\s*\w+\s*\+=\s*\$\d+;?\s*\}\s*END\s*\{\s*print \w+"
    r"(?:\s*\+\s*0)?;?\s*\}'(?:\s+[\w./*-]+)?"
    r"|nproc|date\s+\+%s|id\s+-u|stat\s+-c\s*%[sY]\s+[\w./-]+|git\s+rev-list\s+--count\s+[\w./-]+|seq\s+[\s\d]+)\s*"
)
_NAMES: Final = re.compile(
    r"git describe(?: --?[\w=]+)*|date(?: -u)?(?: ['\"]?\+[%\w:.][-%\w:.]*['\"]?)"
    r"|git rev-parse(?: --short(?:=\d+)?| --verify| --abbrev-ref)* [\w~^]+|git merge-base [\w./~^-]+ [\w./~^-]+"
    r"|git branch --show-current|git symbolic-ref --short HEAD"
    r"|git log -1 --(?:format|pretty)=['\"]?(?:format:)?%[hH]['\"]?(?: -- [\w./-]+)?"
    r"|nproc|uname(?: -[smr])?"
    r"|whoami|hostname|id -u?n?u?"
)
KEY: Final = re.compile(r"[\w.-]+|\$[A-Za-z_]\w*|\$\{[A-Za-z_]\w*\}|\$[0-9]")
_FILTERED: Final = re.compile(
    r"(echo|basename) \"\$\{?([A-Za-z_]\w*)(?:%%?[.\w*]+)?\}?\"(?: \.\w+)?"
    r"(?: \| (?:tr '?[\w:\[\] -]+'? '?[\w:\[\]]+'?|cut -d ?'?[._-]'? -f ?\d|sed '?s/[^/']*/[\w&-]*/g?'?))*"
)
_DIRNAME: Final = re.compile(r"dirname \"?\$\{?([A-Za-z_]\w*)\}?\"?")
_GLOB: Final = re.compile(r"[*?\[]")
#: A pattern of files of one directory whose names begin or end alike, as `src/*.c`.
_NAMED: Final = re.compile(r"/?(?:[\w.-]+/)*[\w.-]*(?:\*|\?|\[[\w-]+\]\*?)[\w.-]*")
_MAX_CUT: Final = 256
_KINDS: Final = frozenset(
    {"command_substitution", "process_substitution", "arithmetic_expansion", "expansion", "simple_expansion"}
)


def expand(node: Node, scope: Scope, *, quoted: bool) -> Word:
    """The value of `$x` or `${…}`, with `HOLE` where it is not known."""
    source = _text(node, scope)
    plain = _PLAIN.fullmatch(source)
    cut = _CUT.fullmatch(source)
    default = _DEFAULT.fullmatch(source)
    cased = _CASED.fullmatch(source)
    if cased is not None:
        whole = scope.lookup(cased[1])
        flat = whole is not None and whole.known and "/" not in whole.text and whole.text[:1] not in ("-", ".")
        return _held(Word("*", glob=True) if flat else None, quoted=quoted, number=False)
    replaced = _REPLACED.fullmatch(source)
    if replaced is not None:
        whole = scope.lookup(replaced[1])
        known = whole.fixed() if whole is not None else None
        new = replaced[4].replace("\\\\", "\\")
        known = None if known is None or len(known) > _MAX_CUT else known
        text = None if known is None else known.replace(replaced[3], new, 1 if replaced[2] == "/" else -1)
        return _held(None if text is None else Word(text), quoted=quoted, number=False)
    if default is not None:
        value = scope.lookup(default[1]) or (Word(default[2]) if scope.unset(default[1]) else None)
        return _held(Word(default[2]) if value == Word("") else value, quoted=quoted, number=False)
    if cut is not None:
        whole = scope.lookup(cut[1])
        value = None if whole is None or HOLE in whole.text else _cut(whole, cut[2], cut[3])
        return _held(value, quoted=quoted, number=False)
    if plain is None:
        check(node, scope)
        if source in _NUMBERS or _LENGTH.fullmatch(source):
            return Word(NUMBER)
        return Word(HOLE, split=not quoted or "@" in source)
    name = plain[1] or plain[2]
    value = scope.lookup(name)
    return _held(value, quoted=quoted, number=value is None and scope.numeric(name))


def _cut(whole: Word, operator: str, pattern: str) -> Word | None:
    """A value without the start (`#`) or end (`%`) that matches: of file names (`*.txt`) only what all of them have."""
    text = whole.text
    if whole.glob:
        if not _GLOB.search(text.rpartition("/")[2]):
            return None  # stands for all that lies beneath
        if operator[0] == "%" and text.endswith(pattern) and not _GLOB.search(pattern):
            return whole.part(text[: -len(pattern)])
        if operator + pattern == "##*/" and "**" not in text:
            return whole.part(text.rpartition("/")[2])
        return None
    if len(text) > _MAX_CUT or pattern.count("*") > 1:
        return None
    lengths = range(1 + len(text)) if len(operator) == 1 else range(len(text), -1, -1)
    matches = re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL).fullmatch
    for length in lengths:
        if operator[0] == "%" and matches(text[len(text) - length :]):
            return whole.part(text[: len(text) - length])
        if operator[0] == "#" and matches(text[:length]):
            return whole.part(text[length:])
    return whole


def _held(value: Word | None, *, quoted: bool, number: bool) -> Word:
    """A variable's value as it stands in a word: without quotes it may be split."""
    if value is not None and value.text.startswith(REF.text):
        return value
    text = value.text if value is not None else ""
    if value is not None and HOLE in text and text[0] != HOLE and HOLE not in text.replace(NUMBER, ""):
        return value._replace(glob=False)  # known but for a number in it
    if value is None or HOLE in value.text:
        told = value is not None and value.text == TOLD
        return Word(NUMBER if number else TOLD if told else HOLE, split=not quoted and not number)
    if quoted or (value.glob and _NAMED.fullmatch(value.text)):
        return value
    if not value.text or any(char in value.text for char in " \t\n*?[\\"):
        return UNKNOWN
    return value


def check(node: Node, scope: Scope) -> None:
    """Doubt a parameter expansion unless all that it does is on the list; look into what is nested in it."""
    source = _text(node, scope)
    if _PLAIN.fullmatch(source) or source in _NUMBERS or _KEYS.fullmatch(source) or node.type == "simple_expansion":
        return
    found = descend(node, scope)
    if not _is_modelled(source, scope):
        scope.doubt(f"the expansion {source[:40]} may do more than give a value")
    if _SUBSTITUTES.search(_ESCAPED.sub(b"", _without(node, scope))) or (
        ("$(" in source or "`" in source) and not found
    ):
        scope.doubt("a substitution inside an expansion was not found")


def _is_modelled(source: str, scope: Scope) -> bool:
    head = _HEAD.match(source)
    if head is None or source[-1:] != "}":
        return False
    rest = source[head.end() : -1]
    subscript = _SUBSCRIPT.match(rest)
    if subscript is not None:
        name = head[0].lstrip("${#")
        keyed = KEY.fullmatch(subscript[1]) is not None and scope.associative(name)
        if subscript[1] not in ("@", "*") and not keyed and not is_plain_arithmetic(subscript[1], scope):
            return False
        rest = rest[subscript.end() :]
    if not rest or _TRANSFORM.fullmatch(rest) or _WITH_OPERAND.match(rest):
        return True
    return rest[0] == ":" and is_plain_arithmetic(rest[1:], scope)


def descend(node: Node, scope: Scope) -> int:
    """Look into every substitution and expansion below `node`; how many substitutions there were."""
    found = 0
    for child in node.named_children:
        match child.type:
            case "command_substitution" | "process_substitution":
                scope.nested(child)
                found += 1
            case "arithmetic_expansion":
                found += arithmetic(child, scope)
            case "expansion" | "simple_expansion":
                check(child, scope)
                found += 1
            case _:
                if child.child_count:
                    found += descend(child, scope)
    return found


def arithmetic(node: Node, scope: Scope) -> int:
    """`$((…))`, `((…))`: doubt what is not made of numbers, operators and numeric names."""
    found = descend(node, scope)
    text = _without(node, scope, keep=True).decode("utf-8", "replace")
    text = text.lstrip().removeprefix("$").removeprefix("[").removesuffix("]")
    if not is_plain_arithmetic(text, scope):
        scope.doubt("arithmetic on what may not be a number, which may run commands")
    return found + 1


def is_plain_arithmetic(text: str, scope: Scope) -> bool:
    """Whether evaluating `text` can do nothing but count. `HOLE` stands for what counts."""
    at = 0
    while at < len(text):
        token = _ARITHMETIC.match(text, at)
        if token is None:
            return False
        name, position = token["name"], token["position"]
        if token["array"] and not scope.numeric(token["array"].strip("${").partition("[")[0]):
            return False
        if name and not scope.numeric(name.strip("${}")):
            return False
        if position:
            value = scope.lookup(position.strip("${}"))
            if value is None or not _NUMBER.fullmatch(value.text):
                return False
        at = token.end()
    return True


def counts(node: Node, scope: Scope) -> bool:
    """Whether a command substitution prints a number and nothing else."""
    source = _text(node, scope)
    inner = source[2:-1] if source.startswith("$(") else source[1:-1]
    return not scope.redefines and len(inner) < 256 and _COUNTS.fullmatch(inner) is not None


def printed_name(node: Node, scope: Scope) -> Word | None:
    """What a command substitution prints: a known directory, or one name that has no slash and no dash in front."""
    source = _text(node, scope)
    inner = source[2 if source.startswith("$(") else 1 : -1].strip()
    if scope.redefines or not inner or len(inner) > 64 or ".." in inner:
        return None
    if inner == "pwd":
        return scope.lookup("PWD")
    if inner == "git rev-parse --show-toplevel":
        return Word("/workspace")
    above = _DIRNAME.fullmatch(inner)
    if above is not None:
        value = scope.lookup(above[1])
        place = value.fixed() if value is not None else None
        return Word(place.rstrip("/").rpartition("/")[0] or "/") if place and place[0] == "/" else None
    filtered = _FILTERED.fullmatch(inner)
    if filtered is not None:
        value = scope.lookup(filtered[2])
        if value is None or not value.known or value.text[:1] in ("-", ".") or ".." in value.text:
            return None
        return Word("*", glob=True) if filtered[1] == "basename" or "/" not in value.text else None
    return Word("*", glob=True) if _NAMES.fullmatch(inner) else None


def _text(node: Node, scope: Scope) -> str:
    """The node's text; the grammar puts blanks before an expansion in double quotes into it."""
    return scope.source[node.start_byte : node.end_byte].decode("utf-8", "replace").lstrip()


def _without(node: Node, scope: Scope, *, keep: bool = False) -> bytes:
    """The node's text without what is looked into on its own; `keep`: HOLE for a counting one, parameters stay."""
    pieces: list[bytes] = []
    at = node.start_byte

    def cut(parent: Node) -> None:
        nonlocal at
        for child in parent.named_children:
            if child.type in _KINDS and not (keep and child.type in ("expansion", "simple_expansion")):
                pieces.append(scope.source[at : child.start_byte])
                if keep:
                    number = child.type == "arithmetic_expansion" or (
                        child.type == "command_substitution" and counts(child, scope)
                    )
                    pieces.append(HOLE.encode() if number else b"@")
                at = child.end_byte
            else:
                cut(child)

    cut(node)
    pieces.append(scope.source[at : node.end_byte])
    text = b"".join(pieces)
    return text if keep else text[2:]
