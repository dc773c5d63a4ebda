#!/usr/bin/env python3
"""Sends SIGKILL to the autoscaler, its provider, the head, and agents at random moments.

Each round submits a job and tasks, kills one kind of process after a random delay, and starts a killed head again. The
job and each task must succeed. Afterwards all nodes end, and no process of an instance remains. During the
round, no instance runs twice, and no type exceeds its maximum.

Usage: autoscale_kills.py BUILD_DIRECTORY [--rounds 2] [--seed NUMBER] [--kill KIND] [--delay SECONDS] [--keep]
"""

import argparse
import collections
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

TIMEOUT = 120  # seconds; the machine may be busy
MAX_WORKERS = 2
LIFECYCLE = 6.0  # seconds from the submission to the end of the nodes
MARK = b"MOBULA_FLEET_INSTANCE="
KINDS = ("autoscaler", "head", "agent", "provider", "supervisor")
NAMES = {"mobula-scale": "autoscaler", "mobula-head": "head", "mobula-agent": "agent"}

TYPES = """
max_workers: %d
idle_timeout_minutes: 0.01
launch_timeout_minutes: 1
absent_timeout_seconds: 1
target_wait_seconds: 1
provider: {type: local, directory: %s}
available_node_types:
  cpu:
    resources: {CPU: 1}
    max_workers: %d
    node_config: {flags: ["--object-store-memory", "64MiB", "--grace", "5"]}
"""


class Fault(Exception):
    pass


def check(condition, text):
    if not condition:
        raise Fault(text)


