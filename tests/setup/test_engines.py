"""opa and runsc: which versions are taken, and in which order they are looked for."""

import hashlib
import http.server
import re
import threading
from pathlib import Path

import pytest

from tools.provision import engines
from tools.provision.download import UnreachableError, download
from tools.provision.runner import Runner, StepError
from tools.provision.site import Site
from tools.provision.toolchain import needed_by, parse_version

OPA = {"minimum": "1.22.3", "below": "2.0.0"}
RUNSC = {"minimum": "2026-08-17"}


@pytest.mark.parametrize("version", ["1.22.3", "1.22.10", "1.30.0"])
def test_opa_that_is_new_enough_is_taken(version):
    assert engines.opa_objection(f"Version: {version}\nBuild Commit: x\n", OPA) is None


@pytest.mark.parametrize("version", ["1.22.2", "0.70.0", "2.0.0", "none"])
def test_opa_of_another_version_is_refused(version):
    assert engines.opa_objection(f"Version: {version}\n", OPA)


@pytest.mark.parametrize("version", ["release-20260817.0", "release-20261102.0", "v0.0.0-20260905035102-160fafc42237"])
def test_runsc_with_the_fix_is_taken(version):
    assert engines.runsc_objection(f"runsc version {version}\nspec: 1.2.1\n", RUNSC) is None


@pytest.mark.parametrize("version", ["release-20260816.0", "0.0~20221219.0-1+b5", "v0.0.0-20260801000000-abcdef"])
def test_runsc_from_before_the_fix_is_refused_by_its_date(version):
    assert "CVE-2026-96812" in (engines.runsc_objection(f"runsc version {version}\n", RUNSC) or "")


@pytest.mark.parametrize("output", ["", "runsc version VERSION_MISSING\n", "runsc version release-2026\n"])
def test_runsc_that_hides_its_age_is_refused(output):
    assert "can't be told" in (engines.runsc_objection(output, RUNSC) or "")


@pytest.mark.parametrize(("version", "taken"), [("v1.76.0", True), ("v1.75.0", False), ("v2.13.0", False), ("", False)])
def test_jaeger_is_taken_by_the_version_in_its_answer(version, taken):
    answer = f'{{"gitCommit":"","gitVersion":"{version}","buildDate":""}}'
    assert (engines.jaeger_objection(answer, {"minimum": "1.76.0", "below": "2.0.0"}) is None) is taken


class Host:
    """A prefix and a PATH of the test's own, with programs that print a version."""

    def __init__(self, root, monkeypatch):
        self.path = root / "host"
        self.path.mkdir()
        monkeypatch.setenv("PATH", f"{self.path}:/usr/bin:/bin")
        pin = {**OPA, "module": "example.test/opa", "package": "example.test/opa", "ldflags": "", "release": []}
        self.pin = pin
        self.site = Site(root=root / "checkout", prefix=root / "prefix", pins={"opa": pin})
        self.said: list[str] = []
        self.opa = engines.opa(self.site)

    def program(self, name, text):
        file = self.path / name
        file.write_text(f"#!/bin/sh\n{text}\n")
        file.chmod(0o755)
        return file

    def execute(self):
        self.opa.execute(Runner(log=self.site.logs / "opa.log", say=self.said.append))


@pytest.fixture
def host(tmp_path, monkeypatch):
    return Host(tmp_path, monkeypatch)


def test_a_host_program_that_is_new_enough_is_copied(host):
    program = host.program("opa", "echo Version: 1.23.0")
    assert not host.opa.is_done()
    host.execute()
    assert host.opa.is_done()
    assert host.opa.path.read_bytes() == program.read_bytes()
    assert not host.opa.path.is_symlink()


def test_a_program_exchanged_behind_the_stamp_is_checked_again(host):
    host.program("opa", "echo Version: 1.23.0")
    host.execute()
    host.opa.path.write_text("#!/bin/sh\necho Version: 1.0.0  # older\n")
    assert not host.opa.is_done()


