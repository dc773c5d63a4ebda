#!/usr/bin/env python3
"""Runs trials that fit on no node until the autoscaler starts one with the provider `local`.

Usage: demand_test.py BUILD_DIRECTORY
While the type of the missing resource is paused, `mobula tune explain`, `mobula tune status`, and the table of the
controller name the resource and the autoscaler's reason. A head that does not reply ends no experiment. After `resume`,
the trials run on the new node, and the idle node ends.
"""

import json
import os
import signal
import sys
import tempfile

from chaos_test import CPUS, PATIENCE, Cluster, Controller, Fault, run_on, wait_for

TRIALS = 2
TYPES = """
max_workers: 1
idle_timeout_minutes: 0.02
launch_timeout_minutes: 2
absent_timeout_seconds: 1
provider: {type: local, directory: %s}
available_node_types:
  licensed:
    resources: {CPU: 2, license: 1}
    node_config: {flags: ["--object-store-memory", "64MiB"]}
"""


class ScaledCluster(Cluster):
    """A head with the agent "a", which has no license, and an autoscaler."""

    def __init__(self, build):  # pylint: disable=super-init-not-called
        self.bin = os.path.join(os.path.abspath(build), "bin")
        self.directory = tempfile.mkdtemp(prefix="mobula-tune-demand-", dir="/tmp")
        self.kept = {name: value for name, value in os.environ.items() if not name.startswith("MOBULA_")}
        self.others = ()
        os.mkdir(os.path.join(self.directory, "run"))
        types = os.path.join(self.directory, "types.yaml")
        with open(types, "w", encoding="utf-8") as file:
            file.write(TYPES % os.path.join(self.directory, "fleet"))
        self.mobula("start", "--head", "--driver-absence", "5", "--autoscale", types, *CPUS)
        self.address = self.read("a", "head/head.json")["address"]

    def instances(self):
        fleet = os.path.join(self.directory, "fleet")
        return [name for name in os.listdir(fleet) if name.startswith("mobula-")] if os.path.isdir(fleet) else []

    def launched(self):
        return [node for node in self.items("nodes")
                if node["state"] == "ALIVE" and "mobula.io/instance" in node.get("labels", {})]


def explained(cluster, storage, trial):
    ended = cluster.mobula("tune", "explain", "asha", str(trial), "--storage", storage, "-o", "json", ok=False)
    return json.loads(ended.stdout) if ended.returncode == 0 else {}


def expect(holds, what):
    if not wait_for(holds):
        raise Fault("not in time: " + what)


def run(cluster):
    storage = os.path.join(cluster.directory, "storage")
    expect(lambda: "autoscaler: idle" in cluster.mobula("status").stdout, "the autoscaler reports")
    cluster.mobula("autoscaler", "pause", "licensed")
    controller = Controller(cluster, [storage, "asha", str(TRIALS), "license", "verbose"])

    def waits():
        trial = explained(cluster, storage, 0)
        reason = trial.get("reason", "")
        return trial.get("state") == "pending" and "license" in reason and "licensed is closed: paused" in reason

    if not wait_for(waits):
        raise Fault("explain does not name the resource and the autoscaler: %s" % explained(cluster, storage, 0))
    status = cluster.mobula("tune", "status", "asha", "--storage", storage).stdout
    if "licensed is closed: paused" not in status:
        raise Fault("the status lacks the reason: " + status)
    if cluster.launched():
        raise Fault("a paused type was launched: %s" % cluster.launched())
    os.kill(cluster.pid("head"), signal.SIGSTOP)
    try:
        expect(lambda: controller.process.poll() is not None or "did not reply in time" in cluster.mobula(
            "tune", "status", "asha", "--storage", storage).stdout, "the reason names the head that does not reply")
    finally:
        os.kill(cluster.pid("head"), signal.SIGCONT)
    expect(waits, "explain names the resource again")
    cluster.mobula("autoscaler", "resume", "licensed")
    code, error = controller.finish(2 * PATIENCE)
    if code != 0:
        raise Fault("the controller ended with %s: %s" % (code, error))
    if "Next trial waits: " not in error or "licensed is closed: paused" not in error:
        raise Fault("the table of the controller lacks the reason: " + error)
    results = [line for line in controller.lines if line and line[0] == "result"]
    if len(results) != TRIALS or any(line[4] != "''" for line in results):
        raise Fault("results: %s" % results)
    own = {node["node_id"] for node in cluster.items("nodes") if "mobula.io/instance" not in node.get("labels", {})}
    for trial in range(TRIALS):
        for attempt in explained(cluster, storage, trial)["attempts"]:
            if not attempt["node"] or any(node.startswith(attempt["node"]) for node in own):
                raise Fault("trial %d ran on node %s, which has no license" % (trial, attempt["node"]))
    expect(lambda: not cluster.launched() and not cluster.instances(), "the autoscaler gives the idle node back")


if __name__ == "__main__":
    run_on(ScaledCluster(sys.argv[1]), run)
