"""OPA's WebAssembly ABI (1.3) on wasmtime: compiled modules and instances.

One evaluation is one call, `opa_eval`, on an input buffer that lies below the heap the call may use. The guest's
memory never moves, so its address is taken once. An instance is good until its first trap: a trap leaves the
guest's stack pointer displaced, so whoever sees GuestError must throw the instance away.
"""

import contextlib
import hashlib
import os
import pathlib
import stat
import tempfile
from typing import Final

import msgspec

from opensafe.errors import PolicyError

from ._wasmtime import (
    EXTERN_FUNC,
    EXTERN_GLOBAL,
    EXTERN_MEMORY,
    TRAP_INTERRUPT,
    TRAP_UNREACHABLE,
    VERSION,
    CData,
    WasmtimeError,
    check,
    ffi,
    lib,
    take_bytes,
    take_trap,
)
from .watchdog import Watchdog

ABI_VERSION: Final = (1, 3)
#: Largest question and largest answer, in bytes.
MAX_INPUT: Final = 1 << 20
MAX_OUTPUT: Final = 1 << 20
#: Time to parse the data and to answer the ABI's questions, which happens off the serving path.
SETUP_NS: Final = 2_000_000_000

_PAGE: Final = 64 * 1024
#: Part of the cache key: what the code below sets in the engine's configuration.
_CONFIGURATION: Final = "cranelift-epoch-fixed"
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


class GuestError(Exception):
    """The guest trapped: deadline, memory, abort, stack. Its instance must not be used again."""


class Runtime:
    """A wasmtime engine with its watchdog. Close it after everything made with it."""

    def __init__(self) -> None:
        configuration = lib.wasm_config_new()
        lib.wasmtime_config_epoch_interruption_set(configuration, True)
        lib.wasmtime_config_memory_may_move_set(configuration, False)
        lib.wasmtime_config_parallel_compilation_set(configuration, False)  # its threads would have no owner
        self.engine = lib.wasm_engine_new_with_config(configuration)
        self.watchdog = Watchdog(lambda: lib.wasmtime_engine_increment_epoch(self.engine))
        self.host = self.compile(_wat(_HOST))

    def compile(self, wasm: bytes) -> CData:
        """Compile; the caller deletes the module. Raises WasmtimeError."""
        module = ffi.new("wasmtime_module_t **")
        check(lib.wasmtime_module_new(self.engine, ffi.from_buffer("uint8_t[]", wasm), len(wasm), module))
        return module[0]

    def compile_module(self, wasm: bytes, cache_dir: pathlib.Path | None) -> CData:
        """Compile through the cache of native code in `cache_dir`, which is made; None: without.

        Native code is taken from a directory only that nobody but root and this process's own user can change,
        and never from a bundle. Raises WasmtimeError, and PolicyError for a directory others may write to.
        """
        if cache_dir is None:
            return self.compile(wasm)
        cache_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        _require_ours(cache_dir)
        digest = hashlib.sha256(wasm).hexdigest()
        path = cache_dir / f"{digest}-{VERSION}-{_CONFIGURATION}.cwasm"
        if path.exists():
            _require_ours(path)
            module = ffi.new("wasmtime_module_t **")
            # A file of another build or a broken disk: made anew below.
            with contextlib.suppress(WasmtimeError):
                check(lib.wasmtime_module_deserialize_file(self.engine, os.fsencode(path), module))
                return module[0]
        compiled = self.compile(wasm)
        _store(path, _serialize(compiled))
        return compiled

    def close(self) -> None:
        """Free the engine."""
        if self.engine is not None:
            self.watchdog.close()
            lib.wasmtime_module_delete(self.host)
            lib.wasm_engine_delete(self.engine)
            self.engine = None


