#!/usr/bin/env bash
# Runs the tests and measurements that need a GPU, on a machine that is available for fifteen minutes. The
# machine needs nvcc, CMake, a C++ compiler, Python 3 and a GPU, but no network and no packages.
#
#   tests/gpu.sh pack DIR        beforehand, where docker/install-deps.sh test has run: collects the libraries
#                                that the build needs (8 MB), to take along with the clone; with
#                                "tests/gpu.sh build --arch N" before it, the programs too, so that nothing is
#                                built on a machine of that compute capability
#   tests/gpu.sh short [...]     on the machine: builds, tests on the device, times kernels and models, runs
#                                the sanitizers
#   tests/gpu.sh short --second  after that: a 70B model with a quarter of it in VRAM, Nsight Compute on the
#                                three kernels that lose most time, and llama.cpp on the same file
#   tests/gpu.sh build [...]     anywhere with nvcc: only builds, for compute capability 8.0 if there is no
#                                GPU
#
#   --packed DIR        the libraries that pack has collected; without it, the system's
#   --out DIR           results, at most 7 files of at most 16 MiB (build/gpu-results): probe.json,
#                       kernels.json, results.json, table.txt and logs.tgz; of --second second.json and
#                       second.tgz
#   --work DIR          logs, and models of up to 45 GB, which are deleted at the end (build/gpu-work)
#   --seconds N         in all (420); the limits of the parts change with it
#   --arch N            compute capability to build for, such as 90; without it, this machine's
#   --llama-bench FILE  llama.cpp's program, for --second
#   --emulated          on the CPU's emulation of a GPU, with tiny models and the programs of build/release:
#                       tries this script
#   --dry-run           prints the commands and runs none
#
# The parts run in the order of their value, each under a limit of its own. A part that fails or is stopped
# does not keep the others from running. The last 60 lines are a table of everything.
#
# Exit codes: 0; 1: a part failed, or one other than a sanitizer or profiler was stopped; 2: it could not
# begin.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2

command='' second=0 packed='' out=build/gpu-results work=build/gpu-work seconds=420 arch='' llama_bench=''
dry=0 emulated=0 pack_to=''
stop() { echo "tests/gpu.sh: $1" >&2; exit 2; }
while [ $# -gt 0 ]; do
  case "$1" in
    pack)
      command=pack pack_to="${2:-}"
      [ -n "$pack_to" ] || stop "pack: say which folder to collect in"
      shift ;;
    build | short) command="$1" ;;
    --packed | --out | --work | --seconds | --arch | --llama-bench)
      [ -n "${2:-}" ] || stop "$1: its value is missing"
      name="${1#--}"; declare "${name//-/_}=$2"; shift ;;
    --second) second=1 ;;
    --dry-run) dry=1 ;;
    --emulated) emulated=1 ;;
    *) stop "\"$1\" is not known; the head of this file lists what is" ;;
  esac
  shift
done
[ -n "$command" ] || stop "say what to do: pack DIR, build or short"
[[ "$seconds" =~ ^[1-9][0-9]{0,5}$ ]] || stop "--seconds $seconds: give a number of seconds"
[[ "$arch" =~ ^([1-9][0-9]{1,2})?$ ]] ||
  stop "--arch $arch: give a compute capability without its dot, such as 90"
[ -z "$llama_bench" ] || [ -x "$llama_bench" ] || stop "--llama-bench $llama_bench: there is no such program"

# ---- pack: copies the packages' own files ------------------------------------------------------------------

# Lists the files of a package: those for this processor, if another's are installed beside it
# (docker/install-deps.sh arm).
files_of() { dpkg -L "$1:$(dpkg --print-architecture)" 2>/dev/null || dpkg -L "$1" 2>/dev/null; }

