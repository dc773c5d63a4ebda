#!/usr/bin/env python3
"""Tests traces with a receiver that parses them with the protobuf messages of OpenTelemetry.

Usage: otlp_receiver_test.py MOBULA NESTED. Needs opentelemetry-proto of PyPI; exit code 77 without it.
"""

import base64
import http.server
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

try:
    from google.protobuf import json_format
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
except ImportError:
    print("otlp_receiver_test: skipped: opentelemetry-proto is not installed (pip install opentelemetry-proto)")
    sys.exit(77)

MOBULA, NESTED = [os.path.abspath(path) for path in sys.argv[1:3]]
PATIENCE = 120  # seconds; the machine may be busy
TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
CONTEXT = f"00-{TRACE}-{PARENT}-01"


def with_base64(value):
    """Ids are hexadecimal in OTLP/JSON, and base64 in the JSON mapping of protobuf."""
    if isinstance(value, list):
        return [with_base64(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {name: base64.b64encode(bytes.fromhex(each)).decode() if name in ("traceId", "spanId", "parentSpanId") else with_base64(each)
            for name, each in value.items()}


class Receiver(http.server.BaseHTTPRequestHandler):
    spans = {}

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        request = json_format.ParseDict(with_base64(body), ExportTraceServiceRequest())
        for resource in request.resource_spans:
            for scope in resource.scope_spans:
                for span in scope.spans:
                    self.spans[span.span_id.hex()] = span
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


class Traces(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="mobula-otlp-", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("MOBULA_") and name != "TRACEPARENT"}
        self.env = {**kept, "MOBULA_STATE_DIR": self.directory}
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        self.addCleanup(self.run_mobula, "stop", "--grace", "0", check=False)
        self.address = json.loads(self.run_mobula("start", "--head", "--num-cpus", "2", "-o", "json"))["address"]
        Receiver.spans = {}

    def run_mobula(self, *words, check=True, **more):
        return subprocess.run([MOBULA, *words], env={**self.env, **more}, text=True, capture_output=True, timeout=PATIENCE,
                              check=check).stdout

    def export(self, **more):
        """The spans of the calls of a program that has run, by id."""
        ended = subprocess.run([NESTED], env={**self.env, "MOBULA_ADDRESS": self.address, **more}, text=True,
                               capture_output=True, timeout=PATIENCE)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.run_mobula("timeline", "--otlp", f"http://127.0.0.1:{self.server.server_port}")
        self.assertEqual(len(Receiver.spans), 63)
        self.assertEqual({span.name for span in Receiver.spans.values()}, {"tree"})
        return Receiver.spans

    def check_tree(self, spans, root_parent):
        """A binary tree of depth 5, whose root has this parent."""
        roots = [each for each, span in spans.items() if span.parent_span_id.hex() == root_parent]
        self.assertEqual(len(roots), 1)
        level = roots
        for depth in range(6):
            self.assertEqual(len(level), 2 ** depth)
            level = [each for each, span in spans.items() if span.parent_span_id.hex() in level]
        self.assertEqual(level, [])

    def test_parent_is_the_task_that_submitted_the_call(self):
        spans = self.export()
        self.check_tree(spans, "")
        self.assertEqual(len({span.trace_id for span in spans.values()}), 1)
        self.assertNotIn(bytes.fromhex(TRACE), {span.trace_id for span in spans.values()})

    def test_trace_of_the_environment_continues(self):
        spans = self.export(TRACEPARENT=CONTEXT)
        self.check_tree(spans, PARENT)
        self.assertEqual({span.trace_id.hex() for span in spans.values()}, {TRACE})

    def test_faulty_trace_parent_is_ignored(self):
        spans = self.export(TRACEPARENT=CONTEXT.upper() + "\"}")
        self.check_tree(spans, "")

    def test_submitted_job_gets_the_trace_of_its_submitter(self):
        script = "echo parent=$TRACEPARENT state=$TRACESTATE"
        printed = self.run_mobula("run", "--", "sh", "-c", script, TRACEPARENT=CONTEXT, TRACESTATE="vendor=1")
        self.assertIn(f"parent={CONTEXT} state=vendor=1", printed)
        given = self.run_mobula("run", "--env", "TRACEPARENT=own", "--", "sh", "-c", script, TRACEPARENT=CONTEXT)
        self.assertIn("parent=own state=", given)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
