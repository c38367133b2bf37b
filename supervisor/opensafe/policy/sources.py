"""What `opa` says of the Rego sources: format, types, annotations, tests, coverage, and the compiled module.

Always -O0: higher levels drop rules that read run-time data.
"""

import contextlib
import json
import pathlib
import subprocess
import tarfile
import tempfile
from typing import Any, Final

import msgspec

from opensafe.errors import PolicyError

from . import endpoints
from .catalogue import Catalogue, catalogue_of
from .lint import Finding, lint
from .manifest import ENTRYPOINTS, PACKAGE

_TIMEOUT_S: Final = 120


class BuildError(PolicyError):
    """A step of the build failed; the message is the step and what it printed."""

    reason = "BUILD_FAILED"


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """A test that failed, or could not be run (`error`)."""

    file: str
    line: int
    name: str
    error: str = ""


class Tested(msgspec.Struct, frozen=True, kw_only=True):
    """Rego tests: how many, which failed, lines covered in per cent, and the `file:line` that are not."""

    tests: int
    failures: tuple[Failure, ...]
    coverage: float
    gaps: tuple[str, ...]


class Sources:
    """The tree `policies`, looked at by the compiler `opa`. Every method raises BuildError where opa does not run."""

    def __init__(self, opa: pathlib.Path, policies: pathlib.Path) -> None:
        self._opa = opa
        self._policies = policies
        self._rego = policies / PACKAGE

    def findings(self) -> list[Finding]:
        """Format, strict check with the types of input and settings, and our own lint; empty where all is well."""
        listed = self._run("fmt", "--list", str(self._rego)).split()
        findings = [
            Finding(
                check="fmt", file=path, line=0, message="not in the one format", remedy=f"Run `opa fmt --write {path}`."
            )
            for path in listed
        ]
        checked = self._try("check", "--strict", "--format", "json", *self._schemas(), str(self._rego))
        if checked.returncode != 0:
            return findings + _compiler_errors(checked)
        return findings + lint(self._annotations(), self._rego) + self._endpoint_faults()

    def warnings(self) -> list[Finding]:
        """What is allowed and serves no purpose."""
        return [
            self._found("ports", f"port {port} is allowed, and no connection can use it", remedy)
            for port, remedy in endpoints.unreachable(self._settings("ports", "endpoints"))
        ]

    def catalogue(self) -> Catalogue:
        """Every rule with the place of its source. The sources must be without findings."""
        return catalogue_of(self._annotations(), self._policies)

    def test(self) -> Tested:
        """Run all tests; without failures also measure coverage (0 otherwise)."""
        arguments = (str(self._rego), *self._data())
        ran = self._try("test", "--format", "json", *arguments)
        try:
            rows = json.loads(ran.stdout) or []
        except ValueError:
            raise _failed(ran) from None
        failures = tuple(
            Failure(
                file=row["location"]["file"], line=row["location"]["row"], name=row["name"],
                error=str((row.get("error") or {}).get("message", "")),
            )
            for row in rows
            if row.get("fail") or row.get("error")
        )  # fmt: skip
        if failures or ran.returncode != 0:
            return Tested(tests=len(rows), failures=failures, coverage=0.0, gaps=())
        percent, gaps = _coverage(json.loads(self._run("test", "--coverage", "--format", "json", *arguments)))
        return Tested(tests=len(rows), failures=(), coverage=percent, gaps=gaps)

    def compile(self) -> bytes:
        """The WebAssembly module with all entry points."""
        with tempfile.TemporaryDirectory() as scratch:
            built = pathlib.Path(scratch) / "built.tar.gz"
            entries = [flag for name in ENTRYPOINTS for flag in ("-e", f"{PACKAGE}/{name}")]
            self._run("build", "-t", "wasm", "-O", "0", *entries, "--ignore", "*_test.rego", "-o", str(built),
                      str(self._rego))  # fmt: skip
            with tarfile.open(built) as bundle:
                module = bundle.extractfile("/policy.wasm")
                if module is None:
                    raise BuildError("opa build: the bundle holds no policy.wasm")
                return module.read()

    def _annotations(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._run("inspect", "--annotations", "--format", "json", str(self._rego)))
        return found

    def _endpoint_faults(self) -> list[Finding]:
        return [
            self._found("endpoints", f"the endpoint {endpoint} {why}", remedy)
            for endpoint, why, remedy in endpoints.faults(self._settings("endpoints"))
        ]

    def _found(self, settings: str, message: str, remedy: str) -> Finding:
        file = str(self._policies / "data" / f"{settings}.json")
        return Finding(check="lint", file=file, line=0, message=message, remedy=remedy)

    def _settings(self, *names: str) -> dict[str, Any]:
        """Those that are there and can be read; what can't be is found where the bundle is put together."""
        found: dict[str, Any] = {}
        for name in names:
            with contextlib.suppress(OSError, ValueError):
                value = json.loads((self._policies / "data" / f"{name}.json").read_bytes())
                found[name] = value if isinstance(value, dict) else {}
        return found

    def _schemas(self) -> tuple[str, str]:
        return "--schema", str(self._policies / "schemas")

    def _data(self) -> list[str]:
        return [f"{PACKAGE}.config.{path.stem}:{path}" for path in sorted((self._policies / "data").glob("*.json"))]

    def _run(self, *arguments: str) -> str:
        done = self._try(*arguments)
        if done.returncode != 0:
            raise _failed(done)
        return done.stdout

    def _try(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(self._opa), *arguments]
        try:
            return subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise BuildError(f"opa {arguments[0]}: {error}", remedy="Run `make setup`.") from error


def _failed(done: subprocess.CompletedProcess[str]) -> BuildError:
    return BuildError(f"`{' '.join(done.args)}` failed:\n{done.stdout}{done.stderr}".rstrip())


def _compiler_errors(done: subprocess.CompletedProcess[str]) -> list[Finding]:
    """What `opa check --format json` says, which it prints on standard error."""
    try:
        errors = json.loads(done.stderr or done.stdout)["errors"]
    except (ValueError, KeyError, TypeError):
        raise _failed(done) from None
    return [
        Finding(
            check="check",
            file=error.get("location", {}).get("file", "?"),
            line=error.get("location", {}).get("row", 0),
            message=f"{error.get('code', 'error')}: {error.get('message', '')}",
            remedy="Mend the source; `opa check --strict` with the schemas has to pass.",
        )
        for error in errors
    ]


def _coverage(report: dict[str, Any]) -> tuple[float, tuple[str, ...]]:
    """Percentage of covered lines outside tests, and the places that are not."""
    covered = missed = 0
    gaps: list[str] = []
    for name, file in report["files"].items():
        if not name.endswith("_test.rego"):
            covered += file.get("covered_lines", 0)
            missed += file.get("not_covered_lines", 0)
            gaps += [f"{pathlib.Path(name).name}:{gap['start']['row']}" for gap in file.get("not_covered", [])]
    return 100.0 * covered / max(covered + missed, 1), tuple(gaps)
