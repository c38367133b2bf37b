"""Fields of requests that aim at the OCI specification, and hooks in them: CP-04, CP-05."""

import json
import pathlib
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

from opensafe.client import Client
from opensafe.errors import OpenSafeError
from opensafe.proof.escape import wire
from opensafe.proof.escape.ground import boxed, opened
from opensafe.proof.escape.host import nonce
from opensafe.proof.escape.probe import Run, Severity
from opensafe.proof.escape.trial import Trial

from .ground import SHIPPED, Yard
from .row import row
from .site import Site

#: Where a hook can be in a specification (OCI runtime specification 1.2, config.md).
_HOOKS: Final = ("prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop")
_ALL: Final = {"CAP_SYS_ADMIN", "CAP_NET_ADMIN", "CAP_SYS_PTRACE"}
#: Parts of a specification, as one who wants out would like them.
_WANTED: Final[Mapping[str, object]] = {
    "mounts": [{"destination": "/host", "type": "bind", "source": "/", "options": ["rbind", "rw"]}],
    "process": {"user": {"uid": 0, "gid": 0}, "capabilities": {"bounding": sorted(_ALL), "effective": sorted(_ALL)}},
    "root": {"path": "/", "readonly": False},
    "linux": {"namespaces": [], "devices": [{"path": "/dev/sda", "type": "b", "major": 8, "minor": 0}], "sysctl": {}},
    "annotations": {"dev.gvisor.spec.mount.host.source": "/", "dev.gvisor.flag.host-uds": "all"},
}
_TEMPLATES: Final = ("../../../etc", "/", "base/../..", "base\n", "BASE", "base\0")
_NETWORKS: Final = ("host", "../ns/host", "gateway\n", "none\n")
#: A number of no field of CreateSandboxRequest.
_UNKNOWN: Final = 900
#: Arguments beside those of Exec, as tools elsewhere have them.
_BESIDE: Final = (
    "mounts",
    "capabilities",
    "privileged",
    "devices",
    "hooks",
    "namespaces",
    "sysctl",
    "rootfs",
    "runtime",
)


def _requests(session: str, parts: Mapping[str, object]) -> Iterator[tuple[str, bytes]]:
    """CreateSandbox requests that say these parts in labels, annotations and fields that there are none of."""
    for key, part in parts.items():
        text = json.dumps(part, separators=(",", ":"))
        labels = (wire.field(4, wire.message(f1=name, f2=text)) for name in (key, f"io.opensafe/{key}", f"oci.{key}"))
        unknown = wire.field(_UNKNOWN, key) + wire.field(_UNKNOWN + 1, text) + wire.field(10, text)
        limits = wire.field(3, wire.field(_UNKNOWN, text))
        yield key, wire.message(f1=session, f2="base") + b"".join(labels) + unknown + limits


def _names(session: str) -> Iterator[tuple[str, bytes]]:
    for template in _TEMPLATES:
        yield f"template {template!r}", wire.message(f1=session, f2=template)
    for network in _NETWORKS:
        yield f"network {network!r}", wire.message(f1=session, f2="base", f8=network)
    yield "limits below zero", wire.message(f1=session, f2="base", f3=wire.message(f1=-1, f2=-1))
    yield "limits beyond all", wire.message(f1=session, f2="base", f3=wire.message(f1=1 << 60, f2=1 << 30))


