"""Load a policy bundle: everything is verified before anything of it is used, and the refusal says which check failed.

- size, compression, member: caps, an exact flat list of regular files, no duplicate (archive.py)
- signature: the manifest is signed with Ed25519 by a trusted key (sign.py)
- manifest, hash, revision: every member listed and present, digests right, revision that of the content
- config: the site's settings keep the schema; an unknown key, or a shadow of no rule, is an error (site.py)
- tools: the site's own have closed schemas, mappings that point into them, and names of their own (site_tools.py)
- module, abi, builtins, entry points: links, ABI 1.3, needs nothing of the host, answers every family (engine.py)
- self-test: the bundle's own questions get the verdicts it promises
"""

import hashlib
import pathlib

import msgspec

from opensafe.errors import BundleRefused, EvaluationFailed
from opensafe.normalize import site_tools

from . import archive, sign
from .catalogue import read_catalogue
from .engine import Engine
from .keys import Trusted
from .manifest import ALLOWED, CONFIG, RULES, TOOLS, VECTORS, WASM, Bundle, Manifest, Vector, guest_data, read_manifest
from .native import Tier, best
from .site import check_shadow, read_config, tables_of
from .verdict import read_verdict


def load(
    source: pathlib.Path | bytes,
    *,
    trusted: Trusted,
    cache_dir: pathlib.Path | None = None,
    tier: Tier | None = Tier.OPTIMISED,
) -> Bundle:
    """Verify the bundle in a file or in memory. Raises BundleRefused.

    `cache_dir`, `tier`: see Engine. Without a tier it is that of native.best.
    """
    content = source if isinstance(source, bytes) else archive.read_file(source)
    members = archive.unpack(content, ALLOWED)
    key = sign.verify(members, trusted)
    bundle = _read(members, read_manifest(members), hashlib.sha256(content).hexdigest(), key)
    _self_test(bundle, cache_dir, tier or best(bundle.module, cache_dir))
    return bundle


def check(members: dict[str, bytes]) -> Bundle:
    """What `load` holds, but for the signature: of members that are yet to be signed. Raises BundleRefused."""
    bundle = _read(members, read_manifest(members), "", "")
    _self_test(bundle, None, Tier.OPTIMISED)
    return bundle


def _read(members: dict[str, bytes], manifest: Manifest, digest: str, key: str) -> Bundle:
    config = read_config(members[CONFIG])
    rules = read_catalogue(members[RULES])
    tools = site_tools.read_manifest(members.get(TOOLS, b"[]"))
    check_shadow(config, (note.id for note in rules))
    return Bundle(
        revision=manifest.revision,
        number=manifest.number,
        digest=digest,
        key=key,
        module=manifest.files[WASM],
        wasm=members[WASM],
        data=guest_data(config, manifest.revision, tools),
        tables=tables_of(config),
        endpoints=tuple(sorted(config.get("endpoints", ()))),
        entrypoints=manifest.entrypoints,
        vectors=_read_vectors(members[VECTORS], manifest.entrypoints),
        rules=rules,
        tools=tools,
    )


def _self_test(bundle: Bundle, cache_dir: pathlib.Path | None, tier: Tier) -> None:
    engine = Engine(bundle, deadline_ms=1000, cache_dir=cache_dir, tier=tier)
    try:
        for vector in bundle.vectors:
            _run(engine, vector)
    finally:
        engine.close()


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
