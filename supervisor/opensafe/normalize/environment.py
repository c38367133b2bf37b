"""What every program in the guest starts with. The shell parser relies on it, so it is a constant of the room."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

DEFAULT_CWD: Final = "/workspace"
GUEST_ENV: Final[Mapping[str, str]] = MappingProxyType(
    {
        "HOME": "/workspace",
        "LANG": "C.UTF-8",
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "TERM": "dumb",
    }
)
