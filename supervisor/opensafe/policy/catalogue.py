"""The rules of a bundle by id: what each is for and where its source stands, so that a verdict can be explained.

Read off the METADATA of the Rego sources when a bundle is built (member `rules.json`). Nothing is decided by it.
"""

import pathlib
import re
from typing import Any, Final

import msgspec

from opensafe.errors import BundleRefused
from opensafe.model.explanation import RuleNote

#: Largest number of notes in a bundle; a rule of several parts has one for each.
MAX_NOTES: Final = 4096

Catalogue = tuple[RuleNote, ...]


def read_catalogue(content: bytes) -> Catalogue:
    """Parse the member. Raises BundleRefused."""
    try:
        notes = msgspec.json.decode(content, type=Catalogue)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BundleRefused(f"rules: {error}") from error
    if len(notes) > MAX_NOTES:
        raise BundleRefused("rules: too many notes", value=len(notes), limit=MAX_NOTES)
    return notes


def catalogue_of(report: dict[str, Any], root: pathlib.Path) -> Catalogue:
    """The notes in `opa inspect --annotations` of sources below `root`. Raises msgspec.ValidationError."""
    notes = []
    for entry in report.get("annotations", []):
        notes_of, location = entry.get("annotations", {}), entry.get("location", {})
        custom = notes_of.get("custom")
        if custom is None:
            continue
        note = {
            "id": custom.get("id"),
            "file": str(pathlib.Path(location.get("file", "")).relative_to(root)),
            "line": location.get("row"),
            "severity": custom.get("severity"),
            "title": notes_of.get("title"),
            "description": notes_of.get("description"),
            "threat": custom.get("threat"),
            "says": _says(pathlib.Path(location.get("file", "")), int(location.get("row", 1))),
        }
        notes.append(msgspec.convert(note, RuleNote))
    return tuple(sorted(notes, key=lambda note: (note.id, note.file, note.line)))


def _says(file: pathlib.Path, line: int) -> tuple[str, ...]:
    """The fixed pieces of the reason in the first hit from `line` on; () where it is no literal."""
    rule = "".join(file.read_text(encoding="utf-8").splitlines(keepends=True)[line - 1 :]).partition("# METADATA")[0]
    reason = _REASON.search(rule)
    return _pieces(rule[reason.end() :], template=reason["template"] == "$") if reason else ()


def _pieces(text: str, *, template: bool) -> tuple[str, ...]:
    """The pieces of the string literal whose content `text` begins with, split at the values of a template."""
    pieces, depth, quoted, at = [""], 0, False, 0
    while at < len(text):
        char = text[at]
        if char == "\\" and not depth:
            return ()  # an escape: rare enough not to be read
        if depth:
            quoted ^= char == '"'
            depth += 0 if quoted else (char == "{") - (char == "}")
        elif char == '"':
            return tuple(pieces) if any(pieces) else ()
        elif char == "{" and template:
            depth = 1
            pieces.append("")
        else:
            pieces[-1] += char
        at += 1
    return ()


#: A hit up to the opening quote of its reason.
_REASON: Final = re.compile(
    r'hit\.(?:(?:block|review)\(\s*"[^"]+",\s*"[^"]+",|allow\(\s*"[^"]+",)\s*(?P<template>\$?)"'
)
