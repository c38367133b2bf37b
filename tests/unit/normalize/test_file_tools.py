"""The file tools: strict arguments, the facts by which they are judged, and the one helper line that each becomes."""

from typing import Any

import msgspec
import pytest

from opensafe.errors import InvalidArgument, NotPermitted
from opensafe.model.decision import Grant, PathGrant
from opensafe.model.facts import ClassTables, Facts
from opensafe.normalize.tools import DEFAULT_REGISTRY as REGISTRY

TABLES = ClassTables(paths={"workspace": ("/workspace/",), "vcs": ("**/.git/",)})
GRANT = Grant(
    paths=PathGrant(
        read=("/workspace", "/tmp"), write=("/workspace", "/tmp"), hold_read=("**/.env",), hold_write=("**/.git/",)
    )
)
DIGEST = "a" * 64


def call(tool: str, arguments: dict[str, Any]) -> Any:
    return REGISTRY.validate("c", tool, msgspec.json.encode(arguments), 1 << 22)


def line(tool: str, arguments: dict[str, Any], grant: Grant = GRANT) -> tuple[str, ...]:
    argv = REGISTRY.program(call(tool, arguments), grant).argv
    assert argv[0] == "/.opensafe/file"
    return argv[1:]


def facts(tool: str, arguments: dict[str, Any]) -> Facts:
    return REGISTRY.facts(call(tool, arguments), TABLES)


BOUNDS = ("--max", "100000", "--max-bytes", str(64 << 30))


@pytest.mark.parametrize(
    ("tool", "arguments", "argv"),
    [
        ("Stat", {"path": "a"}, ("stat", "/workspace", "a")),
        ("List", {"path": ".", "cursor": "61"}, ("list", "/workspace", ".", "--after", "61")),
        ("Watch", {"path": ".", "recursive": True}, ("watch", "/workspace", ".", "--recursive")),
        ("Watch", {"path": ".", "recursive": False}, ("watch", "/workspace", ".")),
        ("Remove", {"path": "a"}, ("remove", "/workspace", "a", "--max", "100000")),
        (
            "Remove",
            {"path": "a", "recursive": True, "max_entries": 5},
            ("remove", "/workspace", "a", "--recursive", "--max", "5"),
        ),
        ("Move", {"path": "a", "to": "/tmp/b"}, ("move", "/workspace", "a", "--to-root", "/tmp", "--to", "b")),
        (
            "Move",
            {"path": "a", "to": "x/../b", "replace": True},
            ("move", "/workspace", "a", "--to-root", "/workspace", "--to", "b", "--replace"),
        ),
        ("Mkdir", {"path": "a", "parents": True}, ("mkdir", "/workspace", "a", "--mode", "0755", "--parents")),
        ("Download", {"path": "a"}, ("download", "/workspace", "a", *BOUNDS, "--hold", "**/.env")),
        ("Upload", {"path": "a"}, ("upload", "/workspace", "a", *BOUNDS, "--hold", "**/.git/")),
        (
            "Write",
            {"path": "a", "size": 1 << 30, "sha256": DIGEST, "offset": 5, "truncate": True},
            (
                *("write", "/workspace", "a", "--mode", "0644", "--max", str(1 << 30), "--sha256", DIGEST),
                *("--offset", "5", "--truncate"),
            ),
        ),
    ],
)
def test_each_tool_becomes_one_line(tool: str, arguments: dict[str, Any], argv: tuple[str, ...]) -> None:
    assert line(tool, arguments) == argv


def test_a_move_reads_deletes_and_writes() -> None:
    seen = facts("Move", {"path": "a", "to": ".git/x"})
    assert [path.path for path in seen.reads] == [path.path for path in seen.deletes] == ["/workspace/a"]
    assert seen.writes[0].classes == {"workspace": True, "vcs": True}


@pytest.mark.parametrize(
    ("tool", "arguments", "opaque", "tree"),
    [
        ("Upload", {"path": "a"}, True, True),
        ("Download", {"path": "a"}, False, True),
        ("Remove", {"path": "a", "recursive": True}, False, True),
        ("Remove", {"path": "a"}, False, False),
        ("Mkdir", {"path": "a"}, False, False),
        ("Write", {"path": "a", "content": "x"}, False, False),
        ("Write", {"path": "a", "size": 1 << 21, "sha256": DIGEST}, True, False),
    ],
)
def test_what_can_t_be_judged_is_a_fact(tool: str, arguments: dict[str, Any], opaque: bool, tree: bool) -> None:
    seen = facts(tool, arguments)
    assert (seen.content_opaque, seen.tree) == (opaque, tree)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        pytest.param("Write", {"path": "a", "size": 1 << 20, "sha256": DIGEST}, id="PE-20-small-content-undeclared"),
        pytest.param("Write", {"path": "a", "size": 1 << 21}, id="size-alone"),
        pytest.param("Write", {"path": "a", "sha256": DIGEST}, id="digest-alone"),
        pytest.param("Write", {"path": "a", "content": "x", "size": 1 << 21}, id="content-and-size"),
        pytest.param(
            "Write", {"path": "a", "content": "x", "size": 1 << 21, "sha256": DIGEST}, id="content-and-digest"
        ),
        pytest.param("Write", {"path": "a", "content": "x", "truncate": True}, id="truncate-without-offset"),
        pytest.param("Write", {"path": "a", "size": 1 << 21, "sha256": "A" * 64}, id="digest-in-capitals"),
        pytest.param("Write", {"path": "a", "size": 1 << 21, "sha256": DIGEST + "\n"}, id="digest-and-newline"),
        pytest.param("Move", {"path": "a"}, id="no-target"),
        pytest.param("Move", {"path": "a", "to": ""}, id="empty-target"),
        pytest.param("Move", {"path": "a", "to": "b\0"}, id="NUL"),
        pytest.param("Remove", {"path": "a", "recursive": 1}, id="flag-that-is-a-number"),
        pytest.param("Remove", {"path": "a", "max_entries": 0}, id="R34-zero"),
        pytest.param("Remove", {"path": "a", "max_entries": 100_001}, id="R34-above"),
        pytest.param("List", {"path": "a", "cursor": "6"}, id="half-a-byte"),
        pytest.param("List", {"path": "a", "cursor": "61" * 256}, id="long-cursor"),
        pytest.param("Upload", {"path": "a", "max_bytes": 1}, id="no-such-argument"),
        pytest.param("Mkdir", {"path": "a", "mode": "4755"}, id="setuid"),
    ],
)
def test_arguments_out_of_form_are_refused(tool: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        call(tool, arguments)


@pytest.mark.parametrize("tool", ["Stat", "Remove", "Mkdir", "Download", "Upload", "Watch"])
@pytest.mark.parametrize("path", ["/etc/passwd", "/workspace-evil/x", "../etc/x", "/"])
def test_G38_no_root_holds_what_lies_outside(tool: str, path: str) -> None:
    with pytest.raises(NotPermitted):
        line(tool, {"path": path})


def test_G38_a_move_needs_both_roots() -> None:
    for names in ({"path": "/etc/x", "to": "a"}, {"path": "a", "to": "/etc/x"}):
        with pytest.raises(NotPermitted):
            line("Move", names)
    with pytest.raises(NotPermitted):
        line("Move", {"path": "a", "to": "b"}, Grant(paths=PathGrant(read=("/workspace",))))
