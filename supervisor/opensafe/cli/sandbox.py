"""`opensafe sandbox`: make, look at and remove sandboxes that outlive one call."""

from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from . import options

if TYPE_CHECKING:
    from opensafe.client import Client, Sandbox

group = typer.Typer(help="Sandboxes that outlive one call.", no_args_is_help=True)
Id = Annotated[str, typer.Argument(metavar="ID", help="The sandbox's id, such as sb-3f….")]
_COLUMNS = ("SANDBOX", "SESSION", "TEMPLATE", "STATE", "CREATED")


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
    principal: options.Principal = None,
    json: options.Json = False,
) -> int:
    """Make a sandbox and print its id."""
    from opensafe.client import CreatedSandbox, SandboxSize

    from . import calls, present
    from .connect import ask
    from .report import encode, report

    size = SandboxSize(
        memory_bytes=memory_mib << 20, pids=pids, cpu_millis=cpu_millis, workspace_bytes=workspace_mib << 20
    )

    async def work(client: "Client") -> CreatedSandbox:
        session_id = session or await client.create_session(calls.AGENT)
        try:
            return await client.create_sandbox(session_id, template, size)
        except BaseException:
            if session is None:
                await client.close_session(session_id)
            raise

    with present.progress("making a sandbox"):
        made = ask(principal, work)
    if json:
        summary = {"sandbox_id": made.sandbox_id, "create_ms": made.create_ns / 1e6}
        present.raw(encode(report("sandbox-create", summary, made)))
    else:
        present.out(made.sandbox_id)
    return 0


@group.command("list")
def list_(principal: options.Principal = None, json: options.Json = False) -> int:
    """List this principal's sandboxes."""
    from . import present
    from .connect import ask
    from .report import encode, report

    found = ask(principal, lambda client: client.list_sandboxes())
    if json:
        states = Counter(sandbox.state for sandbox in found)
        summary = {"sandboxes": len(found), "running": states["running"], "lost": states["lost"]}
        present.raw(encode(report("sandbox-list", summary, {"sandboxes": found})))
    else:
        for line in present.table(_COLUMNS, [_row(sandbox) for sandbox in found]):
            present.out(line)
    return 0


@group.command("show")
def show(sandbox: Id, principal: options.Principal = None, json: options.Json = False) -> int:
    """Show one sandbox."""
    from . import present
    from .connect import ask
    from .report import encode, report

    found = ask(principal, lambda client: client.get_sandbox(sandbox))
    if json:
        present.raw(encode(report("sandbox", {"sandbox_id": found.sandbox_id, "state": found.state}, found)))
        return 0
    for heading, cell in zip(_COLUMNS, _row(found), strict=True):
        present.out(f"{heading.lower():<10}{cell}")
    if found.cause:
        present.out(f"{'cause':<10}{found.cause}")
    return 0


@group.command("rm")
def rm(
    sandbox: Id,
    keep_session: Annotated[
        bool, typer.Option("--keep-session", help="Leave its session open, even without a sandbox.")
    ] = False,
    principal: options.Principal = None,
) -> int:
    """Remove a sandbox, and its session if that was the last one in it."""
    from .connect import ask

    async def work(client: "Client") -> None:
        session_id = (await client.get_sandbox(sandbox)).session_id
        await client.delete_sandbox(sandbox)
        left = [other for other in await client.list_sandboxes() if other.session_id == session_id]
        if not left and not keep_session:
            await client.close_session(session_id)

    ask(principal, work)
    return 0


def _row(sandbox: "Sandbox") -> tuple[str, ...]:
    created = datetime.fromtimestamp(sandbox.created_unix_ns / 1e9, UTC).isoformat(timespec="seconds")
    return sandbox.sandbox_id, sandbox.session_id, sandbox.template, sandbox.state, created
