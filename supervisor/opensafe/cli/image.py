"""`opensafe image`: build and list runner images. Works on this host's files, without a daemon."""

import pathlib
from typing import Annotated

import typer

from opensafe.config import Paths
from opensafe.errors import InvalidArgument

from . import options

group = typer.Typer(help="Runner images: what sandboxes are made of.", no_args_is_help=True)
Images = Annotated[
    pathlib.Path, typer.Option("--images", metavar="DIR", help="Where images are: paths.images of the configuration.")
]
_DEFAULT = pathlib.Path(Paths().images)
_COLUMNS = ("IMAGE", "DIGEST", "STATE", "CREATED", "SOURCE")


@group.command("build")
def build(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The template's name.")],
    suite: Annotated[
        str | None, typer.Option(metavar="SUITE", help="Build from this Debian suite, bookworm say.")
    ] = None,
    variant: Annotated[str, typer.Option(metavar="NAME", help="mmdebstrap's variant.")] = "minbase",
    include: Annotated[str, typer.Option(metavar="PACKAGE,…", help="Debian packages to install.")] = "",
    oci: Annotated[
        pathlib.Path | None, typer.Option("--oci", metavar="DIR", help="Build from this OCI image layout.")
    ] = None,
    recipe: Annotated[str, typer.Option(metavar="TEXT", help="A mark to keep in the manifest.")] = "",
    images: Images = _DEFAULT,
    json: options.Json = False,
) -> int:
    """Build an image and put it in the place of the one of that name. Sandboxes that run keep the old one.

    The image's digest is what policy sees and what a sandbox is made of: a site lists it in images.json.
    """
    from opensafe.image import debian, manifest
    from opensafe.image import oci as layout

    from . import present
    from .report import encode, report

    if (suite is None) == (oci is None):
        raise InvalidArgument("an image is built from --suite or from --oci, one of them")
    with present.progress(f"building {name}"):
        if oci is not None:
            layout.build(images, name, oci)
        elif suite is not None:
            packages = [word for word in include.split(",") if word]
            debian.build(images, name, suite=suite, variant=variant, include=packages, recipe=recipe)
    made = manifest.read(images / name)
    if json:
        summary = {"image": name, "digest": made.digest, "left_out": made.left_out}
        present.raw(encode(report("image-build", summary, made)))
    else:
        present.out(f"{name} {made.digest}")
        if made.left_out:
            present.say(f"{made.left_out} device nodes, pipes or sockets were left out")
    return 0


@group.command("list")
def list_(
    deep: Annotated[bool, typer.Option("--deep", help="Read every file: does the tree hash to its digest?")] = False,
    images: Images = _DEFAULT,
    json: options.Json = False,
) -> int:
    """List the images of this host, and whether each is as it was built."""
    from opensafe.image import inspect

    from . import exits, present
    from .report import encode, report

    found = inspect.look(images, deep=deep)
    changed = sum(not image.intact for image in found)
    if json:
        summary = {"images": len(found), "changed": changed, "deep": deep}
        present.raw(encode(report("image-list", summary, {"images": found})))
    else:
        rows = [
            (image.name, image.digest, "as built" if image.intact else image.fault, image.created, image.source)
            for image in found
        ]
        for line in present.table(_COLUMNS, rows):
            present.out(line)
    return exits.Exit.GOAL_MISSED if changed else exits.Exit.OK
