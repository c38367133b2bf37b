"""The measured way is the front's: the same question, the same verdict."""

import pathlib

import msgspec
import pytest

from opensafe.bench import decision
from opensafe.policy.bundle import load
from opensafe.policy.engine import Engine
from opensafe.policy.keys import trust_files
from opensafe.proof import private


@pytest.fixture(scope="module")
def engine():
    engine = Engine(load(pathlib.Path(private.programs().bundle), trusted=trust_files([private.trusted_key()])))
    yield engine
    engine.close()


@pytest.mark.parametrize("name", decision.CALLS)
def test_every_call_gets_the_verdict_its_name_says(engine, name):
    tool, arguments = decision.CALLS[name]
    verdict = decision.decide(engine, tool, msgspec.json.encode(arguments))
    assert verdict.action == ("block" if "blocked" in name else "allow")


def test_the_five_commands_are_five(engine):
    tool, arguments = decision.CALLS["bash, five commands"]
    asked = decision.question(engine, tool, msgspec.json.encode(arguments))
    assert len(asked.call.commands) == 5
    assert not asked.call.opaque
