"""Markers of tests that take minutes, and the variables of the environment that skip them.

nightly: skipped where HEARTH_SKIP_NIGHTLY is set; .ci/run sets it, tests/nightly.sh does not.
image: builds container images; skipped where HEARTH_SKIP_IMAGES is set; .ci/run sets it where no change may break them.
A test that has both is skipped by either.
"""
import os

import pytest

MARKERS = {
    "nightly": ("HEARTH_SKIP_NIGHTLY", "takes minutes; tests/nightly.sh runs it"),
    "image": ("HEARTH_SKIP_IMAGES", "builds container images, and nothing that they are made from has changed"),
}


def pytest_configure(config):
    for marker, (variable, reason) in MARKERS.items():
        config.addinivalue_line("markers", f"{marker}: {reason}; skipped where {variable} is set")


def pytest_collection_modifyitems(items):
    for marker, (variable, reason) in MARKERS.items():
        if os.environ.get(variable):
            for item in items:
                if item.get_closest_marker(marker):
                    item.add_marker(pytest.mark.skip(reason=reason))
