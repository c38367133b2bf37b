import asyncio
import os
import sys

import pytest

from tests.unit.client import daemon_double


class Ended:
    """A finished command."""

    def __init__(self, status, stdout, stderr):
        self.status, self.stdout, self.stderr = status, stdout, stderr


@pytest.fixture
async def daemon(tmp_path):
    async with daemon_double.running(tmp_path / "opensafe.sock") as double:
        yield double


@pytest.fixture
def start(tmp_path):
    """Starts `opensafe` as a process of its own, with the double's socket as the default one."""

    async def start(*arguments, **pipes):
        pipes.setdefault("stdin", asyncio.subprocess.DEVNULL)
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "opensafe.cli",
            *arguments,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "OPENSAFE_SOCKET": str(tmp_path / "opensafe.sock")},
            **pipes,
        )

    return start


@pytest.fixture
def opensafe(start):
    """Runs `opensafe` to its end, with `stdin` through a pipe where given."""

    async def run(*arguments, stdin=None):
        pipes = {} if stdin is None else {"stdin": asyncio.subprocess.PIPE}
        process = await start(*arguments, **pipes)
        stdout, stderr = await process.communicate(stdin)
        return Ended(process.returncode, stdout, stderr.decode(errors="replace"))

    return run
