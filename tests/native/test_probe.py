"""probe on the bare host: the control that must succeed, and how a refusal looks."""

import socket
import subprocess

import pytest

CLOSE, GETUID = 3, 102


@pytest.fixture
def probe(native):
    def run(*words, **options):
        done = subprocess.run(
            [native / "guest" / "probe", *map(str, words)], capture_output=True, timeout=20, **options
        )
        return done.returncode, done.stdout.decode()

    return run


def test_syscall_prints_the_raw_result(probe):
    status, output = probe("syscall", GETUID)
    assert (status, output) == (0, "result=0\n")


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ([9999], "errno=ENOSYS/38\n"),
        ([CLOSE, 77], "errno=EBADF/9\n"),
        ([CLOSE, "0xffffffff"], "errno=EBADF/9\n"),
        ([CLOSE, "-1"], "errno=EBADF/9\n"),
    ],
)
def test_syscall_prints_the_raw_errno(probe, words, answer):
    assert probe("syscall", *words) == (1, answer)


def test_read(probe, tmp_path):
    path = tmp_path / "canary"
    path.write_bytes(b"nonce\n")
    assert probe("read", path) == (0, "nonce\n")
    assert probe("read", tmp_path / "missing") == (1, "errno=ENOENT/2\n")
    assert probe("read", tmp_path) == (1, "errno=EISDIR/21\n")


def test_connect(probe):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert probe("connect", "127.0.0.1", port) == (0, "connected\n")
    assert probe("connect", "127.0.0.1", port) == (1, "errno=ECONNREFUSED/111\n")


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["syscall"],
        ["syscall", "x"],
        ["syscall", *range(8)],
        ["read"],
        ["connect", "127.0.0.1"],
        ["connect", "localhost", 80],
        ["connect", "127.1", 80],
        ["connect", "256.0.0.1", 80],
        ["connect", "1.2.3.4.5", 80],
        ["connect", "127.0.0.1", 65536],
    ],
)
def test_wrong_command_lines(probe, words):
    assert probe(*words) == (2, "")
