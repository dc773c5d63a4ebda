#!/usr/bin/env python3
"""Tests the provider `local` with real agents: calls of the contract, and SIGKILL at every step.

Usage: local_provider_test.py MOBULA [TEST...]
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

MOBULA = os.path.abspath(sys.argv[1])
TIMEOUT = 120  # seconds; the machine may be busy
MARK = b"MOBULA_FLEET_INSTANCE="


class LocalProvider(unittest.TestCase):
    def setUp(self):
        self.work = tempfile.mkdtemp(prefix="mobula-local-", dir="/tmp")
        self.directory = os.path.join(self.work, "fleet")
        self.env = {name: value for name, value in os.environ.items() if not name.startswith("MOBULA_")}
        self.env["MOBULA_STATE_DIR"] = os.path.join(self.work, "head")

    def tearDown(self):
        for name in self.states():
            self.call("end", instances=[{"name": name}])
        for pid in self.marked():
            os.kill(pid, signal.SIGKILL)
        if os.path.exists(os.path.join(self.work, "head", "default")):
            self.mobula("stop", "--grace", "0")
        shutil.rmtree(self.work, ignore_errors=True)

    def mobula(self, *words, text=""):
        done = subprocess.run([MOBULA, *words], env=self.env, input=text, text=True, capture_output=True, timeout=TIMEOUT)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def request(self, call, **members):
        settings = {"type": "local", "directory": self.directory, **members.pop("settings", {})}
        return json.dumps({"version": 1, "call": call, "cluster": "default", "cluster_id": "t1", "settings": settings, **members})

    def call(self, call, **members):
        return json.loads(self.mobula("provider", "local", call, text=self.request(call, **members)))

    def instance(self, number, **more):
        name = f"mobula-t1-{number}"
        return {"name": name, "type": "small", "ticket": "mobula-no-token",
                "labels": {"mobula.io/instance": name, "mobula.io/node-group": "small"}, "resources": {"CPU": 1}, **more}

    def states(self):
        answer = self.call("list")
        self.assertTrue(answer["complete"])
        return {row["name"]: row["state"] for row in answer["instances"]}

    def marked(self):
        """Processes of this test's instances."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    if MARK + self.directory.encode() in file.read():
                        found.append(int(pid))
            except OSError:
                continue
        return found

    def sleeping(self, seconds):
        """Processes `sleep SECONDS`."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    words = file.read().split(b"\0")
            except OSError:
                continue
            if words[:2] == [b"sleep", seconds.encode()]:
                found.append(int(pid))
        return found

    def eventually(self, condition, what):
        until = time.monotonic() + TIMEOUT
        while not condition():
            self.assertLess(time.monotonic(), until, f"not in time: {what}")

    def start_head(self):
        self.mobula("start", "--head", "--no-worker")
        with open(os.path.join(self.work, "head", "default", "head", "head.json"), encoding="utf-8") as file:
            return json.load(file)["address"]

    def ticket(self, name):
        return json.loads(self.mobula("token", "create", "--role", "agent", "--name", name, "-o", "json"))["token"]

    def nodes(self):
        rows = json.loads(self.mobula("list", "nodes", "-o", "json"))["items"]
        return {row["labels"]["mobula.io/instance"]: row for row in rows
                if row["state"] == "ALIVE" and "mobula.io/instance" in row.get("labels", {})}

    def test_agent_joins_and_ends(self):
        self.start_head()
        launched = self.call("launch", instances=[self.instance(1, ticket=self.ticket("one"))])
        (answer,) = launched["instances"]
        self.assertNotIn("error", answer)
        again = self.call("launch", instances=[self.instance(1, ticket="another")])
        self.assertEqual(again["instances"][0]["ref"], answer["ref"], "a repeated launch is the same instance")
        self.eventually(lambda: "mobula-t1-1" in self.nodes(), "the node joins")
        node = self.nodes()["mobula-t1-1"]
        self.assertEqual(node["labels"]["mobula.io/node-group"], "small")
        self.eventually(lambda: self.states() == {"mobula-t1-1": "running"}, "the list shows it")
        row = self.call("list")["instances"][0]
        self.assertEqual((row["ref"], row["type"]), (answer["ref"], "small"))
        other = self.call("end", instances=[{"name": "mobula-t1-1", "ref": "1.1"}])
        self.assertNotIn("error", other["instances"][0])
        self.assertEqual(self.states(), {"mobula-t1-1": "running"}, "another ref ends nothing")
        self.call("end", instances=[{"name": "mobula-t1-1", "ref": answer["ref"]}])
        self.eventually(lambda: self.states() == {}, "the instance ends")
        self.assertEqual(self.marked(), [])
        self.assertEqual(os.listdir(self.directory), ["lock"])
        ended = self.call("end", instances=[{"name": "mobula-t1-1", "ref": answer["ref"]}])
        self.assertNotIn("error", ended["instances"][0], "the end of an absent instance succeeds")

    def test_dead_agent_is_reported_and_removed(self):
        address = self.start_head()
        self.assertTrue(address)
        self.call("launch", instances=[self.instance(1, ticket=self.ticket("one"))])
        self.eventually(lambda: self.states() == {"mobula-t1-1": "running"}, "the node joins")
        for pid in self.marked():
            os.kill(pid, signal.SIGKILL)
        self.eventually(lambda: self.states() == {"mobula-t1-1": "failed"}, "the list reports it")
        self.assertIn("the agent exited", self.call("list")["instances"][0]["reason"])
        self.call("end", instances=[{"name": "mobula-t1-1"}])
        self.assertEqual(self.states(), {})

    def test_killed_shim_leaves_no_process(self):
        """The process above the agent is killed while a job runs."""
        self.start_head()
        ref = self.call("launch", instances=[self.instance(1, ticket=self.ticket("one"))])["instances"][0]["ref"]
        self.eventually(lambda: self.states() == {"mobula-t1-1": "running"}, "the node joins")
        seconds = str(10**6 + os.getpid())
        self.mobula("submit", "--no-wait", "--", "sleep", seconds)
        self.eventually(lambda: self.sleeping(seconds), "the job runs")
        os.kill(int(ref.split(".")[0]), signal.SIGKILL)
        self.eventually(lambda: self.states() == {"mobula-t1-1": "failed"}, "the list reports it")
        self.assertEqual((self.marked(), self.sleeping(seconds)), ([], []))

    def test_failed_start_has_a_reason(self):
        self.call("launch", instances=[self.instance(1, config={"flags": ["--no-such-flag"]})])
        self.eventually(lambda: self.states() == {"mobula-t1-1": "failed"}, "the list reports it")
        self.assertIn("--no-such-flag", self.call("list")["instances"][0]["reason"])

    def test_limits_and_wrong_settings(self):
        answer = self.call("launch", settings={"max_instances": 1},
                           instances=[self.instance(1, config={"flags": ["--no-such-flag"]}), self.instance(2)])
        self.assertNotIn("error", answer["instances"][0])
        self.assertEqual(answer["instances"][1]["error"]["kind"], "capacity")
        self.assertEqual(self.call("describe", settings={"max_instances": -1})["error"]["kind"], "invalid")
        self.assertEqual(self.call("describe")["provider"], "local")
        bare = self.call("launch", instances=[self.instance(3, ticket="")])
        self.assertEqual(bare["instances"][0]["error"]["kind"], "invalid")

    def test_killed_launch_leaves_no_hidden_agent(self):
        """SIGKILL at 25 moments of a launch: every process that exists afterwards has a row."""
        address = self.start_head()
        text = self.request("launch", head=address, instances=[self.instance(n) for n in range(4)])
        begin = time.monotonic()
        subprocess.run([MOBULA, "provider", "local"], env=self.env, input=text, text=True, capture_output=True, timeout=TIMEOUT)
        whole = time.monotonic() - begin
        for step in range(25):
            for name in self.states():
                self.call("end", instances=[{"name": name}])
            for pid in self.marked():
                os.kill(pid, signal.SIGKILL)
            self.eventually(lambda: self.states() == {}, "the earlier instances end")
            with open(os.path.join(self.work, "request"), "w", encoding="utf-8") as file:
                file.write(text)
            with open(file.name, encoding="utf-8") as file:
                provider = subprocess.Popen([MOBULA, "provider", "local"], env=self.env, stdin=file, stdout=subprocess.DEVNULL,
                                            stderr=subprocess.DEVNULL)
            try:
                provider.wait(whole * step / 24)
            except subprocess.TimeoutExpired:
                pass
            provider.kill()
            provider.wait()
            listed = set(self.states())
            running = {os.path.basename(self.mark_of(pid)) for pid in self.marked()} - {None}
            self.assertLessEqual(running - {""}, listed, f"step {step}")

    def mark_of(self, pid):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                for variable in file.read().split(b"\0"):
                    if variable.startswith(MARK):
                        return variable[len(MARK):].decode()
        except OSError:
            pass
        return ""


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
