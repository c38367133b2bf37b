"""The set-up as a whole: a plan without effects, resuming after a failure, and what the steps hand over."""

import json
import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from opensafe.image.manifest import tree_digest
from tools.provision.__main__ import TARGETS, execute, operations
from tools.provision.image import RunnerImage
from tools.provision.operation import Stamp, digest
from tools.provision.runner import StepError
from tools.provision.site import Site

ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Step:
    name: str
    site: Site
    fails: bool = False
    executed: list[str] = field(default_factory=list)

    @property
    def stamp(self):
        return Stamp(self.site.stamps / self.name)

    def describe(self):
        return f"do {self.name}"

    def is_done(self):
        return self.stamp.holds("key")

    def execute(self, run):
        self.executed.append(self.name)
        if self.fails:
            raise StepError("the network is down", "wait", replay="curl x", output="line 1\nline 2")
        self.stamp.set("key")


@pytest.fixture
def site(tmp_path):
    return Site(root=tmp_path, prefix=tmp_path / "prefix")


def test_the_plan_names_every_step_and_touches_nothing(tmp_path):
    shutil.copytree(ROOT / "tools", tmp_path / "tools", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "requirements-dev.lock"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "native", tmp_path / "native")
    before = sorted(tmp_path.rglob("*"))
    plan = subprocess.run(
        [tmp_path / "tools/setup.sh", "--plan"],
        env={**os.environ, "OPENSAFE_PREFIX": str(tmp_path / "prefix")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert plan.returncode == 0, plan.stderr
    for name in TARGETS["setup"]:
        assert f"] {name} " in plan.stdout
    assert sorted(tmp_path.rglob("*")) == before


def test_a_failed_step_says_what_why_and_what_to_do_and_the_same_command_resumes(site, capsys):
    first, second, third = Step("first", site), Step("second", site, fails=True), Step("third", site)
    assert execute(site, [first, second, third]) == 1
    printed = capsys.readouterr().out
    for expected in ("[2/3] second", "the network is down", "| line 2", "to do:  wait", "replay: curl x"):
        assert expected in printed
    assert third.executed == []

    second.fails = False
    assert execute(site, [first, second, third]) == 0
    assert first.executed == ["first"], "what was finished is not done again"
    assert second.executed == ["second", "second"]
    assert third.executed == ["third"]

    capsys.readouterr()
    assert execute(site, [first, second, third]) == 0
    assert "all 3 steps were done already" in capsys.readouterr().out


@pytest.mark.parametrize("target", TARGETS)
def test_every_target_is_made_of_known_steps(target, site):
    assert tuple(step.name for step in operations(site, target)) == TARGETS[target]


def test_a_digest_depends_on_content_and_not_on_times(tmp_path):
    file = tmp_path / "a"
    file.write_text("one")
    first = digest(file)
    os.utime(file, (1, 1))
    assert digest(file) == first
    file.write_text("two")
    assert digest(file) != first


def test_an_image_of_another_recipe_is_built_again(site):
    image = RunnerImage(site)
    image.path.mkdir(parents=True)
    (image.path / "manifest.json").write_text(json.dumps({"recipe": "another"}))
    assert not image.is_done()


def test_only_the_tests_need_developers_tools_and_a_browser():
    assert TARGETS["setup"] == TARGETS["test"][: len(TARGETS["setup"])]
    assert set(TARGETS["test"]) - set(TARGETS["setup"]) == {"dev", "promtool", "jaeger", "browser"}


@pytest.mark.parametrize("name", ["base", "dev"])
def test_the_image_in_place_is_the_one_that_its_manifest_describes(name):
    image = RunnerImage(Site.from_environment(), name)
    manifest = json.loads((image.path / "manifest.json").read_bytes())
    assert image.is_done()
    rootfs = image.path / "rootfs"
    assert manifest["digest"] == "sha256:" + tree_digest(rootfs)
    assert rootfs.stat().st_mode & 0o777 == 0o755
    assert not any(entry.stat(follow_symlinks=False).st_mode & 0o6000 for entry in os.scandir(rootfs / "usr/bin"))
    assert (rootfs / "etc/resolv.conf").read_text() == ""
