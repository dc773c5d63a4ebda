#!/usr/bin/env bash
# Tests the templates of deploy/slurm with a real Slurm of three nodes on this machine. Takes
# minutes. Needs root and the packages slurmctld, slurmd, slurm-client, and munge.
#
# Usage: tests/deploy/slurm.sh BUILD_DIRECTORY        exit 77: cannot be tested here, with the reason
set -uo pipefail

build=$(cd "${1:?usage: slurm.sh BUILD_DIRECTORY}" && pwd)
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
. "$root/tests/deploy/hosts.sh"
((EUID == 0)) || { echo "slurm: only root can run Slurm's daemons"; exit 77; }
# The daemons have fixed ports, so they run in a separate network namespace.
if [[ ${2:-} != within ]]; then
  unshare --net true 2>/dev/null || { echo "slurm: this machine does not allow network namespaces"; exit 77; }
  rm -rf "$work"
  exec unshare --net "$0" "$build" within
fi
ip link set lo up
# Without an address beyond loopback, the resolver finds no wildcard address.
ip link add slurm0 type veth peer name slurm1
ip address add 10.78.1.1/24 dev slurm0
ip link set slurm0 up
ip link set slurm1 up
for each in munged slurmctld slurmd sbatch; do
  command -v $each >/dev/null || { echo "slurm: no program $each (packages slurmctld, slurmd, slurm-client, munge)"; exit 77; }
done

for each in mobula example_hello steady_tasks; do
  [[ -x $build/bin/$each ]] || { echo "slurm: $build has no bin/$each: build it first"; exit 77; }
done

