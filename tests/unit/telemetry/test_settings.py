"""Where metrics may be told: a socket of the host, or loopback, and nowhere that another host could ask."""

import pytest

from opensafe.config import load
from opensafe.errors import ConfigError


def telemetry(tmp_path, metrics):
    path = tmp_path / "opensafe.toml"
    path.write_text(f'[telemetry]\nmetrics = "{metrics}"\n')
    return load(path).telemetry


@pytest.mark.parametrize("metrics", ["", "unix", "127.0.0.1:9464", "127.0.0.1:1024", "127.0.0.1:65535", "[::1]:9464"])
def test_a_socket_loopback_or_nowhere(tmp_path, metrics):
    assert telemetry(tmp_path, metrics).metrics == metrics


@pytest.mark.parametrize(
    "metrics",
    [
        "0.0.0.0:9464",
        "127.0.0.2:9464",
        "[::]:9464",
        "localhost:9464",
        ":9464",
        "127.0.0.1",
        "127.0.0.1:80",
        "127.0.0.1:1023",
        "127.0.0.1:65536",
        "127.0.0.1:99999",
        "127.0.0.1:09464",
        "/run/metrics.sock",
        "unix:",
        "unix\\n",
    ],
)
def test_anything_else_refuses_to_start(tmp_path, metrics):
    with pytest.raises(ConfigError, match=r"telemetry\.metrics"):
        telemetry(tmp_path, metrics)


def test_without_a_word_it_is_the_socket_of_roots_group(tmp_path):
    path = tmp_path / "opensafe.toml"
    path.write_text("")
    assert (load(path).telemetry.metrics, load(path).telemetry.metrics_group) == ("unix", "root")
