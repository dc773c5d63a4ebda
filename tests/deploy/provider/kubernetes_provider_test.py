#!/usr/bin/env python3
"""Tests the provider `kubernetes` against a fake API server of this file, over TLS.

No real cluster has answered the provider. Needs openssl. With the variable KUBERNETES_VALIDATE, the program of that
package from PyPI validates each body.
Usage: kubernetes_provider_test.py MOBULA [TEST...]        exit 77: a program is missing
"""

import http.server
import json
import os
import shutil
import ssl
import subprocess
import sys
import tempfile
import threading
import unittest
import urllib.parse
import uuid

MOBULA = os.path.abspath(sys.argv[1])
TIMEOUT = 60
PODS = "/api/v1/namespaces/lab/pods"


class ApiServer(http.server.ThreadingHTTPServer):
    """The parts of an API server that the provider uses."""

    def __init__(self, context):
        super().__init__(("127.0.0.1", 0), Handler)
        self.socket = context.wrap_socket(self.socket, server_side=True)
        self.pods, self.secrets, self.calls = {}, {}, []
        self.token, self.quota, self.page = "first", None, 2
        self.failures = []  # (method, status, message, headers) for the next matching requests
        self.lock = threading.Lock()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body, headers=()):
        text = json.dumps(body).encode()
        self.send_response(status)
        for name, value in (*headers, ("Content-Type", "application/json"), ("Content-Length", str(len(text)))):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text)

    def fail(self, status, reason, message, headers=()):
        self.answer(status, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": message,
                             "code": status}, headers)

    def serve(self):
        server = self.server
        length = int(self.headers.get("Content-Length", 0))
        body = json.loads(self.rfile.read(length)) if length else None
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        with server.lock:
            server.calls.append((self.command, url.path, body))
            if self.headers.get("Authorization") != f"Bearer {server.token}":
                return self.fail(401, "Unauthorized", "Unauthorized")
            for each in server.failures:
                if each[0] == self.command:
                    server.failures.remove(each)
                    return self.fail(each[1], "Failure", each[2], each[3])
            name = url.path.rsplit("/", 1)[1]
            if url.path == "/apis/apps/v1/namespaces/lab/statefulsets/mobula-head":
                return self.answer(200, {"metadata": {"name": name, "uid": "owner-uid"}})
            if url.path == "/api/v1/namespaces/lab/secrets" and self.command == "POST":
                server.secrets[body["metadata"]["name"]] = body
                return self.answer(201, body)
            if url.path == PODS and self.command == "POST":
                return self.create(body)
            if url.path == PODS and self.command == "GET":
                return self.list(query)
            if url.path.startswith(PODS + "/"):
                return self.one(name, body)
            return self.fail(404, "NotFound", f"no {url.path}")

    do_GET = do_POST = do_DELETE = serve

    def create(self, body):
        server, name = self.server, body["metadata"]["name"]
        if name in server.pods:
            return self.fail(409, "AlreadyExists", f'pods "{name}" already exists')
        if server.quota is not None and len(server.pods) >= server.quota:
            return self.fail(403, "Forbidden", f'pods "{name}" is forbidden: exceeded quota: compute, requested: pods=1')
        body["metadata"]["uid"] = str(uuid.uuid4())
        body["status"] = {"phase": "Pending"}
        server.pods[name] = body
        return self.answer(201, body)

    def list(self, query):
        server = self.server
        key, value = query["labelSelector"].split("=")
        names = [name for name, pod in sorted(server.pods.items()) if pod["metadata"]["labels"].get(key) == value]
        begin = int(query.get("continue", 0))
        end = begin + min(server.page, int(query["limit"]))
        more = {"continue": str(end)} if end < len(names) else {}
        return self.answer(200, {"kind": "PodList", "metadata": more, "items": [server.pods[name] for name in names[begin:end]]})

    def one(self, name, body):
        server, pod = self.server, self.server.pods.get(name)
        if pod is None:
            return self.fail(404, "NotFound", f'pods "{name}" not found')
        if self.command == "DELETE":
            wanted = (body or {}).get("preconditions", {}).get("uid")
            if wanted not in (None, pod["metadata"]["uid"]):
                return self.fail(409, "Conflict", "the UID in the precondition does not match")
            del server.pods[name]
        return self.answer(200, pod)


