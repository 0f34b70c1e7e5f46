"""The marker nightly: tests that take minutes, which .ci/run skips (HEARTH_SKIP_NIGHTLY=1) and tests/nightly.sh runs."""
import os

import pytest


def pytest_configure(config):
    config.addinivalue_line("markers", "nightly: takes minutes; skipped where HEARTH_SKIP_NIGHTLY is set")


def pytest_collection_modifyitems(items):
    if os.environ.get("HEARTH_SKIP_NIGHTLY"):
        for item in items:
            if item.get_closest_marker("nightly"):
                item.add_marker(pytest.mark.skip(reason="takes minutes; tests/nightly.sh runs it"))
