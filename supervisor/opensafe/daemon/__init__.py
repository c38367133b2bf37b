"""Start, privilege split, drain, stop. `up` is the daemon; front and helper are its children's programs.

Nothing is imported here before it is needed: the warden's process loads no gRPC, the helper no tree-sitter.
"""

import pathlib


def up(config: pathlib.Path) -> int:
    """Run the daemon on the settings in `config` until SIGTERM or SIGINT; the exit status."""
    from .root import main

    return main(config)
