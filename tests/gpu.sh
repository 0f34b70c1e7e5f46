#!/usr/bin/env bash
# What only a GPU can show, in under ten minutes on a machine with nvcc, a GPU and no network: the tests on the real
# device, compute-sanitizer on the small ones, and the speed of synthetic 7B, 13B and 70B models with 25, 50 and 100 % of
# the model in VRAM, beside the same with parts of the engine switched off.
#
#   tests/gpu.sh pack DIR      here, where docker/install-deps.sh has run: what the build needs, to be carried (6 MB)
#   tests/gpu.sh build [...]   there, or anywhere with nvcc: only builds, for compute capability 8.0 without a GPU
#   tests/gpu.sh [run] [...]   there: builds, tests, measures
#   tests/gpu.sh phase NAME [...]   there: one part of that by itself, in at most eight minutes, building what it needs. For
#                              machines that are lent for minutes: run build first, then the others in any order
#
#     build        the tests and hearth-profiler; may be called again where it was stopped
#     tests        the tests on the device
#     sanitizers   compute-sanitizer over the tests of kernels
#     kernels      what the machine can do, and every kernel by itself beside that (hearth-profiler bench --kernels)
#     bench        the speed of synthetic models, as run measures it; --shapes "70b" takes others
#     server       hearthd with a synthetic model: answers of the GPU and the CPU, alone and together, and their speed. Needs
#                  cpp-httplib
#
#   --packed DIR   libraries that pack has collected; not given: the system's
#   --out DIR      results: results.json, and a log of each part (build/gpu-results); of a phase NAME.md, which explains them,
#                  its JSON files and NAME.tar.gz with the logs
#   --work DIR     where models are written, up to 58 GB (build/gpu-models); they are deleted at the end
#   --seconds N    in all (600, of a phase 480); what would not end in time is stopped or left out, with a line that says so
#   --shapes LIST  of the models that bench writes ("70b 7b 13b")
#   --httplib DIR  a folder with a header-only httplib.h, where the system has no cpp-httplib
#   --dry-run      prints the commands and runs none
#   --emulated     on the CPU's emulation of a GPU, with tiny models and build/release as it is: tries this script
#
# Exit codes: 0; 1: a part failed; 2: it could not begin.
set -uo pipefail
cd "$(dirname "$0")/.."

# Parts of the time, in seconds, for 600 of them. A part never gets more than is left.
build_s=280 tests_s=60 sanitizer_s=15 probe_s=20 bench_s=120

command=run phase='' packed='' out=build/gpu-results work=build/gpu-models seconds='' dry=0 emulated=0 pack_to='' shapes='' httplib=''
stop() { echo "tests/gpu.sh: $1" >&2; exit 2; }
while [ $# -gt 0 ]; do
  case "$1" in
    pack) command=pack; pack_to="${2:-}"; [ -n "$pack_to" ] || stop "pack: say which folder to collect in"; shift ;;
    build | run) command="$1" ;;
    phase)
      command=phase phase="${2:-}"
      [[ " build tests sanitizers kernels bench server " == *" $phase "* ]] ||
        stop "phase \"$phase\": one of build, tests, sanitizers, kernels, bench, server"
      shift ;;
    --packed | --out | --work | --seconds | --shapes | --httplib)
      [ -n "${2:-}" ] || stop "$1: its value is missing"
      declare "${1#--}=$2"; shift ;;
    --dry-run) dry=1 ;;
    --emulated) emulated=1 ;;
    *) stop "\"$1\" is not known; the head of this file says what is" ;;
  esac
  shift
done
[ -n "$seconds" ] || { [ "$command" = phase ] && seconds=480 || seconds=600; }
[[ "$seconds" =~ ^[1-9][0-9]{0,5}$ ]] || stop "--seconds $seconds: give a number of seconds"
failed=0
left() { echo $((seconds - SECONDS)); }

# ---- pack: the packages' own files, as they lie ------------------------------------------------------------------

# The files of a package: this processor's, where another's is installed beside it (docker/install-deps.sh arm).
files_of() { dpkg -L "$1:$(dpkg --print-architecture)" 2>/dev/null || dpkg -L "$1" 2>/dev/null; }

