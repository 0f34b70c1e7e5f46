#!/usr/bin/env bash
# Fails if clang-tidy (.clang-tidy lists the checks and the reasons) finds something in the C++ files that
# changed since the main branch (tests/support/merge_base.sh), committed or not.
#
#   tests/check_tidy.sh           changed files; a changed header is checked through a file that includes it
#   tests/check_tidy.sh --all     every file that the tests' builds compile: 3 processor seconds each
#   tests/check_tidy.sh FILE...   these
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p build/tidy
cmake --preset tidy >build/tidy/configure.log 2>&1 || { cat build/tidy/configure.log; exit 1; }

changed_files() {
  local base
  base="$(tests/support/merge_base.sh)"
  [ -n "$base" ] ||
    { echo "check_tidy.sh: no commit to compare with; HEARTH_BASE=COMMIT names one" >&2; return; }
  # Leave out files that were only moved.
  git diff --name-status -M --diff-filter=d "$base" -- '*.h' '*.cpp' | sed -n '/^R100/d; s/.*\t//p'
  git ls-files --others --exclude-standard -- '*.h' '*.cpp'
}

case "${1:-}" in
  '') files="$(changed_files)" ;;
  --all) files="$(git ls-files '*.cpp')" ;;
  *) files="$(printf '%s\n' "$@")" ;;
esac
units="$(FILES="$files" python3 - <<'END'
"""The compiled files to look at: those of FILES, and for each header its own .cpp, else one file that
includes it."""
import json, os, pathlib
root = pathlib.Path.cwd()
commands = json.load(open("build/tidy/compile_commands.json"))
compiled = sorted({os.path.relpath(command["file"], root) for command in commands
                   if command["file"].endswith(".cpp")})
texts = {}
chosen = set()
for name in os.environ["FILES"].split():
    own = name.removesuffix(".h") + ".cpp"
    if name in compiled or own in compiled:
        chosen.add(name if name in compiled else own)
    elif name.endswith(".h"):
        texts = texts or {unit: pathlib.Path(unit).read_text() for unit in compiled
                          if pathlib.Path(unit).exists()}
        chosen.update([unit for unit, text in texts.items() if f'#include "{name}"' in text][:1])
print("\n".join(sorted(chosen)))
END
)"
n="$(grep -c . <<<"$units" || true)"
if [ "$n" != 0 ]; then
  # --quiet leaves out suppressed findings; their count still goes to stderr.
  xargs -P "$(nproc)" -n 4 clang-tidy --quiet -p build/tidy --warnings-as-errors='*' <<<"$units" \
    2>build/tidy/errors.log || {
    grep -v 'warnings\? generated\|warnings\? treated' build/tidy/errors.log >&2
    exit 1
  }
fi
echo "clang-tidy: nothing found in $n files"
