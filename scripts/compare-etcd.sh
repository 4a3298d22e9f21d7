#!/usr/bin/env bash
# Keelson beside etcd: same machine, same disk, fsync on for both, same client, in turn; medians over the rounds.
#
#   scripts/compare-etcd.sh [--rounds 5] [--seconds 5] [--keys 200000]
#
# A round starts each server on an empty directory and runs: puts by 1, 64 (8 connections x 8 calls) and 1000 (10 x 100)
# callers, 60 B keys over 100,000, values of 1 KiB; linearizable gets by 64; a count after filling to --keys more keys;
# kill -9 and the time to the first linearizable read (some 300 MB by then). Which one goes first changes by round.
# Prints a markdown table; a ratio above 1 means that Keelson is better. Load and CPU pressure of the machine come with
# it: a figure from a busy machine is worth what the spread says.
# env: PEERS (default ~/.cache/keelson-peers) has bin/etcd; SERVER (default target/release/keelson),
#      LOAD (default target/release/keelson-load), DIR (default target/compare: both stores live there), PORT=24890.
set -euo pipefail
cd "$(dirname "$0")/.."
: "${PEERS:=$HOME/.cache/keelson-peers}"
TARGET=${CARGO_TARGET_DIR:-target}
SERVER=$(realpath "${SERVER:-$TARGET/release/keelson}")
LOAD=$(realpath "${LOAD:-$TARGET/release/keelson-load}")
DIR=${DIR:-$TARGET/compare}
PORT=${PORT:-24890}
ROUNDS=5 SECONDS_EACH=5 KEYS=200000
while [ $# -gt 0 ]; do
  case $1 in
  --rounds) ROUNDS=$2; shift 2 ;;
  --seconds) SECONDS_EACH=$2; shift 2 ;;
  --keys) KEYS=$2; shift 2 ;;
  *) sed -n '2,14p' "$0" | sed 's/^# \{0,1\}//'; exit 2 ;;
  esac
done
for binary in "$PEERS/bin/etcd" "$SERVER" "$LOAD"; do
  [ -x "$binary" ] || { echo "no $binary" >&2; exit 2; }
done
mkdir -p "$DIR"
DIR=$(realpath "$DIR")
RESULTS=$(mktemp)
PID=
stop() { [ -z "$PID" ] || { kill -9 "$PID" 2>/dev/null || true; wait "$PID" 2>/dev/null || true; PID=; }; }
trap 'stop; rm -rf "$DIR/data" "$RESULTS"' EXIT

CLIENT=http://127.0.0.1:$PORT
PEER=http://127.0.0.1:$((PORT + 1))
flags() {
  echo "--data-dir $DIR/data --listen-client-urls $CLIENT --advertise-client-urls $CLIENT --listen-peer-urls $PEER" \
    "--initial-advertise-peer-urls $PEER --initial-cluster default=$PEER --log-level error"
}
# record CASE SERVER FILTER: takes figures from a JSON report on the input. A failed call makes the comparison void.
record() {
  jq -c --arg case "$1" --arg server "$2" \
    'if (.errors // 0) > 0 then error("\($server) \($case): \(.error_kinds)") else . end | {case: $case, server: $server} + '"$3" >>"$RESULTS"
}
LOADED='{rate: .operations_per_second, p50: .latency_us.p50, p99: .latency_us.p99, cpu: .server.cpu_us_per_operation, client_cpu: .client_cpu_us_per_operation, written: ((.server.written_bytes // 0) / .operations)}'

