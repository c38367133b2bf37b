"""A lint of our own for rules: each is described, has a stable id, tests, and a missing-field test."""

import pathlib
import re
from typing import Any, Final

SEVERITIES: Final = frozenset({"info", "low", "medium", "high", "critical"})
_CUSTOM: Final = ("id", "severity", "threat")
_HIT: Final = re.compile(r'hit\.(block|review|allow)\(\s*"([^"]+)",\s*"([^"]+)"')
_TEST: Final = re.compile(r"^test_(allow|block|review|missing)_(\w+)", re.MULTILINE)


def check_annotations(report: dict[str, Any], rego: pathlib.Path) -> list[str]:
    """Problems found in `opa inspect --annotations` of the tree `rego`, empty where there is none."""
    problems = []
    described: dict[str, set[str]] = {}
    for entry in report.get("annotations", []):
        notes = entry.get("annotations", {})
        location = entry.get("location", {})
        place = f"{location.get('file', '?')}:{location.get('row', '?')}"
        problems += [f"{place}: METADATA without {key}" for key in ("title", "description") if not notes.get(key)]
        custom = notes.get("custom")
        if custom is None:
            continue
        problems += [f"{place}: METADATA without custom.{key}" for key in _CUSTOM if key not in custom]
        if custom.get("severity") not in SEVERITIES:
            problems.append(f"{place}: unknown severity {custom.get('severity')}")
        described.setdefault(str(custom.get("id")), set()).add(str(custom.get("severity")))
    tested: dict[str, set[str]] = {}
    for path in sorted(rego.rglob("*.rego")):
        text = path.read_text(encoding="utf-8")
        if path.name.endswith("_test.rego"):
            for outcome, name in _TEST.findall(text):
                tested.setdefault(outcome, set()).add(name)
            continue
        if not path.with_name(f"{path.stem}_test.rego").exists() and _HIT.search(text):
            problems.append(f"{path}: no {path.stem}_test.rego beside it")
        for action, rule, severity in _HIT.findall(text):
            stated = "info" if action == "allow" else severity
            if stated not in described.get(rule, set()):
                problems.append(f"{path}: {rule} fires with severity {stated}, which no METADATA of it states")
    for rule in sorted(described):
        name = rule.replace(".", "_")
        for outcome in ("allow", "missing"):
            if not any(test.startswith(name) for test in tested.get(outcome, ())):
                problems.append(f"{rule}: no test_{outcome}_{name}")
        if not any(test.startswith(name) for kind in ("block", "review") for test in tested.get(kind, ())):
            problems.append(f"{rule}: no test_block_{name} or test_review_{name}")
    return problems
