#!/usr/bin/env bash
# Builds the documentation as a site, without network: build/site/index.html, which a browser opens from the
# disk.
#
#   docs/site/build.sh            builds it
#   docs/site/build.sh serve      shows it on http://127.0.0.1:8000, built anew when a page changes
#
# Takes mkdocs-material of tests/requirements-all.txt, from PYTHON (default: build/venv/bin/python, which
# `tests/run.sh all` makes).
set -euo pipefail
cd "$(dirname "$0")/../.."
python="${PYTHON:-build/venv/bin/python}"
if ! "$python" -c "import material" 2>/dev/null; then
  echo "build.sh: $python has no mkdocs-material. tests/run.sh all installs it, or:" \
    "pip install $(grep ^mkdocs tests/requirements-all.txt)" >&2
  exit 2
fi
export NO_MKDOCS_2_WARNING=1
mkdir -p build
if [ "${1:-}" = serve ]; then exec "$python" -m mkdocs serve -f .mkdocs.yml -a 127.0.0.1:8000; fi
exec "$python" -m mkdocs build -f .mkdocs.yml "$@"
