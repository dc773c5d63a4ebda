#!/usr/bin/env bash
# Tests a cluster whose nodes share only a network. Each node has its own network, process, mount,
# and host name namespaces and its own /tmp, has none of the build's files, and runs as a user other
# than root. Only the driver's node has the driver's program. A passing test does not depend on
# files of a shared machine.
#
# Usage: tests/isolated/nodes.sh BUILD_DIRECTORY        exit 77: cannot run here; prints the reason
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=$(cd "${1:?usage: nodes.sh BUILD_DIRECTORY}" && pwd)
user=4242
port=46379
head_address=10.77.0.1:$port

((EUID == 0)) || { echo "isolated nodes: only root can make namespaces"; exit 77; }
unshare --net --pid --mount --uts --fork true 2>/dev/null || { echo "isolated nodes: this machine does not allow namespaces"; exit 77; }
command -v ip >/dev/null || { echo "isolated nodes: no program 'ip' (package iproute2)"; exit 77; }

source "$root/tests/checks.sh"

work=$(mktemp -d /var/tmp/mobula-isolated-XXXX)
chmod 711 "$work"
outers=()          # processes that end with their node, and the reverse
declare -A holder  # node -> first process of its namespaces, as a host pid

# ---- nodes -----------------------------------------------------------------------------------------

# The first process of a node: hides shared files, reports readiness, and reaps orphans until its end.
cat >"$work/first.sh" <<'FIRST'
set -euo pipefail
name=$1 root=$2 work=$3
cd /
exec 9>"$work/$name.wait"
hostname "$name"
mount -t proc proc /proc
mount -t tmpfs tmpfs /mnt
mkdir /mnt/mobula /mnt/program
mount --bind "$work/prefix" /mnt/mobula
[[ $name != desk ]] || mount --bind "$work/program" /mnt/program
for folder in /tmp /dev/shm /run /var/lib/mobula; do
  [[ ! -d $folder ]] || mount -t tmpfs -o mode=1777 tmpfs "$folder"
done
mkdir -p -m 700 /tmp/home /tmp/run
chown 4242:4242 /tmp/home /tmp/run
mount -t tmpfs -o ro tmpfs "$root"
mount -t tmpfs -o ro tmpfs "$work"
[[ $name == switch ]] || ip link set lo up
exec python3 -c '
import os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
os.write(9, b"ready\n")
os.close(9)
while True:
    signal.sigwait({signal.SIGCHLD})
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass
'
FIRST

make_node() {
  local name=$1 line outer
  mkfifo "$work/$name.wait"
  unshare --net --pid --mount --uts --fork --kill-child=KILL --propagation private \
    bash "$work/first.sh" "$name" "$root" "$work" </dev/null >"$work/$name.log" 2>&1 &
  outer=$!
  outers+=("$outer")
  if ! read -r -t 20 line <"$work/$name.wait" || [[ $line != ready ]]; then
    cat "$work/$name.log" >&2
    echo "isolated nodes: cannot make node $name" >&2
    exit 1
  fi
  holder[$name]=$(pgrep -P "$outer")
}

# connect NODE NUMBER: connects the node to the switch as 10.77.0.NUMBER.
connect() {
  ip link add "port-$1" netns "${holder[switch]}" type veth peer name eth0 netns "${holder[$1]}"
  inside switch ip link set "port-$1" master bridge0 up
  inside "$1" ip address add "10.77.0.$2/24" dev eth0
  inside "$1" ip link set eth0 up
}

inside() { nsenter --target "${holder[$1]}" --net --pid --mount --uts -- "${@:2}"; }

# Runs a command on a node as its user, without this shell's environment.
at() {
  inside "$1" setpriv --reuid $user --regid $user --clear-groups --no-new-privs \
    env -i PATH=/mnt/mobula/bin:/usr/bin:/bin HOME=/tmp/home XDG_RUNTIME_DIR=/tmp/run \
    MOBULA_STATE_DIR=/tmp/home/state LD_LIBRARY_PATH=/mnt/mobula/lib \
    bash -c 'cd /tmp/home && exec "$@"' bash "${@:2}" </dev/null
}

# Runs a program on the desk, the only node that has it, with the cluster's address and key.
program() {
  at desk env MOBULA_ADDRESS=$head_address MOBULA_KEY_FILE=/tmp/home/cluster.key timeout 60 "/mnt/program/$1"
}

