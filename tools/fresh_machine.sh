#!/usr/bin/env bash
# Runs the README's commands on a minimal Debian: a fresh system in a temporary directory, with a clean
# clone of this repository's last commit. Slow, and needs root and debootstrap; run by hand.
# Usage: tools/fresh_machine.sh [COMMAND...]   (default: every line of the README's code blocks that starts with ./dev)
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
release=bookworm
((EUID == 0)) || { echo "fresh_machine: needs root, for chroot and mounts" >&2; exit 2; }
command -v debootstrap >/dev/null || { echo "fresh_machine: install debootstrap first" >&2; exit 2; }

commands=("$@")
if ((${#commands[@]} == 0)); then
  mapfile -t commands < <(sed -n '/^```/,/^```/p' "$root/README.md" | grep -oE '^(\$ )?\./dev [a-z~/ -]*' | sed -E 's/^\$ //; s/  .*//; s/ +$//' | sort -u)
fi
((${#commands[@]} > 0)) || { echo "fresh_machine: the README names no ./dev command" >&2; exit 2; }

# Uses the mirror of this machine.
mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | grep -v '^#' |
  grep -oE 'https?://[^ ]+/debian(/| |$)' | head -n 1 | tr -d ' ' || true)
mirror=${mirror:-http://deb.debian.org/debian}

machine=$(mktemp -d)
# The mounts below are in a separate namespace and end with its last process.
trap 'rm -rf --one-file-system "$machine" "$machine.log"' EXIT

echo "== $release from $mirror"
debootstrap --variant=minbase --include=ca-certificates,git "$release" "$machine" "$mirror" >"$machine.log" 2>&1 ||
  { tail -n 20 "$machine.log" >&2; exit 1; }
cp -L /etc/resolv.conf /etc/hosts "$machine/etc/"
git clone --quiet --no-hardlinks "$root" "$machine/mobula"
chroot "$machine" dpkg-query -W -f '${Package}\n' | sort >"$machine/before.txt"

failed=0
for command in "${commands[@]}"; do
  echo "== $command"
  begin=$SECONDS
  unshare --mount --pid --fork --kill-child bash -euc '
    mount --make-rprivate /
    mount -t proc proc "$1/proc"
    mount --rbind /sys "$1/sys"
    mount --rbind /dev "$1/dev"
    mount -t tmpfs tmpfs "$1/dev/shm"
    exec chroot "$1" env -i HOME=/root TERM=dumb PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
      bash -c "cd /mobula && $2"
  ' _ "$machine" "$command" || { echo "== failed: $command"; failed=1; }
  echo "== $((SECONDS - begin)) s: $command"
done

echo "== installed by these commands"
chroot "$machine" dpkg-query -W -f '${Package}\n' | sort | comm -13 "$machine/before.txt" - | tr '\n' ' '
echo
exit "$failed"
