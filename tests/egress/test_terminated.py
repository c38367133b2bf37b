"""TLS that ends in the gateway, in a whole daemon before a world of its own: what of the request is judged, who is
believed, and which secrets nobody but the server sees.
"""

import asyncio
import base64
import contextlib
import grp
import json
import pathlib

import pytest
import pytest_asyncio
from cryptography import x509

from opensafe.config import load
from opensafe.proof.planting import plant
from opensafe.proof.world.events import Kind
from opensafe.warden.network.termination import Terminator
from opensafe.warden.sandbox.layout import Layout
from tests.harness.daemon import running
from tests.harness.policy import site_bundle
from tests.harness.way_out import recorded

#: The world is read by a task of this loop.
pytestmark = pytest.mark.asyncio(loop_scope="module")

UPLINK = "10.203.236.0/30"
API, FREE, MISNAMED, PLAIN = "api.allowed.test", "free.allowed.test", "misnamed.allowed.test", "allowed.test"
SECRET = "real-secret-5e1f0c2d9b"
PLACEHOLDER = "opensafe-credential-hub"
#: So that a call is granted it.
NAMED = f"curl -s -o /dev/null https://{API}/"


@pytest.fixture(scope="module")
def daemon(world, tmp_path_factory):
    def change(settings):
        settings["hosts"]["allowed"] += [API, FREE, MISNAMED, PLAIN]
        settings["requests"][API] = {
            "methods": {"GET": True, "POST": True},
            "paths": ["/", "/hello", "/v1/*", "/echo"],
        }
        settings["images"]["dev"] = "any"

    directory = tmp_path_factory.mktemp("site")
    bundle, key = site_bundle(directory, change=change)
    file = directory / "hub"
    file.touch(mode=0o600)
    file.write_text(f"{SECRET}\n")
    egress = f'{world.egress(UPLINK)}upstream_ca = "{world.ca_file}"\n'
    egress += "".join(f'[[egress.terminate]]\nname = "{name}"\n' for name in (API, FREE, MISNAMED))
    egress += f'[[egress.credential]]\nname = "hub"\nhost = "{API}"\nfile = "{file}"\n'
    with running(egress=egress, bundle=bundle, key=key, staffed=True) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="module")
async def agent(daemon):
    async with daemon.client() as client:
        yield client


@pytest_asyncio.fixture(loop_scope="module")
async def place(agent):
    session = await agent.create_session("tester")
    sandbox = (await agent.create_sandbox(session)).sandbox
    yield session, sandbox.sandbox_id
    await agent.delete_sandbox(sandbox.sandbox_id)


async def run(agent, place, call_id, command):
    return await agent.run_call(*place, call_id, "Bash", {"command": command})


async def write(agent, place, name, content):
    await agent.run_call(*place, "write", "Write", {"path": f"/workspace/{name}", "content": content})


def heard(world, since, text):
    """Whether a server read this, of what came in TLS when it is out of it."""
    return any(text in event.data for event in world.log[since:] if event.kind in (Kind.DATA, Kind.REQUEST))


URLLIB = "import urllib.request\nprint(urllib.request.urlopen({url!r}, timeout=10).read().decode(), end='')\n"
REQUESTS = "import requests\nprint(requests.get({url!r}, timeout=10).text, end='')\n"


@pytest.mark.parametrize("version", ["--http1.1", "--http2"])
async def test_curl_trusts_it_in_both_versions_and_only_there_the_authority_is_ours(agent, place, version):
    result = await run(agent, place, "curl", f"curl -sSv {version} -m 10 https://{API}/hello")
    assert result.stdout == b"hello from the world\n", result.stderr
    assert b"issuer: CN=OpenSafe egress of this host" in result.stderr
    assert (b"HTTP/2 200" if version == "--http2" else b"HTTP/1.1 200") in result.stderr


