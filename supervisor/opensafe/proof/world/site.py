"""What the world's web servers hold: a package index with one wheel, a git repository, a few pages.

All of it is made when the world begins. git over "dumb" HTTP (gitprotocol-http) and the index's simple API (PEP 503)
are files under fixed paths, so one table serves both.
"""

import base64
import hashlib
import io
import os
import pathlib
import subprocess
import tempfile
import zipfile
from typing import Final

WHEEL: Final = "worldly-1.0-py3-none-any.whl"
#: What `import worldly` has to say once it is installed.
GREETING: Final = "hello from pypi.test"
REPOSITORY: Final = "/project.git"
README: Final = "a repository of git.test\n"

_IDENTITY: Final = {
    name: value
    for who in ("AUTHOR", "COMMITTER")
    for name, value in ((f"GIT_{who}_NAME", "World"), (f"GIT_{who}_EMAIL", "world@git.test"))
}


def pages() -> dict[str, bytes]:
    """Path to content, for every host alike. Raises OSError or CalledProcessError where there is no git."""
    wheel = _wheel()
    digest = hashlib.sha256(wheel).hexdigest()
    index = f'<!DOCTYPE html><html><body><a href="/files/{WHEEL}#sha256={digest}">{WHEEL}</a></body></html>'
    held = {
        "/simple/": b'<!DOCTYPE html><html><body><a href="/simple/worldly/">worldly</a></body></html>',
        "/simple/worldly/": index.encode(),
        f"/files/{WHEEL}": wheel,
        "/hello": b"hello from the world\n",
    }
    return held | {f"{REPOSITORY}/{path}": content for path, content in _repository().items()}


def _wheel() -> bytes:
    files = {
        "worldly.py": f'GREETING = "{GREETING}"\n',
        "worldly-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: worldly\nVersion: 1.0\n",
        "worldly-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "worldly-1.0.dist-info/RECORD"
    lines = [f"{name},sha256={_digest(text)},{len(text)}" for name, text in files.items()]
    files[record] = "\n".join([*lines, f"{record},,", ""])
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, text in files.items():
            archive.writestr(zipfile.ZipInfo(name), text)
    return packed.getvalue()


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


def _repository() -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as directory:
        bare = pathlib.Path(directory, "project.git")
        tree = pathlib.Path(directory, "project")
        tree.mkdir()
        (tree / "README").write_text(README)
        git = ("git", "-c", "init.defaultBranch=main", "-c", "commit.gpgSign=false")
        for words in (("init", "-q"), ("add", "README"), ("commit", "-q", "-m", "first")):
            _run(*git, "-C", str(tree), *words)
        _run(*git, "clone", "-q", "--bare", str(tree), str(bare))
        _run(*git, "-C", str(bare), "update-server-info")
        return {str(path.relative_to(bare)): path.read_bytes() for path in bare.rglob("*") if path.is_file()}


def _run(*argv: str) -> None:
    clean = {"PATH": os.environ.get("PATH", os.defpath), "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(argv, check=True, capture_output=True, env=clean | _IDENTITY)
