"""For all tests: no garbage is collected while test modules are read.

CPython 3.11 before .8 has one count for all syntax trees under construction; a collection in the middle of one may let
another begin, and the first then ends with a SystemError (gh-106905). Rewriting assertions builds very many trees.
"""

import asyncio
import gc
import os

gc.disable()
#: Some tests fork where others have made gRPC's threads, whose handlers at a fork would end the child. The daemon forks
#: before it has any of that.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"


def pytest_collection_finish():
    gc.enable()


def pytest_runtest_teardown(item):
    """A patched asyncio has one loop for all that run, which a fork would share: who patches it has to be named."""
    assert not hasattr(asyncio, "_nest_patched"), f"{item.nodeid} made asyncio reentrant"
