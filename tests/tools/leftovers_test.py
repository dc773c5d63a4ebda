#!/usr/bin/env python3
"""Tests tests/leftovers.py, which finds and names the processes and files that a command leaves."""

import os
import signal
import subprocess
import sys
import tempfile
import unittest

CHECK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "leftovers.py")


class Leftovers(unittest.TestCase):
    def run_check(self, script, wait="0"):
        return subprocess.run([sys.executable, CHECK, "--wait", wait, "sh", "-c", script], capture_output=True, text=True, timeout=60)

    def test_clean_command_keeps_its_status(self):
        for status in (0, 3):
            ended = self.run_check(f"d=$(mktemp -d /tmp/mobula-left-XXXXXX); rmdir $d; exit {status}")
            self.assertEqual((ended.returncode, ended.stdout), (status, ""))

    def test_process_and_its_socket_are_named(self):
        name = "mobula-left-" + os.urandom(6).hex()
        program = f"import socket, time; s = socket.socket(socket.AF_UNIX); s.bind('\\0{name}'); s.listen(); print(flush=True); time.sleep(600)"
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "listen.py")
            with open(path, "w", encoding="utf-8") as file:
                file.write(program.replace("\0", "\\0"))
            ended = self.run_check(f"setsid {sys.executable} {path} > {directory}/out 2>&1 & echo $! ; until [ -s {directory}/out ]; do :; done")
        pid = int(ended.stdout.splitlines()[0])
        os.kill(pid, signal.SIGKILL)
        self.assertEqual(ended.returncode, 1)
        self.assertIn(f"leftovers: process {pid}: ", ended.stdout)
        self.assertIn(f"socket @{name} of process {pid}", ended.stdout)

    def test_directories_are_named(self):
        for place in ("/tmp", "/dev/shm"):
            ended = self.run_check(f"mktemp -d {place}/mobula-left-XXXXXX")
            path = ended.stdout.splitlines()[0]
            os.rmdir(path)
            self.assertEqual(ended.returncode, 1)
            self.assertIn(f"leftovers: {path}\n", ended.stdout)

    def test_directories_of_other_runs_do_not_count(self):
        path = tempfile.mktemp(prefix="mobula-other-", dir="/tmp")
        other = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()", path], stdin=subprocess.PIPE)
        ended = self.run_check(f"mkdir {path}")
        other.communicate()
        os.rmdir(path)
        self.assertEqual((ended.returncode, ended.stdout), (0, ""))

    def test_ending_process_has_time(self):
        self.assertEqual(self.run_check("sleep 1 > /dev/null 2>&1 &", wait="60").returncode, 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
