"""Usage, windows, taints and bans are folds of records: they count what ran, and nothing twice."""

import msgspec
import pytest

from opensafe.model.canonical import MAX_SAFE_INTEGER
from opensafe.model.decision import Action
from opensafe.model.outcome import Outcome, OutcomeKind
from opensafe.model.records import BanRecord, OutcomeRecord, ReviewRecord, SandboxRecord, SessionRecord, UsageRecord
from opensafe.model.usage import Usage
from opensafe.state.recent import Recent
from opensafe.state.store import Store

from .test_store import SESSION, decision

OTHER = "ses-00000000000000000002"
HOUR = 3600 * 10**6
PLACES = [
    *(
        SessionRecord(time_us=1, session_id=name, principal="agent", state="open", agent="a")
        for name in (SESSION, OTHER)
    ),
    *(
        SandboxRecord(
            time_us=1, sandbox_id=name, session_id=SESSION, principal="agent", state="running", template="base"
        )
        for name in ("sb-1", "sb-2")
    ),
]  # fmt: skip - records, read as a table


class Folded:
    """A store and the records folded into it."""

    def __init__(self, path):
        self.path = path
        self.store = Store(path)
        self.records = []
        for record in PLACES:
            self.add(record)

    def add(self, record):
        self.store.fold(len(self.records), record)
        self.records.append(record)

    def run(self, call_id, *effects, kind=OutcomeKind.EXITED, session=SESSION, sandbox="sb-1", usage=None):
        """An allowed call that ended as `kind` says (None: it is under way)."""
        record = decision(call_id, Action.ALLOW, effects=effects)
        self.add(msgspec.structs.replace(record, session_id=session, sandbox_id=sandbox))
        if kind is not None:
            self.end(call_id, kind, session=session, usage=usage)

    def end(self, call_id, kind, *, session=SESSION, usage=None, time_us=3):
        self.add(
            OutcomeRecord(
                time_us=time_us,
                decision_id="dec-1",
                session_id=session,
                call_id=call_id,
                outcome=Outcome(kind=kind),
                usage=usage,
            )
        )

    def taints(self):
        return [self.store.session(name).taints for name in (SESSION, OTHER)]


@pytest.fixture
def folded(tmp_path):
    folded = Folded(tmp_path / "index.sqlite")
    yield folded
    folded.store.close()


def test_usage_adds_up_for_session_and_principal(folded):
    used = Usage(wall_us=700_000, output_bytes=5, requests=1, egress_bytes=2)
    folded.run("one", usage=used)
    folded.run("two", usage=used)
    folded.run("three", session=OTHER, usage=used)
    folded.add(UsageRecord(time_us=4, session_id=OTHER, principal="agent", usage=Usage(tokens=9, cost_microusd=4)))
    assert folded.store.session(SESSION).usage == Usage(
        calls=2, wall_us=1_400_000, output_bytes=10, requests=2, egress_bytes=4
    )
    assert folded.store.history.principal_usage("agent", 5) == Usage(
        calls=3, wall_us=2_100_000, output_bytes=15, requests=3, egress_bytes=6, tokens=9, cost_microusd=4
    )
    assert folded.store.session(SESSION).usage.as_budget()["wall_s"] == 1
    assert folded.store.history.principal_usage("other", 5) == Usage()


def test_a_principals_day_rolls(folded):
    folded.run("one", usage=Usage(wall_us=1))
    assert folded.store.history.principal_usage("agent", 24 * HOUR).calls == 1
    assert folded.store.history.principal_usage("agent", 25 * HOUR).calls == 0
    folded.run("two", kind=None)
    folded.end("two", OutcomeKind.EXITED, usage=Usage(wall_us=8), time_us=30 * HOUR)
    assert folded.store.history.principal_usage("agent", 30 * HOUR) == Usage(wall_us=8)


def test_a_counter_at_its_end_stays_there():
    full = Usage(tokens=MAX_SAFE_INTEGER)
    assert full.plus(full) == full


def test_windows_forget_and_stay_small():
    recent = Recent()
    for number in range(10_000):
        recent = recent.with_call(number * 50_000)  # twenty a second
        if number % 2:
            recent = recent.with_block(number * 50_000)
    window = recent.window(10_000 * 50_000)
    assert 1200 <= window["calls_1m"] <= 1220  # a minute, and at most one bucket more
    assert window["blocks_10m"] == 5000
    assert len(recent.calls.starts) <= 61
    assert recent.window(10_000 * 50_000 + 3600 * 10**6) == {"calls_1m": 0, "blocks_10m": 0}


