#!/usr/bin/env bash
# Starts a server from a fresh clone: installs packages, builds, downloads the default model once, serves it.
#
#   server/run.sh [--build-only] [hearthd flags]
#
#   server/run.sh                          SmolLM2-135M-Instruct on http://127.0.0.1:8080
#   server/run.sh M.gguf --slots 8         another model; any flag of hearthd passes through
#   server/run.sh --build-only             stops after the build and the model; builds hearth-profiler too
#
# The first run prints its expected duration.
#
# HEARTH_SKIP_DEPS=1 skips the installation of packages.
set -euo pipefail
here="$PWD"  # flags may contain paths relative to this folder
cd "$(dirname "$0")/.."
root="$PWD"

build_only=0
own_model=0
[ -z "${HEARTH_MODEL:-}" ] || own_model=1
flags=()
for flag in "$@"; do
  case "$flag" in
    --build-only) build_only=1; continue ;;
    # With these flags, the user chooses the model, or no model is served.
    --model|--model=*|-m|--models-folder|--models-folder=*|--config|--config=*) own_model=1 ;;
    --help|-h|--help-*|--version|--healthcheck) own_model=1 ;;
  esac
  flags+=("$flag")
done
case "${flags[0]:-}" in ''|-*) ;; *) own_model=1 ;; esac  # a model's file or name, or a command

# 1. Packages.
[ "${HEARTH_SKIP_DEPS:-0}" = 1 ] || ./docker/install-deps.sh build

# CUDA's kernels are compiled only if there is an NVIDIA driver (or WSL's), which is needed to run them.
cuda=OFF
for gpu in /proc/driver/nvidia/version /dev/nvidiactl /dev/dxg; do
  [ ! -e "$gpu" ] || cuda=AUTO
done

# Without --build-only, the binary runs only on this machine. Compiling only its instruction sets saves a
# fifth of the time.
isas=native
[ "$build_only" = 0 ] || isas=all

# Announce the duration. An idle core compiles hearthd in 5 to 9 minutes, and hearth-profiler in about half of
# that.
targets=(hearthd)
[ "$build_only" = 0 ] || targets+=(hearth-profiler)
if [ ! -x build/release/hearthd ]; then
  minutes=8
  [ "$build_only" = 0 ] || minutes=13
  echo "First run: the build takes about" \
    "$(((minutes + $(nproc) - 1) / $(nproc))) minutes on the $(nproc) cores here, if nothing else runs."
  [ "$cuda" = OFF ] || echo "There is a GPU: if a CUDA toolkit is found, its kernels take some minutes more."
  [ "$own_model" = 1 ] ||
    echo "Then a model of 98 MB is downloaded, unless it is there already. Later runs take seconds."
fi

# 2. Build. CCACHE_BASEDIR lets clones in different folders share the compiler cache.
export CCACHE_BASEDIR="$root" CCACHE_NOHASHDIR=1 NINJA_STATUS="[%f of %t, %es] "
mkdir -p build/release
cmake --preset release -DHEARTH_CUDA="$cuda" -DHEARTH_ISAS="$isas" >build/release/configure.log 2>&1 ||
  { cat build/release/configure.log >&2; exit 1; }
cmake --build --preset release --target "${targets[@]}"

# 3. Model.
model_flags=()
if [ "$own_model" = 0 ]; then
  model="$(./server/fetch-model.sh)"
  model_flags=(--model "$model")
fi
[ "$build_only" = 0 ] || exit 0

# 4. Serve. With exec, signals reach hearthd directly.
if [ "$own_model" = 0 ]; then
  echo "This small model only shows that everything works. A larger one that fits this machine:"
  "$root/build/release/hearthd" list --known |
    sed -n 's#^For this machine: hearthd run #  server/run.sh #p'
fi
cd "$here"
exec "$root/build/release/hearthd" ${model_flags[@]+"${model_flags[@]}"} ${flags[@]+"${flags[@]}"}
