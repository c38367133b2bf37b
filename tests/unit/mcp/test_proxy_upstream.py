"""Starting a server on this host: what does not answer, does not start, or asks for itself."""

import asyncio
import contextlib
import os
import sys

import pytest

from opensafe import errors
from opensafe.mcp.proxy_framing import Bounds
from opensafe.mcp.proxy_places import OnHost
from opensafe.mcp.proxy_remote import Remote
from opensafe.mcp.proxy_upstream import ServerGone, Upstream


async def unheard():
    raise AssertionError("no server says that its tools changed")


def upstream(script, **bounds):
    return Upstream(OnHost(argv=(sys.executable, "-c", script)), Bounds(**bounds), unheard)


async def refused(server):
    """Why it does not start; it is closed, and nothing of it is left."""
    with pytest.raises(errors.OpenSafeError) as caught:
        await server.running()
    await server.close()
    return caught.value


async def test_a_server_that_never_answers_is_given_up(tmp_path):
    pid = tmp_path / "pid"
    script = f"import os, sys; open({str(pid)!r}, 'w').write(str(os.getpid())); sys.stdin.read()"
    error = await refused(upstream(script, start_s=1.0))
    assert isinstance(error, ServerGone)
    assert "did not answer" in str(error)
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


async def test_one_that_ends_at_once_says_how():
    error = await refused(upstream("raise SystemExit(7)"))
    assert error.value == "it ended: exited 7"


async def test_one_that_floods_at_once_is_not_started_again():
    server = upstream('while True: print(\'{"jsonrpc": "2.0", "method": "x"}\')')
    with pytest.raises(ServerGone):
        await server.running()
    await server.close()


@pytest.mark.parametrize("argv", [("/no/such/program",), ("a\0b",), ("/",)])
async def test_what_is_no_program_is_refused(argv):
    server = Upstream(OnHost(argv=argv), Bounds(), unheard)
    assert isinstance(await refused(server), errors.InvalidArgument)


async def test_a_url_where_nobody_listens_is_an_error():
    assert isinstance(await refused(Upstream(Remote(url="http://127.0.0.1:9/mcp"), Bounds(), unheard)), ServerGone)


@pytest.mark.parametrize(
    ("head", "body", "said"),
    [
        ("content-type: application/json", b"x" * 100_000, "more than 10000 bytes"),
        ("content-type: application/json\r\ncontent-encoding: gzip", b"\x1f\x8b", "not asked for"),
        ("content-type: text/event-stream", b"data: " + b"x" * 100_000, ""),
    ],
)
async def test_an_answer_over_http_that_is_larger_than_it_may_be_is_not_read(head, body, said):
    async def answer(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 200 OK\r\n{head}\r\nconnection: close\r\n\r\n".encode() + body)
        with contextlib.suppress(OSError):
            await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
        error = await refused(Upstream(Remote(url=url), Bounds(message_bytes=10_000), unheard))
    assert isinstance(error, ServerGone)
    assert said in str(error)


async def test_a_server_on_the_host_gets_little_of_our_environment(monkeypatch, capfd):
    monkeypatch.setenv("SECRET_TOKEN", "of ours")
    await refused(upstream("import os, sys; sys.exit(' '.join(sorted(os.environ)))"))
    said = capfd.readouterr().err
    assert "PATH" in said
    assert "SECRET_TOKEN" not in said


async def test_what_a_server_says_on_standard_error_steers_no_terminal_and_has_an_end(capfd):
    await refused(upstream("import sys; sys.stderr.write('\\x1b[2Jhello\\n' + 'x' * 600000); sys.exit(1)"))
    said = capfd.readouterr().err
    assert "[server] \\x1b[2Jhello" in said
    assert "\x1b" not in said
    assert len(said) < 400_000
