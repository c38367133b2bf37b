"""`opensafe sandbox`: sandboxes that outlive one call: made, found, leased, paused and removed."""

import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from opensafe.errors import InvalidArgument

from . import options

if TYPE_CHECKING:
    from opensafe.client import Client, SandboxInfo

group = typer.Typer(help="Sandboxes that outlive one call.", no_args_is_help=True)
Id = Annotated[str, typer.Argument(metavar="ID", help="The sandbox's id, such as sb-3f….")]
Label = Annotated[
    list[str] | None, typer.Option("--label", "-l", metavar="KEY=VALUE", help="A label; may be given several times.")
]
_COLUMNS = ("SANDBOX", "SESSION", "TEMPLATE", "STATE", "CREATED", "EXPIRES", "LABELS")


@group.command("create")
def create(
    session: Annotated[
        str | None, typer.Option("--session", metavar="ID", help="Make it there. Default: a session of its own.")
    ] = None,
    template: Annotated[str, typer.Option("--template", metavar="NAME", help="The runner image.")] = "base",
    memory_mib: Annotated[int, typer.Option("--memory", metavar="MIB", min=0, help="Memory; 0: default.")] = 0,
    pids: Annotated[int, typer.Option("--pids", min=0, help="Processes; 0: default.")] = 0,
    cpu_millis: Annotated[int, typer.Option("--cpu", metavar="MILLIS", min=0, help="1000 is one core.")] = 0,
    workspace_mib: Annotated[int, typer.Option("--workspace", metavar="MIB", min=0, help="Size of /workspace.")] = 0,
    label: Label = None,
    ttl_s: Annotated[int, typer.Option("--ttl", metavar="SECONDS", min=0, help="Lives so long; 0: the most.")] = 0,
    idle_s: Annotated[
        int, typer.Option("--idle-timeout", metavar="SECONDS", min=0, help="Without a call; 0: never.")
    ] = 0,
    idle_action: Annotated[str, typer.Option(help="What follows the idle time: delete or pause.")] = "delete",
    network: Annotated[
        str,
        typer.Option(
            metavar="PROFILE", help="none, or gateway where the site has a way out. Default: what the site has."
        ),
    ] = "",
    require_warm: Annotated[bool, typer.Option("--require-warm", help="Out of the pool, or not at all.")] = False,
    principal: options.Principal = None,
    json: options.Json = False,
) -> int:
    """Make a sandbox and print its id."""
    from opensafe.client import CreatedSandbox, Lease, SandboxSize

    from . import place, present
    from .connect import ask
    from .report import encode, report

    size = SandboxSize(
        memory_bytes=memory_mib << 20, pids=pids, cpu_millis=cpu_millis, workspace_bytes=workspace_mib << 20
    )
    lease = Lease(ttl_s=ttl_s, idle_timeout_s=idle_s, idle_action=idle_action)
    labels = _labels(label)

    async def work(client: "Client") -> CreatedSandbox:
        session_id = session or await client.create_session(place.AGENT)
        try:
            return await client.create_sandbox(
                session_id,
                template,
                size,
                labels=labels,
                lease=lease,
                network=network,
                require_warm=require_warm,
            )
        except BaseException:
            if session is None:
                await client.close_session(session_id)
            raise

    with present.progress("making a sandbox"):
        made = ask(principal, work)
    if json:
        summary = {"sandbox_id": made.sandbox_id, "create_ms": made.create_ns / 1e6, "warm": made.warm}
        present.raw(encode(report("sandbox-create", summary, made)))
    else:
        present.out(made.sandbox_id)
    return 0


@group.command("list")
def list_(
    label: Label = None,
    state: Annotated[
        list[str] | None,
        typer.Option(
            "--state", metavar="STATE", help="running, paused, deleting, deleted or lost; several: any of them."
        ),
    ] = None,
    session: Annotated[str, typer.Option("--session", metavar="ID", help="Those of this session.")] = "",
    principal: options.Principal = None,
    json: options.Json = False,
) -> int:
    """List this principal's sandboxes, oldest first. Without --state all that are not deleted."""
    from . import present
    from .connect import ask
    from .report import encode, report

    labels = _labels(label)
    found = ask(principal, lambda client: client.list_sandboxes(labels=labels, states=state or (), session_id=session))
    if json:
        states = Counter(sandbox.state for sandbox in found)
        summary = {"sandboxes": len(found), **{name: states[name] for name in ("running", "paused", "lost")}}
        present.raw(encode(report("sandbox-list", summary, {"sandboxes": found})))
    else:
        for line in present.table(_COLUMNS, [_row(sandbox) for sandbox in found]):
            present.out(line)
    return 0


