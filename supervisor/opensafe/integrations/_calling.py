"""One tool call of a model, from what it wrote to what it is told. Whatever a model writes, there is an answer."""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

import jsonschema_rs
import msgspec
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from opensafe.client import AsyncSandbox, Sandbox, trace_context
from opensafe.errors import OpenSafeError

from ._told import Answer, of_error, of_value, refused
from ._tools import Steps, Tool

#: Most bytes of a call's arguments, which are a model's words: the daemon's own cap has this size.
ARGUMENTS_MAX: Final = 4 << 20


def parse(text: object) -> dict[str, Any] | Answer:
    """The arguments in a model's JSON; some servers hand them over as an object, and "" where there are none."""
    if isinstance(text, str):
        if len(text) > ARGUMENTS_MAX:
            return _too_large(len(text))
        try:
            text = msgspec.json.decode(text) if text.strip() else {}
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            return refused(f"the arguments are not JSON: {error}. Send one JSON object.")
    if text is None:
        return {}
    if not isinstance(text, Mapping):
        return refused(f"the arguments must be one JSON object, and are {type(text).__name__}.")
    return dict(text)


def check(tool: Tool, arguments: Mapping[str, Any]) -> Answer | None:
    """What a model is told of arguments that the tool does not take, or None."""
    try:
        size = len(msgspec.json.encode(arguments))
        if size > ARGUMENTS_MAX:
            return _too_large(size)
        tool.validator.validate(arguments)  # ends at the first fault, of which there can be a million
    except jsonschema_rs.ValidationError as fault:
        place = "/".join(map(str, fault.instance_path)) or "arguments"
        names, required = tool.parameters["properties"], tool.parameters["required"]
        takes = ", ".join(name if name in required else f"[{name}]" for name in names)
        return refused(f"{place}: {fault.message[:300]}. `{tool.name}` takes {takes}.")
    except (TypeError, ValueError, RecursionError) as error:  # of whoever calls: a model can't write such values
        return refused(f"the arguments are not JSON: {error}")
    return None


def call(tool: Tool, box: Sandbox, arguments: Mapping[str, Any], shown: int) -> Answer:
    """Carry it out, in this thread."""
    if (fault := check(tool, arguments)) is not None:
        return fault
    try:
        with _traced():
            return of_value(_finished(tool.steps(box, arguments)), shown)
    except OpenSafeError as error:
        return of_error(error, shown)


async def call_async(tool: Tool, box: AsyncSandbox, arguments: Mapping[str, Any], shown: int) -> Answer:
    """Carry it out, in the sandbox's event loop."""
    if (fault := check(tool, arguments)) is not None:
        return fault
    try:
        with _traced():
            return of_value(await _awaited(tool.steps(box, arguments)), shown)
    except OpenSafeError as error:
        return of_error(error, shown)


def _too_large(size: int) -> Answer:
    return refused(
        f"the arguments have {size} bytes, and {ARGUMENTS_MAX} are the most. Write in parts, or make it in the sandbox."
    )


def _traced() -> AbstractContextManager[None]:
    """Whatever span the caller is in, the call stands below it."""
    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    return trace_context(carrier) if carrier else nullcontext()


def _finished(steps: Steps) -> Any:  # noqa: ANN401 - Left, which StopIteration does not type
    got = None
    try:
        while True:
            got = steps.send(got)
    except StopIteration as end:
        return end.value


async def _awaited(steps: Steps) -> Any:  # noqa: ANN401 - as above
    got = None
    try:
        while True:
            got = await steps.send(got)
    except StopIteration as end:
        return end.value
