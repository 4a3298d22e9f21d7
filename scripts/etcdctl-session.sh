#!/usr/bin/env bash
# Drives a server with etcdctl, from put to alarm list, as a user would.
#
#   scripts/etcdctl-session.sh [--perf] ENDPOINT            run it; exit 1 if a command ends otherwise than on etcd
#   scripts/etcdctl-session.sh [--perf] ENDPOINT REFERENCE  run it on both and compare every line printed; exit 1 on a difference
#
# Both stores must be fresh (revision 1): revisions are compared as they are. What may differ is normalised: ids, lease
# ids, hashes, raft numbers, sizes, addresses, times. --perf adds `check perf` (one minute) on ENDPOINT.
# env: PEERS (default ~/.cache/keelson-peers) has bin/etcdctl; KEEP=DIR keeps the transcripts.
set -euo pipefail

usage() { sed -n '2,9p' "$0" | sed 's/^# \{0,1\}//'; exit 2; }
: "${PEERS:=$HOME/.cache/keelson-peers}"
ETCDCTL=$PEERS/bin/etcdctl
PERF=
[ "${1:-}" = --perf ] && { PERF=1; shift; }
[ $# -ge 1 ] && [ $# -le 2 ] && [[ $1 != -* ]] || usage
[ -x "$ETCDCTL" ] || { echo "no $ETCDCTL: build it with peers/etcd.sh" >&2; exit 2; }
WORK=${KEEP:-$(mktemp -d)}
mkdir -p "$WORK"
[ -n "${KEEP:-}" ] || trap 'rm -rf "$WORK"' EXIT

# Hides what may differ. Lease ids are 16 hex digits in text and decimal in JSON.
normalise() {
  watch_events | sed -E \
    -e '/^\{"level":/d' \
    -e 's/"name":"[^"]*"/"name":"NAME"/g' \
    -e 's/"(cluster_id|member_id|raft_term|raftTerm|raftIndex|raftAppliedIndex|leader|dbSize|dbSizeInUse|hash|ID|lease)":-?[0-9]+/"\1":N/g' \
    -e 's/"(ClusterID|MemberID|RaftTerm|Lease)" : -?[0-9]+/"\1" : N/' \
    -e 's/"ttl":[0-9]+/"ttl":T/g' \
    -e 's/remaining\([0-9]+s\)/remaining(T)/g' \
    -e 's/took = [0-9.]+[a-zµ]+/took = T/g' \
    -e 's/"took":"[^"]*"/"took":"T"/g' \
    -e 's#(https?://)?(127\.0\.0\.1|localhost):[0-9]+#ADDRESS#g' \
    -e 's/\b[0-9a-f]{16}\b/ID/g'
}
# A server may tell the past in as many answers as it likes: their events count.
watch_events() {
  local line
  while IFS= read -r line; do
    case $line in
    '{"Header":'*) jq -c '.Events[]?, {CompactRevision, Canceled, CancelReason}' <<<"$line" | grep -vF '{"CompactRevision":0,"Canceled":false,"CancelReason":""}' || true ;;
    *) printf '%s\n' "$line" ;;
    esac
  done
}

# run EXPECTED_STATUS COMMAND...: one step of the transcript. EXPECTED_STATUS is 0, or `fails` for any other.
step() {
  local expected=$1 status=0 shown
  shift
  shown=$(printf '%s ' "$@" | sed "s/$LEASE/LEASE/g")
  echo "\$ etcdctl ${shown% }"
  timeout 20 "$ETCDCTL" --endpoints "$TARGET" "$@" >"$WORK/out" 2>&1 <"${INPUT:-/dev/null}" || status=$?
  normalise <"$WORK/out"
  [ $status -eq 0 ] || echo "(exit $status)"
  case $expected in
  0) [ $status -eq 0 ] || echo "step that should succeed: $*" >>"$WORK/unexpected" ;;
  *) [ $status -ne 0 ] || echo "step that should fail: $*" >>"$WORK/unexpected" ;;
  esac
}
run() { step 0 "$@"; }
fails() { step fails "$@"; }
# typed TEXT EXPECTED COMMAND...: a step with something typed on its input; at a line `pause` the typist waits.
typed() {
  local text=$1 expected=$2 line
  shift 2
  rm -f "$WORK/in"
  mkfifo "$WORK/in"
  printf '%b' "$text" | while IFS= read -r line; do
    if [ "$line" = pause ]; then sleep 1.5; else printf '%s\n' "$line"; fi
  done >"$WORK/in" &
  INPUT="$WORK/in" step "$expected" "$@"
  wait $! || true
}
grant() { # grant SECONDS: a lease in $LEASE
  local out
  out=$("$ETCDCTL" --endpoints "$TARGET" lease grant "$1")
  LEASE=$(awk '{print $2}' <<<"$out")
  echo "\$ etcdctl lease grant $1"
  normalise <<<"$out"
}

