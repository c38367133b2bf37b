"""What an attack is after, by the rule that has to stop it: how single calls join the families of the scenarios."""

from typing import Final

from .scenarios.data import Family

#: An eighth for single calls: what hides what it is, whatever that may be.
EVASION: Final = "evasion"

#: The first that fits. A rule's id, or its beginning where it ends in a dot.
_OF: Final = (
    ("egress.requests.budget", Family.BUDGET), ("egress.bytes.budget", Family.BUDGET),
    ("egress.ingress.budget", Family.BUDGET), ("egress.host.budget", Family.BUDGET), ("egress.", Family.EXFILTRATION),
    ("session.sequence.exfil", Family.EXFILTRATION), ("session.", Family.BUDGET), ("budget.", Family.BUDGET),
    ("tool.bash.network.deny", Family.EXFILTRATION), ("tool.read.size.limit", Family.BUDGET),
    ("tool.read.proc.deny", Family.PRIVILEGE), ("tool.read.device.deny", Family.PRIVILEGE),
    ("tool.read.", Family.EXFILTRATION), ("tool.write.secret.block", Family.EXFILTRATION),
    ("tool.write.size.limit", Family.BUDGET), ("tool.exec.miner.deny", Family.BUDGET),
    ("tool.delete.", Family.DESTRUCTION), ("tool.bash.destructive.deny", Family.DESTRUCTION),
    ("tool.archive.", Family.DESTRUCTION), ("tool.write.path.allowlist", Family.PRIVILEGE),
    ("tool.write.symlink.deny", Family.PRIVILEGE), ("tool.write.", Family.PERSISTENCE),
    ("tool.exec.persistence.deny", Family.PERSISTENCE), ("tool.bash.background.review", Family.PERSISTENCE),
    ("tool.exec.package.install.review", Family.PERSISTENCE), ("tool.exec.package.script.deny", Family.INJECTION),
    ("tool.schema.pinned", Family.INJECTION), ("mcp.", Family.INJECTION), ("tool.taint.review", Family.INJECTION),
    ("tool.risk.review", Family.INJECTION), ("caller.user.role", Family.PRIVILEGE), ("caller.", Family.APPROVAL),
    ("sandbox.", Family.PRIVILEGE), ("tool.exec.wrapper.deny", EVASION), ("tool.exec.", Family.PRIVILEGE),
)  # fmt: skip


def family_of(rule: str) -> str:
    """The family of an attack that this rule, or this error, has to stop."""
    return next(
        (found for start, found in _OF if rule == start or (start[-1] == "." and rule.startswith(start))), EVASION
    )
