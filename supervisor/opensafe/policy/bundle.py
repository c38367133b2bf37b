"""Load a policy bundle: everything is verified before anything of it is used, and the refusal says which check failed.

- size, compression, member: caps, an exact flat list of regular files, no duplicate (archive.py)
- manifest, hash, revision: every member listed and present, digests right, revision that of the content
- config: the site's settings keep the schema; an unknown key is an error (site.py)
- module, abi, builtins, entry points: links, ABI 1.3, needs nothing of the host, answers every family (engine.py)
- self-test: the bundle's own questions get the verdicts it promises
"""

import hashlib
import pathlib
from typing import Final

import msgspec

from opensafe.errors import BundleRefused, EvaluationFailed

from . import archive
from .engine import Engine
from .manifest import (
    CONFIG,
    ENTRYPOINTS,
    FORMAT,
    MANIFEST,
    MEMBERS,
    VECTORS,
    WASM,
    Bundle,
    Manifest,
    Vector,
    guest_data,
    revision_of,
)
from .site import read_config, tables_of
from .verdict import read_verdict
from .wasm import ABI_VERSION

_ALLOWED: Final = frozenset((MANIFEST, *MEMBERS))


def load(source: pathlib.Path | bytes, *, cache_dir: pathlib.Path | None = None) -> Bundle:
    """Verify the bundle in a file or in memory. `cache_dir`: see Engine. Raises BundleRefused."""
    content = source if isinstance(source, bytes) else archive.read_file(source)
    members = archive.unpack(content, _ALLOWED)
    manifest = _read_manifest(members)
    config = read_config(members[CONFIG])
    bundle = Bundle(
        revision=manifest.revision,
        digest=hashlib.sha256(content).hexdigest(),
        wasm=members[WASM],
        data=guest_data(config, manifest.revision),
        tables=tables_of(config),
        entrypoints=manifest.entrypoints,
        vectors=_read_vectors(members[VECTORS], manifest.entrypoints),
    )
    engine = Engine(bundle, deadline_ms=1000, cache_dir=cache_dir)
    try:
        for vector in bundle.vectors:
            _run(engine, vector)
    finally:
        engine.close()
    return bundle


def _read_manifest(members: dict[str, bytes]) -> Manifest:
    if MANIFEST not in members:
        raise BundleRefused("manifest: absent", value=MANIFEST)
    try:
        manifest = msgspec.json.decode(members[MANIFEST], type=Manifest)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BundleRefused(f"manifest: {error}") from error
    if manifest.format != FORMAT:
        raise BundleRefused("manifest: unknown format", value=manifest.format, limit=FORMAT)
    if manifest.abi != ABI_VERSION:
        raise BundleRefused("abi: not the one this daemon speaks", value=manifest.abi, limit=ABI_VERSION)
    for name in sorted(set(MEMBERS) | set(manifest.files)):
        if name not in manifest.files:
            raise BundleRefused("manifest: a member is not listed", value=name)
        if name not in members:
            raise BundleRefused("manifest: a listed member is absent", value=name)
        if hashlib.sha256(members[name]).hexdigest() != manifest.files[name]:
            raise BundleRefused("hash: a member is not what the manifest lists", value=name)
    if manifest.revision != revision_of(manifest.number, manifest.files):
        raise BundleRefused("revision: not that of the content", value=manifest.revision)
    missing = sorted(set(ENTRYPOINTS) - set(manifest.entrypoints))
    if missing:
        raise BundleRefused("entry points: absent from the manifest", value=", ".join(missing))
    return manifest


def _read_vectors(content: bytes, entrypoints: tuple[str, ...]) -> tuple[Vector, ...]:
    try:
        vectors = msgspec.json.decode(content, type=tuple[Vector, ...])
    except (msgspec.DecodeError, RecursionError) as error:
        raise BundleRefused(f"self-test: {error}") from error
    untested = sorted(set(entrypoints) - {vector.entrypoint for vector in vectors})
    if untested:
        raise BundleRefused("self-test: entry points without a question", value=", ".join(untested))
    return vectors


def _run(engine: Engine, vector: Vector) -> None:
    try:
        answer = engine.evaluate_json(vector.entrypoint, msgspec.json.encode(vector.input))
        decision = read_verdict(answer, question_id=str(vector.input.get("id")), data_version=engine.revision)
    except EvaluationFailed as error:
        raise BundleRefused(f"self-test: {vector.name}: {error}") from error
    rules = tuple(sorted({hit.id for hit in decision.deciding()}))
    if (decision.action, rules) != (vector.action, tuple(sorted(vector.rules))):
        raise BundleRefused(
            f"self-test: {vector.name} got another verdict",
            value=f"{decision.action} {', '.join(rules)}",
            limit=f"{vector.action} {', '.join(vector.rules)}",
        )
