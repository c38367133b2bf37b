"""`opensafe egress`: what sandboxes have open, what each host was used for, and whether one would be reached."""

import itertools
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from . import options

if TYPE_CHECKING:
    from opensafe.client import EgressConnection, EgressHost, EgressLayer, EgressReach

group = typer.Typer(help="The way out of sandboxes: what is open, used and allowed.", no_args_is_help=True)
#: To see the sandboxes of all, one needs a role; in the default configuration this principal has it.
_STAFF = "operator"
Of = Annotated[str, typer.Option("--sandbox", metavar="ID", help="Of this sandbox alone.")]

_OPEN = ("SANDBOX", "PRINCIPAL", "CALL", "LAYER", "HOST", "SINCE", "SENT", "RECEIVED")
_USED = ("SANDBOX", "PRINCIPAL", "HOST", "ALLOWED", "REFUSED", "SENT", "RECEIVED")
_NAMELESS = "(no name)"


@group.command("list")
def list_(sandbox: Of = "", principal: options.Principal = None, json: options.Json = False) -> int:
    """List the connections that are open now, oldest first, with the bytes sent and received so far.

    With the role operator, reviewer or auditor of all sandboxes, else of your own.
    """
    from . import present
    from .connect import ask
    from .report import encode, report

    found = ask(principal, lambda client: client.list_connections(sandbox), prefer=_STAFF)
    if json:
        summary = {
            "connections": len(found.connections) + found.more,
            "left_out": found.more,
            "sent_bytes": sum(one.sent_bytes for one in found.connections),
            "received_bytes": sum(one.received_bytes for one in found.connections),
        }
        present.raw(encode(report("egress-list", summary, {"connections": found.connections})))
        return 0
    if not found.connections:
        present.say("nothing is open")
        return 0
    for line in present.table(_OPEN, [_open(one) for one in found.connections]):
        present.out(line)
    _left_out(found.more)
    return 0


@group.command("hosts")
def hosts(sandbox: Of = "", principal: options.Principal = None, json: options.Json = False) -> int:
    """List the hosts that sandboxes went for: what was allowed and refused, and the bytes sent and received.

    Since the sandbox was started, or the egress helper where that was later. Of a sandbox 256 hosts are told apart, 128
    that were only refused among them; the rest is `other`.
    """
    from . import present
    from .connect import ask
    from .report import encode, report

    found = ask(principal, lambda client: client.list_hosts(sandbox), prefer=_STAFF)
    if json:
        summary = {
            "hosts": len(found.hosts) + found.more,
            "left_out": found.more,
            "allowed": sum(one.allowed for one in found.hosts),
            "refused": sum(one.refused for one in found.hosts),
        }
        present.raw(encode(report("egress-hosts", summary, {"hosts": found.hosts})))
        return 0
    if not found.hosts:
        present.say("no sandbox went for any host")
        return 0
    for line in present.table(_USED, [_used(one) for one in found.hosts]):
        present.out(line)
    _left_out(found.more)
    return 0


@group.command("explain")
def explain(
    host: Annotated[str, typer.Argument(metavar="NAME[:PORT]", help="Such as docs.python.org or docs.python.org:443.")],
    sandbox: Annotated[
        str,
        typer.Option(
            "--sandbox",
            metavar="ID",
            help="As things stand there now. Default: as if a call that was granted the name ran.",
        ),
    ] = "",
    principal: options.Principal = None,
    json: options.Json = False,
) -> int:
    """Say whether a sandbox would reach a host, and why. Nothing is sent, and nobody is asked for its address."""
    from . import present
    from .connect import ask
    from .report import encode, report

    prefer = _STAFF if sandbox else "default"
    found = ask(principal, lambda client: client.explain_egress(host, sandbox), prefer=prefer)
    if json:
        summary = {
            "name": found.name,
            "reachable": found.reachable,
            "bundle_revision": found.bundle_revision,
            "refused_layers": ", ".join(one.layer for one in found.layers if not one.allowed),
        }
        present.raw(encode(report("egress-explain", summary, found)))
        return 0
    for line in lines(found, sandbox):
        present.out(line)
    return 0


def lines(found: "EgressReach", sandbox: str) -> Iterator[str]:
    """The explanation: the verdict, what was looked at, each layer, what else stands in the way."""
    port = f":{found.port}" if found.port else ""
    yield f"{'reachable' if found.reachable else 'not reachable'}: {found.name}{port}"
    yield f"  classes  {', '.join(found.classes) or 'none'}"
    yield f"  caller   {_caller(found, sandbox)}"
    if found.standing is not None and found.standing.call_id:
        yield f"  granted  {', '.join(found.standing.network)}"
        used = f"{found.standing.sent_bytes} bytes sent, {found.standing.received_bytes} received"
        yield f"  used     {used}, requests: {found.standing.requests}, by its session since its decision"
    yield f"  bundle   {found.bundle_revision}"
    for (allowed, rules), layers in itertools.groupby(found.layers, key=lambda one: (one.allowed, one.rules)):
        yield ""
        yield f"{', '.join(_step(one) for one in layers)}: {'allowed' if allowed else 'refused'}"
        for rule in rules:
            yield f"  {rule.id} ({rule.severity}): {rule.reason}"
            if rule.value and rule.value not in rule.reason:
                yield f"    value:  {rule.value}"
            if rule.remedy:
                yield f"    remedy: {rule.remedy}"
    if found.obstacles:
        yield ""
        yield "in the way, whatever policy says"
        for one in found.obstacles:
            yield f"  {one.reason}{f' ({one.value})' if one.value else ''}"
            if one.remedy:
                yield f"    remedy: {one.remedy}"


def _caller(found: "EgressReach", sandbox: str) -> str:
    if found.standing is None:
        return "a call that was granted the name and runs alone (supposed)"
    if found.standing.call_id:
        return f"{found.standing.tool} call {found.standing.call_id} of {found.standing.session_id}, in {sandbox}"
    return f"none with an open grant in {sandbox}"


def _step(layer: "EgressLayer") -> str:
    return f"{layer.layer} on {layer.port}" if layer.port else layer.layer


def _left_out(more: int) -> None:
    from . import present

    if more:
        present.out(f"… and {more} more")


def _open(one: "EgressConnection") -> tuple[str, ...]:
    host = f"{one.name or _NAMELESS}:{one.port}"
    since = datetime.fromtimestamp(one.since_unix_ns / 1e9, UTC).isoformat(timespec="seconds")
    return (
        *(one.sandbox_id, one.principal, one.call_id, one.layer, host, since),
        *(str(one.sent_bytes), str(one.received_bytes)),
    )


def _used(one: "EgressHost") -> tuple[str, ...]:
    counts = (one.allowed, one.refused, one.sent_bytes, one.received_bytes)
    return one.sandbox_id, one.principal, one.name or _NAMELESS, *(str(number) for number in counts)
