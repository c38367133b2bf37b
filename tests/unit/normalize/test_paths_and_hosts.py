"""Paths by component, hosts by one reading, classes from tables."""

import pytest

from opensafe.errors import InvalidArgument, LimitExceeded
from opensafe.model.facts import ClassTables
from opensafe.normalize.paths import classify, contains, path_classifier, relative, resolve
from opensafe.normalize.urls import classify_host, parse_host

TABLES = ClassTables(
    paths={
        "workspace": ("/workspace/",),
        "secret": ("/etc/shadow", "**/.env", "**/.ssh/", "**/*key*.pem", "/etc/ssh/ssh_host_*_key"),
        "system": ("/etc/",),
        "proc": ("/proc/*/environ",),
    },
    hosts={"allowed": ("docs.example", "*.example.org"), "odd": ("B\u00fccher.example",)},
)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        pytest.param("/workspace/../../../etc/passwd", "/etc/passwd", id="G38-climb"),
        pytest.param("a/../../../etc/hostname", "/etc/hostname", id="B17-relative-climb"),
        pytest.param("../workspace-evil/f", "/workspace-evil/f", id="B18-sibling"),
        pytest.param("//etc//passwd", "/etc/passwd", id="G1-double-slash"),
        pytest.param("./a/./b/", "/workspace/a/b", id="dots"),
        pytest.param("/..", "/", id="above-root"),
        pytest.param("%2e%2e/x", "/workspace/%2e%2e/x", id="G1-no-decoding"),
        pytest.param("...", "/workspace/...", id="three-dots-is-a-name"),
    ],
)
def test_a_path_is_resolved_by_component(path: str, expected: str) -> None:
    assert resolve(path, "/workspace") == expected


@pytest.mark.parametrize(
    ("root", "path", "inside"),
    [
        pytest.param("/workspace", "/workspace-evil/f", False, id="B18-sibling-prefix"),
        pytest.param("/workspace", "/workspace/f", True, id="B18-twin"),
        pytest.param("/workspace", "/workspace", True, id="the-root-itself"),
        pytest.param("/", "/etc", True, id="everything"),
        pytest.param("/workspace", "/etc/hostname", False, id="B16-outside"),
    ],
)
def test_containment_is_by_component(root: str, path: str, inside: bool) -> None:
    assert contains(root, path) is inside


def test_relative_to_a_root() -> None:
    assert relative("/workspace", "/workspace") == "."
    assert relative("/workspace", "/workspace/a/b") == "a/b"
    assert relative("/", "/a") == "a"


def test_a_path_that_is_none_is_refused_by_type() -> None:
    for bad in ("", "a\0b"):
        with pytest.raises(InvalidArgument):
            resolve(bad, "/workspace")
    with pytest.raises(InvalidArgument):
        resolve("a", "relative")
    with pytest.raises(LimitExceeded, match="4096"):
        resolve("é" * 2048 + "/", "/")


@pytest.mark.parametrize(
    ("path", "classes"),
    [
        ("/workspace", {"workspace"}),
        ("/workspace-evil/f", set()),
        ("/workspace/src/a.py", {"workspace"}),
        ("/workspace/a/.env", {"workspace", "secret"}),
        ("/workspace/a/.env.example", {"workspace"}),
        ("/workspace/.env/x", {"workspace"}),
        ("/root/.ssh/id", {"secret"}),
        ("/etc/shadow", {"secret", "system"}),
        ("/etc/shadow/x", {"system"}),
        ("/etc/ssh/ssh_host_rsa_key", {"secret", "system"}),
        ("/proc/1/environ", {"proc"}),
        ("/proc/1/2/environ", set()),
        ("/x/my-key-1.pem", {"secret"}),
        ("/", set()),
    ],
)
def test_classes_of_a_path(path: str, classes: set[str]) -> None:
    assert classify(path, TABLES) == dict.fromkeys(classes, True)


@pytest.mark.parametrize(
    ("pattern", "classes", "certain"),
    [
        pytest.param("/etc/sh*dow", {"system", "secret"}, False, id="PE-02-glob-reaches-a-secret"),
        pytest.param("/e?c/shadow", {"system", "secret"}, False, id="PE-02-glob-in-a-directory"),
        pytest.param("/etc/*", {"system", "secret"}, False, id="PE-02-star-below-a-root"),
        pytest.param("/workspace/src/*.py", {"workspace"}, True, id="benign-twin"),
        pytest.param("/workspace/*", {"workspace"}, True, id="benign-star"),
        pytest.param("/workspace/.e*", {"workspace", "secret"}, False, id="glob-names-dotenv"),
        pytest.param("/work*/a", {"workspace"}, False, id="glob-may-leave-the-workspace"),
    ],
)
def test_classes_of_a_glob(pattern: str, classes: set[str], certain: bool) -> None:
    assert path_classifier(TABLES).classify_glob(pattern) == (dict.fromkeys(classes, True), certain)


@pytest.mark.parametrize("name", [".env." + "x" * 40, "a" * 40])
def test_f4_a_long_name_beside_a_glob_is_no_exception(name: str) -> None:
    tables = ClassTables(paths={"secret": ("**/.env*", "/etc/", "!**/.env.example", "!/etc/public/")})
    classifier = path_classifier(tables)
    assert classifier.classify_glob(f"/etc/{name}/*") == ({"secret": True}, True)
    assert classifier.classify_glob(f"/src/*/{name}") == (classifier.classify(f"/src/a/{name}"), True)
    assert classifier.classify_glob("/etc/public/*") == ({}, True)


