"""`opensafe policy keygen`, `sign` and `activate`: from a bundle to one that is in force."""

import pathlib
from typing import TYPE_CHECKING, Annotated, Final

import typer

from . import options

if TYPE_CHECKING:
    from opensafe.client import BundleSettled, Client

#: The daemon settles every bundle within five seconds of seeing it.
_PATIENCE_S: Final = 15.0

Out = Annotated[pathlib.Path | None, typer.Option("--out", metavar="FILE", help="Where to. Default: in place.")]
Number = Annotated[
    int | None,
    typer.Option(
        "--number", min=1, help="Sign under this number. To go back to old content, give it a higher number than now."
    ),
]


def keygen(
    directory: Annotated[pathlib.Path, typer.Argument(metavar="DIR", help="Where to; it is made if need be.")],
) -> int:
    """Make a key pair: policy.key signs and is yours alone to read; policy.pub is for policy.trusted_keys."""
    from opensafe.policy import keys

    from . import present

    public, identity = keys.generate(directory)
    present.out(f"{public}: key {identity}")
    return 0


def sign(
    bundle: Annotated[pathlib.Path, typer.Argument(metavar="BUNDLE", help="A bundle, signed or not.")],
    key: Annotated[pathlib.Path, typer.Option("--key", metavar="FILE", help="The private key.")],
    number: Number = None,
    out: Out = None,
) -> int:
    """Sign a bundle. It is checked as a daemon would before it is written, whole or not at all."""
    from opensafe.policy import archive, keys
    from opensafe.policy.bundle import load
    from opensafe.policy.sign import sign as signed

    from . import present
    from .files import replace

    private = keys.read_private(key)
    content = signed(archive.read_file(bundle), private, number)
    public = private.public_key()
    loaded = load(content, trusted={keys.key_id(public): public})
    target = out or bundle
    replace(target, content)
    present.out(f"{target}: revision {loaded.revision}, signed by {loaded.key}, sha256 {loaded.digest}")
    return 0


def number_in_force(principal: str | None) -> int:
    """The number of the daemon's bundle. Raises OpenSafeError."""
    from .connect import ask

    return ask(principal, lambda client: client.status()).bundle_number


def activate(
    file: Annotated[pathlib.Path, typer.Argument(metavar="FILE", help="A signed bundle.")],
    principal: options.Principal = None,
    json: options.Json = False,
) -> int:
    """Put a bundle in the daemon's place for it, whole or not at all, and wait for its word: in force, or refused."""
    import asyncio
    import hashlib
    import sys

    from opensafe.errors import Unavailable
    from opensafe.policy import archive

    from . import exits, present
    from .connect import ask
    from .files import replace
    from .report import encode, report

    content = archive.read_file(file)
    digest = hashlib.sha256(content).hexdigest()

    async def work(client: "Client") -> "BundleSettled":
        place = pathlib.Path((await client.status()).bundle_path)
        before: int | None = None
        try:
            async with asyncio.timeout(_PATIENCE_S):
                async for settled in client.watch_bundle():
                    if before is None:  # subscribed: nothing is missed from here on
                        before = settled.sequence
                        await asyncio.to_thread(replace, place, content)
                    elif settled.sequence > before and settled.digest == digest:
                        return settled
        except TimeoutError as error:
            raise Unavailable("the daemon did not say what became of the bundle", limit=f"{_PATIENCE_S} s") from error
        raise Unavailable("the daemon ended")

    settled = ask(principal, work)
    if json:
        summary = {
            "activated": settled.activated,
            "revision": settled.revision,
            "number": settled.number,
            "digest": settled.digest,
            "reason": settled.reason,
            "took_ms": settled.took_ms,
        }
        present.raw(encode(report("policy-activate", summary, settled)))
    elif settled.activated:
        present.out(f"ACTIVATED  revision {settled.revision} in {settled.took_ms} ms")
    else:
        present.out(f"REFUSED    {settled.reason}\nThe last good bundle stays in force.")
    sys.stdout.flush()  # somebody may be waiting at a pipe
    return exits.Exit.OK if settled.activated else exits.Exit.GOAL_MISSED
