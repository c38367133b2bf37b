"""The side of Envoy: checks and log entries in its protocol, through a real gRPC channel on a unix socket."""

import asyncio

import grpc

from opensafe._proto.envoy import als_pb2, als_pb2_grpc, external_auth_pb2, external_auth_pb2_grpc
from opensafe.egress.accounting import Accounting
from opensafe.egress.authz import Authorizer
from opensafe.egress.connections import Connections
from opensafe.egress.judge import Answer, unbarred
from opensafe.errors import Unavailable
from opensafe.model.calls import Principal
from opensafe.model.connection import Connection
from opensafe.model.policy_input import BudgetInput
from opensafe.warden.feed import Call
from opensafe.warden.protocol import LOG_SOCKET

GUEST = "10.201.0.1"
KIND = als_pb2.AccessLogType


def call(exec_id="exec-1", session="ses-1", usage=None, limits=None, hosts=None):
    return Call(
        exec_id=exec_id,
        decision_id="dec-1",
        call_id="call-1",
        session_id=session,
        tool="bash",
        digest="d",
        trace_id="t",
        principal=Principal(name="ada"),
        agent="a",
        profile="default",
        programs=None,
        budget=BudgetInput(usage=usage or {"egress_bytes": 0, "requests": 0}, limits=limits or {}, hosts=hosts or {}),
    )


class Policy:
    """Allows names, up to ceilings; `asked` is everything it was asked."""

    def __init__(self, *names):
        self.names = set(names)
        self.asked = []
        self.refused = []
        self.bytes_ceiling = self.requests_ceiling = 1 << 40
        self.methods = {"GET", "POST"}
        self.exec_id = "exec-1"
        self.broken = False
        self.gullible = False

    def refuse(self, question, why):
        self.refused.append((question, why))

    def judge(self, question, bar=unbarred):
        self.asked.append(question)
        if self.broken:
            raise RuntimeError("a fault")
        name = question.name.lower().removesuffix(".")
        good = (
            name in self.names
            and question.bytes_sent <= self.bytes_ceiling
            and question.requests < self.requests_ceiling
            and (not question.method or question.method in self.methods)
        )
        why = f"egress.domain.allowlist: {name}. Ask for a grant."
        if good or self.gullible:
            answer = Answer(allowed=True, name=name, exec_id=self.exec_id, sandbox_id="sbx-1", holder=self.exec_id)
            why = bar(answer)
            if not why:
                return answer
        return Answer(allowed=False, name=name, sandbox_id="sbx-1", why=why)


class Envoy:
    """A server as the helper has it, with what stands around it, and a client."""

    def __init__(self, directory, policy, *, most=512):
        self.policy = policy
        self.calls = {GUEST: call()}
        self.cuts = []
        self.cut_once = asyncio.Event()
        self.cut_fails = False
        self.reported: list[Connection] = []
        self.swept = asyncio.Event()
        self.accounting = Accounting()
        self.connections = Connections(self.accounting, self._cut, self.reported.append, most=most, pause=self._pause)
        self.path = directory / "authz.sock"
        self.authorizer = Authorizer(self.path, policy, self.connections, self.accounting, self._call_at)

    def _call_at(self, address, _name):
        return self.calls.get(address)

    async def _pause(self):
        await self.swept.wait()

    async def _cut(self, address, port):
        if self.cut_fails:
            raise Unavailable("the warden is gone")
        self.cuts.append((address, port))
        self.cut_once.set()

    async def __aenter__(self):
        await self.authorizer.start()
        self._channels = [
            grpc.aio.insecure_channel(f"unix:{one}") for one in (self.path, self.path.with_name(LOG_SOCKET))
        ]
        self._checks = external_auth_pb2_grpc.AuthorizationStub(self._channels[0])
        self._logs = als_pb2_grpc.AccessLogServiceStub(self._channels[1])
        return self

    async def __aexit__(self, *exc):
        for channel in self._channels:
            await channel.close()
        await self.authorizer.stop()
        await self.connections.close()

    async def check(self, request, timeout=20):
        return await self._checks.Check(request, timeout=timeout)

    async def tls(self, sni, port=40000, source=GUEST):
        return await self.check(tls(sni, port, source))

    async def http(self, host, port=40000, **fields):
        return await self.check(http(host, port, **fields))

    async def log(self, *entries, hold=False, name=""):
        """Send entries on a stream of their own; return when they are accounted. hold: leave the stream open.

        name: of the log.
        """
        stream = self._logs.StreamAccessLogs()
        for entry in entries:
            message = als_pb2.StreamAccessLogsMessage()
            message.identifier.log_name = name
            logs = message.tcp_logs if isinstance(entry, als_pb2.TCPAccessLogEntry) else message.http_logs
            logs.log_entry.append(entry)
            await stream.write(message)
        if hold:
            return stream
        await stream.done_writing()
        return await stream


def tls(sni, port=40000, source=GUEST):
    request = external_auth_pb2.CheckRequest()
    _peer(request.attributes.source.address, source, port)
    _peer(request.attributes.destination.address, "10.201.0.0", 443)
    request.attributes.tls_session.sni = sni if isinstance(sni, bytes) else sni.encode()
    return request


def http(host, port=40000, *, method="GET", path="/", headers=None, start=1):
    request = external_auth_pb2.CheckRequest()
    _peer(request.attributes.source.address, GUEST, port)
    _peer(request.attributes.destination.address, "10.201.0.0", 80)
    request.attributes.request.time.FromNanoseconds(start)
    sent = request.attributes.request.http
    sent.host, sent.method, sent.path = host, method, path
    sent.headers.update(headers or {})
    return request


def tcp_entry(kind, sent=0, received=0, port=40000, start=1, dialled="198.51.100.10", source=GUEST):
    entry = als_pb2.TCPAccessLogEntry()
    _common(entry.common_properties, kind, port, start, dialled, source)
    entry.connection_properties.received_bytes = sent
    entry.connection_properties.sent_bytes = received
    return entry


def http_entry(kind, sent=0, received=0, port=40000, start=1, dialled="198.51.100.10", source=GUEST):
    entry = als_pb2.HTTPAccessLogEntry()
    _common(entry.common_properties, kind, port, start, dialled, source)
    entry.request.request_body_bytes = sent
    entry.response.response_body_bytes = received
    return entry


def _common(common, kind, port, start, dialled, source):
    common.access_log_type = kind
    common.start_time.FromNanoseconds(start)
    _peer(common.downstream_remote_address, source, port)
    if dialled:
        _peer(common.upstream_remote_address, dialled, 443)


def _peer(address, host, port):
    address.socket_address.address = host
    address.socket_address.port_value = port
