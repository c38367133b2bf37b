"""Questions, packed bundles and hand-made guests for the tests of policy."""

import hashlib
import json
import pathlib
import shutil
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from opensafe.config import DEFAULT_PREFIX
from opensafe.model.calls import Principal
from opensafe.model.facts import PathFact
from opensafe.model.policy_input import BudgetInput, CallInput, PolicyInput, SessionInput
from opensafe.model.usage import Usage
from opensafe.policy import archive, build, sign
from opensafe.policy.keys import key_id
from opensafe.policy.manifest import MANIFEST, SIGNATURE, Manifest, revision_of
from opensafe.policy.native import wat
from opensafe.policy.sources import Sources

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_OPA = pathlib.Path(DEFAULT_PREFIX) / "bin/opa"

REVISION = "1-000000000000"
#: A session that did nothing within the last minutes.
CALM = {"calls_1m": 0, "blocks_10m": 0}
#: Signs the bundles of these tests.
KEY = Ed25519PrivateKey.generate()
TRUSTED = {key_id(KEY.public_key()): KEY.public_key()}


def question(tool: str = "Bash", *, name: str = "q1", kind: str = "call", **call: Any) -> PolicyInput:
    """A question called `name` by a known developer; `call` are fields of CallInput."""
    return PolicyInput(
        id=name,
        kind=kind,
        call=CallInput(**{"id": "c1", "tool": tool, "arguments": {}, "digest": "d1", **call}),
        principal=Principal(name="default", roles=("developer",)),
        session=SessionInput(id="s1", window=CALM),
        budget=BudgetInput(usage=Usage().as_budget(), principal=Usage().as_budget()),
    )


def read(path: str = "/workspace/README.md", **more: Any) -> PolicyInput:
    """A Read of a workspace file, which the shipped policy allows."""
    return question("Read", reads=(PathFact(path=path, classes={"workspace": True}),), **more)


def repack(members: dict[str, bytes], **manifest: Any) -> bytes:
    """A signed archive whose manifest is honest about `members`, but for the fields given."""
    content = {name: data for name, data in members.items() if name not in (MANIFEST, SIGNATURE)}
    files = {name: hashlib.sha256(data).hexdigest() for name, data in content.items()}
    old = msgspec.json.decode(members[MANIFEST], type=Manifest)
    fields = msgspec.to_builtins(old) | {"files": files, "revision": revision_of(old.number, files)} | manifest
    return archive.pack(sign.signed({**content, MANIFEST: json.dumps(fields).encode()}, KEY))


def site_bundle(
    directory: pathlib.Path,
    *,
    number: int = 1,
    change: Callable[[dict[str, Any]], object] = lambda _: None,
    rego: Mapping[str, tuple[str, str]] | None = None,
    without: str = "",
    tools: Sequence[Mapping[str, Any]] = (),
) -> tuple[pathlib.Path, pathlib.Path]:
    """A bundle of this checkout's policies as a site would change them, and the file of the key that signed it.

    change: is handed the settings (the files of policies/data by name). rego: file below policies/opensafe -> a text in
    it and what shall stand in its place. without: a rule that the bundle's self-test then can't ask for. tools: the
    site's tool manifest.
    """
    policies = directory / f"policies-{number}"
    shutil.copytree(_ROOT / "policies", policies, ignore=shutil.ignore_patterns("cases"))
    for name, (old, new) in (rego or {}).items():
        source = policies / "opensafe" / name
        text = source.read_text()
        assert old in text, f"{name} has no {old!r}"
        source.write_text(text.replace(old, new))
    settings = build.read_settings(policies)
    change(settings)
    for name, value in settings.items():
        (policies / "data" / f"{name}.json").write_text(json.dumps(value))
    vectors = policies / "vectors.json"
    kept = [vector for vector in json.loads(vectors.read_text()) if without not in vector["rules"]]
    vectors.write_text(json.dumps(kept))
    if tools:
        (policies / "tools.json").write_text(json.dumps(tools))
    members = build.assemble(Sources(_OPA, policies), policies, number)
    bundle, key = directory / f"{number}.bundle.tar.gz", directory / "key.pub"
    bundle.write_bytes(archive.pack(sign.signed(members, KEY)))
    key.write_bytes(KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return bundle, key


_GUEST = """
(module
  (import "env" "memory" (memory 1))
  (import "env" "opa_abort" (func $abort (param i32)))
  (global (export "opa_wasm_abi_version") i32 (i32.const {version}))
  (global (export "opa_wasm_abi_minor_version") i32 (i32.const {minor}))
  (data (i32.const 1024) "{entrypoints}\\00")
  (data (i32.const 2048) "{builtins}\\00")
  (data (i32.const 4096) "{answer}\\00")
  (global $heap (mut i32) (i32.const 65536))
  (func (export "entrypoints") (result i32) (i32.const 1024))
  (func (export "builtins") (result i32) (i32.const 2048))
  (func (export "opa_json_dump") (param i32) (result i32) (local.get 0))
  (func (export "opa_json_parse") (param i32 i32) (result i32) (local.get 0))
  (func (export "opa_malloc") (param i32) (result i32)
    (global.get $heap) (global.set $heap (i32.add (global.get $heap) (local.get 0))))
  (func (export "opa_heap_ptr_get") (result i32) (global.get $heap))
  (func (export "opa_eval") (param i32 i32 i32 i32 i32 i32 i32) (result i32) {evaluate}))
"""


def guest(
    answer: str = "[]",
    *,
    version: int = 1,
    minor: int = 3,
    entrypoints: str = '{"opensafe/gate/bash": 0}',
    builtins: str = "{}",
    evaluate: str = "(i32.const 4096)",
) -> bytes:
    """A module that keeps OPA's ABI and answers what a test wants; `evaluate` is the body of opa_eval as text."""
    text = _GUEST.format(
        version=version,
        minor=minor,
        entrypoints=_quoted(entrypoints),
        builtins=_quoted(builtins),
        answer=_quoted(answer),
        evaluate=evaluate,
    )
    return wat(text.encode())


def compile_bomb(functions: int = 100_000) -> bytes:
    """A valid module that packs into a few kilobytes and takes compilers gigabytes and half a minute.

    It is all functions of a thousand locals each (WebAssembly Core 1.0, section 5).
    """
    body = b"\x01\xe8\x07\x7e" + b"\x20\x00\x20\x01\x7e\x21\x02" * 5 + b"\x0b"
    entry = _leb(len(body)) + body
    sections = {1: b"\x01\x60\x00\x00", 3: _leb(functions) + bytes(functions), 10: _leb(functions) + entry * functions}
    return b"\0asm\1\0\0\0" + b"".join(
        bytes([number]) + _leb(len(content)) + content for number, content in sections.items()
    )


def _leb(number: int) -> bytes:
    """LEB128 of a number that is not negative."""
    low, rest = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + _leb(rest) if rest else bytes([low])


def _quoted(text: str) -> str:
    return "".join(f"\\{byte:02x}" for byte in text.encode())