pack() {
  command -v dpkg >/dev/null || stop "pack: needs a Debian or Ubuntu on which docker/install-deps.sh build has run"
  mkdir -p "$pack_to" || stop "pack: $pack_to cannot be made"
  [ -z "$(ls -A "$pack_to")" ] || stop "pack: $pack_to is not empty"
  local package file library catch2=catch2
  files_of libcatch2-dev >/dev/null && catch2=libcatch2-dev  # Debian 13 has the files there
  for package in libspdlog-dev libfmt-dev nlohmann-json3-dev libcli11-dev libpcre2-dev libtomlplusplus-dev "$catch2"; do
    files_of "$package" >/dev/null || stop "pack: the package $package is missing; docker/install-deps.sh test installs it"
    files_of "$package" | grep -E '^/usr/(include|lib|share/cmake)/' | grep -vE 'libpcre2-(16|32|posix)' | while read -r file; do
      [ ! -d "$file" ] || [ -L "$file" ] || continue
      mkdir -p "$pack_to${file%/*}" && cp -P "$file" "$pack_to$file" || exit 1
      # A link for linkers has the library itself beside it, in the package of those who only run programs.
      case "$file" in
        *.so)
          for library in "$file".*; do
            [ ! -e "$library" ] || cp -P "$library" "$pack_to${file%/*}/" || exit 1
          done ;;
      esac
    done || stop "pack: the files of $package could not be copied to $pack_to"
  done
  local pcre2
  pcre2="$(cd "$pack_to" && find usr -name libpcre2-8.a)"
  # Without pkg-config, which such machines may lack. The names are those of PCRE2's own package.
  mkdir -p "$pack_to/usr/lib/cmake/PCRE2"
  cat >"$pack_to/usr/lib/cmake/PCRE2/PCRE2Config.cmake" <<END
get_filename_component(root "\${CMAKE_CURRENT_LIST_DIR}/../../../.." ABSOLUTE)
add_library(PCRE2::8BIT STATIC IMPORTED GLOBAL)
set_target_properties(PCRE2::8BIT PROPERTIES IMPORTED_LOCATION "\${root}/$pcre2"
  INTERFACE_INCLUDE_DIRECTORIES "\${root}/usr/include")
END
  echo "packed $(find "$pack_to" -type f | wc -l) files, $(du -sm "$pack_to" | cut -f1) MB, into $pack_to"
}

if [ "$command" = pack ]; then pack; exit 0; fi

# ---- parts -------------------------------------------------------------------------------------------------------

show() { printf '  $'; printf ' %q' "$@"; printf '\n'; }

# part SECONDS NAME COMMAND...: what it says goes to a log, or the standard output to $result where that is set; tells
# how it ended. Fails as the command does.
part() {
  local limit="$1" name="$2" begin=$SECONDS code=0 log="$out/$2.log"
  shift 2
  if [ "$dry" = 1 ]; then echo "$name, $limit s at most:"; show "$@"; return 0; fi
  [ "$(left)" -ge "$limit" ] || limit="$(left)"
  if [ "$limit" -lt 5 ]; then
    leave_out "$name" "the $seconds seconds are used up"
    return 3
  fi
  : >"$log" >"${result:-$log}"
  timeout --kill-after=10 "$limit" "$@" >>"${result:-$log}" 2>>"$log" || code=$?
  case "$code" in
    0) echo "$name: well, $((SECONDS - begin)) s" ;;
    124 | 137) echo "$name: stopped after $limit s; $log has what it said" ;;
    *) echo "$name: FAILED (exit code $code), $((SECONDS - begin)) s; the end of $log:"; tail -n 15 "$log" ;;
  esac
  note "$name" "$code" "$((SECONDS - begin))"
  return "$code"
}

# What the report of a phase is made of: name, exit code or "out", seconds or the reason.
note() { [ "$dry" = 1 ] || printf '%s\t%s\t%s\n' "$1" "$2" "$3" >>"$out/parts.tsv"; }

leave_out() {
  echo "$1: left out, for $2"
  note "$1" out "$2"
}

