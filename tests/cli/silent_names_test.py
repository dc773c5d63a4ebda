#!/usr/bin/env python3
"""Tests `mobula status` with a name server that receives queries and never replies: each query is sent at most twice.

Usage: silent_names_test.py MOBULA. Runs in separate network and mount namespaces, with a name server at 127.0.0.1.
"""

import os
import socket
import subprocess
import sys
import tempfile
import unittest

MOBULA = os.path.abspath(sys.argv[1])
PATIENCE = 120  # seconds; the machine may be busy


class SilentNames(unittest.TestCase):
    def setUp(self):
        self.server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.server.bind(("127.0.0.1", 53))
        self.server.setblocking(False)

    def tearDown(self):
        self.server.close()

    def questions(self):
        """The received queries without their ids, which differ between retries."""
        found = []
        while True:
            try:
                found.append(self.server.recv(4096)[2:])
            except BlockingIOError:
                return found

    def test_queries_silent_server_twice_and_names_it(self):
        with tempfile.TemporaryDirectory(prefix="mobula-names-") as directory:
            env = {**os.environ, "MOBULA_STATE_DIR": directory}
            ended = subprocess.run([MOBULA, "status", "--address", "head.mobula.test:4711"], env=env, text=True,
                                   capture_output=True, timeout=PATIENCE)
        self.assertEqual(ended.returncode, 3, ended.stderr)
        self.assertIn("reach the head at head.mobula.test:4711", ended.stderr)
        self.assertIn("the name server does not reply", ended.stderr)
        self.assertEqual(ended.stderr.count("\n"), 1, ended.stderr)
        asked = self.questions()
        self.assertTrue(asked, "the test's own name server was not asked")
        for each in set(asked):
            self.assertLessEqual(asked.count(each), 2, "%d questions in all" % len(asked))


def within_namespaces():
    """Runs this program again in namespaces that allow it to listen on port 53. Returns 77 if none can be made."""
    own = ["unshare", "--net", "--mount", "--propagation", "private"] + ([] if os.geteuid() == 0 else ["--map-root-user"])
    if subprocess.run([*own, "true"], capture_output=True, check=False).returncode != 0:
        print("this machine allows no namespaces")
        return 77
    with tempfile.NamedTemporaryFile("w", prefix="mobula-resolv-") as names:
        names.write("nameserver 127.0.0.1\n")
        names.flush()
        os.chmod(names.name, 0o644)
        made = 'ip link set lo up && mount --bind %s /etc/resolv.conf && exec "$@"' % names.name
        return subprocess.run([*own, "sh", "-c", made, "sh", sys.executable, os.path.abspath(__file__), MOBULA, "within"],
                              check=False).returncode


if __name__ == "__main__":
    if len(sys.argv) == 2:
        sys.exit(within_namespaces())
    unittest.main(argv=sys.argv[:1])
