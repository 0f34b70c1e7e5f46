#!/usr/bin/env bash
# Checks the messages of new commits (docs/contributing.md): those from where the tree left the main branch
# (tests/support/merge_base.sh) to HEAD. Merges and reverts are exempt, because git writes their messages.
#
# A subject begins with a capital letter and a verb in the imperative, has at most 72 characters and no final
# period. The body has at least one line beside trailers. No script can know a verb; this one refuses words
# that cannot be one.
#
# Exit code 77: there is no commit to compare with, so nothing was checked.
set -euo pipefail
cd "$(dirname "$0")/.."
base="$(tests/support/merge_base.sh)"
if [ -z "$base" ]; then
  echo "commits: there is no commit to compare with, so nothing was checked; HEARTH_BASE=COMMIT names one"
  exit 77
fi

# Words that begin a title or a sentence but are no imperatives.
no_verb=' A All Also An And Another Any As At Because Before Both But By Each Either Every Everything Few For
  From Here How If In Into Its It Less Many More Most Neither New No None Not Nothing Now Of On One Only Or
  Other Our Same So Some Such That The Their There These They This Those To Two Under Until We What When Where
  Whether Which While Who Whoever Whose Why With Without You '
# Imperatives that look like other forms of a verb.
verb=' Bring Embed Exceed Feed Need Ping Proceed Ring Seed Shed Shred Speed Spring String Swing '

faults_of() {  # faults_of COMMIT: prints a line for each fault
  local subject first
  subject="$(git log -1 --format=%s "$1")"
  case "$subject" in Merge\ * | Revert\ *) return ;; esac
  first="${subject%%[!A-Za-z]*}"
  [ "${#subject}" -le 72 ] || echo "the subject has ${#subject} characters; shorten it to 72"
  [[ "$subject" =~ ^[[:upper:]] ]] || echo "the subject does not begin with a capital letter"
  [[ ! "$subject" =~ \.$ ]] || echo "the subject ends with a period"
  if [[ ! "$verb" =~ [[:space:]]"$first"[[:space:]] ]]; then
    if [[ "$no_verb" =~ [[:space:]]"$first"[[:space:]] || "$first" =~ (ed|ing)$ ||
      "$first" =~ [^su]s$ ]]; then
      echo "\"$first\" is not an imperative; begin with what the commit does, such as Add, Fix, Move or" \
        "Remove"
    fi
  fi
  git log -1 --format=%b "$1" | grep -Ev '^[A-Za-z-]+-by: |^[[:space:]]*$' >/dev/null ||
    echo "the body is missing; say why"
}

commits="$(git rev-list --reverse "$base..HEAD")"
wrong=0
for commit in $commits; do
  faults="$(faults_of "$commit")"
  [ -n "$faults" ] || continue
  wrong=$((wrong + 1))
  echo "commit $(git log -1 --format='%h "%s"' "$commit"):"
  while read -r fault; do echo "  $fault"; done <<<"$faults"
done
n="$(wc -w <<<"$commits")"
echo "commits: $((n - wrong)) of $n new messages are as docs/contributing.md asks"
[ "$wrong" = 0 ]
