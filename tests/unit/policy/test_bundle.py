"""A bundle is refused for the least fault, by the check that is meant to find it; the good one beside it loads."""

import functools
import gzip
import io
import json
import os
import pathlib
import tarfile
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from opensafe.errors import BundleRefused
from opensafe.policy import archive, bundle, sign
from opensafe.policy.build import build
from opensafe.policy.manifest import ALLOWED, CONFIG, ENTRYPOINTS, MANIFEST, TOOLS, VECTORS, WASM, Bundle
from tests.harness.policy import KEY, TRUSTED, guest, repack

Members = dict[str, bytes]

load = functools.partial(bundle.load, trusted=TRUSTED)


def resigned(members: Members) -> bytes:
    """What a signer would make of `members` who looks at nothing."""
    return archive.pack(sign.signed(members, KEY))


def test_a_good_bundle_loads(bundle: Bundle, built: pathlib.Path, members: Members) -> None:
    assert bundle.revision.startswith("1-")
    assert {"workspace", "secret", "proc", "device", "system", "rc", "vcs", "history", "tmp"} <= set(
        bundle.tables.paths
    )
    assert "allowed" in bundle.tables.hosts
    assert set(bundle.entrypoints) == set(ENTRYPOINTS)
    assert load(built.read_bytes()).digest == bundle.digest
    assert load(repack(members)).revision == bundle.revision


def test_the_same_sources_make_the_same_bytes(opa: pathlib.Path, built: pathlib.Path, tmp_path: pathlib.Path) -> None:
    again = tmp_path / "again.tar.gz"
    build(opa, pathlib.Path(__file__).parents[3] / "policies", again, key=KEY)
    assert again.read_bytes() == built.read_bytes()


def plain_tar(*entries: tuple[str, bytes] | tarfile.TarInfo) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for entry in entries:
            if isinstance(entry, tarfile.TarInfo):
                tar.addfile(entry)
            else:
                info = tarfile.TarInfo(entry[0])
                info.size = len(entry[1])
                tar.addfile(info, io.BytesIO(entry[1]))
    return gzip.compress(buffer.getvalue())


def link(name: str, target: str, kind: bytes) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda m: plain_tar(*m.items(), ("extra.json", b"{}")), "not a part"),
        (lambda m: plain_tar(*m.items(), ("../policy.wasm", m[WASM])), "not a part"),
        (lambda m: plain_tar(*m.items(), ("/policy.wasm", m[WASM])), "not a part"),
        (lambda m: plain_tar(*m.items(), ("./policy.wasm", m[WASM])), "not a part"),
        (lambda m: plain_tar(*m.items(), (WASM, m[WASM])), "twice"),
        (lambda m: plain_tar(link(WASM, "/etc/passwd", tarfile.SYMTYPE)), "regular"),
        (lambda m: plain_tar(link(WASM, CONFIG, tarfile.LNKTYPE)), "regular"),
        (lambda m: plain_tar(link(WASM, "", tarfile.FIFOTYPE)), "regular"),
        (lambda m: plain_tar(link(WASM, "", tarfile.DIRTYPE)), "regular"),
        (lambda m: archive.pack({k: v for k, v in m.items() if k != MANIFEST}), "manifest: absent"),
        (lambda m: archive.pack({k: v for k, v in m.items() if k != VECTORS}), "listed member is absent"),
        (lambda m: archive.pack({**m, WASM: m[WASM][:-1] + b"\0"}), "hash"),
        (lambda m: archive.pack({**m, CONFIG: m[CONFIG].replace(b"true", b"tru\x65 ")}), "hash"),
        (lambda m: archive.pack({**m, MANIFEST: b"{}"}), "signature"),
        (lambda m: resigned({**m, MANIFEST: b"{}"}), "manifest"),
        (lambda m: resigned({**m, MANIFEST: b"\xff"}), "manifest"),
        (lambda m: archive.pack(m)[:-20], "cut short"),
        (lambda m: archive.pack(m) + b"tail", "tail"),
        (lambda m: archive.pack(m) + archive.pack(m), "tail"),
        (lambda m: b"no gzip", "compression"),
        (lambda m: b"", "cut short"),
        (lambda m: gzip.compress(b"no tar at all" * 100), "archive"),
        (lambda m: gzip.compress(bytes(archive.MAX_UNPACKED + 1)), "unpacks to too much"),
        (lambda m: bytes(archive.MAX_PACKED + 1), "too large"),
    ],
)  # fmt: skip
def test_cp09_a_tampered_archive_is_refused(members: Members, spoil: Callable[[Members], bytes], why: str) -> None:
    with pytest.raises(BundleRefused, match=why):
        load(spoil(members))


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"format": 2}, "format"),
        ({"abi": [1, 2]}, "abi"),
        ({"number": 0}, "manifest"),
        ({"number": 2}, "revision"),
        ({"revision": "1-000000000000"}, "revision"),
        ({"entrypoints": ["gate/bash"]}, "entry points"),
        ({"signature": "none"}, "unknown field"),
        ({"files": {}}, "not listed"),
    ],
)
def test_a_manifest_that_lies_is_refused(members: Members, fields: dict[str, Any], why: str) -> None:
    with pytest.raises(BundleRefused, match=why):
        load(repack(members, **fields))


