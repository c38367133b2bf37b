"""Which `[[pool]]` tables a daemon starts with."""

import pytest

from opensafe.config import load
from opensafe.errors import ConfigError


def settings(tmp_path, text):
    path = tmp_path / "opensafe.toml"
    path.write_text(text)
    return load(path)


def test_there_is_no_pool_by_default(tmp_path):
    assert settings(tmp_path, "").pool == ()


def test_limits_that_are_not_named_have_their_defaults(tmp_path):
    [entry] = settings(tmp_path, '[[pool]]\nprincipal = "default"\nlimits = { pids = 99 }\n').pool
    assert (entry.limits.pids, entry.limits.memory_bytes, entry.ready) == (99, 1 << 30, 1)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('[[pool]]\nprincipal = "nobody"\n', r"nobody; limit default, operator"),
        ("[caps]\nsandboxes = 3\n[[pool]]\nready = 2\n[[pool]]\nready = 2\n", r"got 4; limit caps\.sandboxes = 3"),
        ("[[pool]]\nready = 0\n", "ready"),
        ("[[pool]]\nready = 9007199254740993\n", "ready"),
        ("[[pool]]\nwarm_up = []\n", "warm_up"),
        ('[[pool]]\ntemplate = "../etc"\n', "template"),
        ("[[pool]]\nlimits = { memory_bytes = 0 }\n", "memory_bytes"),
        ("[[pool]]\nlimits = { memory_bytes = -1 }\n", "memory_bytes"),
        ('[[pool]]\nnetwork = "host"\n', "network"),
    ],
)
def test_what_can_not_be_kept_refuses_to_start(tmp_path, text, why):
    with pytest.raises(ConfigError, match=why):
        settings(tmp_path, text)


def test_as_many_as_the_cap_can_be_kept(tmp_path):
    assert settings(tmp_path, "[caps]\nsandboxes = 4\n[[pool]]\nready = 4\n").pool[0].ready == 4
