#!/usr/bin/env bash
# Compiles Hearth for 64-bit Arm and runs the tests of the kernels and of the engine's forward pass under
# QEMU: once on a processor with all extensions and once on a Cortex-A72, which has no dot products. The
# matrix products also run on a Neoverse N1, which has dot products but no matrix products. Slow, so it is a
# part of tests/nightly.sh.
#
#   tests/kernels/aarch64.sh          all of it
#   tests/kernels/aarch64.sh build    only compiles, including hearthd and hearth-profiler
#
# Installs nothing. If something is missing it says so and exits with 77; docker/install-deps.sh arm installs
# it.
set -uo pipefail
cd "$(dirname "$0")/../.."
kernel_tests='base_test attention_test cpu_backend_test matmul_test neurons_test neuron_sums_test'
kernel_tests="$kernel_tests no_cuda_test recurrent_test"
engine_tests='architectures_test golden_test model_test sparse_modes_test'
build=build/aarch64

missing=''
compiler="$(compgen -c aarch64-linux-gnu-g++ | head -1)"
[ -n "$compiler" ] || missing="$missing, a cross compiler (g++-aarch64-linux-gnu)"
emulator="$(command -v qemu-aarch64 || command -v qemu-aarch64-static)"
[ "${1:-}" = build ] || [ -n "$emulator" ] ||
  missing="$missing, QEMU (qemu-user)"
for library in libspdlog.so libpcre2-8.so libutf8proc.so libz.so libcpp-httplib.so libtomlplusplus.so; do
  [ -e "/usr/lib/aarch64-linux-gnu/$library" ] || missing="$missing, arm64's $library"
done
if [ -n "$missing" ]; then
  echo "SKIPPED: for tests of 64-bit Arm this machine lacks ${missing#, };" \
    "docker/install-deps.sh arm installs it"
  exit 77
fi

mkdir -p "$build"
cmake --preset aarch64 >"$build/configure.log" 2>&1 || { cat "$build/configure.log"; exit 1; }
# shellcheck disable=SC2086
cmake --build --preset aarch64 -j "$(nproc)" --target hearthd hearth-profiler $kernel_tests $engine_tests ||
  exit 1
[ "${1:-}" != build ] || exit 0

# The default model would take QEMU hours. The models in tests/data execute the same code.
export HEARTH_TEST_MODEL="none, for QEMU is too slow for it"
failed=0
for program in $kernel_tests $engine_tests; do
  if ctest --preset aarch64 -N -R "^$program: ?" 2>/dev/null | grep -qx 'Total Tests: 0'; then
    echo "aarch64.sh: ctest knows no test of $program"
    failed=1
  fi
done
names="$(echo $kernel_tests $engine_tests | tr ' ' '|')"

# run_on PROCESSOR ISAS TESTS: runs the tests on a QEMU processor that has these instruction sets.
run_on() {
  echo "=== $1: $2"
  refused="$(QEMU_CPU="$1" "$emulator" "$build/hearth-profiler" bench --model tests/data/arch/llama.gguf \
    --isa avx2 2>&1)"
  case "$refused" in
    *"it can run: $2"*) ;;
    *) echo "aarch64.sh: expected a processor that can run: $2; hearth-profiler says: $refused"; failed=1 ;;
  esac
  rm -f "$build/ctest-$1.xml"
  QEMU_CPU="$1" ctest --preset aarch64 -j "$(nproc)" --no-tests=error -R "^(isa_symbols$|($3): ?)" \
    --output-junit "$PWD/$build/ctest-$1.xml" || failed=1
}
run_on max 'neon-i8mm, neon-dotprod, neon, scalar' "$names"
run_on neoverse-n1 'neon-dotprod, neon, scalar' matmul_test
run_on cortex-a72 'neon, scalar' "$names"
exit "$failed"
