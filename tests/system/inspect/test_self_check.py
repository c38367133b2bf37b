"""inspect_ai's own conformance suite, whole, on real sandboxes of a daemon for evaluations."""

import pytest
import pytest_asyncio
from inspect_ai.util._sandbox import self_check
from inspect_ai.util._sandbox.self_check import *  # noqa: F403 - the way the suite is meant to be taken

from opensafe.integrations.inspect import OpenSafeSandboxConfig, OpenSafeSandboxEnvironment

pytestmark = [pytest.mark.root, pytest.mark.runsc, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox_env(evaluations):
    config = OpenSafeSandboxConfig(
        socket=str(evaluations.socket_of("evaluator")), reviewer_socket=str(evaluations.socket_of("judge"))
    )
    environments = await OpenSafeSandboxEnvironment.sample_init("self-check", config, {})
    yield environments["default"]
    await OpenSafeSandboxEnvironment.sample_cleanup("self-check", config, environments, False)


async def test_every_check_is_taken():
    assert len(self_check.__all__) == 44
    assert set(self_check.__all__) <= set(globals())
