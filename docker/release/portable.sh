#!/usr/bin/env bash
# Builds the tarball: hearthd and hearth-profiler that run on any Linux with the C library 2.31 or newer
# (Debian 11, Ubuntu 20.04 and later), from any folder. docker/release.sh calls it in a fresh Debian 12.
#
#   docker/release/portable.sh FOLDER [CMAKE-OPTION...]
#
#   FOLDER         receives hearth-VERSION-linux-PROCESSOR.tar.gz; with CUDA, hearth-cuda-VERSION...
#   CMAKE-OPTION   such as -DHEARTH_CUDA=ON -DHEARTH_CUDA_ARCHITECTURES=release; default -DHEARTH_CUDA=OFF
#
# Needs root on Debian 12, and the network. Run again, it repeats only what has changed. The compiler is
# Debian 12's. The C library, which is linked dynamically, is Debian 11's. Every other library is Debian
# 12's with its security fixes, linked statically: from the package where that has a static library, else
# built from Debian's source package.
set -euo pipefail
cd "$(dirname "$0")/../.."
case "${1:-}" in
  '' | -h | --help) sed -n '2,/^set /{/^set /d; s/^# \{0,1\}//p}' "$0"; exit 0 ;;
esac
output="$1"
shift
[ $# -gt 0 ] || set -- -DHEARTH_CUDA=OFF
sysroot=/opt/hearth-sysroot
work=/var/cache/hearth-portable
newest_glibc=2.31
mkdir -p "$work/done"
old=bullseye
archive="$(awk '$1 == "deb" { print $2; exit }' /etc/apt/sources.list)"  # where this system came from

# The C library and the unwinder, from Debian 11.
old_packages='libc6 libc6-dev libgcc-10-dev'
# Headers and static libraries, from Debian 12; the C++ library is the compiler's. The kernel's headers are
# not Debian 11's, which lack Landlock.
packages='linux-libc-dev nlohmann-json3-dev libcli11-dev libtomlplusplus-dev libpcre2-dev
  libutf8proc-dev zlib1g-dev libssl-dev'
# Source packages, because the packages have no static library, or one that needs LDAP and Kerberos (curl).
sources='fmtlib spdlog prometheus-cpp curl cpp-httplib'
# Packages whose code is in the programs, for their licenses: the above, and the libraries of the page.
licensed='libstdc++-12-dev libgcc-12-dev nlohmann-json3-dev libcli11-dev libtomlplusplus-dev libpcre2-dev
  libutf8proc-dev zlib1g-dev libssl-dev libfmt-dev libspdlog-dev prometheus-cpp-dev libcurl4-openssl-dev
  libcpp-httplib-dev node-markdown-it node-punycode node-dompurify node-highlight.js libjs-katex fonts-katex'

# once NAME COMMAND...: runs a step, unless it has succeeded before.
once() {
  local name="$1"
  shift
  [ ! -e "$work/done/$name" ] || return 0
  echo "--- $name"
  "$@"
  mkdir -p "$work/done"
  touch "$work/done/$name"
}

add_sources() {
  cat >/etc/apt/sources.list.d/hearth-portable.list <<END
deb-src $archive bookworm main
deb-src $archive-security bookworm-security main
deb $archive $old main
END
  # Nothing is installed from Debian 11. Its C library is only unpacked into the sysroot.
  printf 'Package: *\nPin: release n=%s\nPin-Priority: -1\n' "$old" >/etc/apt/preferences.d/hearth-portable
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends dpkg-dev file
}

# fetch FOLDER NAME...: downloads packages. NAME is PACKAGE or PACKAGE=VERSION.
fetch() {
  mkdir -p "$1"
  (cd "$1" && shift && apt-get download -qq -o APT::Sandbox::User=root "$@")
}

# Names PACKAGE=VERSION of the newest versions in Debian 11.
old_versions() {
  for package in $old_packages; do
    echo "$package=$(apt-cache madison "$package" |
      sed -n "s/^[^|]*| *\([^ ]*\) | [^|]*$old\/.*/\1/p" | head -n 1)"
  done
}

# Forgets the sysroot and the libraries if Debian has newer versions, or if this script has changed.
forget_if_newer() {
  local versions
  # shellcheck disable=SC2086
  versions="$({
    old_versions
    apt-cache policy $packages | grep Candidate:
    apt-cache showsrc $sources | grep '^Version:'
    cat docker/release/portable.sh docker/release/portable.cmake docker/release/newer_names.c
  } | sha256sum)"
  [ "$versions" != "$(cat "$work/versions" 2>/dev/null)" ] || return 0
  rm -rf "$work/done/sysroot" "$work/done/sources" "$work/done/libraries"
  echo "$versions" >"$work/versions"
}

