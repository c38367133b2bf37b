"""Envoy's questions answered by the shipped rules, from the socket to the verdict."""

import msgspec
import pytest

from opensafe.model.policy_input import BudgetInput
from opensafe.model.usage import Usage
from opensafe.warden import feed
from tests.unit.monitor.wire import SANDBOX

from . import test_judge
from .envoy import GUEST, KIND, Envoy, tcp_entry

HOST, OK, DENIED = test_judge.HOST, 0, 7
loaded = test_judge.loaded
bench = test_judge.bench


@pytest.fixture
async def envoy(tmp_path, bench):
    async with Envoy(tmp_path, bench.judge) as it:
        it.calls[GUEST] = bench.call
        yield it


async def test_a_granted_host_passes_in_both_layers_and_another_in_none(envoy):
    assert (await envoy.tls(HOST, 1)).status.code == OK
    assert (await envoy.http(f"{HOST.upper()}.:80", 2)).status.code == OK
    assert (await envoy.tls("evil.example", 3)).status.code == DENIED
    assert "egress.domain.allowlist" in (await envoy.http("evil.example", 4)).denied_response.body


async def test_g5_a_post_over_plain_http_is_refused_and_a_get_is_not(envoy):
    assert "egress.method.allowlist" in (await envoy.http(HOST, method="POST")).denied_response.body
    assert (await envoy.http(HOST)).status.code == OK


async def test_nw30_a_policy_that_is_gone_ends_what_it_allowed(envoy, bench):
    await envoy.tls(HOST)
    await envoy.connections.recheck(bench.judge)
    assert envoy.cuts == []
    assert len(bench.told) == 1, "an allow goes on record once"
    bench.judge.lead(None)
    await envoy.connections.recheck(bench.judge)
    assert envoy.cuts == [(GUEST, 40000)]


async def test_g19_nw24_the_sites_ceiling_on_bytes_ends_an_upload(envoy, bench):
    usage = Usage().as_budget() | {"egress_bytes": 1000}
    bench.callers.left(feed.Left(sandbox_id=SANDBOX, exec_id=bench.call.exec_id))
    bench.start(budget=BudgetInput(usage=usage, principal=Usage().as_budget(), limits={"egress_bytes": 5000}))
    envoy.calls[GUEST] = bench.call
    assert (await envoy.tls(HOST)).status.code == OK, bench.told
    held = await envoy.log(tcp_entry(KIND.TcpPeriodic, 4000), tcp_entry(KIND.TcpPeriodic, 4001), hold=True)
    await envoy.cut_once.wait()
    assert envoy.cuts == [(GUEST, 40000)]
    assert envoy.connections.snapshot()[0].sent == 4001
    assert any("egress.bytes.budget" in told.rules for told in bench.told)
    held.cancel()


@pytest.mark.parametrize(("ask", "rules"), [
    (lambda envoy: envoy.http(f"{HOST}:443"), ("egress.port.allowlist",)),
    (lambda envoy: envoy.http(HOST, path="*"), ("default.deny",)),
    (lambda envoy: envoy.http(HOST, 1), ("default.deny",)),
    (lambda envoy: envoy.tls(b"docs.python.org\xff"), ("default.deny",)),
])  # fmt: skip
async def test_what_the_policy_allows_and_the_gateway_refuses_is_on_record_as_refused(envoy, bench, ask, rules):
    assert (await envoy.tls(HOST, 1)).status.code == OK
    bench.told.clear()
    assert (await ask(envoy)).status.code == DENIED
    ((told),) = bench.told
    assert (told.state, told.rules, told.call_id) == ("refused", rules, bench.call.call_id)
    assert told.reason.isascii()
    assert told.sandbox_id == SANDBOX


async def test_an_sni_that_is_no_text_is_refused_and_named_on_record(envoy, bench):
    """The message that asks about it is read all the same."""
    assert (await envoy.tls(b"\xff\xfe.example.org")).status.code == DENIED
    ((told),) = bench.told
    assert (told.state, told.layer, told.name) == ("refused", "tls", "\\xff\\xfe.example.org")


async def test_a_request_beyond_a_sessions_limit_is_on_record_as_refused(envoy, bench):
    envoy.calls[GUEST] = msgspec.structs.replace(bench.call, budget=BudgetInput(limits={"requests": 0}))
    assert (await envoy.tls(HOST)).status.code == DENIED
    assert [(told.state, told.rules) for told in bench.told] == [("refused", ("egress.requests.budget",))]


async def test_a_connection_begins_when_it_was_allowed_and_not_before(envoy, bench):
    """Its trace finds what was allowed by that."""
    await envoy.tls(HOST)
    assert bench.told[0].time_us <= envoy.connections.snapshot()[0].since_us
