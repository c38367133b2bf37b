"""`opensafe policy explain`: one verdict with its rules' sources, what policy saw, and what would have been allowed."""

import pathlib
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from opensafe.errors import AuditError, InvalidArgument, NotFound

from . import options

if TYPE_CHECKING:
    from opensafe.client import Client
    from opensafe.model.explanation import Explanation
    from opensafe.model.facts import Command, HostFact, PathFact
    from opensafe.model.records import DecisionRecord

_WIDTH = 80
#: Longest argument list and longest list of facts printed for people.
_LONG = 400
_SHOWN = 40


def explain(
    tool: Annotated[str | None, typer.Argument(metavar="TOOL", help="Bash, Exec, Read, Write, List.")] = None,
    arguments: Annotated[str | None, typer.Argument(metavar="JSON", help="The tool's arguments; -: stdin.")] = None,
    decision: Annotated[
        str | None, typer.Option("--decision", metavar="ID", help="A recorded decision, or the call_id of one.")
    ] = None,
    state: Annotated[
        pathlib.Path | None,
        typer.Option("--state", metavar="DIR", help="With --decision: read this state directory, ask no daemon."),
    ] = None,
    bundle: Annotated[
        pathlib.Path | None,
        typer.Option("--bundle", metavar="BUNDLE", help="With TOOL JSON: judge on this bundle, ask no daemon."),
    ] = None,
    role: Annotated[
        list[str] | None, typer.Option("--role", metavar="ROLE", help="With --bundle: as a caller of this role.")
    ] = None,
    description_digest: Annotated[
        str, typer.Option("--description-digest", metavar="HEX", help="With TOOL: of the description that was shown.")
    ] = "",
    pinned_digest: Annotated[
        str, typer.Option("--pinned-digest", metavar="HEX", help="With TOOL: of the one that was approved.")
    ] = "",
    principal: options.Principal = None,
    json: options.Json = False,
) -> int:
    """Say why a call is allowed, parked or blocked: of a call on record, or of one that is not run.

    The daemon knows its last ten thousand records by --decision; --state finds older ones, as root. A call that is
    given is judged by the daemon as a query, which is recorded, or offline on --bundle for an ordinary session.
    """
    from . import call, present
    from .report import encode, report

    if (decision is None) is (tool is None) or (tool is None) is not (arguments is None):
        raise InvalidArgument(
            "explain takes a recorded decision or a call", remedy="Give --decision ID, or TOOL and JSON."
        )
    if decision is not None:
        found = _recorded(state, decision) if state else _asked(principal, decision)
    else:
        given = call.decode(arguments or "")
        stated = {"description_digest": description_digest, "pinned_digest": pinned_digest}
        if bundle:
            found = _judged(bundle, tool or "", given, role or ["developer"], stated)
        else:
            found = _tried(principal, tool, given, stated)
    if json:
        summary = {
            "action": found.decision.action,
            "decision_id": found.decision_id,
            "bundle_revision": found.revision,
            "deciding_rules": ", ".join(dict.fromkeys(hit.id for hit in found.decision.deciding())),
        }
        present.raw(encode(report("policy-explain", summary, found)))
    else:
        for line in lines(found):
            present.out(line)
    return 0


# ── where an explanation comes from ──────────────────────────────────────────────────────────────────────────────────


def _asked(principal: str | None, decision: str) -> "Explanation":
    from .connect import ask

    return ask(principal, lambda client: client.explain(decision))


def _tried(principal: str | None, tool: str | None, arguments: dict[str, Any], stated: dict[str, str]) -> "Explanation":
    from . import place
    from .connect import ask

    async def work(client: "Client") -> "Explanation":
        session = await client.create_session(place.AGENT)
        try:
            return await client.explain((await client.decide(session, tool or "", arguments, **stated)).decision_id)
        finally:
            await client.close_session(session)

    return ask(principal, work)


def _recorded(state: pathlib.Path, wanted: str) -> "Explanation":
    from opensafe.policy.explain import explain as explained
    from opensafe.policy.explain import reference_in
    from opensafe.policy.location import archived_path

    record = _find(state, wanted)
    bundle = record.bundles["opensafe"]
    reference = reference_in(archived_path(state, bundle.digest), bundle.revision)
    return explained(reference, record.path.removeprefix("opensafe/"), record.input, record.result)


def _find(state: pathlib.Path, wanted: str) -> "DecisionRecord":
    """The last decision with that id or call_id."""
    from opensafe.audit.verify import read_records
    from opensafe.model.chain import ChainBrokenError
    from opensafe.model.records import DecisionRecord

    found = None
    try:
        for _, record in read_records(state):
            if isinstance(record, DecisionRecord) and wanted in (record.decision_id, record.call_id):
                found = record
    except ChainBrokenError as error:
        raise AuditError(f"the log is not intact: {error}", remedy="`opensafe audit verify` says more.") from error
    if found is None:
        raise NotFound("no such decision on record", value=wanted, remedy="`opensafe audit tail` shows the last ones.")
    return found


