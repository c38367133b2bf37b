"""Second places for checkpoints: an HTTPS server under a CA of its own, and a syslog daemon's socket."""

import asyncio
import contextlib
import datetime as dt
import ipaddress
import socket
import ssl

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def _name(text):
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _certificate(subject, key, issuer, signer, extensions):
    now = dt.datetime.now(dt.UTC)
    builder = x509.CertificateBuilder().subject_name(_name(subject)).issuer_name(_name(issuer))
    builder = builder.public_key(key.public_key()).serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(now - dt.timedelta(days=1)).not_valid_after(now + dt.timedelta(days=1))
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical=critical)
    return builder.sign(signer, hashes.SHA256())


def certify(directory, hostname="localhost"):
    """A CA (`ca.pem`) and a server's chain and key (`server.pem`) in `directory`."""
    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    ca_key_id = x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key())
    usage = {"digital_signature": True, "content_commitment": False, "key_encipherment": False}
    usage |= {"data_encipherment": False, "key_agreement": False, "key_cert_sign": True, "crl_sign": True}
    usage |= {"encipher_only": False, "decipher_only": False}
    ca = _certificate(
        "test CA",
        ca_key,
        "test CA",
        ca_key,
        [(x509.BasicConstraints(ca=True, path_length=0), True), (x509.KeyUsage(**usage), True), (ca_key_id, False)],
    )
    names = x509.SubjectAlternativeName([x509.DNSName(hostname), x509.IPAddress(ipaddress.ip_address("127.0.0.2"))])
    authority = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(ca_key_id)
    own = _certificate(hostname, key, "test CA", ca_key, [(names, False), (authority, False)])
    pem = serialization.Encoding.PEM
    (directory / "ca.pem").write_bytes(ca.public_bytes(pem))
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (directory / "server.pem").write_bytes(private + own.public_bytes(pem))
    return directory / "ca.pem", directory / "server.pem"


class Collector:
    """Takes POSTs. `requests`: (request line, body); `answer`: what it says next, None to say nothing."""

    def __init__(self):
        self.requests: asyncio.Queue[tuple[str, bytes]] = asyncio.Queue()
        self.answer: bytes | None = b"HTTP/1.1 204 No Content\r\n\r\n"
        self.port = 0

    @contextlib.asynccontextmanager
    async def serving(self, chain, port=0):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(chain)
        server = await asyncio.start_server(self._serve, "127.0.0.1", port, ssl=context)
        self.port = server.sockets[0].getsockname()[1]
        async with server:
            yield self

    async def _serve(self, reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = int(head.lower().partition("content-length: ")[2].partition("\r\n")[0])
        body = await reader.readexactly(length)
        await self.requests.put((head.partition("\r\n")[0], body))
        if self.answer is None:
            await reader.read()  # until the client is gone
        else:
            writer.write(self.answer)
        writer.close()


@contextlib.contextmanager
def syslog(path):
    """A syslog daemon's socket; the tests read from it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(str(path))
        path.chmod(0o666)
        receiver.setblocking(False)
        try:
            yield receiver
        finally:
            path.unlink()
