#!/usr/bin/env python3
"""Tests different releases in one cluster: this one, one with only the previous protocol version, and one without a
common version. Real processes, each node with a separate state directory.

Usage: versions.py BUILD_DIRECTORY [TEST...]
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

BIN = os.path.join(os.path.abspath(sys.argv[1]), "bin")
MOBULA, OLDER, STRANGER = [os.path.join(BIN, name) for name in ("mobula", "mobula-older", "mobula-stranger")]
PATIENCE = 240  # seconds; the machine may be busy


class Releases(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="mobula-releases-", dir="/tmp")
        self.env = {name: value for name, value in os.environ.items() if not name.startswith("MOBULA_")}
        self.nodes = []

    def tearDown(self):
        for node in reversed(self.nodes):
            self.run_as(MOBULA, "stop", "--grace", "1", node=node)
        shutil.rmtree(self.directory, ignore_errors=True)

    def state(self, node):
        return os.path.join(self.directory, node)

    def run_as(self, program, *words, node="a"):
        return subprocess.run([program, *words], env={**self.env, "MOBULA_STATE_DIR": self.state(node)}, text=True,
                              capture_output=True, timeout=PATIENCE)

    def head(self, program, *words):
        ended = self.run_as(program, "start", "--head", "-o", "json", *words)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        if "a" not in self.nodes:
            self.nodes.append("a")
        self.address = json.loads(ended.stdout)["address"]

    def join(self, program, node):
        key = os.path.join(self.state("a"), "default", "default.key")
        ended = self.run_as(program, "start", "--address", self.address, "--key", key, "--num-cpus", "2", "--labels",
                            "as=" + node, node=node)
        if node not in self.nodes:
            self.nodes.append(node)
        return ended

    def agreed(self):
        """The protocol version that was agreed with each living node."""
        ended = self.run_as(MOBULA, "list", "nodes", "-o", "json")
        if ended.returncode != 0:
            return {}
        return {each["labels"].get("as", "a"): (each["protocol"], each["version"])
                for each in json.loads(ended.stdout)["items"] if each["state"] == "ALIVE"}

    def eventually(self, what):
        until = time.monotonic() + PATIENCE
        while not what():
            self.assertLess(time.monotonic(), until, "in vain")

    def job_on(self, node, program):
        ended = self.run_as(program, "run", "--label-selector", "as=" + node, "--", "sh", "-c", "echo here; exit 3")
        self.assertEqual((ended.returncode, ended.stdout), (3, "here\n"), ended.stderr)

    def test_previous_version_works_with_this_head(self):
        self.head(MOBULA, "--num-cpus", "2")
        joined = self.join(OLDER, "b")
        self.assertEqual(joined.returncode, 0, joined.stderr)
        agreed = self.agreed()
        self.assertEqual((agreed["a"][0], agreed["b"]), (5, (2, "0.0.2")))
        for tool in (OLDER, MOBULA):
            self.job_on("b", tool)
            self.assertEqual(self.run_as(tool, "status").returncode, 0)
        # Files of a job are sent through the head, and the older node reads them there.
        os.mkdir(os.path.join(self.directory, "work"))
        with open(os.path.join(self.directory, "work", "word"), "w", encoding="utf-8") as file:
            file.write("carried")
        ended = self.run_as(OLDER, "run", "--workdir", os.path.join(self.directory, "work"), "--label-selector", "as=b", "--",
                            "cat", "word")
        self.assertEqual((ended.returncode, ended.stdout), (0, "carried"), ended.stderr)
        doctor = self.run_as(MOBULA, "doctor")
        self.assertEqual(doctor.returncode, 0, doctor.stdout)
        self.assertIn("0.0.2 on ", doctor.stdout)

    def test_upgrades_cluster_node_by_node(self):
        self.head(OLDER, "--no-worker")
        for node in ("b", "c"):
            self.assertEqual(self.join(OLDER, node).returncode, 0)
        self.job_on("b", OLDER)
        going = os.path.join(self.directory, "go")
        ended = self.run_as(OLDER, "submit", "--no-wait", "--name", "long", "--label-selector", "as=c", "--", "sh", "-c",
                            "until test -e %s; do sleep 0.05; done; exit 4" % going)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.eventually(lambda: "RUNNING" in self.run_as(OLDER, "job", "status", "long").stdout)
        # The head first, as `up` does it: SIGTERM, then this release with the same directory.
        with open(os.path.join(self.state("a"), "default", "head", "head.json"), encoding="utf-8") as file:
            os.kill(json.load(file)["pid"], signal.SIGTERM)
        self.eventually(lambda: not os.path.exists(os.path.join(self.state("a"), "default", "head", "head.json")))
        self.head(MOBULA, "--no-worker")
        self.eventually(lambda: self.agreed() == {"b": (2, "0.0.2"), "c": (2, "0.0.2")})
        self.job_on("b", MOBULA)
        # Then a node, which keeps its id.
        self.assertEqual(self.run_as(OLDER, "stop", "--grace", "1", node="b").returncode, 0)
        self.assertEqual(self.join(MOBULA, "b").returncode, 0)
        self.assertEqual(self.agreed()["b"][0], 5)
        self.assertEqual(self.agreed()["c"][0], 2)
        self.job_on("b", OLDER)
        # Work that ran all the time on the node of the previous version.
        open(going, "w", encoding="utf-8").close()
        self.assertEqual(self.run_as(MOBULA, "wait", "long").returncode, 4)

    def test_up_upgrades_cluster_of_previous_version(self):
        # Machines are home directories, and ssh is a script; all else is real.
        programs = os.path.join(self.directory, "bin")
        os.mkdir(programs)
        with open(os.path.join(programs, "ssh"), "w", encoding="utf-8") as file:
            file.write("""#!/bin/sh
