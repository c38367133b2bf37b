"""OPA as a peer: asked the same, on the same data."""

import pytest

from opensafe.bench.opa import Opa
from opensafe.errors import InvalidArgument, OpenSafeError
from opensafe.proof.private import PREFIX

RULE = """package opensafe.gate

bash := {"action": data.opensafe.answers[input.word]}
"""


@pytest.fixture
def policies(tmp_path):
    (tmp_path / "opensafe").mkdir()
    (tmp_path / "opensafe" / "gate.rego").write_text(RULE)
    (tmp_path / "opensafe" / "gate_test.rego").write_text("not rego at all")
    return tmp_path


@pytest.fixture
def opa(policies):
    with Opa(PREFIX / "bin" / "opa", policies, b'{"opensafe": {"answers": {"a": "allow", "b": "block"}}}') as opa:
        yield opa


def test_its_verdict_is_that_of_question_and_data(opa):
    assert opa.action("gate/bash", b'{"word": "a"}') == "allow"
    assert opa.action("gate/bash", b'{"word": "b"}') == "block"


def test_its_times_are_times(opa):
    times = opa.times("gate/bash", b'{"word": "a"}')
    assert times.count > 0
    assert 0 < times.p50_ms <= times.p95_ms <= times.p99_ms


def test_no_verdict_is_an_error(opa):
    with pytest.raises(OpenSafeError, match="opa"):
        opa.action("gate/bash", b'{"word": "c"}')


def test_an_opa_that_fails_says_why(opa):
    with pytest.raises(OpenSafeError, match="opa eval"):
        opa.action("gate/bash", b"no json")


def test_missing_sources_are_named(tmp_path):
    with pytest.raises(InvalidArgument, match="Rego sources"):
        Opa(PREFIX / "bin" / "opa", tmp_path, b"{}")


def test_a_missing_opa_is_named(policies):
    with Opa(PREFIX / "bin" / "no-opa", policies, b"{}") as opa, pytest.raises(OpenSafeError, match="no-opa"):
        opa.action("gate/bash", b"{}")


def test_it_leaves_no_files(policies):
    with Opa(PREFIX / "bin" / "opa", policies, b"{}") as opa:
        directory = opa.directory
        assert (directory / "data.json").exists()
    assert not directory.exists()
