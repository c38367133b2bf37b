"""`plan`: ask the model for the next tool calls, and give each its id before anything is sent.

What a model answers is taken in bounded and plain: arguments over the limit never reach a checkpoint or the
conversation, where they would be sent to the provider again and again.
"""

import asyncio
import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
from langchain_core.messages import AIMessage

from opensafe.errors import OpenSafeError

from .door import Door
from .faults import model_error
from .limits import Limits
from .state import Call, End, EndKind, RunState, Update, leave, stop
from .table import Transition

#: Of a model's text, in characters; beyond it nobody reads an answer.
_TEXT_MAX: Final = 1 << 20
_LINE_MAX: Final = 160


async def plan(state: RunState, door: Door) -> Update:
    """Ask the model. Raises ModelError."""
    limits = door.limits
    if state["turns"] >= limits.turns:
        return stop(EndKind.BUDGET, f"the model had its {limits.turns} turns")
    try:
        async with asyncio.timeout(limits.model_s):
            answer = await door.model.ainvoke(state["messages"])
    except Exception as error:  # a provider raises whatever its libraries do
        raise model_error(error) from error
    if not isinstance(answer, AIMessage):
        raise model_error(TypeError(f"it answered with a {type(answer).__name__} and no AIMessage"))
    calls = list(_calls(answer, state, limits))
    message = _plain(answer, calls)
    taken: Update = {
        "messages": [message],
        "turns": state["turns"] + 1,
        "failures": 0,
        "unreported": await _report(answer, state, door),
    }
    if not calls:
        text = message.text[:_TEXT_MAX]
        return leave(Transition.ANSWER, "the model answers", end=End(kind=EndKind.DONE.value, text=text), **taken)
    if state["made"] + len(calls) > limits.calls:
        return stop(EndKind.BUDGET, f"the run had its {limits.calls} calls", **taken)
    request = _digest([{"tool": call["tool"], "arguments": call["arguments"]} for call in calls])
    repeats = state["repeats"] + 1 if request == state["last_request"] else 1
    if repeats >= limits.repeats:
        return stop(EndKind.LOOP, f"the model asked for {in_words(calls[0])} {repeats} times in a row", **taken)
    taken |= {"queue": calls, "made": state["made"] + len(calls), "last_request": request, "repeats": repeats}
    if calls[0]["error"]:
        return leave(Transition.MALFORMED, f"{calls[0]['tool']}: {calls[0]['error']}", **taken)
    return leave(Transition.CALL, in_words(calls[0]), **taken)


def in_words(call: Call) -> str:
    """A call in a line."""
    arguments = msgspec.json.encode(call["arguments"]).decode()
    text = f"{call['tool']} {arguments}"
    return text if len(text) <= _LINE_MAX else f"{text[:_LINE_MAX]}…"


def _calls(answer: AIMessage, state: RunState, limits: Limits) -> Iterator[Call]:
    wanted: list[tuple[str, str, Mapping[str, Any], str]] = [
        (str(call["id"] or ""), call["name"], call["args"], "") for call in answer.tool_calls
    ]
    for bad in answer.invalid_tool_calls:
        why = f"Its arguments are no JSON object: {bad['error'] or (bad['args'] or '')[:200]!r}."
        wanted.append((str(bad["id"] or ""), bad["name"] or "", {}, why))
    for number, (given, tool, arguments, error) in enumerate(wanted, state["made"] + 1):
        call_id = f"{state['run_id']}.{number}"
        why = error or _objection(tool, arguments, limits)
        if number - state["made"] > limits.calls_per_turn:
            why = f"At most {limits.calls_per_turn} calls may be asked for at once."
        yield Call(
            call_id=call_id,
            answers=given or call_id,
            tool=tool[:100],
            arguments={} if why else dict(arguments),
            error=why,
        )


def _objection(tool: str, arguments: Mapping[str, Any], limits: Limits) -> str:
    """Why a call can't be sent, or ""."""
    if not tool:
        return "It names no tool."
    try:
        size = len(msgspec.json.encode(arguments))
    except (TypeError, ValueError) as error:
        return f"Its arguments are no JSON: {error}."
    if size > limits.arguments_bytes:
        return f"Its arguments are too large: got {size} bytes, limit {limits.arguments_bytes}. Write in parts."
    return ""


def _plain(answer: AIMessage, calls: list[Call]) -> AIMessage:
    """The answer as it goes into the conversation: as the provider gave it where that can be sent again.

    Otherwise its text, and its calls with the arguments that are known: each call needs its entry, or providers refuse
    the answers to it.
    """
    text = answer.text
    ids = [call["id"] for call in answer.tool_calls]
    sound = all(ids) and len(set(ids)) == len(ids) and not any(call["error"] for call in calls)
    if sound and len(str(answer.content)) <= _TEXT_MAX:
        return answer
    for call in calls:  # ids that the model used twice, or not at all, are replaced by ours
        call["answers"] = call["call_id"]
    entries = [{"name": call["tool"] or "unnamed", "args": call["arguments"], "id": call["answers"]} for call in calls]
    return AIMessage(content=text[:_TEXT_MAX], tool_calls=entries, usage_metadata=answer.usage_metadata)


async def _report(answer: AIMessage, state: RunState, door: Door) -> list[int]:
    """Declare the tokens, which the daemon's budget counts; those that it could not be told of yet."""
    usage = answer.usage_metadata
    read, written = state["unreported"]
    if usage is not None:
        read, written = read + usage["input_tokens"], written + usage["output_tokens"]
    if read + written <= 0:
        return [0, 0]
    try:
        await door.client.report_usage(state["session_id"], tokens=read + written, output_tokens=written)
    except OpenSafeError:
        return [read, written]
    return [0, 0]


def _digest(value: object) -> str:
    return hashlib.sha256(msgspec.json.encode(value)).hexdigest()
