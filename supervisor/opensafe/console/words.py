"""The console's own texts, by language and screen: words/LANGUAGE/SCREEN.json, each a flat object.

What agents, guests, rules and the daemon said is shown as they said it; only the console's own words are translated.
"""

import functools
import json
import pathlib
from collections.abc import Sequence
from typing import Final

LANGUAGES: Final = {"en": "English", "ja": "日本語", "es": "Español"}
_PLACE: Final = pathlib.Path(__file__).with_name("words")


class Words:
    """The texts of one language. Called with a key, and values for what stands in braces there."""

    def __init__(self, language: str, texts: dict[str, str]) -> None:
        self.language = language
        self.texts = texts

    def __call__(self, key: str, /, **values: object) -> str:
        """The text under `SCREEN.NAME`. Raises KeyError."""
        text = self.texts[key]
        return text.format(**values) if values else text

    def get(self, key: str, default: str) -> str:
        """The text of a value that is shown as it is where the console has no word for it."""
        return self.texts.get(key, default)


@functools.cache
def words(language: str) -> Words:
    """The texts of one of LANGUAGES."""
    texts: dict[str, str] = {}
    for path in sorted((_PLACE / language).glob("*.json")):
        texts |= {f"{path.stem}.{key}": text for key, text in json.loads(path.read_text()).items()}
    return Words(language, texts)


def chosen(cookie: str | None, accept: str) -> str:
    """The language to use: the one asked for by hand, else the first that the browser names, else English."""
    if cookie in LANGUAGES:
        return cookie
    return next((language for language in _preferred(accept) if language in LANGUAGES), "en")


def _preferred(accept: str) -> Sequence[str]:
    """Primary tags of an Accept-Language header, best first (RFC 9110, 12.5.4). What can't be read counts last."""
    ranked: list[tuple[float, str]] = []
    for part in accept[:500].split(","):
        tag, _, weight = part.strip().partition(";q=")
        try:
            quality = float(weight) if weight else 1.0
        except ValueError:
            quality = 0.0
        ranked.append((-quality, tag.partition("-")[0].lower()))
    return [tag for _, tag in sorted(ranked, key=lambda one: one[0])]