@pytest.mark.parametrize("kind", [OutcomeKind.EXITED, OutcomeKind.SIGNALLED, OutcomeKind.DEADLINE, OutcomeKind.LOST])
def test_what_may_have_run_taints(folded, kind):
    folded.run("read", "secret.read", kind=kind)
    assert folded.taints() == [("secret.read",), ()]
    assert folded.store.sandbox("sb-1").taints == ("secret.read",)


def test_what_never_started_does_not_taint(folded):
    folded.run("read", "secret.read", kind=OutcomeKind.NOT_STARTED)
    blocked = decision("blocked", Action.BLOCK, effects=("secret.read",))
    folded.add(blocked)
    folded.add(decision("query", Action.ALLOW, purpose="query", effects=("secret.read",)))
    assert folded.taints() == [(), ()]


def test_taints_travel_by_calls_from_session_to_sandbox_and_back(folded):
    folded.run("read", "secret.read", sandbox="sb-1")
    assert folded.store.sandbox("sb-2").taints == ()
    folded.run("encode", "encode", sandbox="sb-1", session=OTHER)
    assert folded.taints() == [("secret.read",), ("secret.read", "encoded")]
    folded.run("elsewhere", sandbox="sb-2")
    assert folded.store.sandbox("sb-2").taints == ("secret.read",)


def test_a_call_under_way_is_seen_in_its_session_and_its_sandbox(folded):
    folded.run("read", "secret.read", kind=None)
    history = folded.store.history
    assert history.under_way(SESSION, "sb-2", 10).effects == (("secret.read",),)
    assert history.under_way(OTHER, "sb-1", 10).effects == (("secret.read",),)
    assert history.under_way(OTHER, "", 10).effects == ()
    assert history.under_way(SESSION, "", 10).wall_us == 8
    assert history.wall_us("agent", 10) == 8
    folded.end("read", OutcomeKind.EXITED)
    assert history.under_way(SESSION, "sb-1", 10).effects == ()


def test_a_parked_calls_workspace_counts_what_ran_in_it(folded):
    folded.add(decision("parked", Action.REVIEW, review_id="rev-1", expires_us=9))
    folded.run("look")
    folded.run("elsewhere", "workspace.write", sandbox="sb-2")
    assert folded.store.review("rev-1").changes == 0
    folded.run("write", "workspace.write")
    assert folded.store.review("rev-1").changes == 1
    folded.run("writing", "workspace.write", kind=None)
    assert folded.store.history.changes_under_way("sb-1") == 1
    approved = ReviewRecord(
        time_us=5, review_id="rev-1", session_id=SESSION, call_id="parked", state="approved", changes=2
    )
    folded.add(approved)
    assert folded.taints() == [("workspace.changed",), ()]


def test_bans_are_of_a_name_or_of_a_whole_principal_and_last(folded, tmp_path):
    history = folded.store.history

    def add(agent, state):
        folded.add(BanRecord(time_us=6, principal="agent", agent=agent, state=state, decided_by="op", reason="r"))

    add("a", "banned")
    assert (history.banned("agent", "a"), history.banned("agent", "b"), history.banned("other", "a")) == (1, 0, 0)
    add("", "banned")
    assert history.banned("agent", "b")
    before = history.bans()
    folded.store.close()
    folded.store = Store(folded.path)
    history = folded.store.history
    assert history.bans() == before
    add("", "lifted")
    assert (history.banned("agent", "a"), history.banned("agent", "b")) == (1, 0)


def test_an_index_folded_anew_holds_the_same(folded, tmp_path):
    test_taints_travel_by_calls_from_session_to_sandbox_and_back(folded)
    test_bans_are_of_a_name_or_of_a_whole_principal_and_last(folded, tmp_path)
    other = Store(tmp_path / "other.sqlite")
    for index, record in enumerate(folded.records):
        other.fold(index, record)

    def picture(store):
        return (
            [store.session(name) for name in (SESSION, OTHER)],
            store.sandboxes.live(),
            store.history.principal_usage("agent", 5),
            store.history.bans(),
        )

    assert picture(other) == picture(folded.store)
    other.close()
