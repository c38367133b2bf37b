"""The file tools: each one becomes one run of the guest's file helper, beneath a root that the verdict grants.

Content that is small enough stands in the call, where policy sees what it is shaped like. What is larger is declared
by size and digest and streamed afterwards, and the members of a tree are not known before: both are facts
(`content_opaque`, `tree`). To a tree the verdict therefore gives the patterns of what it must leave out, and the
helper keeps to them.
"""

from typing import Any, Final

from opensafe.errors import NotPermitted
from opensafe.model.calls import Program
from opensafe.model.canonical import MAX_SAFE_INTEGER
from opensafe.model.decision import Grant
from opensafe.model.facts import ClassTables, Facts, PathFact
from opensafe.model.files import INLINE_MAX, MAX_PAGE, MAX_TREE_BYTES, MAX_TREE_ENTRIES

from .environment import DEFAULT_CWD
from .facts import one_path
from .leaves import left_by_move, left_by_write
from .paths import MAX_PATH, contains, relative, resolve
from .tool_spec import TIMEOUT, USER, Sealed, ToolSpec, object_schema, program_of

FILE_HELPER: Final = "/.opensafe/file"

# Facts


def _path(sealed: Sealed, tables: ClassTables, name: str = "path") -> PathFact:
    return one_path(resolve(sealed[name], DEFAULT_CWD), tables)


def _reads(sealed: Sealed, tables: ClassTables) -> Facts:
    return Facts(reads=(_path(sealed, tables),))


def _writes(sealed: Sealed, tables: ClassTables) -> Facts:
    return Facts(writes=(_path(sealed, tables),))


def _deletes(sealed: Sealed, tables: ClassTables) -> Facts:
    return Facts(deletes=(_path(sealed, tables),), tree=sealed.get("recursive", False))


def _moves(sealed: Sealed, tables: ClassTables) -> Facts:
    source = _path(sealed, tables)
    return Facts(reads=(source,), deletes=(source,), writes=(_path(sealed, tables, "to"),))


def _content(sealed: Sealed, tables: ClassTables) -> Facts:
    size, _ = _declared(sealed)
    return Facts(writes=(_path(sealed, tables),), size=size, content_opaque="sha256" in sealed)


def _reads_tree(sealed: Sealed, tables: ClassTables) -> Facts:
    return Facts(reads=(_path(sealed, tables),), tree=True)


def _writes_tree(sealed: Sealed, tables: ClassTables) -> Facts:
    return Facts(writes=(_path(sealed, tables),), content_opaque=True, tree=True)


def _declared(sealed: Sealed) -> tuple[int, str]:
    """Bytes and SHA-256 of a Write's content, sealed or declared."""
    if "sha256" in sealed:
        return sealed["size"], sealed["sha256"]
    seal = sealed["content"] if "content" in sealed else sealed["content_base64"]
    return seal["bytes"], seal["sha256"]


# Programs


def _read(sealed: Sealed, grant: Grant) -> Program:
    return _helper(sealed, "read", _read_place(sealed, grant), *_options(sealed, "offset", "length"))


def _list(sealed: Sealed, grant: Grant) -> Program:
    most = ("--max", str(sealed["max_entries"])) if "max_entries" in sealed else ()
    after = ("--after", sealed["cursor"]) if "cursor" in sealed else ()
    return _helper(sealed, "list", _read_place(sealed, grant), *most, *after)


def _stat(sealed: Sealed, grant: Grant) -> Program:
    return _helper(sealed, "stat", _read_place(sealed, grant))


def _watch(sealed: Sealed, grant: Grant) -> Program:
    return _helper(sealed, "watch", _read_place(sealed, grant), *_flags(sealed, "recursive"))


def _write(sealed: Sealed, grant: Grant) -> Program:
    size, digest = _declared(sealed)
    options = ("--mode", sealed.get("mode", "0644"), "--max", str(size), "--sha256", digest)
    inside = (*_options(sealed, "offset"), *_flags(sealed, "truncate"))
    return _helper(sealed, "write", _write_place(sealed, grant), *options, *inside)


def _remove(sealed: Sealed, grant: Grant) -> Program:
    most = ("--max", str(sealed.get("max_entries", MAX_TREE_ENTRIES)))
    return _helper(sealed, "remove", _write_place(sealed, grant), *_flags(sealed, "recursive"), *most)


def _move(sealed: Sealed, grant: Grant) -> Program:
    root, to = _write_place(sealed, grant, "to")
    target = ("--to-root", root, "--to", to)
    return _helper(sealed, "move", _write_place(sealed, grant), *target, *_flags(sealed, "replace"))


def _mkdir(sealed: Sealed, grant: Grant) -> Program:
    mode = ("--mode", sealed.get("mode", "0755"))
    return _helper(sealed, "mkdir", _write_place(sealed, grant), *mode, *_flags(sealed, "parents"))


def _download(sealed: Sealed, grant: Grant) -> Program:
    return _helper(sealed, "download", _read_place(sealed, grant), *_bounds(grant.paths.hold_read))


def _upload(sealed: Sealed, grant: Grant) -> Program:
    return _helper(sealed, "upload", _write_place(sealed, grant), *_bounds(grant.paths.hold_write))


def _helper(sealed: Sealed, verb: str, place: tuple[str, str], *options: str) -> Program:
    return program_of((FILE_HELPER, verb, *place, *options), sealed)


def _options(sealed: Sealed, *names: str) -> tuple[str, ...]:
    return tuple(text for name in names if name in sealed for text in (f"--{name}", str(sealed[name])))


