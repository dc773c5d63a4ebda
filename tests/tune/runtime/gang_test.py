#!/usr/bin/env python3
"""Runs trials whose workers are on three agents, and ends one agent by SIGKILL in the middle.

Usage: gang_test.py BUILD_DIRECTORY

Each report must come from workers on three nodes. Each trial continues from its checkpoint on the agent that
starts in place of the lost one. No group, process, or checkpoint is left.
"""

import os
import sys
import types

from chaos_test import PATIENCE, Cluster, Controller, Fault, alive, check, kill, run_on, wait_for

TRIALS = 3


def run(cluster):
    storage = os.path.join(cluster.directory, "storage")
    controller = Controller(cluster, [storage, "gang", str(TRIALS)])
    if controller.wait_for_report(4) is None:
        raise Fault("the experiment does not begin: %s %s" % controller.finish())
    lost = cluster.pid("c")
    kill(lost)
    if not wait_for(lambda: not alive(lost)):
        raise Fault("agent %d does not end" % lost)
    cluster.start_again(["c"])
    code, error = controller.finish(2 * PATIENCE)
    if code != 0:
        raise Fault("the controller ended with %s: %s" % (code, error))
    check(cluster, "gang", storage, types.SimpleNamespace(trials=TRIALS), controller, "gang")
    reports = [line for line in controller.lines if line and line[0] == "report"]
    spread = {line[4] for line in reports}
    if spread != {"3"}:
        raise Fault("workers were on %s nodes" % spread)
    processes = {(line[1], line[2]) for line in reports}
    if len(processes) <= TRIALS:
        raise Fault("no trial was repeated: %s" % processes)


if __name__ == "__main__":
    run_on(Cluster(sys.argv[1], ("b", "c")), run)
