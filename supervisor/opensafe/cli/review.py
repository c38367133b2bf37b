"""`opensafe review`: calls that wait for a person. An approval is for the call that was shown, and for one run."""

import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from opensafe.errors import InvalidArgument

from . import options

if TYPE_CHECKING:
    from opensafe.client import Client, Review

group = typer.Typer(help="Calls that wait for a person.", no_args_is_help=True)
Id = Annotated[str, typer.Argument(metavar="ID", help="The review's id, such as rev-3f….")]
#: Reviewing needs a role; in the default configuration this principal has it.
_REVIEWER = "operator"


@group.command("list")
def list_(
    all_: Annotated[bool, typer.Option("--all", help="Also those that are decided or expired.")] = False,
    principal: options.Principal = None,
    json: options.Json = False,
) -> int:
    """List the calls that wait."""
    from . import present
    from .connect import ask
    from .report import encode, report

    found = ask(principal, lambda client: client.list_reviews(all=all_), prefer=_REVIEWER)
    if json:
        pending = sum(review.state == "pending" for review in found)
        present.raw(encode(report("review-list", {"reviews": len(found), "pending": pending}, {"reviews": found})))
        return 0
    for review in found:
        rules = ", ".join(rule.id for rule in review.rules)
        present.out(f"{review.review_id}  {review.state}  by {review.principal}, {_remaining(review)}")
        present.out(f"  {review.tool} {_arguments(review)}")
        present.out(f"  {rules}")
    if not found:
        present.say("no call waits for a review")
    return 0


@group.command("show")
def show(review: Id, principal: options.Principal = None, json: options.Json = False) -> int:
    """Show one parked call in full, with the digest that an approval is bound to."""
    from . import present
    from .connect import ask
    from .report import encode, report

    found = ask(principal, lambda client: client.get_review(review), prefer=_REVIEWER)
    if json:
        present.raw(encode(report("review", {"review_id": found.review_id, "state": found.state}, found)))
    else:
        _print(found)
    return 0


@group.command("approve")
def approve(
    review: Id,
    digest: Annotated[
        str | None, typer.Option("--digest", metavar="HEX", help="Approve only if the call still has this digest.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Approve the call as it is shown, without asking.")] = False,
    principal: options.Principal = None,
    json: options.Json = False,
) -> int:
    """Let a parked call run once. It is judged again first: what policy blocks stays blocked."""
    from opensafe.model.decision import Action

    from . import exits, present
    from .connect import ask
    from .report import encode, report

    if digest is None:
        shown = ask(principal, lambda client: client.get_review(review), prefer=_REVIEWER)
        if not yes:
            _confirm(shown)
        digest = shown.digest
    verdict = ask(principal, lambda client: client.approve_review(review, digest), prefer=_REVIEWER)
    if verdict is None:
        if json:
            present.raw(encode(report("review-approve", {"review_id": review, "approvals_missing": 1}, None)))
        else:
            present.out(f"approved {review}: another reviewer must approve, too")
        return exits.Exit.OK
    if json:
        present.raw(encode(report("review-approve", {"review_id": review, "action": verdict.action}, verdict)))
    elif verdict.action is Action.ALLOW:
        present.out(f"approved {review}: exactly this call, once")
    else:
        present.say(f"approved {review}, but policy now says {verdict.action}")
        for line in present.verdict_lines(verdict):
            present.note(line)
    return exits.Exit.OK if verdict.action is Action.ALLOW else exits.Exit.DENIED


@group.command("reject")
def reject(
    review: Id,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Reaches the agent.")] = "",
    principal: options.Principal = None,
) -> int:
    """Refuse a parked call."""
    from .connect import ask

    ask(principal, lambda client: client.reject_review(review, reason), prefer=_REVIEWER)
    return 0


@group.command("watch")
def watch(principal: options.Principal = None, json: options.Json = False) -> int:
    """Print each call that waits, then each change, until interrupted. With --json, one object a line."""
    from . import present
    from .connect import ask

    def say(review: "Review") -> None:
        if json:
            import msgspec

            present.raw(msgspec.json.encode(review).decode())
            return
        by = f" by {review.decided_by}" if review.decided_by else ""
        present.out(f"{review.review_id}  {review.state}{by}  {review.principal}  {review.tool} {_arguments(review)}")

    async def follow(client: "Client") -> None:
        async for review in client.watch_reviews():
            say(review)
            sys.stdout.flush()

    ask(principal, follow, prefer=_REVIEWER)
    return 0


def _confirm(review: "Review") -> None:
    if not sys.stdin.isatty():
        raise InvalidArgument(
            "an approval needs the digest that was shown",
            remedy=f"Read `opensafe review show {review.review_id}`, then give its digest with --digest.",
        )
    _print(review)
    typer.confirm("Let exactly this call run once?", abort=True, err=True)


def _print(review: "Review") -> None:
    from . import present

    present.out(f"review     {review.review_id}, {review.state}, {_remaining(review)}")
    place = review.session_id if review.elsewhere else f"{review.session_id}, {review.sandbox_id}"
    present.out(f"asked by   {review.principal} in {place}, call {review.call_id}")
    present.out(f"call       {review.tool} {_arguments(review)}")
    if review.elsewhere:
        present.out("runs       elsewhere, on a permit: the client fetches it once, and says how the run ended")
        if review.description_digest:
            present.out(f"described  {review.description_digest}: what the client says it was shown of the tool")
    present.out(f"digest     {review.digest}")
    if review.stdin:
        present.out("stdin      streamed by the client as it runs: not shown here, not covered by the digest")
    if review.approvals_needed > 1:
        present.out(
            f"approvals  {1 if review.seconded_by else 0} of {review.approvals_needed} {review.seconded_by}".rstrip()
        )
    if review.taints:
        present.out(f"observed   {', '.join(review.taints)}")
    if review.workspace_changes:
        present.out(
            f"workspace  may have changed: {review.workspace_changes} calls ran in it since this one was parked"
        )
    if review.decided_by:
        present.out(f"decided by {review.decided_by}: {review.decided_reason or 'no reason given'}")
    present.out("rules")
    for line in present.rule_lines(review.rules):
        present.out(line)


def _arguments(review: "Review") -> str:
    import msgspec

    if review.arguments is None:
        return f"(large: opensafe review show {review.review_id})"
    return msgspec.json.encode(review.arguments).decode()


def _remaining(review: "Review") -> str:
    seconds = round(review.expires_unix_ns / 1e9 - time.time())
    if review.state != "pending":
        return "closed"
    return f"expires in {seconds} s" if seconds > 0 else "expired"
