"""A clean end for commands that make daemons, sandboxes and directories of their own."""

import os
import signal

import typer

from .exits import Exit


def on_sigterm() -> None:
    """As on SIGINT: what the command made is stopped and removed on the way out.

    That is this process's to do alone. A child that libraries fork, such as for a socket in another network namespace,
    has the handler as well; by an exception there it would go on as a second one of this process, in the same loop.
    """
    owner = os.getpid()

    def end(*_: object) -> None:
        if os.getpid() != owner:
            os._exit(Exit.TERMINATED)
        raise typer.Exit(Exit.TERMINATED)

    signal.signal(signal.SIGTERM, end)
