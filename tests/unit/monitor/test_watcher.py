"""What the watcher makes of reports: who did it, whether it was announced, and what can't be trusted."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opensafe.monitor import events
from opensafe.monitor import watcher as module
from opensafe.warden import feed
from tests.unit.monitor.wire import SANDBOX, SIGSYS, Bench, call, clone, end, execution, report


@pytest.fixture
def bench():
    bench = Bench()
    yield bench
    bench.close()


def found(said):
    return [(one.breach.exec_id, one.breach.input.runtime.path) for one in said if isinstance(one, feed.Found)]


def untrusted(said):
    return [one.why for one in said if isinstance(one, feed.Untrusted)]


def test_the_calls_own_program_and_its_grant_are_announced(bench):
    started = bench.start(2, programs=("/usr/bin/cat",))
    bench.report(clone(3, 4, parent=2), execution(4, "/usr/bin/cat", parent=3))
    assert bench.turn() == []
    assert bench.judge.asked == [(started.exec_id, "/usr/bin/bash", True), (started.exec_id, "/usr/bin/cat", True)]


def test_what_the_grant_does_not_cover_is_a_breach_of_that_call(bench):
    started = bench.start(2, programs=("/usr/bin/cat",))
    bench.report(clone(3, 4, parent=2), execution(4, "/usr/bin/perl", parent=3))
    assert found(bench.turn()) == [(started.exec_id, "/usr/bin/perl")]


def test_one_finding_a_call(bench):
    started = bench.start(2, programs=())
    bench.report(*(execution(3, f"/bin/{name}", parent=2) for name in ("a", "b", "c")))
    assert found(bench.turn()) == [(started.exec_id, "/bin/a")]
    assert bench.watcher.counts.executions == 4


def test_the_runner_starts_its_own_program_once(bench):
    """A program that lost its parents is the runner's child as well, and no second leader."""
    started = bench.start(2, programs=())
    bench.report(clone(3, 4, parent=2), end(3, parent=2), execution(4, "/bin/a", parent=2))
    assert found(bench.turn()) == [(started.exec_id, "/bin/a")]


def test_any_program_is_any_program(bench):
    bench.start(2, programs=None)
    bench.report(execution(3, "/dev/fd/3", parent=2), execution(3, "", parent=2))
    assert found(bench.turn()) == []


def test_G41_a_deleted_file_is_not_the_file(bench):
    started = bench.start(2, programs=("/usr/bin/python3.11",))
    bench.report(execution(3, "/usr/bin/python3.11", parent=2))
    assert found(bench.turn()) == []
    bench.report(execution(3, "/usr/bin/python3.11 (deleted)", parent=2))
    assert found(bench.turn()) == [(started.exec_id, "/usr/bin/python3.11 (deleted)")]


def test_a_descendant_stays_its_calls_whoever_its_parents_are(bench):
    """Double fork, session of its own, parents gone: made by a process of this call, so this call's."""
    mine, other = bench.start(2, programs=()), bench.start(20, programs=None)
    bench.report(clone(3, 4, parent=2), clone(4, 5, parent=3), end(4, parent=3), end(3, parent=2))
    bench.report(execution(5, "/bin/late", parent=2))
    assert found(bench.turn()) == [(mine.exec_id, "/bin/late")]
    bench.report(execution(21, "/bin/late", parent=20))
    assert found(bench.turn()) == []
    assert other.exec_id != mine.exec_id


def test_threads_are_no_processes(bench):
    bench.start(2)
    bench.report(*(clone(3, 3, parent=2, flags=0x3D0F00) for _ in range(100)))
    bench.turn()
    assert len(bench.watcher._by_id[SANDBOX].tree) == 2


def test_a_process_of_no_call_ends_the_sandboxs_trust(bench):
    bench.report(execution(7, "/bin/a", parent=6))
    assert found(bench.turn()) == [("", "/bin/a")]
    bench.report(execution(7, "/bin/b", parent=6))
    assert bench.turn() == []


def test_death_by_SIGSYS_is_the_calls(bench):
    started = bench.start(2)
    bench.report(clone(3, 4, parent=2), end(4, parent=3, status=9), end(3, parent=2, status=SIGSYS))
    said = bench.turn()
    assert [(one.breach.exec_id, one.breach.input.runtime.syscall) for one in said] == [(started.exec_id, "SIGSYS")]
    assert said[0].why == "runtime.test: because (value: v). r"


