#!/usr/bin/env bash
# Everything that .ci/run leaves out for time, in full: takes hours on 2 cores. Needs root for the Debian
# roots; without it they are counted as skipped or failed, as each says. Ends with a table of its parts and
# one line, "N passed, N failed, N skipped".
#
#   all tests of the release build, those marked nightly among them: container images, with and without CUDA,
#   and built twice; Debian packages, installed, started, upgraded and removed in systems of their own
#   clients of many kinds, each as its users install it
#   64 clients at once for ten minutes, after which nothing has leaked
#   the CUDA kernels for every architecture tests compile for
#   every C++ test under AddressSanitizer with UndefinedBehaviorSanitizer, and under ThreadSanitizer
#   fuzzers ten times as long; HEARTH_FUZZ_SECONDS=3600 gives each an hour (15 fuzzers: two at a time, eight
#   hours)
#   clang-tidy over every file
#   the kernels and the forward pass compiled for 64-bit Arm, under QEMU
#   both README commands in fresh roots of Debian 12 and 13
set -uo pipefail
cd "$(dirname "$0")/.."
exec </dev/null  # nothing here may wait for input
source tests/support/parts.sh

rm -f build/*/ctest-*.xml build/*/failed.txt build/release/pytest*.xml  # remove results of an earlier run
unset HEARTH_SKIP_NIGHTLY HEARTH_SKIP_IMAGES
export HEARTH_WERROR=ON  # warnings are errors here
check "packages" ./docker/install-deps.sh all || finish  # nothing below could run
check "packages for images" ./docker/install-deps.sh image
step "release" ./tests/run.sh all
step "clients" ./tests/clients/run.sh
check "ten minutes of load" ./tests/soak.sh
check "clang-tidy" ./tests/check_tidy.sh --all
step "cuda" ./tests/run.sh cuda
HEARTH_FUZZ_TIMES=10 step "asan" ./tests/run.sh asan
step "tsan" ./tests/run.sh tsan
check "packages for Arm" ./docker/install-deps.sh arm
check "aarch64" ./tests/kernels/aarch64.sh
for suite in bookworm trixie; do
  check "root of $suite" ./tests/docker/debian_root.sh "$suite"
done

finish build/release/ctest-fast.xml build/release/ctest-slow.xml \
  build/release/pytest.xml build/cuda/ctest-all.xml build/asan/ctest-all.xml build/tsan/ctest-all.xml \
  build/aarch64/ctest-max.xml build/aarch64/ctest-cortex-a72.xml \
  build/release/pytest-clients-openai3.xml build/release/pytest-clients-openai2.xml
