"""A client's trace context out of what it sent: taken where it is well formed, absent where it is not."""

import pytest

from opensafe.model.carrier import from_meta, from_metadata

PARENT = f"00-{'a' * 32}-{'b' * 16}-01"
BOTH = {"traceparent": PARENT, "tracestate": "vendor=1"}


def test_metadata_gives_parent_and_state_and_nothing_else():
    sent = [("user-agent", "x"), ("traceparent", PARENT), ("tracestate", "vendor=1"), ("baggage", "user=bob")]
    assert from_metadata(sent) == BOTH


def test_a_state_in_parts_is_joined_and_two_parents_are_none():
    state = [("tracestate", "a=1"), ("tracestate", "b=2")]
    assert from_metadata([("traceparent", PARENT), *state]) == {"traceparent": PARENT, "tracestate": "a=1,b=2"}
    assert from_metadata([("traceparent", PARENT), ("traceparent", PARENT)]) == {}


def test_mcp_requests_carry_it_under_its_bare_names_in_meta():
    assert from_meta({"name": "tool", "_meta": {**BOTH, "baggage": "x", "progressToken": 1}}) == BOTH
    assert from_meta({"name": "tool", "traceparent": PARENT}) == {}


@pytest.mark.parametrize("meta", [None, "x", [], {"traceparent": 1}, {"traceparent": ""}, {"traceparent": "0" * 257}])
def test_what_is_no_parent_counts_as_absent(meta):
    assert from_meta({"_meta": meta}) == {}


def test_a_state_that_is_too_long_or_alone_is_left_out():
    assert from_meta({"_meta": {"traceparent": PARENT, "tracestate": "a" * 513}}) == {"traceparent": PARENT}
    assert from_metadata([("tracestate", "a=1")]) == {}
    assert from_metadata([("traceparent", PARENT), ("tracestate", b"\xff")]) == {"traceparent": PARENT}
