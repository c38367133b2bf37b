"""Spans as they are made: parents, waits, usage, and content that is asked for."""

import json

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from opensafe.telemetry.content import READ, SHOWN, captured, describe_content
from opensafe.telemetry.spans import Tracing, Waited

TRACE = "0af7651916cd43dd8448eb211c80319c"
TOKEN = "ghp_" + "a1B2" * 9


@pytest.fixture
def made():
    """A tracing into memory, and its spans once it is closed: by name, which is unique here."""
    memory = InMemorySpanExporter()
    tracing = Tracing(memory, "1")

    def spans():
        tracing.close()
        return {span.name: span for span in memory.get_finished_spans()}

    return tracing, spans


@pytest.mark.parametrize("parent", ["", "nonsense", f"00-{'0' * 32}-{'b' * 16}-01", f"ff-{TRACE}-{'b' * 16}-01"])
def test_a_malformed_context_leaves_the_call_in_its_session(made, parent):
    tracing, spans = made
    tracing.begin_session("ses", "a", "", {"traceparent": f"00-{TRACE}-{'b' * 16}-01"})
    with tracing.tool("Bash", "ses", TRACE, "call", {"traceparent": parent}):
        pass
    found = spans()
    assert found["execute_tool Bash"].parent.span_id == found["invoke_agent a"].context.span_id
    assert f"{found['execute_tool Bash'].context.trace_id:032x}" == TRACE


@pytest.mark.parametrize("since_us", [1_000_000, 2**52], ids=["long ago", "the clock went back"])
def test_a_wait_is_in_its_call_and_never_ends_before_it_begins(made, since_us):
    tracing, spans = made
    with tracing.tool("Bash", "ses", TRACE, "call", {}, Waited("rev", since_us, "approved")):
        pass
    found = spans()
    call, wait = found["execute_tool Bash"], found["review.wait"]
    assert wait.parent.span_id == call.context.span_id
    assert call.start_time == wait.start_time <= wait.end_time <= call.end_time
    assert (wait.start_time == 1_000_000_000) is (since_us == 1_000_000)
    assert wait.attributes == {"opensafe.review.id": "rev", "opensafe.review.state": "approved"}


def test_usage_adds_up_and_that_of_an_unknown_session_is_nobodys(made):
    tracing, spans = made
    tracing.begin_session("ses", "a", "", {})
    tracing.add_usage("ses", 10, None, 5)
    tracing.add_usage("ses", 20, 15, 0)
    tracing.add_usage("another", 1, None, 1)
    attributes = spans()["invoke_agent a"].attributes
    assert (attributes["opensafe.usage.tokens"], attributes["opensafe.usage.cost_microusd"]) == (30, 5)
    assert (attributes["gen_ai.usage.input_tokens"], attributes["gen_ai.usage.output_tokens"]) == (5, 15)


def test_content_is_masked_and_a_failure_has_no_result(made):
    tracing, spans = made
    with tracing.tool("Bash", "ses", TRACE, "call", {}) as span:
        describe_content(span, {"command": f"echo {TOKEN}"}, None)
    attributes = spans()["execute_tool Bash"].attributes
    assert json.loads(attributes["gen_ai.tool.call.arguments"]) == {"command": "echo [masked:github_token]"}
    assert attributes["opensafe.masked"] == ("github_token",)
    assert "gen_ai.tool.call.result" not in attributes


def test_content_that_is_no_text_is_captured_as_far_as_it_is(made):
    tracing, spans = made
    with tracing.tool("Bash", "ses", TRACE, "call", {}) as span:
        describe_content(span, {}, b"ok\xff")
    assert spans()["execute_tool Bash"].attributes["gen_ai.tool.call.result"] == "ok�"


def test_long_content_is_cut_and_says_how_long_it_was():
    shown, _ = captured("x" * (SHOWN + 1))
    assert shown == f"{'x' * SHOWN}… [{SHOWN + 1} characters]"
    assert captured("x" * SHOWN) == ("x" * SHOWN, ())


def test_a_secret_that_the_cut_goes_through_is_not_shown_by_halves():
    key = f"-----BEGIN PRIVATE KEY-----\n{'a1B2' * (READ // 4 - 20)}\n-----END PRIVATE KEY-----"
    cut = READ - len(key) - 20  # in the middle of the token
    shown, kinds = captured(f"{key}{' ' * cut}{TOKEN}")
    assert kinds == ("private_key",)
    assert "ghp_" not in shown
