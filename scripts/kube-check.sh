#!/usr/bin/env bash
# A one-machine Kubernetes (apiserver, controller-manager, scheduler, kwok) on a server that is killed in the middle.
#
#   scripts/kube-check.sh [--nodes 100] [--pods 200] [--no-kill]
#
# Starts the server on an empty directory and Kubernetes on it, runs the smoke test (namespaces, config maps, a custom
# resource, a lease, a deployment), adds fake nodes, scales a deployment up, kills the server with -9 half-way and starts
# it again, waits for all pods Running, scales to 0. Then reads the logs and the apiserver's metrics: a storage error
# outside the outage, a 410, or a watch cache that had to list again is a finding. Exits 1 on any.
# env: SHARED (default ../shared) has peers/kube-run.sh, PEERS (default ~/.cache/keelson-peers) the binaries,
#      SERVER (default target/release/keelson; etcd works too), PORT=24990, APIPORT=26543, KEEP=1 keeps logs and data.
set -euo pipefail
cd "$(dirname "$0")/.."
SHARED=$(realpath "${SHARED:-../shared}")
export PEERS=${PEERS:-$HOME/.cache/keelson-peers} APIPORT=${APIPORT:-26543}
SERVER=$(realpath "${SERVER:-${CARGO_TARGET_DIR:-target}/release/keelson}")
PORT=${PORT:-24990}
NODE_COUNT=100 PODS=200 KILL=1
while [ $# -gt 0 ]; do
  case $1 in
  --nodes) NODE_COUNT=$2; shift 2 ;;
  --pods) PODS=$2; shift 2 ;;
  --no-kill) KILL=; shift ;;
  *) sed -n '2,12p' "$0" | sed 's/^# \{0,1\}//'; exit 2 ;;
  esac
done
for needed in "$SHARED/peers/kube-run.sh" "$SERVER" "$PEERS/bin/kube-apiserver" "$PEERS/bin/kwok"; do
  [ -e "$needed" ] || { echo "no $needed" >&2; exit 2; }
done
DIR=$(mktemp -d "${TMPDIR:-/tmp}/keelson-kube.XXXXXX")
export RUN=$DIR/kube
CLIENT=http://127.0.0.1:$PORT
PEER=http://127.0.0.1:$((PORT + 1))
PID=
kube() { "$SHARED/peers/kube-run.sh" "$@"; }
clean_up() {
  trap '' INT TERM
  kube down >/dev/null 2>&1 || true
  [ -z "$PID" ] || { kill -9 "$PID" 2>/dev/null || true; wait "$PID" 2>/dev/null || true; }
  if [ -n "${KEEP:-}" ] || [ -s "$DIR/findings" ]; then echo "kept: $DIR" >&2; else rm -rf "$DIR"; fi
}
trap clean_up EXIT
trap 'exit 130' INT TERM

say() { echo "$(date +%H:%M:%S) $*"; }
finding() { echo "$*" >>"$DIR/findings"; }
start_server() {
  "$SERVER" --data-dir "$DIR/data" --listen-client-urls "$CLIENT" --advertise-client-urls "$CLIENT" --listen-peer-urls "$PEER" \
    --initial-advertise-peer-urls "$PEER" --initial-cluster "default=$PEER" >>"$DIR/server.log" 2>&1 &
  PID=$!
  for _ in $(seq 300); do
    "$PEERS/bin/etcdctl" --endpoints "$CLIENT" get absent >/dev/null 2>&1 && return
    kill -0 "$PID" 2>/dev/null || break
    sleep 0.1
  done
  echo "the server does not start: $(tail -5 "$DIR/server.log")" >&2
  finding "the server did not start"
  exit 1
}
# wait_for WHAT SECONDS WANTED COMMAND...: until the command prints WANTED.
wait_for() {
  local what=$1 seconds=$2 wanted=$3 got= start=$SECONDS
  shift 3
  while [ $((SECONDS - start)) -lt "$seconds" ]; do
    got=$("$@" 2>/dev/null) || got="no answer"
    if [ "$got" = "$wanted" ]; then say "$what: $got after $((SECONDS - start)) s"; return; fi
    sleep 1
  done
  finding "$what: $got instead of $wanted after $seconds s"
  say "$what: $got instead of $wanted"
}
running_pods() { kube k get pods -l app=scaled --field-selector=status.phase=Running --no-headers | wc -l; }
# kwok tries to report a pod running only once; one that the outage swallowed waits for any change of the pod.
nudged_running_pods() {
  local pod
  running_pods
  [ $((SECONDS % 10)) -eq 0 ] || return 0
  for pod in $(kube k get pods -l app=scaled --field-selector=status.phase=Pending -o name | head -20); do
    kube k annotate --overwrite "$pod" nudged="$SECONDS" >/dev/null || true
  done
}
all_pods() { kube k get pods -l app=scaled --no-headers | wc -l; }
# Sum of a metric of the apiserver over its labels; the second argument narrows the labels.
metric() { kube k get --raw /metrics | awk -v name="$1" -v labels="${2:-}" '$1 ~ "^" name "({|$)" && index($1, labels) {sum += $NF} END {print sum + 0}'; }
count_lines() { cat "$RUN"/kube-apiserver.log "$RUN"/kube-controller-manager.log "$RUN"/kube-scheduler.log "$RUN"/kwok.log 2>/dev/null | grep -cE "$1" || true; }

