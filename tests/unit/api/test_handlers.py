"""What holds for every method of a server: an error is a status, and a unary one that has begun ends by itself."""

import asyncio
import contextlib
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1._async import HealthServicer
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from grpc_reflection.v1alpha._async import ReflectionServicer

from opensafe._proto.v1 import session_pb2, session_pb2_grpc
from opensafe.api.handlers import Handlers
from opensafe.api.status import UNKNOWN_TEXT
from opensafe.errors import NotFound


class Sessions(session_pb2_grpc.SessionServiceServicer):
    def __init__(self):
        self.begun, self.left, self.go_on = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.done = False

    async def CreateSession(self, request, context):  # noqa: N802 - the name of the RPC
        if request.agent == "fault":
            raise ZeroDivisionError
        if request.agent == "nobody":
            raise NotFound("no such agent")
        return session_pb2.CreateSessionResponse(session_id=request.agent)

    async def CloseSession(self, request, context):  # noqa: N802 - the name of the RPC
        context.add_done_callback(lambda _: self.left.set())
        self.begun.set()
        await self.go_on.wait()
        self.done = True
        return session_pb2.CloseSessionResponse()

    async def ReportUsage(self, request, context):  # noqa: N802 - the name of the RPC
        raise NotImplementedError


def _reflection(channel: Any) -> Any:
    return reflection_pb2_grpc.ServerReflectionStub(channel)


@contextlib.asynccontextmanager
async def served(tmp_path, servicer, answered=lambda *_: None):
    handlers: Any = Handlers(answered)
    session_pb2_grpc.add_SessionServiceServicer_to_server(servicer, handlers)
    names = ("opensafe.v1.SessionService",)
    reflection_pb2_grpc.add_ServerReflectionServicer_to_server(ReflectionServicer(names), handlers)
    health_pb2_grpc.add_HealthServicer_to_server(HealthServicer(), handlers)
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((handlers,))
    server.add_insecure_port(f"unix:{tmp_path}/socket")
    await server.start()
    async with grpc.aio.insecure_channel(f"unix:{tmp_path}/socket") as channel:
        yield channel, handlers
    await server.stop(None)


async def test_an_answer_is_an_answer(tmp_path):
    async with served(tmp_path, Sessions()) as (channel, _):
        stub = session_pb2_grpc.SessionServiceStub(channel)
        assert (await stub.CreateSession(session_pb2.CreateSessionRequest(agent="a"))).session_id == "a"


@pytest.mark.parametrize(
    ("agent", "code", "text"),
    [
        ("nobody", grpc.StatusCode.NOT_FOUND, "no such agent"),
        ("fault", grpc.StatusCode.INTERNAL, UNKNOWN_TEXT),
    ],
)
async def test_an_error_is_a_status(tmp_path, agent, code, text):
    async with served(tmp_path, Sessions()) as (channel, _):
        stub = session_pb2_grpc.SessionServiceStub(channel)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.CreateSession(session_pb2.CreateSessionRequest(agent=agent))
    assert (caught.value.code(), caught.value.details()) == (code, text)


@pytest.mark.parametrize("method", ["CreateSession", "CloseSession"])
async def test_CP24_what_is_no_message_is_the_clients_fault(tmp_path, method):
    async with served(tmp_path, Sessions()) as (channel, _):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await channel.unary_unary(f"/opensafe.v1.SessionService/{method}")(b"\xff\xff\xff")
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "can't be read" in str(caught.value.details())


async def test_CP24_nor_is_one_within_a_stream(tmp_path):
    async with served(tmp_path, Sessions()) as (channel, _):
        begin: Any = channel.stream_stream("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo")
        asked = reflection_pb2.ServerReflectionRequest(list_services="").SerializeToString()
        stream = begin(iter([asked, b"\xff\xff\xff"]))
        assert await stream.read()
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stream.read()
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_what_nobody_offers_is_unimplemented(tmp_path):
    async with served(tmp_path, Sessions()) as (channel, _):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await channel.unary_unary("/opensafe.v1.SessionService/Nothing")(b"")
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_a_client_that_goes_away_stops_no_change_half_way(tmp_path):
    sessions = Sessions()
    async with served(tmp_path, sessions) as (channel, handlers):
        stub = session_pb2_grpc.SessionServiceStub(channel)
        call = stub.CloseSession(session_pb2.CloseSessionRequest())
        await sessions.begun.wait()
        call.cancel()
        await sessions.left.wait()
        assert not sessions.done
        sessions.go_on.set()
        await handlers.settle()
    assert sessions.done


async def test_reflection_is_served_like_the_rest(tmp_path):
    async with served(tmp_path, Sessions()) as (channel, _):
        stub = _reflection(channel)
        asked = reflection_pb2.ServerReflectionRequest(list_services="")
        (answer,) = [one async for one in stub.ServerReflectionInfo(iter([asked]))]
    assert [one.name for one in answer.list_services_response.service] == ["opensafe.v1.SessionService"]


@contextlib.asynccontextmanager
async def counted(tmp_path):
    """A server, what its client raises passed over, and the requests that were answered."""
    answered, told = [], asyncio.Event()

    def count(method, code, seconds):
        assert seconds >= 0
        answered.append((method, code))
        told.set()

    sessions = Sessions()
    async with served(tmp_path, sessions, count) as (channel, _):
        with contextlib.suppress(grpc.aio.AioRpcError, asyncio.CancelledError):
            yield session_pb2_grpc.SessionServiceStub(channel), channel, sessions, answered
        await told.wait()
        sessions.go_on.set()


@pytest.mark.parametrize(("agent", "code"), [("a", "OK"), ("nobody", "NOT_FOUND"), ("fault", "INTERNAL")])
async def test_a_request_is_counted_by_method_and_code(tmp_path, agent, code):
    async with counted(tmp_path) as (stub, _, _, answered):
        await stub.CreateSession(session_pb2.CreateSessionRequest(agent=agent))
    assert answered == [("opensafe.v1.SessionService/CreateSession", code)]


async def test_one_whose_client_went_away_is_counted_as_cancelled(tmp_path):
    async with counted(tmp_path) as (stub, _, sessions, answered):
        call = stub.CloseSession(session_pb2.CloseSessionRequest())
        await sessions.begun.wait()
        call.cancel()
    assert answered == [("opensafe.v1.SessionService/CloseSession", "CANCELLED")]


async def test_what_a_service_of_grpc_aborts_with_is_counted(tmp_path):
    async with counted(tmp_path) as (_, channel, _, answered):
        stub: Any = health_pb2_grpc.HealthStub(channel)
        await stub.Check(health_pb2.HealthCheckRequest(service="none"))
    assert answered == [("grpc.health.v1.Health/Check", "NOT_FOUND")]


async def test_a_stream_is_counted_at_its_end(tmp_path):
    async with counted(tmp_path) as (_, channel, _, answered):
        asked = reflection_pb2.ServerReflectionRequest(list_services="")
        async for _ in _reflection(channel).ServerReflectionInfo(iter([asked])):
            pass
    assert answered == [("grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", "OK")]


async def test_what_nobody_offers_is_not_counted_under_a_name_of_the_clients(tmp_path):
    answered = []
    async with served(tmp_path, Sessions(), lambda *told: answered.append(told)) as (channel, _):
        with pytest.raises(grpc.aio.AioRpcError):
            await channel.unary_unary("/opensafe.v1.SessionService/Nothing")(b"")
    assert answered == []
