"""Reports in a directory that anybody may have written to: which count, what they come to, and what is left out."""

import json
import os

import pytest

from opensafe.console import reported, reports
from opensafe.console.campaigns import Campaigns
from opensafe.console.report_forms import Mutant, Probe, RedTeam, Share, Tried
from opensafe.console.reports import Shelf
from opensafe.errors import NotFound

SHARE = {"hits": 3, "of": 4, "rate": 0.75, "low": 0.3, "high": 0.95}


def report(kind="redteam-policy", details=None, **summary):
    return {
        "schema": f"opensafe.{kind}/1",
        "version": "1.0",
        "environment": {"bundle": "7-abc"},
        "summary": {"ok": True, **summary},
        "details": details if details is not None else {},
    }


@pytest.fixture
def put(tmp_path):
    def put(name, content):
        text = content if isinstance(content, str) else json.dumps(content)
        (tmp_path / name).write_text(text)

    return put


def test_reports_are_those_of_proof_the_newest_first(put, tmp_path):
    put("redteam-20260131T020000.json", report(block_rate=0.99))
    put("redteam-20260201T020000.json", report(block_rate=1))
    put("escape.json", report("escape", []))
    os.utime(tmp_path / "escape.json", (0, 0))
    sight = Shelf(tmp_path).look()
    assert [one.name for one in sight.reports] == [
        "redteam-20260201T020000.json", "redteam-20260131T020000.json", "escape.json",
    ]  # fmt: skip
    assert (sight.why, sight.left_out) == ("", ())
    newest = sight.last("redteam-policy")
    assert (newest.ok, newest.bundle, newest.number("block_rate")) == (True, "7-abc", 1)
    assert newest.time_us == 1769911200 * 10**6


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("{", "truncated"),
        ("[]", "Expected `object`"),
        (json.dumps(report("bench-exec")), "no report of proof"),
        (json.dumps(report() | {"schema": "opensafe.redteam-policy/2"}), "no report of proof"),
        (json.dumps(report(block_rate=[])), "$.summary"),
        ('{"schema": ' + "[" * 100_000, ""),
    ],
)
def test_what_is_no_report_is_left_out_and_said_so(put, tmp_path, content, why):
    put("bad.json", content)
    put("good.json", report())
    sight = Shelf(tmp_path).look()
    assert [one.name for one in sight.reports] == ["good.json"]
    ((name, said),) = sight.left_out
    assert name == "bad.json"
    assert why in said


def test_what_is_too_large_or_no_file_is_left_out(put, tmp_path, monkeypatch):
    monkeypatch.setattr(reports, "REPORT_MAX", 2000)
    put("large.json", report() | {"x": "x" * 3000})
    put("good.json", report())
    os.mkfifo(tmp_path / "fifo.json")
    (tmp_path / "link.json").symlink_to(tmp_path / "good.json")
    (tmp_path / "directory.json").mkdir()
    sight = Shelf(tmp_path).look()
    assert [one.name for one in sight.reports] == ["good.json"]
    assert {name for name, _ in sight.left_out} == {"large.json", "fifo.json", "link.json", "directory.json"}


def test_a_directory_that_is_not_there_says_so(tmp_path):
    assert Shelf(tmp_path / "none").look().why == "No such file or directory"
    assert Shelf(None).look().why


def test_details_are_read_of_reports_alone(put, tmp_path):
    put("good.json", report(details={"families": {"approval": SHARE}, "more": 1}))
    put("other.json", report(details={"families": {"approval": SHARE | {"rate": 7}}}))
    shelf = Shelf(tmp_path)
    shelf.look()
    assert shelf.read("good.json", RedTeam).families["approval"].hits == 3
    for name in ("other.json", "../good.json", "none.json"):
        with pytest.raises(NotFound):
            shelf.read(name, RedTeam)


def test_a_file_that_changed_is_read_again(put, tmp_path):
    shelf = Shelf(tmp_path)
    put("one.json", report(block_rate=0.5))
    assert shelf.look().reports[0].number("block_rate") == 0.5
    put("one.json", report(block_rate=0.25))
    assert shelf.look().reports[0].number("block_rate") == 0.25