def test_a_report_waits_until_its_start_is_known(bench):
    """The runner's number is known only after it runs. Nothing of it is judged, nor taken from the socket, before."""
    announced = bench.expect()
    bench.report(clone(2, 3), execution(3, "/usr/bin/bash", parent=2))
    assert bench.turn() == []
    assert bench.judge.asked == []
    bench.bind(announced, 2)
    assert bench.turn() == []
    assert bench.judge.asked == [(announced.exec_id, "/usr/bin/bash", True)]


def test_a_withdrawn_start_owns_nothing(bench):
    announced = bench.expect()
    bench.report(execution(2, "/.opensafe/run"))
    assert bench.turn() == []
    bench.tell(feed.Withdrawn(sandbox_id=SANDBOX, exec_id=announced.exec_id))
    assert found(bench.turn()) == [("", "/.opensafe/run")]


def test_a_sandbox_that_goes_while_its_report_is_judged_says_nothing(bench):
    bench.turn()
    watched = bench.watcher._by_id[SANDBOX]
    bench.report(execution(7, "/bin/a", parent=6), execution(7, "/bin/b", parent=6))
    bench.tell(feed.Unwatch(sandbox_id=SANDBOX))
    bench.watcher._read(watched)  # which hears of it, as it looks for what announced the first
    assert SANDBOX not in bench.watcher._by_id
    assert bench.turn() == []


def test_the_announcement_is_read_before_the_report_is_judged(bench):
    """Announced before the start, but on another socket: it counts however late it is looked at."""
    bench.turn()
    announced = bench.expect()
    bench.bind(announced, 2)
    bench.report(clone(2, 3), execution(3, "/usr/bin/bash", parent=2))
    assert bench.turn() == []


def test_ended_processes_are_forgotten(bench):
    for pid in range(2, 2000, 2):
        bench.start(pid)
        bench.report(end(pid + 1, parent=pid), end(pid))
        bench.turn()
    assert len(bench.watcher._by_id[SANDBOX].tree) == 0


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"\x08", "malformed"),
        (end(3, container="sb-" + "1" * 20), "another container"),
        (end(3, dropped=1), "1 reports were lost"),
        (b"\0" * (events.MAX_REPORT + 1), "malformed"),
        (report(9, pid=3), "type 9"),
    ],
)
def test_what_can_not_be_trusted_is_said_once(bench, raw, why):
    bench.sentry.setsockopt(1, 32, 8 << 20)
    bench.start(2)
    bench.report(raw)
    (said,) = untrusted(bench.turn())
    assert why in said
    bench.report(execution(3, "/bin/evil", parent=2))
    assert bench.turn() == []


def test_reports_that_end_are_said(bench):
    bench.turn()
    bench.sentry.close()
    assert untrusted(bench.turn()) == ["its reports ended"]


def test_more_processes_than_fit_are_no_sandboxs(bench, monkeypatch):
    monkeypatch.setattr("opensafe.monitor.tree._PROCESSES_MAX", 50)
    bench.start(2)
    bench.report(*(clone(3, pid, parent=2) for pid in range(10, 100)))
    assert "more than 50 processes" in untrusted(bench.turn())[0]


def test_a_flood_of_one_sandbox_leaves_turns_to_others(bench, monkeypatch):
    monkeypatch.setattr(module, "_ROUNDS", 1)
    monkeypatch.setattr(module, "_BATCH", 10)
    bench.start(2, programs=None)
    bench.report(*(end(9, parent=8) for _ in range(60)))
    bench.turn()
    bench.turn()
    assert 0 < bench.watcher.counts.reports <= 20


def test_without_a_policy_nothing_is_taken(bench):
    bench.judge.judges = False
    bench.start(2)
    bench.tell(feed.Ping(number=1))
    (pong,) = bench.turn()
    assert (pong.judges, pong.counts.reports) == (False, 0)
    bench.judge.judges = True
    bench.tell(feed.Ping(number=2))
    (pong,) = bench.turn()
    assert (pong.number, pong.judges, pong.counts.reports, pong.counts.executions) == (2, True, 2, 1)


def test_the_next_watcher_judges_what_this_one_did_not_finish():
    """A report leaves the socket after its verdict: one that dies in between leaves it to the next."""

    class Dying:
        judges = True

        def execution(self, *_, **__):
            raise KeyboardInterrupt

    bench = Bench(Dying())
    announced = bench.start(2, programs=())
    bench.report(execution(3, "/bin/a", parent=2))
    with pytest.raises(KeyboardInterrupt):
        bench.turn()
    bench.watcher.close()
    heir = Bench()
    heir.kept, heir.sentry = bench.kept, bench.sentry
    heir.turn()
    heir.tell(feed.Unwatch(sandbox_id=SANDBOX))
    heir.watch(calls=[call(exec_id=announced.exec_id, programs=(), pid=2)], processes=[(1, 0), (2, 0), (3, 2)])
    assert found(heir.turn()) == [(announced.exec_id, "/bin/a")]
    assert [path for _, path, _ in heir.judge.asked] == ["/usr/bin/bash", "/bin/a"]
    heir.close()