export MOBULA=$build/bin/mobula
here=$(hostname -s)
mkdir "$work"/{state,spool,log,job,munge,tmp}
export TMPDIR=$work/tmp  # jobs inherit it
cat >"$work/slurm.conf" <<CONF
ClusterName=mobula
SlurmctldHost=$here(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$work/munge/socket
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool/%n
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd-%n.pid
SlurmctldLogFile=$work/log/slurmctld.log
SlurmdLogFile=$work/log/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
MailProg=/bin/true
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=batch_sched_delay=0,sched_min_interval=100000
SlurmdParameters=config_overrides
ReturnToService=2
SlurmctldPort=26817
NodeName=n[1-3] NodeHostname=$here NodeAddr=127.0.0.1 Port=[27001-27003] CPUs=4 RealMemory=2000
PartitionName=debug Nodes=n[1-3] Default=YES MaxTime=INFINITE State=UP
CONF
export SLURM_CONF=$work/slurm.conf
head -c 1024 /dev/urandom >"$work/munge/key"
chmod 400 "$work/munge/key"
chown -R munge: "$work/munge"
chmod 755 "$work/munge"
su -s /bin/sh munge -c "/usr/sbin/munged --key-file=$work/munge/key --socket=$work/munge/socket --pid-file=$work/munge/pid --log-file=$work/munge/log --seed-file=$work/munge/seed" || exit 1
daemons+=("$(<"$work/munge/pid")")
pid_of() { within 20 test -s "$1" && daemons=("$(<"$1")" "${daemons[@]}"); }
slurmctld -f "$SLURM_CONF"
pid_of "$work/slurmctld.pid"
for node in n1 n2 n3; do
  slurmd -N $node -f "$SLURM_CONF"
  pid_of "$work/slurmd-$node.pid"
done
idle() { [[ $(sinfo -h -o '%D %t' 2>/dev/null) == "3 idle" ]]; }
within 60 idle || { tail -n 20 "$work"/log/*; exit 1; }
cd "$work/job"

now_ms() { date +%s%3N; }
counts='date +%s%3N; "$0" list nodes -o json | python3 -c "
import json, sys
nodes = json.load(sys.stdin)[\"items\"]
print(sum(n[\"state\"] == \"ALIVE\" for n in nodes), int(sum(n[\"resources\"][\"CPU\"][\"total\"] for n in nodes)))"'
code_is() { local expected=$1 code=0; shift; "$@" || code=$?; ((code == expected)) || { echo "ended with $code, and $expected was expected"; cat slurm-*.out; return 1; }; }
batch() { sbatch --quiet --wait --output "$work/job/$1.out" "${@:2}"; }
nothing_is_left() {
  local left
  left=$(ls -A "$work/job" | grep '^\.mobula'
    for pid in $(pgrep -f "^$MOBULA|/proc/self/exe start"); do
      # Only processes of this Slurm, because others may run the same program.
      grep -qsF "$work" "/proc/$pid/environ" && ps -o pid=,args= -p "$pid"
    done)
  [[ -z $left ]] && return
  echo "$left"
  # Shows the notes of the ranks, and whether the key still exists.
  (cd "$work/job" && ls .mobula*/ && tail -n 1 .mobula*/*.json) 2>/dev/null
  return 1
}

begin=$(now_ms)
check "symmetric.sbatch starts three nodes" batch three --nodes 3 "$root/deploy/slurm/symmetric.sbatch" bash -c "$counts" "$MOBULA"
check "three nodes have the processors of Slurm" grep -qx "3 12" three.out
first=$(($(head -n 1 three.out) - begin))
echo "      the program began $first ms after sbatch was called, and its job had ended after $(($(now_ms) - begin)) ms"
check "nothing is left" within 20 nothing_is_left
check "symmetric.sbatch runs a program with tasks" batch tasks --nodes 3 "$root/deploy/slurm/symmetric.sbatch" "$build/bin/example_hello"
check "the job has the exit code of the program" code_is 5 batch five --nodes 2 "$root/deploy/slurm/symmetric.sbatch" bash -c 'exit 5'
check "gpus.sbatch runs without GPUs" batch gpus --nodes 2 --cpus-per-task 2 --gpus-per-node 0 "$root/deploy/slurm/gpus.sbatch" bash -c "$counts" "$MOBULA"
check "gpus.sbatch has the processors of its tasks" grep -qx "2 4" gpus.out

job=$(sbatch --parsable --nodes 3 --output "$work/job/long.out" "$root/deploy/slurm/symmetric.sbatch" bash -c 'echo began; exec sleep 1000')
check "a long job starts" within 30 grep -q began long.out
scancel "$job"
check "scancel leaves no process" within 60 nothing_is_left

# Nodes for a head on another machine.
check "a head starts on the login node" "$MOBULA" start --head --no-worker --state-dir "$work/head" --name login
address=$("$MOBULA" status --state-dir "$work/head" -o json | python3 -c 'import json, sys; print(json.load(sys.stdin)["address"])' 2>/dev/null ||
  python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["address"])' "$work/head/login/head/head.json")
job=$(sbatch --parsable --nodes 3 --output "$work/job/joined.out" "$root/deploy/slurm/joined.sbatch" "$address" "$work/head/login/login.key")
nodes_are() {
  "$MOBULA" list nodes -o json --state-dir "$work/head" | python3 -c '
import json, sys
sys.exit(sum(n["state"] == "ALIVE" and n["resources"].get("CPU", {}).get("total", 0) > 0 for n in json.load(sys.stdin)["items"]) != int(sys.argv[1]))' "$1"
}
check "joined.sbatch adds three nodes" within 30 nodes_are 3
scancel "$job"
check "the nodes leave with the job" within 60 nodes_are 0

directories_are() { (($(find "$TMPDIR" -maxdepth 1 -name 'mobula-node-*' | wc -l) == $1)); }
joined() { sbatch --parsable --nodes 1 --output "$work/job/$1.out" "$root/deploy/slurm/joined.sbatch" "$address" "$work/head/login/login.key"; }
job=$(joined killed)
check "a node joins" within 30 nodes_are 1
agent=$(pgrep -of "^$MOBULA start .*--state-dir $TMPDIR/mobula-node")
kill -KILL "$(ps -o ppid= -p "$agent" | tr -d ' ')" "$agent"
check "the head removes a killed node" within 60 nodes_are 0
check "its directory is left" directories_are 1
check "its processes end" within 20 flock --nonblock "$TMPDIR"/mobula-node-* true
job=$(joined next)
check "another node joins" within 30 nodes_are 1
check "it has removed the directory of the killed node" directories_are 1
scancel "$job"
check "it leaves" within 60 nodes_are 0
"$MOBULA" stop --state-dir "$work/head" --grace 0 >/dev/null
check "nothing is left" within 20 nothing_is_left

# Instances of an autoscaler. The last test waits for the time limit of a job.
check "the calls of the provider pass" python3 "$root/tests/deploy/provider/slurm_calls.py" "$MOBULA" "$root/deploy/slurm/joined.sbatch" "$build/bin/steady_tasks" "$work"
check "nothing is left" within 20 nothing_is_left

summary