# Packs the programs of build/gpu without their symbols. They keep their places below that folder.
pack_programs() {
  local to="$pack_to/programs" name
  mkdir -p "$to/tests" && cp build/gpu/tests/gpu_families.txt "$to/tests/" ||
    stop "pack: $to cannot be written"
  for name in hearth-profiler tests/gpu_tests; do
    strip -o "$to/$name" "build/gpu/$name" || stop "pack: build/gpu/$name cannot be stripped"
  done
  tar -czf "$to.tgz" -C "$to" . && rm -r "$to" &&
    sed -n 's/^HEARTH_CUDA_ARCHITECTURES:[^=]*=\([0-9]*\).*/\1/p' build/gpu/CMakeCache.txt >"$to.arch" ||
    stop "pack: $to.tgz cannot be written"
}

pack() {
  command -v dpkg >/dev/null ||
    stop "pack: needs a Debian or Ubuntu on which docker/install-deps.sh build has run"
  mkdir -p "$pack_to" || stop "pack: $pack_to cannot be made"
  [ -z "$(ls -A "$pack_to")" ] || stop "pack: $pack_to is not empty"
  local package file library catch2=catch2
  files_of libcatch2-dev >/dev/null && catch2=libcatch2-dev  # Debian 13 has the files there
  for package in libspdlog-dev libfmt-dev nlohmann-json3-dev libcli11-dev libpcre2-dev libutf8proc-dev \
    libtomlplusplus-dev "$catch2"; do
    files_of "$package" >/dev/null ||
      stop "pack: the package $package is missing; docker/install-deps.sh test installs it"
    files_of "$package" | grep -E '^/usr/(include|lib|share/cmake)/' |
      grep -vE 'libpcre2-(16|32|posix)' | while read -r file; do
      [ ! -d "$file" ] || [ -L "$file" ] || continue
      mkdir -p "$pack_to${file%/*}" && cp -P "$file" "$pack_to$file" || exit 1
      # A development link needs the library itself beside it, which is in the runtime package.
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
  # Written for machines without pkg-config. The names are those of PCRE2's own package.
  mkdir -p "$pack_to/usr/lib/cmake/PCRE2"
  cat >"$pack_to/usr/lib/cmake/PCRE2/PCRE2Config.cmake" <<END
get_filename_component(root "\${CMAKE_CURRENT_LIST_DIR}/../../../.." ABSOLUTE)
add_library(PCRE2::8BIT STATIC IMPORTED GLOBAL)
set_target_properties(PCRE2::8BIT PROPERTIES IMPORTED_LOCATION "\${root}/$pcre2"
  INTERFACE_INCLUDE_DIRECTORIES "\${root}/usr/include")
END
  if [ -x build/gpu/hearth-profiler ] && [ -x build/gpu/tests/gpu_tests ]; then pack_programs; fi
  echo "packed $(find "$pack_to" -type f | wc -l) files, $(du -sm "$pack_to" | cut -f1) MB, into $pack_to"
}

if [ "$command" = pack ]; then pack; exit 0; fi

# ---- parts -------------------------------------------------------------------------------------------------

logs="$work/logs"

# note NAME STATE SECONDS WHY: writes a line for the report. STATE: well, failed, stopped or out.
note() { [ "$dry" = 1 ] || printf '%s\t%s\t%s\t%s\n' "$@" >>"$logs/parts.tsv"; }

leave_out() {
  echo "$1: left out, because $2"
  note "$1" out 0 "$2"
}

