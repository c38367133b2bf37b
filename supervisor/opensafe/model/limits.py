"""Limits of one sandbox and of one call, with their hard bounds.

Every number has a lower and an upper bound here, so that no overflow or zero can mean "unlimited".
"""

from typing import Annotated

import msgspec

_KIB = 1024
_MIB = 1024 * _KIB
_GIB = 1024 * _MIB

Bytes = Annotated[int, msgspec.Meta(ge=64 * _KIB, le=64 * _GIB)]


class SandboxLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Host cgroup limits and sizes of the guest's memory file systems. A hit of memory or pids ends the sandbox."""

    memory_bytes: Annotated[int, msgspec.Meta(ge=64 * _MIB, le=64 * _GIB)] = 1 * _GIB
    pids: Annotated[int, msgspec.Meta(ge=64, le=32768)] = 1024
    cpu_millis: Annotated[int, msgspec.Meta(ge=50, le=256_000)] = 2000
    workspace_bytes: Bytes = 512 * _MIB
    tmp_bytes: Bytes = 256 * _MIB
    shm_bytes: Bytes = 64 * _MIB
    root_overlay_bytes: Bytes = 256 * _MIB


class CallLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of one call: deadline, output, and guest rlimits that lie below the sandbox's cgroup limits."""

    wall_ms: Annotated[int, msgspec.Meta(ge=50, le=3_600_000)] = 120_000
    output_bytes: Annotated[int, msgspec.Meta(ge=1, le=64 * _GIB)] = 64 * _MIB
    processes: Annotated[int, msgspec.Meta(ge=1, le=4096)] = 128
    #: Less than the sandbox's memory: a process that asks for too much is refused, and the sandbox stays.
    address_space_bytes: Annotated[int, msgspec.Meta(ge=16 * _MIB, le=1024 * _GIB)] = 768 * _MIB
    file_size_bytes: Bytes = 512 * _MIB
    open_files: Annotated[int, msgspec.Meta(ge=16, le=65536)] = 1024
