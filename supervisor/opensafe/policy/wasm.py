"""OPA's WebAssembly ABI (1.3): one instance of a module, and the one call that is an evaluation.

An evaluation is one call, `opa_eval`, on an input buffer that lies below the heap the call may use. The guest's
memory never moves, so its address is taken once. An instance is good until its first trap: a trap leaves the
guest's stack pointer displaced, so whoever sees GuestError must throw the instance away.
"""

import contextlib
from typing import Final

import msgspec

from ._wasmtime import (
    EXTERN_FUNC,
    EXTERN_GLOBAL,
    EXTERN_MEMORY,
    TRAP_INTERRUPT,
    TRAP_UNREACHABLE,
    CData,
    WasmtimeError,
    check,
    ffi,
    lib,
    take_trap,
)
from .native import Runtime

#: Largest question and largest answer, in bytes.
MAX_INPUT: Final = 1 << 20
MAX_OUTPUT: Final = 1 << 20
#: Time to parse the data and to answer the ABI's questions, which happens off the serving path.
SETUP_NS: Final = 2_000_000_000


class GuestError(Exception):
    """The guest trapped: deadline, memory, abort, stack. Its instance must not be used again."""


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
        self._arm(deadline_ns)
        try:
            address = self._run(self._eval, 0, entrypoint, self._data, self._input_at, size, self._heap, 0)
            answer = self._text(address)
            top = self._run(self._heap_get)
        finally:
            self._watchdog.disarm()
            ffi.buffer(self._input, size)[:] = bytes(size)
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

    def _arm(self, deadline_ns: int) -> None:
        """Once for all calls up to `disarm`: an interrupt between two of them ends the second."""
        lib.wasmtime_context_set_epoch_deadline(self._context, 1)
        self._watchdog.arm(deadline_ns)

    def _call(self, function: CData, *arguments: int) -> int:
        self._arm(SETUP_NS)
        try:
            return self._run(function, *arguments)
        finally:
            self._watchdog.disarm()

    def _run(self, function: CData, *arguments: int) -> int:
        """Call under a deadline that the caller has armed."""
        frame = self._frame
        for index, argument in enumerate(arguments):
            frame[index].i32 = argument
        error = lib.wasmtime_func_call_unchecked(self._context, function[1], frame, 8, self._trap)
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
