"""G66: a key that nobody knows is a load error that names it, at every level of what a site writes."""

import functools
import json
import pathlib
from typing import Any

import pytest

from opensafe import config
from opensafe.errors import BundleRefused, ConfigError
from opensafe.policy import bundle as bundles
from opensafe.policy.build import read_settings
from opensafe.policy.manifest import CONFIG, RULES, TOOLS, VECTORS, Bundle
from opensafe.policy.sources import BuildError
from tests.harness.policy import TRUSTED, repack

Members = dict[str, bytes]

load = functools.partial(bundles.load, trusted=TRUSTED)

UNKNOWN = "defaultAction"
TOOL = {
    "name": "fetch",
    "description": "",
    "schema": {"type": "object", "properties": {"url": {}}, "additionalProperties": False},
    "facts": [{"pointer": "/url", "as": "url"}],
    "risk": "low",
}
"""A good entry of a tool manifest."""


@pytest.mark.parametrize(
    "text",
    [
        "[defaultAction]",
        "defaultAction = 1",
        "[caps]\ndefaultAction = 1",
        "[policy]\ndefaultAction = 'allow'",
        "[paths]\ndefaultAction = '/'",
        "[service]\ndefaultAction = 1",
        "[audit]\ndefaultAction = 1",
        "[telemetry]\ndefaultAction = 1",
        "[principals.agent]\ndefaultAction = 1",
        "[[pool]]\ndefaultAction = 1",
        "[[pool]]\nlimits = {defaultAction = 1}",
    ],
)
def test_G66_of_the_settings(tmp_path: pathlib.Path, text: str) -> None:
    path = tmp_path / "opensafe.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=UNKNOWN):
        config.load(path)
    path.write_text("[caps]\nsandboxes = 1\n[principals.agent]\nroles = ['developer']\n")
    assert config.load(path).caps.sandboxes == 1


def added(value: Any, *path: str | int) -> Any:
    """A copy with the unknown key at `path`."""
    copy = place = json.loads(json.dumps(value))
    for part in path:
        place = place[part]
    place[UNKNOWN] = "allow"
    return copy


@pytest.mark.parametrize(
    "path",
    [
        (), ("hosts",), ("paths",), ("programs",), ("ceilings",), ("ceilings", "session"), ("ceilings", "principal"),
        ("ceilings", "dns"), ("ceilings", "sandbox"), ("grants", "bash"), ("grants", "bash", "limits"),
    ],
)  # fmt: skip
def test_G66_of_a_sites_policy(members: Members, path: tuple[str, ...]) -> None:
    content = json.dumps(added(json.loads(members[CONFIG]), *path)).encode()
    with pytest.raises(BundleRefused, match=UNKNOWN):
        load(repack({**members, CONFIG: content}))


@pytest.mark.parametrize("path", [(0,), (0, "facts", 0)])
def test_G66_of_a_tool_manifest(members: Members, path: tuple[str | int, ...]) -> None:
    content = json.dumps(added([TOOL], *path)).encode()
    with pytest.raises(BundleRefused, match=UNKNOWN):
        load(repack({**members, TOOLS: content}))


@pytest.mark.parametrize("member", [VECTORS, RULES])
def test_G66_of_what_comes_with_the_rules(members: Members, member: str) -> None:
    content = json.dumps(added(json.loads(members[member]), 0)).encode()
    with pytest.raises(BundleRefused, match=UNKNOWN):
        load(repack({**members, member: content}))


def test_G66_of_a_bundles_manifest(members: Members) -> None:
    with pytest.raises(BundleRefused, match=UNKNOWN):
        load(repack(members, defaultAction="allow"))


def test_G66_twin_the_same_without_it_loads(members: Members, bundle: Bundle) -> None:
    again = load(repack({**members, TOOLS: json.dumps([TOOL]).encode()}))
    assert again.rules == bundle.rules


@pytest.mark.parametrize(
    ("text", "why"), [('{"a": 1, "b": 2, "a": 2}', r"names\.json: a key stands twice: a$"), ('{"a": 1,}', "names.json")]
)
def test_G66_a_file_of_settings_that_is_broken_or_says_a_thing_twice_is_not_skipped(
    tmp_path: pathlib.Path, text: str, why: str
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "names.json").write_text(text)
    with pytest.raises(BuildError, match=why):
        read_settings(tmp_path)