def read(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


class Cluster:
    def __init__(self, build, keep):
        self.mobula_program = os.path.join(build, "bin", "mobula")
        self.keep = keep
        self.directory = tempfile.mkdtemp(prefix="mobula-kills-", dir="/tmp")
        self.fleet = os.path.join(self.directory, "fleet")
        self.types = os.path.join(self.directory, "types.yaml")
        with open(self.types, "w", encoding="utf-8") as file:
            file.write(TYPES % (MAX_WORKERS, self.fleet, MAX_WORKERS))
        kept = {name: value for name, value in os.environ.items() if not name.startswith("MOBULA_")}
        self.env = {**kept, "MOBULA_STATE_DIR": os.path.join(self.directory, "a")}
        self.mobula("start", "--head", "--no-worker", "--autoscale", self.types)
        head = json.loads(read(os.path.join(self.directory, "a", "default", "head", "head.json")))
        program = next(os.path.join(top, "steady_tasks") for top in (os.path.join(build, "bin"), os.path.join(build, "tests", "deploy"))
                       if os.path.exists(os.path.join(top, "steady_tasks")))
        self.driver_log = open(os.path.join(self.directory, "driver.log"), "w", encoding="utf-8")
        self.driver = subprocess.Popen([program, "-"], env={**self.env, "MOBULA_ADDRESS": head["address"]}, text=True,
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.driver_log, bufsize=1)

    def close(self, failed):
        self.driver.stdin.close()
        try:
            self.driver.wait(10)
        except subprocess.TimeoutExpired:
            self.driver.kill()
            self.driver.wait()
        self.driver_log.close()
        self.mobula("stop", "--grace", "0", ok=False)
        for pid, _, _ in self.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        if failed:
            for name in ("a/default/mobula.log", "driver.log"):
                print("---- " + name, read(os.path.join(self.directory, name)).decode(errors="replace")[-12000:], sep="\n", file=sys.stderr)
        if not (failed and self.keep):
            shutil.rmtree(self.directory, ignore_errors=True)

    def mobula(self, *words, ok=True):
        done = subprocess.run([self.mobula_program, *words], env=self.env, text=True, capture_output=True, timeout=TIMEOUT)
        check(not ok or done.returncode == 0, f"mobula {' '.join(words)}: exit code {done.returncode}: {done.stderr}")
        return done

    def document(self, *words):
        """The reply of a query, or None while no head answers."""
        done = self.mobula(*words, "-o", "json", ok=False)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def processes(self):
        """Rows (pid, kind, instance) of the processes of this cluster."""
        found, parents = [], {}
        for name in filter(str.isdigit, os.listdir("/proc")):
            pid = int(name)
            words, environment = read(f"/proc/{name}/cmdline"), read(f"/proc/{name}/environ")
            if pid == os.getpid() or self.directory.encode() not in words + environment:
                continue
            stat = read(f"/proc/{name}/stat").rpartition(b")")[2].split()
            if not stat or stat[0] == b"Z":
                continue
            parents[pid] = int(stat[1])
            instance = next((each[len(MARK):].decode() for each in environment.split(b"\0") if each.startswith(MARK)), "")
            kind = NAMES.get(read(f"/proc/{name}/comm").decode().strip(), "")
            if not instance and b"provider" in words.split(b"\0"):
                kind = "provider"
            if not instance and kind == "agent":
                kind = "driver"
            found.append((pid, kind, os.path.basename(instance)))
        kinds = {pid: kind for pid, kind, _ in found}
        above = {parents[pid] for pid, kind, _ in found if kind == "head" and kinds.get(parents[pid]) == ""}
        found = [(pid, "supervisor" if pid in above else kind, instance) for pid, kind, instance in found]
        # A process that an agent has just forked still has its name.
        return [row for row in found if row[1] != "agent" or kinds.get(parents[row[0]]) != "agent"]

    def agents(self):
        return [(pid, instance) for pid, kind, instance in self.processes() if kind == "agent"]

    def start_head(self):
        """Starts the head again, with the flags of its first start."""
        self.mobula("start", "--head", "--no-worker")

    def rows(self):
        request = {"version": 1, "call": "list", "cluster": "default", "cluster_id": "x",
                   "settings": {"type": "local", "directory": self.fleet}}
        done = subprocess.run([self.mobula_program, "provider", "local", "list"], env=self.env, input=json.dumps(request), text=True,
                              capture_output=True, timeout=TIMEOUT)
        check(done.returncode == 0, "provider local list: " + done.stderr)
        return json.loads(done.stdout)["instances"]


class Watch:
    """Samples the processes of instances until the end of a round."""

    def __init__(self, cluster):
        self.cluster, self.faults, self.ends = cluster, [], threading.Event()
        self.most = 0
        self.thread = threading.Thread(target=self.sample)
        self.thread.start()

    def sample(self):
        while not self.ends.wait(0.2):
            agents = collections.Counter(instance for _, instance in self.cluster.agents())
            self.most = max(self.most, len(agents))
            twice = [name for name, count in agents.items() if count > 1]
            if twice:
                self.faults.append(f"instances run twice: {twice}: {self.cluster.processes()}")
            if len(agents) > MAX_WORKERS:
                self.faults.append(f"{len(agents)} instances run, the maximum is {MAX_WORKERS}: {sorted(agents)}")

    def end(self):
        self.ends.set()
        self.thread.join()
        check(not self.faults, "; ".join(self.faults[:3]))


def eventually(condition, what, rest=lambda: ""):
    until = time.monotonic() + TIMEOUT
    while not condition():
        check(time.monotonic() < until, f"not in time: {what} {rest()}")
        time.sleep(0.1)


def kill(cluster, kind):
    """Kills each process of the kind, which may start within 3 s. Returns their number."""
    until = time.monotonic() + 3
    while True:
        killed = 0
        for pid, each, _ in cluster.processes():
            if each != kind:
                continue
            try:
                os.kill(pid, signal.SIGKILL)
                killed += 1
            except ProcessLookupError:
                pass
        if killed or time.monotonic() > until:
            return killed


def has_head(cluster):
    return any(kind == "head" for _, kind, _ in cluster.processes())


def run_round(cluster, number, kind, delay):
    watch = Watch(cluster)
    begun = time.monotonic()
    try:
        job = f"job{number}"
        file = os.path.join(cluster.directory, job)
        cluster.mobula("submit", "--no-wait", "--name", job, "--num-cpus", "1", "--retries", "5", "--", "sh", "-c",
                       f"sleep 0.5; echo done > {file}")
        cluster.driver.stdin.write("3\n")
        time.sleep(max(0.0, begun + delay - time.monotonic()))
        killed = kill(cluster, kind)
        if kind in ("head", "supervisor") and killed:
            eventually(lambda: not has_head(cluster), "the killed head exits")
            cluster.start_head()
        # Three agents in a row that die before the autoscaler has seen their nodes pause the type, as documented.
        resumed = []

        def ends():
            if kind == "agent" and "never joined" in cluster.mobula("autoscaler", "status", ok=False).stdout:
                resumed.append(cluster.mobula("autoscaler", "resume", "cpu", ok=False))
            return (cluster.document("job", "status", job) or {}).get("state") in ("SUCCEEDED", "FAILED")
        eventually(ends, f"{job} ends")
        state = cluster.document("job", "status", job)
        check(state["state"] == "SUCCEEDED" and read(file) == b"done\n", f"{job} is lost: {state}")
        answer = []
        reader = threading.Thread(target=lambda: answer.append(cluster.driver.stdout.readline()))
        reader.start()
        reader.join(TIMEOUT)
        check(answer == ["3\n"], f"the driver has {answer} of 3 tasks")
        served = time.monotonic() - begun
        eventually(lambda: not cluster.agents(), "the idle nodes end")
        eventually(lambda: not cluster.rows(), "the provider lists no instance", cluster.rows)
        left = [row for row in cluster.processes() if row[2]]
        check(not left, f"orphans: {left}")
        nodes = cluster.document("list", "nodes")["items"]
        left = [row["node_id"] for row in nodes if row["state"] in ("ALIVE", "DRAINING") and "mobula.io/instance" in row.get("labels", {})]
        check(not left, f"the head counts nodes without an agent: {left}")
        supervisors = [row for row in cluster.processes() if row[1] == "autoscaler"]
        check(len(supervisors) <= 1, f"several autoscalers run: {supervisors}")
    finally:
        watch.ends.set()
    watch.end()
    print(f"round {number}: killed {killed} of {kind:10} after {delay:4.1f} s; served after {served:4.1f} s, empty after "
          f"{time.monotonic() - begun:4.1f} s, {watch.most} instances at most{', type resumed' if resumed else ''}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--kill", choices=KINDS)
    parser.add_argument("--delay", type=float)
    parser.add_argument("--keep", action="store_true", help="keep the directory of a failed run")
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    chance = random.Random(given.seed)
    cluster = Cluster(os.path.abspath(given.build), given.keep)
    failed = True
    try:
        for number in range(1, given.rounds + 1):
            # The first kinds are the most frequent; a short run has one round of each.
            kind = KINDS[number - 1] if number <= min(3, given.rounds) else chance.choices(KINDS, (3, 3, 3, 1, 1))[0]
            delay = chance.uniform(0, LIFECYCLE)
            run_round(cluster, number, given.kill or kind, delay if given.delay is None else given.delay)
        failed = False
    except Fault as fault:
        print(f"round {number}: {fault}", file=sys.stderr)
    finally:
        cluster.close(failed)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