# part LIMIT NAME COMMAND...: runs the command for at most LIMIT of 420 seconds. Its output goes to a log, or
# its standard output to the file $result if that is set. Fails if the command fails, is stopped or is left
# out.
part() {
  local limit=$(($1 * seconds / 420)) name="$2" begin=$SECONDS left=$((seconds - SECONDS)) code=0
  local state=well why='' log="$logs/$2.log"
  shift 2
  if [ "$dry" = 1 ]; then
    printf '%s, %s s at most:\n  $' "$name" "$limit"; printf ' %q' "$@"; printf '\n'
    return 0
  fi
  [ "$limit" -ge 2 ] || limit=2
  [ "$left" -ge "$limit" ] || limit=$left
  if [ "$limit" -lt 2 ]; then leave_out "$name" "the $seconds s are used up"; return 1; fi
  : >"$log"
  [ -z "${result:-}" ] || : >"$result"
  timeout --kill-after=5 "$limit" "$@" >>"${result:-$log}" 2>>"$log" || code=$?
  case "$code" in
    0) ;;
    124 | 137) state=stopped why="after its $limit s" ;;
    *) state=failed why="exit code $code" ;;
  esac
  echo "$name: $state${why:+, $why}, $((SECONDS - begin)) s"
  [ "$state" = well ] || tail -n 15 "$log"
  note "$name" "$state" "$((SECONDS - begin))" "$why"
  [ "$code" = 0 ]
}

report() {
  if [ "$dry" = 1 ]; then return 0; fi
  local name=logs sum=results.json code=0
  [ "$second" = 0 ] || { name=second; sum=second.json; }
  python3 tests/support/gpu_report.py table "$logs" "$out" "$sum" >"$logs/table.txt" || code=1
  [ "$second" = 1 ] || cp "$logs/table.txt" "$out/table.txt"
  [ ! -s "$out/kernels.json" ] || cp "$out/kernels.json" "$work/"  # for --second
  # A test that keeps failing must not keep the other logs from being brought back.
  find "$logs" -type f ! -name '*.ncu-rep' -size +2M \
    -exec sh -c 'tail -c 2M "$1" >"$1.end" && mv "$1.end" "$1"' sh {} ';'
  tar -czf "$out/$name.tgz" -C "$work" logs
  if [ "$(stat -c %s "$out/$name.tgz")" -gt $((16 << 20)) ]; then
    tar -czf "$out/$name.tgz" -C "$work" --exclude='*.ncu-rep' logs
  fi
  cat "$logs/table.txt"
  return "$code"
}

# ---- 1. The machine ----------------------------------------------------------------------------------------

if [ "$emulated" = 1 ]; then
  gpu='emulated'
elif gpu="$(nvidia-smi --query-gpu=name,compute_cap,memory.total,driver_version --format=csv,noheader \
  2>/dev/null | head -n 1)" && [ -n "$gpu" ]; then
  : "${arch:=$(echo "$gpu" | awk -F', ' '{gsub(/\./, "", $2); print $2}')}"
elif [ "$command" != build ] && [ "$dry" = 0 ]; then
  stop "there is no NVIDIA GPU on this machine (nvidia-smi names none); tests/gpu.sh build needs none, and \
--emulated tries the rest"
else
  : "${arch:=80}"
  gpu="none, built for compute capability $arch"
fi
for tool in cmake python3; do
  command -v "$tool" >/dev/null || stop "$tool is missing, and the build needs it"
done
if [ "$dry" = 0 ]; then
  { mkdir -p "$out" "$work" && rm -rf "$logs" && mkdir "$logs"; } || stop "$out or $work cannot be made"
  out="$(cd "$out" && pwd)" work="$(cd "$work" && pwd)"
  logs="$work/logs"
fi
machine="GPU: $gpu; $(nproc) processors ($(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)); \
$(awk '/MemTotal/ {print int($2 / 1048576)}' /proc/meminfo) GiB of memory; \
$(git rev-parse --short HEAD 2>/dev/null || echo 'commit not known')"
echo "$machine"
[ "$dry" = 1 ] || echo "$machine" >"$logs/machine.txt"

# ---- 2. Build ----------------------------------------------------------------------------------------------

build=build/gpu
profiler="$build/hearth-profiler"
if [ "$emulated" = 1 ]; then
  build="${HEARTH_BUILD_DIR:-build/release}"
  profiler="$build/tests/hearth_profiler_emulated"
fi

