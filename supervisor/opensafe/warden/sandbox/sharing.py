"""Who lives in a sandbox side by side: a call that may reach names lives there alone.

The gateway tells sandboxes apart by their addresses and can't tell calls. So what one call was granted is open only
while nobody else's program is there to use it; the other is refused and can be sent again. The file helper is our own
program, opens no connection, and may come and go.
"""

from ...errors import Conflict
from ...model.sandbox import Launch
from . import layout

_FILE_HELPER = f"{layout.GUEST_TOOLS}/file"


class Sharing:
    """Calls by sandbox, and which of them was granted names."""

    def __init__(self) -> None:
        self._calls: dict[str, dict[str, bool]] = {}

    def enter(self, launch: Launch, *, networked: bool) -> None:
        """A call is about to start. Raises Conflict where it, or one there, would not be alone with its grant."""
        if launch.program.argv[0] == _FILE_HELPER:
            return
        others = self._calls.get(launch.sandbox_id, {})
        if networked and others:
            raise Conflict(
                "a call with the network needs its sandbox for itself",
                value=next(iter(others)),
                remedy="Send it again when the call that runs has ended, or in another sandbox.",
            )
        alone = next((exec_id for exec_id, granted in others.items() if granted), None)
        if alone is not None:
            raise Conflict(
                "a call with the network has this sandbox for itself",
                value=alone,
                remedy="Send it again when that one has ended, or in another sandbox.",
            )
        self._calls.setdefault(launch.sandbox_id, {})[launch.exec_id] = networked

    def leave(self, sandbox_id: str, exec_id: str) -> bool:
        """Nothing of it runs any more. Returns whether it had been granted names."""
        calls = self._calls.get(sandbox_id, {})
        networked = calls.pop(exec_id, False)
        if not calls:
            self._calls.pop(sandbox_id, None)
        return networked
