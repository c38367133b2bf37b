"""`opensafe policy`: what the daemon enforces now."""

import typer

from . import authoring, bundles, explaining, options, replaying, shadowing

group = typer.Typer(help="The policy that is enforced.", no_args_is_help=True)
group.command("build")(authoring.build)
group.command("test")(authoring.check)
group.command("lint")(authoring.lint)
group.command("replay")(replaying.replay)
group.command("explain")(explaining.explain)
group.add_typer(shadowing.group, name="shadow")
group.command("keygen")(bundles.keygen)
group.command("sign")(bundles.sign)


@group.command("status")
def status(principal: options.Principal = None, json: options.Json = False) -> int:
    """Show the active bundle, and the runtime and logs behind it."""
    from . import present
    from .connect import ask
    from .report import encode, report

    found = ask(principal, lambda client: client.status())
    if json:
        summary = {
            "bundle_revision": found.bundle_revision,
            "bundle_digest": found.bundle_digest,
            "self_tests": len(found.checks),
            "self_tests_refused": sum(check.refused for check in found.checks),
        }
        present.raw(encode(report("policy-status", summary, found, runsc=found.runsc_version)))
        return 0
    present.out(f"bundle     {found.bundle_revision} ({found.bundle_digest})")
    present.out(f"daemon     {found.version}")
    present.out(f"runtime    runsc {found.runsc_version} on {found.runsc_platform}")
    present.out(f"audit log  {found.audit_size} records, head {found.audit_head}")
    present.out(f"ledger     {found.ledger_size} starts")
    present.out(f"running    {found.sandboxes} sandboxes, {found.programs} programs")
    for check in found.checks:
        answer = "refused" if check.refused else "NOT REFUSED"
        control = "control passed" if check.control_succeeded else "CONTROL FAILED"
        present.out(f"self-test  {check.name}: {answer} ({check.answer}), {control}")
    return 0
