#!/usr/bin/env python3
"""Kills the processes of experiments by SIGKILL at random points, and checks how they continue.

Usage: chaos_test.py BUILD_DIRECTORY [--points N] [--seed S] [--rules pbt,asha] [--trials N] [--victims controller,head,...]

At each point it kills a random set of the controller, the head, the agents, and a trial, after a
random report. It starts them again, lets the experiment end, and requires that
- a replay of the log makes the recorded decisions, as a run without the kill,
- every trial has its result and the reason for its end, and no attempt is open,
- no placement group, executor, or checkpoint directory is left.
"""

import argparse
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time

PATIENCE = 90  # seconds; the machine may be busy
# Groups of a job that has ended without a goodbye stay for up to 35 s, so the nodes have more CPUs
# than the experiments use.
CPUS = ["--num-cpus", "64", "--object-store-memory", "64MiB"]


class Fault(Exception):
    pass


class Cluster:
    """A head with the agent "a", and further agents."""

    def __init__(self, build, others=("b",)):
        self.bin = os.path.join(os.path.abspath(build), "bin")
        self.directory = tempfile.mkdtemp(prefix="mobula-tune-chaos-", dir="/tmp")
        self.kept = {name: value for name, value in os.environ.items() if not name.startswith("MOBULA_")}
        os.mkdir(os.path.join(self.directory, "run"))
        self.mobula("start", "--head", "--driver-absence", "5", *CPUS)
        self.address = self.read("a", "head/head.json")["address"]
        for node in others:
            self.start_agent(node)
        self.others = others

    def environment(self, node="a"):
        return {**self.kept, "MOBULA_STATE_DIR": os.path.join(self.directory, node),
                "XDG_RUNTIME_DIR": os.path.join(self.directory, "run")}

    def mobula(self, *words, node="a", ok=True, timeout=PATIENCE):
        ended = subprocess.run([os.path.join(self.bin, "mobula"), *words], env=self.environment(node), text=True,
                               capture_output=True, timeout=timeout)
        if ok and ended.returncode != 0:
            raise Fault("mobula %s: %d %s" % (" ".join(words), ended.returncode, ended.stderr))
        return ended

    def read(self, node, file):
        try:
            with open(os.path.join(self.directory, node, "default", file), encoding="utf-8") as text:
                return json.load(text)
        except (OSError, ValueError):
            return {}

    def pid(self, who):
        if who == "head":
            return self.read("a", "head/head.json").get("pid", 0)
        return self.read(who, "agent/agent.json").get("pid", 0)

    def start_agent(self, node):
        self.mobula("start", "--address", self.address, *CPUS, "--key",
                    os.path.join(self.directory, "a", "default", "default.key"), node=node)

    def start_again(self, dead):
        if "head" in dead:
            self.mobula("start", "--head", "--driver-absence", "5", *(CPUS if "a" in dead else ["--no-worker"]))
        elif "a" in dead:
            self.mobula("start", "--address", self.address, *CPUS)
        for node in set(self.others) & set(dead):
            self.start_agent(node)

    def items(self, kind):
        return json.loads(self.mobula("list", kind, "-o", "json").stdout)["items"]

    def close(self, keep):
        for node in self.others:
            self.mobula("stop", "--grace", "1", node=node, ok=False)
        self.mobula("stop", "--grace", "1", ok=False)
        left = wait_for(lambda: not self.processes(), 10) or self.processes()
        for pid in self.processes():
            os.kill(pid, signal.SIGKILL)
        if not keep:
            shutil.rmtree(self.directory, ignore_errors=True)
        if left is not True:
            raise Fault("processes are left: %s" % left)

    def processes(self):
        found = []
        for name in os.listdir("/proc"):
            try:
                with open("/proc/%s/environ" % name, "rb") as file:
                    if name.isdigit() and int(name) != os.getpid() and self.directory.encode() in file.read():
                        found.append(int(name))
            except OSError:
                continue
        return found


