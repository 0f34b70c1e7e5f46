#!/usr/bin/env bash
# Makes everything that a release consists of, except for the upload: Debian packages, a tarball for other
# Linux systems, container images, checksums and their provenance. .github/workflows/release.yml calls it for
# every tag, and you can run it on your own machine.
#
#   docker/release.sh [OPTION...] [PART...]
#
#   PART (default: all, in this order)
#     deb [SUITE...]   packages for bookworm (Debian 12) and trixie (Debian 13), or for the named SUITEs
#     tarball          programs for any Linux with the C library 2.31 or newer (docker/release/portable.sh)
#     images           container images (docker/Dockerfile), to load with docker load or podman load
#     sums             SHA256SUMS and provenance.intoto.json of all files that are there
#
#   OPTION
#     --variants LIST  cpu, cuda or cpu,cuda (default): which variants to build
#     --gpus LIST      the GPUs that cuda is built for: release (default: all of them, takes hours), or a list
#                      such as 90-real
#     --key FILE       a private key (PEM, such as openssl genpkey -algorithm ed25519 makes) that signs
#                      SHA256SUMS
#     --output FOLDER  default build/dist; the files are in a folder with the version's name
#     --work FOLDER    systems in which the parts are built, default build/release-systems; up to 10 GB
#
# Releases the commit that is checked out, not changes that are not committed. A part that is done for this
# commit is not repeated, and a part that failed continues where it can. Each part is built in a fresh Debian
# system, which debootstrap makes from its own mirror, or from HEARTH_MIRROR (http://HOST/debian). Needs root,
# debootstrap, git, ccache and the network; images need buildah. HEARTH_SOURCE is the address of the sources
# that labels and provenance name; default: the address of git's origin.
set -euo pipefail
cd "$(dirname "$0")/.."
help() { sed -n '2,/^set /{/^set /d; s/^# \{0,1\}//p}' docker/release.sh; }
die() {
  echo "release.sh: $1" >&2
  exit 2
}

# 1. Read the options and the parts.
variants='cpu cuda' gpus=release key='' output=build/dist work=build/release-systems
suites='' parts=''
while [ $# -gt 0 ]; do
  case "$1" in
    -h | --help) help; exit 0 ;;
    --variants | --gpus | --key | --output | --work)
      [ $# -ge 2 ] || die "$1 needs a value; see --help"
      case "$1" in
        --variants) variants="${2//,/ }" ;;
        --gpus) gpus="$2" ;;
        --key) key="$2" ;;
        --output) output="$2" ;;
        --work) work="$2" ;;
      esac
      shift ;;
    deb | tarball | images | sums) parts="$parts $1" ;;
    bookworm | trixie)
      case "$parts" in *deb) ;; *) die "$1 must follow deb; see --help" ;; esac
      suites="$suites $1" ;;
    *) die "\"$1\" is neither an option nor one of deb, tarball, images, sums; see --help" ;;
  esac
  shift
done
for variant in $variants; do
  case "$variant" in cpu | cuda) ;; *) die "--variants: \"$variant\" is neither cpu nor cuda" ;; esac
done
[ -z "$key" ] || [ -r "$key" ] || die "--key: $key cannot be read"
parts="${parts:- deb tarball images sums}" suites="${suites:- bookworm trixie}"

# 2. Find out what is released.
commit="$(git rev-parse HEAD)"
version="$(git describe --tags --match 'v[0-9]*' 2>/dev/null || true)"
version="${version#v}"
version="${version:-$(sed -n 's/^project(hearth VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)}"
source="${HEARTH_SOURCE:-$(git remote get-url origin 2>/dev/null || true)}"
git diff --quiet HEAD || echo "release.sh: changes that are not committed are not part of the release" >&2
mkdir -p "$output/$version" "$work"
output="$(cd "$output/$version" && pwd)" work="$(cd "$work" && pwd)"
ccache="$(ccache --get-config cache_dir 2>/dev/null || echo "$HOME/.cache/ccache")"
downloads="${XDG_CACHE_HOME:-$HOME/.cache}/hearth"
mkdir -p "$ccache" "$downloads" "$output/.done"
exec 9>"$work/lock"
flock -n 9 || die "another docker/release.sh works in $work; wait for its end, or use --work"
begin=$SECONDS updated=' '