session() {
  TARGET=$1 LEASE=no-lease

  echo "## put"
  for key in a b c; do run put "k/$key" "value $key"; done
  run put k/a "value a2"
  run put k/a "value a3" --prev-kv
  run put k/b --ignore-value
  run put empty ""
  run put other/x 1
  run put other/y 2 -w json
  fails put ""  v
  fails put absent --ignore-value
  fails put k/a v --lease 123456789

  echo "## get"
  run get k/a
  run get absent
  run get k/a -w json
  run get k/a -w fields
  run get k/a --print-value-only
  run get k/a --hex
  run get k/ --prefix
  run get k/ --prefix -w json
  run get k/a k/c
  run get k/c k/a
  run get k/b --from-key
  run get "" --prefix --keys-only
  run get k/ --prefix --limit 2
  run get k/ --prefix --limit 2 -w json
  run get k/ --prefix --rev 4
  run get k/a --rev 5 -w json
  run get k/ --prefix --order DESCEND
  for by in CREATE KEY MODIFY VALUE VERSION; do
    run get k/ --prefix --sort-by $by
    run get k/ --prefix --sort-by $by --order DESCEND --limit 2 --keys-only
  done
  run get k/ --prefix --keys-only
  fails get k/ --prefix --count-only
  run get k/ --prefix --count-only -w fields
  run get k/ --prefix --consistency=s
  run get k/ --prefix --consistency=l
  run get "" --prefix --min-mod-rev 5 --keys-only
  run get "" --prefix --max-mod-rev 5 --keys-only
  run get "" --prefix --min-create-rev 3 --max-create-rev 8 --keys-only -w json
  run get k/ --prefix --stream
  run get k/ --prefix --stream --limit 2 -w json
  run get k/ --prefix --stream --keys-only
  run get k/ --prefix --stream --rev 4
  fails get k/ --prefix --stream --order DESCEND
  fails get k/ --prefix --stream --min-mod-rev 3
  fails get k/a --rev 9999
  fails get k/a --sort-by NONSENSE
  fails get ""

  echo "## del"
  for key in 1 2 3 4 5 6; do run put "d/$key" "$key"; done
  run del d/1
  run del d/1
  run del d/2 --prev-kv
  run del d/3 d/5 --range --prev-kv
  run del d/ --prefix -w json
  run del d/ --prefix
  run del zzz --from-key

  echo "## txn"
  typed 'mod("k/a") > "0"\nvalue("k/b") = "value b"\n\nput k/a txn\nget k/a\ndel other/x\n\nget k/b\n\n' 0 txn -i
  typed 'version("k/a") = "1"\n\nput k/a no\n\nget k/a\nget k/ --prefix --count-only\n\n' 0 txn -i
  typed 'create("absent") = "0"\n\nput absent created\n\n\n' 0 txn -i -w json
  typed '\nput k/l 1\nput k/m 2\nget k/ --prefix\n\n\n' 0 txn
  typed '\nput twice 1\nput twice 2\n\n\n' fails txn -i
  typed 'nonsense\n\n\n\n' fails txn -i

  echo "## watch"
  typed 'watch k/ --prefix --rev=1\npause\n' fails watch -i
  typed 'watch k/ --prefix --rev=2 --prev-kv\npause\n' fails watch -i -w json
  typed 'watch d/2 d/5 --rev=1\npause\nprogress\npause\n' fails watch -i

  echo "## lease"
  grant 600
  run put leased/1 x --lease "$LEASE"
  run get leased/1 -w json
  run get leased/1 --keys-only -w json
  run lease timetolive "$LEASE"
  run lease timetolive "$LEASE" --keys # one key: etcd lists several in any order
  run put leased/2 y --lease "$LEASE"
  run put leased/2 z --ignore-lease
  run lease keep-alive --once "$LEASE"
  run lease list
  run lease revoke "$LEASE"
  run get leased/ --prefix --count-only -w fields
  run lease timetolive "$LEASE"
  fails lease revoke "$LEASE"
  fails lease keep-alive --once "$LEASE"
  grant 2
  run put expiring 1 --lease "$LEASE"
  sleep 5
  run get expiring -w json
  run lease list

  echo "## compaction"
  run compaction 10
  fails compaction 10
  fails compaction 9999
  run compaction 12 --physical
  fails get k/a --rev 11
  run get k/a --rev 12
  typed 'watch k/ --prefix --rev=5\npause\n' fails watch -i
  typed 'watch k/ --prefix --rev=12\npause\n' fails watch -i

  echo "## cluster"
  run endpoint health
  run endpoint health -w json
  run endpoint status -w json
  run alarm list
  run alarm disarm
  run member list -w json
  run get k/a -w json
}

transcript() { # transcript ENDPOINT FILE
  local revision
  revision=$("$ETCDCTL" --endpoints "$1" get "" --prefix --limit 1 -w json 2>/dev/null |
    sed -nE 's/.*"revision":([0-9]+).*/\1/p') || true
  [ -n "$revision" ] || { echo "$1 does not answer" >&2; exit 2; }
  [ "$revision" = 1 ] || { echo "$1 is at revision $revision: a fresh store is needed" >&2; exit 2; }
  : >"$WORK/unexpected"
  session "$1" >"$2"
}

FAILED=0
transcript "$1" "$WORK/transcript"
if [ -s "$WORK/unexpected" ]; then
  cat "$WORK/unexpected"
  FAILED=1
fi
STEPS=$(grep -c '^\$ ' "$WORK/transcript")
if [ $# -eq 2 ]; then
  transcript "$2" "$WORK/reference"
  if diff -u --label reference --label "$1" "$WORK/reference" "$WORK/transcript"; then
    echo "$STEPS steps, no difference"
  else
    FAILED=1
  fi
else
  cat "$WORK/transcript"
  echo "$STEPS steps"
fi
if [ -n "$PERF" ]; then
  "$ETCDCTL" --endpoints "$1" check perf 2>&1 | tr '\r' '\n' | grep -E '^(PASS|FAIL)' | tee "$WORK/perf"
  grep -q '^FAIL' "$WORK/perf" && FAILED=1
fi
exit $FAILED
