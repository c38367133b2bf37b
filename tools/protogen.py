"""Generate the gRPC stubs of `proto/` into `supervisor/opensafe/_proto/` (or, with --check, compare them).

protoc names modules by the proto package (`opensafe.v1`); ours live below `_proto`, so that generated code is isolated
and meets no installed package of the same name: in `v1`, and in `envoy` what is Envoy's. Only import lines are
rewritten: descriptors and method names stay as protoc wrote them.
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
_IMPORT = re.compile(r"^from (?:opensafe\.(v1)|(envoy)\.[\w.]+) import", re.MULTILINE)


def generate(out: pathlib.Path) -> dict[str, str]:
    """Run protoc into `out`; return path -> content as they belong below `_proto/`."""
    # The mypy plugins are console scripts of the environment this runs in.
    os.environ["PATH"] = f"{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    sources = sorted(str(path) for path in (ROOT / "proto").rglob("*.proto"))
    well_known = importlib.resources.files("grpc_tools") / "_proto"
    plugins = ("python", "grpc_python", "mypy", "mypy_grpc")
    outputs = [f"--{plugin}_out={'quiet:' if 'mypy' in plugin else ''}{out}" for plugin in plugins]
    status = protoc.main(["protoc", f"-I{ROOT / 'proto'}", f"-I{well_known}", *outputs, *sources])
    if status != 0:
        raise SystemExit(f"protoc failed with status {status}")
    files = {"__init__.py": DOCSTRING, "v1/__init__.py": DOCSTRING, "envoy/__init__.py": DOCSTRING}
    for path in out.rglob("*.py*"):
        package = "envoy" if path.relative_to(out).parts[0] == "envoy" else "v1"
        files[f"{package}/{path.name}"] = _IMPORT.sub(r"from opensafe._proto.\1\2 import", path.read_text())
    return files


def main() -> int:
    """Entry point: 0 where the stubs are (now) as `proto/` says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--check", action="store_true", help="compare only, exit 1 where the stubs differ")
    check: bool = parser.parse_args().check
    with tempfile.TemporaryDirectory() as temporary:
        wanted = generate(pathlib.Path(temporary))
    paths = [*TARGET.rglob("*.py"), *TARGET.rglob("*.pyi")]
    present = {str(path.relative_to(TARGET)): path.read_text() for path in paths}
    if check:
        stale = sorted(name for name in wanted.keys() | present.keys() if wanted.get(name) != present.get(name))
        for name in stale:
            print(f"differs from proto/: {name} (run: make proto)", file=sys.stderr)
        return 1 if stale else 0
    for name in present.keys() - wanted.keys():
        (TARGET / name).unlink()
    for name, text in wanted.items():
        (TARGET / name).parent.mkdir(parents=True, exist_ok=True)
        (TARGET / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
