#!/usr/bin/env bash
# Two nodes lose contact while the head reaches both: reports, reasons, and the end of the calls of an actor.
#
# Usage: tests/deploy/links.sh BUILD_DIRECTORY        exit 77: namespaces are not available
set -uo pipefail

build=$(cd "${1:?usage: links.sh BUILD_DIRECTORY}" && pwd)
mobula=$build/bin/mobula
driver=$(find "$build/tests/e2e" "$build/bin" -name e2e_driver -type f | head -n 1)
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
. "$root/tests/deploy/hosts.sh"

[[ -n $driver ]] || { echo "links: e2e_driver is not built"; exit 77; }
make_hosts 4 || exit 77
unset "${!MOBULA_@}"
mkfifo "$work/pipe"

# at HOST WORDS...: with a state directory and a runtime directory of this host.
at() {
  local host=$1
  shift
  mkdir -p "$work/$host/run" "$work/$host/tmp"
  chmod 700 "$work/$host/run"
  on "$host" env MOBULA_STATE_DIR="$work/$host/state" XDG_RUNTIME_DIR="$work/$host/run" TMPDIR="$work/$host/tmp" "$@"
}
address() { python3 -c 'import json,sys; print(json.load(open(sys.argv[1]))["address"])' "$work/1/state/default/head/head.json"; }
join() { at "$1" "$mobula" start --address "$(address)" --key "$work/1/state/default/default.key" --num-cpus "$2"; }
nodes_alive() { (($(at 1 "$mobula" list nodes --filter state=ALIVE -o name | wc -l) == $1)); }
printed() { grep -q "^$1 " "$work/driver.out"; }
node_of() { sed -n "s/^$1 //p" "$work/driver.out"; }
# The host of a node, by the address that the head lists.
host_of() {
  at 1 "$mobula" list nodes -o json | python3 -c '
import json, sys
for node in json.load(sys.stdin)["items"]:
    if node["node_id"] == sys.argv[1]:
        print(node["address"].split(":")[0].split(".")[-1])' "$1"
}
events() { at 1 "$mobula" events --kind "$1" -o json | grep -q "\"$1\""; }
warns() { at 1 "$mobula" status -o json | grep -q "no contact with node"; }
warns_no_more() { ! warns; }

check "the head starts" at 1 "$mobula" start --head --no-worker --bind 10.78.0.1
check "host 2 joins without CPUs" join 2 0
check "host 3 joins" join 3 1
check "host 4 joins" join 4 1
check "three nodes are there" within 30 nodes_alive 3

at 2 env MOBULA_UNREACHABLE_S=2 "$driver" calls_over_a_link "$work/pipe" >"$work/driver.out" 2>"$work/driver.err" &
driving=$!
check "the actor is alive" within 60 printed before
first=$(host_of "$(node_of before)")
check "the actor is on host 3 or 4" test "${first:-0}" -ge 3
on 2 ip route add blackhole "$(host_address "$first")/32"
on "$first" ip route add blackhole "$(host_address 2)/32"
echo go >"$work/pipe"
check "the call runs on another node" within 120 printed after
wait "$driving"
check "the driver ends well" test $? -eq 0
check "the head notes the link" events LINK_LOST
check "the agents report the link" within 30 warns
on 2 ip route del blackhole "$(host_address "$first")/32"
on "$first" ip route del blackhole "$(host_address 2)/32"
check "the warning ends with the cut" within 30 warns_no_more
check "the head notes that contact returned" events LINK_RESTORED
[[ $failed == no ]] || tail -n 20 "$work/driver.out" "$work/driver.err"
for host in 4 3 2 1; do at "$host" "$mobula" stop --grace 0 >/dev/null 2>&1; done
summary
