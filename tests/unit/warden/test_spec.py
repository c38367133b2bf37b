"""The OCI configuration is ours from the first key to the last (CP-04, CP-05)."""

import json
import pathlib

import pytest

from opensafe.model.limits import SandboxLimits
from opensafe.model.sandbox import SandboxSpec
from opensafe.warden.sandbox import spec

PLACES = spec.Places(
    rootfs=pathlib.Path("/images/base/rootfs"),
    guest_tools=pathlib.Path("/native/guest"),
    resolv_conf=pathlib.Path("/bundle/resolv.conf"),
    hosts=pathlib.Path("/bundle/hosts"),
    network=pathlib.Path("/netns/sb"),
)
GOLDEN = pathlib.Path(__file__).with_name("golden_config.json")


def made(**limits):
    wanted = SandboxSpec(sandbox_id="sb-0123456789abcdef0123", limits=SandboxLimits(**limits))
    return spec.oci_spec(wanted, PLACES)


def test_cp_04_the_configuration_is_the_golden_one():
    assert made() == json.loads(GOLDEN.read_text())


def test_cp_05_there_is_no_hook_annotation_device_or_seccomp_key():
    text = json.dumps(made())
    for word in (
        "hooks",
        "annotations",
        "devices",
        "seccomp",
        "sysctl",
        "rootfsPropagation",
        "cgroupsPath",
        "uidMappings",
    ):
        assert word not in text


def test_nothing_a_caller_chooses_is_in_it_but_sizes():
    usual, other = made(), made(workspace_bytes=1 << 20, tmp_bytes=2 << 20, shm_bytes=3 << 20)
    differing = [(a, b) for a, b in zip(usual["mounts"], other["mounts"], strict=True) if a != b]
    assert [b["destination"] for _, b in differing] == ["/tmp", "/dev/shm", "/workspace"]
    assert {**usual, "mounts": 0} == {**other, "mounts": 0}


@pytest.mark.parametrize("destination", ["/tmp", "/dev/shm", "/workspace"])
def test_r41_every_memory_file_system_has_a_size(destination):
    [mount] = [mount for mount in made()["mounts"] if mount["destination"] == destination]
    assert any(option.startswith("size=") and int(option[5:]) > 0 for option in mount["options"])


def test_pr_every_namespace_is_new_but_the_network_made_before():
    assert {one["type"]: one.get("path") for one in made()["linux"]["namespaces"]} == {
        "pid": None,
        "ipc": None,
        "uts": None,
        "mount": None,
        "network": "/netns/sb",
    }  # fmt: skip - a table