build() {
  local configure file name keep_going=-k
  if [ "$emulated" = 1 ]; then
    [ -x "$profiler" ] || [ "$dry" = 1 ] ||
      stop "--emulated: $profiler is missing; \"./tests/run.sh all\" builds it"
    return 0
  fi
  if [ -n "$packed" ]; then
    packed="$(cd "$packed" 2>/dev/null && pwd)" || stop "--packed: there is no such folder"
    export LD_LIBRARY_PATH
    LD_LIBRARY_PATH="$(find "$packed" -name '*.so' -printf '%h\n' | sort -u |
      paste -sd:)${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
    if [ "$command" = short ] && [ "$(cat "$packed/programs.arch" 2>/dev/null)" = "$arch" ]; then
      build="$work/programs" profiler="$work/programs/hearth-profiler"
      export HEARTH_SOURCE_DIR="$PWD"  # the tests know the folder of the machine that built them
      [ "$dry" = 1 ] || mkdir -p "$build" || stop "$build cannot be made"
      part 20 build tar -xzf "$packed/programs.tgz" -C "$build"
      return
    fi
  fi
  configure=(cmake -S . -B "$build" -DCMAKE_BUILD_TYPE=Release -DHEARTH_CUDA=ON
    "-DHEARTH_CUDA_ARCHITECTURES=$arch-real" -DHEARTH_SERVER=OFF -DHEARTH_GPU_TESTS=ON)
  if command -v ninja >/dev/null; then configure+=(-G Ninja) keep_going=-k0; fi
  if [ -n "$packed" ]; then
    # Pass each folder by its own name, because where CMake looks in a prefix depends on the distribution.
    while read -r file; do
      name="$(basename "$file")"; name="${name%-config.cmake}"; name="${name%Config.cmake}"
      configure+=("-D${name}_DIR=${file%/*}")
    done < <(find "$packed" -name '*Config.cmake' -o -name '*-config.cmake')
    configure+=("-DTOMLPLUSPLUS_INCLUDE=$packed/usr/include")  # headers only
    configure+=("-DUTF8PROC_INCLUDE=$packed/usr/include"
      "-DUTF8PROC_LIBRARY=$(find "$packed" -name libutf8proc.a)")
  fi
  part "${1:-40}" configure "${configure[@]}" &&
    part "${1:-280}" build cmake --build "$build" -j "$(nproc)" --target gpu_tests hearth-profiler \
      -- "$keep_going"
}

if [ "$command" = build ]; then
  seconds=7200
  build 420 || exit 1
  exit 0
fi

# ---- 3. The tests on the device ----------------------------------------------------------------------------

# The Catch2 specification of a family. On the emulator, where CI runs all families, one short file of it or
# nothing.
spec_of() {
  local file
  if [ "$dry" = 1 ]; then
    echo "FILES-OF-$1"
  elif [ "$emulated" = 0 ]; then
    awk -v family="$1" '$1 == family {print $2}' "$build/tests/gpu_families.txt" 2>/dev/null
  else
    case "$1" in
      rows) file=rows_test ;; neurons) file=sharing_test ;; matmul) file=embed_test ;;
      attention) file=rope_test ;; recorder) file=step_recorder_test ;; bundles) file=row_copier_test ;;
      *) return ;;
    esac
    echo "[#$file]"
  fi
}

family() {
  local program="$build/tests/gpu_tests" spec
  spec="$(spec_of "$2")"
  [ "$emulated" = 0 ] || program="$build/tests/cuda_$2_test"
  [ "$emulated" = 0 ] || [ -n "$spec" ] || { leave_out "test-$2" "CI runs it on the emulator"; return; }
  [ "$dry" = 1 ] || [[ -x "$program" && -n "$spec" ]] || { leave_out "test-$2" "it is not built"; return; }
  part "$1" "test-$2" "$program" -\# "$spec"
}

# ---- 4. Speed ----------------------------------------------------------------------------------------------

