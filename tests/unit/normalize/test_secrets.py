"""Shapes of secrets in a content, and the twin of each that is none."""

import pytest

from opensafe.model.facts import ClassTables
from opensafe.normalize.secrets import NAMES, shapes
from opensafe.normalize.tools import DEFAULT_REGISTRY

# Made up: no issuer ever gave one of these.
FOUND = {
    "private_key": b"x\n-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA",
    "aws_key": b"key = AKIA" + b"A" * 16,
    "github_token": b"ghp_" + b"a" * 36,
    "gitlab_token": b"glpat-" + b"a" * 20,
    "google_key": b"AIza" + b"a" * 35,
    "slack_token": b"xoxb-" + b"0" * 24,
    "stripe_key": b"sk_live_" + b"a" * 24,
    "npm_token": b"npm_" + b"a" * 36,
    "pypi_token": b"pypi-AgEIcHlwaS5vcmc" + b"a" * 40,
    "openai_key": b"sk-proj-" + b"a" * 48,
    "azure_key": b"AccountKey=" + b"a" * 88,
}
TWINS = [
    b"-----BEGIN PUBLIC KEY-----",
    b"-----BEGIN CERTIFICATE-----",
    b"AKIA is how the ids begin",
    b"ghp_short",
    b"xoxb- is a prefix",
    b"sk_test_" + b"a" * 24,
    b"mask-" + b"a" * 10,
    b"npm_config_cache=/tmp",
    b"",
    bytes(range(256)),
]


@pytest.mark.parametrize("name", FOUND)
def test_a_secret_is_named(name):
    assert shapes(b"before " + FOUND[name] + b" after") == {"secret": True, name: True}


@pytest.mark.parametrize("content", TWINS)
def test_what_is_no_secret_is_not(content):
    assert shapes(content) == {}


def test_every_shape_has_a_case():
    assert set(FOUND) | {"secret"} == set(NAMES)


def test_the_seal_tells_and_a_record_tells_the_same():
    arguments = b'{"path":"/workspace/k","content":"ghp_' + b"a" * 36 + b'"}'
    call = DEFAULT_REGISTRY.validate("c", "Write", arguments, 1 << 20)
    assert call.sealed["content"]["shapes"] == {"secret": True, "github_token": True}
    again = DEFAULT_REGISTRY.reopen("c", "Write", call.sealed)
    assert again.digest == call.digest
    assert DEFAULT_REGISTRY.facts(again, ClassTables()) == DEFAULT_REGISTRY.facts(call, ClassTables())
