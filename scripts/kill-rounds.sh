#!/usr/bin/env bash
# Rounds of load and kill -9 on the built server, every promise checked after each restart.
#
#   scripts/kill-rounds.sh [ROUNDS] [OPTION OF `keelson-load kill-rounds`...]
#   scripts/kill-rounds.sh 100
#   scripts/kill-rounds.sh 20 --round-ms 200..800 --kill-starting-percent 50 --seed 7
#
# Prints the summary as JSON; exits 1 on a finding, and then keeps the data directory and the server's log.
# env: SERVER (default target/release/keelson; etcd works too), LOAD (default target/release/keelson-load), PORT=24790,
#      SERVER_FLAGS.
set -euo pipefail
cd "$(dirname "$0")/.."
TARGET=${CARGO_TARGET_DIR:-target}
SERVER=$(realpath "${SERVER:-$TARGET/release/keelson}")
LOAD=${LOAD:-$TARGET/release/keelson-load}
PORT=${PORT:-24790}
case ${1:-} in
-h | --help) sed -n '2,10p' "$0" | sed 's/^# \{0,1\}//'; exit 0 ;;
'' | -*) ROUNDS=100 ;;
*) ROUNDS=$1; shift ;;
esac
DIR=$(mktemp -d "${TMPDIR:-/tmp}/keelson-rounds.XXXXXX")
CLIENT=http://127.0.0.1:$PORT
PEER=http://127.0.0.1:$((PORT + 1))
status=0
"$LOAD" kill-rounds --rounds "$ROUNDS" --endpoint "$CLIENT" --server-log "$DIR/log" --server-cmd \
  "'$SERVER' --data-dir '$DIR/data' --listen-client-urls $CLIENT --advertise-client-urls $CLIENT \
   --listen-peer-urls $PEER --initial-advertise-peer-urls $PEER --initial-cluster default=$PEER ${SERVER_FLAGS:-}" "$@" || status=$?
if [ $status -eq 0 ]; then rm -rf "$DIR"; else echo "kept: $DIR (data, log)" >&2; fi
exit $status