def test_a_tool_manifest_is_held_to_the_list_and_checked(members: Members) -> None:
    tool = {
        "name": "fetch",
        "description": "",
        "schema": {"type": "object", "properties": {"url": {}}, "additionalProperties": False},
        "facts": [{"pointer": "/url", "as": "url"}],
        "risk": "low",
    }
    good = load(repack({**members, TOOLS: msgspec.json.encode([tool])}))
    assert [one.name for one in good.tools] == ["fetch"]
    assert msgspec.json.decode(good.data)["opensafe"]["config"]["tools"]["fetch"] == "tool"
    with pytest.raises(BundleRefused, match=r"'fetch': .*no property"):
        load(repack({**members, TOOLS: msgspec.json.encode([tool | {"facts": [{"pointer": "/uri", "as": "url"}]}])}))
    without = {name: content for name, content in members.items() if name != TOOLS}
    assert load(repack(without)).tools == ()
    listed = archive.unpack(repack(without), ALLOWED)
    with pytest.raises(BundleRefused, match="not listed"):
        load(archive.pack({**listed, TOOLS: msgspec.json.encode([tool])}))


def test_an_entry_point_the_module_lacks_is_refused(members: Members) -> None:
    listed = msgspec.json.decode(members[MANIFEST])["entrypoints"]
    vectors = msgspec.json.decode(members[VECTORS])
    vectors.append({**vectors[0], "entrypoint": "gate/none"})
    changed = {**members, VECTORS: msgspec.json.encode(vectors)}
    with pytest.raises(BundleRefused, match="absent from the module"):
        load(repack(changed, entrypoints=[*listed, "gate/none"]))


def set_at(config: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    *above, last = path.split(".")
    place = config
    for part in above:
        place = place[part]
    place[last] = value
    return config


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("extra", {}),
        ("hosts.allowd", []),
        ("hosts.allowed", "docs.python.org"),
        ("paths.tmp", [1]),
        ("programs.network.curl", False),
        ("tools.Bash", "shell"),
        ("ceilings.session.calls", -1),
        ("ceilings.session.calls", 1.5),
        ("ceilings.calls_per_minute", 0),
        ("ceilings.sandbox.pids", "many"),
        ("images", {}),
        ("grants.bash.seccomp", "unconfined"),
        ("grants.bash.limits.wall_ms", -1),
        ("grants.read.programs", "all"),
    ],
)
def test_settings_the_schema_does_not_know_are_refused(members: Members, path: str, value: Any) -> None:
    config = set_at(json.loads(members[CONFIG]), path, value)
    with pytest.raises(BundleRefused, match="config"):
        load(repack({**members, CONFIG: json.dumps(config).encode()}))


def test_a_changed_site_setting_that_keeps_the_schema_loads(members: Members, bundle: Bundle) -> None:
    config = set_at(json.loads(members[CONFIG]), "hosts.allowed", ["example.test"])
    changed = load(repack({**members, CONFIG: json.dumps(config).encode()}))
    assert changed.tables.hosts["allowed"] == ("example.test",)
    assert changed.revision != bundle.revision


@pytest.mark.parametrize("rule", ["tool.bash.no.such", "default.deny"])
def test_a_shadow_of_what_can_have_none_is_refused(members: Members, rule: str) -> None:
    config = set_at(json.loads(members[CONFIG]), "shadow", {rule: True})
    with pytest.raises(BundleRefused, match=rf"no rule that can run in shadow.*{rule}"):
        load(repack({**members, CONFIG: json.dumps(config).encode()}))


def test_a_rule_in_shadow_loads(members: Members) -> None:
    config = set_at(json.loads(members[CONFIG]), "shadow", {"tool.write.ci.review": True})
    load(repack({**members, CONFIG: json.dumps(config).encode()}))


def test_a_failing_self_test_is_refused(members: Members) -> None:
    vectors = msgspec.json.decode(members[VECTORS])
    vectors[0]["action"] = "block"
    with pytest.raises(BundleRefused, match=r"self-test.*another verdict"):
        load(repack({**members, VECTORS: msgspec.json.encode(vectors)}))


def test_settings_that_open_what_a_self_test_holds_shut_are_refused(members: Members) -> None:
    config = set_at(json.loads(members[CONFIG]), "programs.denied", {})
    with pytest.raises(BundleRefused, match="self-test"):
        load(repack({**members, CONFIG: json.dumps(config).encode()}))


def test_a_bundle_without_a_question_for_each_entry_point_is_refused(members: Members) -> None:
    with pytest.raises(BundleRefused, match="without a question"):
        load(repack({**members, VECTORS: b"[]"}))


@pytest.mark.parametrize("wasm", [b"", b"\0asm\1\0\0\0", guest(version=2), guest(builtins='{"http.send": 0}')])
def test_another_module_is_refused(members: Members, wasm: bytes) -> None:
    with pytest.raises(BundleRefused):
        load(repack({**members, WASM: wasm}))


def test_g36_a_bundle_file_that_is_a_link_or_no_file_is_refused(built: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (tmp_path / "link").symlink_to(built)
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe", "absent", "."):
        with pytest.raises(BundleRefused, match="open"):
            load(tmp_path / name)
