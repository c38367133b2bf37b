"""What may be asked of a sandbox, and what is executed in it.

`SandboxSpec` and `Launch` are *subjects*: the digest of the one that was decided stands in the decision record,
and the warden recomputes it from what it is asked to do. Template and profile are names of things the warden
itself holds; no host path, flag or OCI fragment can be expressed.
"""

from typing import Annotated

import msgspec

from .calls import Program
from .canonical import digest
from .limits import CallLimits, SandboxLimits

Name = Annotated[str, msgspec.Meta(pattern=r"^[a-z][a-z0-9-]{0,31}\Z")]


ImageDigest = Annotated[str, msgspec.Meta(pattern=r"^(sha256:[0-9a-f]{64})?\Z")]
#: Network profiles: loopback and no way out, or a link to the gateway, which lets a running call reach its grant.
NO_NETWORK = "none"
GATEWAY = "gateway"
#: The sandbox's own user, who owns /workspace: whom every program runs as that asks for nobody else.
OWN_UID = 1000


class SandboxSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A sandbox to be made. `sandbox_id` is random and never reused; `template` names a runner image.

    image_digest: of the image that was judged; the warden makes the sandbox of no other. network: its profile, by name.
    """

    sandbox_id: str
    template: Name = "base"
    image_digest: ImageDigest = ""
    network: Name = NO_NETWORK
    limits: SandboxLimits = SandboxLimits()

    def subject_digest(self) -> str:
        """Digest that the decision record carries."""
        return digest({"sandbox": self})


_Cells = Annotated[int, msgspec.Meta(ge=1, le=10_000)]


class Terminal(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Size of a terminal, in characters."""

    columns: _Cells
    rows: _Cells


class Asked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a client asks of a call's run beside its arguments. It widens nothing that policy granted.

    tag: a name to find the call by. wall_ms, output_bytes: limits, 0 where none is asked for. terminal: give it one.
    """

    tag: Annotated[str, msgspec.Meta(max_length=64)] = ""
    wall_ms: Annotated[int, msgspec.Meta(ge=0, le=3_600_000)] = 0
    output_bytes: Annotated[int, msgspec.Meta(ge=0, le=1 << 30)] = 0
    terminal: Terminal | None = None


_Id = Annotated[int, msgspec.Meta(ge=0, le=(1 << 32) - 2)]


class User(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A user of an image, as its /etc/passwd and /etc/group name it. groups: its supplementary ones, in order."""

    name: str
    uid: _Id
    gid: _Id
    groups: tuple[_Id, ...] = ()
    home: str = "/"

    @property
    def granted_as(self) -> str:
        """The name under which policy grants it: uid 0 is root, whatever an image calls it."""
        return self.name if self.uid else "root"

    def variables(self) -> dict[str, str]:
        """What login(1) would set."""
        return {"HOME": self.home, "USER": self.name, "LOGNAME": self.name}


class Launch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One program to be started in one sandbox under one seccomp profile and one set of limits.

    With a terminal, that is its three streams: output of both kinds comes out of the one for standard output. user:
    None is the sandbox's own.
    """

    sandbox_id: str
    exec_id: str
    program: Program
    profile: Name
    limits: CallLimits
    terminal: Terminal | None = None
    user: User | None = None

    def subject_digest(self) -> str:
        """Digest that the decision record carries."""
        return digest({"launch": self})
