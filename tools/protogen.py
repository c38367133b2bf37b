"""Generate the gRPC stubs of `proto/` into `supervisor/opensafe/_proto/` (or, with --check, compare them).

protoc names modules by the proto package (`opensafe.v1`); ours live one package deeper, so that generated code is
isolated. Only import lines are rewritten: descriptors and method names stay as protoc wrote them.
"""

import argparse
import importlib.resources
import os
import pathlib
import re
import sys
import tempfile

from grpc_tools import protoc

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGET = ROOT / "supervisor" / "opensafe" / "_proto"
DOCSTRING = '"""Stubs generated from proto/ by `make proto`. Not edited by hand."""\n'
_IMPORT = re.compile(r"^(from|import) opensafe\.v1\b", re.MULTILINE)


def generate(out: pathlib.Path) -> dict[str, str]:
    """Run protoc into `out`; return file name -> content as they belong below `_proto/v1/`."""
    # The mypy plugins are console scripts of the environment this runs in.
    os.environ["PATH"] = f"{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    sources = sorted(str(path) for path in (ROOT / "proto").rglob("*.proto"))
    well_known = importlib.resources.files("grpc_tools") / "_proto"
    plugins = ("python", "grpc_python", "mypy", "mypy_grpc")
    outputs = [f"--{plugin}_out={'quiet:' if 'mypy' in plugin else ''}{out}" for plugin in plugins]
    status = protoc.main(["protoc", f"-I{ROOT / 'proto'}", f"-I{well_known}", *outputs, *sources])
    if status != 0:
        raise SystemExit(f"protoc failed with status {status}")
    files = {p.name: _IMPORT.sub(r"\1 opensafe._proto.v1", p.read_text()) for p in out.rglob("*.py*")}
    return {**files, "__init__.py": DOCSTRING}


def main() -> int:
    """Entry point: 0 where the stubs are (now) as `proto/` says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--check", action="store_true", help="compare only, exit 1 where the stubs differ")
    check: bool = parser.parse_args().check
    with tempfile.TemporaryDirectory() as temporary:
        wanted = generate(pathlib.Path(temporary))
    package = TARGET / "v1"
    present = {path.name: path.read_text() for path in package.glob("*.py*")}
    if check:
        stale = sorted(name for name in wanted.keys() | present.keys() if wanted.get(name) != present.get(name))
        for name in stale:
            print(f"differs from proto/: {name} (run: make proto)", file=sys.stderr)
        return 1 if stale else 0
    package.mkdir(parents=True, exist_ok=True)
    (TARGET / "__init__.py").write_text(DOCSTRING)
    for name in present.keys() - wanted.keys():
        (package / name).unlink()
    for name, text in wanted.items():
        (package / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
