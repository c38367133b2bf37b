"""The program that a probe runs in the guest: its facts, a prelude of ways to send, and the probe's own lines.

It is Python without anything that has to be installed, and the same file runs as the control. `begin` fetches a page
of an allowed host under the run's nonce: the world's log of it is the proof that the run began, and that the way out
was open for what is allowed while everything else was tried.
"""

from collections.abc import Mapping
from typing import Final

from opensafe.proof.world import plan

from .policy import ENDED
from .probe import NetworkProbe, Scene

BEGIN: Final = "/hello?begin-"
#: Its own line at the end of the output.
DONE: Final = "probe done"
TRIED: Final = "tried "

_PRELUDE: Final = '''
import os, socket, ssl, struct, subprocess, sys, time
WAIT = 1.5

def say(what, outcome):
    print("tried", what, outcome, flush=True)

def attempt(what, work, *words):
    """Run it; say how it ended."""
    try:
        answer = work(*words)
    except Exception as error:
        say(what, type(error).__name__ + " " + str(error)[:120])
        return None
    say(what, repr(answer)[:120])
    return answer

def connect(address, port, wait=WAIT):
    return socket.create_connection((address, port), wait)

def tcp(address, port, data=b""):
    with connect(address, port) as peer:
        if data:
            peer.sendall(data)
        peer.settimeout(WAIT / 3)
        try:
            return peer.recv(400)
        except socket.timeout:
            return b""

def udp(address, port, data, family=socket.AF_INET):
    with socket.socket(family, socket.SOCK_DGRAM) as peer:
        peer.settimeout(WAIT / 3)
        peer.connect((address, port))
        peer.send(data)
        try:
            return peer.recv(400)
        except socket.timeout:
            return b""

def request(host, path="/hello", more="", method="GET"):
    head = method + " " + path + " HTTP/1.1\\r\\nHost: " + host + "\\r\\n" + more
    return (head + "Connection: close\\r\\n\\r\\n").encode("latin-1")

def http(address, host, path="/hello", more="", method="GET", port=80):
    answer = tcp(address, port, request(host, path, more, method))
    return answer.split(b"\\r\\n")[0]

def wrap(peer, name):
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context.wrap_socket(peer, server_hostname=name)

def tls(address, name, port=443, data=b""):
    with connect(address, port) as peer, wrap(peer, name) as inner:
        if data:
            inner.sendall(data)
            return inner.recv(400).split(b"\\r\\n")[0]
        return inner.version()

def absolute(form):
    """A request in the absolute form."""
    return tcp(front(), 80, request("allowed.test", "http://" + form + "/"))[:20]

def curl(*words):
    return subprocess.run(["curl", "-sS", "-m", "3", *words], capture_output=True).stderr[:100]

def fetch(name, path="/hello", port=80):
    return http(resolve(name), name, path, port=port)

def fetch_tls(name, path="/hello"):
    return tls(resolve(name), name, data=request(name, path))

def fetch_ended(path, host=ENDED):
    return tls(front(), ENDED, data=request(host, path))

def resolve(name):
    return socket.getaddrinfo(name, None, socket.AF_INET, socket.SOCK_STREAM)[0][4][0]

def question(name, kind=1):
    labels = b"".join(bytes([len(part)]) + part.encode() for part in name.split("."))
    return b"\\x12\\x34\\x01\\x00\\x00\\x01\\0\\0\\0\\0\\0\\0" + labels + b"\\0" + struct.pack("!HH", kind, 1)

def gateway():
    """The next hop, as the routing table has it (little-endian hexadecimal)."""
    for line in open("/proc/net/route").read().splitlines()[1:]:
        words = line.split()
        if words[1] == "00000000":
            return socket.inet_ntoa(struct.pack("<I", int(words[2], 16)))
    return "127.0.0.1"

def front():
    """Where an allowed web server answers."""
    return FRONT or resolve("allowed.test")

for _ in range(5):
    try:
        if b" 200 " in http(front(), "allowed.test", BEGIN + NONCE):
            break
    except OSError as error:
        say("begin", str(error))
    time.sleep(0.2)
'''


def build(probe: NetworkProbe, scene: Scene) -> bytes:
    """The whole program for one run."""
    facts: Mapping[str, object] = {
        "NONCE": scene.nonce,
        "SINK": scene.sink,
        "PRIVATE": scene.private,
        "SIX": scene.six,
        "PORT": scene.port,
        "FRONT": scene.front,
        "BEGIN": BEGIN,
        "HOST": plan.HOST,
        "ALLOWED": plan.ALLOWED,
        "RESOLVER": plan.RESOLVER,
        "METADATA": plan.METADATA,
        "ENDED": ENDED,
        "SINK_LABEL": plan.spell(scene.sink),
        "PRIVATE_LABEL": plan.spell(scene.private)[3:],
    }
    lines = [f"{name} = {value!r}" for name, value in facts.items()]
    return "\n".join([*lines, _PRELUDE, probe.program.strip(), f"print({DONE!r}, flush=True)", ""]).encode()
