"""Envoy asks here before it dials, and tells here what became of it (ext_authz and access logs, both v3).

Each has a unix socket of its own, which Envoy's group may open. Envoy gives an answer one second and takes silence for
no, so nothing here may raise or wait: a check is answered in the turn of the loop that reads it (unary.py), and entered
as open in the same one. What is in a check came from a guest: what is not well-formed is judged, which puts it on
record, and refused whatever the verdict is.
"""

import os
import pathlib
import re
import urllib.parse
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from typing import Any, Final

import grpc
import msgspec
import structlog

from opensafe._proto.envoy import als_pb2, als_pb2_grpc, external_auth_pb2
from opensafe.errors import Conflict, LimitExceeded
from opensafe.warden.feed import Call
from opensafe.warden.protocol import LOG_SOCKET

from . import unary
from .accesslog import TERMINATED, Log
from .accounting import Accounting
from .connections import Connections, Judge
from .credentials import Credentials, Found
from .judge import Answer, Question
from .paths import judged
from .proxied import Failures

_MODE: Final = 0o660
#: Bytes of what is logged at once.
_MESSAGE: Final = 1 << 20
#: Seconds after which Envoy, which waits for one, may have given up before the answer is there.
_LATE_S: Final = 0.95
_HTTP, _HTTPS = 80, 443
_NAME, _METHOD, _UPGRADE = 512, 32, 32
_WHY: Final = 1024
_LATE: Final = "egress: the answer would come too late. Try again."
#: google.rpc.Code
_OK, _PERMISSION_DENIED = 0, 7
_FORBIDDEN: Final = 403
#: HeaderValueOption.HeaderAppendAction: in place of all that there are.
_OVERWRITE: Final = 2
_UNPRINTABLE: Final = re.compile(r"[^\x20-\x7e]")
_HOST: Final = re.compile(r"(?P<name>[A-Za-z0-9._-]{1,254})(:(?P<port>[0-9]{1,5}))?", re.ASCII)
#: A last label that WHATWG's URL standard reads as part of an IPv4 address.
_NUMBER: Final = re.compile(r"(.*\.)?(\d+|0[xX][0-9A-Fa-f]*)\.?", re.ASCII)

_log = structlog.get_logger()


class Authorizer(als_pb2_grpc.AccessLogServiceServicer):
    """Both servers. `start` binds, `stop` ends."""

    def __init__(
        self,
        path: pathlib.Path,
        judge: Judge,
        connections: Connections,
        accounting: Accounting,
        call_at: Callable[[str, str], Call | None],
        *,
        terminated: Collection[str] = (),
        credentials: Credentials | None = None,
        failures: Failures | None = None,
        gid: int | None = None,
    ) -> None:
        """path: of the socket. call_at: the call that has the grant of a name at a source address. gid: of Envoy.

        terminated: hosts to which TLS ends in Envoy. credentials: to put into requests to them. failures: see
        accesslog.Log.
        """
        self._terminated = frozenset(terminated)
        self._credentials = credentials if credentials is not None else Credentials()
        self._path = path
        self._gid = gid
        self._judge = judge
        self._connections = connections
        self._accounting = accounting
        self._call_at = call_at
        self._failures = failures
        self._log = Log(judge, connections, accounting, call_at, failures)
        self._checks = unary.Server(path, self.check)
        self._logs = path.with_name(LOG_SOCKET)
        self._server = grpc.aio.server(
            options=[("grpc.max_receive_message_length", _MESSAGE), ("grpc.so_reuseport", 0)]
        )

    async def start(self) -> None:
        """Bind and serve. Raises OSError where a socket can't be made or given to Envoy's group."""
        await self._checks.start(_MODE)
        als_pb2_grpc.add_AccessLogServiceServicer_to_server(self, self._server)
        self._logs.unlink(missing_ok=True)
        mask = os.umask(0o777 & ~_MODE)
        try:
            self._server.add_insecure_port(f"unix:{urllib.parse.quote(str(self._logs))}")
        except RuntimeError as problem:
            raise OSError(f"{self._logs}: no socket for logs could be made: {problem}") from None
        finally:
            os.umask(mask)
        if self._gid is not None:
            for path in (self._path, self._logs):
                os.chown(path, -1, self._gid)
        await self._server.start()

    async def stop(self) -> None:
        """End at once: Envoy refuses from here on."""
        self._checks.stop()
        await self._server.stop(None)
        self._logs.unlink(missing_ok=True)

    def check(self, message: bytes, waited_s: float) -> bytes:
        """envoy.service.auth.v3.Authorization.Check, which waited for at most so long before it was read."""
        http, put = False, Found()
        try:
            request = external_auth_pb2.CheckRequest.FromString(message)
            http = request.attributes.request.HasField("http")
            why, put = self._check(request, late=waited_s > _LATE_S)
        except Exception:  # noqa: BLE001 - whatever a guest's strings bring about, the answer is no
            _log.exception("a check failed")
            why = "egress: the request could not be judged. Report it to the operator."
        return _answer(why, put, http=http).SerializeToString()

    async def StreamAccessLogs(  # noqa: N802 - Envoy's name
        self,
        messages: AsyncIterator[als_pb2.StreamAccessLogsMessage],
        context: grpc.aio.ServicerContext[Any, Any],  # noqa: ARG002 - gRPC passes it
    ) -> als_pb2.StreamAccessLogsResponse:
        """envoy.service.accesslog.v3.AccessLogService.StreamAccessLogs"""
        await self._log.follow(messages)
        return als_pb2.StreamAccessLogsResponse()

    def _check(self, request: external_auth_pb2.CheckRequest, *, late: bool) -> tuple[str, Found]:
        """Why it is refused, or "" and what is put into it."""
        attributes = request.attributes
        peer = attributes.source.address.socket_address
        source = (peer.address, peer.port_value)
        if not peer.address or not peer.port_value:
            return "egress: the source is not known.", Found()
        put, sni = Found(), attributes.tls_session.sni.decode("ascii", "backslashreplace")
        inside = attributes.context_extensions.get("opensafe") == TERMINATED
        if attributes.request.HasField("http"):
            question, wrong, put = self._http(source[0], attributes.request.http, sni if inside else "")
        else:
            question, wrong = _tls(source[0], sni)
        if late:
            self._judge.refuse(question, _LATE)
            return _LATE, Found()
        call = self._call_at(source[0], question.name)
        question = self._accounting.charged(question, call)

        def bar(answer: Answer) -> str:
            why = wrong or self._accounting.over(call, asked=1) or _nameless(answer) or self._crowded(answer, question)
            if answer.name in self._terminated and question.layer == "tls" and sni != answer.name:
                why = f"egress.sni.mismatch.deny: SNI {sni[:64]!r}. Send it as {answer.name}."  # another chain's
            if why:
                return why
            try:
                start_ns = attributes.request.time.ToNanoseconds()
                if inside:
                    self._connections.request(source, question, answer, start_ns)
                else:
                    self._connections.enter(source, question, answer, call, start_ns)
            except (Conflict, LimitExceeded) as full:
                return f"egress: {full} ({full.value} of {full.limit}). {full.remedy}"
            return ""

        answer = self._judge.judge(question, bar)
        if not answer.allowed:
            self._accounting.refused(answer.sandbox_id, answer.name)
            return answer.why or "egress: refused by policy.", put
        self._accounting.allowed(answer.sandbox_id, answer.name, call)
        return "", put

    def _crowded(self, answer: Answer, question: Question) -> str:
        if self._failures is None or question.layer != "tls":
            return ""
        return self._failures.crowded(answer.sandbox_id)

    def _http(
        self, source: str, http: external_auth_pb2.AttributeContext.HttpRequest, sni: str
    ) -> tuple[Question, str, Found]:
        """As below, and what to put into it. sni: of the TLS that the request came in; "" where it came in none."""
        question, wrong = _http(source, http, sni)
        host = question.name if sni and question.name == sni and sni in self._terminated else ""
        put = self._credentials.look(host, http.path, http.headers)
        return msgspec.structs.replace(question, credential=put.use), wrong, put


