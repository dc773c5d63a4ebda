#!/usr/bin/env python3
"""Tests the autoscaler with the provider `local`: real head, agents, and jobs on this machine.

Usage: autoscale.py BUILD_DIRECTORY [TEST...]
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

MOBULA = os.path.join(os.path.abspath(sys.argv[1]), "bin", "mobula")
PATIENCE = 120  # seconds; the machine may be busy

TYPES = """
max_workers: 3
idle_timeout_minutes: 0.02
launch_timeout_minutes: 2
absent_timeout_seconds: 1
provider: {type: local, directory: %s}
available_node_types:
  cpu:
    resources: {CPU: 1}
    max_workers: 2
    node_config: {flags: ["--object-store-memory", "64MiB"]}
  gpu:
    resources: {CPU: 1, GPU: 1}
    accelerator_type: T
    max_workers: 1
    node_config: {flags: ["--object-store-memory", "64MiB"]}
"""


# Calls the provider `local`, except for launches while the file FAULTS names a fault.
FAULTY_PROVIDER = """#!/usr/bin/env python3
import json, os, signal, subprocess, sys
mobula, path, text = sys.argv[1], sys.argv[2], sys.stdin.read()
faults = []
if json.loads(text)["call"] == "launch" and os.path.exists(path):
    with open(path, encoding="utf-8") as file:
        faults = file.read().split()
    with open(path, "w", encoding="utf-8") as file:
        file.write(" ".join(faults[1:]))
if faults[:1] == ["flood"]:
    sys.stdout.write("x" * (10 << 20))