make_sysroot() {
  rm -rf "$sysroot" "$work/old" "$work/new"
  # shellcheck disable=SC2046
  fetch "$work/old" $(old_versions)
  # shellcheck disable=SC2086
  fetch "$work/new" $packages
  mkdir -p "$sysroot"
  for package in "$work"/old/*.deb "$work"/new/*.deb; do dpkg-deb -x "$package" "$sysroot"; done
  # Absolute links would lead out of the sysroot.
  find "$sysroot" -type l -lname '/*' | while read -r link; do
    ln -sfn "$sysroot$(readlink "$link")" "$link"
  done
  # Only the C library's own shared libraries remain. GCC 10's folder keeps nothing that GCC 12 could find.
  mkdir -p "$sysroot/usr/local/lib" "$sysroot/usr/local/include"
  mv "$sysroot/usr/lib/gcc/$triplet/10/libgcc_eh.a" "$sysroot/usr/local/lib/"
  rm -rf "$sysroot/usr/lib/gcc"
  find "$sysroot/usr/lib/$triplet" \( -name 'libssl.so*' -o -name 'libcrypto.so*' -o -name 'libz.so*' \
    -o -name 'libpcre2*.so*' -o -name 'libutf8proc.so*' -o -name 'libtomlplusplus.so*' \) -delete
  gcc --sysroot="$sysroot" -O2 -fPIE -Wall -Wextra -c docker/release/newer_names.c \
    -o "$sysroot/usr/local/lib/newer_names.o"
}

fetch_sources() {
  rm -rf "$work/src"
  mkdir -p "$work/src"
  # shellcheck disable=SC2086
  (cd "$work/src" && apt-get source -qq -o APT::Sandbox::User=root $sources >/dev/null)
}

# build_source NAME CMAKE-OPTION...: builds a static library, and installs it in the sysroot.
build_source() {
  local source
  source="$(echo "$work/src/$1"-*/)"
  shift
  cmake -S "$source" -B "$source/portable" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_TOOLCHAIN_FILE="$PWD/docker/release/portable.cmake" -DCMAKE_INSTALL_PREFIX=/usr \
    -DCMAKE_INSTALL_LIBDIR="lib/$triplet" -DCMAKE_POSITION_INDEPENDENT_CODE=ON \
    -DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DBUILD_SHARED_LIBS=OFF "$@" \
    >"$source/configure.log" 2>&1 || { tail -n 30 "$source/configure.log"; return 1; }
  DESTDIR="$sysroot" cmake --build "$source/portable" --target install >"$source/build.log" 2>&1 ||
    { tail -n 30 "$source/build.log"; return 1; }
}

build_libraries() {
  build_source fmtlib -DFMT_TEST=OFF -DFMT_DOC=OFF
  build_source spdlog -DSPDLOG_BUILD_SHARED=OFF -DSPDLOG_FMT_EXTERNAL=ON -DSPDLOG_BUILD_EXAMPLE=OFF
  build_source prometheus-cpp -DENABLE_PULL=OFF -DENABLE_PUSH=OFF -DENABLE_TESTING=OFF \
    -DENABLE_COMPRESSION=OFF
  # HTTP and HTTPS only; the rest of curl would be code that nothing calls.
  build_source curl -DHTTP_ONLY=ON -DBUILD_CURL_EXE=OFF -DBUILD_TESTING=OFF -DCURL_USE_OPENSSL=ON \
    -DCURL_ZLIB=ON -DCURL_BROTLI=OFF -DCURL_ZSTD=OFF -DUSE_NGHTTP2=OFF -DUSE_LIBIDN2=OFF \
    -DCURL_USE_LIBSSH2=OFF -DCURL_USE_LIBPSL=OFF -DCURL_CA_BUNDLE=/etc/ssl/certs/ca-certificates.crt \
    -DCURL_CA_PATH=none
  cp -p "$work"/src/cpp-httplib-*/httplib.h "$sysroot/usr/local/include/"
}

docker/install-deps.sh build
triplet="$(gcc -print-multiarch)"
once apt add_sources
forget_if_newer
once "sysroot" make_sysroot
once "sources" fetch_sources
once "libraries" build_libraries

echo "--- programs"
name=hearth build=build/portable
case "$*" in *HEARTH_CUDA=ON*) name=hearth-cuda build=build/portable-cuda ;; esac
cmake --fresh --preset portable -B "$build" "$@" >"$work/configure.log" 2>&1 ||
  { cat "$work/configure.log"; exit 1; }
cmake --build "$build" --target hearthd hearth-profiler

echo "--- check: no library but the C library, in no newer version than $newest_glibc"
for program in hearthd hearth-profiler; do
  others="$(objdump -p "$build/$program" | sed -n 's/^ *NEEDED *//p' |
    grep -vxE 'lib(c|m)\.so\.6|libpthread\.so\.0|lib(dl)\.so\.2|librt\.so\.1|ld-linux-.*' || true)"
  [ -z "$others" ] || { echo "portable.sh: $program also needs:" $others >&2; exit 1; }
  newest="$(objdump -T "$build/$program" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1)"
  [ "$(printf '%s\n' "GLIBC_$newest_glibc" "$newest" | sort -V | tail -n 1)" = "GLIBC_$newest_glibc" ] ||
    { echo "portable.sh: $program needs $newest; docker/release/newer_names.c must define more" >&2; exit 1; }
done

echo "--- tarball"
version="$(sed -n 's/.*"bom-ref": "hearth".*"version": "\([^"]*\)".*/\1/p' "$build/sbom.json")"
name="$name-$version-linux-$(uname -m)"
stage="$work/stage/$name"
rm -rf "$work/stage"
cmake --install "$build" --prefix "$stage" --strip >/dev/null
# The unit and the configuration would name this folder; docs/running.md shows both.
rm -rf "$stage/lib" "$stage/etc"
licenses="$stage/share/doc/hearth/licenses"
mkdir -p "$licenses"
for package in $licensed; do cp -L "/usr/share/doc/$package/copyright" "$licenses/$package"; done
cat "$licenses"/* | grep -o '/usr/share/common-licenses/[A-Za-z0-9.-]*[A-Za-z0-9]' | sort -u |
  while read -r license; do [ ! -f "$license" ] || cp -L "$license" "$licenses/"; done
mkdir -p "$output"
tar --create --sort=name --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX \
  --mtime="@$(git log -1 --format=%ct 2>/dev/null || echo 0)" --directory "$work/stage" "$name" |
  gzip -n -9 >"$output/$name.tar.gz"
cp "$build/sbom.json" "$output/$name.cdx.json"
