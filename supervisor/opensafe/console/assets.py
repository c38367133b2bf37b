"""Style, script and what npm vendored: named by what is in them, so that a browser keeps each for good."""

import hashlib
import mimetypes
import pathlib
from typing import Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from opensafe.errors import HostUnsuitable

_PLACE: Final = pathlib.Path(__file__).with_name("assets")
OWN: Final = ("console.css", "console.js", "icon.svg")
VENDORED: Final = ("vendor/htmx.min.js", "vendor/sse.js", "vendor/idiomorph-ext.min.js")


class Assets:
    """All of them, read once. Raises HostUnsuitable where the vendored ones are not there."""

    def __init__(self) -> None:
        self._content: dict[str, bytes] = {}
        for name in (*OWN, *VENDORED):
            try:
                self._content[name] = (_PLACE / name).read_bytes()
            except OSError as error:
                raise HostUnsuitable(
                    "a file of the console is missing", value=_PLACE / name, remedy="`make setup` fetches it from npm."
                ) from error
        self._hashes = {name: hashlib.sha256(content).hexdigest()[:16] for name, content in self._content.items()}

    def url(self, name: str) -> str:
        """Where it is served."""
        return f"/assets/{self._hashes[name]}/{name}"

    async def serve(self, request: Request) -> Response:
        """GET /assets/HASH/NAME."""
        name = request.path_params["name"]
        content = self._content.get(name)
        if content is None or self._hashes[name] != request.path_params["hash"]:
            return PlainTextResponse("no such file\n", 404)
        kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
        return Response(content, media_type=kind, headers={"Cache-Control": "public, max-age=31536000, immutable"})
