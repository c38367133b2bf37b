"""The baseline of a start: a sandbox as ours, made, started and used by runsc's own command line and its own means.

Same binary, image, file systems and limits; its own network namespace and its own cgroup. What it lacks is what is
ours: verdict and record, guard filter, monitor, the runner with its filter.
"""

import contextlib
import json
import pathlib
import secrets
import shutil
import subprocess
import tempfile
import time
from types import TracebackType
from typing import Any, Final, Self

from opensafe.errors import OpenSafeError
from opensafe.model.limits import SandboxLimits
from opensafe.model.sandbox import SandboxSpec
from opensafe.warden import kernel
from opensafe.warden.sandbox import spec
from opensafe.warden.sandbox.limits import Hierarchies
from opensafe.warden.sandbox.runsc import PLATFORM

_DEADLINE_S: Final = 60.0
_PERIOD_US: Final = 100_000


class Stock:
    """A place for such sandboxes. As a context manager: nothing of them is left afterwards."""

    def __init__(self, runsc: pathlib.Path, rootfs: pathlib.Path, guest_tools: pathlib.Path) -> None:
        self._directory = pathlib.Path(tempfile.mkdtemp(prefix="opensafe-bench-", dir="/run"))
        self._group = f"opensafe/stock{secrets.token_hex(3)}"
        self._options = (f"--root={self._directory}/root", f"--platform={PLATFORM}", "--network=none")
        self._runsc = runsc
        self._count = 0
        self._write_bundle(rootfs, guest_tools)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        Hierarchies.find(self._group.partition("/")[2]).remove_parents()
        with contextlib.suppress(OSError):  # runsc makes it with its first sandbox
            kernel.detach_mount(str(self._directory / "root/null-netns"))
        shutil.rmtree(self._directory)

    def take(self, argv: tuple[str, ...]) -> int:
        """Create, start, and run a program to its end; nanoseconds without its removal. Raises OpenSafeError."""
        self._count += 1
        name = f"stock-{self._count}"
        config = json.loads((self._directory / "template.json").read_text())
        config["linux"]["cgroupsPath"] = f"/{self._group}/{name}"
        (self._directory / "config.json").write_text(json.dumps(config))
        begun = time.perf_counter_ns()
        try:
            self._run("create", "--bundle", str(self._directory), name)
            self._run("start", name)
            self._run("exec", name, *argv)
            return time.perf_counter_ns() - begun
        finally:
            self._run("delete", "--force", name)

    def _run(self, *command: str) -> None:
        # Nothing that stays may hold our pipes: whoever reads them would wait for it.
        with (self._directory / "said").open("w+b") as said:
            done = subprocess.run(
                [str(self._runsc), *self._options, *command],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                timeout=_DEADLINE_S,
                check=False,
            )
            if done.returncode:
                said.seek(0)
                raise OpenSafeError(f"runsc {command[0]} failed", value=said.read()[-300:].decode("utf-8", "replace"))

    def _write_bundle(self, rootfs: pathlib.Path, guest_tools: pathlib.Path) -> None:
        places = spec.Places(
            rootfs=rootfs,
            guest_tools=guest_tools,
            resolv_conf=self._directory / "resolv.conf",
            hosts=self._directory / "hosts",
            network=pathlib.Path(),
        )
        places.resolv_conf.write_text(spec.resolv_conf(""))
        places.hosts.write_text(spec.HOSTS)
        limits = SandboxLimits()
        config = spec.oci_spec(SandboxSpec(sandbox_id="", limits=limits), places)
        for namespace in config["linux"]["namespaces"]:
            namespace.pop("path", None)
        config["linux"]["resources"] = _resources(limits)
        (self._directory / "template.json").write_text(json.dumps(config))


def _resources(limits: SandboxLimits) -> dict[str, Any]:
    return {
        "memory": {"limit": limits.memory_bytes},
        "pids": {"limit": limits.pids},
        "cpu": {"quota": limits.cpu_millis * _PERIOD_US // 1000, "period": _PERIOD_US},
    }
