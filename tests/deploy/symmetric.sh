#!/usr/bin/env bash
# Tests `mobula symmetric` as launchers start it: one process per rank, in network namespaces that
# share only a network and a directory, with the variables that Slurm, Hydra, or Open MPI would set.
#
# Usage: tests/deploy/symmetric.sh BUILD_DIRECTORY        exit 77: cannot be tested here, with the
# reason
set -uo pipefail

build=$(cd "${1:?usage: symmetric.sh BUILD_DIRECTORY}" && pwd)
mobula=$build/bin/mobula
example=$build/bin/example_hello
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
. "$root/tests/deploy/hosts.sh"

make_hosts 3 || exit 77
export MOBULA_SHARED_FOLDER=$work/shared
mkdir "$MOBULA_SHARED_FOLDER"

# launch NAME RANKS VARIABLES... -- WORDS: starts all ranks at the same time; "@" in a variable is
# the rank. Ranks are distributed over the hosts. $work/NAME.RANK.* has their exit codes and
# outputs.
launch() {
  local name=$1 ranks=$2 rank variables=() pids=()
  shift 2
  while [[ $1 != -- ]]; do variables+=("$1"); shift; done
  shift
  # The last rank first, because the head may start after all others.
  for ((rank = ranks - 1; rank >= 0; rank--)); do
    on $((rank % hosts + 1)) env "${variables[@]//@/$rank}" TMPDIR="$work/tmp" timeout 120 "$mobula" symmetric --num-cpus 1 "$@" \
      >"$work/$name.$rank.out" 2>"$work/$name.$rank.err" </dev/null &
    pids[rank]=$!
  done
  for ((rank = 0; rank < ranks; rank++)); do
    wait "${pids[rank]}"
    echo $? >"$work/$name.$rank.code"
  done
}
mkdir "$work/tmp"
code_is() { [[ $(<"$work/$1.$2.code") == "$3" ]] || { echo "rank $2 ended with $(<"$work/$1.$2.code"):"; cat "$work/$1.$2.err"; return 1; }; }
codes_are() { local name=$1 rank=0 code; shift; for code in "$@"; do code_is "$name" $rank "$code" || return 1; rank=$((rank + 1)); done; }
says() { grep -qF -- "$3" "$work/$1.$2.err" || { cat "$work/$1.$2.err"; return 1; }; }
# Expects that neither a process nor a file of a launch is left.
nothing_is_left() {
  local left
  left=$(find "$MOBULA_SHARED_FOLDER" "$work/tmp" -mindepth 1)
  [[ -z $left ]] || { echo "$left"; return 1; }
  left=$(for host in $(seq $hosts); do ip netns pids "$(host_name $host)"; done)
  [[ -z $left ]] || { ps -o pid,args -p $left; return 1; }
}
slurm=(SLURM_PROCID=@ SLURM_NTASKS=3 SLURM_LOCALID=0 SLURM_STEP_ID=0 "SLURM_JOB_NODELIST=n[1-3]")
nodes_program='"$0" list nodes -o json | python3 -c "import json,sys; print(sum(n[\"state\"] == \"ALIVE\" for n in json.load(sys.stdin)[\"items\"]))"'

launch three 3 SLURM_JOB_ID=11 "${slurm[@]}" -- -- bash -c "$nodes_program" "$mobula"
check "three ranks of Slurm exit with 0" codes_are three 0 0 0
check "the program sees three nodes" grep -qx 3 "$work/three.0.out"
check "ranks 1 and 2 print nothing on stdout" bash -c "! [[ -s $work/three.1.out || -s $work/three.2.out ]]"
check "nothing is left" nothing_is_left

# Two launches that cannot be distinguished.
launch first 2 PMI_RANK=@ PMI_SIZE=2 MPI_LOCALRANKID=0 -- --run same -- sh -c "echo up >'$work/up'; while ! test -e '$work/go'; do sleep 0.1; done" &
first=$!
within 60 test -e "$work/up"
launch second 2 PMI_RANK=@ PMI_SIZE=2 MPI_LOCALRANKID=0 -- --run same -- true
check "a second launch of the same name exits with 1" codes_are second 1 1
check "the error names the flag that separates launches" says second 0 "--run NAME"
touch "$work/go"
wait $first
check "the first launch exits with 0" codes_are first 0 0
check "nothing is left" nothing_is_left

launch work 3 PMI_RANK=@ PMI_SIZE=3 MPI_LOCALRANKID=0 -- -- "$example"
check "ranks of Hydra exit with 0" codes_are work 0 0 0
check "nothing is left" nothing_is_left

launch seven 3 OMPI_COMM_WORLD_RANK=@ OMPI_COMM_WORLD_SIZE=3 OMPI_COMM_WORLD_LOCAL_RANK=0 -- -- bash -c 'exit 7'
check "rank 0 of Open MPI exits with the code of the program" codes_are seven 7 0 0
launch killed 2 SLURM_JOB_ID=12 SLURM_PROCID=@ SLURM_NTASKS=2 SLURM_STEP_ID=0 -- -- bash -c 'kill -KILL $$'
check "rank 0 exits with 128 and the number of a signal" code_is killed 0 137
launch absent 2 SLURM_JOB_ID=13 SLURM_PROCID=@ SLURM_NTASKS=2 SLURM_STEP_ID=0 -- -- no-such-program
check "rank 0 exits with 127 for a missing program" code_is absent 0 127
check "the error names the missing program" says absent 0 "no-such-program"
check "nothing is left" nothing_is_left

