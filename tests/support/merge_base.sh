#!/usr/bin/env bash
# Prints the commit to compare the tree with: the commit at which the branch left main, or the previous commit
# if the branch is main itself. HEARTH_BASE overrides it. Prints nothing if the history is too shallow.
cd "$(dirname "$0")/../.."
if [ -n "${HEARTH_BASE:-}" ]; then git rev-parse --verify -q "$HEARTH_BASE^{commit}"; exit; fi
for main in origin/main main; do
  base="$(git merge-base "$main" HEAD 2>/dev/null)" && [ "$base" != "$(git rev-parse HEAD)" ] &&
    { echo "$base"; exit; }
done
git rev-parse --verify -q HEAD~1 || true