def test_an_old_host_program_is_left_alone_and_the_release_taken_by_checksum(host, server):
    old = host.program("opa", "echo Version: 1.0.0")
    before = old.read_bytes()
    release = b"#!/bin/sh\necho Version: 1.22.3\n"
    server.content = release
    host.pin["release"] = [
        {"arch": arch, "url": server.url, "sha256": hashlib.sha256(release).hexdigest()}
        for arch in ("x86_64", "aarch64")
    ]
    host.execute()
    assert host.opa.path.read_bytes() == release
    assert old.read_bytes() == before
    assert any("left alone" in line and "1.0.0" in line for line in host.said)


def test_a_release_with_another_checksum_stops_the_step_and_leaves_nothing(host, server):
    server.content = b"something else"
    host.pin["release"] = [{"arch": arch, "url": server.url, "sha256": "0" * 64} for arch in ("x86_64", "aarch64")]
    with pytest.raises(StepError, match="not the pinned file"):
        host.execute()
    assert list(host.opa.path.parent.iterdir()) == []


def test_without_a_release_the_module_is_built_readonly_and_without_cgo(host, tmp_path):
    host.pin.update(module="github.com/open-policy-agent/opa", package="github.com/open-policy-agent/opa")
    seen = tmp_path / "seen"
    host.program(
        "go",
        f'[ "$1" = version ] && echo "go version go1.99.0 linux/amd64" && exit\n'
        f'printf "%s\\n" "$CGO_ENABLED" "$GOFLAGS" "$GOTOOLCHAIN" >{seen}\n'
        'while [ "$1" != -o ]; do shift; done\n'
        'printf "#!/bin/sh\\necho Version: 1.22.3\\n" >"$2"',
    )
    host.execute()
    assert seen.read_text().split() == ["0", "-mod=readonly", "local"]
    assert host.opa.is_done()


def test_a_build_that_fails_says_what_else_to_do(host):
    host.pin.update(module="github.com/open-policy-agent/opa")
    host.program("go", '[ "$1" = version ] && echo "go version go1.99.0" && exit\necho no route >&2; exit 1')
    with pytest.raises(StepError) as failure:
        host.execute()
    assert failure.value.output == "no route"
    assert "put opa >= 1.22.3 on PATH" in failure.value.remedy
    assert not host.opa.is_done()


@pytest.mark.parametrize("name", ["opa", "runsc", "jaeger"])
def test_every_pinned_module_has_its_hashes(name):
    module = Path(engines.__file__).with_name("go") / name
    assert needed_by(module) >= (1, 26)
    required = re.findall(r"^(?:require |\t)(\S+) (v\S+)", (module / "go.mod").read_text(), re.MULTILINE)
    hashes = (module / "go.sum").read_text()
    assert len(required) > 20
    assert [f"{path} {version}" for path, version in required if f"{path} {version}/go.mod h1:" not in hashes] == []


@pytest.mark.parametrize(
    ("text", "version"), [("go version go1.26.8 linux/amd64", (1, 26, 8)), ("go1.27", (1, 27)), ("devel", None)]
)
def test_versions_are_read_from_what_go_prints(text, version):
    assert parse_version(text) == version


class _Server(http.server.HTTPServer):
    content = b"what is served"

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}/file"


class _Handler(http.server.BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.server.content)

    def log_message(self, format, *args):  # noqa: A002 - the name is the base class's
        pass


@pytest.fixture
def server():
    with _Server(("127.0.0.1", 0), _Handler) as listening:
        serving = threading.Thread(target=listening.serve_forever)
        serving.start()
        yield listening
        listening.shutdown()
        serving.join()


def test_a_download_with_the_pinned_checksum_is_kept(server, tmp_path):
    wanted = hashlib.sha256(server.content).hexdigest()
    assert download(server.url, wanted, tmp_path / "file").read_bytes() == server.content


def test_a_host_that_does_not_answer_is_no_failure_of_the_step(server, tmp_path):
    server.server_close()
    with pytest.raises(UnreachableError):
        download("http://127.0.0.1:1/file", "0" * 64, tmp_path / "file")
    assert not (tmp_path / "file").exists()
