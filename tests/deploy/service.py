#!/usr/bin/env python3
"""Tests `mobula start --block` as a service: its notifications to a service manager (a socket of this test), their
absence from the environment of user programs, and its exit. If systemd-analyze is installed, the units must pass it
without a warning.

Usage: tests/deploy/service.py BUILD_DIRECTORY        exit 77: cannot be tested here, with the reason
"""
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def check(holds, what):
    if not holds:
        sys.exit(f"service: {what}")


class Manager:
    """The socket, and the messages that arrived on it."""

    def __init__(self, directory, abstract):
        self.name = "\0mobula-service-%d" % os.getpid() if abstract else str(directory / "notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.name)
        self.socket.settimeout(60)

    def variable(self):
        return self.name.replace("\0", "@")

    def hears(self, word):
        """The next message with `word` in it."""
        while True:
            said = self.socket.recv(4096).decode()
            if word in said.splitlines():
                return said


def serve(mobula, abstract):
    with tempfile.TemporaryDirectory() as made:
        directory = Path(made)
        manager = Manager(directory, abstract)
        environment = {**os.environ, "NOTIFY_SOCKET": manager.variable(), "WATCHDOG_USEC": "400000",
                       "MOBULA_STATE_DIR": str(directory / "state")}
        environment.pop("WATCHDOG_PID", None)
        service = subprocess.Popen([mobula, "start", "--head", "--block", "--num-cpus", "1", "--port", "0"],
                                   env=environment, stdout=subprocess.DEVNULL)
        try:
            said = manager.hears("READY=1")
            check("STATUS=head at 127.0.0.1:" in said, f"it is ready with {said!r}")
            for _ in range(3):
                manager.hears("WATCHDOG=1")
            command = [mobula, "run", "--", "/usr/bin/env"]
            quiet = {**os.environ, "MOBULA_STATE_DIR": str(directory / "state")}
            printed = subprocess.run(command, env=quiet, capture_output=True, text=True, timeout=60)
            check(printed.returncode == 0 and "PATH=" in printed.stdout, f"a job ended with {printed}")
            for name in ("NOTIFY_SOCKET", "WATCHDOG_USEC"):
                check(name not in printed.stdout, f"a job has the variable {name}")
            service.send_signal(signal.SIGTERM)
            manager.hears("STOPPING=1")
            check(service.wait(60) == 0, f"it ended with {service.returncode}")
        finally:
            service.kill()
            service.wait()


def read_units(mobula):
    if shutil.which("systemd-analyze") is None:
        print("service: systemd-analyze is not installed, so the units were not read (package systemd)")
        return
    with tempfile.TemporaryDirectory() as made:
        units = []
        for unit in sorted((ROOT / "deploy" / "systemd").glob("mobula*.[st][ea]r[vg]*")):
            copy = Path(made) / unit.name
            text = unit.read_text().replace("/usr/bin/mobula", mobula).replace("=mobula\n", "=root\n")
            copy.write_text(text.replace("Documentation=man:mobula(1)\n", ""))
            units.append(str(copy))
        check(len(units) == 4, f"four units were expected, and these are there: {units}")
        read = subprocess.run(["systemd-analyze", "verify", "--man=no", *units], capture_output=True, text=True,
                              timeout=60, env={**os.environ, "SYSTEMD_UNIT_PATH": made + ":"})
        ours = [line for line in read.stderr.splitlines() if "mobula" in line]
        check(read.returncode == 0 and not ours, f"systemd-analyze says {read.stderr}")
        print("service: four units were read")


def main():
    mobula = str(Path(sys.argv[1]).resolve() / "bin" / "mobula")
    read_units(mobula)
    serve(mobula, abstract=False)
    serve(mobula, abstract=True)
    print("service: sent READY, WATCHDOG, and STOPPING by a path and by an abstract name, and hid them from jobs")


if __name__ == "__main__":
    main()