say "server: $SERVER"
start_server
mkdir -p "$RUN"
kube up "$CLIENT" || { finding "Kubernetes did not come up"; exit 1; }
kube smoke >"$DIR/smoke.log" 2>&1 || finding "the smoke test failed: $(tail -1 "$DIR/smoke.log")"
wait_for "smoke deployment" 60 5 kube k -n demo get deployment web -o 'jsonpath={.status.readyReplicas}' &
SMOKE=$!
kube nodes "$NODE_COUNT" >/dev/null
ready_nodes() { kube k get nodes --no-headers | grep -c ' Ready'; }
wait_for "nodes ready" 120 "$NODE_COUNT" ready_nodes
wait $SMOKE || true

INITIALISED=$(metric apiserver_watch_cache_initializations_total)
[ "$INITIALISED" -gt 0 ] || finding "the apiserver counts no watch caches: re-lists cannot be seen"
say "scaling to $PODS pods"
kube k create deployment scaled --image=none:1 --replicas="$PODS" >/dev/null
OUTAGE_FROM= OUTAGE_TO=
if [ -n "$KILL" ]; then
  for _ in $(seq 120); do
    [ "$(running_pods)" -ge $((PODS / 4)) ] && break
    sleep 0.5
  done
  OUTAGE_FROM=$(date +%H:%M:%S)
  say "kill -9 with $(running_pods) pods running"
  kill -9 "$PID"
  wait "$PID" 2>/dev/null || true
  sleep 1
  start_server
  # The apiserver's own back-off after the outage belongs to it.
  OUTAGE_TO=$(date -d '+20 seconds' +%H:%M:%S)
  say "server restarted"
fi
wait_for "pods running" 240 "$PODS" nudged_running_pods
kube k scale deployment scaled --replicas=0 >/dev/null
wait_for "pods left" 240 0 all_pods
kube k get --raw /readyz >/dev/null || finding "the apiserver is not ready at the end"
kill -0 "$PID" 2>/dev/null || finding "the server has died: $(tail -3 "$DIR/server.log")"

# Lines of klog begin with severity, date and time; those of the outage are expected. The others are not.
outside_outage() { awk -v from="$OUTAGE_FROM" -v to="$OUTAGE_TO" '{time = substr($2, 1, 8)} from == "" || time < from || time > to'; }
STORAGE='etcdserver:|etcd event|etcd-client|storage.*error|mvcc:|rpc error|watch chan error|StorageError|inconsisten|panic|DeadlineExceeded'
grep -hE '^[WEF][0-9]{4}' "$RUN/kube-apiserver.log" | grep -E "$STORAGE" | outside_outage >"$DIR/storage-errors" || true
GONE=$(count_lines 'too old resource version|required revision has been compacted|code: ?410|\(410\)|reason:"?Expired')
GONE_ANSWERS=$(metric apiserver_request_total 'code="410"')
RELISTS=$(count_lines 'unexpected ListAndWatch error|reinitializing|watch ended with error|Unhandled watch event|too old resource')
REINITIALISED=$(($(metric apiserver_watch_cache_initializations_total) - INITIALISED))
[ "$GONE" -eq 0 ] || finding "$GONE lines of a revision that is gone"
[ "$GONE_ANSWERS" -eq 0 ] || finding "$GONE_ANSWERS answers 410"
[ "$REINITIALISED" -le 0 ] || finding "$REINITIALISED watch caches of the apiserver listed again"
[ ! -s "$DIR/storage-errors" ] || finding "$(wc -l <"$DIR/storage-errors") storage errors outside the outage, the first: $(head -1 "$DIR/storage-errors" | cut -c1-300)"

cat <<SUMMARY
nodes $NODE_COUNT, pods $PODS, killed: ${KILL:-0}
storage errors outside the outage: $(wc -l <"$DIR/storage-errors")
lines of a revision gone: $GONE; answers 410: $GONE_ANSWERS
watch caches listed again: $REINITIALISED; lines of re-lists: $RELISTS
store: revision $("$PEERS/bin/etcdctl" --endpoints "$CLIENT" get absent -w json | sed -nE 's/.*"revision":([0-9]+).*/\1/p')
SUMMARY
if [ -s "$DIR/findings" ]; then
  echo "FINDINGS"
  cat "$DIR/findings"
  exit 1
fi
echo "no finding"
