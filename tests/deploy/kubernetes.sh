#!/usr/bin/env bash
# Tests the manifests of deploy/kubernetes: renders them and validates them against the schemas of
# Kubernetes. If podman is present, it also runs their pods. The test covers a head and two agents
# in one network, a job on one agent, probes, SIGTERM, and a restarted head.
# Needs kubectl (or kustomize), python3 with yaml, and kubernetes-validate (installed, or from
# PyPI). The pods need root, podman, and runc.
#
# Usage: tests/deploy/kubernetes.sh BUILD_DIRECTORY        exit 77: cannot be tested here, with the
# reason
set -uo pipefail

[[ ${2:-} != within ]] || within=yes
build=$(cd "${1:?usage: kubernetes.sh BUILD_DIRECTORY}" && pwd)
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
if [[ ${2:-} != within && $EUID == 0 ]] && command -v podman >/dev/null; then
  exec 9</proc/self/ns/net
  exec unshare --net --mount --propagation private "$0" "$1" within
fi
. "$root/tests/deploy/hosts.sh"
trap 'end_pods; rm -rf --one-file-system "$work"' EXIT
end_pods() { :; }
not() { ! "$@"; }
# Removes the network that an earlier run of this script left.
online() { if [[ ${within:-} ]]; then nsenter --net=/proc/self/fd/9 "$@"; else "$@"; fi; }

# ---- rendered manifests --------------------------------------------------------------------------
render() { if command -v kubectl >/dev/null; then kubectl kustomize "$1"; else kustomize build "$1"; fi; }
command -v kubectl >/dev/null || command -v kustomize >/dev/null || { echo "kubernetes: no kubectl and no kustomize"; exit 77; }
validate=$(command -v kubernetes-validate) || {
  python3 -m venv "$work/venv" >"$work/pip.log" 2>&1 &&
    online "$work/venv/bin/pip" install -q kubernetes-validate==1.34.1 setuptools >>"$work/pip.log" 2>&1 ||
    { echo "kubernetes: kubernetes-validate cannot be installed: $(tail -n 1 "$work/pip.log")"; exit 77; }
  validate=$work/venv/bin/kubernetes-validate
}
valid() { "$validate" --strict --quiet --kubernetes-version "$1" "$2" >"$work/valid.log" 2>&1 || { cat "$work/valid.log"; return 1; }; }
render "$root/deploy/kubernetes" >"$work/all.yaml" || { echo "the manifests cannot be rendered"; exit 1; }
for version in 1.25 1.29 1.34; do check "all manifests are valid in Kubernetes $version" valid $version "$work/all.yaml"; done
sed 's/terminationGracePeriodSeconds/terminationGraceSeconds/' "$work/all.yaml" >"$work/spoiled.yaml"
check "an unknown member is invalid" not valid 1.34 "$work/spoiled.yaml"
sed 's/replicas: 2/replicas: two/' "$work/all.yaml" >"$work/spoiled.yaml"
check "a value of another type is invalid" not valid 1.34 "$work/spoiled.yaml"
check "the pods of the provider are valid" env KUBERNETES_VALIDATE="$validate" \
  python3 "$root/tests/deploy/provider/kubernetes_provider_test.py" "$build/bin/mobula" KubernetesProvider.test_pod_has_owner_labels_and_ticket

# ---- running pods --------------------------------------------------------------------------------
if ((EUID != 0)) || ! command -v podman >/dev/null || ! command -v runc >/dev/null; then
  echo "kubernetes: the pods were not played: that needs root, podman and runc"
  summary
  exit
fi
ip link set lo up
{ cat /etc/hosts; echo "127.0.0.1 mobula-head-0.mobula-head"; } >"$work/hosts"
mount --bind "$work/hosts" /etc/hosts
cat >"$work/containers.conf" <<CONF
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
[containers]
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
CONF
export CONTAINERS_CONF=$work/containers.conf
pods() { timeout 90 podman --root "$work/store" --runroot "$work/run" --tmpdir "$work/tmp" "$@"; }
end_pods() {
  pods pod rm --force --all --time 1 >/dev/null 2>&1
  pods rm --force --all --time 1 >/dev/null 2>&1
  umount "$work/store/overlay" 2>/dev/null
}

