"""The site's credentials, read from files that are root's alone. They go to the egress helper and nowhere else."""

import os
import pathlib
import stat
from collections.abc import Iterable
from typing import Final

from ..errors import ConfigError
from ..model.termination import Credential, CredentialSettings
from ..model.upstream_proxy import ProxySettings

#: Set by systemd for LoadCredential= (systemd.exec(5)).
_DIRECTORY: Final = "CREDENTIALS_DIRECTORY"
#: Shorter ones would be masked in answers where they only look alike; longer ones fit into no header.
_LEAST, _MOST = 8, 8192


def read(settings: Iterable[CredentialSettings]) -> tuple[Credential, ...]:
    """With their secrets: one line of visible ASCII each. Raises ConfigError, which has the file and never the text."""
    return tuple(
        Credential(
            name=one.name,
            host=one.host,
            header=one.header,
            secret=_read(
                one.file, f"the credential {one.name}", 0x21, "Write the token alone into it, without its scheme."
            ),
        )
        for one in settings
    )


def read_authorization(proxy: ProxySettings) -> str:
    """What Proxy-Authorization says, scheme and all, "" without a file. Raises as `read` does."""
    if not proxy.authorization_file:
        return ""
    remedy = 'Write "Basic " and the base64 of user:password into it, or another scheme and its token.'
    return _read(proxy.authorization_file, "egress.proxy.authorization_file", 0x20, remedy).decode("ascii")


def _read(named: str, what: str, least: int, remedy: str) -> bytes:
    """least: the first character that may be in it."""
    path = pathlib.Path(named)
    if not path.is_absolute():
        path = pathlib.Path(os.environ.get(_DIRECTORY, "/run/credentials")) / named
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            text = file.read(_MOST + 2)
    except OSError as error:
        raise ConfigError(
            f"{what} can't be read: {error.strerror}",
            value=path,
            remedy="Write the secret into it, for root alone, or load it by systemd's LoadCredential.",
        ) from error
    if not stat.S_ISREG(found.st_mode) or found.st_uid != 0 or found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ConfigError(
            f"{what} is not in a file of root's alone",
            value=f"{path}: {stat.filemode(found.st_mode)}, uid {found.st_uid}",
            limit="-rw------- or less, uid 0",
            remedy=f"chown root {path} && chmod 400 {path}; where others could read it, replace the secret.",
        )
    secret = text.removesuffix(b"\n").removesuffix(b"\r")
    if not _LEAST <= len(secret) <= _MOST or not all(least <= byte <= 0x7E for byte in secret):
        raise ConfigError(
            f"{what} is not one line of visible ASCII",
            value=f"{path}: {len(secret)} bytes",
            limit=f"{_LEAST} to {_MOST} bytes" + (", no blanks" if least > 0x20 else ""),
            remedy=remedy,
        )
    return secret
