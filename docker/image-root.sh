#!/bin/sh
# Lays out the root of a container image: only the given programs and the shared libraries that they load.
#
#   docker/image-root.sh FOLDER PROGRAM...
#
# Called by docker/Dockerfile in its build stage; Debian only. Equal programs and packages give equal bytes.
# The image has no shell, no package manager and no program that runs as another user. It has:
#
#   usr/local/bin            the programs, without their symbols
#   usr/lib                  shared libraries under the names that programs ask for
#   etc, usr/share/doc       certificates, names of users, licenses
#   var/lib/dpkg/status.d    which packages the files are from, as scanners for vulnerabilities read it
#   cache                    files that the server keeps; user 1000 and any user of group 0 may write
#   models, tmp              empty
set -eu
root="$1"
shift
triplet="$(gcc -print-multiarch)"
libraries="$root/usr/lib/$triplet"

# 1. Folders. Container runtimes mount dev, proc and sys; in a read-only root, these folders must exist.
mkdir -p "$libraries" "$root/usr/local/bin" "$root/usr/share/doc/hearth" "$root/etc/ssl/certs" \
  "$root/var/lib/dpkg/status.d" "$root/dev" "$root/proc" "$root/run" "$root/sys" "$root/models"
ln -s usr/lib "$root/lib"
install -d -m 1777 "$root/tmp"
install -d -m 0775 -o 1000 -g 0 "$root/cache"

# 2. Programs.
for program in "$@"; do
  install -m 0755 -s "$program" "$root/usr/local/bin/"
done

# 3. Libraries: those that the programs are linked with, and the parts of the C library that NVIDIA's driver
#    is linked with.
loader="$(ldd "$1" | sed -n 's/^\t\(\/[^ ]*\) .*/\1/p')"
install -D "$loader" "$root/usr$loader"
case "$loader" in /lib64/*) ln -s usr/lib64 "$root/lib64" ;; esac
c_library="$(dirname "$(ldd "$1" | sed -n 's/.*libc\.so\.6 => \([^ ]*\) .*/\1/p')")"
{
  ldd "$@" | sed -n 's/.*=> \(\/[^ ]*\) .*/\1/p'
  for name in libdl.so.2 libpthread.so.0 librt.so.1 libm.so.6; do echo "$c_library/$name"; done
} | sort -u >/tmp/libraries
while read -r library; do
  install -m 0644 "$library" "$libraries/"
done </tmp/libraries

# 4. The packages of these files, and their licenses. The list includes packages whose headers, or whose
#    libraries for the page, become part of the programs. Packages of one source may share a copy of the
#    license, and slim base images lack the links to it, so the copy of any package of the same source is
#    used.
copyright_of() {
  for package in "$1" $(dpkg-query -W -f='${source:Package} ${Package}\n' |
    sed -n "s/^$(dpkg-query -W -f='${source:Package}' "$1") //p"); do
    file="/usr/share/doc/$package/copyright"
    [ ! -f "$file" ] || { echo "$file"; return; }
  done
  echo "image-root.sh: no copyright file of $1 in /usr/share/doc" >&2
  exit 1
}
{
  while read -r library; do dpkg-query -S "*/$triplet/$(basename "$library")"; done </tmp/libraries |
    sed 's/[:,].*//'
  printf '%s\n' nlohmann-json3-dev libcli11-dev libtomlplusplus-dev ca-certificates base-files \
    node-markdown-it node-punycode node-dompurify node-highlight.js libjs-katex fonts-katex
} | sort -u >/tmp/packages
while read -r name; do
  dpkg-query -s "$name" | sed '/^Conffiles:/,/^[^ ]/{/^Conffiles:/d; /^ /d}' \
    >"$root/var/lib/dpkg/status.d/$name"
  copyright="$(copyright_of "$name")"
  install -D -m 0644 "$copyright" "$root/usr/share/doc/$name/copyright"
done </tmp/packages
cp -r /usr/share/common-licenses "$root/usr/share/"
install -m 0644 LICENSE "$(dirname "$1")/sbom.json" "$root/usr/share/doc/hearth/"

# 5. Files that libraries read. NVIDIA's toolkit reads debian_version to choose the folder for its libraries.
install -m 0644 /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
install -m 0644 /etc/debian_version /etc/os-release "$root/etc/"
echo 'hosts: files dns' >"$root/etc/nsswitch.conf"
printf '%s\n' 'root:x:0:0::/:/nonexistent' 'hearth:x:1000:1000::/cache:/nonexistent' >"$root/etc/passwd"
printf '%s\n' 'root:x:0:' 'hearth:x:1000:' >"$root/etc/group"

# 6. Set all times to 0, so that equal contents give equal bytes.
find "$root" -exec touch --no-dereference --date=@0 {} +
rm /tmp/libraries /tmp/packages
