#!/usr/bin/env python3
"""Tests SIGTERM to a node, as `up` and services send it: running work gets its grace, and no more.

Usage: drain.py BUILD_DIRECTORY [TEST...]
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

MOBULA = os.path.join(os.path.abspath(sys.argv[1]), "bin", "mobula")
PATIENCE = 120  # seconds; the machine may be busy


class Drain(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="mobula-drain-", dir="/tmp")
        self.env = {name: value for name, value in os.environ.items() if not name.startswith("MOBULA_")}
        self.mobula("start", "--head", "--no-worker")
        with open(os.path.join(self.directory, "a", "default", "head", "head.json"), encoding="utf-8") as file:
            self.address = json.load(file)["address"]

    def tearDown(self):
        for node in ("b", "a"):
            self.mobula("stop", "--grace", "0", node=node, ok=False)
        shutil.rmtree(self.directory, ignore_errors=True)

    def mobula(self, *words, node="a", ok=True):
        ended = subprocess.run([MOBULA, *words], env={**self.env, "MOBULA_STATE_DIR": os.path.join(self.directory, node)},
                               text=True, capture_output=True, timeout=PATIENCE)
        if ok:
            self.assertEqual(ended.returncode, 0, ended.stderr)
        return ended

    def eventually(self, what):
        until = time.monotonic() + PATIENCE
        while not what():
            self.assertLess(time.monotonic(), until, "in vain")

    def start_node(self, grace):
        self.mobula("start", "--address", self.address, "--key", os.path.join(self.directory, "a", "default", "default.key"),
                    "--num-cpus", "1", "--grace", grace, node="b")
        running = os.path.join(self.directory, "b", "default", "running")
        (record,) = os.listdir(running)
        return int(record.removesuffix(".json"))

    def submit(self, script, *flags):
        self.mobula("submit", "--no-wait", "--name", "job", "--num-cpus", "1", *flags, "--", "sh", "-c", script)
        self.eventually(lambda: self.job()["state"] == "RUNNING")

    def job(self):
        return json.loads(self.mobula("job", "status", "job", "-o", "json").stdout)

    def states(self):
        return [each["state"] for each in json.loads(self.mobula("list", "nodes", "-o", "json").stdout)["items"]]

    def runs(self, pid):
        try:
            with open("/proc/%d/stat" % pid, encoding="utf-8") as file:
                return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
        except (FileNotFoundError, ProcessLookupError):
            return False

    def test_running_tasks_may_finish_within_the_grace(self):
        supervisor = self.start_node("1000")
        going = os.path.join(self.directory, "go")
        # The work is notified, because it may save its state, and continues.
        self.submit("trap 'touch %s/told' TERM; until test -e %s; do sleep 0.05; done; exit 4" % (self.directory, going), "--grace", "900")
        os.kill(supervisor, signal.SIGTERM)
        self.eventually(lambda: "DRAINING" in self.states())
        self.assertEqual(self.job()["state"], "RUNNING")
        explained = self.mobula("explain", '{"num_cpus": 1}')
        self.assertIn("drain", explained.stdout, "no more work is placed there until `undrain`")
        self.assertTrue(self.runs(supervisor))
        open(going, "w", encoding="utf-8").close()
        self.eventually(lambda: not self.runs(supervisor))
        self.assertEqual(self.job()["exit_code"], 4)

    def test_unfinished_tasks_end_with_the_grace(self):
        supervisor = self.start_node("1")
        self.submit("trap '' TERM; echo $$ >%s/pid; while :; do sleep 0.05; done" % self.directory, "--grace", "0.1")
        said = os.path.join(self.directory, "pid")
        self.eventually(lambda: os.path.exists(said) and os.path.getsize(said) > 0)
        with open(said, encoding="utf-8") as file:
            program = int(file.read())
        os.kill(supervisor, signal.SIGTERM)
        self.eventually(lambda: not self.runs(supervisor))
        self.eventually(lambda: not self.runs(program))
        self.assertNotEqual(self.job()["state"], "RUNNING")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
