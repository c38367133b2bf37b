"""The tree of commands, and the one place where an exception becomes a message and an exit status."""

import os
import sys
from collections.abc import Sequence

import typer

from opensafe import __version__
from opensafe.errors import OpenSafeError

from . import (
    agent,
    audit,
    bench,
    call,
    console,
    cp,
    doctor,
    egress,
    escape,
    execs,
    exits,
    fuzz,
    image,
    mcp,
    policy,
    present,
    redteam,
    review,
    run_command,
    sandbox,
    trace,
    up,
)
from .exits import Exit

SUMMARY = (
    """Judge an agent's tool calls with policy, run the allowed ones in a sandbox, keep a record of all of them."""
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"opensafe {__version__}")
        raise typer.Exit


def build() -> typer.Typer:
    """The whole command line."""
    app = typer.Typer(
        name="opensafe",
        help=SUMMARY,
        epilog=exits.table(),
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,  # half of the start-up time, for a frame
        pretty_exceptions_enable=False,
    )

    @app.callback()
    def opensafe(
        version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
    ) -> None:
        del version

    app.command("up")(up.up)
    app.command("doctor")(doctor.doctor)
    app.command("run", context_settings={"allow_interspersed_args": False})(run_command.run)
    app.command("call")(call.call)
    app.command("cp")(cp.cp)
    app.add_typer(execs.group, name="exec")
    app.add_typer(sandbox.group, name="sandbox")
    app.add_typer(image.group, name="image")
    app.add_typer(policy.group, name="policy")
    app.add_typer(review.group, name="review")
    app.add_typer(agent.group, name="agent")
    app.command("console")(console.console)
    app.add_typer(mcp.group, name="mcp")
    app.add_typer(egress.group, name="egress")
    app.add_typer(audit.group, name="audit")
    app.add_typer(trace.group, name="trace")
    app.add_typer(bench.group, name="bench")
    app.add_typer(redteam.group, name="redteam")
    app.add_typer(escape.group, name="escape")
    app.add_typer(fuzz.group, name="fuzz")
    return app


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Returns its exit status; never raises for what a user or the daemon did."""
    command = typer.main.get_command(build())
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        with command.make_context("opensafe", words) as context:
            status = command.invoke(context)
        sys.stdout.flush()
        return int(status or 0)
    except typer.Exit as end:
        return end.exit_code
    except OpenSafeError as error:
        present.say(str(error))
        return exits.of_error(error)
    except typer.TyperException as error:
        show = getattr(error, "show", None)  # usage errors carry a hint
        show() if show is not None else present.say(error.message)
        return Exit.REQUEST
    except (KeyboardInterrupt, EOFError, typer.Abort):
        return Exit.INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output is gone; the interpreter's own flush at exit must not fail on it again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.OUTPUT_CLOSED
