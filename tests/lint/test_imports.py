"""The rooms: who may import whom, and that the contract would notice."""

import subprocess
from pathlib import Path

import pytest
from grimp import ImportGraph

from tools.import_rooms import breaches, parse_table

ROOT = Path(__file__).resolve().parents[2]
TABLE = parse_table(["model:", "normalize:", "policy: normalize", "warden:", "warden.client:", "gate: warden.client"])
SHARED = frozenset({"model"})


def _breaches(*imports):
    graph = ImportGraph()
    for importer, imported in imports:
        graph.add_module(importer)
        graph.add_module(imported)
        graph.add_import(importer=importer, imported=imported, line_number=7, line_contents="")
    return [str(breach) for breach in breaches(graph, "p", TABLE, SHARED)]


def test_every_import_is_in_the_table():
    linted = subprocess.run([ROOT / ".venv/bin/lint-imports", "--no-logo"], cwd=ROOT, capture_output=True, text=True)
    assert linted.returncode == 0, linted.stdout + linted.stderr


@pytest.mark.parametrize(
    ("importer", "imported"),
    [
        ("p.policy.engine", "p.normalize.shell"),
        ("p.policy.engine", "p.policy.wasm"),
        ("p.policy.engine", "p.model.facts"),
        ("p.gate", "p.warden.client"),
    ],
)
def test_an_import_of_the_table_is_kept(importer, imported):
    assert _breaches((importer, imported)) == []


@pytest.mark.parametrize(
    ("importer", "imported"),
    [
        ("p.normalize.shell", "p.policy.engine"),
        ("p.gate", "p.warden.server"),
        ("p.warden.client", "p.warden.server"),
        ("p.model.facts", "p.normalize.shell"),
    ],
)
def test_an_import_outside_the_table_is_named_with_its_line(importer, imported):
    assert _breaches((importer, imported)) == [f"{importer}:7 imports {imported}"]


def test_a_package_that_the_table_does_not_name_is_broken():
    assert _breaches(("p.surprise", "p.model")) == ["p.surprise is in no room of the table"]
