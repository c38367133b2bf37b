"""`doctor` on termination: what is terminated, and which of its files others could have read."""

import pathlib

import pytest

from opensafe.cli import terminating
from opensafe.config import load

TABLES = """[[egress.terminate]]
name = "api.example.com"
[[egress.credential]]
name = "hub"
host = "api.example.com"
file = "{file}"
[[egress.credential]]
name = "loaded"
host = "api.example.com"
file = "loaded"
"""


@pytest.fixture
def config(tmp_path):
    (tmp_path / "etc/ssl/certs").mkdir(parents=True)
    (tmp_path / "etc/ssl/certs/ca-certificates.crt").touch()
    for name in ("hub", "egress-ca.key"):
        (tmp_path / name).touch(mode=0o600)
    path = tmp_path / "opensafe.toml"
    path.write_text(f'[paths]\nstate = "{tmp_path}"\n[egress]\nenabled = true\n{TABLES.format(file=tmp_path / "hub")}')
    return load(path)


def found(config, tmp_path):
    return {check.name: check for check in terminating.look(config, tmp_path)}


@pytest.mark.root
def test_all_is_well(config, tmp_path):
    checks = found(config, tmp_path)
    assert set(checks) == {"terminated names", "upstream authorities", "credential hub", "credential loaded"}
    assert all(check.ok for check in checks.values()), checks
    assert "api.example.com" in checks["terminated names"].value


@pytest.mark.root
def test_a_key_is_made_at_the_first_start(config, tmp_path):
    (tmp_path / "egress-ca.key").unlink()
    checks = found(config, tmp_path)
    assert checks["terminated names"].ok
    assert "made at the next start" in checks["terminated names"].value


@pytest.mark.root
@pytest.mark.parametrize(("file", "name"), [("hub", "credential hub"), ("egress-ca.key", "terminated names")])
def test_what_others_can_read_is_a_finding_with_a_remedy(config, tmp_path, file, name):
    (tmp_path / file).chmod(0o644)
    check = found(config, tmp_path)[name]
    assert not check.ok
    assert check.remedy


def test_so_are_missing_authorities_and_files(config, tmp_path):
    (tmp_path / "hub").unlink()
    checks = found(config, pathlib.Path(tmp_path / "none"))
    assert not checks["upstream authorities"].ok
    assert not checks["credential hub"].ok


def test_where_nothing_is_terminated_nothing_is_said(tmp_path):
    path = tmp_path / "opensafe.toml"
    path.write_text("[egress]\nenabled = true\n")
    assert list(terminating.look(load(path))) == []
