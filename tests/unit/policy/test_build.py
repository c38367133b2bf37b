"""The build refuses what the daemon would, and what authors get wrong."""

import json
import pathlib
import re
import shutil
from collections.abc import Callable

import pytest

from opensafe.errors import BundleRefused, PolicyError
from opensafe.policy import site
from opensafe.policy.build import build, main
from opensafe.policy.schema import input_schema
from opensafe.policy.sources import BuildError

POLICIES = pathlib.Path(__file__).parents[3] / "policies"
Tree = pathlib.Path


@pytest.fixture
def tree(tmp_path: pathlib.Path) -> Tree:
    """A copy of policies/ to be spoiled."""
    return pathlib.Path(shutil.copytree(POLICIES, tmp_path / "policies"))


def edit(path: pathlib.Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


SPOILS: dict[str, Callable[[Tree], object]] = {
    "fmt": lambda t: edit(t / "opensafe/budget/budget.rego", "_bytes if {", "_bytes   if {"),
    "callz": lambda t: edit(t / "opensafe/session/session.rego", "ceilings.calls_", "ceilings.callz_"),
    "pth": lambda t: edit(t / "opensafe/read/read.rego", "{path.path} holds", "{path.pth} holds"),
    "threat": lambda t: edit(t / "opensafe/budget/budget.rego", "#   threat: D8\n", ""),
    "severity low": lambda t: edit(t / "opensafe/budget/budget.rego", '"medium"', '"low"'),
    "threat flood": lambda t: edit(t / "opensafe/budget/budget.rego", "threat: D8", "threat: flood"),
    "no test_missing": lambda t: edit(t / "opensafe/budget/budget_test.rego", "test_missing_", "test_other_"),
    "no budget_test.rego": lambda t: (t / "opensafe/budget/budget_test.rego").unlink(),
    "FAIL": lambda t: edit(t / "opensafe/budget/budget.rego", "used < config.ceilings", "used <= config.ceilings"),
    "config: .*extra": lambda t: (t / "data/extra.json").write_text("{}"),
    "stands twice": lambda t: (t / "data/images.json").write_text('{"base": "any", "base": "any"}'),
    "another verdict": lambda t: edit(t / "vectors.json", '"block"', '"review"'),
}


@pytest.mark.parametrize("why", SPOILS)
def test_a_spoilt_tree_builds_nothing(opa: pathlib.Path, tree: Tree, tmp_path: pathlib.Path, why: str) -> None:
    SPOILS[why](tree)
    out = tmp_path / "out.tar.gz"
    with pytest.raises((BuildError, BundleRefused), match=why):
        build(opa, tree, out)
    assert not out.exists()


def test_untested_lines_fail_the_build(opa: pathlib.Path, tree: Tree, tmp_path: pathlib.Path) -> None:
    lines = "\n".join(f"_unused{n}(x) := y if {{\n\ty := x + {n}\n}}\n" for n in range(60))
    (tree / "opensafe/budget/more.rego").write_text(f"package opensafe.budget\n\n{lines}")
    with pytest.raises(BuildError, match=r"coverage: .*more\.rego"):
        build(opa, tree, tmp_path / "out.tar.gz")


def test_an_absent_compiler_says_what_to_do(tree: Tree, tmp_path: pathlib.Path) -> None:
    with pytest.raises(PolicyError, match="make setup"):
        build(tmp_path / "opa", tree, tmp_path / "out.tar.gz")


def test_the_command_line_reports_and_fails(
    opa: pathlib.Path, tree: Tree, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--opa", str(opa), "--policies", str(tree), "--out", str(tmp_path / "out.tar.gz"), "--revision", "7"]
    assert main(arguments) == 0
    assert "revision 7-" in capsys.readouterr().out
    SPOILS["fmt"](tree)
    assert main(arguments) == 1
    assert "fmt" in capsys.readouterr().err


def test_the_schemas_are_those_of_the_code() -> None:
    assert (POLICIES / "schemas/input.json").read_text() == input_schema()
    assert json.loads((POLICIES / "schemas/config.json").read_text()) == json.loads(site.SCHEMA.read_text())


def test_every_threat_of_a_rule_stands_in_the_threat_model() -> None:
    model = (POLICIES.parent / "docs/threat-model.md").read_text()
    known = set(re.findall(r"^\| ([STRIDE][0-9]+) \|", model, re.MULTILINE)) | {"none"}
    sources = "\n".join(path.read_text() for path in POLICIES.glob("opensafe/*/*.rego"))
    named = set(re.findall(r"^#   threat: (\S+)", sources, re.MULTILINE))
    assert len(named) > 10
    assert named <= known


def test_the_documentation_lists_every_rule() -> None:
    listed = (POLICIES.parent / "docs/policies.md").read_text()
    sources = "\n".join(path.read_text() for path in POLICIES.glob("opensafe/*/*.rego"))
    rules = set(re.findall(r"^#   id: (\S+)", sources, re.MULTILINE))
    assert len(rules) >= 68
    assert [rule for rule in sorted(rules) if f"`{rule}`" not in listed] == []
