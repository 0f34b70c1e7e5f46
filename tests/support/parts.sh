# Runs the parts of .ci/run and tests/nightly.sh; sourced by both, from the root of the repository.
#
#   check NAME COMMAND...   counts the exit code as one test. The output appears when the command has ended
#                           and is kept, so that the end of the run can repeat why it failed
#   step NAME COMMAND...    prints as it goes; its tests are counted from the files that it writes
#   finish FILE...          ends the run: prints the skipped and failed tests of all checks and of these
#                           files, a table of the parts with their seconds, and the sum
#
# tests/run.sh adds its phases to the table, through HEARTH_PARTS.
export HEARTH_PARTS="$PWD/build/parts/parts.tsv"
rm -rf build/parts
mkdir -p build/parts

part() {  # part KIND NAME LOG COMMAND...
  local kind="$1" name="$2" log="$3" begin=$SECONDS code=0
  shift 3
  echo "=== $name"
  if [ -n "$log" ]; then
    "$@" >"$log" 2>&1 || code=$?
    cat "$log"
  else
    "$@" || code=$?
  fi
  echo "=== $name: $([ $code = 0 ] || echo "FAILED, ")$((SECONDS - begin)) s"
  printf '%s\t%s\t%s\t%s\t%s\n' "$kind" "$name" $((SECONDS - begin)) $code "$log" >>"$HEARTH_PARTS"
  return $code
}
check() { part check "$1" "build/parts/${1//[^[:alnum:]]/-}.log" "${@:2}"; }
step() { part step "$1" "" "${@:2}"; }
finish() { exec python3 tests/support/sum_results.py --parts "$HEARTH_PARTS" "$@"; }
