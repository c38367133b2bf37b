"""Which check is taken out of the daemon for which row's control, and which of these go into one daemon together.

Those of one daemon do not touch each other's rows. The daemon's own self-test and start pass with all of them.
"""

from collections.abc import Mapping
from typing import Final

from opensafe.proof.mutants import Mutant

_REQUIRE: Final = "if row is None or row.principal != principal.name or row.closed:"
_FIND: Final = 'if row is None or row.principal != principal.name:\n            raise NotFound("no such sandbox"'
_LAUNCHED: Final = '"linux": {\n            "namespaces": ['

#: CP-01, CP-23: whoever is on the host gets to every socket.
SOCKETS: Final = (
    Mutant(id="open-directories", file="warden/network/sockets.py", old="_MODE = 0o2750", new="_MODE = 0o2777"),
    Mutant(id="open-sockets", file="api/server.py", old="with _umask(0o117):", new="with _umask(0):"),
    Mutant(id="open-metrics", file="telemetry/scrape.py", old="os.umask(0o117)", new="os.umask(0)"),
)
#: CP-03: an id is enough.
OWNERS: Final = (
    Mutant(id="anybodys-session", file="control/sessions.py", old=_REQUIRE, new="if row is None or row.closed:"),
    Mutant(
        id="anybodys-sandbox",
        file="control/sandboxes.py",
        old=_FIND,
        new=_FIND.replace(" or row.principal != principal.name", ""),
    ),
)
#: CP-04, CP-05: labels go on into the specification as they are.
BUILDER: Final = (
    Mutant(
        id="labels-in-subject",
        file="model/sandbox.py",
        old="    network: Name = NO_NETWORK\n    limits",
        new="    network: Name = NO_NETWORK\n    labels: dict[str, str] = {}\n    limits",
    ),
    Mutant(
        id="labels-passed-on",
        file="control/sandboxes.py",
        old="                network=network,\n                limits",
        new="                network=network,\n                labels=wanted.labels,\n                limits",
    ),
    Mutant(
        id="labels-in-spec",
        file="warden/sandbox/spec.py",
        old='    limits = spec.limits\n    return {\n        "ociVersion": "1.2.1",',
        new='    limits = spec.limits\n    return {\n        **{key: msgspec.json.decode(text) for key, text in spec.labels.items()},\n        "ociVersion": "1.2.1",',  # noqa: E501 - text of a mutant
    ),
)
#: CP-07: others may read the log.
MODES: Final = (
    Mutant(
        id="log-directory",
        file="warden/segments.py",
        old="_DIRECTORY_MODE: Final = 0o750",
        new="_DIRECTORY_MODE: Final = 0o755",
    ),
    Mutant(id="log-file", file="warden/segments.py", old="_FILE_MODE: Final = 0o640", new="_FILE_MODE: Final = 0o666"),
)
#: CP-24: no answer of ours to what can't be read.
MESSAGES: Final = (
    Mutant(
        id="unread",
        file="api/handlers.py",
        old="        except DecodeError as error:",
        new="        except FileNotFoundError as error:",
    ),
)
#: CP-08, CP-09, CP-10, CP-12: policy from anywhere, and no policy.
BUNDLES: Final = (
    Mutant(
        id="signed-if-signed",
        file="policy/sign.py",
        old='raise BundleRefused("signature: absent, the bundle is not signed", value=SIGNATURE, remedy=_REMEDY)',
        new='return ""',
    ),
    Mutant(
        id="no-digests",
        file="policy/manifest.py",
        old="if hashlib.sha256(members[name]).hexdigest() != manifest.files[name]:",
        new="if False:",
    ),
    Mutant(id="any-number", file="control/activation.py", old="and number <= good.number:", new="and number < 0:"),
    Mutant(
        id="last-good-lost",
        file="control/activation.py",
        old="str(error), begun)\n            await self._bring_helper()",
        new="str(error), begun)\n            self._loaded.engine.close()",
    ),
    Mutant(
        id="no-verdict-is-allow",
        file="control/judge.py",
        old='return blocked(question.id, f"policy reached no verdict: {error}")',
        new='return Decision(action=Action.ALLOW, rules=(), grant=Grant(), id=question.id, data_version="")',
    ),
)
#: CP-18: what was escaped is not.
LINES: Final = (
    Mutant(
        id="pasted",
        file="model/chain.py",
        old="    line = canonical_json(record, index=head.size, prev=head.leaf)\n",
        new="    line = canonical_json(record, index=head.size, prev=head.leaf)\n"
        "    line = line.replace(b'\\\\n', b'\\n').replace(b'\\\\\"', b'\"')\n",
    ),
)
#: CP-19: an execution that the warden does not remember.
STARTS: Final = (
    Mutant(
        id="no-starts",
        file="warden/ledger.py",
        old="        entry: dict[str, Any] = {\n",
        new='        if kind == "start":\n            return self._size\n        entry: dict[str, Any] = {\n',
    ),
)
DAEMONS: Final[Mapping[str, tuple[Mutant, ...]]] = {
    "unguarded": (*SOCKETS, *OWNERS, *BUILDER, *MODES, *MESSAGES, *STARTS),
    "trusting": BUNDLES,
    "pasted": LINES,
}
#: CP-15, CP-16: how much was signed is not compared.
_UNCOUNTED: Final = Mutant(
    id="any-size",
    file="audit/signed.py",
    old="        if self._due:\n            last",
    new="        if False:\n            last",
)
#: CP-14, CP-15, CP-16: of the verifier, which runs as a process of its own.
VERIFIERS: Final[Mapping[str, tuple[Mutant, ...]]] = {
    "links": (
        Mutant(id="no-links", file="model/chain.py", old='if record.get("prev") != head.leaf:', new="if False:"),
    ),
    "sizes": (
        _UNCOUNTED,
        Mutant(id="any-entries", file="audit/signed.py", old="        if longest:", new="        if False:"),
    ),
    "roots": (
        Mutant(id="any-root", file="audit/signed.py", old="if one.root == self._tree.root():", new="if True:"),
        Mutant(id="any-entry", file="audit/signed.py", old="if one.ledger.leaf != leaf:", new="if False:"),
        _UNCOUNTED,
    ),
}
#: CP-20: a daemon that leaves what an earlier life left.
REAPER: Final = (
    Mutant(
        id="no-reaper",
        file="warden/sandbox/reconcile.py",
        old="    removed: list[str] = []\n    for sandbox_id in sorted(",
        new="    removed: list[str] = []\n    return ()\n    for sandbox_id in sorted(",
    ),
)
#: CP-25: of the suite. weak and empty are the attack, inverted is its control.
SUITE: Final[Mapping[str, tuple[Mutant, ...]]] = {
    "weak": (
        Mutant(
            id="all-weak",
            file="proof/escape/trial.py",
            old="for attempt in trial.attempts]",
            new="for attempt in (trial.weak,)]",
        ),
    ),
    "empty": (
        Mutant(
            id="no-probes",
            file="proof/escape/control/probes.py",
            old="tuple(sorted(_BY_FAMILY,",
            new="tuple(sorted(_BY_FAMILY[:0],",
        ),
    ),
    "inverted": (
        Mutant(
            id="evidence-ignored",
            file="proof/escape/probe.py",
            old="        if run.found:\n",
            new="        if not run:\n",
        ),
        Mutant(
            id="nothing-is-enough",
            file="proof/escape/report.py",
            old="            planned\n            and len(results)",
            new="            len(results)",
        ),
    ),
}
#: CP-21: the front asks for a swap and does not wait for it, as it would with nobody to ask.
ACKNOWLEDGED: Final = (
    Mutant(
        id="no-acknowledgement",
        file="control/activation.py",
        old="            await self._ask_helper(offer.digest, swap=True)\n            self._enforce(new)",
        new="            self._enforce(new)",
    ),
)
