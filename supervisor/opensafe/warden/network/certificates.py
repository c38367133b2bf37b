"""The installation's own authority for TLS that ends in the gateway, and what it signs for listed names.

Its key is made once and stays with root. Its certificate names the hosts that it may sign for and no address at all, as
critical constraints (RFC 5280, 4.2.1.10): whoever trusts it trusts it for those, and for names below them, which the
standard can't leave out. It is made anew with every start, as the names are the site's to change.
"""

import datetime as dt
import ipaddress
import os
import pathlib
import stat
from collections.abc import Sequence
from typing import Final, Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from ...disk import replace_file
from ...errors import HostUnsuitable

#: Of the authority's own certificate: sandboxes that live for long keep the one they were made with.
_VALID: Final = dt.timedelta(days=730)
LEAF_VALID: Final = dt.timedelta(days=7)
#: Clocks of guests may be late.
_BEFORE: Final = dt.timedelta(hours=1)
_KEY_MAX: Final = 4096
_NOT_MINE: Final = stat.S_IRWXG | stat.S_IRWXO
_EVERYWHERE: Final = (ipaddress.IPv4Network("0.0.0.0/0"), ipaddress.IPv6Network("::/0"))


class Authority:
    """`pem`: its certificate."""

    def __init__(self, key: ec.EllipticCurvePrivateKey, names: Sequence[str]) -> None:
        """names: it can sign for these, of which there is at least one."""
        self._key = key
        self._issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "OpenSafe egress of this host")])
        constraints = x509.NameConstraints(
            permitted_subtrees=[x509.DNSName(name) for name in names],
            excluded_subtrees=[x509.IPAddress(network) for network in _EVERYWHERE],
        )
        own = (
            self._builder(self._issuer, key.public_key(), _VALID)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(sign=True), critical=True)
            .add_extension(constraints, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        self.pem: Final = own.public_bytes(serialization.Encoding.PEM)

    @classmethod
    def of(cls, path: pathlib.Path, names: Sequence[str]) -> Self:
        """With the key in the file, which is made where there is none. Raises HostUnsuitable, OSError."""
        if not path.exists():
            made = ec.generate_private_key(ec.SECP256R1())
            replace_file(path, _private(made), mode=0o600, group=0)
        return cls(_read(path), names)

    def leaf(self, name: str) -> tuple[bytes, bytes]:
        """A new key and its certificate for exactly this name, both PEM."""
        key = ec.generate_private_key(ec.SECP256R1())
        made = (
            # No common name: it would be text that nobody should read, and is shorter than names may be.
            self._builder(x509.Name([]), key.public_key(), LEAF_VALID)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=True)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(sign=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        return _private(key), made.public_bytes(serialization.Encoding.PEM)

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, valid: dt.timedelta
    ) -> x509.CertificateBuilder:
        now = dt.datetime.now(dt.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._issuer)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _BEFORE)
            .not_valid_after(now + valid)
        )


def _read(path: pathlib.Path) -> ec.EllipticCurvePrivateKey:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        text = file.read(_KEY_MAX)
    if not stat.S_ISREG(found.st_mode) or found.st_uid != 0 or found.st_mode & _NOT_MINE:
        raise HostUnsuitable(
            "the key of the egress authority is not root's alone",
            value=f"{path}: {stat.filemode(found.st_mode)}, uid {found.st_uid}",
            remedy="Remove it, since others may have read it: another is made at the next start.",
        )
    try:
        key = serialization.load_pem_private_key(text, password=None)
    except ValueError as error:
        raise HostUnsuitable(f"the key of the egress authority can't be read: {error}", value=path) from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise HostUnsuitable("the key of the egress authority is of another kind", value=path, remedy="Remove it.")
    return key


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _usage(*, sign: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not sign,
        key_cert_sign=sign,
        crl_sign=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
