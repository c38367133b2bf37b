"""One directory per principal, in which the front binds that principal's socket: the path is the identity.

Mode 2750, owned by the service user and the principal's group: its members may reach the socket, the set-group-id
bit gives the socket their group, and nobody else gets past the directory. The metrics' socket has one as well.
"""

import grp
import os
import pathlib
from collections.abc import Mapping

from ...config import PrincipalSettings
from ...errors import HostUnsuitable

_MODE = 0o2750


def prepare(directory: pathlib.Path, principals: Mapping[str, PrincipalSettings], service_uid: int) -> None:
    """Make `directory`/NAME for each principal. Raises HostUnsuitable for a group that does not exist."""
    directory.mkdir(mode=0o755, parents=True, exist_ok=True)
    for name, settings in principals.items():
        prepare_one(directory / name, settings.group, service_uid, f"principal {name}")


def prepare_one(directory: pathlib.Path, group: str, service_uid: int, whose: str) -> None:
    """Make `directory` for a socket that is for `group`. Raises HostUnsuitable, which says `whose` group is missing."""
    try:
        gid = grp.getgrnam(group).gr_gid
    except KeyError:
        raise HostUnsuitable(
            f"the group of {whose} does not exist",
            value=group,
            remedy=f"Create it (groupadd {group}) or configure another.",
        ) from None
    directory.mkdir(mode=0o700, exist_ok=True)
    os.chown(directory, service_uid, gid, follow_symlinks=False)
    # After the owner, whose change clears the set-group-id bit.
    directory.chmod(_MODE)