async def test_python_trusts_it(agent, place):
    await write(agent, place, "go.py", URLLIB.format(url=f"https://{API}/hello"))
    result = await run(agent, place, "urllib", f"python3 go.py; {NAMED}")
    assert result.stdout == b"hello from the world\n", result.stderr


async def test_requests_trusts_it(agent):
    """The library brings authorities of its own, and takes ours by its variable."""
    session = await agent.create_session("tester")
    place = session, (await agent.create_sandbox(session, template="dev")).sandbox.sandbox_id
    script = REQUESTS.format(url=f"https://{API}/hello").replace("import requests", "from pip._vendor import requests")
    await write(agent, place, "go.py", script)
    result = await run(agent, place, "requests", f"python3 go.py; {NAMED}")
    assert result.stdout == b"hello from the world\n", result.stderr
    await agent.delete_sandbox(place[1])


async def test_git_trusts_it(agent, place):
    result = await run(agent, place, "clone", f"git clone https://{FREE}/project.git project")
    assert result.outcome.exit_code == 0, result.stderr


async def test_what_is_not_terminated_stays_end_to_end(agent, place, world):
    await write(agent, place, "world.pem", world.ca_pem.decode())
    seen = await run(agent, place, "through", f"curl -sSv -m 10 --cacert world.pem https://{PLAIN}/hello")
    assert seen.stdout == b"hello from the world\n", seen.stderr
    assert b"issuer: CN=OpenSafe test world" in seen.stderr
    ours = await run(agent, place, "ours", f"curl -sS -m 10 https://{PLAIN}/hello")
    assert (ours.stdout, ours.outcome.exit_code) == (b"", 60)


async def test_the_authority_can_sign_for_nobody_else(agent, place):
    await write(agent, place, "read.py", "import os; print(open(os.environ['NODE_EXTRA_CA_CERTS']).read())")
    result = await run(agent, place, "read", "python3 read.py")
    found = x509.load_pem_x509_certificate(result.stdout).extensions.get_extension_for_class(x509.NameConstraints)
    assert found.critical
    assert {one.value for one in found.value.permitted_subtrees} == {API, FREE, MISNAMED}
    assert {str(one.value) for one in found.value.excluded_subtrees} == {"0.0.0.0/0", "::/0"}


async def test_listed_methods_and_paths_pass_and_others_do_not_leave(daemon, agent, place, world):
    for number, path in enumerate(("/hello", "/v1/../hello", "/v1/%2e%2e/hello")):
        done = await run(agent, place, f"yes{number}", f"curl -sS --path-as-is -m 10 https://{API}{path}")
        assert done.stdout == b"hello from the world\n"
    posted = await run(
        agent, place, "post", f"curl -sS -m 10 -X POST https://{API}/v1/things -o /dev/null -w '%{{http_code}}'"
    )
    assert posted.stdout == b"404"  # the world's own
    since = len(world.log)
    for number, path in enumerate(("/admin", "/v1/..%2fadmin", "/v1/%252e%252e/admin", "/v1/%2e%2e/admin")):
        refused = await run(agent, place, f"no{number}", f"curl -sS --path-as-is -m 10 https://{API}{path}")
        assert b"egress.path.allowlist" in refused.stdout, path
    for method in ("DELETE", "PUT"):
        refused = await run(agent, place, method, f"curl -sS -m 10 -X {method} https://{API}/hello")
        assert b"egress.method.allowlist" in refused.stdout
    assert not any(event.kind is Kind.REQUEST for event in world.log[since:])
    record = await recorded(daemon, sandbox_id=place[1], layer="http", state="refused", method="DELETE")
    assert (record["name"], record["port"], record["rules"]) == (API, 443, ["egress.method.allowlist"])


async def test_a_host_without_a_list_has_the_sites_methods_and_any_path(agent, place):
    for method, status in (("GET", b"404"), ("DELETE", b"403")):
        command = f"curl -sS -m 10 -X {method} https://{FREE}/anything -o /dev/null -w '%{{http_code}}'"
        assert (await run(agent, place, f"free{method}", command)).stdout == status


