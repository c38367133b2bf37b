"""One path for the rules and every server, or none."""

import pytest

from opensafe.egress.paths import LONGEST, judged


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("/", "/"),
        ("/a/b.c", "/a/b.c"),
        ("/a?x=/../y#z", "/a"),
        ("/@scope%2Fname", "/@scope/name"),
        ("/a%20b", "/a b"),
        ("/%C3%A9", "/é"),
        ("/a;v=1/b", "/a;v=1/b"),
        ("/..a/b..", "/..a/b.."),
        ("/100%", "/100%"),
        ("/a/", "/a/"),
        ("/" + "a" * (LONGEST - 1), "/" + "a" * (LONGEST - 1)),
    ],
)
def test_a_plain_path_is_read(target, path):
    assert judged(target) == path


@pytest.mark.parametrize(
    "target",
    [
        "*",
        "",
        "http://host/a",
        "/a/../b",
        "/a/./b",
        "/a/..",
        "/a%2F..%2Fb",
        "/a/%2e%2e/b",
        "/a/..;/b",
        "/a/..;x=1/b",
        "/a//b",
        "/a%2F%2Fb",
        "/a%252e%252e",
        "/a%5Cb",
        "/a\\b",
        "/a%00b",
        "/a%0Ab",
        "/%FF",
        "/" + "a" * LONGEST,
    ],
)
def test_what_servers_could_read_differently_is_none(target):
    assert judged(target) == ""
