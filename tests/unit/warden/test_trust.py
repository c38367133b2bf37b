"""What a sandbox is given to trust: its image's authorities and the gateway's, whatever the image is."""

import json
import os
import pathlib

import msgspec
import pytest

from opensafe.model.calls import Program
from opensafe.model.ids import new_id
from opensafe.model.limits import CallLimits, SandboxLimits
from opensafe.model.sandbox import Launch, SandboxSpec
from opensafe.warden.sandbox import runner, spec
from opensafe.warden.sandbox.trust import Trust

PLACES = ("etc/ssl/certs/ca-certificates.crt", "etc/pki/tls.pem")
OURS, THEIRS = b"-----OURS-----\n", b"-----THEIRS-----"


@pytest.fixture
def trust():
    return Trust(OURS, {"OPENSAFE_CREDENTIAL_HUB": "opensafe-credential-hub"}, PLACES)


def bundle(trust, tmp_path, rootfs):
    directory = tmp_path / "trust"
    trust.write(directory, rootfs, str(rootfs))
    assert (directory / "ca.pem").read_bytes() == OURS
    return (directory / "ca-bundle.pem").read_bytes()


@pytest.mark.parametrize("place", PLACES)
def test_the_bundle_is_the_images_and_ours(trust, tmp_path, place):
    path = tmp_path / "rootfs" / place
    path.parent.mkdir(parents=True)
    path.write_bytes(THEIRS)
    assert bundle(trust, tmp_path, tmp_path / "rootfs") == THEIRS + b"\n" + OURS


def test_an_image_without_any_has_ours(trust, tmp_path):
    (tmp_path / "rootfs").mkdir()
    assert bundle(trust, tmp_path, tmp_path / "rootfs") == OURS


@pytest.mark.parametrize("how", ["file", "directory", "fifo"])
def test_no_link_and_nothing_odd_in_the_image_is_followed(trust, tmp_path, how):
    secret = tmp_path / "shadow"
    secret.write_bytes(b"the host's own")
    rootfs = tmp_path / "rootfs"
    path = rootfs / PLACES[0]
    if how == "directory":
        (rootfs / "etc/ssl").mkdir(parents=True)
        (tmp_path / "ca-certificates.crt").write_bytes(b"the host's own")
        path.parent.symlink_to(tmp_path)
    else:
        path.parent.mkdir(parents=True)
        path.symlink_to(secret) if how == "file" else os.mkfifo(path)
    assert bundle(trust, tmp_path, rootfs) == OURS


def test_it_is_mounted_read_only_where_there_is_any():
    places = spec.Places(
        rootfs=pathlib.Path("/r"),
        guest_tools=pathlib.Path("/g"),
        resolv_conf=pathlib.Path("/b/resolv.conf"),
        hosts=pathlib.Path("/b/hosts"),
        network=pathlib.Path("/n"),
        trust=pathlib.Path("/b/trust"),
    )
    wanted = SandboxSpec(sandbox_id="sb-0123456789abcdef0123", limits=SandboxLimits())
    mounts = spec.oci_spec(wanted, places)["mounts"]
    [mount] = [one for one in mounts if one["destination"] == "/.opensafe/trust"]
    assert mount["source"] == "/b/trust"
    assert "ro" in mount["options"]
    assert mounts.index(mount) > [one["destination"] for one in mounts].index("/.opensafe")
    assert "trust" not in json.dumps(spec.oci_spec(wanted, msgspec.structs.replace(places, trust=None)))


def test_a_program_finds_it_and_what_the_call_sets_goes_before(trust):
    launch = Launch(
        exec_id=new_id("exec"),
        sandbox_id=new_id("sb"),
        program=Program(argv=("/bin/true",), env={"SSL_CERT_FILE": "/own"}, cwd="/"),
        profile="default",
        limits=CallLimits(),
    )
    made = runner.guest_program(launch, {}, report=3, filtered=4, environment=trust.environment)
    found = dict(one.split("=", 1) for one in made.env)
    assert found["SSL_CERT_FILE"] == "/own"
    assert found["CURL_CA_BUNDLE"] == "/.opensafe/trust/ca-bundle.pem"
    assert found["NODE_EXTRA_CA_CERTS"] == "/.opensafe/trust/ca.pem"
    assert found["OPENSAFE_CREDENTIAL_HUB"] == "opensafe-credential-hub"
    without = runner.guest_program(launch, {}, report=3, filtered=4)
    assert "CURL_CA_BUNDLE" not in dict(one.split("=", 1) for one in without.env)
