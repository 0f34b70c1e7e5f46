#!/usr/bin/env bash
# Builds and tests a fresh clone or a working tree: installs what is missing, builds, runs the C++ tests
# (ctest) and the black-box tests (pytest). Ends with one line, "N passed, N failed, N skipped".
#
#   tests/run.sh                 builds hearthd and tests the server: kernels, engine, HTTP API. At most ten
#                                minutes from a fresh clone on two quiet cores, and two on a built tree
#   tests/run.sh all             every test of the release build: also hearth-profiler, the emulated GPU, all
#                                instruction sets, oracles, clients, packages, services, browsers, the
#                                documentation's commands
#   tests/run.sh PRESET [LABEL]  the C++ tests of another preset's build (asan, tsan, debug); with a LABEL
#                                (bytes, threads, core) builds and runs only the programs that carry it, with
#                                the loops of this machine's instruction set
#   tests/run.sh cuda [ARCH...]  compiles the CUDA kernels with nvcc, for 80-real, 89-real and 90-real or
#                                those given, and checks their registers; needs no GPU
#
# HEARTH_SKIP_DEPS=1     installs no packages.
# HEARTH_BUILD_ONLY=1    ends after the build (.ci/run, which builds ahead).
# HEARTH_SKIP_NIGHTLY=1  skips the Python tests marked nightly (.ci/run).
# HEARTH_SKIP_IMAGES=1   skips those that build container images (.ci/run, where no change may break them).
# HEARTH_SKIP_EMULATED_GPU=1  leaves the tests on the emulated GPU out of the build (.ci/run under sanitizers,
#                        where no change may break them).
# HEARTH_FUZZ_TIMES=N    fuzzes N times as long (tests/nightly.sh).
# HEARTH_FUZZ_SECONDS=N  gives each fuzzer N seconds instead, from another seed each time.
set -uo pipefail
cd "$(dirname "$0")/.."

# Choose what is built and run: preset, label of C++ programs (none: all), Python tests and their packages,
# Debian's packages.
preset=release label='' python_tests=() requirements=tests/requirements.txt packages=(all)
case "${1:-}" in
  '')
    label=core packages=(test)
    python_tests=(tests/api/test_{access,lifecycle,openai_sdk,responses,sparsity,wire}.py) ;;
  all) python_tests=(tests) requirements=tests/requirements-all.txt ;;
  cuda) preset=cuda packages=(--cuda test) architectures="$(IFS=';'; echo "${*:2}")" ;;
  *) preset="$1" label="${2:-}" ;;
esac
jobs="$(nproc)"
build="build/$preset"
mkdir -p "$build"
rm -f "$build/failed.txt"
results=()

# stop WHY [LOG]: ends the run with the first errors of LOG. The end of .ci/run's output shows failed.txt.
stop() {
  wait
  {
    echo "$1"
    if [ -n "${2:-}" ]; then
      grep -aE -m 6 -A 2 \
        'error:|CMake Error|undefined reference|multiple definition|No space left|Killed|E: |ERROR' "$2" ||
        tail -n 12 "$2"
    fi | cut -c1-300
  } >"$build/failed.txt"
  echo "tests/run.sh: $(cat "$build/failed.txt")" >&2
  echo "0 passed, 1 failed, 0 skipped"
  exit 1
}

phase_began=0 phases=''
phase() {  # phase NAME: records that this phase has just ended
  local seconds=$((SECONDS - phase_began))
  phases="$phases${phases:+, }$1 $seconds s" phase_began=$SECONDS
  # tests/support/parts.sh
  [ -z "${HEARTH_PARTS:-}" ] || printf 'phase\t%s\t%s\t0\t\n' "$1" $seconds >>"$HEARTH_PARTS"
}

# 1. Packages.
if [ "${HEARTH_SKIP_DEPS:-0}" != 1 ]; then
  ./docker/install-deps.sh "${packages[@]}" 2>&1 | tee "$build/packages.log" ||
    stop "the packages could not be installed" "$build/packages.log"
  phase packages
fi