# A part that ended in any way but well, or was left out (3): is the whole to fail?
count() { [ "$1" = 0 ] || [ "$1" = 3 ] || failed=1; }

# ---- 1. The machine ------------------------------------------------------------------------------------------------

arch=80 vram_mib=24576
if [ "$emulated" = 1 ]; then
  gpu='an emulated GPU'
elif gpu="$(nvidia-smi --query-gpu=name,compute_cap,memory.total --format=csv,noheader,nounits 2>/dev/null | head -n 1)" &&
  [ -n "$gpu" ]; then
  IFS=', ' read -r arch vram_mib < <(echo "$gpu" | awk -F', ' '{gsub(/\./, "", $2); print $2, $3}')
elif [ "$command" != build ] && [ "$phase" != build ] && [ "$dry" = 0 ]; then
  stop "there is no NVIDIA GPU on this machine (nvidia-smi names none); tests/gpu.sh build needs none, and --emulated tries the rest"
else
  gpu='no GPU: built for compute capability 8.0'
fi
for tool in cmake python3; do command -v "$tool" >/dev/null || stop "$tool is missing, and the build needs it"; done
results="$out"
[ "$command" != phase ] || out="$work/logs-$phase"
[ "$dry" = 1 ] || { mkdir -p "$out" "$results" "$work" && rm -f "$out/parts.tsv"; } || stop "$out or $work cannot be made"
echo "GPU: $gpu; $(nproc) processors; $(awk '/MemAvailable/ {print int($2 / 1048576)}' /proc/meminfo) GiB of memory free"

# ---- 2. Build ------------------------------------------------------------------------------------------------------

build=build/gpu
profiler="$build/hearth-profiler" server="$build/hearthd" label='^cuda$'
if [ "$emulated" = 1 ]; then
  build="${HEARTH_BUILD_DIR:-build/release}"
  profiler="$build/tests/hearth_profiler_emulated" server="$build/tests/hearthd_emulated"
  label=cuda-emulated
fi

# build WITH_SERVER TARGET...
build() {
  local with_server="$1" configure file name
  shift
  if [ "$emulated" = 1 ]; then
    [ -x "$profiler" ] || [ "$dry" = 1 ] || stop "--emulated: $profiler is missing; ./tests/run.sh builds it"
    return 0
  fi
  configure=(cmake -S . -B "$build" -DCMAKE_BUILD_TYPE=Release -DHEARTH_CUDA=ON "-DHEARTH_CUDA_ARCHITECTURES=$arch"
    "-DHEARTH_SERVER=$with_server" -DHEARTH_GPU_TESTS=ON)
  [ -z "$httplib" ] || configure+=("-DHEARTH_HTTPLIB_INCLUDE=$httplib")
  ! command -v ninja >/dev/null || configure+=(-G Ninja)
  if [ -n "$packed" ]; then
    packed="$(cd "$packed" 2>/dev/null && pwd)" || stop "--packed: there is no such folder"
    # Each named by itself: where CMake looks in a prefix depends on the distribution.
    while read -r file; do
      name="$(basename "$file")"; name="${name%-config.cmake}"; name="${name%Config.cmake}"
      configure+=("-D${name}_DIR=${file%/*}")
    done < <(find "$packed" -name '*Config.cmake' -o -name '*-config.cmake')
    configure+=("-DTOMLPLUSPLUS_INCLUDE=$packed/usr/include")  # headers alone
    export LD_LIBRARY_PATH
    LD_LIBRARY_PATH="$(find "$packed" -name '*.so' -printf '%h\n' | sort -u | paste -sd:)${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
  fi
  part 60 configure "${configure[@]}" || return 1
  part "$build_s" build cmake --build "$build" -j "$(nproc)" --target "$@"
}

# ---- 3. The tests on the device ------------------------------------------------------------------------------------

run_tests() {
  local few=()
  [ "$emulated" = 0 ] || few=(-R 'cuda_rows_test')  # CI runs them all by themselves
  part "$tests_s" tests ctest --test-dir "$build" -L "$label" "${few[@]}" -j 4 --no-tests=error --output-on-failure
  count $?
}

# ---- 4. compute-sanitizer ------------------------------------------------------------------------------------------