# Builds an image of this build: the program, its libraries, a shell.
image=$work/image
put() { mkdir -p "$image$(dirname "$2")"; cp -L "$1" "$image$2"; }
mkdir -p "$image"/{usr/bin,bin,etc,tmp,var/lib/mobula,proc,sys,dev,run}
put "$build/bin/mobula" /usr/bin/mobula
for each in sh cat install sleep; do put "$(type -P $each)" /usr/bin/$each; done
cp "$image/usr/bin/sh" "$image/bin/sh"
for each in "$image"/usr/bin/*; do ldd "$each"; done 2>/dev/null |
  sed -n 's/.* => \(\/[^ ]*\) .*/\1/p; s/^\t\(\/lib64[^ ]*\) .*/\1/p' | sort -u | while read -r library; do put "$library" "$library"; done
chown 10001:10001 "$image/var/lib/mobula"
chmod 700 "$image/var/lib/mobula"
chmod 1777 "$image/tmp"
tar -C "$image" --numeric-owner -cf "$work/image.tar" . && rm -rf "$image"
pods import --change 'ENTRYPOINT ["/usr/bin/mobula"]' --change 'USER 10001:10001' --change ENV=PATH=/usr/bin:/bin \
  --change ENV=MOBULA_STATE_DIR=/var/lib/mobula "$work/image.tar" localhost/mobula:test >"$work/import.log" 2>&1 ||
  { cat "$work/import.log"; exit 1; }

play() {
  python3 "$root/tests/deploy/as_pods.py" "$work/all.yaml" localhost/mobula:test "$@" >"$work/pod.yaml" &&
    pods kube play "$work/pod.yaml" >"$work/play.log" 2>&1 || { cat "$work/play.log"; return 1; }
}
at_head() { pods exec mobula-head-0-head "$@"; }
alive() { (($(at_head mobula list nodes --filter state=ALIVE -o name 2>/dev/null | wc -l) == $1)); }
probe_says() { local code=$1 pod=$2 seen=0; pods exec "$pod" mobula doctor --probe >"$work/probe.log" 2>&1 || seen=$?; ((seen == code)) || { cat "$work/probe.log"; return 1; }; }
state_is() { [[ $(pods inspect "$2" --format '{{.State.Status}}') == "$1" ]]; }
code_is() { local expected=$1 code=0; shift; "$@" || code=$?; ((code == expected)) || { echo "ended with $code, and $expected was expected"; return 1; }; }

check "the pod of the head starts" play head
check "the probe of the head succeeds" within 30 probe_says 0 mobula-head-0-head
at_head cat /var/lib/mobula/state/default/default.key >"$work/cluster.key"
check "the pod of an agent starts with the key of its init container" play agent "$work/cluster.key"
if [[ $failed == yes ]]; then summary; exit; fi
check "the agent joins the cluster" within 60 alive 1
check "the probe of the agent succeeds" probe_says 0 mobula-agent-agent
check "the agent is not root and cannot write outside its volumes" code_is 2 pods exec mobula-agent-agent sh -c 'echo x >/usr/x'
ran=$(at_head mobula run -- sh -c 'echo here; exit 5' 2>/dev/null)
check "a job runs there and returns its exit code" test "$?.$ran" = "5.here"
pods stop --time 60 mobula-agent-agent >/dev/null 2>&1
check "SIGTERM drains the node and ends the pod in order" test "$(pods inspect mobula-agent-agent --format '{{.State.ExitCode}}')" = 0
check "the head reports that the node left" within 30 alive 0
pods kill --signal KILL mobula-head-0-head >/dev/null 2>&1
check "a killed head is down" within 30 state_is exited mobula-head-0-head
pods start mobula-head-0-head >/dev/null 2>&1
check "the head starts again with its journal" within 60 sh -c "podman --root $work/store --runroot $work/run --tmpdir $work/tmp exec mobula-head-0-head mobula job list -o json | grep -q '\"FAILED\"'"
summary
