"""`opensafe policy rules`: what can fire, by the bundle in force."""

from typing import TYPE_CHECKING

from . import options

if TYPE_CHECKING:
    from opensafe.client import RuleList


def rules(principal: options.Principal = None, json: options.Json = False) -> int:
    """List the rules of the active bundle: id, severity, what each is for, and with --json where its parts stand."""
    from . import present
    from .connect import ask
    from .report import encode, report

    found = ask(principal, lambda client: client.list_rules())
    if json:
        summary = {
            "bundle_revision": found.revision,
            "rules": len({note.id for note in found.notes}),
            "parts": len(found.notes),
        }
        present.raw(encode(report("policy-rules", summary, found)))
    else:
        for line in present.table(("RULE", "SEVERITY", "FOR"), _rows(found)):
            present.out(line)
    return 0


def _rows(found: "RuleList") -> list[tuple[str, ...]]:
    """A row for each rule: the gravest severity and the titles of its parts."""
    from opensafe.model.explanation import by_rule

    return [
        (rule, parts[0].severity, "; ".join(dict.fromkeys(part.title for part in parts)))
        for rule, parts in by_rule(found.notes).items()
    ]