def wait_for(holds, seconds=PATIENCE):
    until = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


class Controller:
    def __init__(self, cluster, words):
        self.lines = []
        self.changed = threading.Condition()
        self.error = tempfile.TemporaryFile(mode="w+")
        self.process = subprocess.Popen([os.path.join(cluster.bin, "tune_chaos_driver"), *words], text=True,
                                        env={**cluster.environment(), "MOBULA_ADDRESS": cluster.address},
                                        stdout=subprocess.PIPE, stderr=self.error)
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            with self.changed:
                self.lines.append(line.split())
                self.changed.notify_all()
        with self.changed:
            self.lines.append([])
            self.changed.notify_all()

    def ended(self):
        return bool(self.lines) and not self.lines[-1]

    def wait_for_report(self, count):
        """The process of the last report, or None without a report."""
        with self.changed:
            self.changed.wait_for(lambda: self.ended() or len(self.lines) >= count, PATIENCE + count)
            processes = [int(line[2]) for line in self.lines if line and line[0] == "report"]
            return processes[-1] if processes else None

    def finish(self, patience=PATIENCE):
        try:
            code = self.process.wait(patience)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            code = "no end after %d s" % patience
        self.reader.join()
        self.error.seek(0)
        return code, self.error.read()


def kill(pid):
    if pid:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def play(cluster, rule, options, draw, point):
    storage = os.path.join(cluster.directory, "storage-%d" % point)
    words = [storage, rule, str(options.trials)] + (["relaxed"] if draw.random() < 0.3 else [])
    victims = draw.sample(options.victims, min(len(options.victims), draw.choice([1, 1, 2, 5])))
    if not {"trial", "a", "b"} & set(victims):
        words.append("once")
    count = draw.randint(1, max(2, options.trials * (4 if rule == "asha" else 8)))
    text = "point %d: %s %s, kill %s after %d lines" % (point, rule, words[3:], ",".join(sorted(victims)), count)
    controller = Controller(cluster, words)
    trial = controller.wait_for_report(count)
    if trial is None:
        code, error = controller.finish()
        raise Fault("%s: the experiment does not begin: %s %s" % (text, code, error))
    for victim in victims:
        if victim == "controller":
            controller.process.kill()
        else:
            kill(trial if victim == "trial" else cluster.pid(victim))
    dead = [each for each in victims if each in ("head", "a", "b")]
    wait_for(lambda: not any(alive(cluster.pid(each)) for each in dead))
    cluster.start_again(dead)
    patience = PATIENCE + 2 * options.trials
    code, error = controller.finish(patience)
    if code != 0 and "controller" in victims:
        controller = Controller(cluster, words)
        code, error = controller.finish(patience)
    if code != 0:
        raise Fault("%s: the controller ended with %s: %s" % (text, code, error))
    if "decides differently" in error:
        raise Fault("%s: %s" % (text, error))
    check(cluster, rule, storage, options, controller, text)
    check_reasons(cluster, rule, storage, options, text)
    shutil.rmtree(storage)
    return text


