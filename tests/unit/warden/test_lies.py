"""What a helper under an attacker's control may say: nothing that the record, and with it the front, would end of."""

from typing import Any

import msgspec
import pytest

from opensafe.errors import Unavailable
from opensafe.model.breach import Breach
from opensafe.model.calls import Principal
from opensafe.model.canonical import MAX_SAFE_INTEGER
from opensafe.model.connection import Connection
from opensafe.model.decision import Action, Decision, Grant
from opensafe.model.policy_input import CallInput, PolicyInput, SessionInput
from opensafe.warden import feed, protocol
from opensafe.warden.sandbox.monitor import read

MOST = MAX_SAFE_INTEGER


def reported(**fields):
    """Whether the warden reads a report of such a connection."""
    told: dict[str, Any] = {"time_us": 1, "state": "ended", "layer": "tls"}
    one = Connection(**told | fields)
    packet = msgspec.msgpack.encode(protocol.Report(request=1, connections=(one,)))
    try:
        return msgspec.msgpack.decode(packet, type=protocol.Request).connections == (one,)
    except msgspec.ValidationError:
        return False


@pytest.mark.parametrize("name", ["time_us", "port", "begun_us", "sent", "received", "count"])
def test_a_figure_is_one_that_can_be_on_record(name):
    assert [reported(**{name: value}) for value in (MOST, MOST + 1, -1)] == [True, False, False]


def test_a_connection_is_in_a_state_that_there_is():
    assert [reported(state=one) for one in ("allowed", "refused", "ended", "cut")] == [True] * 4
    assert [reported(state=one) for one in ("", "allowed\n", "gone")] == [False] * 3


def found(**arguments):
    asked = PolicyInput(
        id="dec-1",
        kind="runtime",
        call=CallInput(id="c", tool="Bash", arguments=arguments, digest="d"),
        principal=Principal(name="agent"),
        session=SessionInput(id="s", agent="a", age_s=1),
    )
    verdict = Decision(action=Action.BLOCK, rules=(), grant=Grant(), id="dec-1", data_version="r1")
    breach = Breach(sandbox_id="sb-1", exec_id="", trace_id="", revision="1", digest="d", input=asked, result=verdict)
    return msgspec.msgpack.encode(feed.Found(breach=breach, why="why"))


@pytest.mark.parametrize(
    ("fits", "does_not"), [(MOST, MOST + 1), ("\uffff", {"\U0001f600": 1}), ([[1]], 1.5), ({"a": 1}, {"a": -MOST - 1})]
)
def test_a_breach_is_one_that_can_be_on_record(fits, does_not):
    assert isinstance(read(found(it=fits)), feed.Found)
    with pytest.raises(Unavailable):
        read(found(it=does_not))


def test_what_is_no_text_is_none_of_its_words():
    packet = msgspec.msgpack.encode(feed.Untrusted(sandbox_id="sb-" + "0" * 20, why="why"))
    assert isinstance(read(packet), feed.Untrusted)
    with pytest.raises(Unavailable):
        read(packet.replace(b"\xa3why\xa3why", b"\xa3why\xa3\xff\xff\xff"))
