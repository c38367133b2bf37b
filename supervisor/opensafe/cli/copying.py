"""What `cp` does: one file or one tree, into a sandbox or out of it."""

import msgspec

from opensafe.client import Client
from opensafe.client.copying import Copied, fetch_file, fetch_tree, send_file, send_tree
from opensafe.errors import InvalidArgument
from opensafe.model.files import DOWNLOAD_BYTES


class Place(msgspec.Struct, frozen=True):
    """One side of a copy: a path of this host, or of a sandbox."""

    path: str
    sandbox: str = ""

    def __str__(self) -> str:
        return f"{self.sandbox}:{self.path}" if self.sandbox else self.path


def place_of(text: str) -> Place:
    """`SANDBOX:PATH`, where SANDBOX is a sandbox's id; anything else is a path of this host."""
    sandbox, colon, path = text.partition(":")
    if colon and sandbox.startswith("sb-") and "/" not in sandbox:
        return Place(path or "/workspace", sandbox)
    return Place(text)


def text_of(path: bytes) -> str:
    """A name for people and reports: what is no UTF-8 shows as escapes."""
    return path.decode("utf-8", "backslashreplace")


async def copy(
    client: Client,
    source: Place,
    target: Place,
    *,
    tree: bool,
    with_auto_run: bool,
    owner: str = "",
    size_limit: int = DOWNLOAD_BYTES,
) -> Copied:
    """Copy, from exactly one sandbox or to one, there as the user `owner`. Raises the exceptions of opensafe.errors.

    size_limit: bytes that are taken out of a sandbox.
    """
    if bool(source.sandbox) == bool(target.sandbox):
        raise InvalidArgument(
            "one side must be in a sandbox and one on this host",
            value=f"{source} {target}",
            remedy="Write SANDBOX:PATH.",
        )
    if owner and source.sandbox:
        raise InvalidArgument(
            "what comes out of a sandbox belongs to whoever copies it", value=owner, remedy="Leave --owner out."
        )
    sandbox = await client.get_sandbox(source.sandbox or target.sandbox)
    files = client.files(sandbox.session_id, sandbox.sandbox_id)
    if target.sandbox:
        return await (send_tree if tree else send_file)(files, source.path, target.path, owner)
    if tree:
        return await fetch_tree(files, source.path, target.path, with_auto_run=with_auto_run, size_limit=size_limit)
    return await fetch_file(files, source.path, target.path, with_auto_run=with_auto_run, size_limit=size_limit)