if [ "$emulated" = 1 ]; then
  export CUDAEMU_VRAM_MB=512
  shape=tiny large=tiny-bamboo quarter=40  # a layer is a quarter of the model, and one must fit
  synth_flags=(--quant f32 --vocab 512)
  bench_flags=(--prompt 4 --generate 2 --prefill-chunk 4 --repeat 1 --threads 2)
  large_flags=("${bench_flags[@]}") kernel_flags=(--prompt 2 --repeat 1)
else
  shape=7b large=70b quarter=25
  synth_flags=(--quant q4_0) bench_flags=(--prompt 512 --generate 64 --repeat 3)
  large_flags=(--prompt 128 --generate 16 --repeat 1) kernel_flags=(--prompt 512 --repeat 5)
fi

# time_kernels SHAPE TYPE
time_kernels() {
  result="$logs/kernels-$1-$2.json" part 60 "kernels-$1-$2" "$profiler" bench --kernels --json \
    --shape "$1" --type "$2" "${kernel_flags[@]}"
}

# model LIMIT NAME SHAPE GB [FLAG]...: writes a model of about that many GB.
model() {
  local limit="$1" name="$2" of="$3" gb="$4" memory disk
  shift 4
  if [ "$emulated$dry" = 00 ]; then
    # Neurons are copied to a new layout in memory, beside the file's pages.
    memory="$(awk '/MemAvailable/ {print int($2 / 1000000)}' /proc/meminfo)"
    disk="$(df --output=avail -B 1000000000 "$work" | tail -n 1 | tr -d ' ')"
    if [ "$memory" -lt $((2 * gb)) ] || [ "$disk" -lt "$gb" ]; then
      leave_out "synth-$name" \
        "it takes $((2 * gb)) GB of memory and $gb GB of $work, and $memory and $disk GB are free"
      return 1
    fi
  fi
  part "$limit" "synth-$name" "$profiler" synth --shape "$of" "${synth_flags[@]}" --force \
    --out "$work/$name.gguf" "$@"
}

# bench LIMIT MODEL NAME BUDGET FLAG...: BUDGET is a value for --vram-budget, or "quarter" for a quarter of
# the model's file.
bench() {
  local limit="$1" file="$work/$2.gguf" name="$3" budget="$4"
  shift 4
  if [ "$dry" = 0 ] && [ ! -s "$file" ]; then leave_out "$name" "its model was not written"; return 1; fi
  [ "$budget" != quarter ] || [ "$dry" = 1 ] ||
    budget="$(awk -v b="$(stat -c %s "$file")" -v p="$quarter" \
      'BEGIN {printf "%.4f", b * p / 100 / 1073741824}')"
  result="$logs/$name.json" part "$limit" "$name" "$profiler" bench --model "$file" --json --device cuda \
    --vram-budget "$budget" "$@"
}

# Finds one of NVIDIA's tools, which may be installed beside nvcc without being in PATH.
tool() { command -v "$1" || ls /usr/local/cuda/bin/"$1" 2>/dev/null; }

# ---- 5. The first run: as much as fits the time, the most valuable parts first -----------------------------

# sanitize NAME SPECIFICATION: tests that finish in this time under compute-sanitizer, which makes allocations
# and launches much slower.
sanitize() {
  local sanitizer kind
  sanitizer="$(tool compute-sanitizer || { [ "$dry" = 1 ] && echo compute-sanitizer; })" ||
    { leave_out sanitizers "compute-sanitizer is not installed"; return; }
  for kind in racecheck memcheck; do
    part 40 "$kind-$1" "$sanitizer" --tool "$kind" --error-exitcode 9 "$build/tests/gpu_tests" -\# "$2"
  done
}

