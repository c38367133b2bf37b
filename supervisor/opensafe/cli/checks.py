"""One finding of `opensafe doctor`: what was looked at, whether it holds, and what to do where it doesn't."""

import msgspec


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One check. `value` is what was found; `remedy` is "" where `ok`."""

    name: str
    ok: bool
    value: str
    remedy: str = ""


def check(name: str, ok: bool, value: object, remedy: str) -> Check:
    """A check that carries its remedy only where it is needed."""
    return Check(name=name, ok=ok, value=str(value), remedy="" if ok else remedy)