async def test_fronting_another_host_inside_tls_does_not_leave(daemon, agent, place, world):
    since = len(world.log)
    both = f"curl -s https://{FREE}/ -o /dev/null"  # the call was granted both
    for number, host in enumerate(
        (FREE, f"{FREE}:443", f"{API}:8443", "denied.test", "198.51.100.20", f"{API},{FREE}")
    ):
        for version in ("--http1.1", "--http2"):
            command = f"curl -sS {version} -m 10 -H 'Host: {host}' https://{API}/hello; {both}"
            refused = await run(agent, place, f"front{number}{version}", command)
            assert b": " in refused.stdout, host  # a rule and why
    assert not any(event.data.startswith(b"GET /hello") for event in world.log[since:] if event.kind is Kind.REQUEST)
    assert not any(event.name.lower() == "denied.test" for event in world.log[since:])
    record = await recorded(daemon, sandbox_id=place[1], layer="http", state="refused", name=FREE)
    assert "egress.sni.mismatch.deny" in record["rules"]
    same = await run(agent, place, "same", f"curl -sS -m 10 -H 'Host: {API}:443' https://{API}/hello")
    assert same.stdout == b"hello from the world\n"


async def test_a_source_that_the_guest_names_is_not_believed(daemon, agent, place):
    names = ("x-forwarded-for", "opensafe.source", "x-envoy-external-address", "x-real-ip", "forwarded")
    forged = " ".join(f"-H '{name}: 10.201.0.99:1'" for name in names)
    result = await run(agent, place, "forged", f"curl -sS -m 10 {forged} https://{API}/")
    fields = json.loads(result.stdout)["fields"]
    assert not {"x-forwarded-for", "x-envoy-external-address"} & set(fields)
    record = await recorded(daemon, call_id="forged", layer="http", state="allowed")
    assert record["sandbox_id"] == place[1]


async def test_another_name_for_a_terminated_host_is_no_way_around(agent, place, world):
    """A final dot in the SNI would be another filter chain's."""
    script = (
        "import socket, ssl\n"
        "context = ssl._create_unverified_context()\n"
        f"for name in ({API!r}, {API + '.'!r}):\n"
        f"    made = socket.create_connection(({API!r}, 443), 5)\n"
        "    try: print(context.wrap_socket(made, server_hostname=name).version())\n"
        "    except OSError: print('refused')\n"
    )
    await write(agent, place, "dot.py", script)
    since = len(world.log)
    result = await run(agent, place, "dot", f"python3 dot.py; {NAMED}")
    assert result.stdout.split() == [b"TLSv1.3", b"refused"], result.stderr
    assert {event.name for event in world.log[since:] if event.kind is Kind.HELLO} == {API}


async def test_a_server_that_can_not_prove_its_name_hears_nothing(agent, place, world):
    since = len(world.log)
    result = await run(agent, place, "mis", f"curl -sS -m 10 https://{MISNAMED}/hello -w '%{{http_code}}'")
    assert result.stdout.endswith(b"503"), result.stdout
    assert any(event.kind is Kind.HELLO and event.name == MISNAMED for event in world.log[since:])  # it was dialled
    assert not any(event.kind in (Kind.REQUEST, Kind.DATA) for event in world.log[since:] if event.port == 443)


USES = {
    "bearer": f"-H 'Authorization: Bearer {PLACEHOLDER}'",
    "token": f"-H 'Authorization: token {PLACEHOLDER}'",
    "raw": f"-H 'Authorization: {PLACEHOLDER}'",
    "variable": '-H "Authorization: Bearer $OPENSAFE_CREDENTIAL_HUB"',
    "basic": f"-u me:{PLACEHOLDER}",
}