class KubernetesProvider(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.keys = tempfile.mkdtemp(prefix="mobula-kubernetes-", dir="/tmp")
        for name in ("ca", "other"):
            cls.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj",
                        f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.crt")
        cls.openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=server", "-keyout",
                    "server.key", "-out", "server.csr", "-addext", "subjectAltName=IP:127.0.0.1")
        cls.openssl("x509", "-req", "-in", "server.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
                    "-copy_extensions", "copy", "-out", "server.crt")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.keys, ignore_errors=True)

    @classmethod
    def openssl(cls, *words):
        subprocess.run(["openssl", *words], cwd=cls.keys, check=True, capture_output=True, timeout=TIMEOUT)

    def setUp(self):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(os.path.join(self.keys, "server.crt"), os.path.join(self.keys, "server.key"))
        self.server = ApiServer(context)
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()
        self.write_token("first")

    def tearDown(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def write_token(self, token):
        with open(os.path.join(self.keys, "token"), "w", encoding="utf-8") as file:
            file.write(token + "\n")

    def call(self, call, settings=None, **members):
        request = {"version": 1, "call": call, "cluster": "default", "cluster_id": "k1", "head": "mobula-head-0.mobula-head:46390",
                   "settings": {"type": "kubernetes", "server": f"https://127.0.0.1:{self.server.server_port}", "namespace": "lab",
                                "image": "mobula:1", "ca_file": os.path.join(self.keys, "ca.crt"),
                                "token_file": os.path.join(self.keys, "token"), **(settings or {})}, **members}
        done = subprocess.run([MOBULA, "provider", "kubernetes", call], input=json.dumps(request), text=True, capture_output=True,
                              timeout=TIMEOUT)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def instance(self, number, **more):
        name = f"mobula-k1-{number}"
        return {"name": name, "type": "gpu", "ticket": "secret-ticket", "resources": {"CPU": 8, "GPU": 2, "memory": 2**30},
                "labels": {"mobula.io/instance": name, "mobula.io/node-group": "gpu"}, **more}

    def launch(self, *numbers, **members):
        return self.call("launch", instances=[self.instance(n) for n in numbers], **members)

    def rows(self):
        answer = self.call("list")
        self.assertTrue(answer.get("complete"), answer)
        return {row["name"]: row for row in answer["instances"]}

    def validate(self, body):
        program = os.environ.get("KUBERNETES_VALIDATE")
        if not program:
            return
        path = os.path.join(self.keys, "body.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(body, file)
        for version in ("1.25", "1.34"):
            done = subprocess.run([program, "--strict", "--kubernetes-version", version, path], text=True, capture_output=True,
                                  timeout=TIMEOUT)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_pod_has_owner_labels_and_ticket(self):
        answer = self.launch(1, settings={"pod": {"spec": {"nodeSelector": {"zone": "a"}}}})["instances"][0]
        self.assertNotIn("error", answer)
        pod, secret = self.server.pods["mobula-k1-1"], self.server.secrets["mobula-k1-1"]
        sent = {call[1]: call[2] for call in self.server.calls if call[0] == "POST"}
        self.assertEqual(answer["ref"], pod["metadata"]["uid"])
        self.assertEqual(pod["metadata"]["ownerReferences"],
                         [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "mobula-head", "uid": "owner-uid"}])
        self.assertEqual(pod["metadata"]["labels"]["mobula.io/instance"], "mobula-k1-1")
        self.assertEqual(pod["spec"]["nodeSelector"], {"zone": "a"})
        agent = pod["spec"]["containers"][0]
        self.assertEqual(agent["resources"]["limits"], {"cpu": "8", "nvidia.com/gpu": "2", "memory": str(2**30)})
        self.assertIn("mobula.io/instance=mobula-k1-1,mobula.io/node-group=gpu", agent["args"])
        self.assertEqual(secret["metadata"]["ownerReferences"][0]["uid"], answer["ref"])
        self.assertNotIn("secret-ticket", json.dumps(pod))
        self.assertEqual(secret["stringData"], {"ticket": "secret-ticket\n"})
        for body in sent.values():
            self.validate({**body, "metadata": {key: value for key, value in body["metadata"].items() if key != "uid"}})

    def test_repeated_launch_finds_the_pod(self):
        first = self.launch(1)["instances"][0]
        again = self.launch(1)["instances"][0]
        self.assertEqual(again, first)
        self.server.pods["mobula-k1-1"]["metadata"]["labels"]["mobula.io/cluster"] = "other"
        self.assertEqual(self.launch(1)["instances"][0]["error"]["kind"], "invalid")
        self.server.pods["mobula-k1-1"]["metadata"]["labels"]["mobula.io/cluster"] = "k1"
        self.server.pods["mobula-k1-1"]["metadata"]["deletionTimestamp"] = "2026-11-27T00:00:00Z"
        self.assertIn("still ending", self.launch(1)["instances"][0]["error"]["text"])

    def test_list_reads_all_pages_and_states(self):
        self.launch(1, 2, 3, 4, 5)
        pods = self.server.pods
        pods["mobula-k1-1"]["status"] = {"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes: insufficient nvidia.com/gpu"}]}
        pods["mobula-k1-2"]["status"] = {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}],
                                         "containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff", "message": "no image"}}}]}
        pods["mobula-k1-3"]["status"] = {"phase": "Running", "startTime": "2026-11-27T00:00:00Z"}
        pods["mobula-k1-3"]["spec"]["activeDeadlineSeconds"] = 60
        pods["mobula-k1-4"]["status"] = {"phase": "Failed", "reason": "Evicted", "message": "disk"}
        pods["mobula-k1-5"]["metadata"]["deletionTimestamp"] = "2026-11-27T00:00:00Z"
        rows = self.rows()
        self.assertEqual({name[-1]: row["state"] for name, row in rows.items()},
                         {"1": "pending", "2": "starting", "3": "running", "4": "failed", "5": "ending"})
        self.assertEqual(rows["mobula-k1-1"]["reason"], "Unschedulable: 0/3 nodes: insufficient nvidia.com/gpu")
        self.assertEqual(rows["mobula-k1-2"]["reason"], "ImagePullBackOff: no image")
        self.assertEqual(rows["mobula-k1-3"]["ends_at"], 1795737660)
        self.assertEqual(rows["mobula-k1-4"]["reason"], "Evicted: disk")
        self.assertEqual({row["type"] for row in rows.values()}, {"gpu"})
        self.server.failures.append(("GET", 410, "The provided continue parameter is too old", ()))
        self.assertEqual(len(self.rows()), 5, "an expired position begins a new list")

    def test_failures_have_kinds(self):
        self.server.quota = 1
        answers = self.launch(1, 2)["instances"]
        self.assertNotIn("error", answers[0])
        self.assertEqual(answers[1]["error"]["kind"], "quota")
        self.assertIn("exceeded quota", answers[1]["error"]["text"])
        self.server.quota = None
        for status, kind in ((403, "auth"), (422, "invalid"), (500, "transient")):
            self.server.failures.append(("POST", status, "some text", ()))
            self.assertEqual(self.launch(3)["instances"][0]["error"]["kind"], kind)
        self.server.failures.append(("POST", 429, "too many requests", (("Retry-After", "7"),)))
        busy = self.launch(3)["instances"][0]["error"]
        self.assertEqual((busy["kind"], busy["retry_after_s"]), ("transient", 7))
        self.server.failures.append(("GET", 500, "etcd is away", ()))
        self.assertIn("etcd is away", self.call("list")["error"]["text"])

    def test_failed_secret_removes_the_pod(self):
        self.server.failures.append(("POST", 500, "first pod attempt", ()))
        self.launch(1)
        self.assertEqual(self.server.pods, {})
        original = Handler.create

        def create(handler, body):
            handler.server.failures.append(("POST", 403, "no secrets for you", ()))
            return original(handler, body)
        Handler.create = create
        try:
            answer = self.launch(1)["instances"][0]
        finally:
            Handler.create = original
        self.assertEqual(answer["error"]["kind"], "auth")
        self.assertEqual(self.server.pods, {})

    def test_end_needs_the_same_pod(self):
        ref = self.launch(1)["instances"][0]["ref"]
        name = "mobula-k1-1"
        self.assertNotIn("error", self.call("end", instances=[{"name": name, "ref": "another-uid"}])["instances"][0])
        self.assertIn(name, self.server.pods)
        self.assertNotIn("error", self.call("end", instances=[{"name": name, "ref": ref}])["instances"][0])
        self.assertNotIn(name, self.server.pods)
        self.assertNotIn("error", self.call("end", instances=[{"name": name, "ref": ref}])["instances"][0])

    def test_token_is_read_for_each_call(self):
        self.assertEqual(self.call("describe")["provider"], "kubernetes")
        self.server.token = "second"
        self.assertEqual(self.call("describe")["error"]["kind"], "auth")
        self.write_token("second")
        self.assertNotIn("error", self.call("describe"))

    def test_wrong_server_and_settings(self):
        other = self.call("describe", settings={"ca_file": os.path.join(self.keys, "other.crt")})
        self.assertEqual(other["error"]["kind"], "auth", other)
        self.assertIn("certificate", other["error"]["text"])
        self.assertEqual(self.call("describe", settings={"server": "https://127.0.0.1:1"})["error"]["kind"], "transient")
        for settings in ({"server": "http://127.0.0.1:80"}, {"image": ""}, {"owner": "x"}, {"ca_file": "/none"}, {"pod": 3}):
            self.assertEqual(self.call("describe", settings=settings)["error"]["kind"], "invalid", settings)


if __name__ == "__main__":
    if shutil.which("openssl") is None:
        print("kubernetes_provider: no program openssl (package openssl)")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