elif faults[:1] == ["death"]:
    print("the disk is full", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
elif faults[:1] == ["bytes"]:
    sys.stderr.buffer.write(b"Ger\\xe4t \\x1b[31m fehlt" + b"\\xf0\\x9f" * 400)
    sys.exit(3)
elif faults[:1] == ["capacity"]:
    print(json.dumps({"error": {"kind": "capacity", "text": "no machines today"}}))
else:
    sys.exit(subprocess.run([mobula, "provider", "local"], input=text, text=True).returncode)
"""


class Autoscale(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="mobula-autoscale-", dir="/tmp")
        self.fleet = os.path.join(self.directory, "fleet")
        self.types = os.path.join(self.directory, "types.yaml")
        self.faults = os.path.join(self.directory, "faults")
        types = TYPES % self.fleet
        if "faulty" in self.id():
            program = os.path.join(self.directory, "provider.py")
            with open(program, "w", encoding="utf-8") as file:
                file.write(FAULTY_PROVIDER)
            words = json.dumps([sys.executable, program, MOBULA, self.faults])
            types = types.replace("type: local", "type: command, command: " + words)
        with open(self.types, "w", encoding="utf-8") as file:
            file.write(types)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("MOBULA_")}
        self.env = {**kept, "MOBULA_STATE_DIR": os.path.join(self.directory, "a")}
        self.mobula("start", "--head", "--no-worker", "--autoscale", self.types)

    def tearDown(self):
        self.mobula("stop", "--grace", "0", ok=False)
        for pid in self.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        failed = any(error for _, error in getattr(self._outcome, "errors", []))
        if failed:
            log = os.path.join(self.directory, "a", "default", "mobula.log")
            if os.path.exists(log):
                with open(log, encoding="utf-8") as file:
                    print(file.read()[-8000:], file=sys.stderr)
        shutil.rmtree(self.directory, ignore_errors=True)

    def mobula(self, *words, ok=True):
        ended = subprocess.run([MOBULA, *words], env=self.env, text=True, capture_output=True, timeout=PATIENCE)
        if ok:
            self.assertEqual(ended.returncode, 0, ended.stderr)
        return ended

    def eventually(self, what, why="in vain"):
        until = time.monotonic() + PATIENCE
        while not what():
            self.assertLess(time.monotonic(), until, why)
            time.sleep(0.1)

    # Processes of this test's head and agents, found by their environment.
    def processes(self):
        found = []
        for name in os.listdir("/proc"):
            if not name.isdigit() or int(name) == os.getpid():
                continue
            try:
                with open("/proc/%s/cmdline" % name, "rb") as file:
                    words = file.read()
                with open("/proc/%s/environ" % name, "rb") as file:
                    words += file.read()
            except OSError:
                continue
            if self.directory.encode() in words:
                found.append(int(name))
        return found

    def named(self, name):
        for pid in self.processes():
            try:
                with open("/proc/%d/comm" % pid, encoding="utf-8") as file:
                    if file.read().strip() == name:
                        yield pid
            except OSError:
                continue

    def nodes(self):
        items = json.loads(self.mobula("list", "nodes", "-o", "json").stdout)["items"]
        return [each for each in items if each["state"] in ("ALIVE", "DRAINING") and "mobula.io/instance" in each.get("labels", {})]

    def types_of_nodes(self):
        return sorted(each["labels"]["mobula.io/node-group"] for each in self.nodes())

    def submit(self, name, script, *flags):
        self.mobula("submit", "--no-wait", "--name", name, "--num-cpus", "1", *flags, "--", "sh", "-c", script)

    def state_of(self, name):
        return json.loads(self.mobula("job", "status", name, "-o", "json").stdout)["state"]

    def kinds_of_events(self):
        return {each["kind"] for each in json.loads(self.mobula("events", "-o", "json").stdout)["items"]}

    def instances(self):
        if not os.path.isdir(self.fleet):
            return []
        return [each for each in os.listdir(self.fleet) if each.startswith("mobula-")]

    def test_launches_type_with_accelerator_and_gives_it_back(self):
        self.submit("train", "exit 0", "--num-gpus", "1", "--accelerator-type", "T")
        self.eventually(lambda: "autoscaler:" in self.mobula("status").stdout)
        self.eventually(lambda: self.state_of("train") == "SUCCEEDED")
        self.assertEqual(set(self.types_of_nodes()) - {"gpu"}, set())
        self.eventually(lambda: not self.nodes() and not self.instances(), "the idle node stays")
        self.eventually(lambda: {"NODE_LAUNCHED", "NODE_GIVEN_BACK"} <= self.kinds_of_events())

    def test_impossible_request_fails_at_once(self):
        self.eventually(lambda: "autoscaler: idle" in self.mobula("status").stdout)
        started = time.monotonic()
        self.submit("huge", "exit 0", "--num-gpus", "9")
        self.eventually(lambda: self.state_of("huge") == "FAILED")
        explained = self.mobula("describe", "job", "huge", ok=False).stdout
        self.assertIn("no node type holds it", explained)
        self.assertLess(time.monotonic() - started, PATIENCE)

    def test_killed_autoscaler_and_agents_leave_no_orphan(self):
        self.submit("one", "sleep 2")
        self.submit("two", "sleep 2")
        for _ in range(3):
            self.eventually(lambda: list(self.named("mobula-scale")))
            for pid in self.named("mobula-scale"):
                os.kill(pid, signal.SIGKILL)
            self.eventually(lambda: list(self.named("mobula-scale")))
            self.assertLessEqual(len(self.instances()), 2, "more instances than the maximum")
        self.eventually(lambda: self.state_of("one") == "SUCCEEDED" and self.state_of("two") == "SUCCEEDED")
        self.eventually(lambda: not self.nodes() and not self.instances(), "an instance stays")

    def test_killed_head_and_agent_leave_no_orphan(self):
        self.submit("long", "sleep 3", "--retries", "3")
        self.eventually(lambda: self.state_of("long") == "RUNNING")
        for pid in self.named("mobula-head"):
            os.kill(pid, signal.SIGKILL)
        self.eventually(lambda: not list(self.named("mobula-head")))
        kept = self.instances()
        self.mobula("start", "--head", "--no-worker", "--autoscale", self.types)
        self.eventually(lambda: "autoscaler: " in self.mobula("status").stdout)
        self.assertLessEqual(set(kept), set(self.instances()), "a restart of the head ends no instance")
        for pid in self.named("mobula-agent"):
            os.kill(pid, signal.SIGKILL)
        self.eventually(lambda: self.state_of("long") == "SUCCEEDED")
        # The directory of the killed agent keeps its log.
        self.eventually(lambda: not self.nodes() and not list(self.named("mobula-agent")), "an agent stays")

    def test_faulty_provider_launches_once(self):
        with open(self.faults, "w", encoding="utf-8") as file:
            file.write("flood death")
        self.submit("one", "exit 0")
        self.eventually(lambda: self.state_of("one") == "SUCCEEDED")
        # The autoscaler reports its events after those of the head.
        self.eventually(lambda: "NODE_LAUNCHED" in self.kinds_of_events())
        rows = json.loads(self.mobula("events", "-o", "json").stdout)["items"]
        failures = " ".join(json.dumps(row) for row in rows if row["kind"] == "LAUNCH_FAILED")
        for text in ("transient", "wrote more than 8388608 bytes", "was ended by signal 9; stderr: the disk is full"):
            self.assertIn(text, failures)
        launched = [row for row in rows if row["kind"] == "NODE_LAUNCHED"]
        self.assertEqual(len(launched), 1, launched)
        self.eventually(lambda: not self.nodes() and not self.instances(), "the idle node stays")
        with open(self.faults, "w", encoding="utf-8") as file:
            file.write("capacity")
        self.submit("two", "exit 0")
        self.eventually(lambda: "cpu closed for" in self.mobula("status").stdout)
        self.assertIn("capacity (no machines today)", self.mobula("autoscaler", "status").stdout)
        self.mobula("autoscaler", "resume", "cpu")
        self.eventually(lambda: self.state_of("two") == "SUCCEEDED")

    def test_faulty_provider_without_capacity_other_type_serves(self):
        self.eventually(lambda: "autoscaler: idle" in self.mobula("status").stdout)
        with open(self.faults, "w", encoding="utf-8") as file:
            file.write("capacity")
        self.submit("one", "exit 0")
        self.eventually(lambda: self.state_of("one") == "SUCCEEDED")
        self.eventually(lambda: {"NODE_LAUNCHED", "LAUNCH_FAILED"} <= self.kinds_of_events())
        rows = json.loads(self.mobula("events", "-o", "json").stdout)["items"]
        self.assertIn("no machines today", next(row["text"] for row in rows if row["kind"] == "LAUNCH_FAILED"))
        launched = [row["text"] for row in rows if row["kind"] == "NODE_LAUNCHED"]
        self.assertEqual(len(launched), 1, launched)
        self.assertIn("gpu", launched[0])

    def test_faulty_provider_writes_no_utf8(self):
        """Its text reaches the events, and the autoscaler lives on."""
        self.eventually(lambda: "autoscaler: idle" in self.mobula("status").stdout)
        before = set(self.named("mobula-scale"))
        with open(self.faults, "w", encoding="utf-8") as file:
            file.write("bytes")
        self.submit("one", "exit 0")
        self.eventually(lambda: self.state_of("one") == "SUCCEEDED")
        self.eventually(lambda: "LAUNCH_FAILED" in self.kinds_of_events())
        rows = json.loads(self.mobula("events", "-o", "json").stdout)["items"]
        self.assertIn("exited with 3; stderr: \ufffd", next(row["text"] for row in rows if row["kind"] == "LAUNCH_FAILED"))
        self.assertEqual(set(self.named("mobula-scale")), before, "the autoscaler has restarted")

    def test_paused_type_is_not_launched(self):
        self.eventually(lambda: "autoscaler: idle" in self.mobula("status").stdout)
        self.mobula("autoscaler", "pause", "cpu")
        self.assertIn("cpu paused", self.mobula("status").stdout)
        self.assertIn("cpu: no instances; closed: paused", self.mobula("autoscaler", "status").stdout)
        self.assertNotEqual(self.mobula("autoscaler", "pause", "tpu", ok=False).returncode, 0)
        # An order is executed when its command returns: no instance of the type starts later.
        self.mobula("autoscaler", "pause", "gpu")
        self.submit("train", "exit 0", "--num-gpus", "1", "--accelerator-type", "T")
        self.eventually(lambda: "gpu is closed: paused by an operator" in self.mobula("explain", "train", ok=False).stdout)
        self.assertIn("not cpu: GPU: needs 1", self.mobula("explain", "train", ok=False).stdout)
        self.assertEqual(self.state_of("train"), "PENDING")
        self.mobula("autoscaler", "resume", "gpu")
        self.eventually(lambda: self.state_of("train") == "SUCCEEDED")
        self.submit("later", "exit 0")
        self.mobula("autoscaler", "resume", "cpu")
        self.eventually(lambda: self.state_of("later") == "SUCCEEDED")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
