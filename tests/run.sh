#!/usr/bin/env bash
# Builds and tests a fresh clone or a tree in work: installs what is missing, builds, runs the C++ tests (ctest) and the
# black-box and oracle tests (pytest). Ends with one line, "N passed, N failed, N skipped".
#
#   tests/run.sh                 all tests of the release build
#   tests/run.sh quick           a verdict in two minutes: formatting, layering, a rebuild, the C++ tests without label slow
#   tests/run.sh PRESET [LABEL]  the C++ tests of another preset's build (asan, tsan, debug); with a LABEL (bytes, threads)
#                                only the programs that carry it are built and run, with the loops of this machine's
#                                instruction set only
#   tests/run.sh cuda [ARCH...]  compiles the CUDA kernels with nvcc, for 80-real, 89-real and 90-real or those given, and
#                                checks their registers; needs no GPU
#
# HEARTH_SKIP_DEPS=1     installs no packages.
# HEARTH_SKIP_NIGHTLY=1  skips the Python tests marked nightly (.ci/run).
# HEARTH_SKIP_IMAGES=1   skips those that build container images (.ci/run, where no change may break them).
# HEARTH_FUZZ_TIMES=N    fuzzes N times as long (tests/nightly.sh).
# HEARTH_FUZZ_SECONDS=N  gives each fuzzer N seconds instead, from another seed each time.
set -uo pipefail
cd "$(dirname "$0")/.."
preset="${1:-release}"
quick=0
[ "$preset" != quick ] || { quick=1; preset=release; }
shift $(($# > 0))
jobs="$(nproc)"
build="build/$preset"
results=()
stop() { wait; echo "tests/run.sh: $1" >&2; echo "0 passed, 1 failed, 0 skipped"; exit 1; }

# 1. What needs no build. A breach is counted as a failed test, and the rest still runs.
if [ "$quick" = 1 ]; then
  ./tests/check_format.sh
  results+=("formatting=$?")
  python3 tests/layering.py
  results+=("layering=$?")
fi

# 2. Packages.
toolkit=''
[ "$preset" != cuda ] || toolkit=--cuda  # nvcc too
[ "${HEARTH_SKIP_DEPS:-0}" = 1 ] || [ "$quick" = 1 ] || ./docker/install-deps.sh $toolkit test ||
  stop "packages could not be installed"

# The virtual environment of the Python tests is made while the build runs: pip mostly waits for the network.
venv="$PWD/build/venv"
stamp="$venv/requirements.$(sha256sum tests/requirements.txt | cut -c1-16)"
make_venv() {
  [ ! -f "$stamp" ] || return 0
  rm -rf "$venv"
  python3 -m venv "$venv" && "$venv/bin/pip" --disable-pip-version-check install -q -r tests/requirements.txt && touch "$stamp"
}
venv_pid=''
if [ "$preset" = release ] && [ "$quick" = 0 ]; then
  mkdir -p build
  make_venv >build/venv.log 2>&1 &
  venv_pid=$!
fi

# 3. Build. A compiler cache filled by another clone serves this one too.
export CCACHE_BASEDIR="$PWD" CCACHE_NOHASHDIR=1
mkdir -p "$build"
options=() targets=() select=() label=all
if [ "$preset" = release ]; then
  # Compiling CUDA's kernels for every GPU takes minutes, so this build has them only where there is a GPU, as
  # server/run.sh does. The preset cuda compiles them everywhere.
  options=(-DHEARTH_CUDA=OFF)
  for gpu in /proc/driver/nvidia/version /dev/nvidiactl /dev/dxg; do
    [ ! -e "$gpu" ] || options=(-DHEARTH_CUDA=AUTO)
  done
elif [ "$preset" = cuda ]; then
  [ $# = 0 ] || options=("-DHEARTH_CUDA_ARCHITECTURES=$(IFS=';'; echo "$*")")
elif [ $# -gt 0 ]; then
  label="$1" targets=(--target "tests_$1") select=(-L "$1") options=(-DHEARTH_ISAS=native)
fi
[ -z "${HEARTH_FUZZ_TIMES:-}" ] || options+=("-DHEARTH_FUZZ_TIMES=$HEARTH_FUZZ_TIMES")
[ -z "${HEARTH_FUZZ_SECONDS:-}" ] || options+=("-DHEARTH_FUZZ_SECONDS=$HEARTH_FUZZ_SECONDS")
cmake --preset "$preset" "${options[@]}" >"$build/configure.log" 2>&1 || { cat "$build/configure.log"; stop "configuring failed"; }
cmake --build --preset "$preset" -j "$jobs" "${targets[@]}" || stop "the build failed"

# 4. The default model. Tests that need it are skipped without it. Sanitizers look for faults, not for digits, and the
# default model takes them minutes: the small models in tests/data execute the same code.
if [ "$quick" = 1 ]; then
  HEARTH_TEST_MODEL="none, for this is the quick run"
elif [ "$preset" = release ]; then
  HEARTH_TEST_MODEL="$(./server/fetch-model.sh)" || stop "the default model could not be fetched"
else
  HEARTH_TEST_MODEL="none, for this is the $preset build"
fi
export HEARTH_TEST_MODEL

# 5. C++ tests, the fast ones first.
run_ctest() {  # run_ctest NAME OPTIONS...: results go to ctest-NAME.xml
  local xml="$build/ctest-$1.xml"
  shift
  results+=("$xml")
  rm -f "$xml"
  ctest --preset "$preset" -j "$jobs" --no-tests=error --output-junit "$PWD/$xml" "$@"
}
export TSAN_OPTIONS="suppressions=$PWD/tests/tsan.supp ${TSAN_OPTIONS:-}"
if [ "$preset" = release ]; then
  run_ctest fast -LE slow
  [ "$quick" = 1 ] || run_ctest slow -L slow
else
  run_ctest "$label" "${select[@]}"
fi

# 6. Black-box and oracle tests against the programs just built, in a virtual environment of pinned packages.
if [ "$preset" = release ] && [ "$quick" = 0 ]; then
  wait "$venv_pid" || { cat build/venv.log; stop "the Python packages of tests/requirements.txt could not be installed"; }
  rm -f "$build/pytest.xml"
  # Half of their time these tests wait for a server: two a processor, the files that take longest first (tests/conftest.py).
  HEARTH_BUILD_DIR="$PWD/$build" "$venv/bin/python" -m pytest -q tests -p no:cacheprovider -n "$((2 * jobs))" --dist loadfile \
    --no-loadscope-reorder --junitxml="$build/pytest.xml"
  results+=("$build/pytest.xml")
fi

# 7. The sum.
python3 tests/support/sum_results.py "${results[@]}"