def _flags(sealed: Sealed, *names: str) -> tuple[str, ...]:
    return tuple(f"--{name}" for name in names if sealed.get(name, False))


def _bounds(held: tuple[str, ...]) -> tuple[str, ...]:
    caps = ("--max", str(MAX_TREE_ENTRIES), "--max-bytes", str(MAX_TREE_BYTES))
    return (*caps, *(text for pattern in held for text in ("--hold", pattern)))


def _read_place(sealed: Sealed, grant: Grant) -> tuple[str, str]:
    return _place(sealed["path"], grant.paths.read, "read")


def _write_place(sealed: Sealed, grant: Grant, name: str = "path") -> tuple[str, str]:
    return _place(sealed[name], grant.paths.write, "written")


def _place(path: str, roots: tuple[str, ...], done: str) -> tuple[str, str]:
    """The longest granted root that holds the path, and the path beneath it."""
    path = resolve(path, DEFAULT_CWD)
    holding = [root for root in (resolve(root, "/") for root in roots) if contains(root, path)]
    if not holding:
        raise NotPermitted(
            f"no granted root holds what is to be {done}", value=path, limit=", ".join(roots) or "no root at all",
            remedy="Name a path beneath a granted root.",
        )  # fmt: skip
    root = max(holding, key=len)
    return root, relative(root, path)


# The tools

_PATH: Final = {"type": "string", "minLength": 1, "maxLength": MAX_PATH}
_COUNT: Final = {"type": "integer", "minimum": 0, "maximum": MAX_SAFE_INTEGER}
_FLAG: Final = {"type": "boolean"}
_MODE: Final = {"type": "string", "pattern": "^0[0-7]{3}$"}
_CONTENT: Final = {
    "content": {"type": "string"},
    "content_base64": {"type": "string"},
    "size": {**_COUNT, "minimum": INLINE_MAX + 1},
    "sha256": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
}


def _tool(name: str, description: str, family: str, properties: dict[str, Any], **rest: Any) -> ToolSpec:  # noqa: ANN401 - ToolSpec's own
    schema = rest.pop("schema", None) or object_schema(["path"], {"path": _PATH, **properties})
    return ToolSpec(name=name, description=description, schema=schema, entrypoint=f"gate/{family}", **rest)


FILE_TOOLS: Final = (
    _tool(
        "Read", "Read a file, or the part of it from `offset` of `length` bytes.", "read",
        {"offset": _COUNT, "length": {**_COUNT, "minimum": 1}, "timeout_ms": TIMEOUT},
        facts=_reads, program=_read,
    ),
    _tool(
        "Write",
        "Write a whole file: text as `content`, bytes as `content_base64`; more than 1 MiB as `size` and `sha256`, "
        "streamed afterwards. With `offset` the content goes into the file, with `truncate` it ends there. `mode` is "
        "octal. It is done as the user `owner`, whose the file is then.",
        "write", {},
        schema=object_schema(
            ["path"],
            {
                "path": _PATH, "mode": _MODE, "offset": _COUNT, "truncate": _FLAG, "owner": USER,
                "timeout_ms": TIMEOUT, **_CONTENT,
            },
            **{"not": {"required": ["owner", "offset"]}},
            oneOf=[{"required": ["content"]}, {"required": ["content_base64"]}, {"required": ["sha256"]}],
            dependentRequired={"size": ["sha256"], "sha256": ["size"], "truncate": ["offset"]},
        ),
        facts=_content, program=_write, leaves=left_by_write, bulk=("content", "content_base64"), identity="owner",
    ),
    _tool(
        "List",
        "List a directory's entries in order, at most `max_entries`; `cursor` is the name before, in hexadecimal.",
        "list",
        {
            "max_entries": {"type": "integer", "minimum": 1, "maximum": MAX_PAGE},
            "cursor": {"type": "string", "pattern": "^([0-9a-f]{2}){0,255}$"},
        },
        facts=_reads, program=_list,
    ),
    _tool("Stat", "Describe a name: type, size, mode, time, a link's target.", "list", {}, facts=_reads, program=_stat),
    _tool(
        "Watch", "Tell what changes in a directory, with `recursive` also below it, until `timeout_ms` or cancelled.",
        "files", {"recursive": _FLAG, "timeout_ms": TIMEOUT}, facts=_reads, program=_watch,
    ),
    _tool(
        "Remove", "Remove a file, a link or an empty directory; with `recursive` up to `max_entries` entries below it.",
        "files",
        {"recursive": _FLAG, "max_entries": {"type": "integer", "minimum": 1, "maximum": MAX_TREE_ENTRIES}},
        facts=_deletes, program=_remove,
    ),
    _tool(
        "Move", "Rename `path` to `to`; an existing file there stays unless `replace`.", "files", {},
        schema=object_schema(["path", "to"], {"path": _PATH, "to": _PATH, "replace": _FLAG}),
        facts=_moves, program=_move, leaves=left_by_move,
    ),
    _tool(
        "Mkdir", "Make a directory, with `parents` those above it too, as the user `owner`; `mode` is octal.", "files",
        {"mode": _MODE, "parents": _FLAG, "owner": USER}, facts=_writes, program=_mkdir, identity="owner",
    ),
    _tool(
        "Download", "Read a file or a directory's content as a tar archive.", "files", {"timeout_ms": TIMEOUT},
        facts=_reads_tree, program=_download,
    ),
    _tool(
        "Upload", "Unpack a tar archive, which is streamed afterwards, into a directory, as the user `owner`.",
        "files", {"owner": USER, "timeout_ms": TIMEOUT}, facts=_writes_tree, program=_upload, identity="owner",
    ),
)  # fmt: skip
