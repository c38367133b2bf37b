"""sd_notify(3): tell the service manager that we are ready, alive, stopping. No manager, no effect."""

import os
import socket


class Notifier:
    """Sends to NOTIFY_SOCKET. `watchdog_s`: how often the manager wants a sign of life, None where it doesn't."""

    def __init__(self) -> None:
        self._address = os.environ.get("NOTIFY_SOCKET", "")
        usec = os.environ.get("WATCHDOG_USEC", "")
        self.watchdog_s = int(usec) / 1e6 if usec.isdigit() and int(usec) > 0 else None

    def send(self, *assignments: str) -> None:
        """Send assignments such as READY=1. A manager that does not listen is no reason to fail."""
        if not self._address:
            return
        address = f"\0{self._address[1:]}" if self._address.startswith("@") else self._address
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            try:
                sender.sendto("\n".join(assignments).encode(), address)
            except OSError:
                return