# run_sanitizers TEST...
run_sanitizers() {
  local sanitizer tool test code
  if [ "$emulated" = 1 ]; then
    leave_out compute-sanitizer "the GPU is emulated"
  elif sanitizer="$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)" || [ "$dry" = 1 ]; then
    for tool in memcheck racecheck synccheck initcheck; do
      for test in "$@"; do
        part "$sanitizer_s" "$tool-$test" "${sanitizer:-compute-sanitizer}" --tool "$tool" --error-exitcode 9 \
          "$build/tests/cuda_${test}_test_gpu" '~[emulated]'
        code=$?
        # The sanitizers run kernels ten to a hundred times slower: what was not done in time says nothing.
        [ "$code" = 124 ] || [ "$code" = 137 ] || count "$code"
      done
    done
  else
    leave_out compute-sanitizer "it is not installed"
  fi
}

# ---- 5. Speed ------------------------------------------------------------------------------------------------------

# What is compared, by flags of bench: the engine as it is, then with its parts switched off one by one, and what others
# do: whole layers on the GPU, every neuron of them.
flags_of() {
  case "$1" in
    hybrid) echo --sparsity predicted ;;
    no-prefetch) echo --sparsity predicted --no-prefetch ;;
    dma-prefetch) echo --sparsity predicted --prefetch-by dma ;;
    no-cpu-share) echo --sparsity predicted --no-cpu-share ;;
    dense-layers) echo --sparsity dense --split layers ;;
    exact) echo --sparsity exact ;;
  esac
}

# GB of a shape's file in Q4_0 with predictors, to know what fits before it is written.
gb_of() { case "$1" in 7b) echo 5 ;; 13b) echo 9 ;; 70b) echo 44 ;; *) echo 1 ;; esac; }

# model SHAPE: writes it, if it fits this machine; fails if it does not.
model() {
  local gb file="$work/$1.gguf"
  gb="$(gb_of "$1")"
  [[ "$written" != *" $1 "* ]] || return 0
  if [ "$dry" = 0 ]; then
    # Neurons are laid out anew in memory beside the file's pages.
    local memory disk
    memory="$(awk '/MemAvailable/ {print int($2 / 1000000)}' /proc/meminfo)"
    disk="$(df --output=avail -B 1000000000 "$work" | tail -n 1 | tr -d ' ')"
    if [ "$memory" -lt $((2 * gb)) ]; then
      leave_out "$1" "it takes $((2 * gb)) GB of memory, and $memory are free"
      return 1
    fi
    if [ "$disk" -lt $((gb + 1)) ]; then
      leave_out "$1" "its file takes $gb GB, and $work has $disk"
      return 1
    fi
  fi
  part "$bench_s" "synth-$1" "$profiler" synth --shape "$1" --active 0.12 "${synth_flags[@]}" --pwri --force \
    --out "$file" && written+="$1 "
}

# bench SHAPE PERCENT VARIANT
bench() {
  local file="$work/$1.gguf" name="bench-$1-$2-$3" bytes
  if [ "$dry" = 1 ]; then bytes=$(($(gb_of "$1") * 1000000000)); else bytes="$(stat -c %s "$file")"; fi
  if [ $((bytes * $2 / 100 / 1048576)) -ge "$vram_mib" ]; then
    leave_out "$name" "the GPU has $vram_mib MiB"
    return 3
  fi
  local gib
  gib="$(awk -v b="$bytes" -v p="$2" 'BEGIN {printf "%.4f", b * p / 100 / 1073741824}')"
  # shellcheck disable=SC2046  # flags are words
  result="$out/$name.json" part "$bench_s" "$name" "$profiler" bench --model "$file" --json --device cuda \
    --vram-budget "$gib" "${bench_flags[@]}" $(flags_of "$3")
}

if [ "$emulated" = 1 ]; then
  export CUDAEMU_VRAM_MB=256
  percents=(40 100)  # a layer is a quarter of the model, and one must fit
  synth_flags=(--quant f32 --vocab 512) bench_flags=(--prompt 4 --generate 2 --prefill-chunk 4 --repeat 1 --threads 2)
  kernel_flags=(--shape tiny --type q4_0 --prompt 2 --repeat 1)
  : "${shapes:=tiny}"
