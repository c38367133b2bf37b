"""The policies: formatted, and accepted by the strict compiler."""

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OPA = Path(os.environ.get("OPENSAFE_PREFIX") or "/opt/opensafe") / "bin" / "opa"


def _opa(*arguments):
    return subprocess.run([OPA, *arguments], cwd=ROOT, capture_output=True, text=True)


def test_policies_are_formatted():
    listed = _opa("fmt", "--list", "policies")
    assert listed.returncode == 0, listed.stderr
    assert listed.stdout == "", "run: opa fmt --write policies"


def test_policies_pass_the_strict_compiler():
    checked = _opa("check", "--strict", "policies")
    assert checked.returncode == 0, checked.stderr
