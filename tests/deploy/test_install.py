"""`make install` and `make uninstall`, into a directory of the test's own."""

import os
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PREFIX = "/srv/opensafe"


def _make(script, destination, **variables):
    environment = {**os.environ, "DESTDIR": str(destination), "PREFIX": PREFIX, **variables}
    return subprocess.run(["sh", f"deploy/{script}.sh"], cwd=ROOT, env=environment, capture_output=True, text=True)


@pytest.fixture(scope="module")
def destination(tmp_path_factory):
    directory = tmp_path_factory.mktemp("destination")
    installed = _make("install", directory)
    assert installed.returncode == 0, installed.stdout + installed.stderr
    return directory


def test_the_installed_command_runs_from_its_own_environment(destination):
    program = destination / PREFIX.lstrip("/") / "bin" / "opensafe"
    helped = subprocess.run([program, "--help"], cwd="/", capture_output=True, text=True)
    assert helped.returncode == 0, helped.stderr
    python = program.resolve().parent / "python"
    where = subprocess.run([python, "-c", "import opensafe; print(opensafe.__file__)"], cwd="/", capture_output=True)
    assert where.stdout.decode().startswith(str(destination))


def test_development_tools_are_not_installed(destination):
    packages = destination / PREFIX.lstrip("/") / "venv/lib/python3.11/site-packages"
    assert (packages / "wasmtime").is_dir()
    assert not (packages / "pytest").exists()


@pytest.mark.parametrize("name", ["htmx.min.js", "htmx.LICENSE", "sse.js", "sse.LICENSE"])
def test_the_console_is_installed_with_what_it_serves(destination, name):
    packages = destination / PREFIX.lstrip("/") / "venv/lib/python3.11/site-packages"
    assert (packages / "starlette").is_dir()
    served = Path("opensafe/console/assets/vendor", name)
    assert (packages / served).read_bytes() == (ROOT / "supervisor" / served).read_bytes()


@pytest.mark.parametrize(
    "name",
    ["bin/opa", "bin/runsc", "libexec/launch", "libexec/guest/init", "libexec/proof/sweep", "images/base/manifest.json",
     "share/policy.bundle.tar.gz", "share/doc/runbooks.md", "share/grafana/opensafe.json",
     "share/policies/cases/MANIFEST.sha256", "share/policies/scenarios/budget.jsonl", "share/doc/console.md",
     "share/demo/README.md"],
)  # fmt: skip
def test_everything_the_daemon_reads_is_under_the_prefix(destination, name):
    assert (destination / PREFIX.lstrip("/") / name).is_file()


def test_alerts_name_the_page_that_is_installed(destination):
    rules = (destination / PREFIX.lstrip("/") / "share/prometheus/opensafe.rules.yml").read_text()
    assert f"runbook_url: file://{PREFIX}/share/doc/runbooks.md#" in rules
    assert "/opt/opensafe" not in rules


def test_unit_and_configuration_name_the_prefix_and_not_the_destination(destination):
    unit = (destination / "usr/local/lib/systemd/system/opensafe.service").read_text()
    assert f"ExecStart={PREFIX}/bin/opensafe up" in unit
    configuration = destination / "etc/opensafe/opensafe.toml"
    assert tomllib.loads(configuration.read_text())["paths"]["runsc"] == f"{PREFIX}/bin/runsc"
    assert configuration.stat().st_mode & 0o777 == 0o640
    for text in (unit, configuration.read_text()):
        assert str(destination) not in text
        assert "/opt/opensafe" not in text


def test_nothing_is_writable_by_others(destination):
    loose = [
        path
        for path in destination.rglob("*")
        if not path.is_symlink() and "rootfs" not in path.parts and path.stat().st_mode & 0o022
    ]
    assert loose == []


@pytest.mark.parametrize("prefix", ["relative", "/", ""])
def test_a_prefix_that_would_hit_the_host_is_refused(tmp_path, prefix):
    refused = _make("uninstall", tmp_path, PREFIX=prefix, OPENSAFE_PREFIX="/")
    assert refused.returncode == 2
    assert "absolute directory" in refused.stderr


@pytest.mark.root
@pytest.mark.parametrize("absent", ["", "opensafe-redteam.timer"])
def test_uninstall_stops_each_unit_and_names_what_it_keeps(tmp_path, absent):
    """Where systemd runs, which is made to seem so; one unit that is not there keeps no other from being stopped."""
    control = tmp_path / "bin/systemctl"
    control.parent.mkdir()
    control.write_text(f"""#!/bin/sh
for unit; do [ "$unit" != "{absent}" ] || exit 1; done
for unit; do case $unit in opensafe*) echo "$unit" >>{tmp_path}/stopped ;; esac; done
""")
    control.chmod(0o755)
    places = {name: str(tmp_path / name.lower()) for name in ("PREFIX", "SYSCONFDIR", "UNITDIR", "SYSUSERSDIR")}
    environment = {**os.environ, **places, "DESTDIR": "", "PATH": f"{control.parent}:{os.environ['PATH']}"}
    script = "mount -t tmpfs run /run && mkdir -p /run/systemd/system && exec sh deploy/uninstall.sh"
    removed = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert removed.returncode == 0, removed.stderr
    units = ["opensafe-redteam.timer", "opensafe-redteam.service", "opensafe-console.service", "opensafe.service"]
    assert (tmp_path / "stopped").read_text().split() == [unit for unit in units if unit != absent]
    (kept,) = [line for line in removed.stdout.splitlines() if "kept" in line]
    assert "/var/lib/opensafe-redteam" in kept.replace(",", "").split()


def test_uninstall_keeps_the_configuration_and_removes_the_rest(destination):
    changed = destination / "etc/opensafe/opensafe.toml"
    changed.write_text("# mine\n")
    removed = _make("uninstall", destination)
    assert removed.returncode == 0, removed.stderr
    assert [path for path in destination.rglob("*") if path.is_file()] == [changed]
