"""The wire contract: its style, and that the committed stubs are what protoc makes of it."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BIN = ROOT / ".venv" / "bin"


def test_buf_lint_finds_nothing():
    linted = subprocess.run([BIN / "buf", "lint"], cwd=ROOT, capture_output=True, text=True)
    assert linted.returncode == 0, linted.stdout + linted.stderr


def test_stubs_are_those_of_the_proto_files():
    compared = subprocess.run(
        [BIN / "python", "tools/protogen.py", "--check"], cwd=ROOT, capture_output=True, text=True
    )
    assert compared.returncode == 0, compared.stdout + compared.stderr
