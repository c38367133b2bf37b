"""What a command prints or passes on, as far as an xargs, a loop or a substitution behind it takes words from that."""

import re
from collections.abc import Sequence
from typing import Final

from .find import find_items
from .word import FED, FED_LINES, FED_LISTED, HOLE, REF, UNKNOWN, Word

#: By which grep and its like print the names of files alone.
_LISTS_FILES: Final = re.compile(r"-[a-zA-Z]*[lL][a-zA-Z]*|--files(?:-with-matches|-without-match)?|--name-only")
_LINE_OPTIONS: Final = re.compile(r"(?: -n [0-9]+| -n?[0-9]+| -[ruzhVfqv]+)*")
_REF_FORMAT: Final = re.compile(r"--format=%\((?:refname|objectname)(?::[\w=]+)?\)")
_QUOTES: Final = re.compile(r"[\\'\"]")
_PARTS: Final = re.compile(r"[\s\\'\"]")
_MAX_ITEMS: Final = 64


def passes_on(program: str, args: Sequence[Word]) -> bool:
    """Whether a command prints some of the lines it is fed, as they are."""
    texts = [word.text for word in args]
    if program in ("head", "sort", "tail", "uniq"):
        return _LINE_OPTIONS.fullmatch("".join(f" {text}" for text in texts)) is not None
    if program in ("grep", "egrep", "fgrep"):
        patterns = [text for text in texts if not re.fullmatch(r"-[vEFiPwxz]+", text)]
        return len(patterns) == 1 and patterns[0][:1] not in ("-", "", HOLE)
    return False


def here_items(redirects: Sequence[tuple[str, int | None, Word | None]]) -> Sequence[Word] | None:
    """What xargs takes from a redirection: the words of a literal text, else what is not known."""
    for op, _, target in reversed(redirects):
        if op[:1] == "<":
            return (_items([target]) if op[:2] == "<<" and target is not None else None) or [UNKNOWN]
    return None


def taken(how: Word, feed: Sequence[Word]) -> Sequence[Word]:
    """What an xargs takes of what it is fed; a text of several words in a line is several items only by default."""
    if how == FED or all(word.glob for word in feed) or (how == FED_LINES and not any(word.split for word in feed)):
        return feed
    return [*feed, UNKNOWN] if how == FED_LISTED and all(word.known for word in feed) else [UNKNOWN]


def _items(words: Sequence[Word], *, lines: bool = False) -> Sequence[Word] | None:
    """The items that xargs, or an unquoted substitution, makes of words that are printed; None where quotes matter."""
    if any(word.fixed() is None or _QUOTES.search(word.text) for word in words):
        return None
    items = [Word(text) for word in words for text in word.text.split()]
    if len(items) > 1 and (not lines or len(items) > len(words)):
        items = [item._replace(split=True) for item in items]
    return items[:_MAX_ITEMS] if 0 < len(items) <= _MAX_ITEMS else None


def printed(program: str, args: Sequence[Word]) -> Sequence[Word] | None:
    """The files below which lie all paths that a command prints, one in a line or NUL-ended."""
    texts = [word.text for word in args]
    if any(HOLE in text for text in texts):
        return None
    if program == "echo" and not any(text[:1] == "-" for text in texts):
        return _items(args)
    if program == "printf" and texts[:1] == ["%s\\0"] and not any(map(_PARTS.search, texts[1:])):
        return [word._replace(glob=True) for word in args[1:]]  # each as it stands, whatever splits texts
    if program == "printf" and len(texts) == 1 and "%" not in texts[0]:
        return _items([Word(text) for text in texts[0].split("\\n")])
    if program == "printf" and texts[:1] in (["%s\\n"], ["%s\\0"], ["%s "]):
        return _items(args[1:], lines=texts[0] != "%s ")
    if program == "ls" and all(re.fullmatch(r"-[1AadrtSUvhp]+", text) for text in texts if text[:1] == "-"):
        operands = [word for word in args if word.text[:1] != "-"]
        if not operands:
            return [Word(".", glob=True)]
        named = all(word.glob and re.search(r"\*\.\w+$", word.text) for word in operands)
        return operands if named or "-d" in texts else None
    if program == "git" and texts[:1] and texts[0] in ("branch", "for-each-ref", "rev-list", "tag"):
        formats = [text for text in texts if text.startswith(("--format", "--pretty"))]
        return [REF] if all(_REF_FORMAT.fullmatch(text) for text in formats) else None
    if program == "find" and not any(
        text in ("-printf", "-exec", "-execdir", "-ls", "-ok", "-okdir") for text in texts
    ):
        return find_items(args)
    if program == "grep" and any(re.fullmatch(r"-[a-zA-Z]*l[a-zA-Z]*", text) for text in texts):
        operands = [word for word in args if not word.text.startswith("-")]
        plain = not any(re.match(r"-[a-zA-Z]*[efABCm]|--", text) for text in texts)
        return [word._replace(glob=True) for word in operands[1:]] or [Word(".", glob=True)] if plain else None
    if program == "git" and _git_lists(texts):
        return [Word(".", glob=True)]
    if program in ("rg", "fd", "fdfind"):
        lists = any(map(_LISTS_FILES.fullmatch, texts)) if program == "rg" else not {"-x", "-X", "-l"} & set(texts)
        return [Word(".", glob=True)] if lists and not any(re.match(r"/|~|\.\.", text) for text in texts) else None
    return None


def _git_lists(texts: Sequence[str]) -> bool:
    """Whether git prints names of files of the work tree alone, one in a line."""
    if texts[:1] == ["ls-files"]:
        return not any(re.match(r"-s|--stage|-[a-z]*[tvs]|--eol|--format|--debug", text) for text in texts[1:])
    if texts[:1] == ["grep"]:
        return any(map(_LISTS_FILES.fullmatch, texts))
    if texts[:1] == ["ls-tree"]:
        return "--name-only" in texts
    if texts[:1] in (["diff"], ["diff-tree"], ["diff-index"], ["diff-files"]):
        return "--name-only" in texts
    if texts[:1] in (["show"], ["log"]):
        return "--name-only" in texts and any(re.fullmatch(r"--(?:pretty|format)=(?:format:)?", text) for text in texts)
    return False
