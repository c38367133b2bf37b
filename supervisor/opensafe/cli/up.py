"""`opensafe up`: the daemon, in the foreground until SIGTERM."""

import pathlib
from typing import Annotated

import typer

from opensafe.config import DEFAULT_PATH


def up(
    config: Annotated[pathlib.Path, typer.Option("--config", metavar="FILE", help="Settings, TOML.")] = DEFAULT_PATH,
) -> int:
    """Start the daemon. It tests its own enforcement first and refuses to serve where a layer does not hold."""
    from opensafe import daemon

    return daemon.up(config)