LIVED = [(1, 0), (2, 0)]


def test_what_had_ended_at_a_takeover_is_of_the_one_call_that_was_taken_over():
    """Its report waits while neither it nor the shell that made it is among the processes any more."""
    one = call(programs=("/bin/a",), pid=2)
    heir = Bench(calls=[one], processes=LIVED)
    heir.report(execution(4, "/bin/a", parent=3), clone(4, 5, parent=3), execution(5, "/bin/b", parent=4))
    assert found(heir.turn()) == [(one.exec_id, "/bin/b")]
    assert heir.judge.asked == [(one.exec_id, "/bin/a", True), (one.exec_id, "/bin/b", False)]
    heir.close()


@pytest.mark.parametrize(("calls", "processes"), [(0, LIVED), (2, LIVED), (1, [*LIVED, (4, 1)])])
def test_it_is_nobodys_where_it_could_be_anybodys_or_lived_at_the_takeover(calls, processes):
    heir = Bench(calls=[call(programs=None, pid=0 if number else 2) for number in range(calls)], processes=processes)
    heir.report(execution(4, "/bin/a", parent=3))
    assert found(heir.turn()) == [("", "/bin/a")]
    heir.close()


def test_what_comes_after_a_takeover_is_of_no_call_that_it_does_not_descend_from():
    heir = Bench(calls=[call(programs=None, pid=2)], processes=LIVED)
    heir.tell(feed.Ping(number=1))
    heir.turn()  # the answer: all is read that waited
    heir.report(execution(4, "/bin/a", parent=3))
    assert found(heir.turn()) == [("", "/bin/a")]
    heir.close()


def test_a_sandbox_that_was_claimed_reports_under_its_container_and_breaks_rules_under_its_own_id(bench):
    claimed = f"sb-{'2' * 20}"
    bench.tell(feed.Renamed(sandbox_id=SANDBOX, to=claimed))
    bench.tell(feed.Expect(sandbox_id=claimed, call=(announced := call(programs=()))))
    bench.tell(feed.Bound(sandbox_id=claimed, exec_id=announced.exec_id, pid=2))
    bench.report(execution(3, "/usr/bin/bash", parent=2), execution(3, "/bin/a", parent=2))
    said = bench.turn()
    assert untrusted(said) == []
    assert [(one.breach.sandbox_id, one.breach.exec_id) for one in said] == [(claimed, announced.exec_id)]


def test_a_finding_that_can_not_be_said_keeps_its_report(bench):
    started = bench.start(2, programs=())
    bench.turn()
    filler = feed.Ping(number=1)
    bench._feed.setblocking(False)
    for _ in range(10_000):  # pongs pile up until the feed is full
        bench.tell(filler)
        bench.watcher.turn()
        if bench.watcher._pings:
            break
    bench.report(execution(3, "/bin/a", parent=2))
    bench.watcher.turn()
    assert bench.watcher.counts.refused == 0
    assert found(bench.turn()) == []  # empties the feed: all pongs
    assert found(bench.turn()) == [(started.exec_id, "/bin/a")]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.binary(min_size=1, max_size=120), max_size=6))
def test_no_bytes_break_the_watcher(raws):
    bench = Bench()
    try:
        bench.start(2)
        bench.report(*raws)
        said = bench.turn()
        assert len(untrusted(said)) + len([one for one in said if isinstance(one, feed.Found)]) <= 1
    finally:
        bench.close()


def test_what_is_heard_between_turns_is_known_in_the_next(bench):
    started = bench.start(2, programs=())
    bench.watcher.hear()
    bench.watcher.hear()
    bench.report(execution(3, "/bin/late", parent=2))
    assert found(bench.turn()) == [(started.exec_id, "/bin/late")]


def test_a_word_that_is_not_the_wardens_ends_the_next_turn_and_not_who_hears_it(bench):
    bench.tell(("no", "message"))
    bench.watcher.hear()
    bench.watcher.hear()
    with pytest.raises(module.FeedEndedError):
        bench.watcher.turn()
