#!/usr/bin/env python3
"""Tests the progress output of long operations on a terminal (a pty), and its absence elsewhere.

Usage: progress_test.py MOBULA [TEST...]
"""

import json
import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

MOBULA = os.path.abspath(sys.argv[1])
PATIENCE = 120  # seconds; the machine may be busy


class Terminal:
    """A program with its stderr on a terminal."""

    def __init__(self, words, env):
        self.master, slave = pty.openpty()
        self.process = subprocess.Popen(words, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=slave)
        os.close(slave)
        self.text = ""
        self.out = b""
        self.reader = threading.Thread(target=self.read_out)
        self.reader.start()

    def read_out(self):
        self.out = self.process.stdout.read()

    def read(self, until=None):
        """The output on stderr, up to `until` or the end."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end and (until is None or until not in self.text):
            if not select.select([self.master], [], [], 1)[0]:
                continue
            try:
                more = os.read(self.master, 65536)
            except OSError:  # the other side has exited
                more = b""
            if not more:
                break
            self.text += more.decode(errors="replace")
        return self.text

    def end(self):
        self.read()
        code = self.process.wait(timeout=PATIENCE)
        self.reader.join()
        self.process.stdout.close()
        os.close(self.master)
        return code


class Progress(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.mkdtemp(prefix="mobula-progress-", dir="/tmp")
        cls.env = {name: value for name, value in os.environ.items() if not name.startswith("MOBULA_") and name != "NO_COLOR"}
        cls.env.update(MOBULA_STATE_DIR=os.path.join(cls.directory, "state"), TERM="xterm")
        cls.mobula("start", "--head", "--num-cpus", "2", check=True)

    @classmethod
    def tearDownClass(cls):
        cls.mobula("stop", "--grace", "0")
        shutil.rmtree(cls.directory, ignore_errors=True)

    @classmethod
    def mobula(cls, *words, check=False, env=None):
        return subprocess.run([MOBULA, *words], env={**cls.env, **(env or {})}, text=True, capture_output=True,
                              timeout=PATIENCE, check=check)

    def terminal(self, *words, env=None):
        return Terminal([MOBULA, *words], {**self.env, **(env or {})})

    def files(self):
        """The first upload of a directory."""
        directory = tempfile.mkdtemp(dir=self.directory)
        with open(os.path.join(directory, "bytes"), "wb") as file:
            file.write(os.urandom(32 << 20))
        return directory

    def test_upload_reports_progress(self):
        terminal = self.terminal("run", "--workdir", self.files(), "--", "sh", "-c", "ls; exit 3")
        self.assertEqual((terminal.end(), terminal.out), (3, b"bytes\n"))
        self.assertIn("\rmobula: packing the job's files", terminal.text)
        self.assertRegex(terminal.text, r"\rmobula: the job's files \[#*\.*\] \d+\.\d of 32\.\d MiB")
        self.assertIn("\r\x1b[K", terminal.text, "the line goes")

    def test_no_color_means_no_escape_sequence(self):
        terminal = self.terminal("run", "--workdir", self.files(), "--", "true", env={"NO_COLOR": "1"})
        self.assertEqual(terminal.end(), 0)
        self.assertIn("\rmobula: the job's files", terminal.text)
        self.assertNotIn("\x1b", terminal.text)
        self.assertTrue(terminal.text.endswith(" \r"), "blanks over the line")

    def test_prints_no_progress_without_terminal(self):
        for words, env in ((["--no-progress"], {}), ([], {"TERM": "dumb"})):
            terminal = self.terminal("run", *words, "--workdir", self.files(), "--", "true", env=env)
            self.assertEqual((terminal.end(), terminal.text), (0, ""))
        ended = self.mobula("run", "--workdir", self.files(), "--", "true")
        self.assertEqual((ended.returncode, ended.stderr), (0, ""))

    def test_drain_reports_remaining_work(self):
        other = os.path.join(self.directory, "other")
        going = os.path.join(self.directory, "go")
        state = self.env["MOBULA_STATE_DIR"]
        address = json.loads(self.mobula("status", "-o", "json").stdout)["address"]
        self.mobula("start", "--address", address, "--key", os.path.join(state, "default", "default.key"), "--num-cpus", "1",
                    "--labels", "as=other", "--state-dir", other, check=True)
        try:
            self.mobula("submit", "--no-wait", "--name", "long", "--num-cpus", "1", "--label-selector", "as=other", "--", "sh", "-c",
                        "until test -e %s; do sleep 0.05; done" % going, check=True)
            while "RUNNING" not in self.mobula("job", "status", "long").stdout:
                pass
            node = next(each for each in json.loads(self.mobula("list", "nodes", "-o", "json").stdout)["items"]
                        if each["labels"].get("as") == "other")["node_id"]
            terminal = self.terminal("drain", node, "--deadline", "100")
            self.assertRegex(terminal.read(until="until the deadline"),
                             r"\rmobula: 1 lease is left \(1 of actors and jobs\); \d+ s until the deadline")
            open(going, "w", encoding="utf-8").close()
            self.assertEqual(terminal.end(), 0)
            self.assertIn(b"is draining: no lease is left", terminal.out)
            self.assertEqual(self.mobula("wait", "long").returncode, 0)
        finally:
            self.mobula("stop", "--grace", "0", "--state-dir", other)

    def process_of(self, state, name):
        """The process with this name and state directory."""
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/comm", encoding="utf-8") as comm, open(f"/proc/{pid}/environ", "rb") as environment:
                    if comm.read().strip() == name and f"MOBULA_STATE_DIR={state}\0".encode() in environment.read():
                        return int(pid)
            except OSError:
                continue
        self.fail(f"no process {name}")

    def ends_after(self, line, process, *words, env):
        """Runs the command while the process is stopped, until the line is on its terminal. Returns the terminal at its end."""
        os.kill(process, signal.SIGSTOP)
        try:
            terminal = self.terminal(*words, env=env)
            self.assertIn(line, terminal.read(until=line))
        finally:
            os.kill(process, signal.SIGCONT)
        self.assertEqual(terminal.end(), 0, terminal.text)
        self.assertIn("\r\x1b[K", terminal.text, "the line goes")
        return terminal

    def test_waits_name_what_they_wait_for(self):
        state = os.path.join(self.directory, "scaled")
        types = os.path.join(self.directory, "types.yaml")
        with open(types, "w", encoding="utf-8") as file:
            json.dump({"max_workers": 1, "provider": {"type": "local", "directory": os.path.join(self.directory, "fleet")},
                       "available_node_types": {"cpu": {"resources": {"CPU": 1}, "max_workers": 1}}}, file)
        env = {"MOBULA_STATE_DIR": state}
        self.mobula("start", "--head", "--no-worker", "--autoscale", types, env=env, check=True)
        self.addCleanup(self.mobula, "stop", "--grace", "0", env=env)
        while "autoscaler: idle" not in self.mobula("status", env=env).stdout:
            pass
        scaler, head = self.process_of(state, "mobula-scale"), self.process_of(state, "mobula-head")
        terminal = self.ends_after("\rmobula: waiting for the autoscaler to pause type cpu (", scaler, "autoscaler", "pause", "cpu", env=env)
        self.assertEqual(terminal.out, b"type cpu: paused\n")
        self.ends_after("\rmobula: waiting for the head's answer to 'list' (", head, "list", "nodes", env=env)
        # Without a terminal, an order prints one line. Its time ends before the autoscaler continues.
        os.kill(scaler, signal.SIGSTOP)
        try:
            quiet = self.terminal("autoscaler", "resume", "--no-progress", "cpu", env=env)
            ended = self.mobula("autoscaler", "resume", "cpu", env=env)
            self.assertEqual(quiet.end(), 5)
        finally:
            os.kill(scaler, signal.SIGCONT)
        self.assertEqual((ended.returncode, ended.stdout), (5, ""))
        lines = ended.stderr.splitlines()
        self.assertEqual(len(lines), 2, lines)
        self.assertRegex(lines[0], r"^mobula: waiting for the autoscaler to resume type cpu \(\d+ s\)$")
        for text in ("has not executed the order within 30 s", "executes it when it replies again", "repeat `mobula autoscaler resume cpu`"):
            self.assertIn(text, lines[1])
        self.assertNotIn("waiting for", quiet.text)

    def test_stop_names_the_process_that_stays(self):
        env = {"MOBULA_STATE_DIR": os.path.join(self.directory, "stopped")}
        self.mobula("start", "--head", "--num-cpus", "1", env=env, check=True)
        agent = self.process_of(env["MOBULA_STATE_DIR"], "mobula-agent")
        terminal = self.ends_after("\rmobula: waiting for the ", agent, "stop", "--grace", "1000", env=env)
        self.assertRegex(terminal.text, r"waiting for the (head|agent) \(process \d+\) to exit \(\d+ s\)")
        self.assertIn(b"is stopped on this machine", terminal.out)

    def test_up_reports_step_of_each_host(self):
        programs = os.path.join(self.directory, "bin")
        os.mkdir(programs)
        with open(os.path.join(programs, "ssh"), "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\necho 'ssh: connect to host port 22: No route to host' >&2\nexit 255\n")
        os.chmod(os.path.join(programs, "ssh"), 0o700)
        cluster = os.path.join(self.directory, "cluster.yaml")
        with open(cluster, "w", encoding="utf-8") as file:
            file.write("cluster_name: blue\nhead: {host: one, port: 4711}\nworkers: [two]\n")
        env = {"PATH": programs + ":" + self.env["PATH"]}
        terminal = self.terminal("up", cluster, env=env)
        self.assertEqual(terminal.end(), 3)
        self.assertRegex(terminal.text, r"\rmobula: 0 of 2 hosts; (one|two) is probed")
        self.assertIn(b"unreachable", terminal.out)
        terminal = self.terminal("up", "--no-progress", cluster, env=env)
        self.assertEqual((terminal.end(), terminal.text), (3, ""))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
