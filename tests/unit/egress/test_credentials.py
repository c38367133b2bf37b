"""Where a placeholder becomes a credential, where it is astray, and who shows the secret."""

import base64

import pytest

from opensafe.egress.credentials import MISPLACED, PUT, Credentials
from opensafe.model.termination import Credential

HOST = "api.example.com"
SECRET = "s3cr3t-of-this-test"
NAME = "opensafe-credential-hub"
HUB = Credential(name="hub", host=HOST, header="authorization", secret=SECRET.encode())
OTHER = Credential(name="other", host=HOST, header="authorization", secret=b"another-secret")
KEY = Credential(name="key", host="keys.example.com", header="x-api-key", secret=b"a-key-of-theirs")


def basic(text):
    return base64.b64encode(text.encode()).decode()


@pytest.fixture
def held():
    return Credentials([HUB, OTHER, KEY])


@pytest.mark.parametrize(
    ("value", "sent"),
    [
        (NAME, SECRET),
        (f"Bearer {NAME}", f"Bearer {SECRET}"),
        (f"token  {NAME}", f"token {SECRET}"),
        (f"Basic {basic(f'me:{NAME}')}", f"Basic {basic(f'me:{SECRET}')}"),
        (f"basic {basic(f':{NAME}').rstrip('=')}", f"basic {basic(f':{SECRET}')}"),
        ("Bearer opensafe-credential-other", "Bearer another-secret"),
    ],
)
def test_the_secret_takes_the_placeholders_place(held, value, sent):
    found = held.look(HOST, "/x", {"accept": "*/*", "authorization": value})
    assert (found.use, found.header, found.value) == (PUT, "authorization", sent)
    assert sent.rpartition(" ")[2] in found.secrets


@pytest.mark.parametrize(
    ("host", "target", "headers"),
    [
        ("", "/x", {"authorization": f"Bearer {NAME}"}),
        ("keys.example.com", "/x", {"authorization": f"Bearer {NAME}"}),
        (HOST, "/x", {"x-api-key": NAME}),
        (HOST, "/x", {"x-api-key": "opensafe-credential-key"}),
        (HOST, f"/x?token={NAME}", {}),
        (HOST, "/x/opensafe%2Dcredential-hub", {}),
        (HOST, "/x", {"authorization": f"Bearer {NAME}x"}),
        (HOST, "/x", {"authorization": f"Bearer {NAME},Bearer {NAME}"}),
        (HOST, "/x", {"authorization": f"Bearer {NAME.upper()}"}),
        (HOST, "/x", {"authorization": f"Basic {basic(f'{NAME}:x')}"}),
        (HOST, "/x", {"authorization": f"Basic {basic(f'{NAME}:{NAME}')}"}),
        (HOST, "/x", {"authorization": f"Bearer {NAME}", "cookie": f"a={NAME}"}),
        (HOST, "/x", {"authorization": f"Bearer {NAME}", "proxy-authorization": f"Basic {basic(f'me:{NAME}')}"}),
        (HOST, "/x", {"authorization": "Bearer opensafe-credential-nobodys"}),
    ],
)
def test_elsewhere_it_is_astray(held, host, target, headers):
    assert held.look(host, target, headers).use == MISPLACED


@pytest.mark.parametrize(
    "headers", [{}, {"authorization": "Bearer their-own"}, {"authorization": "Basic !!"}, {"authorization": "Basic"}]
)
def test_a_request_without_one_is_let_alone(held, headers):
    found = held.look(HOST, "/opensafe", headers)
    assert (found.use, found.header, found.secrets) == ("", "", ())


def test_nothing_that_holds_a_secret_shows_it(held):
    found = held.look(HOST, "/x", {"authorization": f"Bearer {NAME}"})
    for one in (HUB, found, held):
        for shown in (repr(one), str(one), f"{one}", repr([one])):
            assert SECRET not in shown
    assert "hub" in repr(HUB)  # and yet says which it is


def test_what_is_closed_has_none(held):
    kept = [secret for pairs in held._held.values() for _, secret in pairs]
    held.close()
    assert held.look(HOST, "/x", {"authorization": f"Bearer {NAME}"}).use == ""
    assert all(set(secret) == {0} for secret in kept)


def test_what_is_masked_is_the_secret_in_the_forms_that_servers_write():
    """JSON and its escaped slash, a URL in both cases of its digits, HTML."""
    held = Credentials([Credential(name="hub", host=HOST, header="authorization", secret=b'a/b+c=\\d"e<f')])
    found = held.look(HOST, "/x", {"authorization": f"Bearer {NAME}"})
    assert set(found.secrets) == {
        'a/b+c=\\d"e<f',
        'a/b+c=\\\\d\\"e<f',
        'a\\/b+c=\\\\d\\"e<f',
        "a%2Fb%2Bc%3D%5Cd%22e%3Cf",
        "a%2fb%2bc%3d%5cd%22e%3cf",
        "a/b+c=\\d&quot;e&lt;f",
    }
    plain = Credentials([HUB]).look(HOST, "/x", {"authorization": f"Bearer {NAME}"})
    assert plain.secrets == (SECRET,)
