"""The catalogue finds the part of a rule that fired, by what it says."""

import pathlib

import msgspec
import pytest

from opensafe.errors import BundleRefused
from opensafe.model.decision import Action, RuleHit, Severity
from opensafe.model.explanation import RuleNote
from opensafe.policy.catalogue import MAX_NOTES, catalogue_of, read_catalogue
from opensafe.policy.explain import nearest
from opensafe.policy.manifest import Bundle
from opensafe.policy.sources import Sources
from tests.harness.policy import question, read

REGO = """# METADATA
# title: First
# description: Says it plainly.
# custom: {id: a.b.deny, severity: low, threat: none}
blocks contains hit.block(
	"a.b.deny", "low",
	"plainly", "", "",
) if input.x

# METADATA
# title: Second
# description: Says it with values.
# custom: {id: a.b.deny, severity: low, threat: none}
blocks contains hit.block("a.b.deny", "low", $"{concat("}", input.y)} has {concat(", ", input.y)} left", "", "") if {
	input.y
}

# METADATA
# title: Third
# description: Says what somebody else wrote.
# custom: {id: a.b.deny, severity: low, threat: none}
blocks contains hit.block("a.b.deny", "low", input.reason, "", "") if input.z
"""


@pytest.fixture
def notes(opa: pathlib.Path, tmp_path: pathlib.Path) -> tuple[RuleNote, ...]:
    source = tmp_path / "opensafe" / "a.rego"
    source.parent.mkdir()
    source.write_text(f"package a\n\n{REGO}")
    return Sources(opa, tmp_path).catalogue()


def test_places_and_fixed_pieces_are_read_from_the_source(notes: tuple[RuleNote, ...]) -> None:
    assert [(note.file, note.line, note.says) for note in notes] == [
        ("opensafe/a.rego", 7, ("plainly",)),
        ("opensafe/a.rego", 16, ("", " has ", " left")),
        ("opensafe/a.rego", 24, ()),
    ]


@pytest.mark.parametrize(
    ("reason", "title"), [("plainly", "First"), ("he has three left", "Second"), ("what else", "Third")]
)
def test_the_part_that_fired_is_told_by_its_reason(notes: tuple[RuleNote, ...], reason: str, title: str) -> None:
    assert max(notes, key=lambda note: note.said(reason)).title == title


def test_every_shipped_rule_is_in_the_bundle(bundle: Bundle) -> None:
    ids = {note.id for note in bundle.rules}
    assert len(ids) >= 68
    assert {"default.deny", "egress.domain.allowlist", "tool.read.secrets.block"} <= ids
    hit = RuleHit(id="egress.domain.allowlist", severity=Severity.HIGH, action=Action.BLOCK, reason="x is not allowed")
    assert hit.id in ids


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"{}", "rules:"),
        (b'[{"id":"a"}]', "rules:"),
        (msgspec.json.encode([{"x": 1}]), "rules:"),
        (
            msgspec.json.encode(
                [RuleNote(id="a", file="f", line=1, severity=Severity.LOW, title="t", description="d", threat="none")]
                * (MAX_NOTES + 1)
            ),
            "too many",
        ),
    ],
    ids=["object", "incomplete", "unknown key", "too many"],
)
def test_a_catalogue_that_is_none_is_refused(content: bytes, why: str) -> None:
    with pytest.raises(BundleRefused, match=why):
        read_catalogue(content)


def test_annotations_without_an_id_are_no_rules(tmp_path: pathlib.Path) -> None:
    assert catalogue_of({"annotations": [{"annotations": {"title": "a package"}, "location": {}}]}, tmp_path) == ()


CONFIG = {
    "grants": {"read": {"paths": {"read": ["/workspace", "/tmp"], "write": []}}},
    "hosts": {"allowed": ["docs.python.org", "*.example.org"]},
    "programs": {"ordinary": {"grep": True, "make": True}},
    "roles": {"developer": {"Read": True}},
}


def test_what_is_allowed_has_nothing_nearer() -> None:
    assert nearest(CONFIG, "gate/read", read()) == ()


def test_a_path_a_program_and_a_tool_get_their_likest() -> None:
    found = nearest(CONFIG, "gate/read", read("/etc/passwd"))
    assert [(one.kind, one.value, one.allowed) for one in found] == [
        ("path", "/etc/passwd", ("/workspace/passwd", "/tmp/passwd"))
    ]
    (tool,) = nearest(CONFIG, "gate/bash", question("Bash"))
    assert (tool.kind, tool.value, tool.allowed) == ("tool", "Bash", ("Read",))
