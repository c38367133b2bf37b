"""Changes of protocol on plain HTTP, judged by the shipped rules from Envoy's question on."""

import pytest

from opensafe.policy.bundle import load
from opensafe.policy.engine import Engine
from opensafe.policy.reload import Loaded
from tests.harness.policy import TRUSTED, site_bundle

from .envoy import GUEST, Envoy
from .test_judge import HOST, Bench

LISTED = "flask.readthedocs.io"
OK, DENIED = 0, 7


def _loaded(directory, change, **options):
    bundle = load(site_bundle(directory, change=change, **options)[0], trusted=TRUSTED)
    return Loaded(bundle=bundle, engine=Engine(bundle, deadline_ms=1000), quick=False)


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    listed = _loaded(
        tmp_path_factory.mktemp("listed"), lambda settings: settings["hosts"].update(websocket=["*.readthedocs.io"])
    )
    yield listed
    listed.engine.close()


@pytest.fixture
async def envoy(tmp_path, loaded):
    bench = Bench(loaded)
    bench.start()
    async with Envoy(tmp_path, bench.judge) as it:
        it.calls[GUEST] = bench.call
        it.bench = bench
        yield it


@pytest.mark.parametrize("upgrade", ["websocket", "WebSocket"])
async def test_a_listed_host_may_change_to_websocket_and_no_other_may(envoy, upgrade):
    assert (await envoy.http(LISTED, headers={"upgrade": upgrade})).status.code == OK
    refused = await envoy.http(HOST, 2, headers={"upgrade": upgrade})
    assert "egress.upgrade.deny" in refused.denied_response.body
    assert (await envoy.http(HOST, 3)).status.code == OK


@pytest.mark.parametrize("upgrade", ["h2c", "websocket,h2c", "websocket ", "x" * 5000, "tls/1.0"])
async def test_a_listed_host_may_change_to_nothing_else(envoy, upgrade):
    assert "egress.upgrade.deny" in (await envoy.http(LISTED, headers={"upgrade": upgrade})).denied_response.body


async def test_NW30_a_host_that_is_listed_no_longer_loses_what_is_open(envoy, loaded, tmp_path_factory):
    await envoy.http(LISTED, headers={"upgrade": "websocket"})
    await envoy.http(LISTED, 40001)
    unlisted = _loaded(tmp_path_factory.mktemp("unlisted"), lambda settings: settings["hosts"].update(websocket=[]))
    envoy.bench.judge.lead(unlisted)
    await envoy.connections.recheck(envoy.bench.judge)
    envoy.bench.judge.lead(loaded)
    unlisted.engine.close()
    assert envoy.cuts == [(GUEST, 40000)]


async def test_a_bundle_from_before_the_rule_lets_nobody_change_the_protocol(envoy, loaded, tmp_path_factory):
    before = _loaded(
        tmp_path_factory.mktemp("before"),
        lambda settings: settings["hosts"].pop("websocket"),
        rego={"connection/connection.rego": ("\tnot _upgrade_allowed\n", "\tfalse\n")},
        without="egress.upgrade.deny",
    )
    envoy.bench.judge.lead(before)
    refused = await envoy.http(LISTED, headers={"upgrade": "websocket"})
    assert (await envoy.http(LISTED, 2)).status.code == OK
    envoy.bench.judge.lead(loaded)
    before.engine.close()
    assert "egress.upgrade.deny" in refused.denied_response.body
