"""The part of wasmtime's C API that evaluation needs, through cffi's ABI mode on the wheel's own library.

The wheel's Python objects cost more for one call than the call itself. Nothing here is called back by the guest:
its imports are met by a module of our own (`wasm.py`), so no Python runs below `wasmtime_func_call_unchecked`.
cffi releases the GIL around each call.
"""

import importlib.metadata
import importlib.util
import pathlib
import platform
from typing import Any, Final, TypeAlias

import cffi

from opensafe.errors import PolicyError

#: A C pointer or struct: cffi has no types for what a cdef declares.
CData: TypeAlias = Any

ffi: Final[Any] = cffi.FFI()
ffi.cdef(
    """
    typedef struct wasm_config_t wasm_config_t;
    typedef struct wasm_engine_t wasm_engine_t;
    typedef struct wasm_trap_t wasm_trap_t;
    typedef struct wasmtime_error_t wasmtime_error_t;
    typedef struct wasmtime_module_t wasmtime_module_t;
    typedef struct wasmtime_store_t wasmtime_store_t;
    typedef struct wasmtime_context_t wasmtime_context_t;
    typedef struct wasmtime_linker_t wasmtime_linker_t;

    typedef struct { size_t size; uint8_t *data; } wasm_byte_vec_t;
    typedef struct { uint64_t store_id; void *own; } wasmtime_func_t;
    typedef struct { struct { uint64_t store_id; uint32_t own1; } of; uint32_t own2; } wasmtime_memory_t;
    typedef struct { uint64_t store_id; uint32_t own1, own2, own3; } wasmtime_global_t;
    typedef struct { uint64_t store_id; size_t own; } wasmtime_instance_t;
    typedef struct {
        uint8_t kind;
        union { wasmtime_func_t func; wasmtime_memory_t memory; wasmtime_global_t global; uint64_t room[4]; } of;
    } wasmtime_extern_t;
    typedef struct { uint8_t kind; union { int32_t i32; int64_t i64; uint64_t room[6]; } of; } wasmtime_val_t;
    typedef union { int32_t i32; int64_t i64; uint8_t v128[16]; } wasmtime_val_raw_t;

    wasm_config_t *wasm_config_new(void);
    void wasmtime_config_epoch_interruption_set(wasm_config_t *, bool);
    void wasmtime_config_memory_may_move_set(wasm_config_t *, bool);
    void wasmtime_config_parallel_compilation_set(wasm_config_t *, bool);
    void wasmtime_config_strategy_set(wasm_config_t *, uint8_t);
    wasm_engine_t *wasm_engine_new_with_config(wasm_config_t *);
    void wasm_engine_delete(wasm_engine_t *);
    void wasmtime_engine_increment_epoch(wasm_engine_t *);

    wasmtime_error_t *wasmtime_wat2wasm(const char *, size_t, wasm_byte_vec_t *);
    wasmtime_error_t *wasmtime_module_new(wasm_engine_t *, const uint8_t *, size_t, wasmtime_module_t **);
    wasmtime_error_t *wasmtime_module_serialize(wasmtime_module_t *, wasm_byte_vec_t *);
    wasmtime_error_t *wasmtime_module_deserialize(wasm_engine_t *, const uint8_t *, size_t, wasmtime_module_t **);
    wasmtime_error_t *wasmtime_module_deserialize_file(wasm_engine_t *, const char *, wasmtime_module_t **);
    void wasmtime_module_delete(wasmtime_module_t *);

    wasmtime_store_t *wasmtime_store_new(wasm_engine_t *, void *, void *);
    void wasmtime_store_limiter(wasmtime_store_t *, int64_t, int64_t, int64_t, int64_t, int64_t);
    wasmtime_context_t *wasmtime_store_context(wasmtime_store_t *);
    void wasmtime_store_delete(wasmtime_store_t *);
    void wasmtime_context_set_epoch_deadline(wasmtime_context_t *, uint64_t);

    wasmtime_linker_t *wasmtime_linker_new(wasm_engine_t *);
    void wasmtime_linker_delete(wasmtime_linker_t *);
    wasmtime_error_t *wasmtime_linker_define_instance(
        wasmtime_linker_t *, wasmtime_context_t *, const char *, size_t, const wasmtime_instance_t *);
    wasmtime_error_t *wasmtime_linker_instantiate(
        wasmtime_linker_t *, wasmtime_context_t *, wasmtime_module_t *, wasmtime_instance_t *, wasm_trap_t **);
    bool wasmtime_instance_export_get(
        wasmtime_context_t *, const wasmtime_instance_t *, const char *, size_t, wasmtime_extern_t *);

    uint8_t *wasmtime_memory_data(wasmtime_context_t *, const wasmtime_memory_t *);
    size_t wasmtime_memory_data_size(wasmtime_context_t *, const wasmtime_memory_t *);
    void wasmtime_global_get(wasmtime_context_t *, const wasmtime_global_t *, wasmtime_val_t *);
    wasmtime_error_t *wasmtime_func_call_unchecked(
        wasmtime_context_t *, const wasmtime_func_t *, wasmtime_val_raw_t *, size_t, wasm_trap_t **);

    void wasmtime_error_message(wasmtime_error_t *, wasm_byte_vec_t *);
    void wasmtime_error_delete(wasmtime_error_t *);
    void wasm_trap_message(wasm_trap_t *, wasm_byte_vec_t *);
    bool wasmtime_trap_code(wasm_trap_t *, uint8_t *);
    void wasm_trap_delete(wasm_trap_t *);
    void wasm_byte_vec_delete(wasm_byte_vec_t *);
    """
)