one() { # one NAME BINARY
  local name=$1 binary=$2
  rm -rf "$DIR/data"
  # shellcheck disable=SC2046 # the flags are words
  "$binary" $(flags) >"$DIR/$name.log" 2>&1 &
  PID=$!
  for _ in $(seq 200); do
    "$LOAD" count --endpoint "$CLIENT" >/dev/null 2>&1 && break
    sleep 0.1
  done
  load() { "$LOAD" "$@" --endpoint "$CLIENT" --server-pid "$PID" --json || true; }
  load put --seconds "$SECONDS_EACH" | record "put, 1 caller" "$name" "$LOADED"
  load put --connections 8 --calls 8 --seconds "$SECONDS_EACH" | record "put, 64 callers" "$name" "$LOADED"
  load put --connections 10 --calls 100 --seconds "$SECONDS_EACH" | record "put, 1000 callers" "$name" "$LOADED"
  load get --connections 8 --calls 8 --seconds "$SECONDS_EACH" | record "get, 64 callers" "$name" "$LOADED"
  load load --prefix /fill/ --keys "$KEYS" --connections 4 --calls 2 | record fill "$name" "$LOADED"
  load count --prefix /fill/ --keys "$KEYS" --total 20 | record "count, $KEYS keys" "$name" "$LOADED"
  local resident
  resident=$(awk '/VmRSS/ {print $2 / 1024}' "/proc/$PID/status")
  stop
  local bytes
  bytes=$(du -sm "$DIR/data" | cut -f1)
  "$LOAD" start-time --json --endpoint "$CLIENT" --server-log "$DIR/$name.log" --server-cmd "'$binary' $(flags)" |
    record "restart after kill -9" "$name" "{start_ms: .start_ms[0], data_mb: $bytes, resident_mb: $resident}"
  rm -rf "$DIR/data"
}

LOADS=
for round in $(seq "$ROUNDS"); do
  if [ $((round % 2)) -eq 1 ]; then
    one etcd "$PEERS/bin/etcd"; one keelson "$SERVER"
  else
    one keelson "$SERVER"; one etcd "$PEERS/bin/etcd"
  fi
  LOADS="$LOADS $(cut -d' ' -f1 /proc/loadavg)"
  echo "round $round of $ROUNDS done, load $(cut -d' ' -f1-3 /proc/loadavg)" >&2
done

jq -rs --arg keys "$KEYS" '
  def median: sort | if length == 0 then null elif length % 2 == 1 then .[length / 2 | floor] else (.[length / 2 - 1] + .[length / 2]) / 2 end;
  def round1: if . == null then "-" elif . >= 100 then round elif . >= 1 then (. * 10 | round / 10) else (. * 1000 | round / 1000) end;
  def spread: "\(min | round1)–\(max | round1)";
  . as $all
  | def values($case; $server; $field): [$all[] | select(.case == $case and .server == $server) | .[$field] | values];
    def row($case; $figure; $field; $better; $scale):
      (values($case; "etcd"; $field) | map(. * $scale)) as $e | (values($case; "keelson"; $field) | map(. * $scale)) as $k
      | ($e | median) as $em | ($k | median) as $km
      | "| \($case) | \($figure) | \($em | round1) (\($e | spread)) | \($km | round1) (\($k | spread)) | \(if $better == "more" then $km / $em else $em / $km end | . * 100 | round / 100) |";
  "| case | figure | etcd, median (spread) | Keelson, median (spread) | ratio |",
  "| --- | --- | --- | --- | --- |",
  (("put, 1 caller", "put, 64 callers", "put, 1000 callers", "get, 64 callers") as $case
    | row($case; "ops/s"; "rate"; "more"; 1), row($case; "p50 ms"; "p50"; "less"; 0.001), row($case; "p99 ms"; "p99"; "less"; 0.001),
      row($case; "server CPU µs/op"; "cpu"; "less"; 1), row($case; "client CPU µs/op"; "client_cpu"; "less"; 1),
      (if $case | startswith("put") then row($case; "bytes written/op"; "written"; "less"; 1) else empty end)),
  ("count, \($keys) keys" as $case | row($case; "p50 ms"; "p50"; "less"; 0.001), row($case; "server CPU µs/op"; "cpu"; "less"; 1)),
  ("restart after kill -9" as $case | row($case; "ms to first read"; "start_ms"; "less"; 1), row($case; "MB of data"; "data_mb"; "less"; 1),
    row($case; "RSS MiB before"; "resident_mb"; "less"; 1))
' "$RESULTS"
echo
echo "$ROUNDS rounds of $SECONDS_EACH s, $(nproc) cores, load average after each round:$LOADS; CPU pressure $(sed -n 's/some //p' /proc/pressure/cpu 2>/dev/null || echo unknown)."
echo "etcd: $("$PEERS/bin/etcd" --version | head -1). Keelson: $("$SERVER" --version | tail -n +1 | head -2 | tr '\n' ' ')"
