#!/usr/bin/env bash
# Every test on a fresh clone: installs, builds, runs the C++ tests (ctest) and the black-box and oracle tests (pytest),
# and ends with one line, "N passed, N failed".
#
#   tests/run.sh            all of it
#   tests/run.sh PRESET     the same with another preset's build (asan, tsan): C++ tests only
#   tests/run.sh cuda       compiles the CUDA kernels with nvcc and looks at their registers; needs no GPU
#
# HEARTH_SKIP_DEPS=1 leaves packages alone.
set -uo pipefail
cd "$(dirname "$0")/.."
preset="${1:-release}"
jobs="$(nproc)"
stop() { echo "tests/run.sh: $1" >&2; echo "0 passed, 1 failed"; exit 1; }

# 1. Packages.
toolkit=''
[ "$preset" != cuda ] || toolkit=--cuda  # nvcc too
[ "${HEARTH_SKIP_DEPS:-0}" = 1 ] || ./docker/install-deps.sh $toolkit test || stop "packages could not be installed"

# 2. Build. Another clone's compiler cache serves this one too.
export CCACHE_BASEDIR="$PWD" CCACHE_NOHASHDIR=1
build="build/$preset"
mkdir -p "$build"
cuda=()
if [ "$preset" = release ]; then
  # CUDA's kernels take minutes to compile for every GPU: as server/run.sh, only where there is one; else the preset
  # cuda compiles them for a few.
  cuda=(-DHEARTH_CUDA=OFF)
  for gpu in /proc/driver/nvidia/version /dev/nvidiactl /dev/dxg; do
    [ ! -e "$gpu" ] || cuda=(-DHEARTH_CUDA=AUTO)
  done
fi
cmake --preset "$preset" "${cuda[@]}" >"$build/configure.log" 2>&1 || { cat "$build/configure.log"; stop "configuring failed"; }
cmake --build --preset "$preset" -j "$jobs" || stop "the build failed"

# 3. The default model. Without it the tests that need it say so. Sanitizers look for faults, not for digits, and take
# minutes over what it computes: the small models in tests/data go the same ways.
if [ "$preset" = release ]; then
  HEARTH_TEST_MODEL="$(./server/fetch-model.sh)" || stop "the default model could not be fetched"
else
  HEARTH_TEST_MODEL="none, for this is the $preset build"
fi
export HEARTH_TEST_MODEL
[ -d ../shared ] || echo "No ../shared beside the clone: tests of its vocabularies and texts are not run."

# 4. Python's side: a virtual environment of pinned packages, made once.
venv="$PWD/build/venv"
stamp="$venv/requirements.$(sha256sum tests/requirements.txt | cut -c1-16)"
if [ ! -f "$stamp" ]; then
  rm -rf "$venv"
  python3 -m venv "$venv" && "$venv/bin/pip" --disable-pip-version-check install -q -r tests/requirements.txt ||
    stop "the Python packages of tests/requirements.txt could not be installed"
  touch "$stamp"
fi

# 5. C++ tests.
export TSAN_OPTIONS="suppressions=$PWD/tests/tsan.supp ${TSAN_OPTIONS:-}"
ctest --preset "$preset" -j "$jobs" --no-tests=error --output-junit "$PWD/$build/ctest.xml"

# 6. Black-box and oracle tests, against the programs just built.
results=("$build/ctest.xml")
if [ "$preset" = release ]; then
  HEARTH_BUILD_DIR="$PWD/$build" "$venv/bin/python" -m pytest -q tests -p no:cacheprovider \
    --junitxml="$build/pytest.xml"
  results+=("$build/pytest.xml")
fi

# 7. The sum.
python3 tests/support/sum_results.py "${results[@]}"
