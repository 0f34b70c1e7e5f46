#!/usr/bin/env bash
# Writes the committed files that are generated from the table of options (config/option_table.cpp):
# config/hearth.toml and docs/configuration.md. Run it after changing an option; tests/config/render_test.cpp
# fails until then.
#
# Builds hearthd of the preset release, or uses the one in HEARTH_BUILD_DIR.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ -z "${HEARTH_BUILD_DIR:-}" ]; then
  [ -f build/release/CMakeCache.txt ] || cmake --preset release
  cmake --build --preset release --target hearthd
fi
hearthd="${HEARTH_BUILD_DIR:-build/release}/hearthd"

written="$(mktemp)"
trap 'rm -f "$written"' EXIT
write() {  # write FILE FLAG: the file stays as it is if hearthd fails
  "$hearthd" "$2" >"$written" ||
    { echo "regenerate.sh: $hearthd $2 failed, so $1 was left as it is" >&2; exit 1; }
  cmp -s "$written" "$1" || { cat "$written" >"$1" && echo "wrote $1"; }
}
write config/hearth.toml --help-toml
write docs/configuration.md --help-markdown
