"""Settings of termination and credentials: names as they are judged, each once, and each credential for one of them."""

import pytest

from opensafe.config import load
from opensafe.errors import ConfigError
from opensafe.model.termination import variables


def write(tmp_path, *tables):
    path = tmp_path / "opensafe.toml"
    path.write_text("[egress]\nenabled = true\n" + "".join(tables))
    return path


def terminate(name):
    return f'[[egress.terminate]]\nname = "{name}"\n'


def credential(name="hub", host="api.example.com", file="/etc/opensafe/hub", **more):
    lines = {"name": name, "host": host, "file": file, **more}
    return "[[egress.credential]]\n" + "".join(f'{key} = "{value}"\n' for key, value in lines.items())


def test_nothing_is_terminated_by_default(tmp_path):
    settings = load(write(tmp_path)).egress
    assert (settings.terminate, settings.credential, settings.upstream_ca) == ((), (), "")


def test_names_and_their_credentials(tmp_path):
    tables = (terminate("api.example.com"), terminate("xn--bcher-kva.example"))
    settings = load(write(tmp_path, *tables, credential(), credential("two-2", header="x-api-key", file="two"))).egress
    assert [one.name for one in settings.terminate] == ["api.example.com", "xn--bcher-kva.example"]
    assert [(one.name, one.header, one.file) for one in settings.credential] == [
        ("hub", "authorization", "/etc/opensafe/hub"),
        ("two-2", "x-api-key", "two"),
    ]
    assert variables(settings.credential) == {
        "OPENSAFE_CREDENTIAL_HUB": "opensafe-credential-hub",
        "OPENSAFE_CREDENTIAL_TWO_2": "opensafe-credential-two-2",
    }


@pytest.mark.parametrize(
    "name",
    [
        *("", "localhost", "API.example.com", "api.example.com.", "*.example.com", ".example.com", "api..example.com"),
        *(
            "192.0.2.1",
            "api.example.1",
            "api.example.0x7f",
            "[::1]",
            "api.example.com:443",
            "a_b.example.com",
            "ü.example",
        ),
        *(
            "ü.example",
            "-a.example.com",
            "a.example.com/x",
            "a.example.com\\n",
            "a" * 64 + ".example.com",
            ("a." * 130) + "com",
        ),
    ],
)
def test_what_is_no_canonical_name_is_refused(tmp_path, name):
    with pytest.raises(ConfigError):
        load(write(tmp_path, terminate(name)))


@pytest.mark.parametrize(
    ("tables", "why"),
    [
        ([terminate("a.example"), terminate("a.example")], "a host twice"),
        ([terminate("a.example"), credential()], "does not name"),
        ([terminate("api.example.com"), credential(), credential()], "a name twice"),
        ([terminate("api.example.com"), credential(header="host")], "can't be in this header"),
        ([terminate("api.example.com"), credential(header="user-agent")], "can't be in this header"),
    ],
)
def test_what_does_not_fit_together_is_refused(tmp_path, tables, why):
    with pytest.raises(ConfigError, match=why):
        load(write(tmp_path, *tables))


@pytest.mark.parametrize(
    "fields",
    [
        {"header": "Authorization"},
        {"header": "two words"},
        {"header": ":path"},
        {"name": "Hub"},
        {"name": "hub "},
        {"name": "-hub"},
        {"file": ""},
        {"file": "../hub"},
        {"file": ".hub"},
        {"secret": "here"},
    ],
)
def test_a_credential_that_is_not_well_formed_is_refused(tmp_path, fields):
    with pytest.raises(ConfigError):
        load(write(tmp_path, terminate("api.example.com"), credential(**fields)))
