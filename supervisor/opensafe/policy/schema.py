"""`policies/schemas/input.json`, made from the types, so that rules are checked against what the daemon sends.

`python -m opensafe.policy.schema FILE` writes it; a test compares.
"""

import json
import pathlib
import sys

import msgspec

from opensafe.model.policy_input import PolicyInput


def input_schema() -> str:
    """JSON schema (2020-12) of PolicyInput, indented, ending in a newline."""
    return json.dumps(msgspec.json.schema(PolicyInput), indent=2, sort_keys=True) + "\n"


if __name__ == "__main__":
    pathlib.Path(sys.argv[1]).write_text(input_schema(), encoding="utf-8")
