"""Ray's timer for rates (ray_microbenchmark_helpers.py), and the output of a peer.

A peer is a program that prints one line of JSON per figure to its standard output, for run.py.
Needs only the standard library, so that every peer's Python can import it.
"""
import argparse
import json
import statistics
import sys
import time
from dataclasses import dataclass


@dataclass
class Pace:
    """Durations of a measurement in seconds. The defaults are those of Ray."""
    settle: float = 10
    warm_up: float = 1
    run: float = 2
    runs: int = 4
    # No run starts after this many seconds. One call of a slow benchmark may take longer than a
    # run.
    limit: float = 120
    # Divides batches that take seconds. The page reports a value other than 1.
    divisor: int = 1

    def batch(self, size):
        return size // self.divisor


# The durations of `mobula bench --quick`.
QUICK = Pace(settle=0.5, warm_up=0.3, run=0.5, limit=10, divisor=10)


def rates_of(once, multiplier, pace):
    """The rates of the runs in operations per second. Each call of `once` counts as `multiplier`."""
    time.sleep(pace.settle)
    start = time.perf_counter()
    count, begin = 0, start
    while time.perf_counter() - begin < pace.warm_up:
        once()
        count += 1
    step = count // 10 + 1
    rates = []
    while len(rates) < pace.runs and (not rates or time.perf_counter() - start < pace.limit):
        begin, count = time.perf_counter(), 0
        while time.perf_counter() - begin < pace.run:
            for _ in range(step):
                once()
            count += step
        rates.append(multiplier * count / (time.perf_counter() - begin))
    return rates


def emit(key, values, unit="1/s", **more):
    """Prints one figure: mean and population standard deviation of `values`."""
    print(json.dumps({"key": key, "mean": statistics.mean(values), "sd": statistics.pstdev(values),
                      "unit": unit, "runs": len(values), **more}), flush=True)


def emit_failure(key, why):
    print(json.dumps({"key": key, "failed": str(why).strip().splitlines()[-1][:300]}), flush=True)


def measure(definitions, wanted, pace):
    """Measures each wanted (key, multiplier, unit, prepare). `prepare` returns the function to call."""
    for key, multiplier, unit, prepare in definitions:
        if wanted and key not in wanted:
            continue
        try:
            emit(key, rates_of(prepare(), multiplier, pace), unit)
        except Exception as why:  # a failed benchmark does not stop the others
            emit_failure(key, f"{type(why).__name__}: {why}")


def hold():
    """Reports that the cluster is ready, and keeps it until standard input ends."""
    print(json.dumps({"ready": True}), flush=True)
    sys.stdin.read()


def peer_arguments(about):
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("mode", choices=["rates", "groups", "actors", "start", "hold"])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", action="append", default=[], metavar="KEY")
    parser.add_argument("--actors", type=int, default=200, metavar="COUNT")
    given = parser.parse_args()
    given.pace = QUICK if given.quick else Pace()
    return given
