"""What a call says and answers, on its span: only where the site asks for it, with secrets masked and cut to size.

Bulk content is not in it: arguments are taken as the record has them, where it stands as size and digest. A result is
recorded of a success only, as the conventions have it.
"""

from typing import Any, Final

import msgspec
from opentelemetry.trace import Span

from opensafe.model.masking import mask

from . import semconv

#: Characters of one attribute.
SHOWN: Final = 8192
#: What is masked at most: a secret that the cut at its end goes through lies beyond what is shown.
READ: Final = 8 * SHOWN


def describe_content(span: Span, sealed: dict[str, Any], result: bytes | None) -> None:
    """Put arguments and, of a success, standard output on a call's span, and the kinds of what was masked in them."""
    texts = {semconv.TOOL_ARGUMENTS: msgspec.json.encode(sealed).decode()}
    if result is not None:
        texts[semconv.TOOL_RESULT] = result.decode(errors="replace")
    found: set[str] = set()
    for key, text in texts.items():
        shown, kinds = captured(text)
        span.set_attribute(key, shown)
        found.update(kinds)
    if found:
        span.set_attribute(semconv.MASKED, sorted(found))


def captured(text: str) -> tuple[str, tuple[str, ...]]:
    """The beginning of a text as it may be shown, and the kinds of what is masked in it."""
    masked, kinds = mask(text[:READ])
    if len(text) > READ:  # markers are short, so what the cut went through can have moved into view
        masked = masked[:-SHOWN]
    elif len(masked) <= SHOWN:
        return masked, kinds
    return f"{masked[:SHOWN]}… [{len(text)} characters]", kinds
