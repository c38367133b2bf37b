"""The world's certificate authority: one certificate per name that a client asks for, made when it is asked."""

import datetime as dt
import os
import ssl
import tempfile
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_VALID: Final = dt.timedelta(days=2)
_CONTEXTS_MAX: Final = 1024


class Authority:
    """A key that lives as long as this object. `pem`: the root that clients have to trust."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "OpenSafe test world")])
        usage = x509.KeyUsage(
            digital_signature=True,
            key_cert_sign=True,
            crl_sign=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        )
        self._root = (
            self._builder(self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        self.pem = self._root.public_bytes(serialization.Encoding.PEM)
        self._contexts: dict[str, ssl.SSLContext] = {}

    def context(self, name: str) -> ssl.SSLContext:
        """A server's side for a DNS name. What is no name that a certificate can hold gets `world.test`."""
        name = name.lower()
        if name not in self._contexts:
            if len(self._contexts) >= _CONTEXTS_MAX:
                self._contexts.clear()
            try:
                self._contexts[name] = self.fresh(name)
            except ValueError:
                return self.context("world.test")
        return self._contexts[name]

    def fresh(self, name: str) -> ssl.SSLContext:
        """As `context`, but the caller's own. Raises ValueError for what is no name."""
        key = ec.generate_private_key(ec.SECP256R1())
        leaf = (
            self._builder(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])]), key.public_key())
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        text = leaf.public_bytes(serialization.Encoding.PEM) + key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.NamedTemporaryFile() as file:  # the ssl module reads certificates from files alone
            file.write(text)
            file.flush()
            context.load_cert_chain(os.fspath(file.name))
        return context

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        now = dt.datetime.now(dt.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(hours=1))
            .not_valid_after(now + _VALID)
        )