@pytest.mark.parametrize("how", USES)
async def test_the_server_reads_the_secret_and_the_guest_does_not(agent, place, world, how):
    since = len(world.log)
    result = await run(agent, place, how, f"curl -sS -m 10 {USES[how]} -D head https://{API}/ | tee body; cat head")
    sent = base64.b64encode(f"me:{SECRET}".encode()) if how == "basic" else SECRET.encode()
    assert heard(world, since, sent)
    assert not heard(world, since, PLACEHOLDER.encode())
    assert b'"authorization":"' in result.stdout  # the world echoes what it was sent
    assert SECRET.encode() not in result.stdout
    assert sent not in result.stdout


async def test_headers_of_the_answer_are_masked_and_no_others(agent, place):
    result = await run(agent, place, "echo", f"curl -sS -m 10 -D - {USES['bearer']} https://{API}/echo")
    lines = result.stdout.decode().splitlines()
    assert lines.count(f"x-echo: Bearer {'*' * len(SECRET)}") == 2
    assert "x-other: 1" in lines
    own = await run(
        agent, place, "own", f"curl -sS -m 10 -D - -H 'Authorization: Bearer their-own' https://{FREE}/echo"
    )
    assert own.stdout.decode().count("x-echo: Bearer their-own") == 2  # nothing was put in, nothing is masked


ASTRAY = {
    "another-host": f"-H 'Authorization: Bearer {PLACEHOLDER}' https://{FREE}/",
    "another-header": f"-H 'X-Token: {PLACEHOLDER}' https://{API}/",
    "basic-user": f"-u {PLACEHOLDER}:x https://{API}/",
    "url": f"'https://{API}/?token={PLACEHOLDER}'",
    "escaped-url": f"'https://{API}/v1/%6fpensafe-credential-hub'",
    "twice": f"-H 'Authorization: Bearer {PLACEHOLDER}' -H 'Authorization: Bearer {PLACEHOLDER}' https://{API}/",
    "plain-http": f"-H 'Authorization: Bearer {PLACEHOLDER}' http://{API}/",
    "plain-http-elsewhere": f"-H 'Authorization: Bearer {PLACEHOLDER}' http://{PLAIN}/",
    "no-such": f"-H 'Authorization: Bearer {PLACEHOLDER}2' https://{API}/",
}


@pytest.mark.parametrize("how", ASTRAY)
async def test_a_placeholder_astray_is_refused_and_does_not_leave(daemon, agent, place, world, how):
    since = len(world.log)
    result = await run(agent, place, f"astray-{how}", f"curl -sS -m 10 {ASTRAY[how]}")
    assert b"egress.credential.deny" in result.stdout, result.stderr
    assert not any(event.kind is Kind.REQUEST for event in world.log[since:])
    record = await recorded(daemon, call_id=f"astray-{how}", state="refused", layer="http")
    assert record["rules"] == ["egress.credential.deny"]


#: What a program of the guest's finds of it: its own memory's strings, all environments and all files it can read.
SEARCH = """
import os, pathlib
found = [os.environ["OPENSAFE_CREDENTIAL_HUB"]]
roots = [pathlib.Path(root) for root in ("/workspace", "/etc", "/tmp", "/.opensafe")]
places = [*pathlib.Path("/proc").glob("[0-9]*/environ"), *(one for root in roots for one in root.rglob("*"))]
for path in places:
    try: text = path.read_bytes()
    except OSError: continue
    if b"real-" + b"secret" in text: found.append(str(path))
print(found)
"""