else
  percents=(25 50 100)
  synth_flags=(--quant q4_0) bench_flags=(--prompt 128 --generate 32 --repeat 1)
  kernel_flags=(--prompt 128)
  : "${shapes:=70b 7b 13b}"
fi
written=' '  # shapes

run_probe() {
  result="$results/probe.json" part "$probe_s" probe "$profiler" probe --fresh --json  # what the machine can do
  count $?
}

run_kernels() {
  result="$results/kernels.json" part "$bench_s" kernels "$profiler" bench --kernels --json "${kernel_flags[@]}"
  count $?
}

run_bench() {
  local percent shape variant
  for percent in "${percents[@]}"; do
    for shape in $shapes; do
      model "$shape" || continue
      for variant in hybrid dense-layers no-prefetch dma-prefetch no-cpu-share exact; do
        # With all neurons on the GPU there is nothing to fetch and nothing for the CPU.
        [ "$percent" = 100 ] && [[ "$variant" == no-* || "$variant" == dma-* ]] && continue
        bench "$shape" "$percent" "$variant"
        count $?
      done
    done
  done
  [ "$dry" = 1 ] || rm -f "$work"/*.gguf
}

# ---- 6. The server -------------------------------------------------------------------------------------------------

run_server() {
  local shape=7b bytes gib
  [ "$emulated" = 0 ] || { shape=tiny; export CUDAEMU_VRAM_MB=1024; }
  if [ "$emulated" = 0 ] && [ -z "$httplib" ] && [ "$dry" = 0 ] && ! pkg-config --exists cpp-httplib 2>/dev/null; then
    leave_out server "cpp-httplib is not there (libcpp-httplib-dev, or --httplib DIR)"
    return 3
  fi
  if ! build ON hearthd hearth-profiler; then failed=1; return 1; fi
  model "$shape" || return 3
  if [ "$dry" = 1 ]; then bytes=$(($(gb_of "$shape") * 1000000000)); else bytes="$(stat -c %s "$work/$shape.gguf")"; fi
  gib="$(awk -v b="$bytes" 'BEGIN {printf "%.4f", 0.6 * b / 1073741824}')"  # so that GPU and CPU share layers
  result="$results/server.json" part "$bench_s" server python3 tests/support/gpu_server.py "$server" "$work/$shape.gguf" "$gib"
  count $?
  [ "$dry" = 1 ] || rm -f "$work"/*.gguf
}

# ---- 7. One phase, and its report ----------------------------------------------------------------------------------

if [ "$command" = phase ]; then
  build_s=$seconds tests_s=$seconds sanitizer_s=90
  if [ "$phase" != server ]; then
    build OFF hearth_gpu_tests hearth-profiler || failed=1
  fi
  if [ "$failed" = 0 ]; then
    case "$phase" in
      tests) run_tests ;;
      sanitizers) run_sanitizers rows neurons attention matmul bundles streaming ;;
      kernels) run_probe; run_kernels ;;
      bench) run_bench ;;
      server) run_server ;;
    esac
  fi
  report=(python3 tests/support/gpu_report.py "$phase" "$out" "$results" "$gpu")
  if [ "$dry" = 1 ]; then show "${report[@]}"; exit 0; fi
  "${report[@]}" || failed=1
  tar -czf "$results/$phase.tar.gz" -C "$work" "logs-$phase" && rm -rf "$out"
  echo "$SECONDS s; $results/$phase.md explains what came of it"
  exit "$failed"
fi

# ---- 8. All of it, and the sum -------------------------------------------------------------------------------------

build OFF hearth_gpu_tests hearth-profiler || exit 1
[ "$command" != build ] || exit 0
run_tests
run_sanitizers rows neurons
run_probe
run_bench
if [ "$dry" = 1 ]; then show python3 tests/support/gpu_results.py "$out" "$gpu"; exit 0; fi
python3 tests/support/gpu_results.py "$out" "$gpu" || failed=1
echo "$SECONDS s; results are in $out/results.json"
exit "$failed"
