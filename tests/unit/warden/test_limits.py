"""What is written into a cgroup, for both versions. (That it holds is shown on real sandboxes.)"""

import pytest

from opensafe.errors import HostUnsuitable
from opensafe.model.limits import SandboxLimits
from opensafe.warden.sandbox import limits

LIMITS = SandboxLimits(memory_bytes=256 << 20, pids=100, cpu_millis=1500)
V1 = "30 24 0:26 / {at}/{name} rw - cgroup cgroup rw,{name}\n"


@pytest.fixture
def mountinfo(tmp_path, monkeypatch):
    def pretend(text):
        (tmp_path / "mountinfo").write_text(text)
        monkeypatch.setattr(limits, "_MOUNTS", tmp_path / "mountinfo")

    return pretend


def v1(tmp_path, *names):
    for name in names:
        (tmp_path / name).mkdir(parents=True)
    return "".join(V1.format(at=tmp_path, name=name) for name in names)


def v2(tmp_path, controllers):
    (tmp_path / "unified").mkdir()
    (tmp_path / "unified" / "cgroup.controllers").write_text(controllers)
    return f"31 24 0:27 / {tmp_path}/unified rw - cgroup2 cgroup2 rw\n"


def files(root):
    return {str(path.relative_to(root)): path.read_text() for path in root.rglob("*") if path.is_file()}


def test_v1_has_one_group_in_each_hierarchy(tmp_path, mountinfo):
    mountinfo(v1(tmp_path, "memory", "pids", "cpu"))
    found = limits.Hierarchies.find("inst")
    assert found.version == 1
    found.prepare()
    group = found.group("sb")
    group.create(LIMITS)
    at = "opensafe/inst/sb"
    assert {path: text for path, text in files(tmp_path).items() if at in path} == {
        f"memory/{at}/memory.limit_in_bytes": str(256 << 20),
        f"memory/{at}/memory.memsw.limit_in_bytes": str(256 << 20),
        f"pids/{at}/pids.max": "100",
        f"cpu/{at}/cpu.cfs_period_us": "100000",
        f"cpu/{at}/cpu.cfs_quota_us": "150000",
    }
    assert found.present() == {"sb"}
    assert [directory.removeprefix(f"{tmp_path}/") for directory in group.directories] == [
        f"memory/{at}",
        f"pids/{at}",
        f"cpu/{at}",
    ]  # fmt: skip - a list of words


def test_v2_has_one_group_and_hands_the_controllers_down(tmp_path, mountinfo):
    mountinfo(v2(tmp_path, "cpuset cpu io memory pids"))
    found = limits.Hierarchies.find("inst")
    assert found.version == 2
    found.prepare()
    found.group("sb").create(LIMITS)
    for parent in ("", "opensafe/", "opensafe/inst/"):
        assert (tmp_path / "unified" / f"{parent}cgroup.subtree_control").read_text() == "+memory +pids +cpu"
    at = "unified/opensafe/inst/sb"
    assert {path: text for path, text in files(tmp_path).items() if at in path} == {
        f"{at}/memory.max": str(256 << 20),
        f"{at}/memory.oom.group": "1",
        f"{at}/memory.swap.max": "0",
        f"{at}/pids.max": "100",
        f"{at}/cpu.max": "150000 100000",
    }


def test_v1_counts_cpu_where_the_kernel_does(tmp_path, mountinfo):
    for names, at in (
        (("memory", "pids", "cpu", "cpuacct"), "cpuacct"),
        (("memory", "pids", "cpu,cpuacct"), "cpu,cpuacct"),
    ):
        mountinfo(v1(tmp_path / at, *names))
        found = limits.Hierarchies.find("inst")
        found.prepare()
        found.group("sb").create(LIMITS)
        assert len(found.group("sb").directories) == len(names)
        assert found.usage() == limits.Used(0, 0)
        (tmp_path / at / at / "opensafe/inst/cpuacct.usage").write_text("7000000000\n")
        (tmp_path / at / "memory/opensafe/inst/memory.usage_in_bytes").write_text("4096\n")
        assert found.usage() == limits.Used(7_000_000_000, 4096)


def test_v2_counts_cpu_in_microseconds(tmp_path, mountinfo):
    mountinfo(v2(tmp_path, "cpu memory pids"))
    found = limits.Hierarchies.find("inst")
    found.prepare()
    (tmp_path / "unified/opensafe/inst/cpu.stat").write_text("usage_usec 12\nuser_usec 5\n")
    (tmp_path / "unified/opensafe/inst/memory.current").write_text("8192\n")
    assert found.usage() == limits.Used(12_000, 8192)


def test_a_host_with_both_uses_the_controllers_where_they_are(tmp_path, mountinfo):
    mountinfo(v1(tmp_path, "memory", "pids", "cpu") + v2(tmp_path, ""))
    assert limits.Hierarchies.find("inst").version == 1


@pytest.mark.parametrize("names", [(), ("memory",), ("memory", "pids")])
def test_r47_a_host_without_a_controller_is_refused(tmp_path, mountinfo, names):
    mountinfo(v1(tmp_path, *names) + v2(tmp_path, "cpu io"))
    with pytest.raises(HostUnsuitable, match="limit memory, pids, cpu"):
        limits.Hierarchies.find("inst")


@pytest.mark.parametrize(
    ("file", "text", "cause"),
    [
        ("memory/{}/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n", "memory"),
        ("memory/{}/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n", None),
        ("pids/{}/pids.events", "max 3\n", "pids"),
        ("pids/{}/pids.events", "max 0\n", None),
        ("pids/{}/pids.events", "nonsense", None),
    ],
)
def test_the_cause_of_death_is_read_from_the_counters(tmp_path, mountinfo, file, text, cause):
    mountinfo(v1(tmp_path, "memory", "pids", "cpu"))
    found = limits.Hierarchies.find("inst")
    found.prepare()
    found.group("sb").create(LIMITS)
    (tmp_path / file.format("opensafe/inst/sb")).write_text(text)
    assert found.group("sb").cause_of_death() == cause
