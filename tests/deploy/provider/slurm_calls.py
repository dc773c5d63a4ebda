#!/usr/bin/env python3
"""Tests the provider `slurm` against the Slurm of SLURM_CONF, which tests/deploy/slurm.sh starts.

Usage: slurm_calls.py MOBULA TEMPLATE STEADY_TASKS DIRECTORY [TEST...]
"""

import json
import os
import subprocess
import sys
import time
import unittest

MOBULA, TEMPLATE, STEADY_TASKS, DIRECTORY = (os.path.abspath(each) for each in sys.argv[1:5])
TIMEOUT = 150  # seconds; the machine may be busy


class SlurmCalls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.state = os.path.join(DIRECTORY, "fleet-head")
        cls.directory = os.path.join(DIRECTORY, "fleet")
        subprocess.run([MOBULA, "start", "--head", "--no-worker", "--state-dir", cls.state], check=True, timeout=TIMEOUT)

    @classmethod
    def tearDownClass(cls):
        subprocess.run(["scancel", "--quiet", "--me"], check=False, timeout=TIMEOUT)
        subprocess.run([MOBULA, "stop", "--grace", "0", "--state-dir", cls.state], check=False, timeout=TIMEOUT)

    def tearDown(self):
        for name in self.rows():
            self.call("end", instances=[{"name": name, "ref": ""}])
        self.eventually(lambda: not self.rows(), "all jobs end")

    def mobula(self, *words, text=""):
        done = subprocess.run([MOBULA, *words], input=text, text=True, capture_output=True, timeout=TIMEOUT)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def call(self, call, settings=None, **members):
        request = {"version": 1, "call": call, "cluster": "default", "cluster_id": "s1",
                   "settings": {"type": "slurm", "directory": self.directory, "template": TEMPLATE, **(settings or {})}, **members}
        return json.loads(self.mobula("provider", "slurm", call, text=json.dumps(request)))

    def instance(self, number, **more):
        name = f"mobula-s1-{number}"
        ticket = json.loads(self.mobula("token", "create", "--role", "agent", "--name", f"{name}-{time.time_ns()}", "-o", "json",
                                        "--state-dir", self.state))["token"]
        return {"name": name, "type": "cpu", "ticket": ticket, "resources": {"CPU": 4},
                "labels": {"mobula.io/instance": name, "mobula.io/node-group": "cpu"}, **more}

    def rows(self):
        answer = self.call("list")
        self.assertTrue(answer["complete"])
        return {row["name"]: row for row in answer["instances"]}

    def nodes(self, state="ALIVE"):
        items = json.loads(self.mobula("list", "nodes", "-o", "json", "--state-dir", self.state))["items"]
        return {row["labels"].get("mobula.io/instance"): row for row in items if row["state"] == state}

    def eventually(self, condition, what):
        until = time.monotonic() + TIMEOUT
        while not condition():
            self.assertLess(time.monotonic(), until, f"not in time: {what}")

    def events(self):
        return json.loads(self.mobula("events", "-o", "json", "--state-dir", self.state))["items"]

    def test_instances_join_and_end(self):
        described = self.call("describe")
        self.assertEqual((described["provider"], described["max_pending"]), ("slurm", 4))
        wanted = [self.instance(n) for n in (1, 2)]
        answers = self.call("launch", settings={"arguments": ["--time=60"]}, instances=wanted)["instances"]
        self.assertFalse([each for each in answers if "error" in each], answers)
        again = self.call("launch", instances=[self.instance(1)])["instances"]
        self.assertEqual(again[0]["ref"], answers[0]["ref"], "a repeated launch is the same job")
        self.eventually(lambda: set(self.nodes()) == {each["name"] for each in wanted}, "both join")
        row = self.rows()["mobula-s1-1"]
        self.assertEqual((row["state"], row["type"], row["ref"]), ("running", "cpu", answers[0]["ref"]))
        self.assertLess(abs(row["ends_at"] - time.time() - 3600), 300)
        job = subprocess.run(["scontrol", "show", "job", row["ref"]], text=True, capture_output=True, check=True).stdout
        self.assertNotIn(wanted[0]["ticket"], job)
        self.call("end", instances=[{"name": "mobula-s1-1", "ref": answers[1]["ref"]}])
        self.assertEqual(self.rows()["mobula-s1-2"]["state"], "running", "another job with this number survives")
        self.call("end", instances=[{"name": each["name"], "ref": each["ref"]} for each in answers])
        self.eventually(lambda: not self.rows(), "the jobs end")
        self.eventually(lambda: not self.nodes(), "the nodes leave")
        ended = self.call("end", instances=[{"name": "mobula-s1-1", "ref": answers[0]["ref"]}])
        self.assertNotIn("error", ended["instances"][0])

    def test_pending_jobs_show_reason_and_backlog(self):
        subprocess.run(["scontrol", "update", "NodeName=n[1-3]", "State=DRAIN", "Reason=test"], check=True)
        try:
            answers = self.call("launch", instances=[self.instance(n) for n in range(5)])["instances"]
            self.assertEqual([each.get("error", {}).get("kind") for each in answers], [None] * 4 + ["capacity"])
            self.assertIn("4 jobs are pending", answers[4]["error"]["text"])
            self.assertEqual({row["state"] for row in self.rows().values()}, {"pending"})
            self.eventually(lambda: all(row.get("reason") not in (None, "None") for row in self.rows().values()), "reasons")
        finally:
            subprocess.run(["scontrol", "update", "NodeName=n[1-3]", "State=RESUME"], check=True)

    def test_rejected_submission_has_kind(self):
        answer = self.call("launch", settings={"arguments": ["--partition=none"]}, instances=[self.instance(1)])["instances"][0]
        self.assertEqual(answer["error"]["kind"], "invalid", answer)
        self.assertIn("partition", answer["error"]["text"])
        missing = self.call("describe", settings={"template": "/no/such.sbatch"})
        self.assertEqual(missing["error"]["kind"], "invalid")

    def test_time_limit_moves_running_tasks(self):
        """Slurm sends the warning to the batch shell alone. The agent drains, and no task fails, although none may be retried."""
        answers = [self.call("launch", settings=settings, instances=[self.instance(number)])["instances"][0]
                   for number, settings in ((8, {}), (9, {"arguments": ["--time=1"], "warning_s": 40}))]
        self.assertFalse([each for each in answers if "error" in each], answers)
        self.eventually(lambda: len(self.nodes()) == 2, "the nodes join")
        node = self.nodes()["mobula-s1-9"]["node_id"]
        row = self.rows()["mobula-s1-9"]

        def kinds():
            return {event["kind"] for event in self.events() if node in json.dumps(event)}
        stop = os.path.join(DIRECTORY, "stop")
        with open(os.path.join(self.state, "default", "head", "head.json"), encoding="utf-8") as file:
            address = json.load(file)["address"]
        tasks = subprocess.Popen([STEADY_TASKS, stop], env={**os.environ, "MOBULA_STATE_DIR": self.state, "MOBULA_ADDRESS": address},
                                 text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            self.eventually(lambda: kinds() & {"NODE_LEFT", "NODE_DIED"} or tasks.poll() is not None, "it leaves")
            self.assertLess(time.time(), row["ends_at"], "before the time limit")
            self.assertIn("NODE_LEFT", kinds())
            with open(stop, "w", encoding="utf-8"):
                pass
            output, errors = tasks.communicate(timeout=TIMEOUT)
        finally:
            tasks.kill()
            tasks.wait()
        self.assertEqual(tasks.returncode, 0, errors)
        self.assertGreaterEqual(int(output), 16)
        self.eventually(lambda: "mobula-s1-9" not in self.rows(), "the job ends")
        state = subprocess.run(["scontrol", "show", "job", row["ref"]], text=True, capture_output=True, check=True).stdout
        self.assertIn("JobState=COMPLETED", state)

    def test_autoscaler_submits_and_ends_jobs(self):
        types = os.path.join(DIRECTORY, "types.yaml")
        with open(types, "w", encoding="utf-8") as file:
            json.dump({"max_workers": 2, "idle_timeout_minutes": 0.02,
                       "provider": {"type": "slurm", "directory": self.directory, "template": TEMPLATE},
                       "available_node_types": {"cpu": {"resources": {"CPU": 4}, "max_workers": 2,
                                                        "node_config": {"arguments": ["--time=60"]}}}}, file)
        with open(os.path.join(DIRECTORY, "autoscale.log"), "w", encoding="utf-8") as log:
            autoscaler = subprocess.Popen([MOBULA, "autoscale", "--types", types, "--state-dir", self.state], stdout=log, stderr=log)

        def jobs():
            return subprocess.run(["squeue", "--me", "-h", "-o", "%j %T"], text=True, capture_output=True, check=True).stdout.split("\n")[:-1]
        try:
            self.mobula("submit", "--no-wait", "--name", "work", "--num-cpus", "2", "--state-dir", self.state, "--", "sh", "-c", "exit 0")
            self.eventually(lambda: json.loads(self.mobula("job", "status", "work", "-o", "json", "--state-dir", self.state))["state"]
                            == "SUCCEEDED" or autoscaler.poll() is not None, "the job runs")
            self.assertIsNone(autoscaler.poll())
            self.eventually(lambda: not jobs(), "the idle job ends")
            self.eventually(lambda: {"NODE_LAUNCHED", "NODE_GIVEN_BACK"} <= {event["kind"] for event in self.events()}, "events")
        finally:
            autoscaler.terminate()
            autoscaler.wait()
            if sys.exc_info()[0]:
                with open(os.path.join(DIRECTORY, "autoscale.log"), encoding="utf-8") as log:
                    print(log.read()[-4000:], file=sys.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[5:]])
