#!/usr/bin/env python3
"""Tests the rules of docs/api.md, sections 1 and 5, that need whole programs. The tests of a class share one cluster.

usage: commands_test.py MOBULA PROGRAM [TEST...]
"""
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

MOBULA, PROGRAM = [os.path.abspath(path) for path in sys.argv[1:3]]
TIMEOUT = 120  # seconds; the machine may be busy
FORMATS = ["table", "wide", "json", "jsonl", "yaml", "csv", "name"]


def environment(directory):
    env = {name: value for name, value in os.environ.items() if not name.startswith("MOBULA_")}
    env.update(MOBULA_STATE_DIR=os.path.join(directory, "state"), XDG_RUNTIME_DIR=os.path.join(directory, "run"), NO_COLOR="1")
    os.makedirs(env["XDG_RUNTIME_DIR"], mode=0o700, exist_ok=True)
    return env


def facts(ended):
    return dict(line.split(": ", 1) for line in ended.stdout.splitlines() if ": " in line)


class Case(unittest.TestCase):
    flags = ()

    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.mkdtemp(prefix="mobula-contract-", dir="/tmp")
        cls.env = environment(cls.directory)
        if cls.flags:
            started = cls.mobula("start", "--head", *cls.flags, "-o", "json")
            assert started.returncode == 0, started.stderr
            cls.started = json.loads(started.stdout)

    @classmethod
    def tearDownClass(cls):
        cls.mobula("stop", "--grace", "1")
        shutil.rmtree(cls.directory, ignore_errors=True)

    @classmethod
    def run_program(cls, command, env=None, **more):
        return subprocess.run(command, env={**cls.env, **(env or {})}, text=True, capture_output=True, timeout=TIMEOUT, **more)

    @classmethod
    def mobula(cls, *words, env=None):
        return cls.run_program([MOBULA, *words], env)

    def expect(self, code, *words, env=None):
        ended = self.mobula(*words, env=env)
        self.assertEqual(ended.returncode, code, f"{words}: {ended.stdout}{ended.stderr}")
        return ended


