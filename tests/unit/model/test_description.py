"""The digest of a tool's description, against its definition written out by hand."""

import hashlib

import pytest

from opensafe.model.canonical import NotCanonicalError
from opensafe.model.description import description_digest

SCHEMA = {"type": "object", "properties": {"b": {"minimum": 1}, "a": {"type": "string"}}}


def test_it_is_the_sha256_of_the_canonical_json() -> None:
    schema = '{"properties":{"a":{"type":"string"},"b":{"minimum":1}},"type":"object"}'
    text = f'{{"description":"Fetch a \u00e4.","schema":{schema}}}'
    assert description_digest("Fetch a \u00e4.", SCHEMA) == hashlib.sha256(text.encode()).hexdigest()


def test_order_and_spelling_of_the_json_do_not_matter_but_each_word_does() -> None:
    same = {"properties": {"a": {"type": "string"}, "b": {"minimum": 1}}, "type": "object"}
    assert description_digest("x", SCHEMA) == description_digest("x", same)
    assert description_digest("x", SCHEMA) != description_digest("x ", SCHEMA)
    assert description_digest("x", SCHEMA) != description_digest("x", {**SCHEMA, "title": ""})


def test_what_has_no_one_form_has_no_digest() -> None:
    with pytest.raises(NotCanonicalError, match="float"):
        description_digest("x", {"maximum": 0.5})
