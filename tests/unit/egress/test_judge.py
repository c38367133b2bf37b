"""Connections judged by the shipped rules: each refusal beside one like it that is allowed."""

import json
import pathlib
from collections.abc import Callable

import msgspec
import pytest

from opensafe.egress.callers import Callers
from opensafe.egress.judge import EgressJudge, Question
from opensafe.egress.reports import Reports
from opensafe.errors import EvaluationFailed
from opensafe.model.calls import Principal
from opensafe.model.connection import Connection
from opensafe.model.policy_input import BudgetInput, SessionInput
from opensafe.model.usage import Usage
from opensafe.policy.bundle import load
from opensafe.policy.engine import Engine
from opensafe.policy.reload import Loaded
from opensafe.warden import feed
from tests.harness.policy import TRUSTED, site_bundle
from tests.unit.monitor.wire import SANDBOX, call

ADDRESS = "10.201.0.1"
HOST = "docs.python.org"
NETWORK = (HOST, "*.readthedocs.io", "0.0.0.0", "1.1.1.1", "evil.example.com")
NOTHING = Usage().as_budget()


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    bundle = load(site_bundle(tmp_path_factory.mktemp("bundle"))[0], trusted=TRUSTED)
    engine = Engine(bundle, deadline_ms=1000)
    yield Loaded(bundle=bundle, engine=engine, quick=False)
    engine.close()


class Bench:
    def __init__(self, loaded, *, keep=False, **options):
        self.callers = Callers(keep=keep)
        self.told: list[Connection] = []
        self.timers: list[Callable[[], None]] = []
        reports = Reports(self.told.append, later=lambda _, then: self.timers.append(then), kinds=4)
        self.judge = EgressJudge(self.callers, reports, **options)
        self.judge.lead(loaded)
        self.callers.watch(feed.Watch(sandbox_id=SANDBOX, container=SANDBOX, template="base", address=ADDRESS))

    def start(self, **changes):
        self.call = call(
            **{
                "network": NETWORK,
                "principal": Principal(name="agent", roles=("developer",)),
                "session": SessionInput(id="s", agent="a", age_s=5),
                "budget": BudgetInput(usage=NOTHING, principal=NOTHING),
            }
            | changes
        )
        self.callers.expect(feed.Expect(sandbox_id=SANDBOX, call=self.call))

    def ask(self, name=HOST, **changes):
        fields = {"source": ADDRESS, "layer": "tls", "name": name, "sni": name, "port": 443}
        return self.judge.judge(Question(**(fields | changes)))


@pytest.fixture
def bench(loaded):
    bench = Bench(loaded)
    bench.start()
    return bench


def test_what_a_call_was_granted_is_allowed_and_told_once(bench):
    answer = bench.ask()
    assert answer.allowed, answer.why
    assert (answer.name, answer.exec_id, answer.sandbox_id) == (HOST, bench.call.exec_id, SANDBOX)
    (told,) = bench.told
    assert (told.state, told.name, told.port, told.call_id) == ("allowed", HOST, 443, "c")
    assert (told.decision_id, told.rules, told.count) == (bench.call.decision_id, ("egress.domain.allow",), 1)


DNS = {"layer": "dns", "port": None, "sni": "", "label": {"longest": 6, "length": 15, "entropy": 2500, "names": 1}}


@pytest.mark.parametrize("layer", [
    {"layer": "http", "authority": HOST, "method": "GET", "port": 80, "sni": ""},
    {"layer": "dns", "port": None, "sni": "", "label": {"longest": 6, "length": 15, "entropy": 2500, "names": 1}},
])  # fmt: skip
def test_each_layer_is_judged(bench, layer):
    answer = bench.ask(**layer)
    assert answer.allowed, answer.why


@pytest.mark.parametrize("name", [HOST, HOST.upper(), f"{HOST}."])
def test_NW19_B36_spellings_of_one_host_are_one_name(bench, name):
    answer = bench.ask(name)
    assert (answer.allowed, answer.name) == (True, HOST), answer.why


@pytest.mark.parametrize("name", [
    "", ".", f"{HOST}..", f"evil.example.com\\@{HOST}", f"{HOST}\\evil.example.com", f"{HOST}\0.evil.example.com",
    f"{HOST}\r\nX: y", f"{HOST}\t", f"{HOST}#.evil.example.com", f"{HOST}/", f"{HOST}?", f"{HOST}%00.evil.example.com",
    f"evil.example.com,{HOST}", f"{HOST} evil.example.com", f"a@b@{HOST}", f"{HOST}:444", f"http://{HOST}",
    "docs.pyth\u043en.org", "docs\u3002python.org", "d" * 64 + ".org", "x." * 127 + "org", "*.readthedocs.io",
])  # fmt: skip
def test_NW19_B35_B37_what_is_not_exactly_one_host_is_refused(bench, name):
    answer = bench.ask(name)
    assert not answer.allowed
    assert len(answer.why) <= 500
    assert not bench.ask(name, **DNS).allowed
    assert answer.why.isprintable()
    assert bench.told[-1].state == "refused"