class Init(Case):
    """Section 1. Every program starts its own cluster or joins the one in `flags`."""

    flags = ("--num-cpus", "2", "--port", "0")

    def program(self, *words, env=None, code=0):
        ended = self.run_program([PROGRAM, *words], env)
        self.assertEqual(ended.returncode, code, ended.stdout + ended.stderr)
        return facts(ended)

    def test_removes_its_flags_and_leaves_the_rest(self):
        seen = self.program("a", "--mobula-num-cpus=3", "--other", "--mobula-num-gpus", "1", "b", "--", "--mobula-num-cpus=9")
        self.assertEqual(seen["words"], "a --other b -- --mobula-num-cpus=9")
        self.assertEqual((seen["CPU"], seen["GPU"]), ("3", "1"))

    def interrupted_init(self, env, stopped=None):
        """Starts init with a stopped process of the cluster, interrupts it, and lets the process continue."""
        if stopped:
            os.kill(stopped, signal.SIGSTOP)
        try:
            program = subprocess.Popen([PROGRAM, "twice"], env={**self.env, **env}, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE)
            self.assertEqual(program.stdout.readline(), "init: begins\n")
            while self.state(program.pid) != "S":
                time.sleep(0.001)
            program.send_signal(signal.SIGINT)
            first = program.stdout.readline()
        finally:
            if stopped:
                os.kill(stopped, signal.SIGCONT)
        out, err = program.communicate("again\n" if stopped else "", timeout=TIMEOUT)
        self.assertEqual(program.returncode, 0, first + out + err)
        self.assertIn("first: init: interrupted", first)
        return out

    def state(self, pid):
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(") ", 1)[1][0]

    def pid_of(self, role):
        with open(os.path.join(self.env["MOBULA_STATE_DIR"], "default", role, role + ".json")) as file:
            return json.load(file)["pid"]

    def test_interrupted_init_can_be_repeated(self):
        for role in ("agent", "head"):
            self.assertIn("second: 4", self.interrupted_init({}, self.pid_of(role)), role)

    def test_interruption_ends_start_of_agent(self):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            address = "127.0.0.1:%d" % silent.getsockname()[1]
            self.interrupted_init({"MOBULA_ADDRESS": address, "MOBULA_KEY_FILE": self.started["key_file"],
                                   "MOBULA_STATE_DIR": self.directory + "/silent"})

    def test_has_a_flag_for_every_field(self):
        seen = self.program("--mobula-num-cpus=3", "--mobula-num-gpus=2", "--mobula-gpu-memory=1GiB", "--mobula-memory=1GiB",
                            "--mobula-object-store-memory=64MiB", '--mobula-resources={"shuttle": 2}', "--mobula-accelerator-type=T",
                            "--mobula-labels=zone=a", "--mobula-job-name=named", "--mobula-name-space=ns",
                            "--mobula-env=A=b", "--mobula-log-level=warn", "--mobula-max-pending-bytes=1GiB",
                            "--mobula-job-priority=1", "--mobula-job-weight=2", '--mobula-job-quota={"CPU": 3}')
        self.assertEqual(seen["words"], "")
        self.assertEqual((seen["CPU"], seen["GPU"], seen["shuttle"], seen["zone"], seen["name space"]), ("3", "2", "2", "a", "ns"))
        self.assertEqual(seen["memory"], str(1 << 30))

    def test_flags_override_fields(self):
        self.assertEqual(self.program(env={"CONTRACT_NUM_CPUS": "5"})["CPU"], "5")
        self.assertEqual(self.program("--mobula-num-cpus=3", env={"CONTRACT_NUM_CPUS": "5"})["CPU"], "3")

    def test_address_comes_from_flag_field_and_variable(self):
        address = self.started["address"]
        nowhere = "127.0.0.1:1"
        for words, env in [((f"--mobula-address={address}",), {"CONTRACT_ADDRESS_FIELD": nowhere, "MOBULA_ADDRESS": nowhere}),
                           ((), {"CONTRACT_ADDRESS_FIELD": address, "MOBULA_ADDRESS": nowhere}),
                           ((), {"MOBULA_ADDRESS": address})]:
            seen = self.program(*words, env=env)
            self.assertEqual((seen["own"], seen["address"], seen["CPU"]), ("no", address, "2"))

    def test_joins_with_the_token_of_the_environment(self):
        token = self.expect(0, "token", "create", "--role", "driver", "--name", "init", "-o", "json")
        text = json.loads(token.stdout)["token"]
        self.assertEqual(self.program(env={"MOBULA_TOKEN": text, "MOBULA_STATE_DIR": self.directory + "/other"})["own"], "no")

    def test_starts_a_local_cluster_without_an_address(self):
        self.assertEqual(self.program("--mobula-num-cpus=1")["own"], "yes")

    def test_calls_outside_of_a_cluster_are_refused(self):
        seen = self.program("again", "--mobula-num-cpus=1")
        self.assertEqual((seen["before"], seen["after"], seen["again"]), ("expected", "expected", "runs"))

    def test_executors_never_leave_init(self):
        ended = self.run_program([PROGRAM, "again", "--mobula-num-cpus=1"])
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertEqual(facts(ended)["again"], "runs")
        text = ended.stdout + ended.stderr
        self.assertEqual((text.count("words: "), text.count("witness: destroyed")), (1, 1), text)

    def test_refuses_resources_with_an_address(self):
        seen = self.program(env={"CONTRACT_NUM_CPUS": "5", "MOBULA_ADDRESS": self.started["address"]}, code=5)
        self.assertEqual(seen["refused"], "num_cpus")


