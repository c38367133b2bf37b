"""What termination needs on this host: the authority, the files that Envoy reads, and what guests are given to trust.

Envoy's user can read the keys of listed names for a week, and nothing with which others could be signed.
"""

import asyncio
import logging
import os
import pathlib
import shutil
from typing import Final

import msgspec

from ...config import EgressSettings
from ...disk import replace_file
from ...errors import HostUnsuitable
from ...model.termination import SYSTEM, variables
from ..sandbox.layout import GUEST_TRUST, Layout
from .certificates import Authority
from .envoy_config import Termination

_log = logging.getLogger(__name__)

_RENEW_S: Final = 86_400.0
_TRY_AGAIN_S: Final = 60.0
_KIND: Final = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"


class Terminator:
    """`open` puts everything in place, `run` renews it until cancelled, `close` takes it away."""

    def __init__(self, layout: Layout, settings: EgressSettings) -> None:
        """settings: which terminate something."""
        self._names = tuple(one.name for one in settings.terminate)
        self._upstream_ca = settings.upstream_ca
        self._directory = layout.run / "egress-tls"
        self._authority = Authority.of(layout.state / "egress-ca.key", self._names)
        self._group = 0
        self._mount_point = layout.guest / pathlib.PurePath(GUEST_TRUST).name
        #: For guests to trust, PEM; and what they have in their environment besides.
        self.pem: Final = self._authority.pem
        self.variables: Final = variables(settings.credential)
        self.told: Final = Termination(
            names=self._names,
            certificates=str(self._directory / "names"),
            trusted=str(self._directory / "trusted.pem"),
            headers=bool(settings.credential),
        )

    def open(self, group: int) -> None:
        """Write what Envoy reads. group: Envoy's own. Raises HostUnsuitable, OSError."""
        self._group = group
        try:
            self._mount_point.mkdir(mode=0o755, exist_ok=True)
        except OSError as error:
            raise HostUnsuitable(
                f"sandboxes have no place for what they are to trust: {error.strerror}",
                value=self._mount_point,
                remedy="Make this directory, or build the native programs again.",
            ) from error
        shutil.rmtree(self._directory, ignore_errors=True)
        for directory in (self._directory, self._directory / "names"):
            directory.mkdir(mode=0o750)
            os.chown(directory, 0, group)
        replace_file(self._directory / "trusted.pem", self._trusted(), mode=0o640, group=group)
        self._renew()

    async def run(self) -> None:
        """Renew the certificates, of which Envoy takes each as soon as it is there."""
        pause = _RENEW_S
        while True:
            await asyncio.sleep(pause)
            try:
                self._renew()
                pause = _RENEW_S
            except OSError as error:
                _log.error("the certificates of terminated names could not be renewed: %s", error)
                pause = _TRY_AGAIN_S

    def close(self) -> None:
        """Take the files away."""
        shutil.rmtree(self._directory, ignore_errors=True)

    def _renew(self) -> None:
        for name in self._names:
            key, certificate = self._authority.leaf(name)
            chain, private = (certificate + self.pem).decode(), key.decode()
            secret = {
                "@type": _KIND,
                "name": name,
                "tls_certificate": {
                    "certificate_chain": {"inline_string": chain},
                    "private_key": {"inline_string": private},
                },
            }
            content = msgspec.json.encode({"resources": [secret]})
            replace_file(self._directory / "names" / f"{name}.json", content, mode=0o640, group=self._group)

    def _trusted(self) -> bytes:
        """Whom upstreams are verified by."""
        places = [self._upstream_ca] if self._upstream_ca else [f"/{place}" for place in SYSTEM]
        for place in map(pathlib.Path, places):
            if place.is_file() and b"-----BEGIN CERTIFICATE-----" in (content := place.read_bytes()):
                return content
        raise HostUnsuitable(
            "there are no authorities to verify terminated names by",
            value=", ".join(places),
            remedy="Install ca-certificates, or set egress.upstream_ca.",
        )
