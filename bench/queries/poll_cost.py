#!/usr/bin/env python3
"""Measures how polling of the cluster's state slows tasks down, and which process pays for it.

    python3 bench/queries/poll_cost.py build/release/bin/mobula [--windows 600] [--seconds 0.2] [--tasks 100000] [-o json]

First, the processor time of each kind of poll, by process. It is measured on a cluster with an idle driver, with a
driver that runs a thousand tasks twenty times a second, and with many waiting tasks. The cost of a second without
polls is subtracted.
Then a driver runs tasks as fast as it can, in windows of less than a second. In every second window, a client polls
once: `status`, `list tasks`, and `list actors`. Each such window is compared with its two neighbors, so that other load
affects both. The comparison covers the number of tasks, and the additional processor time of all processes relative to
the same number of tasks. The latter hardly depends on other load.
"""
import argparse
import http.client
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time

LOOK = ("status", "list tasks", "list actors")
QUESTIONS = ("status", "list tasks", "list actors", "list jobs", "top")
PAGES = ("/api/v1/status", "/api/v1/tasks", "/api/v1/actors", "/api/v1/summary")
ROLES = ("client", "head", "agent", "driver", "executors")
EVERY = 0.05  # seconds between two polls that are measured singly
SETTLE = 2  # seconds until unused executors have exited
BAR = 0.02


def processor_seconds(pid):
    """User and system time of all threads that the process has or had (clock_getcpuclockid(3))."""
    try:
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return 0.0


class Console:
    """`mobula repl` with queries through a pipe. The output of `version` marks the end of a reply."""

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

    def begin(self, what, amount):
        self.process.stdin.write(f"{what} {amount}\n")

    def end(self):
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError("the driver has ended")
        return [float(word) for word in answer.split()]

    def order(self, what, amount):
        self.begin(what, amount)
        return self.end()


class Cluster:
    """A cluster on this machine with a console, a driver, and the clocks of all its processes."""

    def __init__(self, mobula, directory, cpus):
        self.mobula = mobula
        self.directory = directory
        self.environment = dict(os.environ, MOBULA_STATE_DIR=directory, XDG_RUNTIME_DIR=directory)
        for name in ("MOBULA_ADDRESS", "MOBULA_KEY_FILE", "MOBULA_TOKEN", "MOBULA_CLUSTER"):
            self.environment.pop(name, None)
        started = subprocess.run([mobula, "start", "--head", "--num-cpus", str(cpus), "--http", "0", "-o", "json"],
                                 env=self.environment, stdout=subprocess.PIPE, text=True, check=True)
        self.environment["MOBULA_ADDRESS"] = json.loads(started.stdout)["address"]
        status = json.loads(self.command("status", "-o", "json"))
        self.http = status["http"]["url"].split("//")[1]
        with open(status["http"]["token_file"], encoding="utf-8") as file:
            self.token = file.read().strip()
        self.driver = Driver(os.path.join(os.path.dirname(mobula), "mobula-bench-polled-tasks"), self.environment)
        self.console = Console(mobula, self.environment)
        self.driver.order("run", 0.5)  # warms up caches
        self.console.ask("status")
        self.find_processes()

    def command(self, *words):
        return subprocess.run([self.mobula, *words], env=self.environment, stdout=subprocess.PIPE, check=True).stdout

    def page(self, path):
        connection = http.client.HTTPConnection(self.http, timeout=30)
        connection.request("GET", path, headers={"Authorization": f"Bearer {self.token}"})
        answer = connection.getresponse()
        if answer.status != 200:
            raise RuntimeError(f"{path}: {answer.status} {answer.read()[:200]}")
        answer.read()
        connection.close()

    def find_processes(self):
        """Records the role of each process of the cluster."""
        with open(os.path.join(self.directory, "default", "head", "head.json"), encoding="utf-8") as file:
            known = {json.load(file)["pid"]: "head", self.driver.process.pid: "driver", self.console.process.pid: "client"}
        mark = f"MOBULA_STATE_DIR={self.directory}".encode()
        for entry in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{entry}/environ", "rb") as file:
                    ours = mark in file.read()
                program = os.path.basename(os.readlink(f"/proc/{entry}/exe"))
            except OSError:
                continue
            if ours:
                known.setdefault(int(entry), "executors" if "polled-tasks" in program else "agent")
        self.roles = known

    def spent(self):
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = dict.fromkeys(ROLES, 0.0)
        seconds["client"] = children.ru_utime + children.ru_stime
        for pid, role in self.roles.items():
            seconds[role] += processor_seconds(pid)
        return seconds

    def close(self):
        self.console.close()
        self.driver.process.kill()
        self.driver.process.wait()

    def stop(self):
        subprocess.run([self.mobula, "stop", "--grace", "1"], env=self.environment, stdout=subprocess.DEVNULL, check=False)


def ways(cluster, only_kept):
    """Each kind of poll: its name, and the function that polls once."""
    for question in QUESTIONS:
        yield f"{question}, kept connection", lambda question=question: cluster.console.ask(question)
    if only_kept:
        return
    for question in ("version",) + QUESTIONS:
        words = question.split() + (["--once"] if question == "top" else [])
        yield f"mobula {question}", lambda words=words: cluster.command(*words)
    for path in PAGES:
        yield f"HTTP {path}", lambda path=path: cluster.page(path)


