"""What the documents say of the code is compared with the code, as far as a machine can."""

import inspect
import re
import typing
from pathlib import Path

import msgspec
import pytest
from google.rpc import code_pb2  # type: ignore[import-untyped]  # ships no types

from opensafe import config, errors
from opensafe.api import status
from opensafe.client import CallResult, Verdict
from opensafe.client._result import command_result
from opensafe.client._settle import settle
from opensafe.model import limits, records
from opensafe.model.decision import Action
from opensafe.model.outcome import Outcome, OutcomeKind
from opensafe.telemetry import metrics

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
#: Sections of which there can be several.
LISTED = {"principals.NAME": config.PrincipalSettings, "[pool]": config.PoolSettings}
SECTIONS = {
    field.name: field.type
    for field in msgspec.structs.fields(config.Config)
    if field.name not in ("principals", "pool")
}
LINK = re.compile(r"\]\((?!https?:)([^)#\s]+)")
ROW = re.compile(r"^\| `(\w+)` \| ([^|]*) \|", re.MULTILINE)
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}


def _rows(text):
    return {key: default.strip() for key, default in ROW.findall(text)}


def _section(document, heading):
    found = re.search(rf"^{re.escape(heading)}$(.*?)(?=^## |\Z)", document, re.MULTILINE | re.DOTALL)
    assert found, heading
    return found.group(1)


def _number(text):
    split = re.fullmatch(r"(\d+)([KMGT]?i?B)?", text.replace(" ", ""))
    return int(split[1]) * UNITS[split[2] or "B"] if split else None


def _says(text, value):
    match value:
        case bool():
            return text == f"`{str(value).lower()}`"
        case int():
            return _number(text) == value
        case "":
            return text == "empty"
        case None:
            return text == "none"
        case tuple():
            return text == "`[" + ", ".join(f'"{item}"' for item in value) + "]`"
        case _:
            return text == f"`{value}`"


@pytest.mark.parametrize("name", [*SECTIONS, *LISTED])
def test_configuration_lists_every_key_with_its_default(name):
    section = (SECTIONS | LISTED)[name]
    rows = _rows(_section((ROOT / "docs/configuration.md").read_text(), f"## `[{name}]`"))
    defaults = msgspec.structs.asdict(section())
    defaults.pop("limits", None)  # they have a section of their own
    rows.pop("limits", None)
    assert rows.keys() == defaults.keys()
    assert [key for key, value in defaults.items() if not _says(rows[key], value)] == []


@pytest.mark.parametrize("struct", [limits.SandboxLimits, limits.CallLimits])
def test_configuration_lists_every_limit_with_its_default(struct):
    rows = _rows(_section((ROOT / "docs/configuration.md").read_text(), "## Limits of a sandbox and of a call"))
    defaults = msgspec.structs.asdict(struct())
    assert [key for key, value in defaults.items() if not _says(rows.get(key, ""), value)] == []


def test_errors_lists_every_class_a_caller_can_meet():
    classes = [cls for _, cls in inspect.getmembers(errors, inspect.isclass) if issubclass(cls, errors.OpenSafeError)]
    leaves = [cls for cls in classes if not any(cls in other.__bases__ for other in classes)]
    table = (ROOT / "docs/errors.md").read_text().partition("\n## ")[0]
    listed = re.findall(r"^\| (\w+) \| `(\w+)` \| (\w*)", table, re.MULTILINE)
    assert set(listed) == {(cls.__name__, cls.reason, _status(cls)) for cls in leaves}


def test_errors_lists_what_the_sandbox_api_makes_of_each_outcome():
    section = _section((ROOT / "docs/errors.md").read_text(), "## What the sandbox API raises")
    rows = re.findall(r"^\| ([A-Z]\w+) \| ([`\w, ]+) \|", section, re.MULTILINE)
    listed = {(kind, name) for name, kinds in rows for kind in re.findall(r"`(\w+)`", kinds)}
    assert listed == {(kind.value, _raised(kind)) for kind in OutcomeKind}
    drawn = set(re.findall(r"── (\w+)", section))
    assert {name for _, name in listed} <= drawn


def _raised(kind):
    """The exception for a call that ends so, its exit status checked."""
    verdict = Verdict(decision_id="d", action=Action.ALLOW)
    result = command_result("c1", CallResult(verdict=verdict, outcome=Outcome(kind=kind, exit_code=1)))
    with pytest.raises(errors.OpenSafeError) as caught:
        settle(result, check=True)
    return type(caught.value).__name__


def _status(cls):
    if issubclass(cls, errors.StartError):  # ends the start: no client is there to be told
        return ""
    return code_pb2.Code.Name(status.to_status(cls("")).code)


def test_architecture_lists_every_kind_of_record():
    section = _section((ROOT / "docs/architecture.md").read_text(), "## Records")
    kinds = {kind.__struct_config__.tag for kind in typing.get_args(records.Record)}
    assert _rows(section).keys() == kinds


def test_metrics_are_those_that_are_told():
    rows = re.findall(
        r"^\| `(\w+)` \| (\w+) \| ([^|]*) \| (.*) \|$", (ROOT / "docs/metrics.md").read_text(), re.MULTILINE
    )
    listed = {name: (kind, tuple(re.findall(r"`(\w+)`", labels)), text) for name, kind, labels, text in rows}
    assert listed == {
        family.name: (type(family).__name__.lower(), family.labels, family.text) for family in metrics.FAMILIES
    }


def test_every_decision_stands_in_the_index_with_its_title():
    index = (ROOT / "docs/adr/README.md").read_text()
    for path in sorted((ROOT / "docs/adr").glob("0*.md")):
        title = path.read_text().splitlines()[0].partition(": ")[2]
        assert f"| [{path.name[:4]}]({path.name}) | {title} |" in index


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_to_files_of_the_tree(path):
    assert [link for link in LINK.findall(path.read_text()) if not (path.parent / link).exists()] == []
