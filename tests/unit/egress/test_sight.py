"""What the helper shows of its tables, page by page, and how a sandbox stands."""

import msgspec
import pytest

from opensafe.egress.accounting import Accounting
from opensafe.egress.connections import Connections
from opensafe.egress.explaining import Explainer
from opensafe.egress.judge import Answer, Question
from opensafe.egress.sight import Sights
from opensafe.model.policy_input import BudgetInput
from opensafe.model.traffic import Sight
from opensafe.warden.protocol import MAX_PACKET, LookDue, NextLook
from tests.unit.egress import test_judge
from tests.unit.egress.test_judge import ADDRESS, HOST, NOTHING, Bench
from tests.unit.monitor.wire import SANDBOX

#: The module's engine.
loaded = test_judge.loaded
OTHER = "sb-000000000000000000aa"


class Looker(Bench):
    def __init__(self, loaded):
        super().__init__(loaded)
        self.loaded = loaded
        self.accounting = Accounting()
        self.connections = Connections(self.accounting, self.cut, lambda _: None)
        self.sights = Sights(self.callers, self.connections, self.accounting, Explainer(self.judge))

    async def cut(self, address, port):
        raise AssertionError("a look cuts nothing")

    def see(self, what, *sandbox_ids, host="", port=None):
        due = LookDue(request=1, number=1, what=what, sandbox_ids=sandbox_ids or (SANDBOX,), host=host, port=port)
        return self.sights.of(due, self.loaded)

    def open(self, count, name=HOST, sandbox_id=SANDBOX):
        for port in range(count):
            question = Question(source=ADDRESS, layer="tls", name=name, port=443)
            answer = Answer(allowed=True, name=name, exec_id="exec-00000000000000000001", sandbox_id=sandbox_id)
            self.connections.enter((f"{sandbox_id}", port + 1), question, answer, None)


@pytest.fixture
def looker(loaded):
    return Looker(loaded)


def test_connections_of_the_sandboxes_that_are_asked_about_and_of_no_others(looker):
    looker.open(2)
    looker.open(1, sandbox_id=OTHER)
    seen = looker.see("connections")
    assert (seen.covered, len(seen.connections)) == (1, 2)
    seen = looker.see("connections", OTHER, SANDBOX)
    assert [one.sandbox_id for one in seen.connections] == [OTHER, SANDBOX, SANDBOX]


def test_a_page_is_whole_sandboxes_and_fits_into_a_packet_whatever_their_names(looker):
    longest = ".".join(["x" * 63] * 3 + ["x" * 61])
    many = [f"sb-{number:020x}" for number in range(20)]
    for one in many:
        looker.open(300, longest, one)
        for number in range(300):
            looker.accounting.allowed(one, f"{number:03}{longest[3:]}", None)
    for what in "connections", "hosts":
        left, rows = list(many), 0
        while left:
            seen = looker.see(what, *left)
            assert len(msgspec.msgpack.encode(NextLook(request=1, looked=1, sight=seen))) < MAX_PACKET
            assert msgspec.msgpack.decode(msgspec.msgpack.encode(seen), type=Sight) == seen
            rows += len(seen.connections) + len(seen.hosts)
            left = left[seen.covered :]
        assert rows == {"connections": 20 * 300, "hosts": 20 * 257}[what]


def test_the_fullest_sandbox_fits_into_a_packet(looker):
    looker.open(512, ".".join(["x" * 63] * 3 + ["x" * 61]))
    seen = looker.see("connections", SANDBOX, OTHER)
    assert len(seen.connections) == 512
    assert len(msgspec.msgpack.encode(seen)) < MAX_PACKET


def test_how_a_sandbox_stands_is_weighed_as_its_connections_are_and_nobody_is_told(looker):
    closed = looker.see("standing", host=HOST, port=443).standing
    assert (closed.address, closed.programs, closed.call_id) == (ADDRESS, 0, "")
    assert [one.allowed for one in closed.layers] == [False, False]
    looker.start()
    granted = looker.see("standing", host=HOST, port=443).standing
    assert (granted.programs, granted.call_id) == (1, looker.call.call_id)
    assert granted.network == looker.call.network
    assert [(one.layer, one.port, one.allowed) for one in granted.layers] == [("dns", None, True), ("tls", 443, True)]
    refused = looker.see("standing", host="www.python.org").standing
    assert [one.layer for one in refused.layers] == ["dns", "tls", "http"]
    assert not any(one.allowed for one in refused.layers)
    assert looker.told == []


def test_a_session_that_has_used_all_it_may_is_told_so(looker):
    looker.start(budget=BudgetInput(usage=NOTHING, principal=NOTHING, limits={"requests": 1}))
    assert looker.see("standing", host=HOST).standing.over == ""
    looker.accounting.allowed(SANDBOX, HOST, looker.call)
    standing = looker.see("standing", host=HOST).standing
    assert standing.over.startswith("egress.requests.budget: 2 of 1 requests")
    assert standing.requests == 1


def test_of_a_sandbox_that_is_not_known_nothing_is_allowed(looker):
    standing = looker.see("standing", OTHER, host=HOST).standing
    assert (standing.address, standing.layers) == ("", ())


def test_without_a_policy_nothing_is_allowed(looker):
    looker.start()
    looker.loaded = None
    standing = looker.see("standing", host=HOST).standing
    assert standing.bundle == ""
    assert not any(one.allowed for one in standing.layers)
