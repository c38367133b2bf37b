"""`opensafe policy keygen`, `sign`, `activate` and `build --watch`, as an operator types them."""

import json
import os
import pathlib
import shutil
import stat
import subprocess
import sys

import pytest

from opensafe.cli.exits import Exit
from opensafe.proof.private import programs
from tests.harness.daemon import PREFIX, ROOT


def opensafe(*arguments, daemon=None):
    """The finished command, at the daemon's operator where there is one."""
    where = {"OPENSAFE_SOCKET": str(daemon.socket_of("operator"))} if daemon else {}
    command = [sys.executable, "-m", "opensafe.cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, env={**os.environ, **where})


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    directory = tmp_path_factory.mktemp("keys")
    made = opensafe("policy", "keygen", directory)
    assert made.returncode == Exit.OK, made.stderr
    return directory


@pytest.fixture(scope="module")
def site(tmp_path_factory, keys):
    """Where the daemon looks, with the built bundle signed by the key above."""
    place = tmp_path_factory.mktemp("site") / "bundle.tar.gz"
    sign(keys, place, 1)
    return place


@pytest.fixture(scope="module")
def settings(keys, site):
    return {"bundle": site, "key": keys / "policy.pub", "staffed": True}


def sign(keys, out, number):
    words = ("--key", keys / "policy.key", "--number", number, "--out", out)
    done = opensafe("policy", "sign", programs().bundle, *words)
    assert done.returncode == Exit.OK, done.stderr
    return done.stdout


def test_keygen_makes_a_pair_that_only_its_owner_reads_and_never_another(keys):
    private, public = keys / "policy.key", keys / "policy.pub"
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    assert public.read_text().startswith("-----BEGIN PUBLIC KEY-----")
    before = private.read_bytes()
    again = opensafe("policy", "keygen", keys)
    assert again.returncode == Exit.REQUEST
    assert str(private) in again.stderr
    assert private.read_bytes() == before


def test_sign_writes_a_bundle_under_the_number_and_names_the_key(keys, tmp_path):
    said = sign(keys, tmp_path / "signed", 7)
    assert "revision 7-" in said
    assert (tmp_path / "signed").is_file()


def test_sign_leaves_what_is_there_where_it_refuses(keys, tmp_path):
    (tmp_path / "bundle").write_bytes(b"no bundle")
    (tmp_path / "out").write_bytes(b"as before")
    words = ("--key", keys / "policy.key", "--out", tmp_path / "out")
    assert opensafe("policy", "sign", tmp_path / "bundle", *words).returncode == Exit.DENIED
    assert (tmp_path / "out").read_bytes() == b"as before"


def test_sign_takes_no_key_that_others_read(keys, tmp_path):
    loose = pathlib.Path(shutil.copy(keys / "policy.key", tmp_path))
    loose.chmod(0o644)
    done = opensafe("policy", "sign", programs().bundle, "--key", loose, "--out", tmp_path / "out")
    assert done.returncode == Exit.REQUEST
    assert f"chmod 600 {loose}" in done.stderr
    assert not (tmp_path / "out").exists()


def test_build_activates_nothing_that_is_not_signed(tmp_path):
    done = opensafe("policy", "build", "--activate", "--out", tmp_path / "out")
    assert done.returncode == Exit.REQUEST
    assert "--key" in done.stderr


@pytest.mark.root
@pytest.mark.runsc
def test_activate_waits_for_the_daemon_and_a_refused_candidate_changes_nothing(daemon, keys, tmp_path):
    sign(keys, tmp_path / "two", 2)
    done = opensafe("policy", "activate", tmp_path / "two", daemon=daemon)
    assert done.returncode == Exit.OK, done.stderr
    assert done.stdout.startswith("ACTIVATED  revision 2-")

    other = tmp_path / "other"
    assert opensafe("policy", "keygen", other).returncode == Exit.OK
    sign(other, tmp_path / "foreign", 3)
    done = opensafe("policy", "activate", tmp_path / "foreign", "--json", daemon=daemon)
    assert done.returncode == Exit.GOAL_MISSED
    summary = json.loads(done.stdout)["summary"]
    assert summary["activated"] is False
    assert "signature" in summary["reason"]

    status = json.loads(opensafe("policy", "status", "--json", daemon=daemon).stdout)["summary"]
    assert status["bundle_number"] == 2
    assert status["bundle_refused"] is True


@pytest.mark.root
@pytest.mark.runsc
def test_watch_builds_and_activates_each_change_and_outlives_a_bad_one(daemon, keys, tmp_path):
    ignored = shutil.ignore_patterns("cases")
    policies = pathlib.Path(shutil.copytree(ROOT / "policies", tmp_path / "policies", ignore=ignored))
    canary = policies / "opensafe/gate/canary.rego"
    text = canary.read_text()
    words = ("--policies", policies, "--out", tmp_path / "out", "--key", keys / "policy.key", "--number", 10)
    command = [sys.executable, "-m", "opensafe.cli", "policy", "build", "--watch", "--activate", *map(str, words)]
    env = {**os.environ, "OPENSAFE_SOCKET": str(daemon.socket_of("operator"))}
    opa = ("--opa", str(PREFIX / "bin/opa"))
    with subprocess.Popen(
        [*command, *opa], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env
    ) as watching:
        try:
            assert "revision 10-" in watching.stdout.readline()
            assert watching.stdout.readline().startswith("ACTIVATED  revision 10-")
            canary.write_text(text + "\nnot rego at all\n")
            assert any("canary.rego" in line for line in watching.stderr)
            canary.write_text(text.replace("is in force", "is in force now"))
            assert "revision 11-" in watching.stdout.readline()
            assert watching.stdout.readline().startswith("ACTIVATED  revision 11-")
        finally:
            watching.terminate()
