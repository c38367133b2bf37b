"""What runs in the child: `python -P child.py ORDER`, where ORDER is the engine's, as JSON.

It is a script and imports nothing of ours before atheris is in place: a module that was imported before gives no
coverage, and a run without coverage tries next to nothing while it looks like a success. What it has to say goes into
the order's report file, since libFuzzer ends the process as it likes.
"""

import ctypes
import importlib.util
import json
import pathlib
import signal
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any, Final

_PR_SET_PDEATHSIG: Final = 1
#: Of a message, and of a traceback's end.
_MESSAGE: Final = 2000
_TRACE: Final = 4000


def _load(file: str) -> Any:  # noqa: ANN401 - its type is ours, and can't be imported yet
    spec = importlib.util.spec_from_file_location(pathlib.Path(file).stem, file)
    if spec is None or spec.loader is None:
        raise ImportError(file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.TARGET


def _what(error: BaseException) -> dict[str, str]:
    """kind: the same for every input that shows the same fault."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f"{pathlib.Path(frames[-1].filename).name}:{frames[-1].name}" if frames else ""
    says = getattr(error, "says", "") or where
    return {
        "kind": f"{type(error).__name__} {says}",
        "message": str(error)[:_MESSAGE],
        "trace": "".join(traceback.format_exception(error))[-_TRACE:],
    }


def _write(report: str, **said: object) -> None:
    pathlib.Path(report).write_text(json.dumps(said))


def _fuzz(order: dict[str, Any]) -> None:
    import atheris

    before = {name for name in sys.modules if name.partition(".")[0] == "opensafe"}
    with atheris.instrument_imports(include=["opensafe"], exclude=order["exclude"]):
        target = _load(order["target"])
    missed = before & set(sys.modules) - set(order["exclude"])
    if missed:
        raise ImportError(f"imported before they could give coverage: {sorted(missed)}")

    def one(data: bytes) -> None:
        try:
            target.one(data)
        except BaseException as error:
            _write(order["report"], finding=_what(error))
            raise

    more = {"custom_mutator": target.mutate} if target.mutate is not None else {}
    _write(order["report"], started=True)
    atheris.Setup([sys.argv[0], *order["options"]], one, **more)
    atheris.Fuzz()


def _broken(one: Callable[[bytes], None], data: bytes) -> dict[str, str] | None:
    try:
        one(data)
    except BaseException as error:  # noqa: BLE001 - whatever it raises is what is asked for
        return _what(error)
    return None


def _replay(order: dict[str, Any]) -> None:
    """The first of the files that breaks an invariant."""
    target = _load(order["target"])
    for name in order["inputs"]:
        if found := _broken(target.one, pathlib.Path(name).read_bytes()):
            _write(order["report"], finding=found, input=name)
            return
    _write(order["report"], replayed=len(order["inputs"]))


def _minimise(order: dict[str, Any]) -> None:
    """Take away ever smaller pieces while the same fault shows (delta debugging), then write what is left."""
    target, until = _load(order["target"]), time.monotonic() + order["seconds"]
    file = pathlib.Path(order["inputs"][0])
    data, first = file.read_bytes(), _broken(target.one, file.read_bytes())
    size = len(data) // 2
    while first and size:
        at, shrunk = 0, False
        while at < len(data) and time.monotonic() < until:
            tried = data[:at] + data[at + size :]
            found = _broken(target.one, tried)
            if found and found["kind"] == first["kind"]:
                data, shrunk = tried, True
            else:
                at += size
        size = size if shrunk and size == 1 else size // 2
        if time.monotonic() >= until:
            break
    file.write_bytes(data)
    _write(order["report"], finding=_broken(target.one, data) or first)


def main() -> None:
    """Do what is ordered, and end with who ordered it."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    order = json.loads(sys.argv[1])
    {"fuzz": _fuzz, "replay": _replay, "minimise": _minimise}[order["do"]](order)


if __name__ == "__main__":
    main()
