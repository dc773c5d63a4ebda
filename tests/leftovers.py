#!/usr/bin/env python3
"""Runs the tests and checks that none of their processes, directories, sockets, namespaces, or control groups remains.

Usage: leftovers.py [--wait SECONDS] COMMAND...

Processes of the run are known by an environment variable that they inherit. Of directories and namespaces, the new ones
count whose name has `mobula`, unless a process of another run names them. The exit code is that of the command, or 1.
"""

import argparse
import glob
import os
import re
import subprocess
import sys
import time
import uuid

MARK = "TEST_RUN_MARK"
PLACES = ("/tmp/*mobula*", "/dev/shm/*", "/run/netns/*", "/var/run/netns/*", "/sys/fs/cgroup/*mobula*", "/sys/fs/cgroup/*/*mobula*")
KEPT = re.compile(r"/tmp/mobula-\d+$")  # directory of a user's sockets, which every process of the user shares


def read(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def processes():
    """(pid, environment and command) of every process."""
    for name in filter(str.isdigit, os.listdir("/proc")):
        if int(name) != os.getpid():
            yield int(name), read(f"/proc/{name}/environ"), read(f"/proc/{name}/cmdline")


def marked(mark):
    return {pid: command for pid, environment, command in processes() if f"{MARK}={mark}".encode() in environment.split(b"\0")}


def entries():
    return {path for place in PLACES for path in glob.glob(place) if not KEPT.match(path)}


def sockets(pids):
    """Addresses of Unix sockets that the processes hold, for the report."""
    names = {line.split()[6]: line.split()[7] for line in read("/proc/net/unix").decode("utf-8", "replace").splitlines()[1:] if len(line.split()) > 7}
    for pid in pids:
        for link in glob.glob(f"/proc/{pid}/fd/*"):
            try:
                found = re.match(r"socket:\[(\d+)\]", os.readlink(link))
            except OSError:
                continue
            if found and found[1] in names:
                yield f"socket {names[found[1]]} of process {pid}"


def remains(mark, before):
    left = marked(mark)
    texts = [f"process {pid}: {command.replace(bytes(1), b' ').decode('utf-8', 'replace')[:200]}" for pid, command in sorted(left.items())]
    texts += sorted(sockets(left))
    new = entries() - before
    if new:
        others = b"".join(environment + command for pid, environment, command in processes() if pid not in left)
        texts += sorted(path for path in new if path.encode() not in others)
    return texts


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--wait", type=float, default=30, help="seconds for processes that are ending")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    mark, before = uuid.uuid4().hex, entries()
    status = subprocess.run(arguments.command, env={**os.environ, MARK: mark}).returncode
    until = time.monotonic() + arguments.wait
    while (left := remains(mark, before)) and time.monotonic() < until:
        time.sleep(0.2)
    for text in left:
        print(f"leftovers: {text}")
    if left:
        print(f"leftovers: {len(left)} things of the tests remain")
    sys.exit(status if status > 0 else 1 if left or status < 0 else 0)


if __name__ == "__main__":
    main()
