"""The door without its extra, and the command line without the door."""

import subprocess
import sys

from opensafe.cli.exits import Exit


def test_a_server_without_the_extra_says_which_to_install():
    code = "import sys; sys.modules['mcp'] = None; from opensafe.cli.app import run; sys.exit(run(['mcp', 'serve']))"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert ended.returncode == Exit.REQUEST
    assert "opensafe[mcp]" in ended.stderr


def test_the_command_line_does_not_import_the_protocol():
    code = "import sys, opensafe.cli.app as app; app.build(); sys.exit('mcp' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
