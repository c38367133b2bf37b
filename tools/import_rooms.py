"""The import-linter contract behind `.importlinter`: one table instead of a forbidden list per room.

import-linter's own types say what is forbidden, so a room that nobody thought of is free to import anything. Here
an import is broken unless the table allows it, and a package that the table doesn't name is broken as a whole.
"""

from dataclasses import dataclass
from typing import cast

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output

Table = dict[str, frozenset[str]]


def parse_table(lines: list[str]) -> Table:
    """Read `room: may, import` lines. Raises ValueError for a line without a colon or a name twice."""
    table: Table = {}
    for line in lines:
        room, colon, allowed = line.partition(":")
        if not colon or room.strip() in table:
            raise ValueError(f"not a new `room: may, import` line: {line!r}")
        table[room.strip()] = frozenset(name.strip() for name in allowed.split(",") if name.strip())
    return table


def room_of(module: str, root: str, rooms: Table) -> str | None:
    """The most specific room that holds `module`: the root package itself is "", one outside the table None."""
    if module == root:
        return ""
    name = module.removeprefix(root + ".")
    while name and name not in rooms:
        name = name.rpartition(".")[0]
    return name or None


@dataclass(frozen=True, slots=True)
class Breach:
    """One import that the table doesn't allow, or a module without a room (`imported` is empty then)."""

    importer: str
    imported: str
    line: int | None

    def __str__(self) -> str:
        """One line for the report."""
        if not self.imported:
            return f"{self.importer} is in no room of the table"
        return f"{self.importer}:{self.line} imports {self.imported}"


def breaches(graph: ImportGraph, root: str, table: Table, shared: frozenset[str]) -> list[Breach]:
    """Everything in `graph` that the table doesn't allow, sorted."""
    found: list[Breach] = []
    for importer in sorted(graph.modules):
        room = room_of(importer, root, table)
        if room is None:
            found.append(Breach(importer, "", None))
            continue
        allowed = table.get(room, frozenset()) | {room} | (frozenset() if room in shared else shared)
        for imported in sorted(graph.find_modules_directly_imported_by(importer)):
            target = room_of(imported, root, table)
            if target and target not in allowed:
                details = graph.get_import_details(importer=importer, imported=imported)
                found.append(Breach(importer, imported, details[0]["line_number"] if details else None))
    return found


class RoomsContract(Contract):
    """`shared` rooms are open to all; `table` says the rest."""

    type_name = "rooms"

    shared = fields.ListField(subfield=fields.StringField())
    table = fields.ListField(subfield=fields.StringField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Called by import-linter with the graph of the root package."""
        del verbose
        root = self.session_options["root_packages"][0]
        # import-linter replaces each field by the value it parsed, which its annotations don't say.
        table, shared = cast("list[str]", self.table), cast("list[str]", self.shared)
        found = breaches(graph, root, parse_table(table), frozenset(shared))
        return ContractCheck(kept=not found, metadata={"breaches": found})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Called by import-linter to explain."""
        for breach in check.metadata["breaches"]:
            output.print_error(str(breach))
