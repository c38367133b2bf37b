"""Secrets in text, replaced by `[masked:KIND]` before the text reaches a disk or a collector.

By rule, each with a name: the shapes that issuers give their tokens, headers and assignments that say what follows.
Plain text and JSON text alike: what is replaced holds no quote that ends a JSON string and no half of an escape, so
masked JSON is JSON. A mask hides evidence too, so a rule takes the secret and nothing behind it.

Cost shapes it: every audit record passes here. A rule's `hint` is tried first, by the linear-time engine that the
tools' schemas have for their patterns, and only where one is found does Python's run. Those patterns are linear as
well, on hostile text too: possessive, bounded, or stopped by what they start with.

Two things keep it idempotent: nothing that is replaced starts within a word or ends before a character of the same
word, so a marker's brackets bound what the text around it had bounded before; and no value starts with a marker.
"""

import re
from dataclasses import dataclass
from typing import Any, Final

import jsonschema_rs

#: What may stand before a token: no part of a word, unless JSON's escape of a control character.
_START: Final = r"(?:(?<![A-Za-z0-9])|(?<=\\[bfnrt])|(?<=\\u[0-9a-fA-F]{4}))"
_REST: Final = r"[A-Za-z0-9_-]*+"
_QUOTE: Final = r"\\{0,3}[\"']"
_GAP: Final = r"[ \t]{0,8}"
_END: Final = rf"(?={_GAP}(?:\Z|[\r\n\"']|\\{{1,3}}[nr\"']))"
#: A value's first character says that it is none: a variable, a placeholder, a marker.
_REAL: Final = r"(?!\$[\w{(]|[<*%{\[]|\[masked:)"
#: A bare value. `\\` is a backslash in JSON text; in plain text so is one before what JSON knows no escape for.
_BARE: Final = r"(?:[^\s\"'`\\&;,|<>()\[\]{}]|\\\\|\\[^\s\"'\\/bfnrtu])"
#: A quote before one of JSON's own signs has ended a string and opens none.
_QUOTED: Final = (
    r"(?:\\{0,3}\"(?![,:}\]])(?P<double>%s[^\"\\\r\n]{%d,}+)"
    r"|\\{0,3}'(?P<single>%s[^'\"\\\r\n]{%d,}+))"
)


@dataclass(frozen=True, slots=True)
class _Rule:
    """What `pattern`'s named groups match is masked, or all of the match where it has none."""

    kind: str
    hint: Any  # the stub names no type for what `validator_for` gives
    pattern: re.Pattern[str]


def _rule(kind: str, hint: str, pattern: str) -> _Rule:
    options = jsonschema_rs.RegexOptions()
    return _Rule(kind, jsonschema_rs.validator_for({"pattern": hint}, pattern_options=options), re.compile(pattern))


def _token(kind: str, shape: str, end: str = _REST) -> _Rule:
    """An issuer's shape. The whole word goes, so that what follows it starts where it did before."""
    return _rule(kind, shape, f"{_START}{shape}{end}")


def _assigned(kind: str, names: str, shortest: int) -> tuple[_Rule, _Rule]:
    """`name=value`, `name: value` to a line's end, `"name": "value"`; and `--name value`, also as items of a list."""
    bare = rf"{_REAL}{_BARE}{{{shortest},}}+"
    told = r"(?=[A-Za-z_.-]{0,64}+[^A-Za-z_.\s-])"  # `password: str` declares, `password: hunter2` tells
    assigned = (
        rf"(?i:{names})(?:(?:{_QUOTE})?{_GAP}(?::=|:|=(?![=~])){_GAP}"
        + _QUOTED % (_REAL, shortest, _REAL, shortest)
        + rf"|=(?![=~])(?P<bare>{bare})|{_GAP}[:=][ \t]{{1,8}}{told}(?P<line>{bare}){_END})"
    )
    flag = rf"--(?:[A-Za-z0-9]{{1,20}}-){{0,3}}(?i:{names})(?:[ \t]{{1,8}}|{_QUOTE},{_GAP}{_QUOTE})(?P<value>{bare})"
    flag += rf"(?!{_QUOTE}{_GAP}:)"  # an object's next key is no value
    hint = rf"(?i:{names})"
    return (
        _rule(kind, rf"{hint}[\\\x22']{{0,4}}[ \t]{{0,8}}[:=]", assigned),
        _rule(kind, rf"{hint}(?:[ \t]|[\\\x22']{{1,4}},)", flag),
    )


