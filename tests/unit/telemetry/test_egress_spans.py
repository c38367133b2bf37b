"""Spans of connections: below their call's run, from the allow to the end, refusals as such, and never too many."""

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from opensafe.model.connection import Connection
from opensafe.telemetry import egress_spans
from opensafe.telemetry.spans import Tracing

US = 1_700_000_000_000_000


class Bench:
    """A call that runs as exec-1 in a session, and what was exported once all is closed."""

    def __init__(self):
        self._memory = InMemorySpanExporter()
        self._tracing = Tracing(self._memory, "1")
        self.egress = self._tracing.egress
        self._tracing.begin_session("ses-1", "a", "", {})
        self._tool = self._tracing.tool("Bash", "ses-1", "", "call-1", {})

    def run(self, *connections):
        """What is told while the call runs."""
        with self._tool, self._tracing.child("sandbox.exec", x="y") as span, self.egress.below("exec-1", span):
            self.tell(*connections)

    def tell(self, *connections):
        for one in connections:
            self.egress.tell(one)

    def spans(self, *names):
        """All of these names, in the order of their begin."""
        self._tracing.close()
        found = [one for one in self._memory.get_finished_spans() if one.name in names]
        return sorted(found, key=lambda one: one.start_time)

    def parents(self, *names):
        every = {one.context.span_id: one.name for one in self.spans("sandbox.exec", "invoke_agent a")}
        return [every[one.parent.span_id] for one in self.spans(*names)]


@pytest.fixture
def bench():
    return Bench()


def connection(state, at=0, *, layer="tls", name="allowed.test", port=443, exec_id="exec-1", **more):
    return Connection(
        time_us=US + at,
        state=state,
        layer=layer,
        name=name,
        port=port,
        exec_id=exec_id,
        session_id="ses-1",
        sandbox_id="sb-1",
        decision_id="dec-1",
        **more,
    )


def ended(begun, at, state="ended", **more):
    return connection(state, at, begun_us=US + begun, **more)


async def test_a_connection_lasts_from_its_allow_to_its_end_and_lies_in_its_calls_run(bench):
    bench.run(
        connection("allowed", 10, layer="http", port=80, method="GET", rules=("egress.allow",), revision="r1"),
        ended(11, 500, layer="http", port=80, sent=3, received=4, address="198.51.100.10"),
    )
    (span,) = bench.spans("egress.connect")
    assert bench.parents("egress.connect") == ["sandbox.exec"]
    assert (span.start_time, span.end_time) == ((US + 10) * 1000, (US + 500) * 1000)
    assert span.status.status_code is StatusCode.UNSET
    assert span.attributes == {
        "server.address": "allowed.test",
        "server.port": 80,
        "network.protocol.name": "http",
        "network.transport": "tcp",
        "network.peer.address": "198.51.100.10",
        "http.request.method": "GET",
        "opensafe.egress.layer": "http",
        "opensafe.egress.state": "ended",
        "opensafe.egress.sent_bytes": 3,
        "opensafe.egress.received_bytes": 4,
        "opensafe.policy.rules": ("egress.allow",),
        "opensafe.policy.decision_id": "dec-1",
        "opensafe.policy.bundle.revision": "r1",
        "opensafe.sandbox.id": "sb-1",
        "opensafe.exec.id": "exec-1",
    }


async def test_a_request_inside_of_tls_is_a_point_in_its_connection(bench):
    bench.run(
        connection("allowed", 10),
        connection("allowed", 20, layer="http", method="GET"),
        ended(11, 500),
        connection("allowed", 600, layer="http", method="GET"),
    )
    (around,) = bench.spans("egress.connect")
    first, orphan = bench.spans("egress.request")
    (run,) = bench.spans("sandbox.exec")
    assert [one.parent.span_id for one in (first, orphan)] == [around.context.span_id, run.context.span_id]
    assert first.start_time == first.end_time == (US + 20) * 1000
    assert first.attributes["http.request.method"] == "GET"
    assert first.attributes["opensafe.egress.state"] == "allowed"


async def test_an_end_that_comes_after_its_calls_is_its_spans_end(bench):
    bench.run(connection("allowed", 10))
    bench.tell(ended(11, 900, "cut"))
    (span,) = bench.spans("egress.connect")
    assert (span.end_time, span.attributes["opensafe.egress.state"]) == ((US + 900) * 1000, "cut")
    assert span.status.status_code is StatusCode.UNSET