async def test_the_secret_is_in_nothing_that_is_left_behind(daemon, agent, place):
    await run(agent, place, "use", f"curl -sS -m 10 {USES['bearer']} https://{API}/ -o answer")
    # Unpacked: of what a call wrote, policy would read that it looks into others' environments.
    await plant(agent.files(*place), "/workspace/search.py", SEARCH.encode())
    inside = await run(agent, place, "search", f"echo {PLACEHOLDER} > told; python3 search.py")
    assert inside.stdout.decode().strip() == str([PLACEHOLDER]), inside.stderr
    await recorded(daemon, call_id="use", layer="http", state="allowed")
    assert holding(daemon.state, PLACEHOLDER.encode())  # the control: of the call's arguments
    assert holding(daemon.state, SECRET.encode()) == []
    assert holding(daemon.run, SECRET.encode()) == []
    assert SECRET not in daemon.log.read_text()
    processes = [daemon.pid, daemon.child("front"), daemon.child("helper"), daemon.envoy()]
    assert told_of(processes, SECRET.encode()) == []
    admin = await admin_says(daemon, "/config_dump?include_eds", "/stats", "/certs", "/clusters")
    assert API in admin  # it was asked
    assert SECRET not in admin
    assert "PRIVATE KEY" not in admin


def told_of(processes, text):
    """Whose arguments or environment hold it."""
    places = [pathlib.Path(f"/proc/{pid}/{name}") for pid in processes for name in ("cmdline", "environ")]
    return [str(place) for place in places if text in place.read_bytes()]


def holding(directory, text):
    """Files in which it stands."""
    found = []
    for path in directory.rglob("*"):
        with contextlib.suppress(OSError):  # a mounted namespace is no file that can be read
            found += [path] if path.is_file() and text in path.read_bytes() else []
    return found


async def admin_says(daemon, *targets):
    said = ""
    for target in targets:
        argv = ("curl", "-s", "--unix-socket", str(daemon.run / "envoy" / "admin.sock"), f"http://admin{target}")
        asked = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE)
        said += (await asked.communicate())[0].decode()
    return said


async def test_no_other_process_of_its_user_reads_the_helpers_memory(daemon):
    """Such as a front under an attacker's control; which other processes can be read is the control."""
    helper, front = daemon.child("helper"), daemon.child("front")
    read = {}
    for pid in (helper, front):
        become = ("setpriv", "--reuid=opensafe", "--regid=opensafe", "--clear-groups")
        argv = (*become, "head", "-c0", f"/proc/{pid}/environ")
        read[pid] = await (await asyncio.create_subprocess_exec(*argv)).wait() == 0
    assert read == {helper: False, front: True}


async def test_keys_are_for_those_alone_who_need_them(daemon):
    key = (daemon.state / "egress-ca.key").stat()
    assert (key.st_uid, key.st_gid, key.st_mode & 0o777) == (0, 0, 0o600)
    below = list((daemon.run / "egress-tls").rglob("*"))
    assert len(below) == 5  # names, one file each, and who is believed
    for path in [daemon.run / "egress-tls", *below]:
        assert path.stat().st_uid == 0
        assert path.stat().st_mode & 0o027 == 0
    assert len(holding(daemon.run / "egress-tls" / "names", b"PRIVATE KEY")) == 3
    assert {path.parent.name for path in holding(daemon.run, b"PRIVATE KEY")} == {"names"}


async def test_a_renewed_certificate_is_taken_while_envoy_runs(daemon, agent, place):
    script = (
        "import hashlib, os, socket, ssl\n"
        "made = socket.create_connection((os.environ['HOST'], 443), 5)\n"
        "shown = ssl.create_default_context().wrap_socket(made, server_hostname=os.environ['HOST']).getpeercert(True)\n"
        "print(hashlib.sha256(shown).hexdigest())\n"
    )
    await write(agent, place, "shown.py", script)

    async def shown(call_id):
        result = await run(agent, place, call_id, f"{NAMED}; HOST={API} python3 shown.py")
        assert result.outcome.exit_code == 0, result.stderr
        return result.stdout

    before = await shown("before")
    settings = load(daemon.settings)
    terminator = Terminator(Layout.of(settings.paths), settings.egress)
    terminator._group = grp.getgrnam(settings.egress.user).gr_gid
    terminator._renew()
    async with asyncio.timeout(20):
        number = 0
        while await shown(f"after{number}") == before:
            number += 1