first() {
  result="$out/probe.json" part 45 probe "$profiler" probe --fresh --json
  for name in rows neurons matmul attention recurrent recorder; do family 60 "$name"; done
  time_kernels "$shape" q4_0
  time_kernels "$large" q4_k
  model 60 model "$shape" 6 --active 0.12 --pwri
  bench 45 model full-dense auto "${bench_flags[@]}" --sparsity dense
  bench 45 model full-predicted auto "${bench_flags[@]}" --sparsity predicted
  bench 45 model full-no-graphs auto "${bench_flags[@]}" --sparsity dense --no-graphs
  bench 45 model quarter-layers quarter "${bench_flags[@]}" --sparsity dense --split layers
  bench 45 model quarter-predicted quarter "${bench_flags[@]}" --sparsity predicted
  bench 45 model quarter-exact quarter "${bench_flags[@]}" --sparsity exact
  bench 45 model quarter-no-prefetch quarter "${bench_flags[@]}" --sparsity predicted --no-prefetch
  for name in bundles streaming prefetch engine count library; do family 90 "$name"; done
  if [ "$emulated" = 1 ]; then
    leave_out sanitizers "the GPU is emulated"
  else
    sanitize matmul '[sanitizer]'
    sanitize neurons "$(spec_of neurons)"
  fi
}

# ---- 6. The second run -------------------------------------------------------------------------------------

# Runs Nsight Compute on the kernels that lose the most time against their bounds.
profile_kernels() {
  local ncu name flags
  ncu="$(tool ncu || { [ "$dry" = 1 ] && echo ncu; })" || { leave_out ncu "it is not installed"; return; }
  if [ "$dry" = 0 ] && [ ! -s "$out/kernels.json" ]; then
    if [ -s "$work/kernels.json" ]; then cp "$work/kernels.json" "$out/"; else time_kernels "$shape" q4_0; fi
  fi
  while IFS=$'\t' read -r name flags; do
    # shellcheck disable=SC2086  # flags are words
    part 50 "ncu-$name" "$ncu" --set full --graph-profiling graph --kill yes --force-overwrite \
      --export "$logs/$name" ${flags% -- *} \
      "$profiler" bench --kernels ${flags#* -- } "${kernel_flags[@]}" &&
      result="$logs/ncu-$name.csv" part 20 "ncu-$name-csv" "$ncu" --import "$logs/$name.ncu-rep" --csv \
        --page raw
  done < <(if [ "$dry" = 1 ]; then printf 'KERNEL\tFILTER -- CASE\n'; else
    python3 tests/support/gpu_report.py worst "$logs" "$out" 3; fi)
}

against_llama() {
  if [ -z "$llama_bench" ]; then leave_out llama-bench "--llama-bench does not name it"; return; fi
  model 60 plain "$shape" 5
  bench 60 plain plain-dense auto "${bench_flags[@]}" --sparsity dense
  if [ "$dry" = 0 ] && [ ! -s "$work/plain.gguf" ]; then
    leave_out llama-bench "its model was not written"
    return
  fi
  LD_LIBRARY_PATH="$(dirname "$llama_bench")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" \
    result="$logs/llama-bench.json" \
    part 90 llama-bench "$llama_bench" -m "$work/plain.gguf" -p 512 -n 64 -r 3 -ngl 99 -fa 0,1 -o json
}

again() {
  model 120 large "$large" 45 --active 0.12 --pwri
  bench 120 large large-predicted quarter "${large_flags[@]}" --sparsity predicted
  bench 120 large large-layers quarter "${large_flags[@]}" --sparsity dense --split layers
  [ "$dry" = 1 ] || rm -f "$work/large.gguf"
  profile_kernels
  against_llama
}

# ---- 7. All parts, and the table ---------------------------------------------------------------------------

# Try what was built even if another file did not compile.
if build || [ -x "$profiler" ]; then
  export XDG_CACHE_HOME="$work/cache"  # where probe keeps the machine's figures for bench --kernels
  if [ "$second" = 1 ]; then again; else first; fi
fi
[ "$dry" = 1 ] || rm -f "$work"/*.gguf
report
