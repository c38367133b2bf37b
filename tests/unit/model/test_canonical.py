"""Canonical JSON against an independent RFC 8785 implementation."""

import hashlib

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from opensafe.model.canonical import MAX_SAFE_INTEGER, NotCanonicalError, canonical_json, digest, leaf_hash

text = st.text(st.characters(codec="utf-8"))
key = st.text(st.characters(codec="utf-8", max_codepoint=0xFFFF))
scalars = st.none() | st.booleans() | st.integers(-MAX_SAFE_INTEGER, MAX_SAFE_INTEGER) | text
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(key, inner), max_leaves=30)


@given(values)
def test_agrees_with_rfc8785(value):
    assert canonical_json(value) == rfc8785.dumps(value)


@pytest.mark.parametrize(
    "value",
    [1.5, float("nan"), 2**53, -(2**53), "\ud800", {"\ud800": 1}, {"\U0001f600": 1}, [[[1.0]]]],
)
def test_what_has_no_form_is_refused(value):
    with pytest.raises(NotCanonicalError):
        canonical_json(value)


def test_depth_is_capped():
    def nest(depth):
        return 0 if depth == 0 else [nest(depth - 1)]

    assert canonical_json(nest(64))
    with pytest.raises(NotCanonicalError, match="64"):
        canonical_json(nest(65))


def test_digest_is_sha256_of_the_form():
    assert digest({"b": 1, "a": [True]}) == hashlib.sha256(b'{"a":[true],"b":1}').hexdigest()


def test_leaf_hash_of_rfc6962():
    # RFC 6962 section 2.1: the hash of the empty leaf.
    assert leaf_hash(b"") == "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"
