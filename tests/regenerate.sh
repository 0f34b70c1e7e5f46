#!/usr/bin/env bash
# Writes the committed files that are generated: config/hearth.toml and docs/configuration.md from the table
# of options (config/option_table.cpp), and the table of docs/tools.md from the chat templates of tests/data.
# Run it after changing an option or how calls are read; tests/config/render_test.cpp and
# tests/server/chat/tool_conformance_test.cpp fail until then.
#
# Builds hearthd and chat_test of the preset release, or uses those in HEARTH_BUILD_DIR.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ -z "${HEARTH_BUILD_DIR:-}" ]; then
  [ -f build/release/CMakeCache.txt ] || cmake --preset release
  cmake --build --preset release --target hearthd chat_test
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
chat_test="${HEARTH_BUILD_DIR:-build/release}/tests/chat_test"
if [ -f docs/tools.md ]; then
  HEARTH_WRITE_TABLES="$PWD/docs/tools.md" "$chat_test" 'the table of templates*' >/dev/null
fi
