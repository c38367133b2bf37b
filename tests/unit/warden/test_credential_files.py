"""Credentials come from files of root's alone, and no message has their text."""

import os

import msgspec
import pytest

from opensafe.errors import ConfigError
from opensafe.model.termination import Credential, CredentialSettings
from opensafe.warden import credentials, protocol

SECRET = b"a-token-of-this-test"


def settings(path):
    return CredentialSettings(name="hub", host="api.example.com", file=str(path))


@pytest.fixture
def file(tmp_path):
    made = tmp_path / "hub"
    made.touch(mode=0o400)
    made.write_bytes(SECRET + b"\n")
    return made


@pytest.mark.root
@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
def test_one_line_is_read_without_its_end(file, end):
    file.write_bytes(SECRET + end)
    [read] = credentials.read([settings(file)])
    assert (read.name, read.host, read.header, read.secret) == ("hub", "api.example.com", "authorization", SECRET)
    assert read.placeholder == "opensafe-credential-hub"


@pytest.mark.root
def test_a_name_without_a_slash_is_one_of_systemds(file, monkeypatch):
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(file.parent))
    assert credentials.read([settings("hub")])[0].secret == SECRET


@pytest.mark.root
@pytest.mark.parametrize("spoil", ["group", "others", "owner", "link", "directory", "missing", "fifo"])
def test_a_file_that_others_may_have_a_say_in_is_refused(file, spoil):
    if spoil in ("group", "others"):
        file.chmod(0o440 if spoil == "group" else 0o404)
    elif spoil == "owner":
        os.chown(file, 65534, 0)
    else:
        moved = file.rename(file.with_name("moved"))
        if spoil == "link":
            file.symlink_to(moved)
        elif spoil == "directory":
            file.mkdir()
        elif spoil == "fifo":
            os.mkfifo(file, 0o600)
    with pytest.raises(ConfigError) as refused:
        credentials.read([settings(file)])
    assert str(file) in f"{refused.value} {refused.value.value}"


@pytest.mark.root
@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"short",
        b"two\nlines-of-it",
        b"with a blank",
        b"tab\there-and-more",
        "ümlaut-and-more".encode(),
        b"x" * 9000,
    ],
)
def test_what_is_no_token_is_refused_without_being_told(file, text):
    file.write_bytes(text)
    with pytest.raises(ConfigError) as refused:
        credentials.read([settings(file)])
    shown = f"{refused.value} {refused.value.value} {refused.value.remedy}"
    assert not text or text.decode()[:20] not in shown


def test_the_message_that_carries_it_does_not_show_it():
    held = Credential(name="hub", host="api.example.com", header="authorization", secret=SECRET)
    opened = protocol.GatewayOpened(request=1, authz="/run/x", credentials=(held,))
    assert SECRET.decode() not in repr(opened)
    assert SECRET in msgspec.msgpack.encode(opened)
