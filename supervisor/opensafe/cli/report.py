"""The one form of every `--json` report: schema, version, environment, summary, details."""

import os
import platform
from collections.abc import Mapping
from typing import Any

import msgspec

from opensafe import __version__


def environment(**more: str | float) -> dict[str, str | float]:
    """Where the report was made, with the versions and other facts that the command learnt."""
    return {
        "python": platform.python_version(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        **more,
    }


def report(subject: str, summary: Mapping[str, Any], details: object, **versions: str | float) -> dict[str, Any]:
    """A report of `subject`. summary: flat, the unit as the key's suffix. details: any structure."""
    return {
        "schema": f"opensafe.{subject}/1",
        "version": __version__,
        "environment": environment(**versions),
        "summary": dict(summary),
        "details": msgspec.to_builtins(details),
    }


def encode(value: dict[str, Any]) -> str:
    """Indented JSON text without trailing newline."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def text_or_base64(data: bytes) -> dict[str, str]:
    """A program's output in JSON: `text` where it is UTF-8, `base64` where it is not."""
    try:
        return {"text": data.decode()}
    except UnicodeDecodeError:
        return {"base64": msgspec.to_builtins(data)}
