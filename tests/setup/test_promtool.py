"""promtool: the host's where it is new enough, else out of Debian's package."""

import pytest

from tools.provision.promtool import Promtool
from tools.provision.runner import Runner, StepError
from tools.provision.site import Site


class Host:
    """A PATH and a checkout of the test's own."""

    def __init__(self, root, monkeypatch):
        self.path = root / "host"
        self.path.mkdir()
        monkeypatch.setenv("PATH", f"{self.path}:/usr/bin:/bin")
        pins = {"promtool": {"minimum": "2.42", "package": "prometheus"}}
        self.step = Promtool(Site(root=root / "checkout", prefix=root / "prefix", pins=pins))
        self.log = root / "log"

    def program(self, name, text):
        file = self.path / name
        file.write_text(f"#!/bin/sh\n{text}\n")
        file.chmod(0o755)

    def promtool(self, version):
        self.program("promtool", says(version))

    def apt(self, version):
        """apt-get that downloads a package, and dpkg-deb that unpacks it."""
        self.program("apt-get", 'case "$*" in *download*) touch prometheus_1.deb;; esac')
        made = '"$3"/usr/bin/promtool'
        self.program(
            "dpkg-deb", f"mkdir -p \"$3\"/usr/bin && echo '#!/bin/sh' >{made} && echo '{says(version)}' >>{made}"
        )

    def execute(self):
        self.step.execute(Runner(log=self.log, say=lambda _: None))
        return self.step.path.read_text()


def says(version):
    return f'echo "promtool, version {version} (branch: x)"'


@pytest.fixture
def host(tmp_path, monkeypatch):
    monkeypatch.setattr("tools.provision.apt.wait_for_lists", lambda _: None)
    return Host(tmp_path, monkeypatch)


@pytest.mark.parametrize("version", ["2.42.0+ds", "2.45.3", "3.5.0"])
def test_the_hosts_is_taken_where_it_is_new_enough(host, version):
    host.promtool(version)
    assert not host.step.is_done()
    assert version in host.execute()
    assert host.step.is_done()


@pytest.mark.parametrize("version", ["2.41.0", "1.8.2", "none"])
def test_the_packages_is_taken_where_the_hosts_is_too_old(host, version):
    host.promtool(version)
    host.apt("2.42.0+ds")
    assert "2.42.0+ds" in host.execute()
    assert [path.name for path in host.step.path.parent.iterdir()] == ["promtool"]


def test_a_package_that_is_too_old_is_no_solution(host):
    host.apt("2.24.1")
    with pytest.raises(StepError, match=r"is 2\.24\.1, needed is 2\.42"):
        host.execute()
    assert not host.step.is_done()


def test_another_pin_asks_again(host, tmp_path):
    host.promtool("2.42.0")
    host.execute()
    newer = {"promtool": {"minimum": "3.0", "package": "prometheus"}}
    site = host.step.site
    assert not Promtool(Site(root=site.root, prefix=site.prefix, pins=newer)).is_done()
