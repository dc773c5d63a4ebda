#!/usr/bin/env bash
# Tests `mobula up`, `down`, `status`, and `exec` with real ssh servers. Three hosts are network
# namespaces with private home, state, and temporary directories and no files of the build. The
# operator's machine ("desk") has the program. Needs root and the packages openssh-server and
# openssh-client.
#
# Usage: tests/deploy/ssh.sh BUILD_DIRECTORY        exit 77: cannot be tested here, with the reason
set -uo pipefail

build=$(cd "${1:?usage: ssh.sh BUILD_DIRECTORY}" && pwd)
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
. "$root/tests/deploy/hosts.sh"
for each in ssh ssh-keygen /usr/sbin/sshd; do
  command -v $each >/dev/null || { echo "ssh: no program $each (packages openssh-server, openssh-client)"; exit 77; }
done
make_hosts 4 || exit 77

for each in host id stranger; do ssh-keygen -q -t ed25519 -N '' -f "$work/$each"; done
cp "$work/id.pub" "$work/authorized_keys"
mkdir -p /run/sshd "$work/desk"
mkdir "$work/home"
# A host shares the system programs of this machine, and no writable directory.
for host in 1 2 3; do
  on $host unshare --mount --propagation private bash -c '
    home=$(getent passwd root | cut -d : -f 6)
    for folder in "$home" /tmp "$1"; do
      [[ ! -d $folder ]] || mount -t tmpfs -o mode=755 tmpfs "$folder"
    done
    exec /usr/sbin/sshd -D -f /dev/null -h "$2/host" -o AuthorizedKeysFile="$2/authorized_keys" -o UsePAM=no -o StrictModes=no \
      -o PasswordAuthentication=no -o PermitRootLogin=prohibit-password -o PidFile=none' bash "$build" "$work" \
    >"$work/sshd-$host.log" 2>&1 &
  daemons+=($!)
  echo "$(host_address $host) $(cut -d ' ' -f 1-2 "$work/host.pub")" >>"$work/known_hosts"
done
listens() { on desk bash -c "exec 3<>/dev/tcp/$(host_address "$1")/22" 2>/dev/null; }
for host in 1 2 3; do within 20 listens $host || { cat "$work/sshd-$host.log"; exit 1; }; done

# desk WORDS...: runs the program as the operator does.
desk() { on desk env -u SSH_AUTH_SOCK HOME="$work/home" timeout 300 "$build/bin/mobula" "$@" </dev/null; }
inventory() {
  cat <<YAML
cluster_name: blue
auth:
  ssh_user: root
  ssh_private_key: id
  ssh_known_hosts: known_hosts
state_dir: state
connect_timeout_seconds: 3
grace_seconds: 5
defaults: {num_cpus: 2}
head:
  host: 10.78.0.1
  port: 46391
YAML
}
{ inventory; printf 'workers:\n  - 10.78.0.2\n  - {host: 10.78.0.3, num_cpus: 3, labels: {zone: a}, resources: {shuttle: 2}}\n'; } >"$work/blue.yaml"
blue=$work/blue.yaml

now_ms() { date +%s%3N; }
code_is() { local expected=$1 code=0; shift; "$@" || code=$?; ((code == expected)) || { echo "ended with $code, and $expected was expected"; return 1; }; }
# results FILE RESULT...: expects the results of all machines, in order.
results() {
  python3 -c '
import json, sys
got = [each["result"] for each in json.load(open(sys.argv[1]))["items"]]
sys.exit(0 if got == sys.argv[2:] else f"{got}: " + str([each["detail"] for each in json.load(open(sys.argv[1]))["items"]]))' "$@"
}
into() { local file=$work/$1.json; shift; "$@" >"$file" 2>"$file.err"; local code=$?; cat "$file.err"; return $code; }
cpus_are() {
  desk exec "$blue" -- mobula list nodes -o json | python3 -c '
import json, sys
nodes = [n for n in json.load(sys.stdin)["items"] if n["state"] == "ALIVE"]
got = sorted(int(n["resources"]["CPU"]["total"]) for n in nodes)
sys.exit(0 if got == [int(a) for a in sys.argv[1:]] else str(got))' "$@"
}
at_host() { on desk ssh -F none -i "$work/id" -o UserKnownHostsFile="$work/known_hosts" -o BatchMode=yes "root@$(host_address "$1")" "$2"; }

