"""`opensafe trace` over files: what it prints, its statuses, and that nothing an agent named steers who reads it."""

import html.parser
import json

import pytest

from opensafe.cli.app import run
from opensafe.cli.exits import Exit
from opensafe.telemetry.files import FileSpanExporter
from opensafe.telemetry.spans import Tracing

HOSTILE = "<script>alert(1)</script>\x1b[2J\x1b]0;owned\x07\u202egpj.exe\u2066\"'&"


def written(path, *, agent="demo", action="allow", code=0):
    """One session with one call; returns its trace id."""
    tracing = Tracing(FileSpanExporter(path, 1 << 20), "1")
    trace_id = tracing.begin_session("ses", agent, "conversation", {})
    with tracing.tool("Bash", "ses", trace_id, "call", {}) as span:
        told = {"opensafe__policy__action": action, "opensafe__policy__bundle__revision": agent}
        with tracing.child("policy.evaluate", **told) as child:
            child.set_attribute("opensafe.policy.rules", [f"rule.{agent}"])
        if action == "allow":
            with tracing.child("sandbox.exec", x="1"):
                pass
            span.set_attributes({"opensafe.outcome": "exited", "process.exit.code": code})
        else:
            span.set_attribute("opensafe.outcome", "blocked")
    tracing.add_usage("ses", 1200, None, 3400)
    tracing.end_session("ses")
    tracing.close()
    return trace_id


@pytest.fixture
def path(tmp_path):
    return tmp_path / "traces.jsonl"


def test_a_trace_is_shown_as_a_tree_with_what_each_span_says(path, capsys):
    assert run(["trace", "show", written(path, code=3), "--file", str(path)]) == Exit.OK
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("4 spans, ")
    shown = [(len(line) - len(line.lstrip()), *line.split()[:2]) for line in lines[1:]]
    assert shown == [
        (0, "invoke_agent", "demo"),
        (2, "execute_tool", "Bash"),
        (4, "policy.evaluate", lines[3].split()[1]),
        (4, "sandbox.exec", lines[4].split()[1]),
    ]
    assert lines[1].endswith("1200 tokens, 3400 microdollars")
    assert lines[2].endswith("exited 3 call")
    assert lines[3].endswith("allow (rule.demo)")


def test_equal_traces_end_with_0_and_different_ones_with_1(path, capsys):
    a, b, c = written(path), written(path), written(path, action="block")
    assert run(["trace", "diff", a, b, "--file", str(path)]) == Exit.OK
    assert "0 of 1 calls differ." in capsys.readouterr().out
    assert run(["trace", "diff", a, c, "--file", str(path)]) == Exit.GOAL_MISSED
    out = capsys.readouterr().out
    assert "1 of 1 calls differ:" in out
    assert "Bash call: verdict, outcome, exit code" in out
    assert any(line.split() == ["-", "sandbox.exec", "1", "0", "-1", "(100", "%)"] for line in out.splitlines())


def test_files_of_several_daemons_are_read_together(tmp_path, capsys):
    one, other = tmp_path / "one.jsonl", tmp_path / "other.jsonl"
    a, b = written(one), written(other, code=1)
    assert run(["trace", "diff", a, b, "--file", str(one), "--file", str(other), "--json"]) == Exit.GOAL_MISSED
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == "opensafe.trace-diff/1"
    assert found["summary"] == {
        "a": a, "b": b, "calls": 1, "calls_changed": 1, "verdicts_changed": 0, "places_changed": 0,
    }  # fmt: skip
    (pair,) = found["details"]["calls"]
    assert pair["changes"] == ["exit code"]
    assert (pair["a"]["exit_code"], pair["b"]["exit_code"]) == (0, 1)


class Elements(html.parser.HTMLParser):
    """The names of a page's elements, its text and its attributes."""

    def __init__(self, page):
        super().__init__()
        self.names, self.text, self.attributes = set(), "", []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.names.add(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.text += data


def test_hostile_names_are_inert_in_lines_in_json_and_in_the_page(path, tmp_path, capsys):
    trace_id, page = written(path, agent=HOSTILE), tmp_path / "page.html"
    other = written(path, agent=HOSTILE, action="block")
    run(["trace", "show", trace_id, "--file", str(path)])
    run(["trace", "show", trace_id, "--file", str(path), "--json"])
    run(["trace", "diff", trace_id, other, "--file", str(path), "--html", str(page)])
    run(["trace", "diff", trace_id, other, "--file", str(path), "--json"])
    printed = capsys.readouterr().out
    assert "script" in printed
    assert all(char.isprintable() or char == "\n" for char in printed)

    text = page.read_text()
    assert all(char.isprintable() or char == "\n" for char in text)
    elements = Elements(text)
    assert "<script>alert(1)</script>" in elements.text
    assert elements.names <= {"html", "meta", "title", "style", "h1", "h2", "table", "tr", "th", "td", "code", "p"}
    assert {name for name, _ in elements.attributes} <= {"lang", "charset", "http-equiv", "content", "class", "style"}
    policy = dict(elements.attributes)["content"]
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["show", "f" * 32], Exit.REQUEST),
        (["show", "not-an-id"], Exit.REQUEST),
        (["diff", "f" * 32], Exit.REQUEST),
        (["show", "f" * 32, "--jaeger", "file:///etc/passwd"], Exit.REQUEST),
        (["show", "f" * 32, "--jaeger", "http://127.0.0.1:1"], Exit.UNAVAILABLE),
    ],
)
def test_what_cannot_be_read_ends_with_the_status_for_that(path, arguments, status, capsys):
    written(path)
    assert run(["trace", *arguments, "--file", str(path)]) == status
    assert capsys.readouterr().out == ""


def test_a_page_that_cannot_be_written_is_a_request_that_cannot_be_served(path, tmp_path):
    trace_id = written(path)
    page = str(tmp_path / "none" / "page.html")
    assert run(["trace", "diff", trace_id, trace_id, "--file", str(path), "--html", page]) == Exit.REQUEST
