#!/usr/bin/env python3
"""Measures the cost of state queries next to a command without a query.

Usage: state_cost.py [PATH OF mobula] [ROUNDS]. Starts its own cluster in a temporary directory, runs the commands
in turn, and ends it. Prints medians and 90th percentiles in milliseconds from start to exit, and the additional time
relative to `mobula version`: connection, key handshake, query, and reply (bar for status: 30).
mobula-bench-head measures the cost in the head, on up to 1,000 nodes.
"""
import os
import statistics
import subprocess
import sys
import tempfile
import time

COMMANDS = (["version"], ["status"], ["events"], ["list", "nodes"], ["list", "tasks"], ["timeline", "--output", "-"])


def milliseconds(command, environment):
    begun = time.monotonic()
    subprocess.run(command, env=environment, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    return (time.monotonic() - begun) * 1000


def main():
    program = sys.argv[1] if len(sys.argv) > 1 else "mobula"
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 20
    if rounds < 2:
        sys.exit("at least 2 rounds")
    with tempfile.TemporaryDirectory(prefix="mobula-state-cost-") as directory:
        environment = dict(os.environ, MOBULA_STATE_DIR=directory)
        for name in ("MOBULA_ADDRESS", "MOBULA_KEY_FILE"):
            environment.pop(name, None)
        subprocess.run([program, "start", "--head", "--num-cpus", "2"], env=environment, check=True,
                       stdout=subprocess.DEVNULL)
        try:
            times = {" ".join(command[:2]): [] for command in COMMANDS}
            for _ in range(rounds):
                for command in COMMANDS:
                    times[" ".join(command[:2])].append(milliseconds([program, *command], environment))
        finally:
            subprocess.run([program, "stop"], env=environment, check=True, stdout=subprocess.DEVNULL)
    floor = statistics.median(times["version"])
    for name, values in times.items():
        values.sort()
        median = statistics.median(values)
        print(f"{name:20} median {median:7.1f}  p90 {values[int(len(values) * 0.9) - 1]:7.1f}  more {median - floor:7.1f}")
    print(f"load {os.getloadavg()[0]:.1f}")


main()
