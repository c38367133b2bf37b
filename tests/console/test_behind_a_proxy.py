"""The console on a unix socket, where a proxy in front says who asks; and what it refuses to serve on."""

import os
import signal
import stat
import subprocess
import sys

import httpx2 as httpx
import pytest


def _command(*arguments):
    return [sys.executable, "-m", "opensafe.cli", "console", *arguments]


@pytest.fixture(scope="module")
def path(daemon):
    """A console that takes the word of whoever may use its socket."""
    path = daemon.run / "http.sock"
    process = subprocess.Popen(
        _command(
            f"--listen={path}",
            f"--socket={daemon.socket_of('reviewer')}",
            f"--socket={daemon.socket_of('agent')}",
            "--user-header=X-User",
            "--user=eve@site.test=reviewer",
            "--allow-host=console.site.test",
            "--tls",
        ),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout.readline() == f"serving on {path}\n"
        yield path
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        process.stdout.close()
    assert not path.exists()


def get(path, **headers):
    with httpx.Client(
        transport=httpx.HTTPTransport(uds=os.fspath(path)), base_url="http://console.site.test"
    ) as client:
        return client.get("/", headers=headers)


def test_the_socket_is_for_user_and_group_alone(path):
    assert stat.S_IMODE(path.stat().st_mode) == 0o660


def test_whom_the_proxy_names_is_served_as_the_principal(path):
    answer = get(path, **{"X-User": "eve@site.test"})
    assert answer.status_code == 200
    assert "eve@site.test" in answer.text
    assert "Sign out" not in answer.text


@pytest.mark.parametrize("user", ["", "mallory", "operator", "eve@site.test, agent"])
def test_whom_it_does_not_name_is_not(path, user):
    answer = get(path, **({"X-User": user} if user else {}))
    assert answer.status_code == 403
    assert "Tool-call trace" not in answer.text


def test_another_host_is_not_served(path):
    assert get(path, host="evil.test", **{"X-User": "agent"}).status_code == 421


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--listen=0.0.0.0:0",), "loopback or a unix socket"),
        (("--listen=nonsense",), "no address"),
        (("--listen=127.0.0.1:0", "--user-header=X-User"), "could name themselves"),
        (("--listen=/proc/none/http.sock",), "can't listen there"),
        (("--user=eve",), "USER=NAME"),
    ],
)
def test_what_would_let_others_in_is_not_served(daemon, arguments, why):
    ended = subprocess.run(
        _command(f"--socket={daemon.socket_of('reviewer')}", *arguments), capture_output=True, text=True, timeout=60
    )
    assert ended.returncode != 0
    assert why in ended.stderr
    assert "Traceback" not in ended.stderr
