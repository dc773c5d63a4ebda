#!/usr/bin/env python3
"""Measures the cost of `mobula run -- /bin/true` next to /bin/true, one after the other in one run.

Usage: job_overhead.py [PATH OF mobula] [ROUNDS]. Starts its own cluster in a temporary directory, and ends it.
Prints medians and 90th percentiles in milliseconds, and the difference of the medians (bar: 50).
"""
import os
import statistics
import subprocess
import sys
import tempfile
import time


def milliseconds(command, environment):
    begun = time.monotonic()
    subprocess.run(command, env=environment, check=True, stdin=subprocess.DEVNULL)
    return (time.monotonic() - begun) * 1000


def main():
    program = sys.argv[1] if len(sys.argv) > 1 else "mobula"
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 20
    if rounds < 2:
        sys.exit("at least 2 rounds")
    with tempfile.TemporaryDirectory(prefix="mobula-job-overhead-") as directory:
        environment = dict(os.environ, MOBULA_STATE_DIR=directory)
        for name in ("MOBULA_ADDRESS", "MOBULA_KEY_FILE"):
            environment.pop(name, None)
        subprocess.run([program, "start", "--head", "--num-cpus", "2"], env=environment, check=True,
                       stdout=subprocess.DEVNULL)
        try:
            times = {"/bin/true": [], "mobula run": []}
            for _ in range(rounds):
                times["/bin/true"].append(milliseconds(["/bin/true"], environment))
                times["mobula run"].append(milliseconds([program, "run", "--", "/bin/true"], environment))
        finally:
            subprocess.run([program, "stop"], env=environment, check=True, stdout=subprocess.DEVNULL)
    for name, values in times.items():
        values.sort()
        print(f"{name:12} median {statistics.median(values):7.1f}  p90 {values[int(len(values) * 0.9) - 1]:7.1f}")
    more = statistics.median(times["mobula run"]) - statistics.median(times["/bin/true"])
    print(f"{'difference':12} median {more:7.1f}  (load {os.getloadavg()[0]:.1f})")


main()