@group.command("show")
def show(sandbox: Id, principal: options.Principal = None, json: options.Json = False) -> int:
    """Show one sandbox."""
    return _about(principal, lambda client: client.get_sandbox(sandbox), json=json)


@group.command("renew")
def renew(
    sandbox: Id,
    ttl_s: Annotated[int, typer.Option("--ttl", metavar="SECONDS", min=0, help="From now; 0: the most.")] = 0,
    principal: options.Principal = None,
    json: options.Json = False,
) -> int:
    """Let a sandbox live on."""
    return _about(principal, lambda client: client.renew_sandbox(sandbox, ttl_s), json=json)


@group.command("pause")
def pause(sandbox: Id, principal: options.Principal = None, json: options.Json = False) -> int:
    """Stop everything in a sandbox. Deadlines of its calls go on; a new call is refused."""
    return _about(principal, lambda client: client.pause_sandbox(sandbox), json=json)


@group.command("resume")
def resume(sandbox: Id, principal: options.Principal = None, json: options.Json = False) -> int:
    """Let a paused sandbox go on."""
    return _about(principal, lambda client: client.resume_sandbox(sandbox), json=json)


@group.command("watch")
def watch(principal: options.Principal = None, json: options.Json = False) -> int:
    """Print each sandbox that lives, then each one that changes, until interrupted. With --json, one object a line."""
    from . import present
    from .connect import ask

    async def follow(client: "Client") -> None:
        import msgspec

        async for sandbox in client.watch_sandboxes():
            if json:
                present.raw(msgspec.json.encode(sandbox).decode())
            else:
                present.out(f"{sandbox.sandbox_id}  {sandbox.state:<8}  {sandbox.cause}")
            sys.stdout.flush()

    ask(principal, follow)
    return 0


@group.command("rm")
def rm(
    sandbox: Id,
    keep_session: Annotated[
        bool, typer.Option("--keep-session", help="Leave its session open, even without a sandbox.")
    ] = False,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Return before it is removed.")] = False,
    principal: options.Principal = None,
) -> int:
    """Remove a sandbox, and its session if that was the last one in it."""
    from .connect import ask

    async def work(client: "Client") -> None:
        session_id = (await client.get_sandbox(sandbox)).session_id
        await client.delete_sandbox(sandbox, wait=not no_wait)
        left = await client.list_sandboxes(session_id=session_id, states=("running", "paused", "lost"))
        if not left and not keep_session and not no_wait:
            await client.close_session(session_id)

    ask(principal, work)
    return 0


def _about(principal: str | None, what: "Callable[[Client], Awaitable[SandboxInfo]]", *, json: bool) -> int:
    """Do something with one sandbox, and show it as it then is."""
    from . import present
    from .connect import ask
    from .report import encode, report

    found = ask(principal, what)
    if json:
        present.raw(encode(report("sandbox", {"sandbox_id": found.sandbox_id, "state": found.state}, found)))
        return 0
    for heading, cell in zip(_COLUMNS, _row(found), strict=True):
        present.out(f"{heading.lower():<10}{cell}")
    if found.cause:
        present.out(f"{'cause':<10}{found.cause}")
    if found.idle_timeout_s:
        present.out(f"{'idle':<10}{found.idle_action} after {found.idle_timeout_s} s without a call")
    present.out(f"{'image':<10}{found.image_digest}")
    return 0


def _labels(words: Sequence[str] | None) -> dict[str, str]:
    labels = {}
    for word in words or ():
        key, equals, value = word.partition("=")
        if not equals:
            raise InvalidArgument("a label is KEY=VALUE", value=word)
        labels[key] = value
    return labels


def _row(sandbox: "SandboxInfo") -> tuple[str, ...]:
    labels = ",".join(f"{key}={value}" for key, value in sorted(sandbox.labels.items()))
    times = (_time(sandbox.created_unix_ns), _time(sandbox.expires_unix_ns))
    return sandbox.sandbox_id, sandbox.session_id, sandbox.template, sandbox.state, *times, labels


def _time(unix_ns: int) -> str:
    return datetime.fromtimestamp(unix_ns / 1e9, UTC).isoformat(timespec="seconds") if unix_ns else "-"
