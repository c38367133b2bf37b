"""Rules about the tree itself, which no other linter knows."""

import json
import re
import statistics
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE_SUFFIXES = {".py", ".c", ".h", ".rego", ".sh"}
GENERATED = "supervisor/opensafe/_proto/"

# Spelled in parts, or this file would break its own rule.
REGISTRY_HOSTS = [
    ".".join(parts)
    for parts in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("proxy", "golang", "org"),
        ("sum", "golang", "org"),
        ("deb", "debian", "org"),
        ("registry", "npmjs", "org"),
        ("static", "crates", "io"),
        ("maven", "org"),
    )
]

# What switches a checker off. A reason follows on the line.
SUPPRESSION = re.compile(
    r"#\s*(?:noqa\b(?::\s*[A-Z0-9, ]+)?|type:\s*ignore(?:\[[^\]]*\])?|pragma:\s*no cover)"
    r"|//\s*NOLINT\w*(?:\([^)]*\))?|//\s*clang-format off|#\s*regal ignore:\S+|buf:lint:ignore \w+"
)
REASON = re.compile(r"^\s*[-:#]?\s*\w.{5,}")


def _tracked():
    listed = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    names = listed.stdout.decode().split("\0")[:-1]
    return sorted(name for name in names if (ROOT / name).is_file())


def _text(name):
    return (ROOT / name).read_text(errors="replace")


def _sources():
    return [name for name in _tracked() if Path(name).suffix in SOURCE_SUFFIXES and not name.startswith(GENERATED)]


def unreasoned(text):
    """The lines of `text` that switch a checker off without saying why."""
    bad = []
    for line in text.splitlines():
        found = SUPPRESSION.search(line)
        if found and not REASON.match(line[found.end() :]):
            bad.append(line.strip())
    return bad


def test_no_file_names_a_package_registry():
    found = [f"{name}: {host}" for name in _tracked() for host in REGISTRY_HOSTS if host in _text(name)]
    assert found == []


def test_no_file_holds_the_path_of_this_checkout():
    assert [name for name in _tracked() if f"{ROOT}/" in _text(name)] == []


def test_files_stay_small():
    lengths = {name: len(_text(name).splitlines()) for name in _sources()}
    assert {name: length for name, length in lengths.items() if length > 600} == {}
    assert statistics.median(lengths.values()) < 250


def test_every_suppression_has_its_reason():
    found = {name: lines for name in _sources() if (lines := unreasoned(_text(name)))}
    assert found == {}


@pytest.mark.parametrize("line", ["x = 1  # noq" + "a: S101", "x = y  # type: ig" + "nore[arg-type]"])
def test_a_suppression_without_reason_is_found(line):
    assert unreasoned(line) == [line]
    assert unreasoned(line + " - the stub is older than the library") == []


def test_locks_hold_the_versions_of_the_project_file():
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)
    runtime, dev = project["project"]["dependencies"], project["dependency-groups"]["dev"]
    pinned = {lock: set(re.findall(r"^(\S+==\S+) ", _text(lock), re.MULTILINE)) for lock in _locks()}
    assert set(runtime) <= pinned["requirements.lock"]
    assert set(runtime) | set(dev) <= pinned["requirements-dev.lock"]
    assert set(project["build-system"]["requires"]) <= pinned["requirements-dev.lock"]
    assert pinned["requirements.lock"] <= pinned["requirements-dev.lock"]
    peers = re.findall(r"^(\S+==\S+) ", _text("tools/provision/requirements-peers.lock"), re.MULTILINE)
    assert set(project["dependency-groups"]["peers"]) <= set(peers)


def _locks():
    return ["requirements.lock", "requirements-dev.lock"]


def test_every_package_has_a_docstring():
    packages = [name for name in _sources() if name.endswith("__init__.py") and name.startswith("supervisor/")]
    assert [name for name in packages if not _text(name).lstrip().startswith(('"""', 'r"""'))] == []


def test_every_dependency_has_its_version_and_reason_on_record():
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)
    groups = project["dependency-groups"]
    runtime, dev = project["project"]["dependencies"], groups["dev"] + groups["peers"]
    doors = [one for extra in project["project"]["optional-dependencies"].values() for one in extra]
    tables, _, _ = _text("docs/dependencies.md").partition("## Not from the Python package index")
    rows = re.findall(r"^\| ([a-z0-9-]+) \| ([0-9.!]+) \|", tables, re.MULTILINE)
    assert sorted(f"{name}=={version}" for name, version in rows) == sorted([*runtime, *doors, *dev])


def test_every_package_from_npm_has_its_version_and_reason_on_record():
    room = "supervisor/opensafe/console/"
    manifest, locked = json.loads(_text(f"{room}package.json")), json.loads(_text(f"{room}package-lock.json"))
    section = _text("docs/dependencies.md").partition("\n## From npm\n")[2].partition("\n## ")[0]
    rows = dict(re.findall(r"^\| ([a-z.-]+) \| ([0-9.]+) \|", section, re.MULTILINE))
    assert rows == manifest["dependencies"] | manifest["devDependencies"]
    held = {name.removeprefix("node_modules/"): entry for name, entry in locked["packages"].items() if name}
    assert {name: entry["version"] for name, entry in held.items()} == rows
    assert all(entry["integrity"].startswith("sha512-") for entry in held.values())


def test_every_test_is_among_those_that_are_run():
    listed = tomllib.loads(_text("pyproject.toml"))["tool"]["pytest"]["ini_options"]["testpaths"]
    held = {f"tests/{name.split('/')[1]}" for name in _tracked() if re.match(r"tests/.*/test_\w+\.py$", name)}
    assert sorted(listed) == sorted(held)
