"""Who may ask the HTTP server, and from where."""

import os

import pytest

from opensafe import errors, listening
from opensafe.mcp import server
from opensafe.mcp.server_http import MAX_BODY, Door, Gate, read_token, serve
from opensafe.mcp.server_place import Wish

TOKEN = "t" * 32
DOOR = Door(host="127.0.0.1", port=0, token=TOKEN, names=("mcp.example.com",))


@pytest.mark.parametrize(
    ("text", "address"),
    [("127.0.0.1:80", ("127.0.0.1", 80)), ("[::1]:0", ("::1", 0)), ("localhost:1", ("127.0.0.1", 1))],
)
def test_addresses(text, address):
    assert listening.address(text, example="127.0.0.1:8765") == address


@pytest.mark.parametrize("text", ["", "80", ":80", "127.0.0.1", "example.com:80", "127.0.0.1:x", "127.0.0.1:70000"])
def test_what_is_no_address_is_refused(text):
    with pytest.raises(errors.InvalidArgument):
        listening.address(text, example="127.0.0.1:8765")


def token_file(path, content=TOKEN, mode=0o600):
    path.write_text(content)
    path.chmod(mode)
    return path


def test_a_token_file_of_its_owner_alone(tmp_path):
    assert read_token(token_file(tmp_path / "token", f"{TOKEN}\n")) == TOKEN


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o602])
def test_a_token_that_others_may_read_is_refused(tmp_path, mode):
    with pytest.raises(errors.NotPermitted):
        read_token(token_file(tmp_path / "token", mode=mode))


def test_a_token_of_another_user_is_refused(tmp_path, monkeypatch):
    path = token_file(tmp_path / "token")
    owner = os.stat(path).st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    if owner == 0:
        assert read_token(path) == TOKEN  # root's is as good
    else:
        with pytest.raises(errors.NotPermitted):
            read_token(path)


@pytest.mark.parametrize("content", ["", "short", "a b" * 20, "é" * 40, "x" * 5000, f"{TOKEN}\n{TOKEN}"])
def test_what_is_no_token_is_refused(tmp_path, content):
    with pytest.raises(errors.InvalidArgument):
        read_token(token_file(tmp_path / "token", content))


def test_a_link_a_directory_and_a_pipe_are_no_token_files(tmp_path):
    target = token_file(tmp_path / "token")
    (tmp_path / "link").symlink_to(target)
    os.mkfifo(tmp_path / "fifo", 0o600)
    for name in ("link", "fifo", "missing"):
        with pytest.raises(errors.InvalidArgument):
            read_token(tmp_path / name)
    with pytest.raises(errors.OpenSafeError):
        read_token(tmp_path)


async def status(door=DOOR, **given):
    """What a request with these headers is answered with; 200 is the application's own."""
    sent = []

    async def app(_scope, _receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message):
        sent.append(message)

    headers = {"host": "127.0.0.1:80", "authorization": f"Bearer {TOKEN}"} | given
    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items() if value is not None]
    await Gate(app, door, 80)({"type": "http", "headers": raw}, receive, send)
    return sent[0]["status"]


@pytest.mark.parametrize("host", ["127.0.0.1:80", "localhost:80", "LOCALHOST:80", "[::1]:80", "mcp.example.com"])
async def test_a_request_under_a_known_name_passes(host):
    assert await status(host=host) == 200


@pytest.mark.parametrize(
    "host", [None, "", "127.0.0.1", "127.0.0.1:81", "evil.example.com:80", "127.0.0.1:80.evil.example.com"]
)
async def test_a_foreign_host_is_refused_before_the_token(host):
    assert await status(host=host, authorization="Bearer wrong") == 421


async def test_an_origin_of_this_server_passes_and_a_foreign_one_does_not():
    assert await status(origin="http://127.0.0.1:80") == 200
    assert await status(origin="https://mcp.example.com") == 200
    for origin in ("http://evil.example.com", "null", "http://127.0.0.1:8080", "http://127.0.0.1:80.evil.com"):
        assert await status(origin=origin) == 403


@pytest.mark.parametrize(
    "header", [None, "", "Bearer", "Bearer ", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", f"Basic {TOKEN}", TOKEN]
)
async def test_a_wrong_token_is_refused(header):
    assert await status(authorization=header) == 401


async def test_the_scheme_has_no_case():
    assert await status(authorization=f"bearer {TOKEN}") == 200


async def test_without_a_token_everybody_on_loopback_passes():
    door = Door(host="127.0.0.1", port=0, token="")
    assert await status(door, authorization=None) == 200
    assert await status(door, authorization=None, host="evil.example.com:80") == 421


@pytest.mark.parametrize("length", [str(MAX_BODY + 1), "-1", "x", "9" * 100])
async def test_a_body_that_is_too_large_is_refused(length):
    assert await status(content_length=length) == 413


async def test_a_protocol_without_sessions_is_refused_with_those_that_have():
    assert await status(mcp_protocol_version="2026-07-28") == 400
    assert await status(mcp_protocol_version="2025-11-25") == 200


async def test_beyond_loopback_nobody_is_served_without_a_token():
    door = Door(host="0.0.0.0", port=0, token="")
    with pytest.raises(errors.NotPermitted):
        await serve(server.build(Wish()), door, lambda _: None)