def alive(pid):
    try:
        with open("/proc/%d/stat" % pid, encoding="utf-8") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def check(cluster, rule, storage, options, controller, text):
    results = [line for line in controller.lines if line and line[0] == "result"]
    if len(results) != options.trials:
        raise Fault("%s: %d results" % (text, len(results)))
    for _, trial, step, iteration, error in results:
        if error != "''" or step != iteration:
            raise Fault("%s: trial %s has step %s, iteration %s, error %s" % (text, trial, step, iteration, error))
    replayed = subprocess.run([os.path.join(cluster.bin, "mobula"), "tune", "replay", rule, "--storage", storage, "-o", "json"],
                              text=True, capture_output=True, timeout=PATIENCE,
                              env={**cluster.environment(), "MOBULA_ADDRESS": cluster.address})
    try:
        replay = json.loads(replayed.stdout)
    except ValueError:
        raise Fault("%s: replay: %d %s" % (text, replayed.returncode, replayed.stderr)) from None
    if replay["differing"] != 0 or replay["compared"] != replay["events"] or replay["events"] == 0:
        raise Fault("%s: replay: %s" % (text, replayed.stdout))
    database = sqlite3.connect("file:%s/%s/experiment.sqlite?mode=ro" % (storage, rule), uri=True)
    if database.execute("SELECT count(*) FROM trial WHERE state<>'terminated'").fetchone()[0] != 0:
        raise Fault("%s: a trial has not ended" % text)
    open_attempts = database.execute("SELECT trial,n FROM attempt WHERE ended_ms=0").fetchall()
    if open_attempts:
        raise Fault("%s: open attempts: %s" % (text, open_attempts))
    # Each attempt has its own process. Numbers of processes return only after thousands of them.
    owners = {}
    for trial, n, node, pid in database.execute("SELECT trial,n,node,pid FROM attempt WHERE pid<>0"):
        if options.trials < 20 and owners.setdefault((node, pid), (trial, n)) != (trial, n):
            raise Fault("%s: attempt %s of trial %s has the process of attempt %s" % (text, n, trial, owners[node, pid]))
    rows = {row[0] for row in database.execute("SELECT place FROM checkpoint")}
    database.close()
    location = os.path.join(storage, rule, "checkpoints")
    found = {os.path.join(location, name) for name in os.listdir(location)}
    if rows != found:
        raise Fault("%s: checkpoints without row: %s, rows without checkpoint: %s" % (text, found - rows, rows - found))


def check_reasons(cluster, rule, storage, options, text):
    for trial in range(min(options.trials, 6)):
        words = ["tune", "explain", rule, str(trial), "--storage", storage, "-o", "json"]
        reason = json.loads(cluster.mobula(*words).stdout)["reason"]
        if not any(reason.startswith(each) for each in ("completed", "stopped at rung ", "stopped at time ")):
            raise Fault("%s: trial %d has the reason '%s'" % (text, trial, reason))


def check_cluster(cluster):
    def left():
        return [each for each in cluster.items("placement-groups") if each["state"] != "REMOVED"] + [
            each for each in cluster.items("actors") if each["state"] != "DEAD"] + cluster.items("leases")

    if not wait_for(lambda: not left(), 150):
        raise Fault("left: %s" % left())


def run_on(cluster, run):
    """Runs a test on the cluster, checks the cluster, and ends it. Exits with 1 after a fault."""
    failed = True
    try:
        run(cluster)
        check_cluster(cluster)
        failed = False
    except Fault as fault:
        print("FAILED %s; state in %s" % (fault, cluster.directory))
    finally:
        cluster.close(failed)
    sys.exit(1 if failed else 0)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--points", type=int, default=4)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--trials", type=int, default=6)
    parser.add_argument("--rules", default="pbt,asha")
    parser.add_argument("--victims", default="controller,head,a,b,trial")
    parser.add_argument("--keep-going", action="store_true")
    options = parser.parse_args()
    options.victims = options.victims.split(",")
    rules = options.rules.split(",")
    cluster = Cluster(options.build)
    failed = 0
    try:
        for point in range(options.first, options.first + options.points):
            draw = random.Random(options.seed * 1000003 + point)
            began = time.monotonic()
            try:
                print("%s: %.1f s" % (play(cluster, rules[point % len(rules)], options, draw, point),
                                      time.monotonic() - began), flush=True)
            except Fault as fault:
                failed += 1
                print("FAILED %s" % fault, flush=True)
                if not options.keep_going:
                    break
        try:
            check_cluster(cluster)
        except Fault as fault:
            failed += 1
            print("FAILED %s" % fault, flush=True)
    finally:
        cluster.close(failed)
    if failed:
        print("%d points failed; state in %s" % (failed, cluster.directory))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
