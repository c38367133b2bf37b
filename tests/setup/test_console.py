"""What the console serves of others: by npm, which may have to be installed, and only what the lock gave."""

import shutil
from pathlib import Path

import pytest

from tools.provision.console import ConsoleAssets
from tools.provision.runner import Runner, StepError
from tools.provision.site import Site

ROOT = Path(__file__).resolve().parents[2]
ROOM = Path("supervisor/opensafe/console")
NPM = """
mkdir -p node_modules/htmx.org/dist node_modules/htmx-ext-sse/dist node_modules/idiomorph/dist node_modules/axe-core
for file in htmx.org/dist/htmx.min.js htmx.org/LICENSE htmx-ext-sse/dist/sse.js htmx-ext-sse/LICENSE \\
    idiomorph/dist/idiomorph-ext.min.js idiomorph/LICENSE axe-core/axe.min.js
do echo "$* $file" >node_modules/$file; done
"""


class Host:
    """A PATH and a checkout of the test's own."""

    def __init__(self, root, monkeypatch):
        self.path = root / "host"
        self.path.mkdir()
        for tool in ("sh", "mkdir", "chmod", "cat"):
            (self.path / tool).symlink_to(shutil.which(tool))
        monkeypatch.setenv("PATH", str(self.path))
        self.room = root / "checkout" / ROOM
        self.room.mkdir(parents=True)
        for name in ("package.json", "package-lock.json", ".npmrc"):
            shutil.copy(ROOT / ROOM / name, self.room)
        site = Site(root=root / "checkout", prefix=root / "prefix", pins={"npm": {"packages": ["nodejs", "npm"]}})
        self.step = ConsoleAssets(site)
        self.log = root / "log"

    def program(self, name, text):
        file = self.path / name
        file.write_text(f"#!/bin/sh\n{text}\n")
        file.chmod(0o755)

    def execute(self):
        self.step.execute(Runner(log=self.log, say=lambda _: None))


@pytest.fixture
def host(tmp_path, monkeypatch):
    monkeypatch.setattr("tools.provision.apt.wait_for_lists", lambda _: None)
    monkeypatch.setattr("tools.provision.apt.require_root", lambda _: None)
    return Host(tmp_path, monkeypatch)


def test_the_room_gets_what_is_served_with_its_licences_and_no_more(host):
    host.program("npm", NPM)
    assert not host.step.is_done()
    host.execute()
    assert host.step.is_done()
    served = {path.name: path.read_text().split()[-1] for path in host.step.vendor.iterdir()}
    assert served == {
        "htmx.min.js": "htmx.org/dist/htmx.min.js",
        "htmx.LICENSE": "htmx.org/LICENSE",
        "sse.js": "htmx-ext-sse/dist/sse.js",
        "sse.LICENSE": "htmx-ext-sse/LICENSE",
        "idiomorph-ext.min.js": "idiomorph/dist/idiomorph-ext.min.js",
        "idiomorph.LICENSE": "idiomorph/LICENSE",
    }
    assert host.step.axe.read_text().startswith("ci ")
    assert sorted(path.name for path in host.room.iterdir()) == [
        ".npmrc", "assets", "package-lock.json", "package.json",
    ]  # fmt: skip


def test_a_file_of_an_earlier_version_goes(host):
    host.program("npm", NPM)
    host.step.vendor.mkdir(parents=True)
    (host.step.vendor / "old.js").touch()
    host.execute()
    assert not (host.step.vendor / "old.js").exists()


@pytest.mark.parametrize("name", ["package-lock.json", ".npmrc", "assets/vendor/sse.js"])
def test_another_lock_and_a_file_exchanged_ask_again(host, name):
    host.program("npm", NPM)
    host.execute()
    with (host.room / name).open("a") as file:
        file.write("\n")
    assert not host.step.is_done()


def test_npm_is_installed_where_there_is_none(host, tmp_path):
    (tmp_path / "npm").write_text(f"#!/bin/sh{NPM}")
    made = f"cat {tmp_path}/npm >{host.path}/npm && chmod 755 {host.path}/npm"
    host.program("apt-get", f'case "$*" in *install*npm) {made};; esac')
    host.execute()
    assert host.step.is_done()


def test_an_npm_that_fails_leaves_what_was_there_and_is_asked_again(host):
    host.program("npm", NPM)
    host.execute()
    before = (host.step.vendor / "sse.js").read_text()
    (host.room / "package-lock.json").write_text("{}")
    host.program("npm", "echo no route; exit 1")
    with pytest.raises(StepError) as failure:
        host.execute()
    assert (failure.value.output, "npm registry" in failure.value.remedy) == ("no route", True)
    assert (host.step.vendor / "sse.js").read_text() == before
    assert not host.step.is_done()
