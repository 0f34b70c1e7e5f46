#!/usr/bin/env bash
# Prints the commit that the tree's changes are compared with: where it left the main branch; on the main branch itself
# the commit before. HEARTH_BASE overrides it. Prints nothing where history does not tell (a shallow clone).
cd "$(dirname "$0")/../.."
if [ -n "${HEARTH_BASE:-}" ]; then git rev-parse --verify -q "$HEARTH_BASE^{commit}"; exit; fi
for main in origin/main main; do
  base="$(git merge-base "$main" HEAD 2>/dev/null)" && [ "$base" != "$(git rev-parse HEAD)" ] && { echo "$base"; exit; }
done
git rev-parse --verify -q HEAD~1 || true
