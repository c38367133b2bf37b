"""`opensafe mcp proxy`: stands before another MCP server, and lets a call of its tools through only with a permit.

The daemon judges, the server executes, and what the client sees of the server is what was vetted and pinned. Prompts
and resources, which only read, pass unjudged; what the server asks of the client by itself does not pass.
"""

import asyncio
import contextlib
import pathlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar

import mcp_types as types
import msgspec
from mcp import MCPError
from mcp.server import Server
from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.shared.dispatcher import ProgressFnT
from pydantic import ValidationError

from opensafe import __version__
from opensafe.client import Client, ReviewPending
from opensafe.errors import OpenSafeError, UnknownTool

from .proxy_framing import Bounds
from .proxy_gate import Asked, Gate
from .proxy_pins import Pins
from .proxy_places import OnHost, Sandboxed, tell
from .proxy_remote import Remote
from .proxy_results import answered, failed
from .proxy_upstream import Running, ServerGone, Upstream
from .proxy_vetting import Listing, Vetted, vet

_CARRIER: Final = ("traceparent", "tracestate")

Answer = TypeVar("Answer")
Context = ServerRequestContext[Any, Any]


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """What the proxy is to be.

    server: the name of the server in the site's policy. argv or url: how to reach it. environment: for the server.
    wait_s: how long a parked call waits for its reviewer. pins: the directory of the user's pins; None where the site's
    tool manifest alone pins.
    """

    server: str
    argv: tuple[str, ...] = ()
    url: str = ""
    headers: dict[str, str] = {}
    on_host: bool = False
    template: str = ""
    network: str = "none"
    copies: tuple[pathlib.Path, ...] = ()
    environment: dict[str, str] = {}
    agent: str = "mcp-proxy"
    wait_s: float = 0.0
    pins: pathlib.Path | None = None
    sampling: bool = False
    elicitation: bool = False
    bounds: Bounds = Bounds()


