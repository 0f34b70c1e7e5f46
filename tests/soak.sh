#!/usr/bin/env bash
# Puts load of every kind on the built hearthd (tests/support/soak.py): tests/soak.sh [SECONDS] [CLIENTS]
# [MODEL] [--copies N --budget GIB], by default 64 clients for ten minutes on the default model. With several
# copies, they take turns in one budget of memory. Prints a table; exit code 1 if a promise of
# docs/running.md was broken.
set -euo pipefail
cd "$(dirname "$0")/.."
python=build/venv/bin/python
[ -x $python ] || { echo "tests/soak.sh: $python is not there; tests/run.sh makes it" >&2; exit 2; }
exec $python tests/support/soak.py "$@"
