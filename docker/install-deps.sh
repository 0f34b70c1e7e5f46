#!/bin/sh
# The one list of Debian and Ubuntu packages Hearth needs, and their installation.
#
#   docker/install-deps.sh [runtime|build|test]
#
#   runtime  what a built hearthd links against
#   build    what building hearthd and hearth-profiler needs (the default)
#   test     build, and what tests/run.sh and .ci/run need on top
#
# Does nothing, in a fraction of a second, where everything is there. Otherwise needs root or sudo.
set -eu

# Shared libraries carry their version in the package's name, which differs between releases: patterns, resolved by apt.
runtime='ca-certificates ^libcpp-httplib0\.[0-9.]+(t64)?$ ^libspdlog1\.[0-9.]+(t64)?(-fmt9)?$ ^libpcre2-8-0$'
build='ca-certificates g++ cmake ninja-build ccache pkg-config git python3 python3-venv unzip
  libcpp-httplib-dev nlohmann-json3-dev libspdlog-dev libcli11-dev libpcre2-dev'
test="$build catch2 clang clang-format libclang-rt-dev curl debootstrap"

need="${1:-build}"
case "$need" in
  runtime) wanted="$runtime" ;;
  build) wanted="$build" ;;
  test) wanted="$test" ;;
  *) echo "install-deps.sh: \"$need\" is none of runtime, build, test" >&2; exit 2 ;;
esac
set -f  # the patterns are apt's, not the shell's

if ! command -v apt-get >/dev/null 2>&1; then
  echo "install-deps.sh: this system has no apt-get. Install what these Debian packages bring, then run again with" >&2
  echo "HEARTH_SKIP_DEPS=1:" $wanted >&2
  exit 2
fi

have="$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' | sed -n 's/^installed //p')"
missing=''
for package in $wanted; do
  case "$package" in
    ^*) echo "$have" | grep -Eq "$package" || missing="$missing $package" ;;
    *) echo "$have" | grep -Fqx "$package" || missing="$missing $package" ;;
  esac
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ]; then as_root=''
elif command -v sudo >/dev/null 2>&1; then as_root='sudo'
else
  echo "install-deps.sh: packages are missing, and neither root nor sudo is at hand. As root: apt-get install$missing" >&2
  exit 2
fi
echo "Installing packages:$missing"
$as_root apt-get update -qq
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing
