"""ruff and mypy over everything that is Python here."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BIN = ROOT / ".venv" / "bin"


def _run(*argv):
    return subprocess.run([BIN / argv[0], *argv[1:]], cwd=ROOT, capture_output=True, text=True)


def test_ruff_finds_nothing():
    checked = _run("ruff", "check", "--quiet", ".")
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_ruff_would_format_nothing():
    formatted = _run("ruff", "format", "--check", "--quiet", ".")
    assert formatted.returncode == 0, formatted.stdout + formatted.stderr


def test_mypy_finds_nothing():
    typed = _run("mypy")
    assert typed.returncode == 0, typed.stdout + typed.stderr
