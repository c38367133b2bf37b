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
    "huggingface_token": b"hf_" + b"a" * 34,
    "groq_key": b"gsk_" + b"a" * 52,
    "sendgrid_key": b"SG." + b"a" * 22 + b"." + b"b" * 43,
    "digitalocean_token": b"dop_v1_" + b"a" * 64,
    "docker_token": b"dckr_pat_" + b"a" * 27,
    "vault_token": b"hvs." + b"a" * 90,
    "shopify_token": b"shpat_" + b"a" * 32,
    "square_token": b"sq0atp-" + b"a" * 22,
    "linear_key": b"lin_api_" + b"a" * 40,
    "atlassian_token": b"ATATT3" + b"a" * 180,
    "google_token": b"ya29." + b"a" * 60,
    "mailgun_key": b"key-" + b"a" * 32,
    "twilio_key": b"SK" + b"a" * 32,
    "slack_webhook": b"https://hooks.slack.com/services/T00000000/B00000000/" + b"a" * 24,
    "aws_secret": b"aws_secret_access_key = " + b"a" * 40,
    "web_token": b"eyJ" + b"a" * 20 + b".eyJ" + b"b" * 20 + b"." + b"c" * 43,
    "age_key": b"AGE-SECRET-KEY-1" + b"Q" * 58,
    "putty_key": b"PuTTY-User-Key-File-3: ssh-ed25519",
}
#: What else a shape may begin with.
OTHERS = {
    b"ASIA" + b"A" * 16: "aws_key",
    b"gho_" + b"a" * 36: "github_token",
    b"github_pat_" + b"a" * 60: "github_token",
    b"xapp-" + b"0" * 24: "slack_token",
    b"rk_live_" + b"a" * 24: "stripe_key",
    b"dor_v1_" + b"a" * 64: "digitalocean_token",
    b"dckr_oat_" + b"a" * 27: "docker_token",
    b"hvb." + b"a" * 90: "vault_token",
    b"shpss_" + b"a" * 32: "shopify_token",
    b"Aws_Secret_Access_Key: " + b"a" * 40: "aws_secret",
    b"id-eyJ" + b"a" * 20 + b".eyJ" + b"b" * 20 + b"." + b"c" * 43: "web_token",
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
    b"hf_hub_download(repo_id)",
    b"MSG.setDisplayName.call(this)",
    b"aws_secret_access_key = os.environ['AWS_SECRET_ACCESS_KEY']",
    b"hooks.slack.com/services/YOUR/WEBHOOK/URL",
    b"key-value pairs, SKU, eyJhbGciOi",
    b"",
    bytes(range(256)),
]


@pytest.mark.parametrize("name", FOUND)
def test_a_secret_is_named(name):
    assert shapes(b"before " + FOUND[name] + b" after") == {"secret": True, name: True}


@pytest.mark.parametrize("content", TWINS)
def test_what_is_no_secret_is_not(content):
    assert shapes(content) == {}


@pytest.mark.parametrize("content", OTHERS)
def test_another_beginning_is_found_as_well(content):
    assert shapes(content) == {"secret": True, OTHERS[content]: True}


@pytest.mark.parametrize(
    "unit", [b"-eyJ", b"eyJ.", b"-eyJaaaaaaaaaa.", b"SG.-", b"aws_secret_access_key ", b"sk- ", b"SK"]
)
def test_hostile_content_is_looked_through_in_linear_time(unit):
    assert shapes(unit * ((1 << 20) // len(unit))) == {}


def test_every_shape_has_a_case():
    assert set(FOUND) | {"secret"} == set(NAMES)


def test_the_seal_tells_and_a_record_tells_the_same():
    arguments = b'{"path":"/workspace/k","content":"ghp_' + b"a" * 36 + b'"}'
    call = DEFAULT_REGISTRY.validate("c", "Write", arguments, 1 << 20)
    assert call.sealed["content"]["shapes"] == {"secret": True, "github_token": True}
    again = DEFAULT_REGISTRY.reopen("c", "Write", call.sealed)
    assert again.digest == call.digest
    assert DEFAULT_REGISTRY.facts(again, ClassTables()) == DEFAULT_REGISTRY.facts(call, ClassTables())
