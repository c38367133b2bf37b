"""Canonical JSON against an independent RFC 8785 implementation."""

import hashlib
from typing import Any

import msgspec
import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from opensafe.model.canonical import (
    MAX_SAFE_INTEGER,
    NotCanonicalError,
    canonical_json,
    digest,
    leaf_hash,
    read_canonical,
)

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


BAD = [1.5, float("nan"), float("inf"), 2**53, -(2**53), "\ud800", {"a\U0001f600": 1}, {"a\ud800": 1}]


@given(values, st.sampled_from(BAD), st.lists(st.sampled_from(["list", "tuple", "value", "beside"]), max_size=8))
def test_what_has_no_form_is_refused_wherever_it_stands(good, bad, way):
    ways = {
        "list": lambda inner: [good, inner],
        "tuple": lambda inner: (inner, good),
        "value": lambda inner: {"a": good, "b": inner},
        "beside": lambda inner: [{}, [], inner],
    }

    def around(inner):
        for step in way:
            inner = ways[step](inner)
        return inner

    assert canonical_json(around(good))
    with pytest.raises(NotCanonicalError):
        canonical_json(around(bad))


@given(values)
def test_a_canonical_line_is_read_as_what_it_holds(value):
    assert read_canonical(canonical_json(value)) == value


@given(values, st.sampled_from([1.5, 1e400, 2**53, -(2**53), 2**64, 10**30]), st.booleans())
def test_a_number_without_a_form_is_not_read(good, bad, in_list):
    """As an encoder would write it that knows no bounds."""
    number = b"1e400" if bad == float("inf") else repr(bad).encode()
    beside = rfc8785.dumps(good)
    whole = b"[%s,%s]" % (beside, number) if in_list else b'{"a":%s,"b":%s}' % (beside, number)
    with pytest.raises(NotCanonicalError):
        read_canonical(whole)


@pytest.mark.parametrize(
    "line",
    [
        b'{"b":1,"a":2}', b'{"a":1,"a":1}', b'{"a": 1}', b' {"a":1}', b'{"a":1}\n', b'["\\u0041"]', b'["\\/"]',
        b"[-0]", b"[01]", b"[1.0]", b'{"\xf0\x9f\x98\x80":1}', b"9007199254740992", b"-9007199254740992", b"[1e3]",
    ],
)  # fmt: skip
def test_another_form_is_not_read(line):
    with pytest.raises((NotCanonicalError, msgspec.DecodeError)):
        read_canonical(line)


@pytest.mark.parametrize("line", [b"9007199254740991", b'["x:9999999999999999"]', b'{"a":-9007199254740991}'])
def test_its_benign_twin_is_read(line):
    value: Any = read_canonical(line)
    assert rfc8785.dumps(value) == line


@pytest.mark.parametrize("wrap", [lambda inner: [inner], lambda inner: {"a": inner}], ids=["list", "object"])
@pytest.mark.parametrize("depth", [65, 10_000])
def test_depth_is_capped(wrap, depth):
    def nest(depth):
        inner = 0
        for _ in range(depth):
            inner = wrap(inner)
        return inner

    assert canonical_json(nest(64))
    with pytest.raises(NotCanonicalError, match="64"):
        canonical_json(nest(depth))


def test_digest_is_sha256_of_the_form():
    assert digest({"b": 1, "a": [True]}) == hashlib.sha256(b'{"a":[true],"b":1}').hexdigest()


def test_leaf_hash_of_rfc6962():
    # RFC 6962 section 2.1: the hash of the empty leaf.
    assert leaf_hash(b"") == "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"
