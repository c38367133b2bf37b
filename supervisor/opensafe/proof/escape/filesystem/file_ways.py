"""What is asked of the file API to get out of a granted root: by links that lie there, by spellings, by siblings."""

from collections.abc import Awaitable, Callable

import msgspec

from opensafe.client import Files


class Place(msgspec.Struct, frozen=True):
    """root: what is granted. outside: what is not, and where a guest's user can write."""

    root: str
    outside: str


Operation = Callable[[Files], Awaitable[bytes]]
"""One call; what it answers."""


def _read(path: str) -> Operation:
    return lambda files: files.read_bytes(path)


def _list(path: str) -> Operation:
    async def operation(files: Files) -> bytes:
        return b" ".join(entry.name for entry in (await files.list(path)).entries)

    return operation


def _tree(path: str) -> Operation:
    async def operation(files: Files) -> bytes:
        got = bytearray()

        async def take(data: bytes) -> None:
            got.extend(data)

        await files.download(path, take)
        return bytes(got)

    return operation


def _move(path: str, to: str) -> Operation:
    async def operation(files: Files) -> bytes:
        await files.move(path, to)
        return await files.read_bytes(to)

    return operation


def links(place: Place) -> dict[str, Operation]:
    """Names below the root that links lead out of it from."""
    root = place.root
    ways = ("absolute", "relative", "place/canary", "above/canary", "hop/canary", "self/canary", "host", "proc")
    return {
        **{f"read {way}": _read(f"{root}/{way}") for way in ways},
        "read top": _read(f"{root}/top{place.outside}/canary"),
        **{f"list {way}": _list(f"{root}/{way}") for way in ("place", "above", "hop", "self")},
        **{f"download {way}": _tree(f"{root}/{way}") for way in ("place", "above", "hop", "absolute")},
        "download all": _tree(root),
        "move out of it": _move(f"{root}/above/canary", f"{root}/moved"),
    }


def spellings(place: Place) -> dict[str, Operation]:
    """Names that a resolver could take for others than they are."""
    root, outside = place.root, place.outside
    up = "../" * root.count("/")
    forms = (
        f"{root}/{up}{outside.lstrip('/')}/canary",
        f"{root}/./{up}.{outside}/canary",
        f"//{root}//{up}/{outside}//canary",
        f"{root}/x/../{up}{outside.lstrip('/')}/canary",
        f"{root}/%2e%2e/{up}{outside.lstrip('/')}/canary",
        f"{root}/{up.replace('.', '%2e')}{outside.lstrip('/')}/canary",
        f"{root}/{up.replace('/', '%2f')}{outside.lstrip('/')}/canary",
        f"{root}\\..\\..{outside}\\canary".replace("/", "\\"),
        f"{root}/..\\..{outside}/canary",
        f"{root}/\0/{up}{outside.lstrip('/')}/canary",
        f"{root}/ok.txt\0{outside}/canary",
        f"{root}/\xc0\xae\xc0\xae/{outside.lstrip('/')}/canary",
        f"{root}/\uff0e\uff0e/{up}{outside.lstrip('/')}/canary",
        f"file://{outside}/canary",
        f"{outside}/canary",
        f"~/{up}{outside.lstrip('/')}/canary",
        f"{up}..{outside}/canary",
    )
    return {f"read {form!r}": _read(form) for form in forms} | {f"list {f!r}": _list(f[:-7]) for f in forms[:5]}


def siblings(place: Place) -> dict[str, Operation]:
    """Names that begin as the root's does."""
    root = place.root
    forms = (f"{root}-evil/canary", f"{root}-evil/./canary", f"{root}/../{root.rpartition('/')[2]}-evil/canary")
    return {f"read {form}": _read(form) for form in forms} | {"list": _list(f"{root}-evil")}
