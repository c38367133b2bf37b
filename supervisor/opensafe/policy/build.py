"""Build a policy bundle: `python -m opensafe.policy.build --opa PATH --policies policies --out FILE`.

Steps, each of which ends the build when it fails: settings against their schema, `opa fmt`, `opa check --strict`
with the input's and the settings' types, a lint of our own, `opa test` with coverage, `opa build -t wasm` at -O0
(higher levels drop rules that read run-time data), packing, and loading the result as the daemon would.
The same sources give the same bytes.
"""

import argparse
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile
from typing import Any, Final

import msgspec

from opensafe.errors import BundleRefused, PolicyError

from . import archive
from .bundle import load
from .lint import check_annotations
from .manifest import (
    CONFIG,
    ENTRYPOINTS,
    FORMAT,
    MANIFEST,
    PACKAGE,
    VECTORS,
    WASM,
    Bundle,
    Manifest,
    revision_of,
)
from .site import read_config
from .wasm import ABI_VERSION

COVERAGE: Final = 95.0
_TIMEOUT_S: Final = 120


class BuildError(PolicyError):
    """A step of the build failed; the message is the step and what it printed."""

    reason = "BUILD_FAILED"


def build(opa: pathlib.Path, policies: pathlib.Path, out: pathlib.Path, *, number: int = 1) -> Bundle:
    """Build `out` from the tree `policies` under revision `number`. Raises BuildError, BundleRefused."""
    settings = read_settings(policies)
    config = msgspec.json.encode(settings, order="sorted")
    read_config(config)
    check_sources(opa, policies)
    vectors = (policies / "vectors.json").read_bytes()
    members = {CONFIG: config, WASM: _compile(opa, policies), VECTORS: vectors}
    files = {name: hashlib.sha256(content).hexdigest() for name, content in members.items()}
    manifest = Manifest(
        format=FORMAT,
        number=number,
        revision=revision_of(number, files),
        abi=ABI_VERSION,
        entrypoints=ENTRYPOINTS,
        files=files,
    )
    content = archive.pack({**members, MANIFEST: msgspec.json.encode(manifest, order="sorted")})
    bundle = load(content)
    _write(out, content)
    return bundle


def read_settings(policies: pathlib.Path) -> dict[str, Any]:
    """`data/NAME.json` under its name. Raises BuildError (not JSON, a key twice)."""
    settings = {}
    for path in sorted((policies / "data").glob("*.json")):
        try:
            settings[path.stem] = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=_unique)
        except (ValueError, OSError) as error:
            raise BuildError(f"settings: {path}: {error}") from error
    return settings


def check_sources(opa: pathlib.Path, policies: pathlib.Path) -> None:
    """Format, types, annotations, tests and coverage of the Rego sources. Raises BuildError."""
    rego = str(policies / PACKAGE)
    _run(opa, "fmt", "--list", "--fail", rego)
    _run(opa, "check", "--strict", "--schema", str(policies / "schemas"), rego)
    annotations = _run(opa, "inspect", "--annotations", "--format", "json", rego)
    problems = check_annotations(json.loads(annotations), policies / PACKAGE)
    if problems:
        raise BuildError("lint: " + "\n      ".join(problems))
    arguments = [rego, *_data_arguments(policies)]
    try:
        report = _run(opa, "test", "--coverage", "--format", "json", *arguments)
    except BuildError:
        _run(opa, "test", *arguments)  # says which test failed; a coverage report does not
        raise
    percent, gaps = _coverage(json.loads(report))
    if percent < COVERAGE:
        raise BuildError(f"coverage: {percent:.1f} % of lines, {COVERAGE} % needed; not covered: {', '.join(gaps)}")


def _compile(opa: pathlib.Path, policies: pathlib.Path) -> bytes:
    with tempfile.TemporaryDirectory() as scratch:
        built = pathlib.Path(scratch) / "built.tar.gz"
        entries = [flag for name in ENTRYPOINTS for flag in ("-e", f"{PACKAGE}/{name}")]
        _run(opa, "build", "-t", "wasm", "-O", "0", *entries, "--ignore", "*_test.rego", "-o", str(built),
             str(policies / PACKAGE))  # fmt: skip
        with tarfile.open(built) as bundle:
            module = bundle.extractfile("/policy.wasm")
            if module is None:
                raise BuildError("opa build: the bundle holds no policy.wasm")
            return module.read()


def _data_arguments(policies: pathlib.Path) -> list[str]:
    return [f"{PACKAGE}.config.{path.stem}:{path}" for path in sorted((policies / "data").glob("*.json"))]


def _run(opa: pathlib.Path, *arguments: str) -> str:
    command = [str(opa), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildError(f"opa {arguments[0]}: {error}", remedy="Run `make setup`.") from error
    if done.returncode != 0:
        raise BuildError(f"`{' '.join(command)}` failed:\n{done.stdout}{done.stderr}".rstrip())
    return done.stdout


def _coverage(report: dict[str, Any]) -> tuple[float, list[str]]:
    """Percentage of covered lines outside tests, and the places that are not."""
    covered = missed = 0
    gaps = []
    for name, file in report["files"].items():
        if not name.endswith("_test.rego"):
            covered += file.get("covered_lines", 0)
            missed += file.get("not_covered_lines", 0)
            gaps += [f"{pathlib.Path(name).name}:{gap['start']['row']}" for gap in file.get("not_covered", [])]
    return 100.0 * covered / max(covered + missed, 1), gaps


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError(f"a key stands twice among {', '.join(key for key, _ in pairs)}")
    return found


def _write(out: pathlib.Path, content: bytes) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    part = out.with_name(f".{out.name}.part")
    part.write_bytes(content)
    os.replace(part, out)


def main(arguments: list[str] | None = None) -> int:
    """Command line; 0 where the bundle was built and loads."""
    parser = argparse.ArgumentParser(prog="python -m opensafe.policy.build", description="Build a policy bundle.")
    parser.add_argument("--opa", type=pathlib.Path, required=True, help="the opa binary")
    parser.add_argument("--policies", type=pathlib.Path, default=pathlib.Path("policies"))
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/policy.bundle.tar.gz"))
    parser.add_argument("--revision", type=int, default=1, help="its number; a daemon never goes to a lower one")
    options = parser.parse_args(arguments)
    try:
        bundle = build(options.opa, options.policies, options.out, number=options.revision)
    except (BuildError, BundleRefused) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{options.out}: revision {bundle.revision}, sha256 {bundle.digest}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
