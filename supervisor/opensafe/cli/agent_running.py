"""What `opensafe agent run` does: a planner over the daemon, told transition by transition."""

import asyncio
import os
import pathlib
import shlex
import signal
from typing import TYPE_CHECKING

import msgspec

from opensafe.client import Client
from opensafe.errors import InvalidArgument, OpenSafeError

from . import present
from .connect import ask
from .exits import Exit
from .report import encode, report

if TYPE_CHECKING:  # LangGraph is an extra, and slow to import
    from langchain_core.language_models import BaseChatModel
    from opentelemetry.sdk.trace import TracerProvider

    from opensafe.planner import RunEnd, RunFile, Step

_EXITS = {
    "done": Exit.OK,
    "waiting": Exit.REVIEW,
    "banned": Exit.DENIED,
    "denied": Exit.DENIED,
    "stopped": Exit.INTERRUPTED,
    "failed": Exit.UNAVAILABLE,
}


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for. runs: the directory of runs, None for the user's own."""

    task: str
    model: str
    script: str
    resume: str
    wait: bool
    runs: pathlib.Path | None
    principal: str | None
    json: bool


def perform(wish: Wish) -> int:
    """Run or resume; the exit status. Raises InvalidArgument where the extra `planner` is not installed."""
    if bool(wish.model) == bool(wish.script):
        raise InvalidArgument("one model is needed", remedy="Give either --model or --script.")
    try:
        from opensafe.planner import RunFile, new_run_id
    except ImportError as error:
        raise InvalidArgument(str(error)) from None

    model, task = _model(wish)
    if not (task or wish.resume):
        raise InvalidArgument("there is no task", remedy="Say in words what is to be done, or resume a run.")
    run_id = wish.resume or new_run_id()
    file = RunFile(wish.runs or _directory(), run_id)
    with file.claimed(new=not wish.resume):
        end = ask(wish.principal, lambda client: _work(client, model, wish, task, run_id, file))
    if wish.json:
        summary = {"run_id": run_id, "kind": end.kind, "review_id": end.review_id}
        present.raw(encode(report("agent-run", summary, {"text": end.text})))
    return _EXITS.get(end.kind, Exit.GOAL_MISSED)


def _model(wish: Wish) -> "tuple[BaseChatModel, str]":
    """The model, and the task; a script may bring its own."""
    from opensafe.planner import ScriptedModel, load_model, load_script

    if wish.model:
        return load_model(wish.model), wish.task
    script = load_script(wish.script)
    return ScriptedModel(script=script), wish.task or script.task


async def _work(
    client: Client, model: "BaseChatModel", wish: Wish, task: str, run_id: str, file: "RunFile"
) -> "RunEnd":
    from opensafe.planner import Planner

    options = {"await_reviews": wish.wait, "tracer_provider": _tracer_provider()}
    async with Planner.open(client, model, file.path, **options) as planner:
        if not wish.resume:
            try:
                await planner.begin(task, run_id=run_id)
            except OpenSafeError:
                file.remove()
                raise
            _tell(wish, f"run {run_id}, to be resumed by `{_resume_line(wish, run_id)}`")
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, planner.stop)
        async for step in planner.steps(run_id):
            _show(wish, step)
        end = await planner.end(run_id)
    match end.kind:
        case "done":
            _tell(wish, f"\n{end.text}")
        case "waiting":
            _tell(wish, f"waiting: {end.text}; then `{_resume_line(wish, run_id)}`")
        case _:
            _tell(wish, f"aborted, {end.kind}: {end.text}")
    return end


def _tracer_provider() -> "TracerProvider | None":
    """Where OpenTelemetry's own variables name a collector: spans go there, the last of them as the process ends."""
    if not {"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"} & os.environ.keys():
        return None
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider(resource=Resource({"service.name": "opensafe-agent"}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider


def _show(wish: Wish, step: "Step") -> None:
    line = f"{step.state} -> {step.to.strip('_')} ({step.transition})"
    _tell(wish, f"{line}: {step.line}" if step.line else line)
    if step.review_id:
        _tell(wish, f"  A reviewer decides: `opensafe review show {step.review_id}`, then `approve` or `reject`.")


def _tell(wish: Wish, text: str) -> None:
    for line in text.split("\n"):
        present.note(line) if wish.json else present.out(line)


def _resume_line(wish: Wish, run_id: str) -> str:
    words = ["opensafe", "agent", "run", "--resume", run_id]
    for option, value in (
        ("--model", wish.model),
        ("--script", wish.script),
        ("--runs", str(wish.runs or "")),
        ("--principal", wish.principal),
    ):
        words += [option, value] if value else []
    return shlex.join(words)


def _directory() -> pathlib.Path:
    state = os.environ.get("XDG_STATE_HOME") or pathlib.Path.home() / ".local/state"
    return pathlib.Path(state, "opensafe", "runs")