class Instance:
    """One module instantiated with one set of data. Not safe under threads: the engine takes turns."""

    def __init__(self, runtime: Runtime, module: CData, data: bytes, memory_bytes: int) -> None:
        """Raises WasmtimeError (does not link) and GuestError (data do not parse or do not fit)."""
        self._watchdog = runtime.watchdog
        self._store = lib.wasmtime_store_new(runtime.engine, ffi.NULL, ffi.NULL)
        try:
            lib.wasmtime_store_limiter(self._store, memory_bytes, 65_536, 2, 8, 1)
            self._context = lib.wasmtime_store_context(self._store)
            self._frame = ffi.new("wasmtime_val_raw_t[8]")
            self._trap = ffi.new("wasm_trap_t **")
            self._link(runtime, module)
            self.abi = (self._integer("opa_wasm_abi_version"), self._integer("opa_wasm_abi_minor_version"))
            self.entrypoints: dict[str, int] = self._mapping("entrypoints")
            self.builtins: dict[str, int] = self._mapping("builtins")
            self._prepare(data)
        except BaseException:
            self.close()
            raise

    def evaluate(self, entrypoint: int, question: bytes, deadline_ns: int) -> bytes:
        """Run `opa_eval`: JSON in, JSON out (a list; empty where the result is undefined).

        Raises GuestError. Nothing of the question is left in the guest's memory.
        """
        size = len(question)
        ffi.memmove(self._input, question, size)
        try:
            address = self._call(
                self._eval, 0, entrypoint, self._data, self._input_at, size, self._heap, 0, deadline_ns=deadline_ns
            )
            answer = self._text(address)
        finally:
            ffi.buffer(self._input, size)[:] = bytes(size)
        top = self._call(self._heap_get, deadline_ns=deadline_ns)
        if top > self._heap:
            ffi.buffer(self._memory + self._heap, top - self._heap)[:] = bytes(top - self._heap)
        return answer

    def memory_size(self) -> int:
        """Bytes of guest memory in use; it never shrinks."""
        return int(lib.wasmtime_memory_data_size(self._context, self._memory_handle))

    def close(self) -> None:
        """Free the store with everything in it."""
        if self._store is not None:
            lib.wasmtime_store_delete(self._store)
            self._store = None

    def _link(self, runtime: Runtime, module: CData) -> None:
        linker = lib.wasmtime_linker_new(runtime.engine)
        try:
            host = self._instantiate(linker, runtime.host)
            check(lib.wasmtime_linker_define_instance(linker, self._context, b"env", 3, host))
            self._instance = self._instantiate(linker, module)
        finally:
            lib.wasmtime_linker_delete(linker)
        memory = self._export(host, "memory", EXTERN_MEMORY)
        self._memory_handle = ffi.addressof(memory.of, "memory")
        self._memory_owner = memory
        self._memory = lib.wasmtime_memory_data(self._context, self._memory_handle)
        self._message = self._export(host, "message", EXTERN_GLOBAL)

    def _instantiate(self, linker: CData, module: CData) -> CData:
        instance = ffi.new("wasmtime_instance_t *")
        lib.wasmtime_context_set_epoch_deadline(self._context, 1)
        self._watchdog.arm(SETUP_NS)
        try:
            error = lib.wasmtime_linker_instantiate(linker, self._context, module, instance, self._trap)
        finally:
            self._watchdog.disarm()
        check(error)
        if self._trap[0] != ffi.NULL:
            raise GuestError(self._take_trap())
        return instance

    def _prepare(self, data: bytes) -> None:
        malloc, parse = self._function("opa_malloc"), self._function("opa_json_parse")
        self._eval, self._heap_get = self._function("opa_eval"), self._function("opa_heap_ptr_get")
        raw = self._call(malloc, len(data))
        self._span(raw, len(data))[:] = data
        self._data = self._call(parse, raw, len(data))
        if self._data == 0:
            raise GuestError("the data are not JSON")
        self._input_at = self._call(malloc, MAX_INPUT)
        self._span(self._input_at, MAX_INPUT)
        self._input = self._memory + self._input_at
        self._heap = self._call(self._heap_get)

    def _mapping(self, name: str) -> dict[str, int]:
        value = self._call(self._function(name))
        text = self._text(self._call(self._function("opa_json_dump"), value))
        try:
            return msgspec.json.decode(text, type=dict[str, int])
        except msgspec.DecodeError as error:
            raise WasmtimeError(f"{name}() answered nonsense: {error}") from error

    def _integer(self, name: str) -> int:
        value = ffi.new("wasmtime_val_t *")
        found = self._export(self._instance, name, EXTERN_GLOBAL)
        lib.wasmtime_global_get(self._context, ffi.addressof(found.of, "global"), value)
        return int(value.of.i32)

    def _function(self, name: str) -> CData:
        """The exported function; the owner is kept alive by the pair."""
        found = self._export(self._instance, name, EXTERN_FUNC)
        return found, ffi.addressof(found.of, "func")

    def _export(self, instance: CData, name: str, kind: int) -> CData:
        found = ffi.new("wasmtime_extern_t *")
        encoded = name.encode()
        if (
            not lib.wasmtime_instance_export_get(self._context, instance, encoded, len(encoded), found)
            or found.kind != kind
        ):
            raise WasmtimeError(f"the module exports no {name}")
        return found

    def _call(self, function: CData, *arguments: int, deadline_ns: int = SETUP_NS) -> int:
        frame = self._frame
        for index, argument in enumerate(arguments):
            frame[index].i32 = argument
        lib.wasmtime_context_set_epoch_deadline(self._context, 1)
        self._watchdog.arm(deadline_ns)
        try:
            error = lib.wasmtime_func_call_unchecked(self._context, function[1], frame, 8, self._trap)
        finally:
            self._watchdog.disarm()
        if self._trap[0] != ffi.NULL:
            raise GuestError(self._take_trap())
        if error != ffi.NULL:
            try:
                check(error)
            except WasmtimeError as problem:
                raise GuestError(str(problem)) from problem
        return int(frame[0].i32) & 0xFFFFFFFF

    def _span(self, address: int, size: int) -> CData:
        if not 0 < address <= self.memory_size() - size:
            raise GuestError(f"the guest answered an address outside its memory: {address}")
        return ffi.buffer(self._memory + address, size)

    def _text(self, address: int) -> bytes:
        """The NUL-terminated text at `address`, which the guest chose: bounded by its memory and by MAX_OUTPUT."""
        room = min(self.memory_size() - address, MAX_OUTPUT)
        if address == 0 or room <= 0:
            raise GuestError(f"the guest answered an address outside its memory: {address}")
        text: bytes = ffi.string(ffi.cast("char *", self._memory + address), room)
        if len(text) == room:
            raise GuestError(f"the guest's answer is longer than {room} bytes")
        return text

    def _take_trap(self) -> str:
        code, message = take_trap(self._trap[0])
        self._trap[0] = ffi.NULL
        if code == TRAP_INTERRUPT:
            return "the deadline passed"
        if code == TRAP_UNREACHABLE:
            value = ffi.new("wasmtime_val_t *")
            lib.wasmtime_global_get(self._context, ffi.addressof(self._message.of, "global"), value)
            if value.of.i32 != 0:
                with contextlib.suppress(GuestError):
                    text = self._text(value.of.i32 & 0xFFFFFFFF)[:200].decode("utf-8", "replace")
                    return f"the guest aborted: {text}"
        return message.splitlines()[-1].strip() if message else "the guest trapped"


def _wat(text: bytes) -> bytes:
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