def _nameless(answer: Answer) -> str:
    if not answer.name or _NUMBER.fullmatch(answer.name):
        return f"egress.ip.literal.deny: {answer.name!r} is no host name. Connect to a host by its name."
    return ""


def _tls(source: str, sni: str) -> tuple[Question, str]:
    wrong = "" if _HOST.fullmatch(sni) and ":" not in sni else f"egress: SNI {sni[:64]!r} is no host name. Send one."
    return Question(layer="tls", source=source, name=sni[:_NAME], sni=sni[:_NAME], port=_HTTPS), wrong


def _http(source: str, http: external_auth_pb2.AttributeContext.HttpRequest, sni: str) -> tuple[Question, str]:
    """The question, and what is wrong with the request whatever the policy says of its name. sni: "" without TLS."""
    served = _HTTPS if sni else _HTTP
    host = http.host
    parsed = _HOST.fullmatch(host)
    name = parsed["name"] if parsed else host
    port = int(parsed["port"] or served) if parsed else served
    question = Question(
        layer="http",
        source=source,
        name=name[:_NAME],
        authority=host[:_NAME],
        sni=sni[:_NAME],
        port=port,
        method=http.method[:_METHOD],
        path=judged(http.path),
        upgrade=http.headers.get("upgrade", "")[:_UPGRADE].lower(),
    )
    return question, _wrong(host, bool(parsed), (port, served), http.path, http.method, http.headers)


def _wrong(host: str, parsed: bool, ports: tuple[int, int], path: str, method: str, headers: Mapping[str, str]) -> str:
    """ports: of the host, and the one that is served."""
    shown, (port, served) = repr(host[:64]), ports
    if not parsed or _literal(host):
        return f"egress: Host {shown} is not one plain host name. Send one, with no user, list or address in it."
    if port != served:
        return f"egress.port.allowlist: port {port} of Host {shown}. Only port {served} is served here: leave it out."
    if not path.startswith("/") or not method or len(method) > _METHOD:
        return f"egress: {method[:_METHOD]!r} {path[:64]!r} is no request for a path. Begin it with a slash."
    if "content-length" in headers and "transfer-encoding" in headers:
        return "egress: both Content-Length and Transfer-Encoding. Send one of them."
    return ""


def _literal(host: str) -> bool:
    return bool(_NUMBER.fullmatch(host.partition(":")[0]))


def _answer(why: str, put: Found, *, http: bool) -> external_auth_pb2.CheckResponse:
    response = external_auth_pb2.CheckResponse()
    if not why:
        response.status.code = _OK
        response.ok_response.SetInParent()
        if put.secrets:
            # Plain answers alone can be looked through for the secret.
            for name, value in ((put.header, put.value), ("accept-encoding", "identity")):
                option = response.ok_response.headers.add(append_action=_OVERWRITE)
                option.header.key, option.header.value = name, value
            response.dynamic_metadata.update({"secrets": list(put.secrets)})
        return response
    response.status.code = _PERMISSION_DENIED
    if http:
        denied = response.denied_response
        denied.status.code = _FORBIDDEN
        denied.body = _UNPRINTABLE.sub("?", why[:_WHY]) + "\n"
        header = denied.headers.add().header
        header.key, header.value = "content-type", "text/plain"
    return response
