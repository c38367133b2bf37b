"""What the normaliser understood of a call: the part of the policy input that describes the call itself.

Whatever could not be understood is a fact too: `opaque` is true and `opaque_reasons` say why. Rules read these
names, so they are API (`policies/schemas/input.json`).
"""

import msgspec


class Redirect(msgspec.Struct, frozen=True, kw_only=True):
    """One redirection: `op` as written (`>`, `<`, `>>`, `<<<` …), `target` None where it can't be resolved."""

    op: str
    fd: int | None = None
    target: str | None = None


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """One simple command found in a shell text or an argv.

    `program` is the basename of argv[0] ("" if it can't be resolved). An element of argv that can't be resolved
    is None. `position` tells where it stands: top, pipe, background, substitution, condition, function.
    `via` names the wrappers it was unwrapped from, outermost first (`["sudo", "env"]`).
    """

    program: str
    argv: tuple[str | None, ...]
    assignments: dict[str, str | None] = {}
    redirects: tuple[Redirect, ...] = ()
    position: str = "top"
    via: tuple[str, ...] = ()
    opaque: bool = False


class PathFact(msgspec.Struct, frozen=True, kw_only=True):
    """A path resolved by component, lexically, against the call's cwd; `classes` maps class name to true."""

    path: str
    classes: dict[str, bool] = {}


class HostFact(msgspec.Struct, frozen=True, kw_only=True):
    """A network peer named by the call. `name` is lower-case A-label form without trailing dot."""

    name: str
    port: int | None = None
    scheme: str | None = None
    ip_literal: bool = False
    userinfo: bool = False
    classes: dict[str, bool] = {}


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """Everything the rules may know of the call's arguments.

    content_opaque: content will be written that can't be judged, because it comes after the decision. tree: the paths
    stand for all that lies beneath them. recalled: some of it was read off what the session's calls before wrote.
    """

    commands: tuple[Command, ...] = ()
    reads: tuple[PathFact, ...] = ()
    writes: tuple[PathFact, ...] = ()
    deletes: tuple[PathFact, ...] = ()
    hosts: tuple[HostFact, ...] = ()
    env: dict[str, str] = {}
    opaque: bool = False
    opaque_reasons: tuple[str, ...] = ()
    size: int = 0
    content_opaque: bool = False
    tree: bool = False
    recalled: bool = False


class ClassTables(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a bundle's data from which the host computes path and host classes.

    `paths`: class -> patterns; a pattern ending in `/` is a subtree, one starting with `**/` matches by trailing
    components (`**/.env`, `**/.ssh/`), `*` inside a component matches within it, any other is one exact path.
    `hosts`: class -> names; `*.example.org` covers every deeper name but not the apex.
    """

    paths: dict[str, tuple[str, ...]] = {}
    hosts: dict[str, tuple[str, ...]] = {}
