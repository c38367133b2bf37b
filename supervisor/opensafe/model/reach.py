"""What a sandbox would be told if it went for a host: by layer, and what stands in the way beside policy."""

import msgspec

from .traffic import Layer, Standing


class Obstacle(msgspec.Struct, frozen=True, kw_only=True):
    """What stands in the way and is no rule."""

    reason: str
    value: str = ""
    remedy: str = ""


class Reach(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a host is reached, and why.

    name: canonical. port: as it was asked for, None for the ports that are served. classes: of the name, those that
    hold. reachable: by name, over at least one port, and nothing stands in the way. standing: of the sandbox that was
    asked about; without one it is as if a call that was granted the name ran. revision: of the bundle that judged.
    """

    name: str
    port: int | None
    classes: tuple[str, ...]
    reachable: bool
    layers: tuple[Layer, ...]
    obstacles: tuple[Obstacle, ...]
    standing: Standing | None
    revision: str
