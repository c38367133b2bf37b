import stat

import pytest

from opensafe import errors
from opensafe.mcp.proxy_pins import MAX_PINS, Pins

ONE, TWO = "1" * 64, "2" * 64


@pytest.fixture
def pins(tmp_path):
    return Pins("plain", tmp_path / "pins")


def test_the_first_sight_stays(pins):
    assert pins.read() == {}
    assert pins.first_sight({"add": ONE}) == {"add": ONE}
    assert pins.first_sight({"add": TWO, "new": TWO}) == {"add": ONE, "new": TWO}
    assert pins.read() == {"add": ONE, "new": TWO}


def test_another_server_has_pins_of_its_own(pins, tmp_path):
    pins.first_sight({"add": ONE})
    assert Pins("other", tmp_path / "pins").read() == {}


def test_an_approval_is_for_one_digest(pins):
    pins.first_sight({"add": ONE})
    pins.approve("add", TWO)
    assert pins.first_sight({"add": "3" * 64}) == {"add": TWO}


@pytest.mark.parametrize("digest", ["", "x" * 64, "1" * 63, "../" + "1" * 61])
def test_what_is_no_digest_pins_nothing(pins, digest):
    pins.first_sight({"add": ONE})
    with pytest.raises(errors.InvalidArgument):
        pins.approve("add", digest)
    assert pins.read() == {"add": ONE}


@pytest.mark.parametrize("content", [b"", b"[]", b'{"tools": {"add": 1}}', b'{"more": {}}'])
def test_a_damaged_file_pins_nothing_and_stays(pins, tmp_path, content):
    file = tmp_path / "pins/plain.json"
    pins.first_sight({"add": ONE})
    file.write_bytes(content)
    with pytest.raises(errors.InvalidArgument, match="damaged"):
        pins.first_sight({"add": TWO})
    assert file.read_bytes() == content


def test_there_is_an_end_to_pins(pins):
    pins.first_sight({f"t{number}": ONE for number in range(MAX_PINS)})
    with pytest.raises(errors.LimitExceeded):
        pins.first_sight({"more": ONE})
    assert "more" not in pins.read()


def test_nobody_else_may_look(pins, tmp_path):
    pins.first_sight({"add": ONE})
    assert stat.S_IMODE((tmp_path / "pins").stat().st_mode) == 0o700


def test_where_nothing_can_be_kept_nothing_is_pinned(tmp_path):
    (tmp_path / "pins").write_text("a file")
    with pytest.raises(errors.InvalidArgument, match="can't be kept"):
        Pins("plain", tmp_path / "pins").first_sight({"add": ONE})
