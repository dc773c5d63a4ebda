#!/usr/bin/env python3
"""Tests deploy/spot/notice with a fake metadata server.

Usage: spot_notice.py NOTICE MOBULA [TEST...]
"""

import http.server
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

NOTICE, MOBULA = (os.path.abspath(each) for each in sys.argv[1:3])
TIMEOUT = 60


class Metadata(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def serve(self):
        server = self.server
        length = int(self.headers.get("Content-Length", 0) or 0)
        self.rfile.read(length)
        if self.command == "PUT":
            status, text = 200, "session"
        else:
            server.headers = dict(self.headers)
            status, text = server.answers.pop(0) if len(server.answers) > 1 else server.answers[0]
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    do_GET = do_PUT = serve


class SpotNotice(unittest.TestCase):
    def setUp(self):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Metadata)
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()
        self.agent = subprocess.Popen(["sleep", "1000"])
        self.directory = tempfile.mkdtemp(prefix="mobula-spot-", dir="/tmp")

    def tearDown(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()
        self.agent.kill()
        self.agent.wait()
        shutil.rmtree(self.directory, ignore_errors=True)

    def notice(self, cloud, answers, *flags):
        self.server.answers = answers
        url = f"http://127.0.0.1:{self.server.server_port}/notice"
        return subprocess.run([NOTICE, "--cloud", cloud, "--url", url, "--interval", "0.01", *flags], text=True, capture_output=True,
                              timeout=TIMEOUT)

    def test_each_cloud_ends_the_agent(self):
        nothing = json.dumps({"Events": [{"EventType": "Reboot"}]})
        preempt = json.dumps({"Events": [{"EventType": "Preempt", "NotBefore": "now"}]})
        for cloud, answers, header in (("aws", [(404, ""), (404, ""), (200, '{"action": "terminate"}')], ("X-aws-ec2-metadata-token", "session")),
                                       ("gcp", [(200, "FALSE"), (200, "TRUE")], ("Metadata-Flavor", "Google")),
                                       ("azure", [(200, nothing), (200, preempt)], ("Metadata", "true"))):
            with self.subTest(cloud):
                agent = subprocess.Popen(["sleep", "1000"])
                done = self.notice(cloud, answers, "--pid", str(agent.pid))
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(agent.wait(TIMEOUT), -signal.SIGTERM)
                headers = {name.lower(): value for name, value in self.server.headers.items()}
                self.assertEqual(headers.get(header[0].lower()), header[1])

    def test_faults_of_the_server_end_nothing(self):
        done = self.notice("azure", [(500, "broken"), (200, "garbage"), (200, "[1]"), (200, '{"Events": [{"EventType": "Preempt"}]}')], "--pid",
                           str(self.agent.pid))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr.count("retrying"), 1, "one line for repeated faults")
        self.assertEqual(self.agent.wait(TIMEOUT), -signal.SIGTERM)

    def test_record_names_the_agent(self):
        record = os.path.join(self.directory, "default", "agent", "agent.json")
        os.makedirs(os.path.dirname(record))
        with open(f"/proc/{self.agent.pid}/stat", encoding="utf-8") as file:
            start = int(file.read().rsplit(")", 1)[1].split()[19])
        for start_time, code in ((start + 1, 3), (start, 0)):
            with open(record, "w", encoding="utf-8") as file:
                json.dump({"pid": self.agent.pid, "start_time": start_time}, file)
            done = self.notice("gcp", [(200, "TRUE")], "--state-dir", self.directory)
            self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(self.agent.wait(TIMEOUT), -signal.SIGTERM)

    def test_agent_of_cluster_leaves(self):
        env = {name: value for name, value in os.environ.items() if not name.startswith("MOBULA_")}

        def mobula(node, *words):
            done = subprocess.run([MOBULA, *words], env={**env, "MOBULA_STATE_DIR": os.path.join(self.directory, node)}, text=True,
                                  capture_output=True, timeout=TIMEOUT)
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stdout
        mobula("head", "start", "--head", "--no-worker")
        try:
            with open(os.path.join(self.directory, "head", "default", "head", "head.json"), encoding="utf-8") as file:
                address = json.load(file)["address"]
            mobula("node", "start", "--address", address, "--key", os.path.join(self.directory, "head", "default", "default.key"))
            done = self.notice("gcp", [(200, "TRUE")], "--state-dir", os.path.join(self.directory, "node"))
            self.assertEqual(done.returncode, 0, done.stderr)
            until = time.monotonic() + TIMEOUT
            while '"NODE_LEFT"' not in mobula("head", "events", "-o", "json"):
                self.assertLess(time.monotonic(), until, "the node does not leave")
        finally:
            for node in ("node", "head"):
                mobula(node, "stop", "--grace", "0")

    def test_exited_agent_ends_the_program(self):
        self.agent.kill()
        self.agent.wait()
        self.assertEqual(self.notice("gcp", [(200, "FALSE")], "--pid", str(self.agent.pid)).returncode, 3)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
