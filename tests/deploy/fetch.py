#!/usr/bin/env python3
"""Tests files of jobs on a node: a slow transfer delays only jobs with the same files; libraries are found by name.

Usage: fetch.py BUILD_DIRECTORY
"""

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

MOBULA = os.path.join(os.path.abspath(sys.argv[1]), "bin", "mobula")
PATIENCE = 120  # seconds; the machine may be busy


class Fetch(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="mobula-fetch-", dir="/tmp")
        self.env = {name: value for name, value in os.environ.items() if not name.startswith("MOBULA_")}
        self.env["MOBULA_STATE_DIR"] = os.path.join(self.directory, "state")
        self.mobula("start", "--head", "--num-cpus", "2")
        self.cache = os.path.join(self.directory, "state", "default", "agent", "job-files", "cache")

    def tearDown(self):
        self.mobula("stop", "--grace", "0")
        shutil.rmtree(self.directory, ignore_errors=True)

    def mobula(self, *words):
        ended = subprocess.run([MOBULA, *words], env=self.env, text=True, capture_output=True, timeout=PATIENCE)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        return ended.stdout

    def work(self, text):
        directory = tempfile.mkdtemp(dir=self.directory)
        with open(os.path.join(directory, "word"), "w", encoding="utf-8") as file:
            file.write(text)
        return directory

    def test_slow_fetch_does_not_delay_others(self):
        slow = self.work("slow")
        self.assertEqual(self.mobula("run", "--workdir", slow, "--", "cat", "word"), "slow")
        (name,) = [each for each in os.listdir(self.cache) if len(each) == 32]
        self.assertEqual(sorted(os.listdir(self.cache)), sorted([name, "lock"]), "no other lock stays")
        # As if another job of this node were pulling the file, and took long.
        os.unlink(os.path.join(self.cache, name))
        with open(os.path.join(self.cache, name + ".lock"), "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.mobula("submit", "--no-wait", "--name", "waits", "--workdir", slow, "--", "cat", "word")
            self.assertEqual(self.mobula("run", "--workdir", self.work("quick"), "--", "cat", "word"), "quick")
            self.assertNotIn("SUCCEEDED", self.mobula("job", "status", "waits"))
            fcntl.flock(lock, fcntl.LOCK_UN)
        self.assertEqual(self.mobula("wait", "waits"), "slow")

    def test_ships_library_opened_by_name(self):
        with open("/proc/self/maps", encoding="utf-8") as file:
            some = next(line.split()[-1] for line in file if "/libm.so" in line or "/libz.so" in line or "/libc.so" in line)
        library = os.path.join(self.directory, "libmine.so")
        shutil.copy(some, library)
        opens = "import ctypes; ctypes.CDLL('libmine.so'); print('opened')"
        refused = subprocess.run([MOBULA, "run", "--", sys.executable, "-c", opens], env=self.env, capture_output=True, timeout=PATIENCE)
        self.assertNotEqual(refused.returncode, 0)
        self.assertEqual(self.mobula("run", "--ship-lib", library, "--", sys.executable, "-c", opens), "opened\n")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
