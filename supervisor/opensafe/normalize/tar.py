"""tar: options in all three of its styles, the archive, the place and the members."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from .options import Use, read_options, table
from .word import Word

_OPTIONS: Final = table(
    "-AcdrtuxkUOpPsSWzjJZavwhlmoinBGR0 f: C: T:! X:r b: H: I:! F:! g:rw K: L: N: V: file: directory: "
    "files-from:! add-file:r exclude: exclude-from:r exclude-tag: exclude-vcs exclude-vcs-ignores "
    "exclude-caches exclude-backups exclude-ignore: strip-components: owner: group: owner-map:r "
    "group-map:r mode: mtime: sort: format: gzip gunzip ungzip bzip2 xz zstd lzip lzma lzop compress "
    "auto-compress no-auto-compress verbose list extract get create append update concatenate catenate "
    "compare diff delete! keep-old-files skip-old-files keep-newer-files overwrite overwrite-dir "
    "no-overwrite-dir keep-directory-symlink! no-same-owner no-same-permissions same-owner "
    "same-permissions preserve-permissions numeric-owner totals= checkpoint= checkpoint-action:! "
    "to-command:! use-compress-program:! rsh-command:! rmt-command:! info-script:! new-volume-script:! "
    "multi-volume! transform:! xform:! one-top-level= index-file:w remove-files! listed-incremental:rw "
    "incremental level: absolute-names! unlink-first recursive-unlink! wildcards no-wildcards "
    "wildcards-match-slash anchored no-anchored ignore-case dereference hard-dereference one-file-system "
    "no-recursion recursion to-stdout show-transformed-names verify warning: utc full-time quoting-style: "
    "quote-chars: block-number check-links ignore-zeros read-full-records record-size: blocking-factor: "
    "occurrence= seek no-seek sparse sparse-version: hole-detection: atime-preserve= touch "
    "delay-directory-restore label: newer: newer-mtime: after-date: null no-null suffix: backup= "
    "show-omitted-dirs show-defaults posix old-archive portability pax-option:! selinux acls xattrs "
    "no-selinux no-acls no-xattrs volno-file:rw interactive confirmation starting-file: force-local "
    "clamp-mtime version help usage",
)  # fmt: skip
_CREATES: Final = frozenset({"c", "r", "u", "A", "create", "append", "update", "concatenate", "catenate"})
_EXTRACTS: Final = frozenset({"x", "extract", "get"})


def tar(args: Sequence[Word]) -> Iterator[Use]:
    """What tar does with its arguments (without argv[0])."""
    parsed = read_options(_new_style(args), _OPTIONS)
    yield from parsed.uses(_OPTIONS)
    names = {name for name, _ in parsed.options}
    creates = not names.isdisjoint(_CREATES)
    place, top = "", None
    for name, value in parsed.options:
        if value is None:
            continue
        if name in ("f", "file") and value.text != "-":
            yield Use("write" if creates else "read", value)
            if re.search(r"^[^/]*:", value.text) and "force-local" not in names:
                yield Use("doubt", Word("an archive on another host"))
        elif name in ("C", "directory"):
            place = value.text if value.text[:1] == "/" or not place else f"{place}/{value.text}"
        elif name == "one-top-level":
            top = value
    if creates:
        for word in parsed.operands:
            member = word if word.text[:1] == "/" or not place else word.part(f"{place}/{word.text}")
            yield Use("read", member)
            if "remove-files" in names:
                yield Use("delete", member)
    elif not names.isdisjoint(_EXTRACTS):
        yield Use("write", Word(place or "."))
        if top is not None and top.text:
            yield Use("write", top if top.text[:1] == "/" or not place else top.part(f"{place}/{top.text}"))


def _new_style(args: Sequence[Word]) -> list[Word]:
    """`tar cIf PROGRAM FILE`: the values follow the bundle in the order of its letters."""
    words = list(args)
    if not words or words[0].text[:1] in ("-", ""):
        return words
    bundle, rest = words[0], words[1:]
    out = []
    for letter in bundle.text:
        out.append(Word("-" + letter))
        if _OPTIONS.short.get(letter, "")[:1] == ":" and rest:
            value = rest.pop(0)
            out[-1] = value.part("-" + letter + value.text) if value.text else Word("-" + letter)
    return out + rest