check "up --dry-run succeeds" into dry desk up "$blue" --dry-run -o json
check "--dry-run lists a start on each of three hosts" results "$work/dry.json" "would start" "would start" "would start"
check "--dry-run changes no host" code_is 1 at_host 2 'ls -A ~ | grep -E "mobula|state"'
begin=$(now_ms)
check "up starts three hosts without the program" into up desk up "$blue" -o json
echo "      within $(($(now_ms) - begin)) ms, the program copied"
check "up reports each host as started" results "$work/up.json" started started started
check "each host has its CPUs of the cluster file" cpus_are 2 2 3
begin=$(now_ms)
check "a second up succeeds" into again desk up "$blue" -o json
echo "      within $(($(now_ms) - begin)) ms"
[[ $failed == no ]] || { echo "the rest needs these"; exit 1; }
check "a second up changes no host" results "$work/again.json" unchanged unchanged unchanged
check "status succeeds" into status desk status "$blue" -o json
check "status reports all hosts as running" results "$work/status.json" runs runs runs
modes() { at_host "$1" 'find ~/.mobula ~/state -name "*.key" -printf "%m\n" | sort -u'; }
for host in 1 2 3; do check "keys of host $host are 600" [ "$(modes $host)" = 600 ]; done
check "no key is left at its upload path" code_is 1 at_host 2 'find ~/.mobula -name ".key*" | grep .'
check "no secret key is on the machine of the operator" code_is 1 grep -rl secret_key "$work/desk" "$work/home"
check "exec returns the exit code of the command" code_is 7 desk exec "$blue" -- sh -c 'exit 7'
check "exec passes arguments unchanged" [ "$(desk exec "$blue" -- printf '<%s>' 'a b' "c'd" '$HOME' '*')" = "<a b><c'd><\$HOME><*>" ]
check "exec --host runs on the named host" [ "$(desk exec --host 10.78.0.3 "$blue" -- sh -c 'ip -o -4 address show dev eth0' | grep -o '10\.78\.0\.[0-9]*/')" = 10.78.0.3/ ]
check "attach opens a shell with the program" bash -c "echo 'mobula version; exit 3' | ip netns exec $(host_name desk) env HOME=$work/home timeout 60 $build/bin/mobula attach $blue 2>/dev/null | grep -q 'mobula 0'"

# Dead parts next to living ones, and a head that moves.
check "the agent on the head's host is killed" at_host 1 'kill -9 $(sed -n "s/.*\"pid\": *\([0-9]*\).*/\1/p" ~/state/blue/agent/agent.json)'
sees_it() { into broken desk status "$blue" -o json; results "$work/broken.json" broken runs runs; }
check "status reports the killed agent" within 10 sees_it
check "status exits with 1" code_is 1 into broken desk status "$blue" -o json
check "up repairs the cluster" into mended desk up "$blue" -o json
check "up replaces the killed agent only" results "$work/mended.json" replaced unchanged unchanged
sed -i 's/port: 46391/port: 46392/' "$blue"
check "--dry-run accepts another port of the head" into moved-dry desk up "$blue" --dry-run -o json
check "--dry-run lists a replacement of each host" results "$work/moved-dry.json" "would replace" "would replace" "would replace"
check "up accepts another port of the head" into moved desk up "$blue" -o json
check "up replaces each host" results "$work/moved.json" replaced replaced replaced
check "all nodes join the new port" within 30 cpus_are 2 2 3
sed 's/num_cpus: 2}/num_cpus: 2, flags: ["--no-such-flag"]}/' "$blue" >"$work/unknown-flag.yaml"
check "--dry-run rejects unknown flags" code_is 1 into unknown-flag desk up "$work/unknown-flag.yaml" --dry-run -o json

begin=$(now_ms)
check "down succeeds" into down desk down "$blue" -o json
echo "      within $(($(now_ms) - begin)) ms"
check "down reports each host as stopped" results "$work/down.json" stopped stopped stopped
check "a second down succeeds" into down2 desk down "$blue" -o json
check "a second down reports each host as down" results "$work/down2.json" down down down
check "status exits with 1 if all hosts are down" code_is 1 into status-down desk status "$blue" -o json
sed -i 's/port: 46392/port: 46391/' "$blue"
begin=$(now_ms)
check "up starts hosts that have the program" into third desk up "$blue" -o json
took=$(($(now_ms) - begin))
echo "      within $took ms"
check "up reports each host as started again" results "$work/third.json" started started started

# Another operator on another machine, with a separate runtime directory, at the same time.
at_host 1 'exec 9>>~/state/blue/.changed-by; flock 9; echo ada@elsewhere since noon >~/state/blue/.changed-by; echo $$ >~/.holder; exec sleep 600' </dev/null &
holder=$!
is_held() { at_host 1 'grep -q ada ~/state/blue/.changed-by'; }
check "the lock of another machine is held" within 10 is_held
check "up exits with 1 under the lock" code_is 1 into held desk up "$blue"
check "up names the holder of the lock" grep -q 'ada@elsewhere since noon' "$work/held.json.err"
check "--dry-run needs no lock" desk up "$blue" --dry-run
at_host 1 'kill $(cat ~/.holder)'
wait $holder 2>/dev/null
check "up succeeds after the lock is released" within 10 desk up "$blue"

# Settings of one node change.
sed -i 's/num_cpus: 3/num_cpus: 1/' "$blue"
check "up accepts a changed setting" into change desk up "$blue" -o json
check "up replaces the changed node only" results "$work/change.json" unchanged unchanged replaced
check "the changed node has the new setting" within 20 cpus_are 1 2 2

# Another program: a release whose bytes differ.
mkdir -p "$work/next/bin" "$work/next/lib"
cp "$build/bin/mobula" "$work/next/bin/"
cp "$build/lib/libmobula.so.0" "$work/next/lib/"
printf '\0' >>"$work/next/bin/mobula"
check "up of the next release succeeds" into upgrade on desk env HOME="$work/home" timeout 300 "$work/next/bin/mobula" up "$blue" -o json
check "up of the next release replaces each host" results "$work/upgrade.json" replaced replaced replaced
check "all nodes join the new release" within 30 cpus_are 1 2 2
programs() { at_host 2 'ls ~/.mobula/programs | wc -l'; }
check "the next up succeeds" desk up "$blue"
check "the next up removes unused programs" bash -c "(( $(programs) <= 2 ))"

# Failures, each on one machine.
{ inventory; printf 'workers: ["10.78.0.[2-4]"]\n'; } >"$work/one-absent.yaml"
check "up exits with 3 if a host is unreachable" code_is 3 into absent desk up "$work/one-absent.yaml" -o json
check "up names the unreachable host and starts the others" bash -c "$(declare -f results); results $work/absent.json unchanged replaced replaced unreachable || results $work/absent.json unchanged unchanged replaced unreachable"
check "the report has ssh's reason" grep -q '10.78.0.4' "$work/absent.json"
sed 's/ssh_private_key: id/ssh_private_key: stranger/' "$blue" >"$work/stranger.yaml"
check "up exits with 4 if hosts reject the ssh key" code_is 4 into stranger desk up "$work/stranger.yaml" -o json
check "up reports each host as refused" results "$work/stranger.json" refused refused refused
check "the report has the error of ssh" grep -q 'Permission denied (publickey' "$work/stranger.json"
check "the report names the setting to check" grep -q 'ssh_private_key of the cluster file right' "$work/stranger.json"
: >"$work/unknown_hosts"
sed 's/ssh_known_hosts: known_hosts/ssh_known_hosts: unknown_hosts/' "$blue" >"$work/unknown.yaml"
check "status exits with 4 for an unknown host key" code_is 4 into unknown desk status "$work/unknown.yaml" -o json
check "accept_new_hosts is set" bash -c "sed -i 's/^auth:/auth:\n  accept_new_hosts: true/' $work/unknown.yaml"
check "status accepts unknown host keys then" into unknown2 desk status "$work/unknown.yaml" -o json
sed 's/num_cpus: 2/num_cpus: many/' "$blue" >"$work/wrong.yaml"
check "up exits with 2 for a wrong value" code_is 2 into wrong desk up "$work/wrong.yaml"
check "the error names file, line, and key" grep -q "wrong.yaml:9: defaults.num_cpus: 'many'" "$work/wrong.json.err"
sed -i 's/num_cpus: 2}/num_cpus: 2, flags: ["--no-such-flag"]}/' "$blue"
check "up exits with 1 if mobula start rejects a flag" code_is 1 into refused desk up "$blue" -o json
check "the report has the error of mobula start" grep -q 'no-such-flag' "$work/refused.json"
check "status succeeds after the failed up" into alone desk status "$blue" -o json
check "up reports each host as refused" results "$work/alone.json" runs runs runs
check "down succeeds at the end" desk down "$blue"

summary
