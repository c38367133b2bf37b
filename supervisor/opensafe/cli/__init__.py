"""The command line: a client of the daemon, and the checks that need none.

Start-up time is part of the interface: what a command needs is imported when it runs, so that `--help` loads neither
gRPC nor the client.
"""


def main() -> int:
    """Run the command of sys.argv; the return value is the exit status (docs/cli.md)."""
    from .app import run

    return run()
