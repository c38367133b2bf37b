"""Compile what tests hold our exports against: the OCSF classes that they use, from a checkout of the schema.

    python -m tools.ocsf CHECKOUT

The schema is written in pieces: classes and objects extend others, include profiles, and take types from a dictionary.
The result has every attribute of the classes and objects named here, with type, requirement and enumeration. Objects
that are not named are left out, so that a test meets an event that uses one.
"""

import json
import pathlib
import sys
from typing import Any, Final

TARGET: Final = pathlib.Path(__file__).resolve().parent.parent / "tests/harness/ocsf-1.8.0.json"
CLASSES: Final = (
    "application/api_activity",
    "application/application_lifecycle",
    "discovery/device_config_state_change",
    "findings/detection_finding",
    "network/dns_activity",
    "network/network_activity",
    "system/process_activity",
)
FORMS: Final = ("regex", "range", "max_len")
OBJECTS: Final = (
    *(
        "actor",
        "api",
        "application",
        "authorization",
        "container",
        "device",
        "dns_query",
        "finding_info",
        "fingerprint",
    ),
    *("firewall_rule", "metadata", "network_connection_info", "network_endpoint", "network_traffic", "policy"),
    *("process", "product", "request", "resource_details", "response", "service", "session", "span", "trace", "user"),
)


def main(checkout: pathlib.Path) -> None:
    """Write the fixture."""
    schema = _Schema(checkout)
    if schema.version != "1.8.0":
        raise SystemExit(f"the checkout is of {schema.version}, and 1.8.0 is wanted")
    compiled = {
        "source": "https://github.com/ocsf/ocsf-schema, v1.8.0, compiled by tools/ocsf.py without its descriptions",
        "license": "Apache-2.0; copyright OCSF a Series of LF Projects, LLC",
        "version": schema.version,
        "types": schema.types(),
        "forms": schema.forms(),
        "classes": {str(one["class_uid"]): one for one in map(schema.event, CLASSES)},
        "objects": {name: schema.thing(f"objects/{name}") for name in OBJECTS},
    }
    TARGET.write_text(json.dumps(compiled, separators=(",", ":"), sort_keys=True).replace("}},", "}},\n") + "\n")


class _Schema:
    def __init__(self, root: pathlib.Path) -> None:
        self._root = root
        self._dictionary = self._read("dictionary")
        self._categories = self._read("categories")["attributes"]
        self.version = self._read("version")["version"]
        self._by_name = {
            (kind, self._load(path)["name"]): path
            for kind in ("events", "objects")
            for path in (root / kind).rglob("*.json")
        }

    def types(self) -> dict[str, str]:
        """Each type's base type."""
        types = self._dictionary["types"]["attributes"]
        return {name: one.get("type", name) for name, one in types.items()}

    def forms(self) -> dict[str, dict[str, Any]]:
        """What a value of a type must look like beside its base type, of the types that say so."""
        types = self._dictionary["types"]["attributes"]
        limits = {name: {key: one[key] for key in FORMS if key in one} for name, one in types.items()}
        return {name: one for name, one in limits.items() if one}

    def event(self, name: str) -> dict[str, Any]:
        """One event class."""
        made = self.thing(f"events/{name}")
        category = self._categories[made.pop("category")]
        made["category_uid"], made["category_name"] = category["uid"], category["caption"]
        made["class_uid"] = category["uid"] * 1000 + made.pop("uid")
        return made

    def thing(self, name: str) -> dict[str, Any]:
        """A class or an object, with what it extends."""
        one = self._read(name)
        made: dict[str, Any] = {"attributes": {}}
        if "extends" in one:
            path = self._by_name[(name.partition("/")[0], one["extends"])]
            made = self.thing(str(path.relative_to(self._root).with_suffix("")))
        made |= {key: one[key] for key in ("name", "caption", "category", "uid", "constraints") if key in one}
        attributes = dict(one["attributes"])
        for include in attributes.pop("$include", ()):
            profile = self._read(include.removesuffix(".json"))
            for key, value in profile["attributes"].items():
                self._merge(made["attributes"], key, {"profile": profile["name"], **value})
        for key, value in attributes.items():
            self._merge(made["attributes"], key, value)
        return made

    def _merge(self, into: dict[str, Any], key: str, value: dict[str, Any]) -> None:
        known = self._dictionary["attributes"].get(key, {})
        had = into.get(key, {"type": known.get("type"), "enum": _captions(known)})
        if known.get("is_array"):
            had["array"] = True
        had |= {name: value[name] for name in ("type", "requirement", "profile") if name in value}
        had["enum"] = had["enum"] | _captions(value)
        into[key] = had

    def _read(self, name: str) -> dict[str, Any]:
        return self._load(self._root / f"{name}.json")

    @staticmethod
    def _load(path: pathlib.Path) -> dict[str, Any]:
        read: dict[str, Any] = json.loads(path.read_bytes())
        return read


def _captions(value: dict[str, Any]) -> dict[str, str]:
    return {key: one["caption"] for key, one in value.get("enum", {}).items()}


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
