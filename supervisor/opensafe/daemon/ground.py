"""What the root process puts in place before there are children: archived keys, and the children's directories.

It reads and copies bytes; what they mean is for processes without privilege to find out.
"""

import hashlib
import os
import pathlib
import pwd
import stat
from typing import Final

from opensafe.config import Config
from opensafe.errors import ConfigError, StartError
from opensafe.policy.location import keys_directory
from opensafe.warden.bundles import keep

#: Directories below the state directory that belong to the service user.
OWNED: Final = ("front", "helper")
_KEY_BYTES: Final = 4096
_KEYS: Final = 16


def lay(config: Config) -> tuple[str, ...]:
    """Make the children's directories and archive the trusted keys; the keys' texts.

    Raises ConfigError, and StartError where the disk is full or the state directory can't be written.
    """
    texts = _trusted_keys(config)
    state = pathlib.Path(config.paths.state)
    try:
        _make(config, state, texts)
    except OSError as error:
        raise StartError(
            f"the state directory can't be written: {error.strerror}",
            value=error.filename or state,
            remedy="Make room on its file system, and see that root can write there; or set paths.state.",
        ) from error
    return texts


def _make(config: Config, state: pathlib.Path, texts: tuple[str, ...]) -> None:
    state.mkdir(mode=0o755, parents=True, exist_ok=True)
    keys_directory(state).mkdir(mode=0o755, exist_ok=True)
    for text in texts:
        keep(keys_directory(state) / f"{hashlib.sha256(text.encode()).hexdigest()}.pub", text.encode())
    try:
        account = pwd.getpwnam(config.service.user)
    except KeyError:
        return  # the warden refuses, with the reason
    for name in OWNED:
        directory = state / name
        directory.mkdir(mode=0o700, exist_ok=True)
        os.chown(directory, account.pw_uid, account.pw_gid, follow_symlinks=False)


def _trusted_keys(config: Config) -> tuple[str, ...]:
    paths = config.policy.trusted_keys
    if not 0 < len(paths) <= _KEYS:
        raise ConfigError(
            "the keys whose bundles are taken must be named",
            value=f"{len(paths)} keys",
            limit=f"1 to {_KEYS}",
            remedy="Set policy.trusted_keys to public key files; `opensafe policy keygen DIR` makes a pair.",
        )
    return tuple(_read(pathlib.Path(path)) for path in paths)


def _read(path: pathlib.Path) -> str:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            content = file.read(_KEY_BYTES + 1) if stat.S_ISREG(found.st_mode) else b""
    except OSError as error:
        raise ConfigError(
            f"a trusted key can't be read: {error.strerror}",
            value=path,
            remedy="`make setup` makes a key pair for a checkout; else set policy.trusted_keys.",
        ) from error
    if found.st_uid != 0 or found.st_mode & 0o022:
        raise ConfigError(
            "a trusted key that others than root can change", value=path, remedy=f"chown root {path}; chmod 644 {path}"
        )
    if not content.startswith(b"-----BEGIN PUBLIC KEY-----") or len(content) > _KEY_BYTES or not content.isascii():
        raise ConfigError("a trusted key is no public key in PEM", value=path)
    return content.decode("ascii")
