"""The authority of the gateway: for the listed names alone, its key for root alone."""

import datetime as dt
import ipaddress
import os
import socket
import ssl
import threading

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from opensafe.errors import HostUnsuitable
from opensafe.warden.network.certificates import LEAF_VALID, Authority

NAME, OTHER = "api.example.com", "other.example.org"


@pytest.fixture
def key(tmp_path):
    return tmp_path / "egress-ca.key"


def handshake(authority, pem, name, directory):
    """A server with these and a client that trusts the authority: what the client says of it."""
    (directory / "leaf.pem").write_bytes(b"".join(pem))
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(directory / "leaf.pem")
    asking = ssl.create_default_context(cadata=authority.pem.decode())
    ours, theirs = socket.socketpair()
    with ours, theirs:

        def serve():
            try:
                serving.wrap_socket(theirs, server_side=True).close()
            except OSError:
                theirs.close()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            asking.wrap_socket(ours, server_hostname=name).close()
        finally:
            ours.close()
            thread.join()


def test_who_trusts_the_authority_trusts_a_listed_name(key, tmp_path):
    authority = Authority.of(key, [NAME])
    handshake(authority, authority.leaf(NAME), NAME, tmp_path)


@pytest.mark.parametrize("wanted", [OTHER, "sub." + NAME])
def test_but_under_no_other_name(key, tmp_path, wanted):
    authority = Authority.of(key, [NAME])
    with pytest.raises(ssl.SSLCertVerificationError, match="mismatch"):
        handshake(authority, authority.leaf(NAME), wanted, tmp_path)


def test_what_it_would_sign_beyond_its_list_is_not_believed(key, tmp_path):
    authority = Authority.of(key, [NAME])
    with pytest.raises(ssl.SSLCertVerificationError, match="permitted subtree"):
        handshake(authority, authority.leaf(OTHER), OTHER, tmp_path)


def test_nor_an_address(key, tmp_path):
    authority = Authority.of(key, [NAME])
    own, now = serialization.load_pem_private_key(key.read_bytes(), None), dt.datetime.now(dt.UTC)
    assert isinstance(own, ec.EllipticCurvePrivateKey)
    made = ec.generate_private_key(ec.SECP256R1())
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("192.0.2.1"))])
    leaf = (
        x509.CertificateBuilder(subject_name=x509.Name([]))
        .issuer_name(x509.load_pem_x509_certificate(authority.pem).subject)
        .public_key(made.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(address, critical=True)
        .sign(own, hashes.SHA256())
    )
    private = made.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    with pytest.raises(ssl.SSLCertVerificationError, match="subtree"):
        handshake(authority, (private, leaf.public_bytes(serialization.Encoding.PEM)), "192.0.2.1", tmp_path)


def test_a_leaf_is_short_lived_and_no_authority(key):
    _, pem = Authority.of(key, [NAME]).leaf(NAME)
    leaf = x509.load_pem_x509_certificate(pem)
    assert leaf.not_valid_after_utc - dt.datetime.now(dt.UTC) <= LEAF_VALID
    assert not leaf.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == [NAME]


def test_the_key_is_made_once_and_the_certificate_follows_the_names(key, tmp_path):
    first = Authority.of(key, [NAME])
    assert key.stat().st_mode & 0o777 == 0o600
    before = key.read_bytes()
    second = Authority.of(key, [NAME, OTHER])
    assert key.read_bytes() == before
    handshake(first, second.leaf(NAME), NAME, tmp_path)  # a sandbox that has the older certificate
    handshake(second, second.leaf(OTHER), OTHER, tmp_path)


@pytest.mark.root
@pytest.mark.parametrize("spoil", ["mode", "owner", "link", "garbage"])
def test_a_key_that_is_not_roots_alone_is_not_used(key, tmp_path, spoil):
    Authority.of(key, [NAME])
    if spoil == "mode":
        key.chmod(0o640)
    elif spoil == "owner":
        os.chown(key, 65534, 0)
    elif spoil == "garbage":
        key.write_text("nothing of that kind")
    else:
        key.rename(tmp_path / "elsewhere")
        key.symlink_to(tmp_path / "elsewhere")
    with pytest.raises((HostUnsuitable, OSError)) as refused:
        Authority.of(key, [NAME])
    assert b"PRIVATE" not in str(refused.value).encode()
