"""`opensafe run`: one program under the Exec tool, used like the program itself."""

from typing import Annotated, Any

import typer

from . import options


def run(
    command: Annotated[list[str], typer.Argument(metavar="CMD", help="The program and its arguments.")],
    sandbox: options.SandboxId = None,
    keep: options.Keep = False,
    timeout: Annotated[
        float | None, typer.Option("--timeout", metavar="SECONDS", min=0.05, help="Deadline of the call.")
    ] = None,
    cwd: Annotated[str | None, typer.Option("--cwd", metavar="DIR", help="Directory in the sandbox.")] = None,
    user: Annotated[
        str | None, typer.Option("--user", metavar="USER", help="Run as this user of the image, by name or number.")
    ] = None,
    wait: options.Wait = False,
    tty: Annotated[
        bool, typer.Option("--tty", "-t", help="Give it a terminal, and this one's keys, output and size.")
    ] = False,
    detach: options.Detach = False,
    tag: options.Tag = "",
    call_id: options.CallId = None,
    principal: options.Principal = None,
    json: options.Json = False,
) -> int:
    """Run a program in a sandbox, if policy allows.

    Its output is passed through as bytes, and its exit status is this command's. Standard input is passed on where
    it is a pipe or a file, and closed otherwise. Ctrl-C ends the call; with --tty it is a key like others. Write --
    before a program whose name starts with a dash.
    """
    from . import calls
    from .connect import ask

    arguments: dict[str, Any] = {"argv": command}
    if timeout is not None:
        arguments["timeout_ms"] = round(timeout * 1000)
    if cwd is not None:
        arguments["cwd"] = cwd
    if user is not None:
        arguments["user"] = user
    wish = calls.Wish(
        tool="Exec",
        arguments=arguments,
        call_id=call_id,
        sandbox_id=sandbox,
        keep=keep,
        wait=wait,
        json=json,
        pass_stdin=True,
        tty=tty,
        detach=detach,
        tag=tag,
    )
    return ask(principal, lambda client: calls.perform(client, wish))