# part NAME COMMAND...: runs COMMAND, unless the part is done for this commit and these GPUs.
part() {
  local name="$1" stamp="$commit"
  shift
  case "$name" in *cuda*) stamp="$commit $gpus" ;; esac
  if [ "$(cat "$output/.done/$name" 2>/dev/null)" = "$stamp" ]; then
    echo "--- $name: done already"
    return
  fi
  echo "--- $name, after $((SECONDS - begin)) s"
  rm -f "$output/.done/$name"
  "$@"
  echo "$stamp" >"$output/.done/$name"
}

# inside ROOT COMMAND: runs COMMAND with sh in the system ROOT, in the clone. Mounts end with it.
inside() {
  local passed='' name
  for name in http_proxy https_proxy no_proxy HEARTH_WERROR; do
    [ -z "${!name:-}" ] || passed="$passed $name='${!name}'"
  done
  unshare --mount --propagation private sh -c "
    mount -t proc proc '$1/proc' && mount --rbind /dev '$1/dev' && mount --rbind /sys '$1/sys' &&
    mount --bind '$ccache' '$1/ccache' && mount --bind '$downloads' '$1/root/.cache/hearth' &&
    exec chroot '$1' /usr/bin/env -i HOME=/root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
      CCACHE_DIR=/ccache CCACHE_BASEDIR=/src CCACHE_NOHASHDIR=1 $passed \
      PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin sh -ec \"\$1\"" sh "cd /src
$2" \
    </dev/null
}

# make_base SUITE: a fresh system in $work/SUITE.base, with Debian's security fixes of today.
make_base() {
  local root="$work/$1.base" archive
  case "$updated" in *" $1.base "*) return ;; esac
  if [ ! -e "$root.made" ]; then
    [ "$(id -u)" = 0 ] || die "making a Debian system needs root; run it with sudo"
    for tool in debootstrap unshare chroot; do
      command -v "$tool" >/dev/null || die "$tool is not installed; on Debian and Ubuntu, apt install $tool"
    done
    echo "making a system of $1"
    rm -rf --one-file-system "$root"
    debootstrap --variant=minbase "$1" "$root" ${HEARTH_MIRROR:+"$HEARTH_MIRROR"} >"$root.log" 2>&1 ||
      { tail -n 20 "$root.log" >&2; die "debootstrap failed; the whole log is $root.log"; }
    archive="$(awk '$1 == "deb" { print $2; exit }' "$root/etc/apt/sources.list")"
    printf 'deb %s main\n' "$archive $1" "$archive-security $1-security" >"$root/etc/apt/sources.list"
    echo force-unsafe-io >"$root/etc/dpkg/dpkg.cfg.d/unsafe-io"  # a system that can be made again
    # This machine's certificates, for a proxy between it and the network.
    mkdir -p "$root/ccache" "$root/root/.cache/hearth" "$root/usr/local/share/ca-certificates" "$root/src"
    cp /etc/ssl/certs/ca-certificates.crt "$root/usr/local/share/ca-certificates/host.crt"
    touch "$root.made"
  fi
  cp /etc/resolv.conf "$root/etc/"
  inside "$root" 'apt-get update -qq; apt-get upgrade -y -qq >/dev/null; apt-get clean'
  updated="$updated$1.base "
}

# make_builder SUITE: a copy of this system with the commit in /src, which keeps what was built before.
make_builder() {
  local root="$work/$1"
  make_base "$1"
  case "$updated" in *" $1 "*) return ;; esac
  if [ ! -e "$root.made" ]; then
    rm -rf --one-file-system "$root"
    cp -a --reflink=auto "$root.base" "$root"
    git init -q "$root/src"
    touch "$root.made"
  fi
  cp /etc/resolv.conf "$root/etc/"
  git -C "$root/src" fetch -q --tags --force "$PWD" "$commit"
  git -C "$root/src" checkout -q --force "$commit"
  chown -R 0:0 "$root/src"
  rm -rf "$root/out"
  mkdir "$root/out"
  inside "$root" 'apt-get update -qq; apt-get upgrade -y -qq >/dev/null
    docker/install-deps.sh build >/dev/null
    git config --system --replace-all safe.directory "*"'
  updated="$updated$1 "
}

# options VARIANT: CMake's options.
options() {
  case "$1" in
    cpu) echo -DHEARTH_CUDA=OFF ;;
    cuda) echo "-DHEARTH_CUDA=ON '-DHEARTH_CUDA_ARCHITECTURES=$gpus'" ;;
  esac
}
# Installs NVIDIA's compiler, if the variant needs it.
toolkit() { if [ "$1" = cuda ]; then echo 'docker/install-deps.sh --cuda build;'; fi; }

