"""`opensafe policy`: what the daemon enforces now."""

import typer

from . import authoring, bundles, digesting, explaining, options, replaying, ruling, shadowing

group = typer.Typer(help="The policy that is enforced.", no_args_is_help=True)
group.command("build")(authoring.build)
group.command("test")(authoring.check)
group.command("lint")(authoring.lint)
group.command("rules")(ruling.rules)
group.command("replay")(replaying.replay)
group.command("explain")(explaining.explain)
group.add_typer(shadowing.group, name="shadow")
group.command("digest")(digesting.digest)
group.command("keygen")(bundles.keygen)
group.command("sign")(bundles.sign)
group.command("activate")(bundles.activate)


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
            "bundle_number": found.bundle_number,
            "bundle_digest": found.bundle_digest,
            "bundle_key": found.bundle_key,
            "bundle_refused": found.bundle_refused,
            "helper_revision": found.helper_revision,
            "self_tests": len(found.checks),
            "self_tests_refused": sum(check.refused for check in found.checks),
        }
        present.raw(encode(report("policy-status", summary, found, runsc=found.runsc_version)))
        return 0
    present.out(f"bundle     {found.bundle_revision} ({found.bundle_digest}), signed by {found.bundle_key}")
    present.out(f"helper     {found.helper_revision or 'HAS ANOTHER BUNDLE OR NONE'}")
    present.out(f"trusted    {', '.join(found.trusted_keys)}")
    if found.bundle_refused and found.last_refusal is not None:
        present.out(f"REFUSED    what lies at {found.bundle_path}: {found.last_refusal.reason}")
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
