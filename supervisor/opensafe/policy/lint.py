"""A lint of our own for rules: each is described, has a stable id, tests, and a missing-field test."""

import pathlib
import re
from typing import Any, Final

import msgspec

SEVERITIES: Final = frozenset({"info", "low", "medium", "high", "critical"})
_CUSTOM: Final = ("id", "severity", "threat")
_HIT: Final = re.compile(r'hit\.(block|review|allow)\(\s*"([^"]+)",\s*"([^"]+)"')
#: An id of docs/threat-model.md; an allow rule meets none.
_THREAT: Final = re.compile(r"[STRIDE][0-9]+|none")
_TEST: Final = re.compile(r"^test_(allow|block|review|missing)_(\w+)", re.MULTILINE)


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Something to mend. check: fmt, check or lint. line: 0 for the whole file. rule: "" for none in particular."""

    check: str
    file: str
    line: int
    message: str
    remedy: str
    rule: str = ""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place}: {self.message}. {self.remedy}"


def lint(report: dict[str, Any], rego: pathlib.Path) -> list[Finding]:
    """Findings in `opa inspect --annotations` of the tree `rego` and in its text, empty where there is none."""
    findings: list[Finding] = []
    described: dict[str, set[str]] = {}
    places: dict[str, tuple[str, int]] = {}

    def found(place: tuple[str, int], message: str, remedy: str, rule: str = "") -> None:
        findings.append(Finding(check="lint", file=place[0], line=place[1], message=message, remedy=remedy, rule=rule))

    for entry in report.get("annotations", []):
        notes, location = entry.get("annotations", {}), entry.get("location", {})
        place = (str(location.get("file", "?")), int(location.get("row", 0)))
        custom = notes.get("custom")
        rule = str(custom.get("id", "")) if custom else ""
        for key in ("title", "description"):
            if not notes.get(key):
                found(place, f"METADATA without {key}", f"Add `# {key}: …`.", rule)
        if custom is None:
            continue
        for key in _CUSTOM:
            if key not in custom:
                found(place, f"METADATA without custom.{key}", f"Add `#   {key}: …` under custom.", rule)
        severity = str(custom.get("severity"))
        if severity not in SEVERITIES:
            found(place, f"unknown severity {severity}", f"Choose one of {', '.join(sorted(SEVERITIES))}.", rule)
        if "threat" in custom and not _THREAT.fullmatch(str(custom["threat"])):
            found(place, f"threat {custom['threat']} is no id", "Name a row of docs/threat-model.md, or none.", rule)
        described.setdefault(rule, set()).add(severity)
        places.setdefault(rule, place)
    tested: dict[str, set[str]] = {}
    for path in sorted(rego.rglob("*.rego")):
        text = path.read_text(encoding="utf-8")
        if path.name.endswith("_test.rego"):
            for outcome, name in _TEST.findall(text):
                tested.setdefault(outcome, set()).add(name)
            continue
        hits = list(_HIT.finditer(text))
        if hits and not path.with_name(f"{path.stem}_test.rego").exists():
            found((str(path), 0), f"no {path.stem}_test.rego beside it", "Write its tests there.")
        for hit in hits:
            action, rule, severity = hit.groups()
            stated = "info" if action == "allow" else severity
            if stated not in described.get(rule, set()):
                found(
                    (str(path), text.count("\n", 0, hit.start()) + 1),
                    f"{rule} fires with severity {stated}, which no METADATA of it states",
                    "Make the two agree.",
                    rule,
                )
    for rule in sorted(described):
        name = rule.replace(".", "_")
        for outcomes in (("allow",), ("missing",), ("block", "review")):
            if not any(test.startswith(name) for outcome in outcomes for test in tested.get(outcome, ())):
                names = " or ".join(f"test_{outcome}_{name}" for outcome in outcomes)
                found(places[rule], f"{rule}: no {names}", _REMEDIES[outcomes[0]], rule)
    return findings


_REMEDIES: Final = {
    "allow": "Write the benign twin: the nearest call on which the rule stays silent.",
    "missing": "Test that a question without the field is not allowed: `not input.x == good`, never `input.x == bad`.",
    "block": "Write the call on which the rule fires.",
}