class Commands(Case):
    """Section 5, on a cluster of one node with 2 CPUs."""

    flags = ("--num-cpus", "2", "--labels", "zone=a", "--resources", '{"shuttle": 2}', "--http", "0")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.driver = subprocess.Popen([PROGRAM, "waits"], env={**cls.env, "MOBULA_ADDRESS": cls.started["address"]}, text=True,
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        for line in cls.driver.stdout:
            if line.startswith("task: "):
                cls.waiting = line.split(": ", 1)[1].strip()
                break

    @classmethod
    def tearDownClass(cls):
        cls.driver.communicate("end\n", timeout=TIMEOUT)
        super().tearDownClass()

    def node(self):
        nodes = json.loads(self.expect(0, "list", "nodes", "-o", "json").stdout)["items"]
        return next(node for node in nodes if node["state"] != "DEAD")

    def test_start_prints_how_to_join(self):
        self.assertIn("address", self.started)
        self.assertIn(f"mobula start --address {self.started['address']} --key ", self.started["join"])

    def test_every_format_works_everywhere(self):
        node = self.node()["node_id"]
        trace = os.path.join(self.directory, "trace.json")
        inspect = [("status",), ("events",), ("summary",), ("memory",), ("logs",), ("describe", "node", node), ("get", "node", node),
                   ("explain", '{"num_cpus": 1}'), ("top", "--once", "0.5"), ("token", "list"), ("job", "list"), ("version",),
                   ("timeline", "--output", trace)]
        inspect += [("list", kind) for kind in ("nodes", "jobs", "tasks", "actors", "objects", "leases", "executors",
                                                 "placement-groups", "transfers", "demands")]
        for number, words in enumerate(inspect):  # JSON of every command; the other formats of some
            self.assertEqual(json.loads(self.expect(0, *words, "--format", "json").stdout)["apiVersion"], "mobula/v1", words)
            self.expect(0, *words, "-o", FORMATS[number % len(FORMATS)])
            self.expect(2, *words, "-o", "poem")
        for each in FORMATS:
            self.expect(0, "list", "nodes", "-o", each)

    def trace(self, path):
        with open(path) as file:
            return json.load(file)

    def test_timeline_separates_file_and_format(self):
        trace = os.path.join(self.directory, "t.json")
        report = self.expect(0, "timeline", "--output", trace, "-o", "json")
        self.assertEqual(json.loads(report.stdout)["items"][0]["file"], trace)
        self.assertIn("traceEvents", self.trace(trace))
        self.assertIn("traceEvents", json.loads(self.expect(0, "timeline", "--output", "-").stdout))
        self.expect(2, "timeline", "--output", "-", "-o", "json")
        old = os.path.join(self.directory, "old.json")
        self.expect(0, "timeline", "-o", old)
        self.assertIn("traceEvents", self.trace(old))

    def test_up_down_and_bench_take_every_format(self):
        inventory = os.path.join(self.directory, "cluster.yaml")
        with open(inventory, "w") as file:
            file.write("cluster_name: c\nhead: {host: 127.0.0.1}\nconnect_timeout_seconds: 1\n")
        for command in ("up", "down", "status"):
            words = (command, inventory) + (("--dry-run",) if command != "status" else ())
            self.expect(2, *words, "-o", "poem")
            for each in FORMATS if command == "status" else ("csv", "yaml"):
                ended = self.mobula(*words, "-o", each)
                self.assertNotEqual(ended.returncode, 2, f"{words} {each}: {ended.stderr}")
        bench = ("bench", "--smoke", "start")
        self.assertIn("apiVersion: mobula/v1", self.expect(0, *bench, "-o", "yaml").stdout)
        item = json.loads(self.expect(0, *bench, "--format=jsonl").stdout.splitlines()[0])
        self.assertTrue({"name", "key", "mean", "sd", "unit", "runs"} <= set(item))
        self.expect(2, *bench, "-o", "poem")

    def test_predefined_resources_are_wrong_use(self):
        for resources in ('{"CPU": 4}', '{"gpu": 1}', '{"memory": 1}', '{"GPU_memory": 1}', '{"object_store_memory": 1}',
                          '{"shuttle": -1}', '{"shuttle": {"total": -1}}', "{broken"):
            ended = self.expect(2, "start", "--head", "--name", "second", "--resources", resources)
            self.assertIn("--resources", ended.stderr)

    def test_never_prints_a_stack_trace(self):
        for words in (("status", "--address", "nonsense"), ("get", "node", "zz"), ("explain", "{"), ("wait", "nobody"),
                      ("list", "unicorns"), ("start", "--head", "--name", "../x"), ("events", "--since", "never")):
            ended = self.mobula(*words)
            self.assertIn(ended.returncode, (1, 2, 3, 7), words)
            self.assertEqual(len(ended.stderr.splitlines()), 1, ended.stderr)

    def test_exit_codes_are_those_of_the_page(self):
        self.expect(0, "status")
        self.expect(1, "start", "--head", "--name", "second", "--port", self.started["address"].split(":")[1])
        self.expect(2, "dance")
        self.expect(3, "status", "--address", "127.0.0.1:1")
        self.expect(6, "explain", '{"num_gpus": 99}')
        self.expect(7, "get", "node", "00000000")

    def test_programs_end_with_their_own_code(self):
        self.expect(7, "run", "--", "sh", "-c", "exit 7")
        self.expect(128 + 15, "run", "--", "sh", "-c", "kill -TERM $$")
        submitted = self.expect(0, "submit", "--no-wait", "--name", "seven", "--", "sh", "-c", "exit 9").stdout.strip()
        self.expect(9, "wait", submitted)
        self.expect(9, "wait", "seven")
        self.expect(9, "job", "logs", "--follow", submitted[:8])
        script = os.path.join(self.directory, "script.sh")
        with open(script, "w") as file:
            file.write("#!/bin/sh\n#MOBULA --name scripted --env A=1\necho $A$1\nexit 4\n")
        self.assertIn("12", self.expect(4, "batch", "--env", "A=1", script, "--", "2").stdout)
        self.assertEqual(json.loads(self.expect(0, "job", "status", "scripted", "-o", "json").stdout)["exit_code"], 4)

    def test_failures_outlive_their_program(self):
        ended = self.run_program([PROGRAM, "fails"], {"MOBULA_ADDRESS": self.started["address"]})
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        listed = json.loads(self.expect(0, "list", "tasks", "--filter", "state=FAILED", "-o", "json").stdout)["items"]
        item = next((each for each in listed if each["name"] == "outer"), None)
        self.assertIsNotNone(item, listed)
        self.assertEqual(item["node_id"], self.node()["node_id"])
        self.assertEqual(item["attempt"], 1)
        self.assertIn("bad input 1", item["error_message"])
        self.assertIn("inner", [each["name"] for each in listed], "failures of tasks that a task has submitted")
        self.assertEqual(ended.stderr.count("never read"), 1, ended.stderr)
        self.assertIn("bad input 2", ended.stderr)

    def test_jobs_state_how_their_driver_ended(self):
        def reason_of(name):
            jobs = json.loads(self.expect(0, "list", "jobs", "-o", "json").stdout)["items"]
            return next(each["reason"] for each in jobs if each["name"] == name)
        address = {"MOBULA_ADDRESS": self.started["address"]}
        self.run_program([PROGRAM, "exits", "--mobula-job-name=exits"], address)
        self.assertIn("exited with code 5", self.soon(lambda: reason_of("exits"), "code"))
        driver = subprocess.Popen([PROGRAM, "waits", "--mobula-job-name=killed"], env={**self.env, **address},
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for line in driver.stdout:
            if line.startswith("task: "):
                break
        driver.kill()
        driver.wait()
        driver.stdin.close()
        driver.stdout.close()
        self.assertIn("signal 9", self.soon(lambda: reason_of("killed"), "signal"))

    def soon(self, read, word):
        deadline = time.monotonic() + 20
        while word not in (text := read()) and time.monotonic() < deadline:
            time.sleep(0.02)
        return text

    def test_infeasible_requests_wait_and_are_explained(self):
        ended = self.expect(6, "explain", self.waiting)
        self.assertIn("GPU", ended.stdout)
        demands = json.loads(self.expect(0, "list", "demands", "-o", "json").stdout)["items"]
        self.assertIn("Infeasible", json.dumps(demands))

    def test_items_have_the_members_of_the_page(self):
        document = json.loads(self.expect(0, "list", "nodes", "-o", "json").stdout)
        self.assertEqual(document["apiVersion"], "mobula/v1")
        self.assertTrue({"kind", "items", "warnings"} <= set(document))
        node = self.node()
        self.assertTrue({"node_id", "state", "address", "resources", "labels"} <= set(node))
        self.assertEqual(node["resources"]["CPU"]["total"], 2)
        self.assertIn("available", node["resources"]["CPU"])
        self.assertEqual(node["labels"]["zone"], "a")
        http = json.loads(self.expect(0, "status", "-o", "json").stdout)["http"]
        self.assertTrue(http["url"].startswith("http"))
        self.assertTrue(os.path.exists(http["token_file"]))

    def test_lists_filter_select_and_watch(self):
        self.assertEqual(len(self.expect(0, "list", "nodes", "--filter", "state=ALIVE", "-o", "name").stdout.split()), 1)
        self.assertEqual(self.expect(0, "list", "nodes", "-l", "zone=b", "-o", "name").stdout, "")
        self.assertEqual(len(self.expect(0, "list", "nodes", "-l", "zone=a", "-o", "name").stdout.split()), 1)
        self.expect(0, "list", "tasks", "--limit", "1")
        node = self.node()["node_id"]
        for words in (("get", "node", node[:4]), ("describe", "node", node[:4])):
            self.expect(0, *words)
        self.expect(7, "get", "node", node[:3])
        self.expect(0, "summary")
        table = self.expect(0, "list", "nodes", "--filter", "state=ALIVE", "--columns", "state", "--no-headers", "--sort-by", "-state", "--no-trunc")
        self.assertEqual(table.stdout.split(), ["ALIVE"])
        for color in ("auto", "always", "never"):
            self.expect(0, "list", "nodes", "--color", color)
        self.expect(2, "list", "nodes", "--color", "blue")

    def test_events_and_logs_are_filtered(self):
        node = self.node()["node_id"]
        seen = json.loads(self.expect(0, "events", "--kind", "NODE_*", "--about", node, "--tail", "5", "-o", "json").stdout)
        self.assertTrue(seen["items"])
        for severity in ("debug", "info", "warning", "error"):
            self.expect(0, "events", "--severity", severity, "--since", "1h")
        self.expect(2, "events", "--severity", "loud")
        self.expect(0, "logs")
        for log in ("head", "agent"):
            self.expect(0, "logs", log, "--tail", "3")
        self.assertEqual(self.expect(0, "logs", "head", "--grep", "no line matches this").stdout, "")
        self.expect(0, "logs", "head", "--raw", "--tail", "1")

    def test_drain_and_undrain_change_the_state(self):
        node = self.node()["node_id"]
        self.expect(0, "drain", node)
        self.assertEqual(self.node()["state"], "DRAINING")
        self.expect(0, "undrain", node)
        self.assertEqual(self.node()["state"], "ALIVE")

    def test_start_flags_of_the_page_are_accepted(self):
        flags = ["--advertise", "127.0.0.1", "--http", "0", "--preemption", "lower-priority", "--preempt-after", "5", "--as-given",
                 "--grace", "30", "--bulk-connections", "2", "--spin-us", "50", "--gpu-context-memory", "64MiB",
                 "--gpu-over-share", "log", "--gpu-watch-period", "1000", "--executor-memory", "1GiB", "--memory-threshold", "0.95",
                 "--object-spilling-directory", "none", "--object-spilling-threshold", "0.8", "--record", self.directory + "/record",
                 "--num-cpus", "1", "--num-gpus", "1", "--gpu-memory", "1GiB", "--memory", "1GiB", "--object-store-memory", "64MiB",
                 "--accelerator-type", "T", "--labels", "a=b", "--bind", "127.0.0.1", "--trusted-fabric", "lab"]
        self.expect(0, "start", "--check-only", "--head", "--name", "checked", *flags)
        self.expect(2, "start", "--check-only", "--head", "--memory-threshold", "2")
        self.expect(2, "start", "--check-only", "--head", "--bulk-connections", "0")

    def test_second_agent_needs_its_own_state_directory(self):
        join = ("start", "--address", self.started["address"], "--key", self.started["key_file"], "--num-cpus", "0")
        self.expect(1, *join)
        other = os.path.join(self.directory, "second")
        self.expect(0, *join, "--state-dir", other)
        self.assertEqual(len(self.expect(0, "list", "nodes", "--filter", "state=ALIVE", "-o", "name").stdout.split()), 2)
        self.expect(0, "stop", "--state-dir", other)
        self.expect(0, "status")

    def test_help_topics_exist(self):
        for topic in ("start", "exit-codes", "environment"):
            self.assertTrue(self.expect(0, "help", topic).stdout)
        for shell in ("bash", "zsh", "fish"):
            self.assertTrue(self.expect(0, "completion", shell).stdout)
        self.assertTrue(self.expect(0, "man").stdout)
        self.assertIn("mobula ", self.expect(0, "version").stdout)

    def test_submit_leaves_the_job_on_ctrl_c(self):
        program = subprocess.Popen([MOBULA, "submit", "--name", "left", "--", "sh", "-c", "echo begun; sleep 100"], env=self.env, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(program.stdout.readline(), "begun\n")
        program.send_signal(signal.SIGINT)
        out, err = program.communicate(timeout=TIMEOUT)
        self.assertEqual(program.returncode, 130, err)
        status = json.loads(self.expect(0, "job", "status", "left", "-o", "json").stdout)
        self.assertEqual(status["state"], "RUNNING")
        self.assertIn(status["job_id"], err)
        self.expect(0, "job", "stop", "left")

    def test_tokens_are_shown_once(self):
        made = self.expect(0, "token", "create", "--role", "observer", "--name", "eyes", "--expires", "12h", "-o", "json")
        token = json.loads(made.stdout)["token"]
        self.assertNotIn(token, self.expect(0, "token", "list", "-o", "json").stdout)
        self.expect(0, "list", "nodes", env={"MOBULA_TOKEN": token, "MOBULA_STATE_DIR": self.directory + "/none"})
        self.expect(4, "run", "--", "true", env={"MOBULA_TOKEN": token, "MOBULA_STATE_DIR": self.directory + "/none"})
        self.expect(0, "token", "revoke", "eyes")
        self.expect(4, "list", "nodes", env={"MOBULA_TOKEN": token, "MOBULA_STATE_DIR": self.directory + "/none"})

    def test_several_clusters_do_not_collide(self):
        self.expect(0, "start", "--head", "--name", "other", "--num-cpus", "1")
        names = sorted(json.loads(self.expect(0, "status", "--name", name, "-o", "json").stdout)["cluster_name"]
                       for name in ("default", "other"))
        self.assertEqual(names, ["default", "other"])
        self.expect(0, "stop", "--name", "other", "--grace", "1")
        self.expect(0, "status", "--name", "default")

    def test_long_state_directories_have_short_sockets(self):
        state = os.path.join(self.directory, *["d" * 60] * 3)
        self.expect(0, "start", "--head", "--state-dir", state, "--num-cpus", "1")
        self.expect(0, "run", "--state-dir", state, "--", "true")
        self.expect(0, "stop", "--state-dir", state, "--grace", "1")

    def test_numbers_use_a_point_in_every_locale(self):
        names = subprocess.run(["locale", "-a"], text=True, capture_output=True).stdout.split()
        for locale in ["C", *[name for name in names if name.startswith(("de", "fr", "ru"))]]:
            request = self.expect(0, "explain", '{"num_cpus": 0.5}', "-o", "json", env={"LC_ALL": locale})
            self.assertIn("0.5", request.stdout)
            self.assertNotIn("0,5", request.stdout)

    def test_old_logs_are_removed_at_start(self):
        state = os.path.join(self.directory, "logs")
        self.expect(0, "start", "--head", "--state-dir", state, "--num-cpus", "1")
        self.expect(0, "stop", "--state-dir", state, "--grace", "1")
        logs = os.path.join(state, "default", "agent", "logs")
        os.makedirs(logs, exist_ok=True)
        old, new = os.path.join(logs, "old.log"), os.path.join(logs, "new.log")
        for path, days in ((old, 8), (new, 6)):
            with open(path, "w") as file:
                file.write("line\n")
            os.utime(path, (time.time() - days * 86_400,) * 2)
        self.expect(0, "start", "--head", "--state-dir", state, "--num-cpus", "1")
        self.assertFalse(os.path.exists(old))
        self.assertTrue(os.path.exists(new))
        self.assertIn("1", self.expect(0, "logs", "agent", "--state-dir", state, "--grep", "earlier|old|removed").stdout)
        self.expect(0, "stop", "--state-dir", state, "--grace", "1")

    def test_job_flags_of_the_page_are_accepted(self):
        os.makedirs(self.directory + "/work", exist_ok=True)
        ended = self.expect(0, "run", "--name", "flags", "--env", "A=1", "--label", "k=v", "--workdir", self.directory + "/work",
                            "--num-cpus", "0.5", "--memory", "1MiB", "--resources", '{"shuttle": 1}', "--label-selector", "zone=a",
                            "--priority", "1", "--retries", "0", "--time-limit", "60", "--grace", "5", "--raw", "--no-progress",
                            "--cluster", "default", "--", "sh", "-c", "echo $A $MOBULA_SUBMISSION_ID $MOBULA_SUBMISSION_ATTEMPT")
        words = ended.stdout.split()
        self.assertEqual(words[0], "1")
        self.assertEqual(len(words[1]), 32)
        self.assertTrue(words[2].isdigit())


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
