#!/usr/bin/env bash
# Tests the Debian package and the archive: built here, installed on a bare Debian, and used there:
# a cluster, a job, a program compiled against it, the units, removal. Slow. Needs root,
# debootstrap, dpkg-dev, and a mirror. MOBULA_DEBIAN=FOLDER keeps the bare system for the next run.
#
# Usage: tests/deploy/package.sh BUILD_DIRECTORY        exit 77: cannot be tested here, with the reason
set -euo pipefail

build=$(cd "${1:?usage: package.sh BUILD_DIRECTORY}" && pwd)
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
((EUID == 0)) || { echo "package: needs root, for chroot and mounts"; exit 77; }
for each in debootstrap dpkg-shlibdeps cpack; do
  command -v $each >/dev/null || { echo "package: no program $each (packages debootstrap, dpkg-dev, cmake)"; exit 77; }
done
mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | grep -v '^#' |
  grep -oE 'https?://[^ ]+/debian(/| |$)' | head -n 1 | tr -d ' ' || true)
mirror=${mirror:-http://deb.debian.org/debian}

cmake --build "$build" --target mobula mobula_shared >/dev/null
rm -rf "$build/packages"
cpack --config "$build/CPackConfig.cmake" >/dev/null
package=$(echo "$build"/packages/mobula_*.deb)
archive=$(echo "$build"/packages/mobula-*.tar.gz)
ls -l "$package" "$archive" | awk '{print $5, $9}'

work=$(mktemp -d)
# The mounts below are in a separate namespace and end with its last process.
trap 'rm -rf --one-file-system "$work"' EXIT
bare=${MOBULA_DEBIAN:-$work/bare}
if [[ ! -x $bare/bin/sh ]]; then
  debootstrap --variant=minbase --include=ca-certificates bookworm "$bare" "$mirror" >"$work/bootstrap.log" 2>&1 ||
    { tail -n 20 "$work/bootstrap.log"; exit 1; }
fi
cp -a "$bare" "$work/machine"
machine=$work/machine
cp -L /etc/resolv.conf /etc/hosts "$machine/etc/"
cp "$package" "$archive" "$machine/tmp/"
mkdir "$machine/tmp/outside"
cp "$root"/tests/outside/* "$machine/tmp/outside/"

# there LINE: runs a shell line in that system.
there() {
  unshare --mount --pid --fork --kill-child bash -euc '
    mount --make-rprivate /
    mount -t proc proc "$1/proc"
    mount --rbind /sys "$1/sys"
    mount --rbind /dev "$1/dev"
    mount -t tmpfs tmpfs "$1/dev/shm"
    exec chroot "$1" env -i HOME=/root TERM=dumb DEBIAN_FRONTEND=noninteractive \
      PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin bash -euc "$2"
  ' _ "$machine" "$1"
}
step() {
  local name=$1 begin=$SECONDS
  shift
  if "$@" >"$work/step.log" 2>&1; then
    printf 'ok      %-60s %4d s\n' "$name" $((SECONDS - begin))
  else
    printf 'FAILED  %s\n' "$name"
    tail -n 30 "$work/step.log"
    exit 1
  fi
}

step "apt installs the package with its dependencies" there "
  apt-get update -q
  apt-get install -y -q --no-install-recommends /tmp/$(basename "$package")"
step "the package creates its user and directories" there '
  getent passwd mobula
  [[ $(stat -c "%U:%G %a" /etc/mobula) == "root:mobula 750" ]]
  mobula version'
step "a cluster, a job and its exit code, status, stop" there '
  export MOBULA_STATE_DIR=/root/clusters
  mobula start --head --num-cpus 2
  mobula run -- /bin/echo it works | grep -x "it works"
  code=0; mobula run -- /bin/sh -c "exit 7" || code=$?; ((code == 7))
  mobula status | grep -i node
  mobula stop'
step "as the user of the units" there '
  install -d -o mobula -m 700 /var/lib/mobula
  setpriv --reuid mobula --regid mobula --clear-groups timeout -s TERM 20 \
    /usr/bin/mobula start --head --no-worker --block --state-dir /var/lib/mobula --bind 127.0.0.1 --port 46390 >/tmp/head.log &
  for i in $(seq 100); do [[ -f /var/lib/mobula/default/default.key ]] && grep -q runs /tmp/head.log && break; sleep 0.1; done
  grep "Head: 127.0.0.1:46390" /tmp/head.log
  kill %1; wait %1 || true'
step "the archive, anywhere" there "
  mkdir /opt/mobula && tar -xzf /tmp/$(basename "$archive") -C /opt/mobula --strip-components 1
  /opt/mobula/bin/mobula version"
step "a program compiled against it" there '
  apt-get install -y -q --no-install-recommends g++ cmake ninja-build
  cmake -S /tmp/outside -B /tmp/app -G Ninja
  cmake --build /tmp/app
  [[ $(timeout 60 /tmp/app/app) == "16 15" ]]'
step "removed, and then purged" there '
  apt-get remove -y -q mobula
  [[ ! -e /usr/bin/mobula && -d /etc/mobula ]]
  apt-get purge -y -q mobula
  [[ ! -e /etc/mobula && ! -e /var/lib/mobula ]]'
