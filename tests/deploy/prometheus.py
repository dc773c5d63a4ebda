#!/usr/bin/env python3
"""Tests metrics with a real Prometheus: it scrapes a cluster with a token file, and every rule of deploy/prometheus and
every expression of deploy/grafana evaluates to data.

Usage: prometheus.py BUILD_DIRECTORY [TEST...]. Needs the package prometheus; exit code 77 without it.
"""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request

BUILD = os.path.abspath(sys.argv[1])
MOBULA = os.path.join(BUILD, "bin", "mobula")
HELLO = os.path.join(BUILD, "bin", "example_hello")
DEPLOY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "deploy")
PATIENCE = 120  # seconds; the machine may be busy


def rules_file():
    with open(os.path.join(DEPLOY, "prometheus", "alerts.yml"), encoding="utf-8") as file:
        return file.read()


def dashboard_expressions():
    with open(os.path.join(DEPLOY, "grafana", "mobula.json"), encoding="utf-8") as file:
        panels = json.load(file)["panels"]
    return [target["expr"] for panel in panels for target in panel["targets"]]


class Files(unittest.TestCase):
    def test_rules_fire_as_described(self):
        for words in (("check", "rules", "alerts.yml"), ("test", "rules", "alerts_test.yml")):
            ended = subprocess.run(["promtool", *words], cwd=os.path.join(DEPLOY, "prometheus"), text=True,
                                   capture_output=True, timeout=PATIENCE)
            self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)


class Scrape(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="mobula-prometheus-", dir="/tmp")
        self.env = {name: value for name, value in os.environ.items() if not name.startswith("MOBULA_")}
        self.env["MOBULA_STATE_DIR"] = self.directory
        self.prometheus = None
        self.mobula("start", "--head", "--num-cpus", "2", "--num-gpus", "2", "--http", "127.0.0.1:0")
        self.address = json.loads(self.mobula("status", "-o", "json"))["http"]["url"].split("//")[1].rstrip("/")
        self.token = os.path.join(self.directory, "metrics.token")
        self.mobula("token", "create", "--role", "metrics", "--name", "prometheus", "--file", self.token)

    def tearDown(self):
        if self.prometheus:
            self.prometheus.terminate()
            self.prometheus.wait(PATIENCE)
        subprocess.run([MOBULA, "stop", "--grace", "0"], env=self.env, capture_output=True, timeout=PATIENCE, check=False)
        shutil.rmtree(self.directory, ignore_errors=True)

    def mobula(self, *words):
        ended = subprocess.run([MOBULA, *words], env=self.env, text=True, capture_output=True, timeout=PATIENCE)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        return ended.stdout

    def page(self, path="/metrics", token=None):
        with open(token or self.token, encoding="utf-8") as file:
            value = file.read().strip()
        request = urllib.request.Request("http://%s%s" % (self.address, path), headers={"Authorization": "Bearer " + value})
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return answer.read().decode()

    def eventually(self, what, why):
        until = time.monotonic() + PATIENCE
        while not (value := what()):
            self.assertLess(time.monotonic(), until, why() if callable(why) else why)
            time.sleep(0.1)
        return value

    def start_prometheus(self):
        with open(os.path.join(DEPLOY, "prometheus", "scrape.yml"), encoding="utf-8") as file:
            config = file.read()
        for seen, wanted in (("127.0.0.1:8265", self.address), ("/etc/prometheus/mobula.token", self.token), ("15s", "500ms")):
            self.assertIn(seen, config)
            config = config.replace(seen, wanted)
        with open(os.path.join(self.directory, "prometheus.yml"), "w", encoding="utf-8") as file:
            file.write(config)
        shutil.copy(os.path.join(DEPLOY, "prometheus", "alerts.yml"), self.directory)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.log = os.path.join(self.directory, "prometheus.log")
        with open(self.log, "wb") as log:
            self.prometheus = subprocess.Popen(
                ["prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=data",
                 "--web.listen-address=127.0.0.1:%d" % self.port],
                cwd=self.directory, stdout=log, stderr=log)
        self.eventually(self.ready, self.log_text)

    def log_text(self):
        with open(self.log, encoding="utf-8") as file:
            return file.read()

    def ready(self):
        self.assertIsNone(self.prometheus.poll(), self.log_text())
        try:
            return self.ask("/api/v1/targets")["activeTargets"]
        except (urllib.error.URLError, ConnectionError):
            return None

    def ask(self, path, **arguments):
        url = "http://127.0.0.1:%d%s?%s" % (self.port, path, urllib.parse.urlencode(arguments))
        with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
            return json.load(answer)["data"]

    def data(self, expression):
        return self.ask("/api/v1/query", query=expression)["result"]

    def test_every_rule_and_panel_has_data(self):
        subprocess.run([HELLO], env=self.env, check=True, capture_output=True, timeout=PATIENCE)
        self.start_prometheus()
        expressions = [each.replace("$__rate_interval", "10s") for each in dashboard_expressions()]
        self.assertGreater(len(expressions), 12)
        for expression in expressions:
            self.eventually(lambda: self.data(expression), expression)
        rules = self.ask("/api/v1/rules")["groups"][0]["rules"]
        self.assertEqual(len(rules), rules_file().count("- alert:"))
        for rule in rules:
            self.eventually(lambda: all(each["health"] == "ok" for each in self.ask("/api/v1/rules")["groups"][0]["rules"]),
                            rule["name"])
            for metric in set(re.findall(r"\b(?:mobula_\w+|up)\b(?=[{\[ ])", rule["query"])):
                self.assertTrue(self.data(metric), metric)
        typed = self.data("mobula_gpu_booked_ratio * on(node, gpu) group_left(type) mobula_gpu_memory_bytes ^ 0")
        self.assertEqual(len(typed), 2, "each GPU has a type")
        named = self.data("sum by (name) (mobula_tasks_finished_total{name!=\"other\"}) > 0")
        self.assertTrue(named, "calls of a program that has ended are counted")

    def test_text_is_valid_and_token_reads_nothing_else(self):
        text = self.page()
        check = subprocess.run(["promtool", "check", "metrics"], input=text, text=True, capture_output=True, timeout=PATIENCE)
        complaints = [each for each in (check.stdout + check.stderr).splitlines()
                      if each and not each.startswith("mobula_resource_total ")]  # a total of all nodes, no counter
        self.assertEqual(complaints, [])
        for path, code in (("/api/v1/status", 403), ("/api/v1/tasks", 403)):
            with self.assertRaises(urllib.error.HTTPError) as refused:
                self.page(path)
            self.assertEqual(refused.exception.code, code, path)
        with self.assertRaises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen("http://%s/metrics" % self.address, timeout=PATIENCE)
        self.assertEqual(refused.exception.code, 401)
        self.mobula("token", "revoke", "prometheus")
        with self.assertRaises(urllib.error.HTTPError) as refused:
            self.page()
        self.assertEqual(refused.exception.code, 401)


if __name__ == "__main__":
    for program in ("prometheus", "promtool"):
        if shutil.which(program) is None:
            print("prometheus.py: no program %s; install the package prometheus" % program)
            sys.exit(77)
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
