"""The site's settings in a bundle (`data.opensafe.config`): checked against their schema, turned into tables.

The schema (`policies/schemas/config.json`) is shipped as `config.schema.json` beside this file, so that a daemon
refuses what it does not know whatever a bundle says of itself.
"""

import functools
import pathlib
from collections.abc import Iterable
from typing import Any, Final

import jsonschema_rs
import msgspec

from opensafe.errors import BundleRefused
from opensafe.model.facts import ClassTables

from . import endpoints

#: What no rule allows is blocked by this one.
DEFAULT_RULE: Final = "default.deny"
SCHEMA: Final = pathlib.Path(__file__).with_name("config.schema.json")


def read_config(content: bytes) -> dict[str, Any]:
    """Parse and check. Raises BundleRefused naming the place of the first fault."""
    try:
        config = msgspec.json.decode(content, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError) as error:
        raise BundleRefused(f"config: {error}") from error
    for fault in validator().iter_errors(config):
        place = ".".join(str(part) for part in fault.instance_path) or "the top"
        raise BundleRefused(f"config: {fault.message}", value=f"at {place}")
    for endpoint, why, remedy in endpoints.faults(config):
        raise BundleRefused(f"config: an endpoint {why}", value=endpoint, remedy=remedy)
    return config


def check_shadow(config: dict[str, Any], rules: Iterable[str]) -> None:
    """Refuse, with BundleRefused, a shadow of what is no rule of the bundle, and of what denies where no rule does."""
    unknown = sorted(set(config["shadow"]) - (set(rules) - {DEFAULT_RULE}))
    if unknown:
        raise BundleRefused("config: no rule that can run in shadow", value=", ".join(unknown))


def tables_of(config: dict[str, Any]) -> ClassTables:
    """The class tables of checked settings."""
    return msgspec.convert({"paths": config["paths"], "hosts": config["hosts"]}, ClassTables)


@functools.cache
def validator() -> jsonschema_rs.Validator:
    """The compiled schema."""
    return jsonschema_rs.validator_for(msgspec.json.decode(SCHEMA.read_bytes()))