launch flag 2 SLURM_JOB_ID=14 SLURM_PROCID=@ SLURM_NTASKS=2 SLURM_STEP_ID=0 -- --no-such-flag -- true
check "a wrong flag of a node fails all ranks" codes_are flag 2 1
check "the error names the wrong flag" says flag 0 no-such-flag
launch batch 1 SLURM_JOB_ID=15 SLURM_PROCID=0 SLURM_NTASKS=2 -- -- true
check "a batch script without srun exits with 2" code_is batch 0 2
check "the error names srun" says batch 0 srun
launch missing 2 SLURM_JOB_ID=16 SLURM_PROCID=@ SLURM_NTASKS=3 SLURM_STEP_ID=0 -- --wait 3 -- true
check "the error names the missing rank" says missing 0 "1 of 3 ranks did not join in time: 2"
check "a missing rank exits with the code of a timeout" code_is missing 0 5
check "no temporary file is left" bash -c "[[ \$(find $work/tmp -mindepth 1 | wc -l) == 0 ]]"
rm -rf "$MOBULA_SHARED_FOLDER"/.mobula-*

# Two ranks on one machine: the second one does not join.
launch pair 2 SLURM_JOB_ID=17 SLURM_PROCID=@ SLURM_LOCALID=@ SLURM_NTASKS=2 SLURM_STEP_ID=0 -- -- bash -c "$nodes_program" "$mobula"
check "one of two ranks of a machine joins" grep -qx 1 "$work/pair.0.out"

# A signal to rank 0, as scancel sends it.
(launch long 3 SLURM_JOB_ID=18 "${slurm[@]}" -- --grace 2 -- bash -c "echo \$\$ >$work/long.pid; exec sleep 100") &
launched=$!
within 60 test -s "$work/long.pid"
kill -TERM "$(ps -o ppid= -p "$(<"$work/long.pid")" | tr -d ' ')"
wait "$launched"
check "a signal to rank 0 ends the program and all ranks" codes_are long 143 0 0
check "nothing is left" within 10 nothing_is_left

# A signal to all ranks: the directory is removed when the last rank has left, not when it has
# announced that.
(launch all 3 SLURM_JOB_ID=22 "${slurm[@]}" -- --grace 3 -- bash -c "echo up >$work/all.up; exec sleep 100") &
launched=$!
within 60 test -s "$work/all.up"
running_at() { ps -o pid=,args= -p "$(ip netns pids "$(host_name "$1")" | paste -sd,)" | awk -v what="$2" '$2 != "timeout" && $3 == what {print $1; exit}'; }
slow=$(running_at 2 start)
kill -STOP "$slow"
kill -TERM "$(running_at 1 symmetric)" "$(running_at 2 symmetric)" "$(running_at 3 symmetric)"
within 20 sh -c "! test -e '$MOBULA_SHARED_FOLDER/.mobula-22.0.0'"
check "the last rank removes the directory" sh -c "! kill -0 $slow"
wait "$launched"
check "a signal to all ranks ends all" codes_are all 143 143 143
check "nothing is left" within 10 nothing_is_left

# Rank 0 is killed: the head ends with it, and the others detect it.
(launch lost 3 SLURM_JOB_ID=19 "${slurm[@]}" -- -- bash -c "echo \$\$ >$work/lost.pid; exec sleep 300") &
launched=$!
within 60 test -s "$work/lost.pid"
kill -KILL "$(ps -o ppid= -p "$(<"$work/lost.pid")" | tr -d ' ')"
wait "$launched"
check "the other ranks exit after rank 0 was killed" codes_are lost 137 3 3
check "the error names the silent rank" says lost 1 "no longer replies"
rm -rf "$MOBULA_SHARED_FOLDER"/.mobula-* "$work"/tmp/*

# Rank 0 has exited before another rank started, or while it was starting.
alone() {
  local name=$1 rank=$2; shift 2
  on $((rank + 1)) env SLURM_JOB_ID=21 SLURM_PROCID=$rank SLURM_NTASKS=2 SLURM_STEP_ID=0 TMPDIR="$work/tmp" timeout 60 "$mobula" symmetric "$@" -- true \
    >"$work/$name.$rank.out" 2>"$work/$name.$rank.err" </dev/null
  echo $? >"$work/$name.$rank.code"
}
alone late 0 --no-such-flag
alone late 1
check "a late rank exits with 1" codes_are late 2 1
check "the error has the exit code of rank 0" says late 1 "rank 0 exited with code 2 before all ranks joined"
rm -rf "$MOBULA_SHARED_FOLDER"/.mobula-*
alone coming 1 &
coming=$!
within 30 test -e "$MOBULA_SHARED_FOLDER/.mobula-21.0.0/rank-1.json"
rm -rf "$MOBULA_SHARED_FOLDER"/.mobula-*
wait $coming
check "a rank in a removed directory exits with 1" code_is coming 1 1
check "the error names the removed directory" says coming 1 "removed the directory"
rm -rf "$MOBULA_SHARED_FOLDER"/.mobula-* "$work"/tmp/*

# A directory that other users may write to receives no key.
mkdir -m 777 "$MOBULA_SHARED_FOLDER/.mobula-20.0.0"
chmod 777 "$MOBULA_SHARED_FOLDER/.mobula-20.0.0"
launch open 1 SLURM_JOB_ID=20 SLURM_PROCID=0 SLURM_NTASKS=2 SLURM_STEP_ID=0 -- --wait 3 -- true
check "a directory open to others is rejected" says open 0 "is not of user"

summary