#: Kinds of wasmtime_extern_t (wasmtime/extern.h).
EXTERN_FUNC: Final = 0
EXTERN_GLOBAL: Final = 1
EXTERN_MEMORY: Final = 3
#: wasmtime_trap_code_t (wasmtime/trap.h).
TRAP_STACK_OVERFLOW: Final = 0
TRAP_UNREACHABLE: Final = 9
TRAP_INTERRUPT: Final = 10


def _library() -> str:
    spec = importlib.util.find_spec("wasmtime")
    if spec is None or spec.origin is None:
        raise PolicyError("the wasmtime package is not installed", remedy="Run `make setup`.")
    return str(pathlib.Path(spec.origin).parent / f"linux-{platform.machine()}" / "_libwasmtime.so")


VERSION: Final = importlib.metadata.version("wasmtime")
lib: Final[CData] = ffi.dlopen(_library())


class WasmtimeError(Exception):
    """The library refused: malformed module, missing import, failed link."""


def check(error: CData) -> None:
    """Raise WasmtimeError where a function of the library returned an error, which is freed."""
    if error != ffi.NULL:
        text = _take_message(lib.wasmtime_error_message, error)
        lib.wasmtime_error_delete(error)
        raise WasmtimeError(text)


def take_trap(trap: CData) -> tuple[int | None, str]:
    """Trap code (None where it has none) and message of a trap, which is freed."""
    code = ffi.new("uint8_t *")
    known = lib.wasmtime_trap_code(trap, code)
    text = _take_message(lib.wasm_trap_message, trap)
    lib.wasm_trap_delete(trap)
    return (int(code[0]) if known else None), text


def take_bytes(vector: CData) -> bytes:
    """The content of a byte vector that the library filled; the vector is freed."""
    content = bytes(ffi.buffer(vector.data, vector.size))
    lib.wasm_byte_vec_delete(vector)
    return content


def _take_message(reader: CData, subject: CData) -> str:
    vector = ffi.new("wasm_byte_vec_t *")
    reader(subject, vector)
    return take_bytes(vector).rstrip(b"\0").decode("utf-8", "replace")