class Proxy:
    """Between one client and one server, for as long as the client's connection lasts."""

    def __init__(self, client: Client, session_id: str, wish: Wish) -> None:
        self._wish = wish
        self._pins = Pins(wish.server, wish.pins) if wish.pins is not None else None
        self._gate = Gate(
            client, session_id, pending=wish.bounds.pending, call_s=wish.bounds.call_s, wait_s=wish.wait_s
        )
        self._upstream = Upstream(
            _place(client, session_id, wish),
            wish.bounds,
            self._changed,
            sampling=wish.sampling,
            elicitation=wish.elicitation,
        )
        self._listing = Listing(tools={}, dropped={})
        self._pinned: dict[str, str] = {}
        self._listed_at = 0.0
        self._told: set[str] = set()
        self._looking = asyncio.Lock()
        self._notified: ServerSession | None = None

    @contextlib.asynccontextmanager
    async def server(self) -> AsyncIterator[Server[Any]]:
        """What the client speaks to, over whichever transport. Raises where the server behind can't be started."""
        try:
            running = await self._upstream.running()
            await self._look(running)
            yield self._server(running.client.server_capabilities)
        finally:
            await self._upstream.close()

    async def listing(self) -> Listing:
        """What the server shows, vetted."""
        async with self.server():
            return self._listing

    def _server(self, capabilities: types.ServerCapabilities) -> Server[Any]:
        prompts, resources = capabilities.prompts is not None, capabilities.resources is not None
        return Server(
            f"{self._wish.server} (through OpenSafe)",
            version=__version__,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_prompts=self._list_prompts if prompts else None,
            on_get_prompt=self._get_prompt if prompts else None,
            on_list_resources=self._list_resources if resources else None,
            on_list_resource_templates=self._list_templates if resources else None,
            on_read_resource=self._read_resource if resources else None,
        )

    # Tools

    async def _look(self, running: Running) -> Listing:
        """The tools as they are now: asked for anew where the server says so, or the last list is old."""
        async with self._looking:
            now = asyncio.get_running_loop().time()
            if not running.stale and now - self._listed_at < self._wish.bounds.listing_s:
                if self._pins is not None and any(map(self._is_changed, self._listing.tools.values())):
                    self._pinned = self._pins.read()  # it may have been approved since
                return self._listing
            try:
                tools = await running.tools(self._wish.bounds.start_s)
            except (MCPError, ValidationError, TimeoutError) as error:
                running.stale = True
                raise _gone(running, "the server does not list its tools", error) from error
            self._listing = vet(self._wish.server, tools)
            shown = {name: tool.digest for name, tool in self._listing.tools.items()}
            self._pinned = self._pins.first_sight(shown) if self._pins is not None else {}
            self._listed_at = now
        for name, reason in self._listing.dropped.items():
            self._tell_once(f"the tool {name!r} is dropped: {reason}")
        for tool in self._listing.tools.values():
            if self._is_changed(tool):
                self._tell_once(
                    f"the tool {tool.name} is held back: its description or schema changed. Look at it, then: opensafe"
                    f" mcp approve {self._wish.server} {tool.name} {tool.digest}"
                )
        return self._listing

    def _is_changed(self, tool: Vetted) -> bool:
        return self._pins is not None and self._pinned.get(tool.name) != tool.digest

    async def _list_tools(self, ctx: Context, _: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        self._notified = self._upstream.downstream = ctx.session
        listing = await self._passed(self._look)
        return types.ListToolsResult(tools=[tool.tool for tool in listing.tools.values() if not self._is_changed(tool)])

    async def _call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        self._notified = self._upstream.downstream = ctx.session
        meta: Mapping[str, Any] = ctx.meta or {}
        carrier = {name: value for name in _CARRIER if isinstance(value := meta.get(name), str)}
        try:
            running = await self._upstream.running()
            tool = self._tool(await self._look(running), params.name)
            asked = Asked(
                tool=tool.registered,
                arguments=params.arguments or {},
                shown=tool.digest,
                pinned=self._pinned.get(tool.name, ""),
            )

            async def send(timeout: float, onward: Mapping[str, str]) -> types.CallToolResult:
                progress = _numbers(ctx) if "progress_token" in meta else None
                return await running.call(tool.name, asked.arguments, timeout, dict(onward), progress)

            done = await self._gate.call(asked, send, carrier)
        except ReviewPending as error:
            tell(f"{params.name} waits for a reviewer: opensafe review show {error.review_id}")
            return failed(error)
        except OpenSafeError as error:
            return failed(error, self._upstream.why)
        finally:
            if self._gate.untold:
                tell(f"a call's end is not on record: {self._gate.untold}")
                self._gate.untold = ""
        return answered(done)

    def _tool(self, listing: Listing, name: str) -> Vetted:
        tool = listing.tools.get(name)
        if tool is not None:
            return tool
        reason = listing.dropped.get(name)
        raise UnknownTool(
            f"the tool is not let through: {reason}" if reason else "the server has no such tool",
            value=repr(name)[:80],
            remedy="Use one of the tools that are listed.",
        )

    async def _changed(self) -> None:
        if self._notified is not None:
            await self._notified.send_tool_list_changed()

    def _tell_once(self, text: str) -> None:
        if text not in self._told and len(self._told) < 1000:
            self._told.add(text)
            tell(text)

    # What only reads

    async def _list_prompts(self, _: Context, params: types.PaginatedRequestParams | None) -> types.ListPromptsResult:
        return await self._passed(lambda running: running.client.list_prompts(cursor=_cursor(params)))

    async def _get_prompt(self, _: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        return await self._passed(lambda running: running.session.get_prompt(params.name, params.arguments))

    async def _list_resources(
        self, _: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        return await self._passed(lambda running: running.client.list_resources(cursor=_cursor(params)))

    async def _list_templates(
        self, _: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        return await self._passed(lambda running: running.client.list_resource_templates(cursor=_cursor(params)))

    async def _read_resource(self, _: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        return await self._passed(lambda running: running.session.read_resource(str(params.uri)))

    async def _passed(self, request: Callable[[Running], Awaitable[Answer]]) -> Answer:
        """The server's answer, or an error of the protocol that says what is wrong."""
        try:
            running = await self._upstream.running()
            async with asyncio.timeout(self._wish.bounds.call_s):
                return await request(running)
        except MCPError:
            raise
        except (OpenSafeError, ValidationError, RuntimeError, TimeoutError) as error:
            raise MCPError(types.INTERNAL_ERROR, str(error) or "the server did not answer in time") from error


def _gone(running: Running, what: str, error: Exception) -> ServerGone:
    return ServerGone(what, value=running.ending.why or f"{type(error).__name__}: {error}"[:200])


def _numbers(ctx: Context) -> ProgressFnT:
    """Progress as numbers: the server's words stay behind."""

    async def report(progress: float, total: float | None, message: str | None) -> None:
        del message
        await ctx.session.report_progress(progress, total)

    return report


def _place(client: Client, session_id: str, wish: Wish) -> Sandboxed | OnHost | Remote:
    if wish.url:
        return Remote(url=wish.url, headers=wish.headers)
    if wish.on_host:
        return OnHost(argv=wish.argv, environment=wish.environment)
    return Sandboxed(
        client=client,
        session_id=session_id,
        argv=wish.argv,
        environment=wish.environment,
        template=wish.template,
        network=wish.network,
        copies=wish.copies,
        wait=wish.wait_s > 0,
    )


def _cursor(params: types.PaginatedRequestParams | None) -> str | None:
    return params.cursor if params is not None else None
