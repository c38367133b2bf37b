from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.harness.daemon import Daemon


@pytest.fixture(scope="module")
def made_daemons(request):
    """Daemons, one for each text of the module's CAPS, of which the module may kill some."""
    daemons = [Daemon(caps=caps) for caps in request.module.CAPS]
    with ThreadPoolExecutor() as threads:
        try:
            list(threads.map(Daemon.start, daemons))
            yield daemons
        finally:
            left = list(threads.map(_ended, daemons))
    assert left == [[]] * len(daemons)


def _ended(daemon):
    daemon.stop()
    if daemon.leftovers():  # what a kill leaves, the next start removes
        daemon.start()
        daemon.stop()
    return daemon.remove()
