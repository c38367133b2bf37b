"""Images whose root is another one than their own: a link to the host's root, or the host's root itself."""

import contextlib
import os
import pathlib
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator
from typing import Final

import msgspec

from opensafe.proof import mutants, private
from opensafe.proof.escape import host
from opensafe.proof.escape.ground import Ground
from opensafe.proof.escape.probe import Boundary, Run, Severity
from opensafe.proof.escape.trial import Trial
from opensafe.proof.mutants import Mutant

from .scenes import image_root, spare_root

_FILE: Final = "warden/sandbox/image.py"
MUTANTS: Final = (
    Mutant(id="image-link", file=_FILE, old="path.lstat().st_mode", new="path.stat().st_mode"),
    Mutant(
        id="image-another-tree",
        file=_FILE,
        old="if manifest.stat_digest(found.rootfs) != manifest.read(self._directory / template).stat:",
        new="if not found:",
    ),
)
_TEMPLATE: Final = "evil"
_MANIFEST: Final = "manifest.json"
_HOST: Final = pathlib.Path("/")


@contextlib.asynccontextmanager
async def _image(target: pathlib.Path, how: str) -> AsyncIterator[pathlib.Path]:
    """A directory of images with one that is really `target`. how: what leads there, a link or a mount."""
    with tempfile.TemporaryDirectory(prefix="opensafe-images-") as made:
        place = f"{made}/{_TEMPLATE if how != 'image' else 'elsewhere'}"
        os.mkdir(place)
        shutil.copy(image_root().parent / _MANIFEST, place)
        if how == "mount":
            os.mkdir(f"{place}/rootfs")
            await host.command("mount", "--bind", str(target), f"{place}/rootfs")
        else:
            os.symlink(target, f"{place}/rootfs")
        if how == "image":
            os.symlink(place, f"{made}/{_TEMPLATE}")
        try:
            yield pathlib.Path(made)
        finally:
            if how == "mount":
                await host.command("umount", f"{place}/rootfs")


async def _started(target: pathlib.Path, how: str, source: pathlib.Path | None, why: str = "") -> Run:
    """why: what it is refused for, in the warden's words; that it is refused for anything else says nothing."""
    with host.Canary.planted(target / host.BELOW.relative_to("/")) as canary:
        async with _image(target, how) as images:
            paths = msgspec.structs.replace(private.programs(), images=str(images))
            seen = str(_HOST / canary.file.relative_to(target))
            prefix = ["env", f"PYTHONPATH={source}"] if source is not None else []
            module = f"{__package__}.starting"
            said = await host.command(
                *prefix, sys.executable, "-m", module, msgspec.json.encode(paths).decode(), _TEMPLATE, seen
            )
        found, refused = canary.read_in(said), bool(why) and said.startswith("refused: ") and why in said
        return Run(
            began=refused or bool(found),
            finished=refused or bool(found),
            found=found,
            hints=(f"{how}: {said.strip()}",),
            fault="" if refused or found else f"{how}: {said.strip()}",
        )


def _all(runs: list[Run]) -> Run:
    return Run(
        began=all(run.began for run in runs),
        finished=all(run.finished for run in runs),
        found="; ".join(run.found for run in runs if run.found),
        layer="warden: an image whose root is a link, the host's or another tree is refused",
        hints=tuple(hint for run in runs for hint in run.hints),
        fault="; ".join(run.fault for run in runs if run.fault),
    )


async def _shipped(_: Ground) -> Run:
    async with spare_root() as other:
        tried = (
            (_HOST, "rootfs", "its rootfs is not a directory"),
            (_HOST, "image", f"its {_TEMPLATE} is not a directory"),
            (_HOST, "mount", "its root is the host's"),
            (other.tree, "mount", "its tree is not as it was built"),
        )
        return _all([await _started(target, how, None, why) for target, how, why in tried])


async def _unchecked(_: Ground) -> Run:
    """With a copy of the image in the host's place, because a start changes a root: that the host's own is refused has
    no control.
    """
    with mutants.planted(*MUTANTS) as source:
        async with spare_root() as other:
            return await _started(other.tree, "rootfs", source)


FS_25 = Trial(
    id="FS-25", boundary=Boundary.FILESYSTEM, severity=Severity.ESCAPE,
    title="an image whose root is a link to the host's root, the host's root itself, or another tree than was built",
    attacks=("T1611", "T1525"),
    breach="the guest reads a file that only the other root has",
    control=f"mut {', '.join(mutant.id for mutant in MUTANTS)}: a link to another tree is as good as the image",
    attempts=(_shipped,), weak=_unchecked,
)  # fmt: skip
