"""`opensafe cp`: files and trees into a sandbox and out of it."""

from typing import Annotated

import typer

from opensafe.model.files import DOWNLOAD_BYTES

from . import options


def cp(
    source: Annotated[str, typer.Argument(metavar="SRC", help="A path, or SANDBOX:PATH.")],
    target: Annotated[str, typer.Argument(metavar="DST", help="A path, or SANDBOX:PATH.")],
    recursive: Annotated[
        bool, typer.Option("-r", "--recursive", help="A tree: the content of SRC becomes the content of DST.")
    ] = False,
    with_auto_run: Annotated[
        bool,
        typer.Option("--with-auto-run", help="Out of a sandbox: also what this host would run by itself (hooks, rc)."),
    ] = False,
    owner: Annotated[
        str,
        typer.Option("--owner", metavar="USER", help="Into a sandbox: as this user of the image, whose it is then."),
    ] = "",
    size_limit: Annotated[
        int,
        typer.Option("--size-limit", metavar="BYTES", min=0, help="Out of a sandbox: the most that is taken."),
    ] = DOWNLOAD_BYTES,
    principal: options.Principal = None,
    json: options.Json = False,
) -> int:
    """Copy a file, or with -r a tree, into a sandbox or out of it, if policy allows.

    No link is followed out of what is copied. What a tree left out is listed on standard error, and makes this command
    end with 1. Out of a sandbox that includes what a host would run by itself: hooks, files that shells and editors
    start with.
    """
    from . import copying, present
    from .connect import ask
    from .exits import Exit
    from .report import encode, report

    places = copying.place_of(source), copying.place_of(target)
    copied = ask(
        principal,
        lambda client: copying.copy(
            client, *places, tree=recursive, with_auto_run=with_auto_run, owner=owner, size_limit=size_limit
        ),
    )
    left = copied.left
    if json:
        items = [{"path": copying.text_of(item.path), "reason": item.reason} for item in left.items]
        summary = {"copied_bytes": copied.read, "left_out": left.count}
        present.raw(encode(report("cp", summary, {"source": source, "target": target, "left_out": items})))
    else:
        for item in left.items:
            present.say(f"left out ({item.reason}): {copying.text_of(item.path)}")
        if left.count > len(left.items):
            present.say(f"and {left.count - len(left.items)} more")
    return Exit.GOAL_MISSED if left.count else Exit.OK
