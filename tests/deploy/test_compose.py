"""What is deployed beside the daemon: files that exist, versions that are named, and nothing beyond loopback."""

import re
from pathlib import Path

import msgspec
import pytest
import yaml

from opensafe.config import Telemetry

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yml").read_text())
SERVICES = COMPOSE["services"]
COLLECTOR = yaml.safe_load((DEPLOY / "otel" / "collector.yaml").read_text())


def test_the_four_are_there():
    assert SERVICES.keys() == {"jaeger", "collector", "prometheus", "grafana"}


@pytest.mark.parametrize("service", SERVICES.values(), ids=SERVICES)
def test_a_service_is_pinned_and_confined(service):
    assert re.fullmatch(r"[a-z-]+/[a-z-]+:v?\d+\.\d+\.\d+", service["image"])
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]


@pytest.mark.parametrize("service", SERVICES.values(), ids=SERVICES)
def test_a_service_mounts_what_exists_and_cannot_change_it(service):
    for volume in service.get("volumes", []):
        source, _, target = volume.partition(":")
        if source.startswith("./"):
            assert (DEPLOY / source).exists()
            assert target.endswith(":ro")
        else:
            assert source in COMPOSE["volumes"]


@pytest.mark.parametrize("service", SERVICES.values(), ids=SERVICES)
def test_a_service_listens_on_loopback_alone(service):
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))
    if service.get("network_mode") == "host":
        told = [*service.get("command", []), *service.get("environment", {}).values()]
        assert any(str(word).startswith(("127.0.0.1", "--web.listen-address=127.0.0.1:")) for word in told)


def test_the_collector_has_what_its_pipelines_name():
    for pipeline in COLLECTOR["service"]["pipelines"].values():
        for kind in ("receivers", "processors", "exporters"):
            assert set(pipeline[kind]) <= COLLECTOR[kind].keys()
    assert COLLECTOR["exporters"]["otlp/jaeger"]["endpoint"].partition(":")[0] in SERVICES


def test_every_yaml_file_reads():
    files = sorted([*DEPLOY.rglob("*.yml"), *DEPLOY.rglob("*.yaml")])
    assert len(files) >= 7
    for path in files:
        assert isinstance(yaml.safe_load(path.read_text()), dict), path


def test_ports_are_those_that_the_comments_tell_the_operator():
    comment = (DEPLOY / "compose.yml").read_text()
    (metrics,) = re.findall(r'metrics = "(\S+)"', comment)
    (endpoint,) = re.findall(r'otlp_endpoint = "http://(\S+)"', comment)
    scraped = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())["scrape_configs"][0]
    assert scraped["static_configs"][0]["targets"] == [metrics]
    assert SERVICES["collector"]["ports"] == [f"{endpoint}:4317"]
    assert load_telemetry(metrics) == metrics


def load_telemetry(metrics):
    return msgspec.toml.decode(f'metrics = "{metrics}"', type=Telemetry).metrics
