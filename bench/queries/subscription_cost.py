#!/usr/bin/env python3
"""Counts the instructions that subscriptions add to calls without one (bar: 0.5 % of a call).

Usage: subscription_cost.py mobula-bench-owner [CALLS]. Needs valgrind, and a program with line numbers:
  cmake --preset release -B build/lines -DCMAKE_CXX_FLAGS="-g1 -gdwarf-4" && ninja -C build/lines mobula-bench-owner
callgrind counts the calls of an owner's core: submitted, answered, read, released. The program subscribes to none of
them. An instruction belongs to subscriptions if its line is in client/core/refs/subscriptions.*, also after inlining,
or names them or their places in rows; such a line counts as a whole. The total has no instructions of shells and
executors, which execute nothing for subscriptions in such a call, so the true share is smaller.
"""
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

NAMES = re.compile(r"\b(subscriptions_|watchers?|no_watcher|WatcherIndex|Subscriptions)\b")
LIMIT_PERCENT = 0.5


def count(program, calls):
    """Instructions by (file, line, function), without those of called functions."""
    with tempfile.TemporaryDirectory(prefix="mobula-callgrind-") as directory:
        out = Path(directory, "out")
        callgrind = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", "--dump-line=yes",
                     "--toggle-collect=*unwatched_calls*", "--compress-strings=no", "--compress-pos=no"]
        subprocess.run([*callgrind, program, "--unwatched", str(calls)], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.PIPE)
        lines = out.read_text().splitlines()
    own, file, function, inclusive = Counter(), "", "", False
    for line in lines:
        name, is_assignment, value = line.partition("=")
        if is_assignment and name in ("fl", "fi", "fe"):
            file = value
        elif name == "fn":
            function = value
        elif name == "calls":
            inclusive = True  # the next line is the cost of the called function
        elif line[:1].isdigit():
            if not inclusive:
                number, instructions = line.split()[:2]
                own[file, int(number), function] += int(instructions)
            inclusive = False
    return own


def is_of_subscriptions(file, number, function, sources):
    if "client::Subscriptions::" in function or re.search(r"/refs/subscriptions\.(h|cc)$", file):
        return True
    return "client/core" in file and bool(NAMES.search(line_of(file, number, sources)))


def line_of(file, number, sources):
    if number == 0:
        return ""
    if file not in sources:
        sources[file] = Path(file).read_text().splitlines()
    return sources[file][number - 1].strip()


def main():
    program = sys.argv[1] if len(sys.argv) > 1 else "mobula-bench-owner"
    calls = int(sys.argv[2]) if len(sys.argv) > 2 else 2000
    try:
        counted = count(program, calls)
    except subprocess.CalledProcessError as failed:
        sys.exit(f"{failed.cmd[0]}: {failed.stderr.decode()}")
    sources, added = {}, Counter()
    for (file, number, function), instructions in counted.items():
        if is_of_subscriptions(file, number, function, sources):
            shown = line_of(file, number, sources) or function.partition("(")[0]
            added[f"{Path(file).name}:{number}  {shown}"] += instructions
    total = sum(counted.values())
    if not total:
        sys.exit(f"{program} has no function unwatched_calls")
    if not sources:
        print("no line numbers: only functions of subscriptions are counted")
    for where, instructions in added.most_common():
        print(f"{instructions / calls:8.1f}  {where}")
    percent = 100 * sum(added.values()) / total
    print(f"{calls} calls: {total / calls:.0f} instructions each, {sum(added.values()) / calls:.1f} for subscriptions: "
          f"{percent:.2f} % (bar {LIMIT_PERCENT})")
    return percent > LIMIT_PERCENT


if __name__ == "__main__":
    sys.exit(main())
