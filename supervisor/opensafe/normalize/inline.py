"""Inline code of interpreters, by a positive list: short programs that compute and print.

Python is read with its own parser (inline_python.py), the others token by token. Names of the workspace's own modules
may be used, as a script of the workspace may be run. Whatever is not on the list is a doubt; none is guessed harmless.
"""

import re
from collections.abc import Iterator
from typing import Final

from .inline_node import node_uses
from .inline_python import python_uses
from .inline_words import word_uses
from .options import Use
from .pieces import names_secret, spells_secret
from .word import HOLE, Word

_MAX_CODE: Final = 16384
_MAX_LISTED: Final = 4096
_PART: Final = r"(?:[^/\\\n@`$({]|\\[^\n]|\$(?=[/|)])|\$[0-9&]|\((?!\?[?{p])|\{[0-9]+(?:,[0-9]*)?\})*"
_PERL_CHANGE: Final = rf"s/{_PART}/{_PART}/[gimsx]*"
_PERL_VALUE: Final = (
    rf"(?:\$_|\$\.|\$0|\$[a-z]\w*|\$F\[-?[0-9]+\]|'[^'\\]*'|\"(?:[^\"\\$@]|\\[nt\"\\]|\$_|\$[0-9&]|\$[a-z]\w*+(?![\[{{(:>-]))*\"|[0-9]+"
    rf"|m?/{_PART}/[imsx]*|\$\]|\$\^V)"
)
_PERL_STATEMENT: Final = (
    rf"(?:print(?:\s+{_PERL_VALUE}(?:\s*[,.]\s*{_PERL_VALUE})*)?|next|last|{_PERL_CHANGE}"
    rf"|(?:tr|y)/{_PART}/{_PART}/[cdsr]*|\$[a-z]\w*\s*(?:\+\+|\+=\s*{_PERL_VALUE}|=\s*{_PERL_VALUE}))"
    rf"(?:\s+(?:if|unless)\s+(?:{_PERL_VALUE}|{_PERL_CHANGE})(?:\s*(?:==|<|>|<=|>=|\.\.)\s*{_PERL_VALUE})?)?"
)
_PERL_BLOCK: Final = rf"(?:BEGIN|END)\s*\{{\s*(?:{_PERL_STATEMENT}\s*;?\s*){{1,4}}\}}"
_PERL: Final = re.compile(rf"\s*+(?:(?:{_PERL_BLOCK}|{_PERL_STATEMENT})\s*+(?:;\s*+)?){{1,8}}")
_TRIVIAL: Final = re.compile(
    r"""\s*+(?:puts|print|echo|p|cat|console\.log)(?:\s*+\(|\s)\s*+(?:'[^'\\]*+'|"[^"\\$\#@{]*+"
    |[-+*/%^\d().][-+*/%^\s\d().]*+|RUBY_VERSION|PHP_VERSION|PHP_OS|_VERSION|R\.version\.string)\s*+\)?+\s*+;?+\s*+""",
    re.VERBOSE,
)  # fmt: skip


def code_uses(language: str, code: Word) -> Iterator[Use]:
    """A doubt unless all that the code does is on the list."""
    text = code.text
    if HOLE in text or code.glob:
        yield Use("doubt", Word("code that is not known before the run"))
    elif len(text) <= _MAX_CODE and (found := _files_of(language, text)) is not None:
        yield from found
        if not any(names_secret(use.word.text) for use in found) and spells_secret(text):
            yield Use("doubt", Word("code that names a place of secrets in pieces"))
    elif len(text) > _MAX_LISTED or not _LANGUAGES.get(language, _trivial)(text):
        yield Use("doubt", Word("code that may do more than compute"))


def _files_of(language: str, code: str) -> list[Use] | None:
    if language == "python":
        return python_uses(code)
    return node_uses(code) if language == "javascript" else word_uses(language, code)


def _trivial(code: str) -> bool:
    return len(code) < 512 and _TRIVIAL.fullmatch(code) is not None


def _perl(code: str) -> bool:
    return len(code) < 512 and _PERL.fullmatch(code) is not None


_RUBY: Final = re.compile(
    r"""\s*(?:puts|print|p)[ (]\s*(?:[0-9]+(?:\.\.\.?[0-9]+)?|[()\[\],+*/%<>=!-]|\s|'[^'\\]*'|"[^"\\\#]*"|\(&?:[\w+*]+\)
    |\.(?:sum|sort|map|inspect|to_[sifa]|reverse|join|uniq|min|max|size|length|upcase|downcase|capitalize|first|last
    |reduce|inject|select|reject|zip|flatten|count|even\?|odd\?|round|abs|gcd|lcm|pow|digits|chars|split|strip)(?![\w(]*\w*\s*\{))+""",
    re.VERBOSE,
)


def _ruby(code: str) -> bool:
    return _trivial(code) or (len(code) < 512 and _RUBY.fullmatch(code) is not None)


_LANGUAGES: Final = {"ruby": _ruby, "perl": _perl}
