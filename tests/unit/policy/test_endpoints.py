"""Listed endpoints in the site's settings: what may be one, who refuses the rest, and ports that nobody can use."""

import json
import pathlib
import shutil

import msgspec
import pytest

from opensafe.config import DEFAULT_PREFIX
from opensafe.errors import BundleRefused
from opensafe.policy import build, endpoints, site
from opensafe.policy.sources import Sources

ROOT = pathlib.Path(__file__).resolve().parents[3]

REFUSED = {
    "10.0.0.1:5432": "is an address",
    "0x7f.1:22": "is an address",
    "[::1]:22": "is an address",
    "*.example.org:22": "is a pattern",
    "db.example.org:53": "port 53",
    "db.example.org:80": "port 80",
    "db.example.org:443": "port 443",
    "db.example.org": "is not name:port",
    "db.example.org:0": "is not name:port",
    "db.example.org:022": "is not name:port",
    "db.example.org:65536": "is not name:port",
    "db.example.org:²": "is not name:port",
    "DB.example.org:22": "db.example.org:22",
    "db.example.org.:22": "db.example.org:22",
    ":22": "names no host",
    "user@db.example.org:22": "names no host",
}


def settings(*listed, ports=("80", "443")):
    found = build.read_settings(ROOT / "policies")
    return found | {"endpoints": dict.fromkeys(listed, True), "ports": dict.fromkeys(ports, True)}


@pytest.mark.parametrize("endpoint", REFUSED)
def test_a_bundle_with_what_is_no_endpoint_is_not_loaded(endpoint):
    with pytest.raises(BundleRefused) as refused:
        site.read_config(msgspec.json.encode(settings("db.example.org:5432", endpoint)))
    assert refused.value.value == endpoint
    assert REFUSED[endpoint] in f"{refused.value} {refused.value.remedy}"


def test_a_name_with_a_port_is_one(tmp_path):
    listed = ("db.example.org:5432", "db.example.org:22", "xn--bcher-kva.example:65535")
    assert site.read_config(msgspec.json.encode(settings(*listed)))["endpoints"].keys() == set(listed)


def test_without_the_list_there_are_none():
    config = settings()
    del config["endpoints"]
    assert list(endpoints.faults(site.read_config(msgspec.json.encode(config)))) == []


def lint(tmp_path, **changed):
    policies = tmp_path / "policies"
    shutil.copytree(ROOT / "policies", policies, ignore=shutil.ignore_patterns("cases"))
    for name, value in changed.items():
        (policies / "data" / f"{name}.json").write_text(json.dumps(value))
    return Sources(pathlib.Path(DEFAULT_PREFIX) / "bin/opa", policies)


def test_the_lint_refuses_an_endpoint_and_warns_of_a_port_that_none_has(tmp_path):
    sources = lint(
        tmp_path,
        endpoints={"*.example.org:22": True, "db.example.org:5432": True},
        ports={"80": True, "443": True, "5432": True, "8443": True},
    )
    (finding,) = sources.findings()
    assert (finding.check, "*.example.org:22 is a pattern" in finding.message) == ("lint", True)
    (warning,) = sources.warnings()
    assert "port 8443" in warning.message
    assert "name:8443" in warning.remedy


def test_as_shipped_there_is_nothing_to_say():
    assert Sources(pathlib.Path(DEFAULT_PREFIX) / "bin/opa", ROOT / "policies").warnings() == []
