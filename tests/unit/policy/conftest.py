"""A real bundle, built once from policies/, and the means to make broken ones."""

import json
import pathlib
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from opensafe.config import DEFAULT_PREFIX
from opensafe.model.facts import ClassTables
from opensafe.policy import archive
from opensafe.policy.build import build
from opensafe.policy.bundle import load
from opensafe.policy.engine import Engine
from opensafe.policy.manifest import ALLOWED, Bundle
from tests.harness.policy import KEY, REVISION, TRUSTED

ROOT = pathlib.Path(__file__).parents[3]
OPA = pathlib.Path(DEFAULT_PREFIX) / "bin" / "opa"
POLICIES = ROOT / "policies"


@pytest.fixture(scope="session")
def opa() -> pathlib.Path:
    """The policy compiler; `make setup` puts it there."""
    assert OPA.exists(), f"{OPA} is absent: run `make setup`"
    return OPA


@pytest.fixture(scope="session")
def built(opa: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The file of a good bundle."""
    out = tmp_path_factory.mktemp("bundle") / "policy.bundle.tar.gz"
    build(opa, POLICIES, out, key=KEY)
    return out


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return tmp_path_factory.mktemp("native")


@pytest.fixture(scope="session")
def bundle(built: pathlib.Path, cache: pathlib.Path) -> Bundle:
    return load(built, trusted=TRUSTED, cache_dir=cache)


@pytest.fixture(scope="session")
def engine(bundle: Bundle, cache: pathlib.Path) -> Iterator[Engine]:
    engine = Engine(bundle, cache_dir=cache, deadline_ms=1000)
    yield engine
    engine.close()


@pytest.fixture(scope="session")
def members(built: pathlib.Path) -> dict[str, bytes]:
    """The good bundle's members, to be tampered with."""
    return archive.unpack(built.read_bytes(), ALLOWED)


@pytest.fixture
def engine_of() -> Iterator[Callable[..., Engine]]:
    """Makes an engine from a module of one's own, with the entry point gate/bash; closed at the end."""
    engines: list[Engine] = []

    def make(wasm: bytes, data: bytes | None = None, **options: Any) -> Engine:
        bundle = Bundle(
            revision=REVISION,
            digest="",
            wasm=wasm,
            data=data or json.dumps({"opensafe": {"version": REVISION}}).encode(),
            tables=ClassTables(),
            entrypoints=("gate/bash",),
            vectors=(),
        )
        engines.append(Engine(bundle, **options))
        return engines[-1]

    yield make
    for engine in engines:
        engine.close()


@pytest.fixture
def compile_rego(opa: pathlib.Path, tmp_path: pathlib.Path) -> Callable[[str], bytes]:
    """Compiles the text of package opensafe.gate, entry point `bash`, to WebAssembly."""

    def compile_(text: str) -> bytes:
        source, out = tmp_path / "gate.rego", tmp_path / "out.tar.gz"
        source.write_text(f"package opensafe.gate\n\n{text}\n")
        subprocess.run(
            [opa, "build", "-t", "wasm", "-O", "0", "-e", "opensafe/gate/bash", "-o", out, source],
            check=True, capture_output=True,
        )  # fmt: skip
        with tarfile.open(out) as built:
            module = built.extractfile("/policy.wasm")
            assert module is not None
            return module.read()

    return compile_
