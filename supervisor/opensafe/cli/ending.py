"""A clean end for commands that make daemons, sandboxes and directories of their own."""

import signal

import typer

from .exits import Exit


def on_sigterm() -> None:
    """As on SIGINT: what the command made is stopped and removed on the way out."""

    def end(*_: object) -> None:
        raise typer.Exit(Exit.TERMINATED)

    signal.signal(signal.SIGTERM, end)
