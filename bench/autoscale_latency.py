#!/usr/bin/env python3
"""Measures the time from a demand to the call that launches a node for it, and the cost of a cluster at rest.

    python3 bench/autoscale_latency.py build/release [--rounds 20] [--limit 2] [--rest 60]

A real head and autoscaler, with a provider that records the time of each launch and starts no machine. Each round adds
one demand after a random pause: a task of a driver, then a job. All earlier demands keep waiting, and each needs a node.
Prints the median and the worst time. The exit code is 1 if the worst one exceeds the limit.

First, the idle head and autoscaler run for `--rest` seconds without a scrape of /metrics, then for the same time with
one every 15 s. Prints the processor time of both and the memory of the head.
"""
import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

TIMEOUT = 60
SCRAPE_INTERVAL = 15

PROVIDER = """#!/usr/bin/env python3
import json, sys, time
request = json.load(sys.stdin)
path = request["settings"]["file"]
rows = [{"name": each["name"], "ref": each["name"]} for each in request.get("instances", [])]
answer = {"version": 1, "provider": "recorder"}
if request["call"] == "launch":
    with open(path, "a", encoding="utf-8") as file:
        for row in rows:
            print(time.monotonic(), row["name"], file=file)
if request["call"] == "list":
    try:
        with open(path, encoding="utf-8") as file:
            names = {line.split()[1] for line in file if line.endswith("\\n")}
    except OSError:
        names = set()
    answer = {"instances": [{"name": name, "ref": name, "type": "cpu", "state": "starting"} for name in sorted(names)]}
elif rows:
    answer = {"instances": rows}
print(json.dumps(answer))
"""


def processor_seconds(pid):
    """User and system time of all threads of the process (clock_getcpuclockid(3))."""
    return time.clock_gettime((~pid << 3) | 2)


