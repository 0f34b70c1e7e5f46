#!/usr/bin/env bash
# Fails if a C++ or CUDA file differs from what clang-format makes of it; prints the first differences.
set -euo pipefail
cd "$(dirname "$0")/.."
git ls-files -z '*.h' '*.cpp' '*.cu' '*.cuh' | xargs -0 clang-format --dry-run --Werror --ferror-limit=3
echo "formatting: all files as clang-format has them"
