"""One directory per principal, in which the front binds that principal's socket: the path is the identity.

Mode 2750, owned by the service user and the principal's group: its members may reach the socket, the set-group-id
bit gives the socket their group, and nobody else gets past the directory.
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
        try:
            group = grp.getgrnam(settings.group).gr_gid
        except KeyError:
            raise HostUnsuitable(
                f"the group of principal {name} does not exist",
                value=settings.group,
                remedy=f"Create it (groupadd {settings.group}) or name another under [principals.{name}].",
            ) from None
        own = directory / name
        own.mkdir(mode=0o700, exist_ok=True)
        os.chown(own, service_uid, group, follow_symlinks=False)
        # After the owner, whose change clears the set-group-id bit.
        own.chmod(_MODE)
