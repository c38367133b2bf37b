"""Build a policy bundle: `python -m opensafe.policy.build --opa PATH --policies policies --out FILE`.

Steps, each of which ends the build when it fails: settings against their schema, `opa fmt`, `opa check --strict`
with the input's and the settings' types, a lint of our own, `opa test` with coverage, `opa build -t wasm` at -O0
(higher levels drop rules that read run-time data), the checks that a daemon makes, packing, and signing with `--key`.
The same sources give the same bytes. Without a key the result is a bundle that no daemon loads until it is signed.
"""

import argparse
import hashlib
import json
import os
import pathlib
import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from opensafe.errors import BundleRefused, InvalidArgument
from opensafe.normalize.site_tools import read_manifest

from . import archive, sign
from .bundle import check
from .catalogue import Catalogue
from .keys import key_id, read_private
from .manifest import (
    ABI_VERSION,
    CONFIG,
    ENTRYPOINTS,
    FORMAT,
    MANIFEST,
    RULES,
    TOOLS,
    VECTORS,
    WASM,
    Bundle,
    Manifest,
    revision_of,
)
from .site import read_config
from .sources import BuildError, Sources

COVERAGE: Final = 95.0

Step = Callable[[str], None]


def _silent(_step: str) -> None:
    pass


def build(
    opa: pathlib.Path,
    policies: pathlib.Path,
    out: pathlib.Path,
    *,
    number: int = 1,
    key: Ed25519PrivateKey | None = None,
    step: Step = _silent,
) -> Bundle:
    """Build `out` from the tree `policies` under revision `number`, signed with `key`. `step` hears what is done next.

    Raises BuildError, BundleRefused.
    """
    sources = Sources(opa, policies)
    check_sources(sources, step)
    step("compile to WebAssembly")
    members = assemble(sources, policies, number)
    step("load and self-test")
    bundle = check(members)
    content = archive.pack(sign.signed(members, key) if key else members)
    _write(out, content)
    return msgspec.structs.replace(
        bundle, digest=hashlib.sha256(content).hexdigest(), key=key_id(key.public_key()) if key else ""
    )


def assemble(sources: Sources, policies: pathlib.Path, number: int) -> dict[str, bytes]:
    """The members of a bundle, not signed, of sources that were not checked. Raises BuildError, BundleRefused."""
    config = msgspec.json.encode(read_settings(policies), order="sorted")
    read_config(config)
    with ThreadPoolExecutor(1) as beside:  # two runs of opa, each longer than all the rest
        compiling = beside.submit(sources.compile)
        catalogue = _catalogue(sources)
        wasm = compiling.result()
    members = {
        CONFIG: config,
        RULES: msgspec.json.encode(catalogue),
        TOOLS: _read_tools(policies),
        VECTORS: (policies / "vectors.json").read_bytes(),
        WASM: wasm,
    }
    files = {name: hashlib.sha256(content).hexdigest() for name, content in members.items()}
    manifest = Manifest(
        format=FORMAT,
        number=number,
        revision=revision_of(number, files),
        abi=ABI_VERSION,
        entrypoints=ENTRYPOINTS,
        files=files,
    )
    return {**members, MANIFEST: sign.encode(manifest)}


def _catalogue(sources: Sources) -> Catalogue:
    try:
        return sources.catalogue()
    except msgspec.ValidationError as error:
        raise BuildError(f"rules: {error}", remedy="`opensafe policy lint` says where.") from error


def read_settings(policies: pathlib.Path) -> dict[str, Any]:
    """`data/NAME.json` under its name. Raises BuildError (not JSON, a key twice)."""
    settings = {}
    for path in sorted((policies / "data").glob("*.json")):
        try:
            settings[path.stem] = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=_unique)
        except (ValueError, OSError) as error:
            raise BuildError(f"settings: {path}: {error}") from error
    return settings


def _read_tools(policies: pathlib.Path) -> bytes:
    """`tools.json`, by default no tools. Raises BuildError (not JSON, a key twice), BundleRefused (a bad tool)."""
    path = policies / "tools.json"
    try:
        text = path.read_text(encoding="utf-8") if path.exists() else "[]"
        content = msgspec.json.encode(json.loads(text, object_pairs_hook=_unique), order="sorted")
    except (ValueError, OSError, RecursionError) as error:
        raise BuildError(f"tools: {path}: {error}") from error
    read_manifest(content)
    return content


def check_sources(sources: Sources, step: Step = _silent) -> None:
    """Format, types, annotations, tests and coverage of the Rego sources. Raises BuildError."""
    step("format, types, lint")
    findings = sources.findings()
    if findings:
        raise BuildError("lint: " + "\n      ".join(map(str, findings)))
    step("tests and coverage")
    tested = sources.test()
    if tested.failures:
        failed = "\n      ".join(f"{one.file}:{one.line}: {one.name} {one.error}" for one in tested.failures)
        raise BuildError(f"tests: FAIL: {failed}")
    if tested.coverage < COVERAGE:
        raise BuildError(
            f"coverage: {tested.coverage:.1f} % of lines, {COVERAGE} % needed; not covered: {', '.join(tested.gaps)}"
        )


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        twice = [key for key, count in Counter(key for key, _ in pairs).items() if count > 1]
        raise ValueError(f"a key stands twice: {', '.join(twice)}")
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
    parser.add_argument("--key", type=pathlib.Path, help="the private key to sign with; without: not signed")
    options = parser.parse_args(arguments)
    try:
        key = read_private(options.key) if options.key else None
        bundle = build(options.opa, options.policies, options.out, number=options.revision, key=key)
    except (BuildError, BundleRefused, InvalidArgument) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    signed = f"signed by {bundle.key}" if bundle.key else "NOT SIGNED"
    sys.stdout.write(f"{options.out}: revision {bundle.revision}, {signed}, sha256 {bundle.digest}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
