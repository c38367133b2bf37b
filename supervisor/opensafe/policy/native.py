"""Compiling modules, and the cache of native code.

Native code is taken from a directory only that nobody but root and this process's own user can change, and never
from a bundle: whoever writes native code is the daemon.
"""

import contextlib
import enum
import hashlib
import os
import pathlib
import platform
import stat
import tempfile
from typing import Final

from opensafe.errors import BundleRefused, PolicyError

from ._wasmtime import VERSION, CData, WasmtimeError, check, ffi, lib, take_bytes
from .manifest import Bundle
from .watchdog import Watchdog

#: Files in a cache: of the bundles in force and some before, by two compilers.
_KEPT: Final = 16
# The imports of an OPA module. Policies that need a host builtin are refused, so none of these is honestly
# called but opa_abort, whose message is left where it can be read after the trap.
_HOST: Final = b"""
(module
  (memory (export "memory") 64)
  (global (export "message") (mut i32) (i32.const 0))
  (func (export "opa_abort") (param i32) (global.set 0 (local.get 0)) unreachable)
  (func (export "opa_println") (param i32) unreachable)
  (func (export "opa_builtin0") (param i32 i32) (result i32) unreachable)
  (func (export "opa_builtin1") (param i32 i32 i32) (result i32) unreachable)
  (func (export "opa_builtin2") (param i32 i32 i32 i32) (result i32) unreachable)
  (func (export "opa_builtin3") (param i32 i32 i32 i32 i32) (result i32) unreachable)
  (func (export "opa_builtin4") (param i32 i32 i32 i32 i32 i32) (result i32) unreachable))
"""

#: Its native code by tier, of this process and from nowhere else.
_hosts: Final[dict["Tier", bytes]] = {}


class Tier(enum.Enum):
    """A compiler of wasmtime, by its number there (wasmtime_strategy_t).

    QUICK is Winch: one pass, a fifth of the time to compile, code that takes about twice as long to run.
    """

    OPTIMISED = 1
    QUICK = 2


class Runtime:
    """A wasmtime engine with its watchdog. Close it after everything made with it."""

    def __init__(self, tier: Tier = Tier.OPTIMISED) -> None:
        self._tier = tier
        configuration = lib.wasm_config_new()
        lib.wasmtime_config_epoch_interruption_set(configuration, True)
        lib.wasmtime_config_memory_may_move_set(configuration, False)
        lib.wasmtime_config_parallel_compilation_set(configuration, False)  # its threads would have no owner
        lib.wasmtime_config_strategy_set(configuration, tier.value)
        self.engine = lib.wasm_engine_new_with_config(configuration)
        self.watchdog = Watchdog(lambda: lib.wasmtime_engine_increment_epoch(self.engine))
        self.host = self._take_host()

    def compile(self, wasm: bytes) -> CData:
        """Compile; the caller deletes the module. Raises WasmtimeError."""
        module = ffi.new("wasmtime_module_t **")
        check(lib.wasmtime_module_new(self.engine, ffi.from_buffer("uint8_t[]", wasm), len(wasm), module))
        return module[0]

    def _take_host(self) -> CData:
        """The module that stands for the host. To compile it takes longer than all else that an engine needs."""
        code = _hosts.get(self._tier)
        if code is None:
            compiled = self.compile(wat(_HOST))
            _hosts[self._tier] = _serialize(compiled)
            return compiled
        module = ffi.new("wasmtime_module_t **")
        check(lib.wasmtime_module_deserialize(self.engine, ffi.from_buffer("uint8_t[]", code), len(code), module))
        return module[0]

    def take_module(self, bundle: Bundle, cache_dir: pathlib.Path | None) -> CData:
        """The bundle's module, from the cache where it is. Raises as compile_module, and BundleRefused."""
        if bundle.wasm:
            return self.compile_module(bundle.wasm, cache_dir)
        module = self._cached(cached_path(cache_dir, bundle.module, self._tier)) if cache_dir else None
        if module is None:
            raise BundleRefused("module: its native code is not in the cache", value=bundle.revision)
        return module

    def compile_module(self, wasm: bytes, cache_dir: pathlib.Path | None) -> CData:
        """Compile through the cache of native code in `cache_dir`, which is made; None: without.

        Native code is taken from a directory only that nobody but root and this process's own user can change,
        and never from a bundle. Raises WasmtimeError, and PolicyError for a directory others may write to.
        """
        if cache_dir is None:
            return self.compile(wasm)
        cache_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        _require_ours(cache_dir)
        path = cached_path(cache_dir, hashlib.sha256(wasm).hexdigest(), self._tier)
        cached = self._cached(path)
        if cached is not None:
            return cached
        compiled = self.compile(wasm)
        _store(path, _serialize(compiled))
        return compiled

    def _cached(self, path: pathlib.Path) -> CData | None:
        if not path.exists():
            return None
        _require_ours(path)
        module = ffi.new("wasmtime_module_t **")
        # A file of another build or a broken disk: made anew.
        with contextlib.suppress(WasmtimeError):
            os.utime(path)  # it was of use: the oldest ones go
            check(lib.wasmtime_module_deserialize_file(self.engine, os.fsencode(path), module))
            return module[0]
        return None

    def close(self) -> None:
        """Free the engine."""
        if self.engine is not None:
            self.watchdog.close()
            lib.wasmtime_module_delete(self.host)
            lib.wasm_engine_delete(self.engine)
            self.engine = None


def cached_path(cache_dir: pathlib.Path, module: str, tier: Tier) -> pathlib.Path:
    """Where the native code of the module with that SHA-256 is kept: by library version and configuration too."""
    return cache_dir / f"{module}-{VERSION}-{tier.name.lower()}-epoch-fixed.cwasm"


def best(module: str, cache_dir: pathlib.Path | None) -> Tier:
    """The tier to use at once: the optimised code where the cache has it, else what is quick to compile."""
    if cache_dir is None or platform.machine() != "x86_64" or cached_path(cache_dir, module, Tier.OPTIMISED).exists():
        return Tier.OPTIMISED
    return Tier.QUICK


def wat(text: bytes) -> bytes:
    vector = ffi.new("wasm_byte_vec_t *")
    check(lib.wasmtime_wat2wasm(text, len(text), vector))
    return take_bytes(vector)


def _serialize(module: CData) -> bytes:
    vector = ffi.new("wasm_byte_vec_t *")
    check(lib.wasmtime_module_serialize(module, vector))
    return take_bytes(vector)


def _store(path: pathlib.Path, content: bytes) -> None:
    """Write whole or not at all; a full disk costs the cache, not the bundle."""
    with contextlib.suppress(OSError):
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".part")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(name, path)
        except OSError:
            os.unlink(name)
            raise
        for old in sorted(path.parent.glob("*.cwasm"), key=lambda one: one.stat().st_mtime)[:-_KEPT]:
            old.unlink(missing_ok=True)


def _require_ours(path: pathlib.Path) -> None:
    """`path` and every directory above it can be changed by root and this process's user alone."""
    owners = {0, os.geteuid()}
    for part in (path, *path.absolute().parents):
        found = part.lstat()
        sticky = part != path and found.st_mode & stat.S_ISVTX  # as /tmp: others can't replace what is ours in it
        shared = found.st_mode & 0o022 and not sticky
        if found.st_uid not in owners or shared or stat.S_ISLNK(found.st_mode):
            raise PolicyError(
                "native code is not taken from a place that others can change",
                value=part,
                remedy="Use a cache directory that only this user and root can write to, without symlinks above it.",
            )
