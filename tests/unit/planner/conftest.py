import pytest
from opentelemetry.trace import NoOpTracer

from opensafe.client import Client
from opensafe.planner.calls import Calls
from opensafe.planner.door import Door, Stop
from tests.unit.planner.support import QUICK_LIMITS


@pytest.fixture
async def client(tmp_path):
    """A real client; nobody listens at its socket."""
    async with Client.connect(tmp_path / "nobody.sock") as client:
        yield client


@pytest.fixture
def door(client):
    def make(model, limits=QUICK_LIMITS):
        return Door(client=client, model=model, limits=limits, tracer=NoOpTracer(), calls=Calls(client), stop=Stop())

    return make