def _judged(
    path: pathlib.Path, tool: str, arguments: dict[str, Any], roles: list[str], stated: dict[str, str]
) -> "Explanation":
    from opensafe.model.decision import Action
    from opensafe.policy.engine import Engine
    from opensafe.policy.explain import explain as explained
    from opensafe.policy.explain import reference_of
    from opensafe.proof.ask import ask as question_of
    from opensafe.proof.cases import Case

    from .candidate import open_candidate

    bundle = open_candidate(path)
    pinned = next((site.description_sha256 for site in bundle.tools if site.name == tool), "")
    case = Case(
        id="explain",
        tool=tool,
        arguments=arguments,
        expect=Action.ALLOW,
        rule="",
        idea="",
        licence="",
        given={"principal": {"roles": roles}, "call": stated | {"pinned_digest": pinned or stated["pinned_digest"]}},
    )
    engine = Engine(bundle, deadline_ms=1000)
    try:
        entrypoint, question = question_of(case, engine.registry, engine.tables)
        return explained(reference_of(bundle), entrypoint, question, engine.evaluate(entrypoint, question))
    finally:
        engine.close()


# ── for people ───────────────────────────────────────────────────────────────────────────────────────────────────────


def lines(found: "Explanation") -> Iterator[str]:
    """The explanation at 80 columns: the verdict, each rule, what would be allowed, what policy saw."""
    question, decision = found.question, found.decision
    caller = f"{question.principal.name} ({', '.join(question.principal.roles) or 'no role'})"
    yield f"{decision.action}: {question.call.tool or 'Sandbox'} by {caller}"
    yield from _wrapped("", _arguments(question.call.arguments), "  ")
    yield f"  decision {found.decision_id}, bundle {found.revision}"
    deciding = {id(hit) for hit in decision.deciding()}
    for hit in sorted(decision.rules, key=lambda hit: (id(hit) not in deciding, hit.id)):
        yield ""
        yield f"{hit.id} ({hit.severity}) says {hit.action}{', and decides' if id(hit) in deciding else ''}"
        yield from _rule(found, hit)
    for hit in decision.shadow:
        yield ""
        yield f"{hit.id} ({hit.severity}) would say {hit.action}: a shadow rule, which decides nothing"
        yield from _rule(found, hit)
    if found.nearest:
        yield ""
        yield "nearest allowed"
        for one in found.nearest[:_SHOWN]:
            yield from _wrapped(one.kind, f"{one.value} → {', '.join(one.allowed)}")
    yield ""
    yield "what policy saw"
    yield from _facts(found)


def _rule(found: "Explanation", hit: Any) -> Iterator[str]:  # noqa: ANN401 - RuleHit, not imported where help is made
    yield from _wrapped("reason", hit.reason)
    if hit.value and hit.value not in hit.reason:
        yield from _wrapped("value", hit.value)
    if hit.remedy:
        yield from _wrapped("remedy", hit.remedy)
    for note in found.notes_of(hit):
        yield from _wrapped("rule", f"{note.title}: {note.description}")
        yield from _wrapped("source", f"{note.file}:{note.line}")


def _facts(found: "Explanation") -> Iterator[str]:
    call = found.question.call
    if call.opaque:
        yield from _wrapped("opaque", ", ".join(call.opaque_reasons) or "not understood")
    for command in call.commands[:_SHOWN]:
        yield from _wrapped("command", _command(command))
    for label, paths in (("read", call.reads), ("write", call.writes), ("delete", call.deletes)):
        for path in paths[:_SHOWN]:
            yield from _wrapped(label, _classed(path.path, path))
    for host in call.hosts[:_SHOWN]:
        port = f":{host.port}" if host.port else ""
        scheme = f"{host.scheme}://" if host.scheme else ""
        yield from _wrapped("host", _classed(f"{scheme}{host.name}{port}", host))
    for name, value in list(call.env.items())[:_SHOWN]:
        yield from _wrapped("env", f"{name}={value}")
    session, budget = found.question.session, found.question.budget
    past = [f"{session.age_s} s old", *(f"{number} {kind}" for kind, number in sorted(session.counts.items()))]
    yield from _wrapped("session", ", ".join(past))
    if session.taints:
        yield from _wrapped("taints", ", ".join(session.taints))
    if budget.usage:
        yield from _wrapped("used", ", ".join(f"{name} {used}" for name, used in budget.usage.items() if used) or "0")


def _command(command: "Command") -> str:
    words = " ".join("?" if word is None else word for word in command.argv)
    more = [command.position, *(f"under {wrapper}" for wrapper in command.via)]
    return f"{words}  [{', '.join(more + (['opaque'] if command.opaque else []))}]"


def _classed(text: str, fact: "PathFact | HostFact") -> str:
    return f"{text}  [{', '.join(name for name, holds in fact.classes.items() if holds) or 'no class'}]"


def _arguments(arguments: dict[str, Any]) -> str:
    import msgspec

    text = msgspec.json.encode(arguments).decode()
    return text if len(text) <= _LONG else f"{text[:_LONG]}… ({len(text)} characters)"


def _wrapped(label: str, text: str, indent: str = "  ") -> Iterator[str]:
    """`text` behind its label, in lines of at most 80 columns. Control characters are escaped before it is measured."""
    from opensafe.model.printable import harmless

    head = f"{indent}{label:<9}" if label else indent
    yield from textwrap.wrap(
        harmless(text),
        _WIDTH,
        initial_indent=head,
        subsequent_indent=" " * len(head),
        break_on_hyphens=False,
    ) or [head.rstrip()]
