"""clang-format over the C sources; the compiler's own warnings are errors in native/Makefile."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_c_sources_are_formatted():
    sources = sorted(path for pattern in ("*.c", "*.h") for path in (ROOT / "native").rglob(pattern))
    assert sources, "native/ holds no C"
    formatted = subprocess.run(
        [ROOT / ".venv/bin/clang-format", "--dry-run", "-Werror", *sources], cwd=ROOT, capture_output=True, text=True
    )
    assert formatted.returncode == 0, formatted.stderr
