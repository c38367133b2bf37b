"""Holds events against OCSF 1.8.0 as it is published (ocsf-1.8.0.json, which tools/ocsf.py compiles from it)."""

import json
import pathlib
import re

SCHEMA = json.loads((pathlib.Path(__file__).parent / "ocsf-1.8.0.json").read_text())
PLAIN = {
    "boolean_t": lambda value: isinstance(value, bool),
    "integer_t": lambda value: isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 31,
    "long_t": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "float_t": lambda value: isinstance(value, float),
    "string_t": lambda value: isinstance(value, str),
    "json_t": lambda value: True,
}


def faults(event):
    """What is wrong with an event, in words; an empty list where it is as the schema says."""
    found = SCHEMA["classes"].get(str(event.get("class_uid")))
    if found is None:
        return [f"no class {event.get('class_uid')}"]
    expected = {
        "class_name": found["caption"],
        "category_uid": found["category_uid"],
        "category_name": found["category_name"],
        "type_uid": event["class_uid"] * 100 + event.get("activity_id", 0),
    }
    wrong = [f"{key} is {event.get(key)!r}" for key, value in expected.items() if event.get(key) != value]
    profiles = event.get("metadata", {}).get("profiles", ())
    skip = {"category_uid", "class_uid"}
    return wrong + list(_faults_of(found, {k: v for k, v in event.items() if k not in skip}, profiles, "", skip))


def _faults_of(definition, value, profiles, where, known=()):
    attributes = definition["attributes"]
    for name, attribute in attributes.items():
        of_profile = attribute.get("profile") is not None and attribute["profile"] not in profiles
        if attribute.get("requirement") == "required" and not of_profile and name not in value and name not in known:
            yield f"{where}{name} is missing"
    for name, one in value.items():
        attribute = attributes.get(name)
        if attribute is None:
            yield f"{where}{name} is no attribute"
        elif attribute.get("profile") is not None and attribute["profile"] not in profiles:
            yield f"{where}{name} is of the profile {attribute['profile']}"
        elif attribute.get("array"):
            if not isinstance(one, list):
                yield f"{where}{name} is no list"
            else:
                for number, item in enumerate(one):
                    yield from _value_faults(attribute, item, profiles, f"{where}{name}.{number}")
        else:
            yield from _value_faults(attribute, one, profiles, f"{where}{name}")
    some = definition.get("constraints", {}).get("at_least_one")
    if some and not set(some) & set(value):
        yield f"{where} has none of {some}"


def _has_form(form, value):
    text = str(value)
    return (
        re.search(form.get("regex", ""), text) is not None
        and len(text) <= form.get("max_len", len(text))
        and ("range" not in form or form["range"][0] <= value <= form["range"][1])
    )


def _value_faults(attribute, value, profiles, where):
    kind = attribute["type"]
    if kind == "object":  # of no form, such as `unmapped`
        return
    if kind in SCHEMA["types"]:
        if not PLAIN[SCHEMA["types"][kind]](value):
            yield f"{where} is no {kind}: {value!r}"
        elif not _has_form(SCHEMA["forms"].get(kind, {}), value):
            yield f"{where} has not the form of a {kind}: {value!r}"
        elif attribute["enum"] and str(value) not in attribute["enum"]:
            yield f"{where} is none of the enumeration: {value!r}"
    elif kind not in SCHEMA["objects"]:
        yield f"{where} is an object that the compiled schema lacks: {kind}"
    elif not isinstance(value, dict):
        yield f"{where} is no object"
    else:
        yield from _faults_of(SCHEMA["objects"][kind], value, profiles, f"{where}.")
