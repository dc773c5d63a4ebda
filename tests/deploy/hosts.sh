# Hosts for scripts that test launches on several machines: network namespaces on one bridge, with
# addresses 10.78.0.1, 10.78.0.2, …, which share all files. Source this file.

source "$(dirname "${BASH_SOURCE[0]}")/../checks.sh"

work=$(mktemp -d /var/tmp/mobula-deploy-XXXX)
chmod 711 "$work"
hosts=0
daemons=()  # ended with the script

host_name() { echo "mob$$-$1"; }
host_address() { echo "10.78.0.$1"; }
on() { local host=$1; shift; ip netns exec "$(host_name "$host")" "$@"; }

# Creates the given number of hosts; fails with the reason if that is not possible.
make_hosts() {
  ((EUID == 0)) || { echo "deploy: only root can make network namespaces"; return 1; }
  command -v ip >/dev/null || { echo "deploy: no program 'ip' (package iproute2)"; return 1; }
  # The bridge has a separate namespace, so that nothing on this machine changes.
  ip netns add "$(host_name switch)" 2>/dev/null || { echo "deploy: this machine does not allow network namespaces"; return 1; }
  hosts=$1
  on switch ip link add bridge0 type bridge
  on switch ip link set bridge0 up
  local host
  for host in $(seq "$1") desk; do
    ip netns add "$(host_name "$host")"
    on switch ip link add "port-$host" type veth peer name eth0 netns "$(host_name "$host")"
    on switch ip link set "port-$host" master bridge0 up
    on "$host" ip address add "10.78.0.${host/desk/200}/24" dev eth0
    on "$host" ip link set lo up
    on "$host" ip link set eth0 up
  done
}

end_hosts() {
  local host pid
  for pid in "${daemons[@]}"; do kill "$pid" 2>/dev/null; done
  # A daemon may still write its state.
  for pid in "${daemons[@]}"; do within 20 bash -c "! kill -0 $pid 2>/dev/null" >/dev/null; done
  for host in $(seq $hosts) desk switch; do
    for pid in $(ip netns pids "$(host_name "$host")" 2>/dev/null); do kill -KILL "$pid" 2>/dev/null; done
    ip netns delete "$(host_name "$host")" 2>/dev/null
  done
  rm -rf "$work"
}
trap end_hosts EXIT

# Called at the end of a script.
summary() {
  echo "$checks checks"
  [[ $failed == no ]]
}
