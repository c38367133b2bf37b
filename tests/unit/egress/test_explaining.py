"""What would be said to a sandbox that goes for a host: the questions of each way there, by the helper's own judge."""

import msgspec
import pytest

from opensafe.config import EgressSettings
from opensafe.egress.explaining import Explainer, supposed
from opensafe.model.calls import Principal
from opensafe.model.policy_input import BudgetInput, SessionInput
from opensafe.model.termination import TerminateSettings
from opensafe.model.upstream_proxy import ProxySettings
from tests.unit.egress import test_judge
from tests.unit.egress.test_judge import HOST, NOTHING

#: The module's engine.
loaded = test_judge.loaded
AGENT = Principal(name="agent", roles=("developer",))


def explained(loaded, name, port=None, charge=lambda question: question, **settings):
    session = SessionInput(id="s", agent="a", age_s=5)
    where = supposed(AGENT, name, session, BudgetInput(usage=NOTHING, principal=NOTHING))
    return Explainer.of(EgressSettings(**settings)).layers(loaded.engine, name, port, where, charge)


def steps(layers):
    return [(one.layer, one.port, one.allowed) for one in layers]


@pytest.mark.parametrize(
    ("port", "expected"),
    [
        (None, [("dns", None, True), ("tls", 443, True), ("http", 80, True)]),
        (443, [("dns", None, True), ("tls", 443, True)]),
        (80, [("dns", None, True), ("http", 80, True)]),
        (22, [("dns", None, True), ("tcp", 22, False)]),
    ],
)
def test_each_port_has_the_layers_that_a_connection_to_it_passes(loaded, port, expected):
    assert steps(explained(loaded, HOST, port)) == expected


def test_nobody_asks_for_the_address_of_an_address(loaded):
    assert [one.layer for one in explained(loaded, "1.1.1.1")] == ["tls", "http"]
    assert [one.layer for one in explained(loaded, "::1", 443)] == ["tls"]


def test_where_tls_ends_in_the_gateway_its_requests_are_asked_about(loaded):
    ended = explained(loaded, HOST, 443, terminate=(TerminateSettings(name=HOST),))
    assert [(one.layer, one.port) for one in ended] == [("dns", None), ("tls", 443), ("http", 443)]


def test_the_sites_own_proxy_is_nobodys_destination(loaded):
    proxied = explained(loaded, HOST, proxy=ProxySettings(address=f"{HOST}:3128"))
    assert not any(one.allowed for one in proxied)
    assert {hit.reason for one in proxied for hit in one.rules} == {"this is the site's own proxy"}


def test_what_was_used_is_weighed(loaded):
    def much(question):
        return msgspec.structs.replace(question, bytes_sent=1 << 40)

    assert not any(one.allowed for one in explained(loaded, HOST, 443, much))


def test_every_refusal_has_its_rule_and_remedy(loaded):
    for name in ("evil.example.com", "metadata.google.internal", "10.0.0.1", "localhost"):
        layers = explained(loaded, name)
        assert not any(one.allowed for one in layers)
        assert all(hit.id and hit.reason and hit.remedy for one in layers for hit in one.rules)


def test_without_a_policy_nothing_is_allowed(loaded):
    where = supposed(AGENT, HOST, SessionInput(id="s"), BudgetInput())
    layers = Explainer.of(EgressSettings()).layers(None, HOST, None, where, lambda question: question)
    assert len(layers) == 3
    assert not any(one.allowed for one in layers)
