"""The rules of a bundle by id: what each is for and where its source stands, so that a verdict can be explained.

Read off the METADATA of the Rego sources when a bundle is built (member `rules.json`). Nothing is decided by it.
"""

import pathlib
from typing import Annotated, Any, Final

import msgspec

from opensafe.errors import BundleRefused
from opensafe.model.decision import Severity

#: Largest number of notes in a bundle; a rule of several parts has one for each.
MAX_NOTES: Final = 4096

_Word = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
_Text = Annotated[str, msgspec.Meta(min_length=1, max_length=1024)]


class RuleNote(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, order=True):
    """One part of a rule. `file` is relative to the policies' root, `line` the first of the Rego rule, from 1."""

    id: _Word
    file: _Text
    line: Annotated[int, msgspec.Meta(ge=1)]
    severity: Severity
    title: _Text
    description: _Text
    threat: _Text


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
        }
        notes.append(msgspec.convert(note, RuleNote))
    return tuple(sorted(notes))
