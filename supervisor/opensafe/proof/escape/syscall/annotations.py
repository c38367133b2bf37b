"""What runsc could be told by whoever asks for a sandbox: a label, a name or an id that becomes an annotation."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from opensafe.client import Client
from opensafe.errors import OpenSafeError
from opensafe.model.ids import new_id
from opensafe.model.sandbox import SandboxSpec
from opensafe.proof import posture, private
from opensafe.proof.escape.cell import TEMPLATE
from opensafe.proof.escape.ground import Ground
from opensafe.proof.escape.probe import Boundary, Run, Severity
from opensafe.proof.escape.trial import Trial
from opensafe.proof.escape.ways import POLICY
from opensafe.proof.escape.weakening import Weakening

from .mutants import mutant

#: runsc takes them from an OCI specification (runsc/specutils). The flags are two that show on the host.
_ANNOTATIONS: Final[Mapping[str, str]] = {
    "dev.gvisor.flag.network": "host",
    "dev.gvisor.flag.directfs": "false",
    "dev.gvisor.flag.net-raw": "true",
    "dev.gvisor.bundle.debug": "true",
    "dev.gvisor.internal.seccomp.sandbox": "RuntimeDefault",
    "dev.gvisor.internal.nvproxy": "true",
}
_PREFIX: Final = "dev.gvisor."
#: What runsc says where an annotation is one that it may not take.
_APPLIED: Final = "annotations to runsc config"


async def _labelled(daemon: private.PrivateDaemon) -> Run:
    """Ask for sandboxes with every text that a client may give; look at their specifications on the disk."""
    refused: list[str] = []
    found: list[str] = []
    specs: list[bytes] = []
    async with Client.connect(daemon.socket_of("default")) as client:
        session = await client.create_session(f"{_PREFIX}flag.network=host", f"{_PREFIX}flag.network=host")
        flags = {name: value for name, value in _ANNOTATIONS.items() if ".flag." in name}
        others = {name: value for name, value in _ANNOTATIONS.items() if ".flag." not in name}
        asked: tuple[tuple[str, dict[str, str]], ...] = (
            (TEMPLATE, flags),
            (TEMPLATE, others),
            (f"{_PREFIX}flag.network", {}),
            (f"{TEMPLATE}\nannotations", {}),
        )
        try:
            for template, labels in asked:
                try:
                    await client.create_sandbox(session, template, labels=labels)
                except OpenSafeError as error:
                    refused.append(type(error).__name__)
                    found += ["runsc was told"] if _APPLIED in str(error) else []
                specs += [path.read_bytes() for path in daemon.run.glob("bundles/*/config.json")]
        finally:
            await client.close_session(session)
    found += [key for spec in specs for key in _annotations(msgspec.json.decode(spec))]
    held = any(_PREFIX.encode() in spec for spec in specs)
    return Run(
        began=bool(specs or found),
        finished=True,
        found=f"annotations: {', '.join(dict.fromkeys(found))}" if found else "it is told of" if held else "",
        layer=f"the specification: written from what the warden knows; templates of such names: {', '.join(refused)}",
    )


def _annotations(spec: dict[str, Any]) -> list[str]:
    return list(spec.get("annotations", {}))


async def _by_client(on: Ground) -> Run:
    assert on.daemon is not None  # noqa: S101 - only a control has none
    return await _labelled(on.daemon)


async def _by_operation(_: Ground) -> Run:
    """What the front tells the warden: a subject that has annotations can't be read as one."""
    subject = {"sandbox_id": new_id("sb"), "annotations": dict(_ANNOTATIONS)}
    try:
        read = msgspec.json.decode(msgspec.json.encode(subject), type=SandboxSpec)
    except msgspec.ValidationError as error:
        # What is wrong with anything else says nothing of annotations.
        began, layer = "annotations" in str(error), f"the warden's protocol: {error}"
        return Run(opened=(POLICY, "the front"), began=began, finished=True, layer=layer)
    return Run(opened=(POLICY, "the front"), began=True, finished=True, found=f"it is read as {read}")


class _Annotated(Weakening, frozen=True, kw_only=True):
    """A specification with annotations."""

    annotations: Mapping[str, str] = {}

    def applied(self, spec: dict[str, Any]) -> dict[str, Any]:
        return {**super().applied(spec), "annotations": dict(self.annotations)}


async def _overridden(on: Ground, *, allowed: bool) -> Run:
    """One annotation of a flag that shows in how the sentry stands."""
    opened = (POLICY, "the specification", *(("the flag that lets them",) if allowed else ()))
    flags = ("--allow-flag-override",) if allowed else ()
    name = f"{_PREFIX}flag.directfs"
    weakening = _Annotated(annotations={name: _ANNOTATIONS[name]}, runsc=flags)
    try:
        async with on.cells.cell(weakening) as cell:
            faults = posture.faults(posture.read(cell.cgroup.pids()))
    except OpenSafeError as error:
        if _APPLIED not in str(error):
            raise
        layer = f"runsc: {str(error).strip()[-160:]}"
        return Run(opened=opened, began=True, finished=True, layer=layer)
    found = f"{len(faults)} facts are others, as {faults[0]}" if faults else ""
    return Run(opened=opened, began=True, finished=True, found=found, layer="runsc: it takes no flag by annotation")


async def _copied(on: Ground) -> Run:
    """Labels are copied, and what is copied counts: both have to show."""
    counts = await _overridden(on, allowed=True)
    if not counts.found:
        return counts
    run = await _labelled(await mutant(on))
    return msgspec.structs.replace(run, found=f"{run.found}; {counts.found}" if run.found else "")


ANNOTATED = (
    Trial(
        id="SY-12", boundary=Boundary.SYSCALL, severity=Severity.ESCAPE,
        title="labels, names and ids of a request become annotations that change runsc's flags",
        attacks=("T1611",),
        breach="an annotation, or one of the names, in the specification on the disk; with one in it, another posture",
        control="mut and flag: the same by a daemon that copies labels; and with --allow-flag-override, one counts",
        attempts=(_by_client, _by_operation, lambda on: _overridden(on, allowed=False)),
        weak=_copied,
    ),
)  # fmt: skip