# publish FILE...: moves what was built to the output. GitHub changes a ~ in the names of files to a point,
# and the checksums must name the files as users download them.
publish() {
  local file name
  for file in "$@"; do
    name="$(basename "$file" | tr '~' .)"
    mv "$file" "$output/$name"
    echo "$output/$name, $(stat -c %s "$output/$name" | numfmt --to=si)B"
  done
}

# 3. The parts.
deb() {  # SUITE VARIANT
  make_builder "$1"
  inside "$work/$1" "$(toolkit "$2") rm -f build/package-$2/*.deb
    cmake --preset package -B build/package-$2 $(options "$2") >/dev/null
    cmake --build build/package-$2 --target package
    mv build/package-$2/*.deb /out/"
  publish "$work/$1"/out/*.deb
}

tarball() {  # VARIANT
  make_builder bookworm
  inside "$work/bookworm" "$(toolkit "$1") docker/release/portable.sh /out $(options "$1")"
  publish "$work"/bookworm/out/*
}

images() {  # VARIANT
  command -v buildah >/dev/null || die "buildah is not installed; on Debian and Ubuntu, apt install buildah"
  make_builder bookworm  # what it compiled is in the cache that the image's build uses
  local buildah="buildah --storage-driver vfs --root $work/images --runroot $work/images-run"
  local container file="$output/hearth-$version-$1.docker.tar"
  export BUILDAH_ISOLATION=chroot TMPDIR="$work/images-tmp"
  mkdir -p "$TMPDIR"
  # The base is the system above, so that no registry is needed, and Debian's signatures vouch for it.
  container="$($buildah from scratch)"
  cp -a "$work/bookworm.base/." "$($buildah mount "$container")/"
  $buildah config --env CCACHE_DIR=/ccache --env CCACHE_BASEDIR=/src --env CCACHE_NOHASHDIR=1 \
    --env "HEARTH_WERROR=${HEARTH_WERROR:-}" "$container"
  $buildah commit --quiet --rm --timestamp 0 --format docker "$container" \
    docker.io/library/debian:bookworm-slim
  # Layers for each step would change the times of the compiler's files, and the compiler cache would take it
  # for another compiler.
  $buildah build --layers=false --pull=never --format docker --timestamp 0 --tag "hearth:$version-$1" \
    --volume "$ccache:/ccache" --volume "$downloads:/root/.cache/hearth" \
    --build-arg "HEARTH_CUDA=$([ "$1" = cuda ] && echo ON || echo OFF)" \
    --build-arg "HEARTH_CUDA_ARCHITECTURES=$gpus" --build-arg "VERSION=$version" \
    --build-arg "REVISION=$commit" --build-arg "SOURCE=$source" \
    --file "$work/bookworm/src/docker/Dockerfile" "$work/bookworm/src"
  rm -f "$file"
  $buildah push --quiet "hearth:$version-$1" "docker-archive:$file:hearth:$version-$1"
  gzip -n -f "$file"
  publish "$file.gz"
}

sums() {
  local files
  files="$(cd "$output" && find . -maxdepth 1 -type f ! -name 'SHA256SUMS*' ! -name provenance.intoto.json \
    -printf '%P\n' | LC_ALL=C sort)"
  [ -n "$files" ] || die "$output has no files; build the other parts first"
  rm -f "$output"/SHA256SUMS*
  (cd "$output" && echo "$files" | xargs -d '\n' sha256sum >SHA256SUMS)
  python3 docker/release/provenance.py --sums "$output/SHA256SUMS" --commit "$commit" --source "$source" \
    --gpus "$gpus" >"$output/provenance.intoto.json"
  if [ -n "$key" ]; then
    openssl pkeyutl -sign -rawin -inkey "$key" -in "$output/SHA256SUMS" -out "$output/SHA256SUMS.sig"
    openssl pkey -in "$key" -pubout -out "$output/SHA256SUMS.pub"
  fi
  cat "$output/SHA256SUMS"
}

for name in $parts; do
  case "$name" in
    deb)
      for suite in $suites; do
        for variant in $variants; do part "deb-$suite-$variant" deb "$suite" "$variant"; done
      done ;;
    tarball) for variant in $variants; do part "tarball-$variant" tarball "$variant"; done ;;
    images) for variant in $variants; do part "images-$variant" images "$variant"; done ;;
    sums) sums ;;
  esac
done
echo "--- done after $((SECONDS - begin)) s: $output"
