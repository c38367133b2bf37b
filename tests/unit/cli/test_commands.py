"""Everything but `run` and `call`: reports, help, usage."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from opensafe.cli.exits import MEANINGS, Exit

ROOT = Path(__file__).resolve().parents[3]
GROUPS = [
    [],
    ["sandbox"],
    ["image"],
    ["review"],
    ["agent"],
    ["egress"],
    ["audit"],
    ["trace"],
    ["policy"],
    ["policy", "shadow"],
    ["bench"],
    ["redteam"],
    ["fuzz"],
]
COMMANDS = [
    ["up"],
    ["doctor"],
    ["run"],
    ["call"],
    *[["sandbox", name] for name in ("create", "list", "show", "renew", "pause", "resume", "watch", "rm")],
    *[["image", name] for name in ("build", "list")],
    *[["review", name] for name in ("list", "show", "approve", "reject", "watch")],
    *[["agent", name] for name in ("ban", "unban", "list")],
    *[["egress", name] for name in ("explain", "list", "hosts")],
    *[["audit", name] for name in ("tail", "search", "verify")],
    *[["trace", name] for name in ("show", "diff")],
    *[["bench", name] for name in ("exec", "decision")],
    ["redteam", "run"],
    *[["fuzz", name] for name in ("list", "run", "mutants")],
    *[["policy", name] for name in ("status", "build", "test", "lint", "replay", "explain", "digest", "rules")],
    *[["policy", "shadow", name] for name in ("start", "stop", "report")],
]


@pytest.mark.parametrize("words", [*GROUPS, *COMMANDS], ids=lambda words: " ".join(words) or "opensafe")
async def test_everything_has_help(opensafe, words):
    ended = await opensafe(*words, "--help")
    assert ended.status == 0
    assert b"Usage: opensafe" in ended.stdout
    assert max(len(line) for line in ended.stdout.decode().splitlines()) <= 100


async def test_help_and_documentation_list_every_exit_status(opensafe):
    shown = (await opensafe("--help")).stdout.decode()
    documented = (ROOT / "docs/cli.md").read_text()
    for code, meaning in MEANINGS.items():
        assert f"{int(code):>3}  {meaning}" in shown
        assert f"| {int(code)} |" in documented


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_the_documentation_lists_every_command(words):
    assert f"opensafe {' '.join(words)}" in (ROOT / "docs/cli.md").read_text()


def test_help_loads_neither_grpc_nor_the_client():
    code = (
        "import sys; from opensafe.cli.app import run; status = run(['--help']);"
        "assert status == 0; print(sorted({m.split('.')[0] for m in sys.modules} & {'grpc', 'google', 'rich'}))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    "words",
    [["nonsense"], ["run"], ["run", "--nonsense"], ["sandbox"], ["sandbox", "show"], ["audit", "tail", "-n", "10001"]],
    ids=" ".join,
)
async def test_wrong_usage_has_its_own_status_and_says_why(opensafe, words):
    ended = await opensafe(*words)
    assert ended.status == Exit.REQUEST
    assert "Usage: opensafe" in ended.stderr


async def test_version(opensafe):
    ended = await opensafe("--version")
    assert (ended.status, ended.stdout) == (0, b"opensafe 0.1.0\n")


@pytest.mark.parametrize(
    ("words", "schema"),
    [
        (["sandbox", "create"], "sandbox-create"),
        (["sandbox", "list"], "sandbox-list"),
        (["sandbox", "show", "sb-00000000000000000001"], "sandbox"),
        (["sandbox", "renew", "sb-00000000000000000001", "--ttl", "60"], "sandbox"),
        (["sandbox", "pause", "sb-00000000000000000001"], "sandbox"),
        (["sandbox", "resume", "sb-00000000000000000001"], "sandbox"),
        (["image", "list", "--images", "/nonexistent"], "image-list"),
        (["review", "list"], "review-list"),
        (["review", "show", "rev-00000000000000000001"], "review"),
        (["review", "approve", "rev-00000000000000000001", "--yes"], "review-approve"),
        (["agent", "ban", "ada", "--reason", "leaks"], "agent-ban"),
        (["agent", "list"], "agent-list"),
        (["egress", "explain", "a.test"], "egress-explain"),
        (["egress", "list"], "egress-list"),
        (["egress", "hosts"], "egress-hosts"),
        (["audit", "tail"], "audit-tail"),
        (["audit", "search", "-n", "3"], "audit-search"),
        (["policy", "status"], "policy-status"),
        (["policy", "explain", "--decision", "dec-1"], "policy-explain"),
        (["policy", "explain", "Bash", "{}"], "policy-explain"),
        (["policy", "rules"], "policy-rules"),
        (["policy", "shadow", "stop"], "policy-shadow-stop"),
        (["policy", "shadow", "report"], "policy-shadow"),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, list) else "",
)
async def test_every_report_has_the_one_form(opensafe, daemon, words, schema):
    ended = await opensafe(*words, "--json")
    report = json.loads(ended.stdout)
    assert ended.status == 0
    assert list(report) == ["schema", "version", "environment", "summary", "details"]
    assert report["schema"] == f"opensafe.{schema}/1"
    assert {"python", "kernel", "cores"} <= report["environment"].keys()
    assert all(not isinstance(value, dict | list) for value in report["summary"].values())


async def test_sandbox_create_prints_the_id_alone(opensafe, daemon):
    ended = await opensafe("sandbox", "create", "--memory", "512", "--pids", "100")
    assert ended.stdout == b"sb-00000000000000000001\n"
    assert (daemon.asked_size.memory_bytes, daemon.asked_size.pids) == (512 << 20, 100)


async def test_a_refused_sandbox_leaves_no_session(opensafe, daemon):
    ended = await opensafe("sandbox", "create", "--template", "forbidden")
    assert ended.status == Exit.DENIED
    assert "template not allowed; got forbidden. Use base." in ended.stderr
    assert daemon.closed == ["ses-00000000000000000001"]


@pytest.mark.parametrize(("option", "closed"), [([], ["ses-00000000000000000001"]), (["--keep-session"], [])])
async def test_the_last_sandbox_takes_its_session_with_it(opensafe, daemon, option, closed):
    assert (await opensafe("sandbox", "rm", "sb-00000000000000000001", *option)).status == 0
    assert daemon.closed == closed


async def test_an_unknown_sandbox_is_the_requests_fault(opensafe, daemon):
    ended = await opensafe("sandbox", "show", "sb-none")
    assert ended.status == Exit.REQUEST
    assert "no such sandbox; got sb-none" in ended.stderr


@pytest.mark.parametrize("words", [["review", "list"], ["review", "show", "rev-00000000000000000001"]])
async def test_nothing_an_agent_wrote_steers_the_reviewers_terminal(opensafe, daemon, words):
    shown = (await opensafe(*words)).stdout.decode()
    assert "npm install" in shown
    assert shown.replace("\n", "").isprintable()


@pytest.mark.parametrize("elsewhere", [True, False], ids=["permit", "call"])
async def test_a_reviewer_sees_whether_the_call_runs_elsewhere(opensafe, daemon, elsewhere):
    daemon.elsewhere = elsewhere
    shown = (await opensafe("review", "show", "rev-00000000000000000001")).stdout.decode()
    assert ("elsewhere, on a permit" in shown, "e" * 64 in shown) == (elsewhere, elsewhere)


@pytest.mark.parametrize(
    "words", [["policy", "explain", "--decision", "dec-1"], ["policy", "shadow", "report"], ["policy", "rules"]]
)
async def test_nothing_an_agent_wrote_steers_whoever_reads_an_explanation(opensafe, daemon, words):
    shown = (await opensafe(*words)).stdout.decode()
    assert "egress.domain.allowlist" in shown
    assert shown.replace("\n", "").isprintable()


async def test_the_way_out_is_shown_with_how_much_more_there_is_and_steers_no_terminal(opensafe, daemon):
    shown = (await opensafe("egress", "list")).stdout.decode().splitlines()
    assert shown[1].split()[2:5] == ["c1", "tls", "\\x1b[2Ja.test:443"]
    assert shown[2] == "… and 3 more"
    shown = (await opensafe("egress", "hosts")).stdout.decode().splitlines()
    assert shown[1].split()[2:] == ["(no", "name)", "1", "2", "0", "0"]
    assert len(shown) == 2


async def test_an_explained_host_has_verdicts_and_what_else_stands_in_the_way(opensafe, daemon):
    shown = (await opensafe("egress", "explain", "a.test", "--sandbox", "sb-00000000000000000001")).stdout.decode()
    assert shown.replace("\n", "").isprintable()
    lines = shown.splitlines()
    assert lines[0] == "not reachable: a.test"
    assert "  caller   none with an open grant in sb-00000000000000000001" in lines
    assert [line for line in lines if line.endswith(("refused", "allowed"))] == [
        "dns, tls on 443: refused",
        "http on 80: allowed",
    ]
    assert lines[-2:] == ["  no call runs", "    remedy: Ask while one does."]
    assert (await opensafe("egress", "explain", "")).status == Exit.REQUEST


@pytest.mark.parametrize("words", [[], ["Bash"], ["Bash", "{}", "--decision", "dec-1"]], ids=len)
async def test_explain_takes_a_decision_or_a_call(opensafe, daemon, words):
    ended = await opensafe("policy", "explain", *words)
    assert ended.status == Exit.REQUEST
    assert "--decision" in ended.stderr


async def test_an_approval_needs_the_digest_that_was_shown(opensafe, daemon):
    unseen = await opensafe("review", "approve", "rev-00000000000000000001")
    assert unseen.status == Exit.REQUEST
    assert "--digest" in unseen.stderr
    other = await opensafe("review", "approve", "rev-00000000000000000001", "--digest", "e" * 64)
    assert other.status == Exit.REQUEST
    seen = await opensafe("review", "approve", "rev-00000000000000000001", "--digest", "d" * 64)
    assert seen.status == 0


async def test_a_rejection_carries_its_reason(opensafe, daemon):
    assert (await opensafe("review", "reject", "rev-00000000000000000001", "--reason", "not now")).status == 0
    assert daemon.rejected == "not now"


async def test_search_goes_on_page_by_page_until_it_has_enough(opensafe, daemon):
    words = ["curl", "--kind", "decision", "--kind", "review", "--action", "block", "--rule", "egress", "--of", "ada"]
    ended = await opensafe("audit", "search", *words, "--session", "s", "--call", "c", "--before", "5", "-n", "2")
    assert ended.status == 0
    assert ended.stdout.count(b"text: 'curl'") == 2
    for asked in (
        b"'decision'",
        b"'review'",
        b"ACTION_BLOCK",
        b"'egress'",
        b"'ada'",
        b"'s'",
        b"'c'",
        b"before_index: 4",
    ):
        assert asked in ended.stdout
    assert "there may be more: --before 3" in ended.stderr
    to_the_beginning = await opensafe("audit", "search", "curl", "--before", "2", "-n", "9")
    assert (to_the_beginning.stdout.count(b"curl"), to_the_beginning.stderr) == (2, "")
    assert (await opensafe("audit", "search", "--until", "never")).status != 0


async def test_tail_from_a_record_on(opensafe, daemon):
    assert (await opensafe("audit", "tail", "--from", "3")).stdout == b'{"index":3}\n{"index":4}\n'


async def test_tail_prints_the_lines_of_the_log(opensafe, daemon):
    assert (await opensafe("audit", "tail", "-n", "2")).stdout == b'{"index":0}\n{"index":1}\n'


async def test_up_with_an_impossible_configuration_says_which_key(opensafe, tmp_path):
    (tmp_path / "bad.toml").write_text("[service]\nuser = 7\n")
    ended = await opensafe("up", "--config", str(tmp_path / "bad.toml"))
    assert ended.status == Exit.REFUSES_TO_SERVE
    assert "service.user" in ended.stderr


async def test_a_ban_names_its_subject_and_what_it_ended(opensafe, daemon):
    assert (await opensafe("agent", "ban")).status == Exit.REQUEST
    ended = await opensafe("agent", "ban", "ada", "--reason", "leaks")
    assert ended.stdout == b"banned agent ada of default: 2 calls ended, 1 reviews void\n"
    assert b"default  ada" in (await opensafe("agent", "list")).stdout
    assert (await opensafe("agent", "unban", "ada")).status == 0
    assert daemon.banned == []
    ended = await opensafe("agent", "ban", "--of", "other")
    assert (ended.status, daemon.banned) == (0, [("other", "", "")])


async def test_watch_prints_each_review_on_one_line(opensafe, daemon):
    ended = await opensafe("review", "watch")
    assert ended.stdout.startswith(b"rev-00000000000000000001  pending  default  Bash ")
    assert len(ended.stdout.splitlines()) == 1
    assert json.loads((await opensafe("review", "watch", "--json")).stdout)["state"] == "pending"


@pytest.mark.parametrize("words", [["--label", "x"], ["--idle-action", "stop"], ["--ttl", "-1"]])
async def test_a_sandbox_that_can_not_be_asked_for_is_wrong_usage(opensafe, daemon, words):
    ended = await opensafe("sandbox", "create", *words)
    assert ended.status == Exit.REQUEST


@pytest.mark.parametrize("words", [[], ["--suite", "bookworm", "--oci", "."], ["--oci", "/nonexistent"]])
async def test_an_image_is_built_from_one_thing_that_is_there(opensafe, tmp_path, words):
    ended = await opensafe("image", "build", "x", "--images", str(tmp_path / "images"), *words)
    assert ended.status == Exit.REQUEST
    assert not list((tmp_path / "images").glob("*"))
