#!/usr/bin/env bash
# The same requests to etcd and to Keelson, every answer compared; see server/tests/differential/main.rs.
#
#   scripts/differential.sh [--seeds 1..101] [--steps 2000]        compares; prints what differs, if anything does
#   scripts/differential.sh --record [--seeds 1..5] [--steps 1000]  and keeps etcd's answers for `cargo test`
#
# A seed is a store of its own, and so many requests. env: PEERS (default ~/.cache/keelson-peers) has bin/etcd; the stores
# lie under TMPDIR, best one in memory (/dev/shm), since both servers sync.
set -euo pipefail
cd "$(dirname "$0")/.."
: "${PEERS:=$HOME/.cache/keelson-peers}"
TEST=keelson_answers_as_etcd_does SEEDS=1..101 STEPS=2000
while [ $# -gt 0 ]; do
  case $1 in
  --record) TEST=etcd_is_recorded; shift ;;
  --seeds) SEEDS=$2; shift 2 ;;
  --steps) STEPS=$2; shift 2 ;;
  *) sed -n '2,9p' "$0" | sed 's/^# \{0,1\}//'; exit 2 ;;
  esac
done
[ -x "$PEERS/bin/etcd" ] || { echo "no $PEERS/bin/etcd" >&2; exit 2; }
export SEEDS STEPS ETCD="$PEERS/bin/etcd"
exec cargo test -p server --test differential -- --ignored --exact "$TEST" --nocapture
