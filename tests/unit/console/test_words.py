"""Texts in three languages: none is missing in one, none is asked for that is not there."""

import json
import re
from pathlib import Path

import pytest

import opensafe.console
from opensafe.console.words import LANGUAGES, chosen, words

ROOM = Path(opensafe.console.__file__).parent
TEMPLATES = sorted((ROOM / "templates").rglob("*.html"))
#: `t('key')` and `t.get('key', …)`; with `~` behind it, the key is a beginning.
ASKED = re.compile(r"\bt(?:\.get)?\('([a-z_]+\.[a-z_]*)'( ~)?")
SLOTS = re.compile(r"\{(\w*)\}")


def _keys(language):
    return set(words(language).texts)


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_language_has_the_same_texts_with_the_same_slots(language):
    english = words("en").texts
    assert _keys(language) == set(english)
    for key, text in words(language).texts.items():
        assert text.strip(), key
        assert set(SLOTS.findall(text)) == set(SLOTS.findall(english[key])), key


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.relative_to(ROOM / "templates").as_posix())
def test_a_template_asks_only_for_texts_that_there_are(path):
    for key, begins in ASKED.findall(path.read_text()):
        if begins:
            assert any(known.startswith(key) for known in _keys("en")), key
        else:
            assert key in _keys("en")


def test_a_slot_may_be_named_as_anything():
    assert "opensafe/1" in words("en")("audit.signed", key="opensafe/1")


def test_every_text_is_asked_for():
    source = "".join(path.read_text() for path in [*TEMPLATES, *ROOM.rglob("*.py")])
    begins = tuple(key for key, begins in ASKED.findall(source) if begins)
    unused = [key for key in _keys("en") if f"'{key}'" not in source and f'"{key}"' not in source]
    assert [key for key in unused if not key.startswith(begins)] == []


@pytest.mark.parametrize("path", sorted((ROOM / "words").rglob("*.json")), ids=lambda path: "/".join(path.parts[-2:]))
def test_files_of_texts_are_flat(path):
    assert all(isinstance(text, str) for text in json.loads(path.read_text()).values())


@pytest.mark.parametrize(
    ("cookie", "accept", "language"),
    [
        (None, "", "en"),
        (None, "ja", "ja"),
        (None, "fr-CH, es-MX;q=0.8, ja;q=0.9", "ja"),
        (None, "es-419,en;q=0.5", "es"),
        (None, "xx;q=nonsense, es", "es"),
        (None, "de, fr", "en"),
        ("es", "ja", "es"),
        ("../../etc", "ja", "ja"),
        (None, "," * 10_000, "en"),
    ],
)
def test_the_language_is_the_one_asked_for(cookie, accept, language):
    assert chosen(cookie, accept) == language