# The virtual environment for the Python tests and the default model are fetched during the build: both mostly
# wait for the network.
venv="$PWD/build/venv"
stamp="$venv/requirements.$(cat tests/requirements.txt "$requirements" | sha256sum | cut -c1-16)"
make_venv() {
  [ ! -f "$stamp" ] || return 0
  rm -rf "$venv"
  python3 -m venv "$venv" && "$venv/bin/pip" --disable-pip-version-check install -q -r "$requirements" &&
    touch "$stamp"
}
venv_pid='' model_pid=''
if [ ${#python_tests[@]} -gt 0 ]; then
  make_venv >build/venv.log 2>&1 &
  venv_pid=$!
  ./server/fetch-model.sh >build/model.txt 2>build/model.log &
  model_pid=$!
fi

# 2. Build. The compiler cache of another clone serves this one too.
export CCACHE_BASEDIR="$PWD" CCACHE_NOHASHDIR=1
options=() targets=() select=()
if [ "$preset" = release ]; then
  # Compiling the CUDA kernels for every GPU takes minutes, so this build has them only where there is a GPU,
  # as in server/run.sh. The preset cuda compiles them everywhere.
  options=(-DHEARTH_CUDA=OFF)
  for gpu in /proc/driver/nvidia/version /dev/nvidiactl /dev/dxg; do
    [ ! -e "$gpu" ] || options=(-DHEARTH_CUDA=AUTO)
  done
elif [ "$preset" = cuda ]; then
  [ -z "$architectures" ] || options=("-DHEARTH_CUDA_ARCHITECTURES=$architectures")
fi
if [ -n "$label" ]; then
  targets=(--target "tests_$label") select=(-L "$label") options+=(-DHEARTH_ISAS=native)
else
  options+=(-DHEARTH_ISAS=all)  # an earlier run of fewer tests may have left native in CMake's cache
fi
options+=("-DHEARTH_EMULATED_GPU=$([ -n "${HEARTH_SKIP_EMULATED_GPU:-}" ] && echo OFF || echo ON)")
[ -z "${HEARTH_FUZZ_TIMES:-}" ] || options+=("-DHEARTH_FUZZ_TIMES=$HEARTH_FUZZ_TIMES")
[ -z "${HEARTH_FUZZ_SECONDS:-}" ] || options+=("-DHEARTH_FUZZ_SECONDS=$HEARTH_FUZZ_SECONDS")
cmake --preset "$preset" "${options[@]}" >"$build/configure.log" 2>&1 ||
  { cat "$build/configure.log"; stop "the $preset build could not be configured" "$build/configure.log"; }
cmake --build --preset "$preset" -j "$jobs" "${targets[@]}" 2>&1 | tee "$build/build.log" ||
  stop "the $preset build failed" "$build/build.log"
phase build
[ -z "${HEARTH_BUILD_ONLY:-}" ] || exit 0

# 3. The default model. Tests that need it are skipped without it. Sanitizers look for faults, not numbers,
#    and the default model takes them minutes: the small models in tests/data execute the same code.
HEARTH_TEST_MODEL="none, for this is the $preset build"
if [ -n "$model_pid" ]; then
  wait "$model_pid" || stop "the default model could not be fetched" build/model.log
  HEARTH_TEST_MODEL="$(cat build/model.txt)"
fi
export HEARTH_TEST_MODEL

# 4. C++ tests, the fast ones first.
run_ctest() {  # run_ctest NAME OPTIONS...: results go to ctest-NAME.xml
  local xml="$build/ctest-$1.xml"
  shift
  results+=("$xml")
  rm -f "$xml"
  ctest --preset "$preset" -j "$jobs" --no-tests=error --output-junit "$PWD/$xml" "$@"
}
export TSAN_OPTIONS="suppressions=$PWD/tests/tsan.supp ${TSAN_OPTIONS:-}"
if [ "$preset" = release ] && [ -z "$label" ]; then
  run_ctest fast -LE slow
  run_ctest slow -L slow
else
  run_ctest "${label:-all}" "${select[@]}"
fi
phase "C++ tests"

# 5. Python tests of the programs just built, in a virtual environment of pinned packages.
if [ ${#python_tests[@]} -gt 0 ]; then
  wait "$venv_pid" || stop "the Python packages of $requirements could not be installed" build/venv.log
  rm -f "$build/pytest.xml"
  # These tests wait for a server half of their time, so run two per processor, the files that take longest
  # first (tests/conftest.py).
  HEARTH_BUILD_DIR="$PWD/$build" "$venv/bin/python" -m pytest -q "${python_tests[@]}" -p no:cacheprovider \
    -n "$((2 * jobs))" --dist loadfile --no-loadscope-reorder --junitxml="$build/pytest.xml"
  results+=("$build/pytest.xml")
  phase "Python tests"
fi

# 6. The sum.
echo "tests/run.sh: $phases"
[ "$label" != core ] ||
  echo "tests/run.sh: 'tests/run.sh all' runs the tests that take longer or need other packages"
python3 tests/support/sum_results.py "${results[@]}"
