"""`opensafe doctor`: does this host bear what OpenSafe promises, and does the daemon that runs keep it?"""

import pathlib
from typing import TYPE_CHECKING, Annotated

import typer

from opensafe.config import DEFAULT_PATH, Config, load
from opensafe.errors import ConfigError, OpenSafeError

from . import options

if TYPE_CHECKING:
    from opensafe.client import Client, DaemonStatus

    from .checks import Check
    from .leftovers import Leftover


def doctor(
    config: Annotated[
        pathlib.Path, typer.Option("--config", metavar="FILE", help="The daemon's settings.")
    ] = DEFAULT_PATH,
    deep: Annotated[bool, typer.Option("--deep", help="Read every file of the images.")] = False,
    principal: options.Principal = None,
    json: options.Json = False,
) -> int:
    """Check the host, the daemon and its self-test, and look for leftovers. Exit status 0 only where all holds."""
    from opensafe.image import inspect

    from . import exits, host, leftovers, present
    from .checks import check
    from .report import encode, report

    settings, checks = _settings(config)
    seen = host.look(settings)
    checks += seen.checks
    for image in inspect.look(pathlib.Path(settings.paths.images), deep=deep):
        remedy = "Build it again with `opensafe image build`; the daemon makes no sandbox of it."
        checks.append(check(f"image {image.name}", image.intact, image.fault or image.digest, remedy))
    status, of_daemon = _daemon(principal, pathlib.Path(settings.paths.run))
    checks += of_daemon
    left = leftovers.find(pathlib.Path(settings.paths.run), pathlib.Path(settings.paths.state))
    checks += _of_leftovers(left)

    failed = [item for item in checks if not item.ok]
    if json:
        summary = {
            "ok": not failed,
            "checks": len(checks),
            "failed": len(failed),
            "runsc_version": status.runsc_version if status else seen.runsc,
            "runsc_platform": status.runsc_platform if status else "",
            "opa_version": seen.opa,
            "bundle_revision": status.bundle_revision if status else "",
            "leftovers": len(left),
        }
        shown = [{"kind": one.kind, "name": one.name, "said": one.said, "remedy": one.remedy} for one in left]
        details = {"checks": checks, "daemon": status, "leftovers": shown}
        present.raw(encode(report("doctor", summary, details, runsc=seen.runsc, opa=seen.opa)))
    else:
        for item in checks:
            present.out(f"{'ok  ' if item.ok else 'FAIL'}  {item.name:<32}  {item.value}")
            if item.remedy:
                present.out(f"{'':38}  {item.remedy}")
        present.out(f"{len(checks) - len(failed)} of {len(checks)} checks hold")
    return exits.Exit.OK if not failed else exits.Exit.GOAL_MISSED


def _settings(path: pathlib.Path) -> "tuple[Config, list[Check]]":
    from .checks import check

    try:
        return load(path), [check("config", True, path, "")]
    except ConfigError as error:
        return Config(), [check("config", False, error.told, error.remedy)]


def _of_leftovers(left: "list[Leftover]") -> "list[Check]":
    """One check for each kind that there is something of."""
    from .checks import check

    if not left:
        return [check("leftovers", True, "none", "")]
    found = []
    for kind in sorted({one.kind for one in left}):
        some = [one for one in left if one.kind == kind]
        value = f"{len(some)}: {'; '.join(' '.join(filter(None, (one.name, one.said))) for one in some)}"
        remedy = f"Start the daemon that left it, which removes it; or: {'; '.join(one.remedy for one in some)}"
        found.append(check(f"leftover {kind}", False, value, remedy))
    return found


def _daemon(principal: str | None, run: pathlib.Path) -> "tuple[DaemonStatus | None, list[Check]]":
    """What the daemon says of itself; without one a single check that says so."""
    from .checks import check
    from .connect import ask

    async def work(client: "Client") -> "tuple[DaemonStatus, bool]":
        return await client.status(), await client.health()

    try:
        status, serving = ask(principal, work, run=run)
    except OpenSafeError as error:
        return None, [check("daemon", False, error.told, error.remedy or "Start it with `opensafe up`.")]
    checks = [
        check("daemon", serving, f"version {status.version}", "It drains or has lost a part of it: see its log."),
        check("platform", status.runsc_platform == "systrap", status.runsc_platform, "Only systrap is supported."),
        check("revision", bool(status.bundle_revision), status.bundle_revision, "Start it with a policy bundle."),
        check(
            "policy",
            not status.bundle_refused,
            "what is in place is in force" if not status.bundle_refused else "what is in place was refused",
            "`opensafe policy status` says why; put a good bundle in place.",
        ),
        check(
            "append-only",
            status.append_only,
            "set" if status.append_only else "not set",
            "Put the state directory on a file system with the append-only attribute (ext4, xfs, btrfs).",
        ),
        check(
            "checkpoint",
            not status.checkpoint_failure,
            status.checkpoint_failure or f"{status.checkpoint_size} of {status.audit_size} records are signed",
            "Nothing starts any more: run `opensafe audit verify`.",
        ),
        check("self-test", bool(status.checks), f"{len(status.checks)} checks", "Start the daemon anew."),
    ]
    for ship in status.ships:
        value = ship.error or (f"{ship.size} records" if ship.size else "nothing yet")
        remedy = "Checkpoints are kept and tried again; docs/audit.md says what each destination needs."
        checks.append(check(f"ship {ship.destination}", not ship.failures, value, remedy))
    for one in status.pool:
        value = f"{one.ready} of {one.wanted} ready" if not one.failures else f"{one.failures} failed: {one.error}"
        remedy = "The daemon's log says more; it tries again by itself."
        checks.append(check(f"pool {one.principal} {one.template}", not one.failures, value, remedy))
    for test in status.checks:
        answers = f"refused: {test.answer}; control: {test.control_answer}"
        remedy = "A layer does not hold: stop the daemon and look at its log."
        checks.append(check(f"self-test {test.name}", test.refused and test.control_succeeded, answers, remedy))
    return status, checks
