"""The command line of the server: without its extra, and with options that can't be served."""

import subprocess
import sys

import pytest

from opensafe.cli.app import run
from opensafe.cli.exits import Exit


def test_a_server_without_the_extra_says_which_to_install():
    code = "import sys; sys.modules['mcp'] = None; from opensafe.cli.app import run; sys.exit(run(['mcp', 'serve']))"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert ended.returncode == Exit.REQUEST
    assert "opensafe[mcp]" in ended.stderr


def test_the_command_line_does_not_import_the_protocol():
    code = "import sys, opensafe.cli.app as app; app.build(); sys.exit('mcp' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


@pytest.mark.parametrize(
    ("options", "word", "status"),
    [
        (["--http", "127.0.0.1:0"], "--token-file", Exit.REQUEST),
        (["--http", "0.0.0.0:0", "--no-token"], "--token-file", Exit.DENIED),
        (["--http", "nowhere", "--no-token"], "127.0.0.1:8765", Exit.REQUEST),
        (["--no-token"], "--http", Exit.REQUEST),
    ],
)
def test_what_can_not_be_served_is_refused(capsys, options, word, status):
    assert run(["mcp", "serve", *options]) == status
    assert word in capsys.readouterr().err
