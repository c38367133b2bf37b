"""What `opensafe mcp proxy` refuses before it asks anybody."""

import pytest

from opensafe.cli.app import run


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "one server is needed"),
        (["--url", "http://x/mcp", "--", "server"], "one server is needed"),
        (["--url", "http://x/mcp", "--on-host"], "not started by the proxy"),
        (["--url", "file:///etc/passwd"], "no URL of HTTP"),
        (["--on-host", "--sandbox", "base", "--", "server"], "there is no sandbox"),
        (["--name", "a__b", "--", "server"], "a server's name"),
        (["--name", "../x", "--", "server"], "a server's name"),
        (["--", "…"], "a server's name"),
        (["--", "python3", "server.py"], "a server's name"),
        (["--http", "127.0.0.1:0", "--", "server"], "a token is needed"),
        (["--env", "NAME", "--", "server"], "no NAME=VALUE"),
        (["--url", "http://x/mcp", "--bearer-env", "OPENSAFE_NO_SUCH"], "is not set"),
    ],
)
def test_wrong_usage_is_refused(words, said, capsys):
    assert run(["mcp", "proxy", *words]) == 197
    assert said in capsys.readouterr().err


def test_pins_are_shown_and_changed_by_hand(tmp_path, capsys):
    at = ["--pins", str(tmp_path)]
    digest = "1" * 64
    assert run(["mcp", "approve", "plain", "add", digest, *at]) == 0
    assert run(["mcp", "pins", "plain", *at]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"{digest}  add"
    assert run(["mcp", "approve", "plain", "add", "short", *at]) == 197
    assert run(["mcp", "pins", "../plain", *at]) == 197