async def test_a_refusal_is_a_failed_span_of_no_length(bench):
    bench.run(
        connection("refused", 5, rules=("egress.domain.allowlist",), reason="not granted", count=3),
        connection("refused", 6, layer="dns", name="denied.test", port=None, rules=("egress.domain.allowlist",)),
        connection("refused", 7, layer="packet", name="", address="8.8.8.8", port=123, protocol="udp", rules=("p",)),
    )
    first, asked, packet = bench.spans("egress.refuse")
    assert first.start_time == first.end_time == (US + 5) * 1000
    assert {one.status.status_code for one in (first, asked, packet)} == {StatusCode.ERROR}
    assert (first.attributes["error.type"], packet.attributes["error.type"]) == ("policy_denied", "packet_refused")
    assert first.attributes["security_rule.name"] == "egress.domain.allowlist"
    assert (first.attributes["opensafe.egress.count"], first.attributes["opensafe.outcome.detail"]) == (
        3,
        "not granted",
    )
    assert (asked.attributes["network.protocol.name"], asked.attributes["server.address"]) == ("dns", "denied.test")
    assert "network.transport" not in asked.attributes
    assert (packet.attributes["network.transport"], packet.attributes["server.address"]) == ("udp", "8.8.8.8")
    (run,) = bench.spans("sandbox.exec")
    assert (run.attributes["opensafe.egress.allowed"], run.attributes["opensafe.egress.refused"]) == (0, 5)


async def test_a_cut_by_a_rule_is_a_failure(bench):
    bench.run(connection("allowed", 1), ended(2, 9, "cut", rules=("egress.bytes.budget",), reason="too much"))
    (span,) = bench.spans("egress.connect")
    assert (span.status.status_code, span.attributes["error.type"]) == (StatusCode.ERROR, "policy_denied")
    assert span.attributes["opensafe.policy.rules"] == ("egress.bytes.budget",)


async def test_equal_connections_that_are_open_together_keep_their_own_times(bench):
    bench.run(
        connection("allowed", 10),
        connection("allowed", 20),
        connection("allowed", 30),
        ended(21, 100),
        ended(11, 200),
        ended(31, 300),
    )
    times = [(one.start_time // 1000 - US, one.end_time // 1000 - US) for one in bench.spans("egress.connect")]
    assert times == [(10, 200), (20, 100), (30, 300)]


async def test_an_allowed_name_has_no_span_and_what_belongs_to_nobody_here_neither(bench):
    bench.run(
        connection("allowed", layer="dns", port=None),
        ended(5, 6),
        strangers("allowed"),
    )
    assert bench.spans("egress.connect", "egress.refuse") == []


def strangers(state):
    return Connection(time_us=US, state=state, layer="tls", name="a", exec_id="exec-9", session_id="ses-9")


async def test_what_no_call_is_known_of_lies_in_its_session(bench):
    bench.run()
    bench.tell(connection("allowed", exec_id=""), connection("refused", exec_id=""))
    assert bench.parents("egress.connect", "egress.refuse") == ["invoke_agent a", "invoke_agent a"]


async def test_what_is_open_when_nothing_more_can_come_ends_without_an_end(bench):
    bench.run(connection("allowed"))
    (span,) = bench.spans("egress.connect")
    assert span.attributes["opensafe.egress.state"] == "unknown"


async def test_a_call_with_many_connections_has_some_spans_and_their_number(bench):
    bench.run(*(connection("allowed", at) for at in range(1000)), *(connection("refused") for _ in range(50)))
    assert len(bench.spans("egress.connect", "egress.refuse")) == egress_spans.MOST
    (run,) = bench.spans("sandbox.exec")
    assert (run.attributes["opensafe.egress.allowed"], run.attributes["opensafe.egress.refused"]) == (1000, 50)


@pytest.mark.parametrize("number", [-(1 << 70), 1 << 70])
async def test_a_number_that_no_exporter_could_write_is_brought_into_range(bench, number):
    many = {"port": abs(number), "count": abs(number)}
    bench.run(
        Connection(time_us=number, state="refused", layer="tls", exec_id="exec-1", **many),
        connection("allowed"),
        ended(0, 1, sent=abs(number), received=abs(number)),
    )
    spans = bench.spans("egress.refuse", "egress.connect", "sandbox.exec")
    assert len(spans) == 3
    assert all(0 <= one.start_time < 1 << 63 for one in spans)
    numbers = [value for one in spans for value in one.attributes.values() if isinstance(value, int)]
    assert len(numbers) == 7
    assert max(numbers) < 1 << 63
