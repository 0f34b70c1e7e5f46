#!/bin/sh
# The one list of packages Hearth needs, and their installation.
#
#   docker/install-deps.sh [--cuda] [build|test|all|image|arm]
#
#   build  packages for building hearthd and hearth-profiler (the default)
#   test   build, and packages for tests/run.sh, with NVIDIA's headers for the emulated GPU
#   all    test, and packages for `tests/run.sh all` and .ci/run: clang, shells, readers of manuals, Debian's
#          systems, Prometheus, a browser
#   image  packages for the tests of docker/, which build and run the image and nginx with replicas; Debian
#          only
#   arm    build, and packages for compiling for 64-bit Arm and testing under QEMU (tests/kernels/aarch64.sh);
#          Debian only
#   --cuda NVIDIA's compiler too, for builds with CUDA
#
# Does nothing, in a fraction of a second, if everything is installed. Otherwise needs root or sudo for the
# packages of Debian or Ubuntu. NVIDIA's parts are Python packages and go, without root, into
# ${XDG_CACHE_HOME:-~/.cache}/hearth/cuda-VERSION, where the build looks. Any toolkit of CUDA 12 or newer that
# is installed already is used instead: with nvcc in PATH, in CUDA_HOME or in /usr/local/cuda.
set -eu

build='ca-certificates g++ cmake ninja-build ccache pkg-config git python3 python3-venv unzip
  libcpp-httplib-dev nlohmann-json3-dev libspdlog-dev libcli11-dev libpcre2-dev libutf8proc-dev
  zlib1g-dev libtomlplusplus-dev prometheus-cpp-dev libcurl4-openssl-dev libssl-dev
  esbuild node-markdown-it node-punycode node-dompurify node-highlight.js libjs-katex fonts-katex'
test="$build catch2"
all="$test clang clang-format clang-tidy libclang-rt-dev curl debootstrap prometheus man-db mandoc
  zsh fish systemd-container"
image='buildah ca-certificates ccache curl docker-compose mmdebstrap nginx'
# The libraries for the other processor; its architecture is added to dpkg.
arm="$build catch2 g++-aarch64-linux-gnu qemu-user libcpp-httplib-dev:arm64 libspdlog-dev:arm64
  libpcre2-dev:arm64 libutf8proc-dev:arm64 zlib1g-dev:arm64 libtomlplusplus-dev:arm64 prometheus-cpp-dev:arm64
  libcurl4-openssl-dev:arm64 libssl-dev:arm64"
# A browser for the tests of web pages. Ubuntu's package contains none; these tests are then skipped and say
# so.
! grep -qx 'ID=debian' /etc/os-release 2>/dev/null || all="$all chromium"

# NVIDIA's packages of one CUDA release: those that the tests include, and those for building.
cuda_version=13.0.88
cuda_headers='nvidia-cuda-runtime==13.0.96 nvidia-cuda-crt==13.0.88 nvidia-cuda-cccl==13.0.85'
cuda_toolkit="$cuda_headers nvidia-cuda-nvcc==13.0.88 nvidia-nvvm==13.0.88"

case "${1:-}" in
  -h | --help) sed -n '2,/^set /{/^set /d; s/^# \{0,1\}//p}' "$0"; exit 0 ;;
esac
cuda=0
[ "${1:-}" != --cuda ] || { cuda=1; shift; }
need="${1:-build}"
case "$need" in
  build) wanted="$build" ;;
  test) wanted="$test" ;;
  all) wanted="$all" ;;
  image) wanted="$image" ;;
  arm) wanted="$arm" ;;
  *) echo "install-deps.sh: \"$need\" is none of build, test, all, image, arm" >&2; exit 2 ;;
esac

install_packages() {
  if ! command -v apt-get >/dev/null 2>&1; then
    echo "install-deps.sh: this system has no apt-get. Install what these Debian packages bring, then run" \
      "again with" >&2
    echo "HEARTH_SKIP_DEPS=1:" $wanted >&2
    exit 2
  fi
  have="$(dpkg-query -W \
    -f='${db:Status-Status} ${Package}\n${db:Status-Status} ${Package}:${Architecture}\n' |
    sed -n 's/^installed //p')"
  missing=''
  for package in $wanted; do
    echo "$have" | grep -Fqx "$package" || missing="$missing $package"
  done
  [ -n "$missing" ] || return 0

  if [ "$(id -u)" = 0 ]; then as_root=''
  elif command -v sudo >/dev/null 2>&1; then as_root='sudo'
  else
    echo "install-deps.sh: packages are missing, and neither root nor sudo is at hand; ask for them to be" \
      "installed: apt-get install$missing" >&2
    exit 2
  fi
  echo "Installing packages (up to a minute):$missing"
  case "$missing" in *:arm64*) $as_root dpkg --add-architecture arm64 ;; esac
  $as_root apt-get update -qq
  $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing
}

cache="${XDG_CACHE_HOME:-$HOME/.cache}/hearth"

have_nvcc() {
  for nvcc in "$(command -v nvcc)" "${CUDA_HOME:-}/bin/nvcc" "${CUDA_PATH:-}/bin/nvcc" \
    /usr/local/cuda/bin/nvcc "$cache/cuda-$cuda_version/bin/nvcc"; do
    [ -x "$nvcc" ] || continue
    release="$("$nvcc" --version | sed -n 's/.*release \([0-9]*\)\..*/\1/p')"
    [ "${release:-0}" -lt 12 ] || return 0
  done
  return 1
}

have_cuda_headers() {
  for folder in "${CUDA_HOME:-}/include" "${CUDA_PATH:-}/include" /usr/local/cuda/include /usr/local/include \
    /usr/include "$cache/cuda-$cuda_version/include" "$cache/cuda-headers-$cuda_version/include"; do
    [ ! -e "$folder/cuda_runtime.h" ] || return 0
  done
  return 1
}

# install_cuda FOLDER PACKAGE...: lays out the packages' files as in a toolkit. The folder appears complete or
# not at all.
install_cuda() {
  folder="$cache/$1"
  shift
  echo "Installing into $folder:" $*
  mkdir -p "$cache"
  work="$(mktemp -d "$cache/.cuda.XXXXXX")"
  trap 'rm -rf "$work"' EXIT
  trap 'exit 1' HUP INT TERM
  python3 -m venv "$work/venv"
  "$work/venv/bin/pip" --disable-pip-version-check install -q --no-deps --no-compile \
    --target "$work/packages" "$@"
  root="$work/packages/nvidia/cu13"
  mv "$work"/packages/*.dist-info "$root/"  # licenses and versions
  ln -s lib "$root/lib64"  # where nvcc looks for the runtime that it links
  [ -d "$folder" ] || mv -T "$root" "$folder"
}

install_packages
if [ "$cuda" = 1 ]; then
  have_nvcc || install_cuda "cuda-$cuda_version" $cuda_toolkit
elif [ "$need" = test ] || [ "$need" = all ]; then
  have_cuda_headers || install_cuda "cuda-headers-$cuda_version" $cuda_headers
fi
