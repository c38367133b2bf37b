"""Whom a call runs as: the user that its arguments name, that the grant covers, and nobody else."""

import msgspec
import pytest

from opensafe.model.calls import ToolCall
from opensafe.model.decision import Grant
from opensafe.model.facts import ClassTables
from opensafe.model.sandbox import User
from opensafe.normalize.tools import DEFAULT_REGISTRY
from opensafe.policy.subject import build_launch

DEV = User(name="dev", uid=1001, gid=1002, groups=(10,), home="/home/dev")
GRANT = Grant(programs="any", users=("dev",))


def call(**arguments: object) -> ToolCall:
    """A Bash call."""
    text = msgspec.json.encode({"command": "cat ~/notes", **arguments})
    return DEFAULT_REGISTRY.validate("c1", "Bash", text, 1 << 20)


@pytest.mark.parametrize("asked", ["dev", "1001"])
def test_the_launch_has_the_user_and_its_variables(asked: str) -> None:
    launch = build_launch(DEFAULT_REGISTRY, call(user=asked), GRANT, "sb", "exec", user=DEV)
    assert launch.user == DEV
    assert {name: launch.program.env[name] for name in ("HOME", "USER", "LOGNAME")} == DEV.variables()


@pytest.mark.parametrize("asked", [{}, {"user": "1000"}])
def test_without_one_it_is_the_sandbox_s_own(asked: dict[str, str]) -> None:
    launch = build_launch(DEFAULT_REGISTRY, call(**asked), GRANT, "sb", "exec")
    assert launch.user is None
    assert launch.program.env["HOME"] == "/workspace"


@pytest.mark.parametrize(("asked", "user"), [("dev", None), ("root", DEV), ("1002", DEV), ("", DEV), ("0", None)])
def test_another_than_the_call_names_is_no_launch(asked: str, user: User | None) -> None:
    arguments = {"user": asked} if asked else {}
    with pytest.raises(ValueError, match="asks to run as"):
        build_launch(DEFAULT_REGISTRY, call(**arguments), GRANT, "sb", "exec", user=user)


@pytest.mark.parametrize("users", [(), ("root",), ("deve",)])
def test_one_that_is_not_granted_is_no_launch(users: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="not granted"):
        build_launch(DEFAULT_REGISTRY, call(user="dev"), Grant(users=users), "sb", "exec", user=DEV)


def test_another_name_of_uid_0_has_to_be_granted_as_root() -> None:
    toor = User(name="toor", uid=0, gid=0)
    with pytest.raises(ValueError, match="root is not granted"):
        build_launch(DEFAULT_REGISTRY, call(user="toor"), Grant(users=("toor",)), "sb", "exec", user=toor)
    assert (
        build_launch(DEFAULT_REGISTRY, call(user="toor"), Grant(users=("root",)), "sb", "exec", user=toor).user == toor
    )


def test_the_user_s_home_is_where_paths_lead() -> None:
    seen = [DEFAULT_REGISTRY.facts(call(), ClassTables(), user).reads[0].path for user in (None, DEV)]
    assert seen == ["/workspace/notes", "/home/dev/notes"]
    assert DEFAULT_REGISTRY.facts(call(user="dev"), ClassTables(), DEV).env == {}


def test_the_digest_that_an_approval_is_bound_to_covers_the_user() -> None:
    assert len({call().digest, call(user="dev").digest, call(user="root").digest}) == 3
