#!/usr/bin/env bash
# Starts a cluster of three nodes with simulated accelerators on this machine, runs the examples,
# prints its state, stops it, and checks that nothing of it is left.
# Usage: examples/demo.sh (MOBULA_BUILD: the build directory, default: build/dev)
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
bin=${MOBULA_BUILD:-$root/build/dev}/bin
export PATH="$bin:$PATH"
work=$(mktemp -d /tmp/mobula-demo-XXXX)
export XDG_RUNTIME_DIR="$work/run"  # for sockets; also tells our processes from others
unset MOBULA_ADDRESS MOBULA_STATE_DIR MOBULA_KEY_FILE
mkdir -m 700 "$XDG_RUNTIME_DIR"
begin=$SECONDS

# Processes with our directory in their environment, except the search itself.
processes() (
  unset XDG_RUNTIME_DIR
  grep -lasF -- "$work" /proc/[0-9]*/environ 2>/dev/null | cut -d/ -f3
)

stop_all() {
  local node
  for node in c b a; do
    [[ -d $work/$node ]] && mobula stop --state-dir "$work/$node" >/dev/null || true
  done
}
give_up() {
  local code=$?
  if ((code != 0)); then
    echo "demo: failed; logs are under $work" >&2
    stop_all 2>/dev/null
    processes | xargs -r kill 2>/dev/null || true
    exit "$code"
  fi
}
trap give_up EXIT

say() { printf '\n$ %s\n' "$*"; }
# Prints a command and runs it on the first node.
at_a() { say "$@"; MOBULA_STATE_DIR="$work/a" "$@"; }
example() {
  printf '\n$ %s\n' "$1"
  MOBULA_ADDRESS="$address" MOBULA_STATE_DIR="$work/a" timeout 60 "example_$1"
}

echo "Three nodes on this machine:"
say "mobula start --head --num-cpus 2 --num-gpus 4 --accelerator-type H200 --labels zone=a"
mobula start --head --num-cpus 2 --num-gpus 4 --accelerator-type H200 --labels zone=a --state-dir "$work/a" | tee "$work/started"
join=$(grep -oE 'mobula start --address .*' "$work/started")
address=$(awk '{print $4}' <<<"$join")

say "mobula start --address $address --key … --num-cpus 2 --num-gpus 2 --accelerator-type V100 --labels zone=b"
$join --num-cpus 2 --num-gpus 2 --accelerator-type V100 --labels zone=b --state-dir "$work/b"
say "mobula start --address $address --key … --num-cpus 2 --num-gpus 0 --resources '{\"neuron_cores\": 2}'"
$join --num-cpus 2 --num-gpus 0 --resources '{"neuron_cores": 2}' --state-dir "$work/c"

for each in hello gpu_ids fractions accelerator_types matrix_products refs_and_errors actors nested placement_groups labels tensors; do
  example "$each"
done

at_a mobula status
code=0
at_a mobula explain '{"num_gpus": 8}' || code=$?
((code == 6)) || { echo "demo: explain: expected exit code 6, got $code" >&2; exit 1; }
echo "(exit code 6: can never be scheduled)"

say "mobula stop    # on each node"
stop_all

left=0
for _ in {1..50}; do
  [[ -n $(processes || true) ]] || break
  read -rt 0.1 <> <(:) || true
done
for pid in $(processes || true); do
  echo "demo: still running: $pid $(tr '\0' ' ' <"/proc/$pid/cmdline")" >&2
  left=1
done
sockets=$( (find "$work" -type s; grep -F -- "$work" /proc/net/unix) || true)
[[ -z $sockets ]] || { echo "demo: sockets left: $sockets" >&2; left=1; }
port=${address##*:}
if grep -qiE ": [0-9A-F]+:$(printf %04X "$port") [0-9A-F:]+ 0A" /proc/net/tcp /proc/net/tcp6; then
  echo "demo: port $port is still open" >&2
  left=1
fi
running=$(find "$XDG_RUNTIME_DIR" -mindepth 2 -not -type d || true)
[[ -z $running ]] || { echo "demo: files left: $running" >&2; left=1; }
((left == 0)) || exit 1
rm -rf "$work"
# Memory files and abstract sockets exist in processes alone, and no process is left.
printf '\nNothing is left: no process, socket, or memory file. %d s in total.\n' $((SECONDS - begin))