def cost_of(cluster, query, queries, paced):
    """Milliseconds of processor time per poll by role, and the longest poll. The cost of the same time without polls is
    subtracted."""
    def spent_by(function):
        before = cluster.spent()
        if paced:
            cluster.driver.begin("pace", queries)
        longest, due = 0.0, time.monotonic()
        for _ in range(queries):
            begun = time.monotonic()
            function()
            longest = max(longest, time.monotonic() - begun)
            due += EVERY
            time.sleep(max(0.0, due - time.monotonic()))
        if paced:
            cluster.driver.end()
        after = cluster.spent()
        return {role: (after[role] - before[role]) / queries * 1000 for role in ROLES}, longest * 1000
    without, _ = spent_by(lambda: None)
    with_queries, longest = spent_by(query)
    cost = {role: with_queries[role] - without[role] for role in ROLES}
    return dict(cost, all=sum(cost.values()), longest=longest)


def costs(cluster, queries, paced, only_kept=False):
    if queries == 0:
        return {}
    time.sleep(SETTLE)
    if paced:
        cluster.driver.order("pace", 20)
    cluster.find_processes()
    return {name: cost_of(cluster, query, queries, paced) for name, query in ways(cluster, only_kept)}


def window(cluster, seconds, query):
    before = sum(cluster.spent().values())
    thread = threading.Thread(target=query)
    cluster.driver.begin("run", seconds)
    thread.start()
    tasks, took = cluster.driver.end()
    thread.join()
    return {"tasks": tasks, "rate": tasks / took, "spent": sum(cluster.spent().values()) - before, "took": took}


def interval(values, draws=2000):
    """The median and its 95 % confidence interval, by bootstrap (Efron)."""
    source = random.Random(1)
    medians = sorted(statistics.median(source.choices(values, k=len(values))) for _ in range(draws))
    low, median, high = medians[int(draws * 0.025)], statistics.median(values), medians[int(draws * 0.975)]
    return {"median": median, "low": low, "high": high, "quartiles": statistics.quantiles(values, n=4)}


def windows(cluster, count, seconds, query):
    """Polls in every second window of an odd number of windows."""
    cluster.driver.order("run", 1)
    cluster.find_processes()
    seen = [window(cluster, seconds, query if at % 2 == 1 else lambda: None) for at in range(2 * (count // 2) + 1)]
    ratios, extra = [], []
    for before, polled, after in zip(seen[0::2], seen[1::2], seen[2::2]):
        ratios.append(2 * polled["rate"] / (before["rate"] + after["rate"]))
        of_a_task = (before["spent"] + after["spent"]) / (before["tasks"] + after["tasks"])
        extra.append((polled["spent"] - polled["tasks"] * of_a_task) * 1000)
    return {"tasks_per_second": statistics.median(each["rate"] for each in seen[::2]), "pairs": len(ratios), "window_s": seconds,
            "cores_busy": statistics.median(each["spent"] / each["took"] for each in seen[::2]),
            "throughput": interval(ratios), "query_ms": interval(extra)}


def measure(arguments):
    mobula = os.path.abspath(arguments.mobula)
    with tempfile.TemporaryDirectory(prefix="mobula-poll-") as directory:
        cluster = Cluster(mobula, directory, arguments.cpus)
        try:
            found = {"idle": costs(cluster, arguments.queries, paced=False),
                     "running": costs(cluster, arguments.queries, paced=True, only_kept=True)}
            def query():
                for question in LOOK:
                    cluster.console.ask(question)
            found["windows"] = windows(cluster, arguments.windows, arguments.seconds, query)
            found["held_tasks"] = arguments.tasks
            cluster.driver.order("hold", arguments.tasks)
            found["held"] = costs(cluster, arguments.queries, paced=False)
            cluster.close()
            return found
        finally:
            cluster.stop()


def table(title, rows):
    print(f"{title:<44}" + "".join(f"{name:>10}" for name in ROLES + ("all", "longest")))
    for name, cost in rows.items():
        print(f"  {name:<42}" + "".join(f"{cost[role]:>10.2f}" for role in ROLES + ("all", "longest")))
    print()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("mobula")
    parser.add_argument("--windows", type=int, default=600, help="number of windows, at least 4")
    parser.add_argument("--seconds", type=float, default=0.2, help="seconds of a window")
    parser.add_argument("--cpus", type=int, default=os.cpu_count())
    parser.add_argument("--tasks", type=int, default=100_000, help="waiting tasks of the last table")
    parser.add_argument("--queries", type=int, default=40, help="queries of each kind; 0: windows only")
    parser.add_argument("-o", choices=("table", "json"), default="table", dest="output")
    arguments = parser.parse_args()
    arguments.windows = max(4, arguments.windows)
    found = measure(arguments)
    if arguments.output == "json":
        json.dump(found, sys.stdout)
        print()
        return
    if arguments.queries > 0:
        table("ms of one query, nothing runs", found["idle"])
        table("ms of one query, 20,000 tasks a second run", found["running"])
        table(f"ms of one query, {found['held_tasks']:,} tasks wait", found["held"])
    seen = found["windows"]
    print(f"{seen['pairs']} windows of {seen['window_s']} s with one query, each between two without: "
          f"{seen['tasks_per_second']:,.0f} tasks/s and {seen['cores_busy']:.2f} cores busy without")
    ratio, query = seen["throughput"], seen["query_ms"]
    print(f"  throughput of a window with a query {ratio['median']:.4f} of the windows next to it (95 %: {ratio['low']:.4f} to "
          f"{ratio['high']:.4f}; quartiles {ratio['quartiles'][0]:.4f} and {ratio['quartiles'][2]:.4f}); with a query a "
          f"second {1 - (1 - ratio['median']) * seen['window_s']:.4f}")
    print(f"  processor time of a query {query['median']:.1f} ms (95 %: {query['low']:.1f} to {query['high']:.1f}; quartiles "
          f"{query['quartiles'][0]:.1f} and {query['quartiles'][2]:.1f}); with a query a second "
          f"{query['median'] / 1000 / os.cpu_count():.2%} of this machine's {os.cpu_count()} cores (bar {BAR:.0%})")


if __name__ == "__main__":
    main()