async def _spec(yard: Yard, on: str = SHIPPED) -> Run:
    """Each request's specification, where it got one, beside that of a plain request."""
    site = await yard.site(on)
    async with (
        site.client() as client,
        wire.Channel(site.socket()) as channel,
        boxed(client, nonce()) as (session, plain),
    ):
        golden = _plain(site, plain)
        found, codes = [], dict[str, int]()
        for what, sent in (*_requests(session, _WANTED), *_names(session)):
            reply = await channel.ask(f"{wire.SANDBOXES}CreateSandbox", sent)
            codes[reply.code] = codes.get(reply.code, 0) + 1
            if reply.code != "OK":
                continue
            sandbox = wire.read(wire.read(reply.messages[0])[1])[1].decode()
            if (made := _plain(site, sandbox)) != golden:
                changed = [key for key in made.keys() | golden.keys() if made.get(key) != golden.get(key)]
                found.append(f"{what}: the specification's {', '.join(sorted(changed))} differ")
            await client.delete_sandbox(sandbox)
        beside = await _beside(site, client, session)
    return Run(
        began=True,
        finished=codes.get("OK", 0) > 0,
        found="; ".join((found + beside)[:3]),
        layer="built from typed values alone; " + ", ".join(f"{count} {code}" for code, count in sorted(codes.items())),
    )


def _plain(site: Site, sandbox: str) -> dict[str, Any]:
    """A sandbox's specification without what is its own by design: its id and the network namespace made for it."""
    text = json.dumps(site.config(sandbox)).replace(sandbox, "SANDBOX")
    config: dict[str, Any] = json.loads(text)
    for namespace in config["linux"]["namespaces"]:
        if "path" in namespace:
            namespace["path"] = str(pathlib.Path(namespace["path"]).parent)
    return config


async def _beside(site: Site, client: Client, session: str) -> list[str]:
    """Arguments of a call that no tool has: anything that was started with one."""
    sandbox = (await client.create_sandbox(session)).sandbox.sandbox_id
    for name in _BESIDE:
        try:
            await client.run_call(session, sandbox, f"call-{name}", "Exec", {"argv": ["true"], name: ["all"]})
        except OpenSafeError:
            continue
    started = any(entry["sandbox_id"] == sandbox for entry in site.ledger("start"))
    return ["a call with an argument that no tool has was started"] if started else []


async def _hooks(yard: Yard, on: str = SHIPPED) -> Run:
    """Hooks of every kind, in every field that takes a text, each of which would leave a marker on the host."""
    site = await yard.site(on)
    marker = site.run / nonce()
    hooks = {kind: [{"path": "/usr/bin/touch", "args": ["touch", f"{marker}-{kind.lower()}"]}] for kind in _HOOKS}
    codes = dict[str, int]()
    async with (
        site.client() as client,
        wire.Channel(site.socket()) as channel,
        opened(client, nonce()) as session,
    ):
        for kind, hook in hooks.items():
            for _, sent in _requests(session, {"hooks": {kind: hook}}):
                reply = await channel.ask(f"{wire.SANDBOXES}CreateSandbox", sent)
                codes[reply.code] = codes.get(reply.code, 0) + 1
    made = sorted(path.name for path in site.run.glob(f"{marker.name}-*"))
    for name in made:
        (site.run / name).unlink()
    return Run(
        began=True,
        finished=codes.get("OK", 0) > 0,
        found=f"hooks ran on the host: {', '.join(made)}" if made else "",
        layer="no hook is ever written: " + ", ".join(f"{count} {code}" for code, count in sorted(codes.items())),
    )


TRIALS: Final[tuple[Trial, ...]] = (
    row(
        id="CP-04",
        title="labels, unknown fields, names and limits that aim at mounts, capabilities, user, root and devices",
        severity=Severity.ESCAPE,
        attacks=("T1611", "T1610"),
        benchmark=("privileged", "hostpath_etc"),
        breach="a config.json that differs from a plain request's, or a start with an argument that no tool has",
        control="mutant: labels are passed through to the specification",
        attempts=(_spec,),
        weak=partial(_spec, on="unguarded"),
    ),
    row(
        id="CP-05",
        title="OCI hooks of every kind in every field that takes a text",
        severity=Severity.ESCAPE,
        attacks=("T1611", "T1546"),
        breach="a hook's marker file on the host",
        control="mutant: labels, and with them hooks, are passed through to the specification",
        attempts=(_hooks,),
        weak=partial(_hooks, on="unguarded"),
    ),
)
