"""Effects are read from facts, taints follow from effects: the whole table."""

import pytest

from opensafe.model.facts import Command, PathFact
from opensafe.model.history import effects_of, taints_after
from opensafe.model.policy_input import CallInput


def call(*programs, reads=(), writes=(), deletes=(), opaque=False, untrusted=False):
    def paths(classes):
        return tuple(PathFact(path="/p", classes={name: True}) for name in classes)

    return CallInput(
        id="c",
        tool="Bash",
        arguments={},
        digest="d",
        opaque=opaque,
        untrusted=untrusted,
        commands=tuple(Command(program=program, argv=(program,)) for program in programs),
        reads=paths(reads),
        writes=paths(writes),
        deletes=paths(deletes),
    )


@pytest.mark.parametrize(
    ("asked", "effects"),
    [
        (call(), ()),
        (call("cat", reads=["workspace"]), ()),
        (call("cat", reads=["secret"]), ("secret.read",)),
        (call("cat", reads=["sensitive"]), ("secret.read",)),
        (call("echo", writes=["sensitive"]), ()),
        (call("cat", "base64", reads=["workspace", "secret"]), ("secret.read", "encode", "workspace.write")),
        (call("xxd"), ("encode", "workspace.write")),
        (call("od"), ("encode",)),
        (call("echo", writes=["workspace"]), ("workspace.write",)),
        (call("echo", writes=["tmp"]), ()),
        (call("echo", deletes=["workspace"]), ("workspace.write",)),
        (call("python3"), ("workspace.write",)),
        (call(""), ("workspace.write",)),
        (call("ls", opaque=True), ("workspace.write",)),
        (call(untrusted=True), ("untrusted.read",)),
    ],
    ids=str,
)
def test_effects(asked, effects):
    assert effects_of(asked) == effects


@pytest.mark.parametrize(
    ("before", "effects", "after"),
    [
        ((), (), ()),
        ((), ("encode",), ()),
        ((), ("secret.read",), ("secret.read",)),
        ((), ("encode", "secret.read"), ("secret.read", "encoded")),
        (("secret.read",), ("encode",), ("secret.read", "encoded")),
        (("workspace.changed", "secret.read"), ("secret.read",), ("workspace.changed", "secret.read")),
        (("secret.read", "encoded"), (), ("secret.read", "encoded")),
        (("secret.read",), ("untrusted.read",), ("secret.read", "untrusted.read")),
    ],
    ids=str,
)
def test_taints_follow_and_never_go_away(before, effects, after):
    assert taints_after(before, effects) == after
