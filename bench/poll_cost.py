#!/usr/bin/env python3
"""What it costs tasks that somebody looks at the cluster, and what a look costs.

    python3 bench/poll_cost.py build/release/bin/mobula [--rounds 10] [--seconds 3] [--tasks 100000] [-o json]

A driver runs tasks, a thousand at once, in rounds of a few seconds: in every second one a client asks over a
connection of its own, once a second, for `status`, `list tasks` and `list actors`. The ratio is that of neighbours,
so that what else the machine does meanwhile falls on both. Then the driver holds many tasks that do not end, and
`list tasks` is timed: over the kept connection, and as a command from its start to its exit.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time


class Console:
    """`mobula repl` with questions through a pipe; an answer ends with that of `version`."""

    def __init__(self, mobula, environment):
        self.process = subprocess.Popen([mobula, "repl", "-o", "jsonl"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True, env=environment, bufsize=1)

    def ask(self, command):
        begun = time.monotonic()
        self.process.stdin.write(command + "\nversion\n")
        self.process.stdin.flush()
        lines = 0
        for line in self.process.stdout:
            if '"name":"mobula"' in line:
                return time.monotonic() - begun, lines
            lines += 1
        raise RuntimeError("the console has ended")

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=30)


class Driver:
    def __init__(self, program, environment):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                        text=True, env=environment, bufsize=1)

    def order(self, what, amount):
        self.process.stdin.write(f"{what} {amount}\n")
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError("the driver has ended")
        return float(answer)

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=120)


def polled(console, stop):
    due = time.monotonic()
    while not stop.is_set():
        for command in ("status", "list tasks", "list actors"):
            console.ask(command)
        due += 1
        stop.wait(max(0, due - time.monotonic()))


def measure(arguments):
    mobula = os.path.abspath(arguments.mobula)
    with tempfile.TemporaryDirectory(prefix="mobula-poll-") as folder:
        environment = dict(os.environ, MOBULA_STATE_DIR=folder, XDG_RUNTIME_DIR=folder)
        for name in ("MOBULA_ADDRESS", "MOBULA_KEY_FILE", "MOBULA_TOKEN", "MOBULA_CLUSTER"):
            environment.pop(name, None)
        started = subprocess.run([mobula, "start", "--head", "--num-cpus", str(arguments.cpus), "-o", "json"], env=environment,
                                 stdout=subprocess.PIPE, text=True, check=True)
        environment["MOBULA_ADDRESS"] = json.loads(started.stdout)["address"]
        try:
            return rounds(mobula, environment, arguments)
        finally:
            subprocess.run([mobula, "stop", "--grace", "1"], env=environment, stdout=subprocess.DEVNULL, check=False)


def rounds(mobula, environment, arguments):
    driver = Driver(os.path.join(os.path.dirname(mobula), "mobula-bench-polled-tasks"), environment)
    console = Console(mobula, environment)
    driver.order("run", arguments.seconds)  # whatever is made the first time
    without, polled_rates, ratios = [], [], []
    for number in range(arguments.rounds):
        pair = {}
        for with_poller in ((False, True) if number % 2 == 0 else (True, False)):
            stop = threading.Event()
            poller = threading.Thread(target=polled, args=(console, stop))
            if with_poller:
                poller.start()
            pair[with_poller] = driver.order("run", arguments.seconds)
            stop.set()
            if with_poller:
                poller.join()
        without.append(pair[False])
        polled_rates.append(pair[True])
        ratios.append(pair[True] / pair[False])
    driver.order("hold", arguments.tasks)
    kept = [console.ask("list tasks")[0] for _ in range(arguments.looks)]
    command = []
    for _ in range(arguments.looks):
        begun = time.monotonic()
        subprocess.run([mobula, "list", "tasks", "-o", "json"], env=environment, stdout=subprocess.DEVNULL, check=True)
        command.append(time.monotonic() - begun)
    console.close()
    driver.process.kill()
    driver.process.wait()
    return {"tasks_per_second": statistics.median(without), "tasks_per_second_polled": statistics.median(polled_rates),
            "ratio": statistics.median(ratios), "ratio_mean": statistics.mean(ratios), "ratios": [round(each, 4) for each in ratios],
            "listed_of": arguments.tasks, "list_tasks_ms": statistics.median(kept) * 1000,
            "list_tasks_worst_ms": max(kept) * 1000, "list_tasks_command_ms": statistics.median(command) * 1000}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("mobula")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--cpus", type=int, default=os.cpu_count())
    parser.add_argument("--tasks", type=int, default=100_000)
    parser.add_argument("--looks", type=int, default=9)
    parser.add_argument("-o", choices=("table", "json"), default="table", dest="output")
    arguments = parser.parse_args()
    found = measure(arguments)
    if arguments.output == "json":
        json.dump(found, sys.stdout)
        print()
        return
    print(f"tasks, 1,000 at once        {found['tasks_per_second']:10.0f} /s")
    print(f"beside a client that polls  {found['tasks_per_second_polled']:10.0f} /s")
    print(f"ratio, median of {arguments.rounds} pairs   {found['ratio']:10.4f}   (mean {found['ratio_mean']:.4f})")
    print(f"list tasks, {found['listed_of']} tasks there: {found['list_tasks_ms']:.1f} ms over a kept connection (worst "
          f"{found['list_tasks_worst_ms']:.1f}), {found['list_tasks_command_ms']:.1f} ms as a command")


if __name__ == "__main__":
    main()
