"""Markers of tests that take minutes, the environment variables that skip them, and which files run first.

nightly: skipped if HEARTH_SKIP_NIGHTLY is set; .ci/run sets it, tests/nightly.sh does not.
image: builds container images; skipped if HEARTH_SKIP_IMAGES is set; .ci/run sets it where no change may
break them.
A test with both markers is skipped by either.
"""
import os
import pathlib

import pytest

MARKERS = {
    "nightly": ("HEARTH_SKIP_NIGHTLY", "takes minutes; tests/nightly.sh runs it"),
    "image": ("HEARTH_SKIP_IMAGES",
              "builds container images, and nothing that they are made from has changed"),
}


# The files that take longest, from half a minute to some minutes. They begin first, so that no worker runs
# one of them alone at the end (tests/run.sh gives each worker whole files).
LONGEST = (
    "tests/docker/test_images.py",
    "tests/docker/test_debian_packages.py",
    "tests/docker/test_release.py",
    "tests/api/test_profiling.py",
    "tests/api/test_operations.py",
    "tests/api/test_hostile.py",
    "tests/bench/test_compare.py",
    "tests/profiler/test_calibrate.py",
    "tests/test_gpu_script.py",
    "tests/profiler/test_report.py",
    "tests/docs/test_documented_commands.py",
    "tests/api/test_pull.py",
    "tests/api/test_faults.py",
    "tests/api/test_embedding_values.py",
)
ROOT = pathlib.Path(__file__).resolve().parents[1]


def pytest_configure(config):
    for marker, (variable, reason) in MARKERS.items():
        config.addinivalue_line("markers", f"{marker}: {reason}; skipped where {variable} is set")


def pytest_collection_modifyitems(items):
    first = {ROOT / file: place for place, file in enumerate(LONGEST)}
    items.sort(key=lambda item: first.get(item.path, len(first)))
    for marker, (variable, reason) in MARKERS.items():
        if os.environ.get(variable):
            for item in items:
                if item.get_closest_marker(marker):
                    item.add_marker(pytest.mark.skip(reason=reason))