end_all() {
  local code=$? name pid
  [[ $code == 0 && $failed == no ]] || {
    echo "isolated nodes: failed; the nodes' logs:"
    for name in "${!holder[@]}"; do
      [[ $name != switch ]] || continue
      inside "$name" bash -c 'tail -n 30 $(find /tmp/home -name "*.log" -size +0 2>/dev/null) /dev/null' 2>/dev/null |
        sed "s/^/    $name: /" || true
    done
  }
  for pid in "${holder[@]}" "${outers[@]}"; do kill -KILL "$pid" 2>/dev/null || true; done
  wait 2>/dev/null
  rm -rf "$work"
}
trap end_all EXIT

# ---- checks ----------------------------------------------------------------------------------------

# nodes_are STATE COUNT: succeeds if COUNT nodes with resources are in that state, as seen from the
# desk.
nodes_are() {
  at desk mobula list nodes -o json --address $head_address --key /tmp/home/cluster.key 2>/dev/null |
    python3 -c '
import json, sys
nodes = [n for n in json.load(sys.stdin)["items"] if n["resources"].get("CPU", {}).get("total", 0) > 0]
sys.exit(0 if sum(n["state"] == sys.argv[1] for n in nodes) == int(sys.argv[2]) else 1)' "$1" "$2"
}

# Processes of a node, except its first process and this ps.
processes_of() { inside "$1" ps -e -o pid=,user=,args= | awk '$1 != 1 && $3 != "ps"'; }
nothing_runs_at() {
  local left
  left=$(processes_of "$1")
  [[ -z $left ]] || { echo "$left"; return 1; }
}
# ends_with CODE COMMAND: expects the exit code.
ends_with() {
  local expected=$1 code=0
  shift
  "$@" || code=$?
  ((code == expected)) || { echo "ended with $code, and $expected was expected"; return 1; }
}

# ---- scenario ------------------------------------------------------------------------------------

cmake --install "$build" --prefix "$work/prefix" >/dev/null
mkdir "$work/program"
cp "$build"/bin/example_* "$work/program/"
chmod -R a+rX "$work/prefix" "$work/program"

make_node switch
inside switch ip link add bridge0 type bridge
inside switch ip link set bridge0 up
number=1
for name in alpha beta gamma desk stranger; do
  make_node $name
  connect $name $number
  number=$((number + 1))
done

check "a node sees none of the build" ends_with 1 inside beta test -e "$build/bin/mobula"
check "head at alpha" at alpha mobula start --head --bind 10.77.0.1 --port $port --num-cpus 2 --num-gpus 2 --accelerator-type H200
key=$(inside alpha find /tmp/home/state -name '*.key' | head -n 1)
for name in beta gamma desk; do
  inside alpha cat "$key" | inside $name bash -c "umask 077; cat >/tmp/home/cluster.key; chown $user:$user /tmp/home/cluster.key"
done
check "beta joins by address and key" at beta mobula start --address $head_address --key /tmp/home/cluster.key --num-cpus 2
check "gamma joins" at gamma mobula start --address $head_address --key /tmp/home/cluster.key --num-cpus 2 --num-gpus 2 --accelerator-type V100
check "three nodes are alive" within 10 nodes_are ALIVE 3
check "status without a key exits with 4" ends_with 4 at stranger timeout 30 mobula status --address $head_address

for each in hello matrix_products refs_and_errors actors nested gpu_ids fractions; do
  check "example_$each from a machine without an agent" program example_$each
done

inside switch ip link set port-beta down
check "a node without network is reported as dead" within 25 nodes_are ALIVE 2
check "a program runs on the remaining nodes" program example_hello
inside switch ip link set port-beta up
check "the node rejoins as a new incarnation" within 40 nodes_are ALIVE 3
check "a program runs on the node again" program example_matrix_products

agent=$(processes_of gamma | awk '/mobula/ {print $1}' | while read -r pid; do
  [[ $(inside gamma cat "/proc/$pid/comm") != mobula-agent ]] || echo "$pid"
done)
inside gamma kill -KILL $agent
check "a killed agent leaves no process behind" within 15 nothing_runs_at gamma
check "the node of the killed agent is reported as dead" within 15 nodes_are ALIVE 2
check "a program runs on the other two" program example_hello

for name in beta alpha; do check "stop at $name" at $name mobula stop; done
for name in alpha beta gamma desk stranger; do
  check "nothing runs at $name" within 10 nothing_runs_at $name
  check "no socket is left at $name" ends_with 1 bash -c "inside() { nsenter --target ${holder[$name]} --mount -- \"\$@\"; }; inside find /tmp -type s | grep ."
done

echo "isolated nodes: $checks checks"
[[ $failed == no ]]