_RULES: Final = (
    _token("aws_key", "(?:AKIA|ASIA)[0-9A-Z]{16}", "(?![0-9A-Za-z])"),
    _token("github_token", "(?:gh[pousr]_|github_pat_)[A-Za-z0-9_]{36,}"),
    _token("gitlab_token", "gl[a-z]{2,5}-[A-Za-z0-9_-]{20,}"),
    _token("slack_token", "(?:xox[a-z]|xapp)-[0-9A-Za-z-]{10,}"),
    _token("anthropic_key", "sk-ant-[A-Za-z0-9_-]{20,}"),
    _rule(  # words joined by hyphens are none
        "openai_key",
        "sk-[A-Za-z0-9_-]{20,}",
        rf"{_START}sk-(?!ant-)(?=[a-z_-]{{0,64}}+[A-Z0-9])[A-Za-z0-9_-]{{20,}}{_REST}",
    ),
    _token("google_key", "AIza[0-9A-Za-z_-]{35,}"),
    _token("stripe_key", "[rs]k_live_[0-9A-Za-z]{20,}"),
    _token("npm_token", "npm_[A-Za-z0-9]{36,}"),
    _token("pypi_token", "pypi-AgE[A-Za-z0-9_-]{30,}"),
    _rule(  # starts where a whole word does, or each part of a long one would be read to its end
        "jwt",
        r"eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}",
        rf"{_START}(?<![_-])eyJ[A-Za-z0-9_-]{{8,}}+\.eyJ[A-Za-z0-9_-]{{8,}}+(?:\.{_REST})?",
    ),
    _rule("azure_key", "AccountKey=", r"AccountKey=(?P<value>[A-Za-z0-9+/]{40,}+={0,2})"),
    _rule(
        "private_key",
        "-----BEGIN [A-Z ]*PRIVATE KEY",
        r"-----BEGIN (?:[A-Z]{2,9} ){0,2}PRIVATE KEY(?: BLOCK)?-----"
        r"(?:(?:\s|\\[nr]){1,8}+[A-Z][A-Za-z-]{2,20}: [^\r\n\\\"]{1,80}+)*+"  # RFC 1421 and RFC 9580: headers
        r"(?:(?:\s|\\[nr])*+[A-Za-z0-9+/=]{4,}+)*+"
        r"(?:(?:\s|\\[nr])*+-----END [A-Z ]{1,40}+-----)?",
    ),
    _rule(
        "authorization",
        r"(?i:authorization)[\\\x22']{0,4}\s{0,4}[:=,]",
        rf"(?i:authorization)(?:{_QUOTE})?\s{{0,4}}[:=,]\s{{0,4}}(?:{_QUOTE})?"
        rf"(?:(?i:basic|bearer|token|bot|apikey|negotiate)[ \t]{{1,8}}(?P<scheme>{_REAL}{_BARE}{{4,}}+)"
        rf"|(?P<value>{_REAL}{_BARE}{{8,}}+){_END})",
    ),
    _rule(
        "url_password",
        r"://[^\s/:@]{0,128}:[^\s/@]{1,256}@",
        r"://[^\s/:@\"'\\<>?#\[\]]{0,128}+:(?P<value>(?!\$[\w{(])[^\s/@\"'\\<>?#\[\]{}]{1,256}+)@",
    ),
    *_assigned("password", "passw(?:or)?d|passphrase", 1),
    *_assigned("token", "token|secret(?:[_-]?key)?|(?:api|access|private|auth)[_-]?key|credentials?", 8),
)

#: Every kind that a marker can name.
KINDS: Final = tuple(sorted({rule.kind for rule in _RULES}))


def mask(text: str) -> tuple[str, tuple[str, ...]]:
    """The text with its secrets replaced, and the kinds found, sorted. `mask` of what it gives finds nothing more."""
    spans = sorted(span for rule in _RULES if _hinted(rule, text) for span in _found(rule, text))
    if not spans:
        return text, ()
    pieces: list[str] = []
    done = 0
    at, end, kind = spans[0]
    for start, stop, other in spans[1:]:
        if start < end:
            end = max(end, stop)
            continue
        pieces += (text[done:at], f"[masked:{kind}]")
        done, (at, end, kind) = end, (start, stop, other)
    pieces += (text[done:at], f"[masked:{kind}]", text[end:])
    return "".join(pieces), tuple(sorted({kind for _, _, kind in spans}))


def _hinted(rule: _Rule, text: str) -> bool:
    try:
        return bool(rule.hint.is_valid(text))
    except ValueError:  # a lone surrogate, which that engine can't take
        return True


def _found(rule: _Rule, text: str) -> list[tuple[int, int, str]]:
    return [(*match.span(match.lastgroup or 0), rule.kind) for match in rule.pattern.finditer(text)]
