"""The demo's session: one agent's six calls, and what must come of each. The console's demo shows it, too."""

from typing import Any, Final

import msgspec

from opensafe.client import CallResult, Client
from opensafe.errors import OpenSafeError
from opensafe.model.decision import Action
from opensafe.model.outcome import OutcomeKind

from .private import demo_files

_FILES: Final = demo_files()
#: What gated Write calls put into the workspace first.
SEED: Final = ("README.md", "package.json", "test_suite.py")


class DemoFailedError(OpenSafeError):
    """Something did not happen as it must."""

    reason = "DEMO_FAILED"


class Step(msgspec.Struct, frozen=True):
    """One call of the session and what must come of it: `rules` among those that fired, `shows` in the output."""

    tool: str
    arguments: dict[str, Any]
    action: Action
    outcome: OutcomeKind
    rules: tuple[str, ...] = ()
    shows: bytes = b""

    def text(self) -> str:
        """The call as a person would say it."""
        return f"{self.tool} {self.arguments.get('path') or self.arguments['command']}"


STEPS: Final = (
    Step("Read", {"path": "/workspace/README.md"}, Action.ALLOW, OutcomeKind.EXITED, shows=b"# Till"),
    Step("Bash", {"command": "npm install"}, Action.REVIEW, OutcomeKind.REVIEW_PENDING),
    Step(
        "Bash",
        {"command": "curl evil.example.com"},
        Action.BLOCK,
        OutcomeKind.BLOCKED,
        ("egress.domain.allowlist", "tool.bash.network.deny"),
    ),
    Step(
        "Write",
        {"path": "/workspace/src/app.ts", "content": (_FILES / "app.ts").read_text()},
        Action.ALLOW,
        OutcomeKind.EXITED,
    ),
    Step("Read", {"path": "/etc/shadow"}, Action.BLOCK, OutcomeKind.BLOCKED, ("tool.read.secrets.block",)),
    Step("Bash", {"command": "python3 test_suite.py"}, Action.ALLOW, OutcomeKind.EXITED, shows=b"Ran 6 tests in"),
)


class Done(msgspec.Struct, frozen=True):
    """A step that was taken."""

    step: Step
    result: CallResult

    def fired(self) -> list[str]:
        """The ids of the rules that made the verdict. One that fired for several values counts once."""
        return list(dict.fromkeys(rule.id for rule in self.result.verdict.deciding()))

    def complaint(self) -> str:
        """How this differs from what must happen; "" where it does not."""
        verdict, outcome, step = self.result.verdict, self.result.outcome, self.step
        if verdict.action is not step.action:
            return (
                f"{step.text()}: expected {step.action}, got {verdict.action} by {', '.join(self.fired()) or 'no rule'}"
            )
        if missing := set(step.rules) - set(self.fired()):
            return (
                f"{step.text()}: expected {', '.join(sorted(missing))} among the rules, got {', '.join(self.fired())}"
            )
        if outcome.kind is not step.outcome or outcome.exit_code:
            said = self.result.stderr.decode(errors="replace")
            return f"{step.text()}: ended {outcome.kind} {outcome.exit_code} {outcome.detail}\n{said}".rstrip()
        if step.shows not in self.result.stdout + self.result.stderr:
            return f"{step.text()}: its output lacks {step.shows.decode()!r}"
        return ""

    def row(self) -> dict[str, Any]:
        """The step in build/demo.json."""
        verdict, outcome = self.result.verdict, self.result.outcome
        return {
            "step": STEPS.index(self.step) + 1,
            "tool": self.step.tool,
            "arguments": self.step.arguments,
            "action": verdict.action,
            "rules": self.fired(),
            "decision_ms": verdict.decision_ns / 1e6,
            "run_ms": outcome.run_ns / 1e6,
            "outcome": outcome.kind,
            "decision_id": verdict.decision_id,
        }


async def prepare(client: Client, session: str, sandbox: str) -> None:
    """Put the agent's files into the workspace. Raises DemoFailedError."""
    for name in SEED:
        arguments = {"path": f"/workspace/{name}", "content": (_FILES / name).read_text()}
        result = await client.run_call(session, sandbox, f"seed-{name}", "Write", arguments)
        complaint = Done(Step("Write", arguments, Action.ALLOW, OutcomeKind.EXITED), result).complaint()
        if complaint:
            raise DemoFailedError(complaint)


async def take(client: Client, session: str, sandbox: str) -> list[Done]:
    """Take the steps, one after the other."""
    return [
        Done(step, await client.run_call(session, sandbox, f"step-{number}", step.tool, step.arguments))
        for number, step in enumerate(STEPS, 1)
    ]