def test_NW19_user_information_is_refused(bench):
    assert "egress.userinfo.deny" in bench.ask(f"a@{HOST}").why + str(bench.told[-1].rules)


@pytest.mark.parametrize("name", [
    "notreadthedocs.io", "readthedocs.io", "readthedocs.io.evil.example.com", "xreadthedocs.io", "notdocs.python.org",
    f"a.{HOST}", "python.org",
])  # fmt: skip
def test_NW20_B38_a_suffix_covers_whole_labels_below_it(bench, name):
    assert not bench.ask(name).allowed


@pytest.mark.parametrize("name", ["flask.readthedocs.io", "a.b.c.readthedocs.io"])
def test_G13_NW20_a_pattern_of_the_grant_covers_what_the_tables_cover(bench, name):
    answer = bench.ask(name)
    assert answer.allowed, answer.why


@pytest.mark.parametrize("name", ["0.0.0.0", "0", "0x0", "0.0.0.0/0", "::", "[::]", "127.1", "2130706433", "1.1.1.1"])
def test_G14_addresses_are_refused_granted_or_not(bench, name):
    assert not bench.ask(name).allowed


def test_a_granted_address_is_refused_by_its_rule(bench):
    assert not bench.ask("1.1.1.1").allowed
    assert "egress.ip.literal.deny" in bench.told[-1].rules


@pytest.mark.parametrize("address", ["10.0.0.1", "169.254.169.254", "::ffff:127.0.0.1", HOST, "nonsense/"])
def test_the_address_that_would_be_dialled_is_judged(bench, address):
    assert not bench.ask(address=address).allowed
    assert bench.ask(address="151.101.0.223").allowed


def test_what_the_site_denies_is_refused_though_granted(bench):
    assert not bench.ask("evil.example.com").allowed
    assert bench.told[-1].rules == ("egress.domain.allowlist",)


def test_the_client_reads_a_value_once(bench):
    why = bench.ask("evil.example.com").why
    assert why.startswith("egress.domain.allowlist: evil.example.com is not an allowed domain. ")
    assert "(" in bench.ask(port=22).why  # here the reason does not hold the value as it is


@pytest.mark.parametrize("changes", [{"port": 22}, {"port": None}, {"sni": "flask.readthedocs.io"}, {"layer": "quic"}])
def test_other_ports_names_and_layers_are_refused(bench, changes):
    assert not bench.ask(**changes).allowed


def test_without_a_grant_nothing_is_allowed(loaded):
    bench = Bench(loaded)
    assert "egress.domain.allowlist" in bench.ask().why
    bench.start(network=("flask.readthedocs.io",))
    assert not bench.ask().allowed
    assert bench.ask("flask.readthedocs.io").allowed


def test_from_an_unknown_address_nothing_is_allowed(bench):
    answer = bench.ask(source="10.201.0.9")
    assert (answer.allowed, answer.sandbox_id) == (False, "")


def test_without_a_policy_nothing_is_allowed(bench):
    bench.judge.lead(None)
    assert "no policy" in bench.ask().why


def test_a_policy_that_traps_allows_nothing(bench, loaded):
    class Trapped:
        tables = loaded.engine.tables

        def evaluate(self, *_):
            raise EvaluationFailed("it trapped")

    bench.judge.lead(msgspec.structs.replace(loaded, engine=Trapped()))
    assert "it trapped" in bench.ask().why
    bench.judge.lead(loaded)
    assert bench.ask().allowed


def test_what_needs_a_review_is_refused(loaded):
    bench = Bench(loaded)
    bench.start(session=SessionInput(id="s", agent="a", taints=("secret.read",)))
    assert "egress.taint.review" in bench.ask().why


@pytest.mark.parametrize("spent", [
    {"bytes_sent": 1001}, {"session_sent": 1000}, {"bytes_received": 2001}, {"session_received": 2000}, {"requests": 5},
])  # fmt: skip
def test_what_was_used_since_the_decision_counts(loaded, spent):
    bench = Bench(loaded)
    limits = {"egress_bytes": 1000, "ingress_bytes": 2000, "requests": 5}
    bench.start(budget=BudgetInput(usage=NOTHING, principal=NOTHING, limits=limits))
    assert bench.ask(**{key: value - 1 for key, value in spent.items()}).allowed
    assert not bench.ask(**spent).allowed


CEILINGS = json.loads((pathlib.Path(__file__).parents[3] / "policies/data/ceilings.json").read_text())


@pytest.mark.parametrize(("spent", "key"), [
    ("host_requests", "requests"), ("host_sent", "egress_bytes"), ("host_received", "ingress_bytes"),
])  # fmt: skip
def test_what_was_used_with_the_host_counts(bench, spent, key):
    most = CEILINGS["host"][key]
    assert bench.ask(**{spent: most - 1}).allowed
    assert bench.ask(**{spent: most}).rules == ("egress.host.budget",)


def test_a_small_upload_goes_on_though_its_session_has_sent_much(bench):
    most = CEILINGS["upload_bytes"]
    assert bench.ask(bytes_sent=most, session_sent=9 * most).allowed
    assert bench.ask(bytes_sent=most + 1, session_sent=9 * most).rules == ("egress.upload.review",)