for word; do host=$script script=$word; done
HOME=%s/$host; export HOME; mkdir -p "$HOME"; unset MOBULA_STATE_DIR
exec sh -c "$script"
""" % self.directory)
        os.chmod(os.path.join(programs, "ssh"), 0o700)
        self.env["PATH"] = programs + ":" + self.env["PATH"]
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        cluster = os.path.join(self.directory, "cluster.yaml")
        with open(cluster, "w", encoding="utf-8") as file:
            file.write("cluster_name: blue\nstate_dir: state\ngrace_seconds: 5\ndefaults: {num_cpus: 1}\n"
                       "head: {host: 127.0.0.1, port: %d, bind: 127.0.0.1}\nworkers: [127.0.0.2]\n" % port)

        def results(program, *words):
            ended = self.run_as(program, *words, cluster, "-o", "json")
            return [each["result"] for each in json.loads(ended.stdout)["items"]]

        def at_head(*words):
            return self.run_as(MOBULA, "exec", cluster, "--", *words)

        def nodes():
            listed = at_head("mobula", "list", "nodes", "-o", "json")
            items = json.loads(listed.stdout)["items"] if listed.returncode == 0 else []
            return sorted((each["version"], each["protocol"]) for each in items if each["state"] == "ALIVE")

        try:
            self.assertEqual(results(OLDER, "up"), ["started", "started"])
            self.eventually(lambda: nodes() == [("0.0.2", 2)] * 2)
            self.assertEqual(at_head("mobula", "run", "--name", "before", "--", "sh", "-c", "exit 3").returncode, 3)
            self.assertEqual(results(MOBULA, "up"), ["replaced", "replaced"])
            self.eventually(lambda: [agreed for _, agreed in nodes()] == [5, 5])
            self.assertEqual(at_head("mobula", "run", "--", "sh", "-c", "exit 4").returncode, 4)
            self.assertIn("before", at_head("mobula", "job", "list").stdout)
            self.assertEqual(results(MOBULA, "up"), ["unchanged", "unchanged"])
        finally:
            self.assertEqual(results(MOBULA, "down"), ["stopped", "stopped"])

    def test_rejects_other_versions_with_both_and_remedy(self):
        self.head(MOBULA, "--num-cpus", "1")
        key = os.path.join(self.state("a"), "default", "default.key")
        for ended in (self.run_as(STRANGER, "status"), self.run_as(STRANGER, "run", "--", "true"), self.join(STRANGER, "b")):
            self.assertNotEqual(ended.returncode, 0)
            for part in ("protocol versions 9 to 11", "protocol versions 2 to 5", "install a newer release of Mobula for the head"):
                self.assertIn(part, ended.stderr)
            self.assertEqual(ended.stderr.count("\n"), 1, ended.stderr)
        # In the opposite direction, this program is too old.
        self.assertEqual(self.run_as(STRANGER, "start", "--head", "--num-cpus", "1", node="s").returncode, 0)
        self.nodes.append("s")
        refused = self.run_as(MOBULA, "status", node="s")
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("install a newer release of Mobula for this program", refused.stderr)
        doctor = self.run_as(MOBULA, "doctor", node="s")
        self.assertEqual(doctor.returncode, 1)
        self.assertIn("protocol versions 9 to 11", doctor.stdout)
        self.assertEqual(len(self.agreed()), 1)
        self.assertTrue(os.path.exists(key))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