@pytest.mark.parametrize(
    ("text", "name", "port"),
    [
        pytest.param("evil.example.com", "evil.example.com", None, id="bare-host"),
        pytest.param("HTTPS://ExAmple.COM./x", "example.com", 443, id="case-and-trailing-dot"),
        pytest.param("https://allowed.test:pw@denied.test/", "denied.test", 443, id="B35-userinfo"),
        pytest.param("http://2130706433/", "127.0.0.1", 80, id="SSRF-decimal"),
        pytest.param("http://0x7f000001/", "127.0.0.1", 80, id="SSRF-hex"),
        pytest.param("http://0177.0.0.01/", "127.0.0.1", 80, id="SSRF-octal"),
        pytest.param("http://127.1:8080/", "127.0.0.1", 8080, id="SSRF-short"),
        pytest.param("http://[::ffff:127.0.0.1]/", "127.0.0.1", 80, id="B32-mapped"),
        pytest.param("http://[::ffff:0:7f00:1]/", "127.0.0.1", 80, id="B33-translated"),
        pytest.param("http://[64:ff9b::7f00:1]/", "127.0.0.1", 80, id="B33-nat64"),
        pytest.param("[::1]:80", "::1", 80, id="ipv6"),
        pytest.param("::1", "::1", None, id="ipv6-bare"),
        pytest.param("http://１２７.０.０.１/", "127.0.0.1", 80, id="PE-12-fullwidth-digits"),
        pytest.param("http://bücher.example/", "xn--bcher-kva.example", 80, id="idna"),
        pytest.param("//a.example/x", "a.example", None, id="scheme-relative"),
        pytest.param("https://a.example/?next=a|b", "a.example", 443, id="odd-query"),
        pytest.param("_srv.a.example:1", "_srv.a.example", 1, id="underscore"),
    ],
)
def test_a_host_has_one_spelling(text: str, name: str, port: int | None) -> None:
    fact = parse_host(text)
    assert fact is not None
    assert (fact.name, fact.port) == (name, port)
    assert fact.userinfo is ("@" in text)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("http://127.0.0.1:6666\\@192.0.2.1/", id="B36-backslash"),
        pytest.param("https://denied.test\0.allowed.test/", id="B37-nul"),
        pytest.param("https://denied.test%00.allowed.test/", id="B37-percent-nul"),
        pytest.param("http://a.test%2eb.test/", id="B37-percent-dot"),
        pytest.param("http://a@b@c.test/", id="B35-two-ats"),
        pytest.param("http://a..test/", id="empty-label"),
        pytest.param("http://a.test\t.b/", id="tab"),
        pytest.param("http://a.test\r\nHost: b/", id="crlf"),
        pytest.param("http://a test/", id="space"),
        pytest.param("http://a.test:99999/", id="port-too-large"),
        pytest.param("http://a.test:0/", id="port-zero"),
        pytest.param("http://a.test:８０/", id="fullwidth-port"),
        pytest.param("http://256.1.1.1/", id="no-address"),
        pytest.param("http://1.2.3.4.5/", id="five-parts"),
        pytest.param("http://08.0.0.1/", id="bad-octal"),
        pytest.param("http://[::1%25eth0]/", id="zone"),
        pytest.param("http://[::1/", id="open-bracket"),
        pytest.param("http:///x", id="no-host"),
        pytest.param("http://-a.test/", id="leading-hyphen"),
        pytest.param("*.a.test", id="B37-wildcard"),
        pytest.param("", id="empty"),
    ],
)
def test_what_two_parsers_read_differently_is_no_host(text: str) -> None:
    assert parse_host(text) is None


@pytest.mark.parametrize(
    ("name", "classes"),
    [
        pytest.param("docs.example", {"allowed"}, id="exact"),
        pytest.param("a.b.example.org", {"allowed"}, id="deeper"),
        pytest.param("example.org", set(), id="B38-apex"),
        pytest.param("notexample.org", set(), id="B38-suffix"),
        pytest.param("docs.example.evil.test", set(), id="B38-prefix"),
        pytest.param("xn--bcher-kva.example", {"odd"}, id="idna-in-tables"),
        pytest.param("169.254.169.254", {"metadata", "link_local", "private"}, id="metadata-address"),
        pytest.param("metadata.google.internal", {"metadata"}, id="metadata-name"),
        pytest.param("fd00:ec2::254", {"metadata", "private"}, id="metadata-v6"),
        pytest.param("10.0.0.5", {"private"}, id="private"),
        pytest.param("fec0::1", {"private"}, id="F5-site-local-v6"),
        pytest.param("5f00::1", {"private"}, id="F5-segment-v6"),
        pytest.param("3fff::1", {"private"}, id="F5-documentation-v6"),
        pytest.param("2606:4700:4700::1111", set(), id="F5-internet-v6"),
        pytest.param("127.0.0.1", {"loopback", "private"}, id="loopback"),
        pytest.param("0.0.0.0", {"loopback", "private"}, id="G14-unspecified"),
        pytest.param("a.localhost", {"loopback"}, id="localhost"),
        pytest.param("93.184.216.34", set(), id="public"),
    ],
)
def test_classes_of_a_host(name: str, classes: set[str]) -> None:
    assert classify_host(name, TABLES) == dict.fromkeys(classes, True)
