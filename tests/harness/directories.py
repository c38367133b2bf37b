"""The directories of private daemons: what a command leaves is what was not there before it."""

import pathlib


def of(kind):
    """Those of daemons made for `kind`, of whomever: a host may have some that were killed."""
    return {path for top in ("/run", "/var/lib") for path in pathlib.Path(top).glob(f"opensafe-{kind}-*")}
