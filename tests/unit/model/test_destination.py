"""Where checkpoints are shipped, as the settings say it."""

import pytest

from opensafe.config import load
from opensafe.errors import ConfigError
from opensafe.model.destination import File, Https, Syslog, parse


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("file:/srv/opensafe/checkpoint", File("/srv/opensafe/checkpoint")),
        ("syslog:/dev/log", Syslog("/dev/log")),
        ("https://log.example.com", Https("log.example.com", 443, "/")),
        ("https://log.example.com:8443/a/b?c=d", Https("log.example.com", 8443, "/a/b?c=d")),
        ("https://[::1]:8443/", Https("::1", 8443, "/")),
    ],
)
def test_a_destination_is_read(text, found):
    assert parse(text) == found


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/srv/checkpoint",
        "file:",
        "file:checkpoint",
        "file:/",
        "file:/srv/",
        "file:/srv//x",
        "file:/srv/../etc/x",
        "file:/srv/a b",
        "file:/srv/a\nb",
        "syslog:",
        "syslog:log.example.com:514",
        "syslog:/" + "a" * 200,
        "http://log.example.com/",
        "https://",
        "https://user@log.example.com/",
        "https://user:secret@log.example.com/",
        "https://log.example.com/#x",
        "https://log.example.com:99999/",
        "https://log.example.com:x/",
        "https://[::1/",
        "https://log.example.com/a b",
        "https://log.example.com/\r\nX: y",
        "https://log.example.com/" + "a" * 3000,
        "ftp://log.example.com/",
    ],
)
def test_what_is_no_destination_is_refused(text):
    with pytest.raises(ValueError, match=r"\w"):
        parse(text)


def test_a_secret_in_a_url_is_not_shown():
    assert str(parse("https://log.example.com/a?token=hunter2")) == "https://log.example.com:443/a"
    assert [str(parse(text)) for text in ("file:/a/b", "syslog:/dev/log", "https://[::1]/x")] == [
        "file:/a/b",
        "syslog:/dev/log",
        "https://[::1]:443/x",
    ]


@pytest.mark.parametrize("ship", ['"ftp://x/"', '"file:x"', ", ".join(['"file:/a"'] * 9), "1"])
def test_the_settings_refuse_a_bad_destination(tmp_path, ship):
    (tmp_path / "opensafe.toml").write_text(f"[audit]\nship = [{ship}]\n")
    with pytest.raises(ConfigError):
        load(tmp_path / "opensafe.toml")


def test_the_settings_take_good_ones(tmp_path):
    (tmp_path / "opensafe.toml").write_text('[audit]\nship = ["file:/a/b", "https://x/y"]\nship_ca = "/a/ca.pem"\n')
    assert load(tmp_path / "opensafe.toml").audit.ship == ("file:/a/b", "https://x/y")
