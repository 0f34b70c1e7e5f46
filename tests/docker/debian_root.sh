#!/usr/bin/env bash
# The README's two commands in a fresh Debian: debootstrap makes the system, git clones this repository's HEAD
# into it, server/run.sh answers a question, tests/run.sh tests the server; then `tests/run.sh all`.
# tests/nightly.sh calls it for each release.
#
#   tests/docker/debian_root.sh SUITE [--cold] [--first-answer | --readme]
#
#   SUITE            bookworm (Debian 12) or trixie (Debian 13)
#   --cold           without this machine's compiler cache and downloads: what a stranger's first build costs
#   --first-answer   stops after server/run.sh has answered
#   --readme         stops after tests/run.sh
#
# Needs root, debootstrap, about 10 GB in ${TMPDIR:-/tmp} and the network. Mounts are in a private namespace
# and end with it; the system is deleted at the end. Prints each stage with its time and ends with one line,
# "SUITE: passed" or "SUITE: failed: WHY". Exit code 77: it could not run here ("SUITE: skipped: WHY").
set -uo pipefail
cd "$(dirname "$0")/../.."
suite="${1:-}" cold=0 first_answer=0 readme=0
case "$suite" in
  bookworm | trixie) shift ;;
  *) sed -n '2,/^set /{/^set /d; s/^# \{0,1\}//p}' "$0" >&2; exit 2 ;;
esac
for flag in "$@"; do
  case "$flag" in
    --cold) cold=1 ;;
    --first-answer) first_answer=1 ;;
    --readme) readme=1 ;;
    *) echo "debian_root.sh: \"$flag\" is none of --cold, --first-answer, --readme" >&2; exit 2 ;;
  esac
done

skip() { echo "$suite: skipped: $1"; exit 77; }
[ "$(id -u)" = 0 ] || skip "making a system in a folder needs root"
for tool in debootstrap unshare chroot curl git; do
  command -v "$tool" >/dev/null 2>&1 || skip "$tool is not installed"
done
unshare --mount true 2>/dev/null || skip "this system does not allow mount namespaces"

work="$(mktemp -d "${TMPDIR:-/tmp}/hearth-$suite.XXXXXX")"
root="$work/root" server=''
clean_up() {
  [ -z "$server" ] || kill "$server" 2>/dev/null
  rm -rf --one-file-system "$work"
}
trap clean_up EXIT
trap 'exit 1' HUP INT TERM
fail() { echo "$suite: failed: $1"; exit 1; }

begin=$SECONDS
stage() { echo "--- $suite, $((SECONDS - begin)) s: $1"; }

# inside COMMAND: runs COMMAND with sh in the clone in the new system, as its root. The process is replaced,
# so that signals to it reach what COMMAND execs.
inside() {
  local binds=''
  if [ "$cold" = 0 ]; then
    binds="mount --bind '$ccache' '$root/ccache' && mount --bind '$downloads' '$root/root/.cache/hearth' &&"
  fi
  exec unshare --mount --propagation private sh -c "
    mount -t proc proc '$root/proc' && mount --rbind /dev '$root/dev' && mount --rbind /sys '$root/sys' &&
    $binds
    exec chroot '$root' /usr/bin/env -i HOME=/root CCACHE_DIR=/ccache LANG=C.UTF-8 HEARTH_SKIP_NIGHTLY=1 \
      $passed_on PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
      sh -c \"\$1\"" sh "cd /hearth && $1"
}
# The tests of container images make such systems themselves, so HEARTH_SKIP_NIGHTLY leaves them out inside. A
# proxy, and certificates that pip must trust, depend on this machine, so they are passed on.
passed_on=''
for name in http_proxy https_proxy no_proxy PIP_CERT; do
  [ -z "${!name:-}" ] || passed_on="$passed_on $name='${!name}'"
done
ccache="$(ccache --get-config cache_dir 2>/dev/null || echo "$HOME/.cache/ccache")"
downloads="${XDG_CACHE_HOME:-$HOME/.cache}/hearth"
[ "$cold" = 1 ] || mkdir -p "$ccache" "$downloads"

stage "debootstrap"
debootstrap --variant=minbase "$suite" "$root" >"$work/debootstrap.log" 2>&1 ||
  { tail -n 20 "$work/debootstrap.log"; fail "debootstrap"; }
cp /etc/resolv.conf "$root/etc/"
mkdir -p "$root/ccache" "$root/root/.cache/hearth" "$root/usr/local/share/ca-certificates"
[ ! -f /etc/ssl/certs/ca-certificates.crt ] ||
  cp /etc/ssl/certs/ca-certificates.crt "$root/usr/local/share/ca-certificates/host.crt"
git clone -q --no-hardlinks . "$root/hearth" || fail "git clone"
chown -R 0:0 "$root/hearth"

stage "server/run.sh"
answer_begin=$SECONDS
port="$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')"
(inside "exec ./server/run.sh --port $port") &
server=$!
until curl -sf "http://127.0.0.1:$port/health" >/dev/null 2>&1; do
  kill -0 "$server" 2>/dev/null || { server=''; fail "server/run.sh ended before it served"; }
  [ $((SECONDS - answer_begin)) -lt 3600 ] || fail "server/run.sh did not serve within an hour"
  sleep 1
done
answer="$(curl -sf "http://127.0.0.1:$port/v1/chat/completions" -d '{"temperature": 0,
  "messages": [{"role": "user", "content": "What is the capital of France?"}]}')" ||
  fail "the question was not answered"
stage "first answer $((SECONDS - answer_begin)) s after the clone: $answer"
case "$answer" in *Paris*) ;; *) fail "the answer does not name Paris" ;; esac
kill "$server"
wait "$server" || fail "hearthd did not end with exit code 0 on SIGTERM"
server=''
[ "$first_answer" = 0 ] || { stage "done"; echo "$suite: passed"; exit 0; }

stage "tests/run.sh"
(inside "exec ./tests/run.sh") || fail "tests/run.sh"
[ "$readme" = 0 ] || { stage "done"; echo "$suite: passed"; exit 0; }

stage "tests/run.sh all"
(inside "exec ./tests/run.sh all") || fail "tests/run.sh all"
stage "done"
echo "$suite: passed"
