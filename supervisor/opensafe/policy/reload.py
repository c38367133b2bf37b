"""From the digest of an archived bundle to an engine ready to serve, all work but milliseconds done elsewhere."""

import base64
import binascii
import hashlib
import pathlib

import msgspec

from opensafe.errors import BundleRefused

from .engine import Engine
from .job import Job, Prepared
from .location import archived_path
from .manifest import Bundle
from .native import Tier
from .preparer import Preparer


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """A verified bundle with an engine of its own, which whoever holds it closes. quick: compiled in a hurry."""

    bundle: Bundle
    engine: Engine
    quick: bool


class Loader:
    """Loads bundles for one process, each into an engine with these limits (see Engine)."""

    def __init__(
        self,
        preparer: Preparer,
        state: pathlib.Path,
        keys: tuple[str, ...],
        cache_dir: pathlib.Path,
        *,
        deadline_ms: int,
        memory_bytes: int,
    ) -> None:
        self._preparer = preparer
        self._state = state
        self._keys = keys
        #: Ids of the trusted keys, as keys.key_id has them; the key itself is the end of what PEM holds (RFC 8410).
        self.key_ids = tuple(_identity(text) for text in keys)
        self._cache = cache_dir
        self._deadline_ms = deadline_ms
        self._memory_bytes = memory_bytes

    async def load(self, digest: str, *, optimise: bool = False) -> Loaded:
        """Verify the archived bundle `digest` and make an engine. Raises BundleRefused, PolicyError.

        The optimised module is used where the cache has it; where not, the quick one, unless `optimise` says to wait.
        """
        path = archived_path(self._state, digest)
        prepared = await self._preparer.prepare(
            Job(path=str(path), keys=self._keys, cache=str(self._cache), optimise=optimise)
        )
        bundle = prepared.bundle
        if bundle.digest != digest:
            raise BundleRefused("archive: another bundle than was offered", value=bundle.digest, limit=digest)
        return self._loaded(prepared)

    async def load_candidate(self, content: bytes) -> Loaded:
        """Verify a bundle that came from a client and make an engine. Raises BundleRefused, PolicyError.

        One at a time. This process looks at none of its bytes: only what came of them is data here.
        """
        path = self._cache.parent / "candidate"
        try:
            path.write_bytes(content)
            return self._loaded(
                await self._preparer.prepare(
                    Job(path=str(path), keys=self._keys, cache=str(self._cache), candidate=True)
                )
            )
        except OSError as error:
            raise BundleRefused(f"the candidate can't be kept: {error.strerror}", value=path.name) from error
        finally:
            path.unlink(missing_ok=True)

    def _loaded(self, prepared: Prepared) -> Loaded:
        engine = Engine(
            prepared.bundle,
            deadline_ms=self._deadline_ms,
            memory_bytes=self._memory_bytes,
            cache_dir=self._cache,
            tier=prepared.tier,
        )
        return Loaded(bundle=prepared.bundle, engine=engine, quick=prepared.tier is Tier.QUICK)


def _identity(pem: str) -> str:
    body = "".join(line for line in pem.splitlines() if not line.startswith("-----"))
    try:
        return hashlib.sha256(base64.b64decode(body)[-32:]).hexdigest()[:16]
    except binascii.Error as error:
        raise BundleRefused("keys: not a public key in PEM", value=pem[:40]) from error