def resident_kib(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS:"))


class Cluster:
    def __init__(self, build, most):
        self.mobula_program = os.path.join(build, "bin", "mobula")
        self.directory = tempfile.mkdtemp(prefix="mobula-latency-", dir="/tmp")
        self.launches = os.path.join(self.directory, "launches")
        provider = os.path.join(self.directory, "provider.py")
        with open(provider, "w", encoding="utf-8") as file:
            file.write(PROVIDER)
        types = os.path.join(self.directory, "types.yaml")
        with open(types, "w", encoding="utf-8") as file:
            json.dump({"max_workers": most, "upscaling_speed": 1000, "target_wait_seconds": 0.001,
                       "provider": {"type": "command", "command": [sys.executable, provider], "file": self.launches},
                       "available_node_types": {"cpu": {"resources": {"CPU": 1}, "max_workers": most}}}, file)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("MOBULA_")}
        self.env = {**kept, "MOBULA_STATE_DIR": os.path.join(self.directory, "a")}
        self.mobula("start", "--head", "--no-worker", "--http", "127.0.0.1:0", "--autoscale", types)
        with open(os.path.join(self.directory, "a", "default", "head", "head.json"), encoding="utf-8") as file:
            self.head = json.load(file)
        self.build = build
        self.driver = None
        self.held = 0

    def start_driver(self):
        self.driver = subprocess.Popen([os.path.join(self.build, "bin", "mobula-bench-polled-tasks")], text=True, bufsize=1,
                                       env={**self.env, "MOBULA_ADDRESS": self.head["address"]}, stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE)

    def named(self, name):
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/comm", encoding="utf-8") as comm, open(f"/proc/{pid}/environ", "rb") as environment:
                    if comm.read().strip() == name and self.directory.encode() in environment.read():
                        return int(pid)
            except OSError:
                continue
        raise RuntimeError("no process " + name)

    def scrape(self):
        with open(self.head["http_token_file"], encoding="utf-8") as file:
            headers = {"Authorization": "Bearer " + file.read().strip()}
        request = urllib.request.Request(self.head["http_url"] + "/metrics", headers=headers)
        with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
            return answer.read()

    def rest(self, seconds, scrapes):
        """CPU of the head and the autoscaler in percent of one core, and the memory of the head in MiB."""
        head, autoscaler = self.named("mobula-head"), self.named("mobula-scale")
        begun, before = time.monotonic(), [processor_seconds(pid) for pid in (head, autoscaler)]
        while time.monotonic() < begun + seconds:
            if scrapes:
                self.scrape()
            time.sleep(max(0, min(SCRAPE_INTERVAL, begun + seconds - time.monotonic())))
        spent = time.monotonic() - begun
        after = [processor_seconds(pid) for pid in (head, autoscaler)]
        return [100 * (b - a) / spent for a, b in zip(before, after)] + [resident_kib(head) / 1024]

    def close(self):
        if self.driver:
            self.driver.kill()
            self.driver.wait()
        subprocess.run([self.mobula_program, "stop", "--grace", "0"], env=self.env, capture_output=True, timeout=TIMEOUT)
        shutil.rmtree(self.directory, ignore_errors=True)

    def mobula(self, *words):
        done = subprocess.run([self.mobula_program, *words], env=self.env, text=True, capture_output=True, timeout=TIMEOUT)
        if done.returncode != 0:
            raise RuntimeError(f"mobula {' '.join(words)}: {done.stderr}")
        return done.stdout

    def wait_for_autoscaler(self):
        until = time.monotonic() + TIMEOUT
        while "autoscaler: idle" not in self.mobula("status"):
            if time.monotonic() > until:
                raise RuntimeError("the autoscaler does not start: " + self.mobula("status"))
            time.sleep(0.1)

    def times(self):
        try:
            with open(self.launches, encoding="utf-8") as file:
                return [float(line.split()[0]) for line in file if line.endswith("\n")]
        except OSError:
            return []

    def add_task(self):
        self.held += 1
        begun = time.monotonic()
        self.driver.stdin.write(f"hold {self.held}\n")
        if not self.driver.stdout.readline():
            raise RuntimeError("the driver has ended")
        return begun

    def add_job(self):
        begun = time.monotonic()
        self.mobula("submit", "--no-wait", "--num-cpus", "1", "--", "true")
        return begun

    def measure(self, add):
        """Seconds from one more demand to the launch for it."""
        before = len(self.times())
        begun = add()
        until = begun + TIMEOUT
        while len(self.times()) <= before:
            if time.monotonic() > until:
                raise RuntimeError("no launch: " + self.mobula("status"))
            time.sleep(0.01)
        return self.times()[before] - begun


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--limit", type=float, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rest", type=float, default=60)
    given = parser.parse_args()
    chance = random.Random(given.seed)
    cluster = Cluster(os.path.abspath(given.build), 4 * given.rounds)
    within = True
    try:
        cluster.wait_for_autoscaler()
        print(f"{'at rest':>14} {'head CPU %':>11} {'autoscaler CPU %':>17} {'head MiB':>9}")
        for name, scrapes in (("no scrape", False), ("with scrapes", True)):
            head, autoscaler, memory = cluster.rest(given.rest, scrapes)
            print(f"{name:>14} {head:>11.3f} {autoscaler:>17.3f} {memory:>9.1f}", flush=True)
        cluster.start_driver()
        cluster.measure(cluster.add_task)  # the driver connects
        print(f"{'demand':>8} {'rounds':>7} {'median s':>9} {'worst s':>8}   limit {given.limit} s")
        for name, add in (("task", cluster.add_task), ("job", cluster.add_job)):
            seen = []
            for _ in range(given.rounds):
                time.sleep(chance.uniform(0, 2.5))
                seen.append(cluster.measure(add))
            print(f"{name:>8} {len(seen):>7} {statistics.median(seen):>9.2f} {max(seen):>8.2f}", flush=True)
            within = within and max(seen) <= given.limit
    finally:
        cluster.close()
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
