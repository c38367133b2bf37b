"""`opensafe policy keygen` and `sign`: keys, and the signature that makes a bundle one that a daemon loads."""

import pathlib
from typing import Annotated

import typer

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
