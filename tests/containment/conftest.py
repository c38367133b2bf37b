import os

import pytest


def pytest_collection_modifyitems(items):
    for item in items:
        if item.get_closest_marker("root") is not None and os.geteuid() != 0:
            item.add_marker(pytest.mark.skip(reason="needs root"))
