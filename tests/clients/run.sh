#!/usr/bin/env bash
# Tests a built hearthd with clients as their users install them, in two virtual environments, because not all
# of them agree on one version of the openai package. Results go to build/release/pytest-clients-*.xml. Ends
# with one line, "N passed, N failed, N skipped".
#
#   tests/clients/run.sh [OPTIONS OF PYTEST...]
#
# tests/nightly.sh runs it. `tests/run.sh all` runs those of these tests whose clients are in
# tests/requirements-all.txt. The packages anthropic and ollama are tested in tests/api/; here only their
# examples in docs/clients.md are run.
set -uo pipefail
cd "$(dirname "$0")/../.."
build="$PWD/build/release"
venvs="$PWD/build/clients"
stop() { echo "tests/clients/run.sh: $1" >&2; echo "0 passed, 1 failed, 0 skipped"; exit 1; }
[ -x "$build/hearthd" ] ||
  stop "$build/hearthd is not built: cmake --preset release && cmake --build --preset release"

# pip takes minutes to find versions of some 140 packages that agree; uv takes seconds.
mkdir -p "$venvs"
uv="$venvs/uv/bin/uv"
[ -x "$uv" ] ||
  { python3 -m venv "$venvs/uv" && "$venvs/uv/bin/pip" --disable-pip-version-check install -q uv==0.13.9; } ||
  stop "uv could not be installed"

install() {  # install NAME: installs requirements/NAME.txt into $venvs/NAME
  local list="tests/clients/requirements/$1.txt"
  local stamp
  stamp="$venvs/$1/requirements.$(sha256sum "$list" | cut -c1-16)"
  [ ! -f "$stamp" ] || return 0
  rm -rf "${venvs:?}/$1"
  python3 -m venv --without-pip "$venvs/$1" &&
    "$uv" pip install -q --python "$venvs/$1/bin/python" -r "$list" && touch "$stamp"
}

HEARTH_TEST_MODEL="$(./server/fetch-model.sh)" || stop "the default model could not be fetched"
export HEARTH_TEST_MODEL HEARTH_BUILD_DIR="$build"
results=()
check() {  # check NAME CLIENTS...: runs the tests with these clients in the environment NAME
  local name="$1" tests=()
  shift
  for client in "$@"; do tests+=("tests/clients/test_with_$client.py"); done
  install "$name" || stop "the packages of tests/clients/requirements/$name.txt could not be installed"
  rm -f "$build/pytest-clients-$name.xml"
  "$venvs/$name/bin/python" -m pytest -q "${tests[@]}" -p no:cacheprovider "${options[@]}" \
    --junitxml="$build/pytest-clients-$name.xml"
  results+=("$build/pytest-clients-$name.xml")
}
options=("$@")
check openai3 documentation agents openai langchain llm pydantic_ai semantic_kernel smolagents
check openai2 documentation instructor litellm llama_index lm_eval
exec python3 tests/support/sum_results.py "${results[@]}"
