"""Archives that write outside of where they are unpacked: on the host by the client, in the guest by the file API."""

import contextlib
import io
import os
import pathlib
import shutil
import sys
import tarfile
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Final

import msgspec

from opensafe.errors import FileError
from opensafe.proof import mutants
from opensafe.proof.escape import host
from opensafe.proof.escape.ground import Ground
from opensafe.proof.escape.probe import Boundary, Run, Severity
from opensafe.proof.escape.trial import Trial
from opensafe.proof.escape.ways import POLICY
from opensafe.proof.mutants import Mutant

PLAIN: Final = Mutant(
    id="trees-plain-extract",
    file="client/trees.py",
    old="                    unpacking.member(tar, member)\n",
    new="                    tar.extract(member, target)\n",
)
_ESCAPED: Final = "escaped"
_IN: Final = "/workspace/in"
_CANARY, _LOOKED = "as it was", "looked"


def _file(name: str, **more: object) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size = len(_ESCAPED)
    for field, value in more.items():
        setattr(info, field, value)
    return info


def _link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def _node(name: str, kind: bytes) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.devmajor, info.devminor = kind, 1, 3
    return info


def _kinds(outside: str) -> Mapping[str, tuple[tarfile.TarInfo, ...]]:
    """Members by what they try. outside: the directory above the one that is unpacked into."""
    out = f"{outside}/{_ESCAPED}"
    directory = tarfile.TarInfo("d")
    directory.type = tarfile.DIRTYPE
    return {
        "..": (_file(f"../{_ESCAPED}"),),
        ".. within": (_file(f"a/b/../../../{_ESCAPED}"),),
        "absolute": (_file(out),),
        "pax path": (_file("plain", pax_headers={"path": f"../{_ESCAPED}"}),),
        "link, then file": (_link("l", ".."), _file(f"l/{_ESCAPED}")),
        "absolute link": (_link("l", outside), _file(f"l/{_ESCAPED}")),
        "chain of links": (_link("a", "."), _link("a/b", ".."), _file(f"a/b/{_ESCAPED}")),
        "link in a file's place": (_link("f", f"../{_ESCAPED}"), _file("f")),
        "duplicate": (directory, _link("d", ".."), _file(f"d/{_ESCAPED}")),
        "hard link": (_link("h", "../canary", tarfile.LNKTYPE), _file("h")),
        "hard link through a link": (_link("l", ".."), _link("h", "l/canary", tarfile.LNKTYPE), _file("h")),
        "device": (_node("zero", tarfile.CHRTYPE),),
        "pipe": (_node("pipe", tarfile.FIFOTYPE),),
    }


def _archive(members: tuple[tarfile.TarInfo, ...]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for member in members:
            tar.addfile(member, io.BytesIO(_ESCAPED.encode()) if member.isreg() else None)
    return packed.getvalue()


def unpacking(source: pathlib.Path | None, *directories: pathlib.Path) -> list[str]:
    """The command that unpacks `tar` into `target` in each, by this package or by a changed copy."""
    prefix = ["env", f"PYTHONPATH={source}"] if source is not None else []
    return [*prefix, sys.executable, "-m", f"{__package__}.unpacking", *map(str, directories)]


async def _on_the_host(source: pathlib.Path | None) -> Run:
    """Each archive into a directory of its own, beside a canary."""
    kinds = list(_kinds(""))
    with contextlib.ExitStack() as stack:
        canaries = [stack.enter_context(host.Canary.planted()) for _ in kinds]
        directories = [canary.directory for canary in canaries]
        for kind, directory in zip(kinds, directories, strict=True):
            (directory / "tar").write_bytes(_archive(_kinds(str(directory))[kind]))
        said = (await host.command(*unpacking(source, *directories))).splitlines()
        found = [what for kind, canary in zip(kinds, canaries, strict=True) if (what := _outside(kind, canary))]
    return Run(
        began=len(said) == len(kinds),
        finished=True,
        found="; ".join(found),
        layer="client: each name is opened from the target, no link followed",
        hints=tuple(f"{kind}: {line}" for kind, line in zip(kinds, said, strict=True)),
    )


def _outside(kind: str, canary: host.Canary) -> str:
    special = next(_special(canary.directory / "target"), "")
    shutil.rmtree(canary.directory / "target", ignore_errors=True)
    (canary.directory / "tar").unlink()
    what = canary.changed() or (f"it made {special}" if special else "")
    return f"{kind}: {what}" if what else ""


def _special(target: pathlib.Path) -> Iterator[str]:
    for directory, _, files in os.walk(target):
        for path in (pathlib.Path(directory, name) for name in files):
            if not path.is_symlink() and not path.is_file():
                yield path.name


async def _by_the_client(_: Ground) -> Run:
    return msgspec.structs.replace(await _on_the_host(None), opened=(POLICY, "file helper"))


async def _plainly(_: Ground) -> Run:
    with mutants.planted(PLAIN) as source:
        return await _on_the_host(source)


async def _in_the_guest(on: Ground) -> Run:
    """Upload each beside a canary; what stands outside of the directories afterwards, and whether a canary has another
    text or name, is looked for by another program of the guest's.
    """
    kinds = _kinds("/workspace")
    async with on.session() as (client, session, sandbox):
        files, hints = client.files(session, sandbox), []
        for number, (kind, members) in enumerate(kinds.items()):
            await files.write(f"{_IN}/{number}/canary", f"{_CANARY}\n".encode())
            try:
                left = await files.upload(f"{_IN}/{number}/target", _once(_archive(members)))
                hints.append(f"{kind}: {', '.join(item.reason for item in left.items) or 'unpacked'}")
            except FileError as error:
                hints.append(f"{kind}: {error.reason}")
        look = f"find /workspace /tmp -name {_ESCAPED} -not -path '*/target/*'; find {_IN} -type c -o -type p"
        look += f"; find {_IN} -name canary -links +1; cat {_IN}/*/canary; echo {_LOOKED}"
        done = await client.run_call(session, sandbox, "look", "Bash", {"command": look})
    *seen, last = done.stdout.decode(errors="replace").splitlines() or [""]
    harmed = last == _LOOKED and seen != [_CANARY] * len(kinds)
    return Run(
        began=True,
        finished=last == _LOOKED,
        found=f"outside of it: {next((line for line in seen if line != _CANARY), 'a canary')}" if harmed else "",
        layer="file helper: BAD_ARCHIVE; links and devices left out",
        hints=tuple(hints),
    )


async def _once(data: bytes) -> AsyncIterator[bytes]:
    yield data


FS_11 = Trial(
    id="FS-11", boundary=Boundary.FILESYSTEM, severity=Severity.ESCAPE,
    title="archives with .., absolute names, links before files, hard links, devices, duplicate names",
    attacks=("T1027", "T1565.001"), benchmark=("k8s_malicious_binary",),
    breach="a file outside the directory that was unpacked into, or a device in it",
    control=f"mut {PLAIN.id}: the client extracts as it comes",
    attempts=(_in_the_guest, _by_the_client), weak=_plainly,
)  # fmt: skip