def test_what_the_decision_saw_and_what_was_counted_are_one_total(loaded):
    bench = Bench(loaded)
    used = NOTHING | {"ingress_bytes": 900}
    bench.start(budget=BudgetInput(usage=used, principal=used, limits={"ingress_bytes": 1000}))
    assert bench.ask(session_received=999, bytes_received=50).allowed
    assert bench.ask(session_received=500).allowed
    assert not bench.ask(session_received=1001, bytes_received=50).allowed


def test_a_bundle_is_not_asked_what_the_decision_did_not_count(loaded):
    bench = Bench(loaded)
    old = {key: value for key, value in NOTHING.items() if key != "ingress_bytes"}
    bench.start(budget=BudgetInput(usage=old, principal=NOTHING))
    assert bench.ask().rules == ("egress.ingress.budget",)


def test_a_session_that_read_a_secret_after_it_was_granted_a_name_does_not_reach_it(loaded):
    bench = Bench(loaded, keep=True)
    bench.start()
    session = SessionInput(id="s", agent="a", age_s=6)
    granting = bench.call
    bench.start(network=(), session=session)
    assert bench.ask().exec_id == granting.exec_id
    bench.start(network=(), session=session, effects=("secret.read",))
    assert bench.ask().rules == ("egress.taint.review",)


def test_what_another_keeps_count_of_counts(loaded):
    bench = Bench(loaded, used=lambda session: {"requests": 5} if session == "s" else {})
    bench.start(budget=BudgetInput(usage=NOTHING, principal=NOTHING, limits={"requests": 6}))
    assert bench.ask().allowed
    assert not bench.ask(requests=1).allowed


def test_equal_refusals_become_one_record_with_their_number(bench):
    for _ in range(5):
        bench.ask("evil.example.com")
    bench.ask("evil.example.com", port=80)
    (flush,) = bench.timers
    flush()
    assert [(one.port, one.count) for one in bench.told] == [(443, 1), (80, 1), (443, 4)]


def test_different_refusals_are_bounded_and_counted(bench):
    for number in range(9):
        bench.ask(f"n{number}.example.com")
    bench.timers.pop()()
    assert [(one.name, one.rules, one.count) for one in bench.told[4:]] == [("", (), 5)]
    bench.ask("n9.example.com")
    assert bench.told[-1].name == "n9.example.com"


def test_what_is_asked_again_is_told_only_where_it_is_refused(bench):
    assert bench.ask(again=True).allowed
    assert bench.told == []
    assert not bench.ask("evil.example.com", again=True).allowed
    assert len(bench.told) == 1


@pytest.mark.parametrize(
    "changes", [{}, DNS, {"layer": "http", "authority": HOST, "method": "GET", "port": 80, "sni": ""}]
)
def test_the_sites_own_proxy_is_refused_whatever_policy_allows(loaded, changes):
    bench = Bench(loaded, proxy=HOST)
    bench.start()
    for name in (HOST, HOST.upper(), f"{HOST}."):
        answer = bench.ask(name, **changes)
        assert not answer.allowed
        assert "the site's own proxy" in answer.why
    assert bench.ask(
        "flask.readthedocs.io", **changes | ({"authority": "flask.readthedocs.io"} if "authority" in changes else {})
    ).allowed


def test_nothing_is_let_out_that_could_not_be_put_on_record_and_what_is_open_goes_on(loaded):
    behind = [True]
    bench = Bench(loaded, behind=lambda: behind[0])
    bench.start()
    assert "records wait" in bench.ask().why
    assert not bench.ask(**DNS).allowed
    assert [one.state for one in bench.told] == ["refused"] * 2
    assert bench.ask(again=True).allowed
    behind[0] = False
    assert bench.ask().allowed


def test_what_is_refused_unasked_is_on_record_under_its_call(bench):
    question = Question(source=ADDRESS, layer="tcp", name="db.test", port=5432)
    bench.judge.refuse(question, "egress: too many.")
    bench.judge.refuse(question, "egress.requests.budget: too many.")
    assert [(one.state, one.name, one.rules, one.reason, one.call_id) for one in bench.told] == [
        ("refused", "db.test", ("default.deny",), "too many.", "c"),
        ("refused", "db.test", ("egress.requests.budget",), "too many.", "c"),
    ]


def test_NW05_a_name_that_was_not_asked_for_is_weighed_as_one_that_was(bench):
    """Envoy's resolver would ask for it: data can leave in it all the same."""
    assert bench.ask("flask.readthedocs.io").allowed
    assert bench.ask(f"{'x' * 50}.readthedocs.io").rules == ("egress.dns.label.deny",)
    answers = [bench.ask(f"n{number}.readthedocs.io") for number in range(100)]
    assert [one.allowed for one in answers] == [True] * 98 + [False] * 2  # of a hundred, the two above were the first
    assert answers[-1].rules == ("egress.dns.label.deny",)
    assert bench.ask(HOST).allowed
