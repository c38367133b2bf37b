"""What code that is not understood mentions, for facts beside the doubt: shell texts, and files by a literal name.

The code is opaque all the same. But a human who is asked, and the rule that decides, should see that it names `.env` or
runs `sudo`; so this widens the facts and never narrows a doubt. It looks for the idioms of python, node, perl, ruby,
php, lua and awk by regular expression, without knowing which it is.
"""

import re
from collections.abc import Iterator
from typing import Final

from .interpreters import is_interpreter
from .options import Use
from .word import Word

_MAX_CODE: Final = 8192
_MAX_FOUND: Final = 16
_AWKS: Final = frozenset({"awk", "gawk", "mawk", "nawk"})
_LITERAL: Final = r"""(?:'([^'\\\n]*)'|"([^"\\\n]*)")"""
_RUNS: Final = re.compile(
    r"(?:(?<![\w.])(?:system|popen|exec|spawn|passthru|shell_exec|proc_open|popen)|\bos\.(?:system|popen|exec\w+|spawn\w+|execute)"
    r"|\bio\.popen|\bsubprocess\.\w+|\b(?:getoutput|check_call|check_output|Popen|capture2e?)|\w\.exec(?=\b)|\w\.spawn\w*"
    r"|\bexec(?:Sync|File|FileSync)|\bspawnSync)\b\s*\(?\s*" + _LITERAL
)
_PIPES: Final = re.compile(r"(?:\bprint\w*[^|;{}]*\|\s*&?\s*|%x|\bqx\s*)" + _LITERAL)
_PIPED: Final = re.compile(_LITERAL + r"\s*\|&?\s*getline")
_BACKQUOTED: Final = re.compile(r"`([^`$\\\n]+)`")
_BRACED: Final = re.compile(r"(?:%x|\bqx\s*)[({\[]([^)}\]\n]+)[)}\]]")
_WORDS: Final = re.compile(
    r"\b(?:subprocess\.\w+|call|check_call|check_output|Popen|exec\w*|spawn\w*)\(\s*\[\s*((?:"
    + _LITERAL
    + r"\s*,?\s*)+)\]"
)
_DELETES: Final = re.compile(
    r"\b(?:rmtree|rmSync|rmdirSync|unlink\w*|remove|rmdir|rm_rf|rm_r|removedirs|delete)\b[^'\"\n]{0,12}" + _LITERAL
)
_WRITES: Final = re.compile(
    r"\b(?:open|fopen|File\.open)\s*\(\s*" + _LITERAL + r"\s*,\s*['\"][wa>]"
    r"|\b(?:writeFile\w*|appendFile\w*|createWriteStream|file_put_contents|File\.write)\s*\(\s*" + _LITERAL
)
_SED_RUNS: Final = re.compile(r"\A[0-9$]*(?:/[^/\n]*/)?\s*e\s+([^\n]+)")
_PATH: Final = re.compile(
    r"""['"]((?:~|\.{0,2})/[^'"\s<>|;]{1,200}|\.[A-Za-z][\w.-]*|[\w-][\w./-]*\.[A-Za-z]\w{0,7}|[\w.-]*/[\w./-]+)['"]"""
)


def runs_code(program: str) -> bool:
    """Whether a program takes code whose mentions are worth a look."""
    return program in _AWKS or program == "sed" or is_interpreter(program)


def mentioned(code: str) -> Iterator[Use]:
    """Texts that may be run (role `text`) and files that may be read, written or deleted."""
    if len(code) > _MAX_CODE or (".exec(" in code and "child_process" not in code):
        return
    for role, patterns in (
        ("text", (_SED_RUNS, _RUNS, _PIPES, _PIPED, _BACKQUOTED, _BRACED)),
        ("delete", (_DELETES,)),
        ("write", (_WRITES,)),
    ):
        for pattern in patterns:
            for found in list(pattern.finditer(code))[:_MAX_FOUND]:
                text = next((group for group in found.groups() if group), "")
                if text:
                    yield Use(role, Word(text))  # type: ignore[arg-type]  # the roles above
    for found in list(_WORDS.finditer(code))[:_MAX_FOUND]:
        parts = [single or double for single, double in re.findall(_LITERAL, found[1])]
        if parts:
            yield Use("text", Word(" ".join(parts)))
    for found in list(_PATH.finditer(code))[:_MAX_FOUND]:
        yield Use("read", Word(found[1]))