def test_families_stand_beside_their_twins_and_tools_apart():
    share = Share(hits=3, of=4, rate=0.75, low=0.3, high=0.95)
    found = RedTeam(families={"approval": share}, honest={"twins of approval": share, "Bash": share})
    (row,) = reported.families(found)
    assert (row.name, row.attacks, row.honest) == ("approval", share, share)
    assert [one.name for one in reported.honest(found)] == ["Bash"]


def test_a_trend_needs_two_and_keeps_its_goal_in_sight(put, tmp_path):
    put("redteam-20260131T020000.json", report(block_rate=0.99, goal_block_rate=0.995))
    one = Shelf(tmp_path).look().reports
    assert reported.trend(one, "block_rate") is None
    put("redteam-20260201T020000.json", report(block_rate=0.98, goal_block_rate=0.995))
    found = reported.trend(Shelf(tmp_path).look().reports, "block_rate", "goal_block_rate")
    assert (found.values, found.low, found.high) == ((0.99, 0.98), 0.98, 0.995)


@pytest.mark.parametrize(
    ("words", "layers"),
    [
        ("policy: block by tool.exec.path.deny, tool.exec.setuid.deny (decision dec-1)", {"policy"}),
        ("packet filter: reset, gateway: 403", {"packets", "gateway"}),
        ("not there: ENOENT", {"sandbox"}),
        ("", set()),
        ("<b>words of its own", {"other"}),
    ],
)
def test_layers_are_told_by_how_their_words_begin(words, layers):
    assert reported.stopped_by(words) == layers


def test_layers_count_contained_probes_as_shipped_and_opened():
    def probe(verdict, *runs):
        tried = tuple(Tried(opened=opened, layer=layer) for opened, layer in runs)
        return Probe(
            id="FS-01",
            boundary="filesystem",
            title="t",
            severity="s",
            verdict=verdict,
            control_breached=True,
            runs=tried,
        )

    probes = [
        probe("contained", ((), "policy: block"), (("policy",), "not there"), (("policy", "x"), "not there")),
        probe("contained", ((), "not there")),
        probe("limit", ((), "gateway: 403")),
    ]
    assert [(one.name, one.shipped, one.opened) for one in reported.layers(probes)] == [
        ("sandbox", 1, 1), ("policy", 1, 0),
    ]  # fmt: skip
    (row,) = reported.boundaries(probes)
    assert (row.counts, row.controls) == ({"contained": 2, "limit": 1}, 3)


def test_mutants_are_counted_by_target():
    some = [Mutant(target="F1", mutant=f"F1-{why}", says="s", why=why) for why in ("", "", "nothing was found")]
    (row,) = reported.targets(some)
    assert (row.name, row.found, row.of) == ("F1", 2, 3)


def test_a_campaign_counts_whole_batches_once(tmp_path):
    place = tmp_path / "night"
    place.mkdir()
    (place / "campaign.json").write_text('{"runs": 300, "seed": 8, "size": 100, "corpus": ""}')
    batch = '{"number": %d, "kind": "gated", "completed": 100, "findings": [{"oracle": 1, "what": "w"}]}\n'
    (place / "batches.jsonl").write_text(batch % 0 + batch % 0 + batch % 1 + '{"number": 2, "ki')
    (found,) = Campaigns(tmp_path).look()
    assert (found.name, found.completed, found.runs, found.raised, found.kinds) == (
        "night",
        200,
        300,
        2,
        {"gated": 200},
    )


@pytest.mark.parametrize("settings", ["{", '{"runs": "<b>", "seed": 1}', '{"runs": 100, "seed": 8}'])
def test_a_campaign_that_is_over_or_none_is_not_shown(tmp_path, settings):
    for name in ("night", "beside"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "batches.jsonl").write_text('{"number": 0, "kind": "gated", "completed": 100}\n')
    (tmp_path / "night" / "campaign.json").write_text(settings)
    (tmp_path / "beside" / "campaign.json").write_text('{"runs": 101, "seed": 8}')
    assert [one.name for one in Campaigns(tmp_path).look()] == ["beside"]
