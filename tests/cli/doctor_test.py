#!/usr/bin/env python3
"""Tests `mobula doctor` on machines and clusters with one real fault each.

Usage: doctor_test.py MOBULA FAKE_NVML SIMULATED_CUDA SIMULATED_NCCL SKEWED_CLOCK [TEST...]
"""

import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import unittest

MOBULA, FAKE_NVML, CUDA, NCCL, SKEWED_CLOCK = [os.path.abspath(path) for path in sys.argv[1:6]]
PATIENCE = 120  # seconds; the machine may be busy


class Case(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="mobula-doctor-", dir="/tmp")
        self.env = {name: value for name, value in os.environ.items() if not name.startswith("MOBULA_")}
        self.env["MOBULA_STATE_DIR"] = self.state = os.path.join(self.directory, "state")

    def tearDown(self):
        self.mobula("stop", "--grace", "0")
        shutil.rmtree(self.directory, ignore_errors=True)

    def mobula(self, *words, env=None):
        return subprocess.run([MOBULA, *words], env={**self.env, **(env or {})}, text=True, capture_output=True,
                              timeout=PATIENCE)

    def doctor(self, *words, env=None, shell=None):
        """Returns the exit code, and the checks by name, with the worst result of several with one name. `shell` is a
        command that the shell runs first."""
        command = [MOBULA, "doctor", "-o", "json", *words]
        if shell:
            command = ["sh", "-c", shell + '; exec "$@"', "sh", *command]
        if shell and "mount" in shell:
            command = ["unshare", "-m" if os.geteuid() == 0 else "-rm", *command]
        ended = subprocess.run(command, env={**self.env, **(env or {})}, text=True, capture_output=True, timeout=PATIENCE)
        self.assertNotEqual(ended.stdout, "", ended.stderr)
        found = {}
        for each in json.loads(ended.stdout)["items"]:
            self.assertIn(each["result"], ("ok", "note", "fix"))
            if each["result"] == "fix":
                self.assertTrue(each.get("fix"), each)
            if each["name"] not in found or each["result"] == "fix":
                found[each["name"]] = each
        return ended.returncode, found

    def assert_fix(self, found, name, seen, fix=""):
        self.assertIn(name, found)
        self.assertEqual(found[name]["result"], "fix", found[name])
        self.assertIn(seen, found[name]["text"])
        self.assertIn(fix, found[name]["fix"])

    def start_head(self, *words, env=None):
        started = self.mobula("start", "--head", "--num-cpus", "1", "-o", "json", *words, env=env)
        self.assertEqual(started.returncode, 0, started.stderr)
        return json.loads(started.stdout)

    def file(self, name):
        with open(os.path.join(self.state, "default", name), encoding="utf-8") as file:
            return json.load(file)


class Machine(Case):
    def test_exits_with_3_without_a_cluster_and_0_with_one(self):
        code, found = self.doctor()
        wrong = [each for each in found.values() if each["result"] == "fix"]
        self.assertEqual((code, wrong), (3, []))
        self.assertIn("find cluster: none is known", found["cluster"]["text"])
        self.start_head()
        code, found = self.doctor()
        wrong = [each for each in found.values() if each["result"] == "fix"]
        self.assertEqual((code, wrong), (0, []))
        for name in ("head port", "cluster", "clock", "version", "node ports", "key file", "head process", "agent process"):
            self.assertEqual(found[name]["result"], "ok", name)
        table = self.mobula("doctor").stdout
        self.assertNotIn("to fix", table)
        self.assertRegex(table, r"(?m)^clock +ok +clock of this machine: 20\d\d-")

    def test_reports_a_debug_build(self):
        _, found = self.doctor()
        debug = "debug build" in self.mobula("version").stdout
        self.assertEqual("build" in found, debug)
        if debug:
            self.assertIn("10 to 16 times the processor time", found["build"]["text"])
            self.assertIn("./dev install", found["build"]["fix"])

    def test_reports_low_limits(self):
        code, found = self.doctor(shell="ulimit -n 256")
        self.assertEqual(code, 1)
        self.assert_fix(found, "open files", "at most 256", "ulimit -n 65536")

    def test_small_shared_memory_matters_for_plugins(self):
        small = "mount -t tmpfs -o size=1m tmpfs /dev/shm"
        code, found = self.doctor(shell=small)
        self.assertEqual((code, found["shared memory"]["result"]), (3, "note"))
        code, found = self.doctor(shell=small, env={"MOBULA_TRANSPORT_PLUGINS": "gloo"})
        self.assertEqual(code, 1)
        self.assert_fix(found, "shared memory", "1 of 1 MiB are free in /dev/shm", "--shm-size")

    def test_reports_advertised_loopback_name(self):
        hosts = os.path.join(self.directory, "hosts")
        with open(hosts, "w", encoding="utf-8") as file:
            file.write("127.0.1.1 %s\n" % socket.gethostname())
        bound = "mount --bind %s /etc/hosts" % hosts
        _, found = self.doctor(shell=bound)
        self.assertIn("127.0.1.1", found["host name"]["text"])
        self.assertNotEqual(found["host name"]["result"], "fix")
        self.start_head("--advertise", socket.gethostname())
        _, found = self.doctor(shell=bound)
        self.assert_fix(found, "host name", "127.0.1.1", "--advertise")

    def test_reports_runtime_directory_open_to_others(self):
        runtime = os.path.join(self.directory, "run")
        os.makedirs(os.path.join(runtime, "mobula"))
        os.chmod(os.path.join(runtime, "mobula"), 0o777)
        code, found = self.doctor(env={"XDG_RUNTIME_DIR": runtime})
        self.assertEqual(code, 1)
        self.assert_fix(found, "runtime directory", "0777", "chmod 700")

    def test_checks_programs_on_request_only(self):
        _, found = self.doctor()
        self.assertFalse([name for name in found if name.startswith("programs")])
        code, found = self.doctor("--with", "ssh", "--with", "slurm", env={"PATH": self.directory})
        self.assertEqual(code, 1)
        self.assert_fix(found, "programs for ssh", "not in PATH: ssh, tar", "openssh-client")
        self.assert_fix(found, "programs for slurm", "sbatch", "slurm-client")
        self.assertEqual(self.mobula("doctor", "--with", "carrier-pigeon").returncode, 2)


class SimulatedGpus(Case):
    def fake(self, *lines):
        path = os.path.join(self.directory, "nvml")
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
        os.makedirs(os.path.join(self.directory, "gpus"), exist_ok=True)
        return {"MOBULA_NVML_LIBRARY": FAKE_NVML, "FAKE_NVML_FILE": path, "MOBULA_CUDA_LIBRARY": CUDA, "MOBULA_NCCL_LIBRARY": NCCL}

    def simulated(self, more=""):
        return {"MOBULA_SIMULATED_GPU": "directory=%s %s" % (os.path.join(self.directory, "gpus"), more)}

    GPU = "gpu|NVIDIA H100|GPU-00000000-0000-0000-0000-000000000001|85899345920|00000000:01:00.0|0"

    def loaded(self, version):
        return ("mount -t tmpfs tmpfs /proc/driver; mkdir /proc/driver/nvidia; "
                "echo 'NVRM version: NVIDIA UNIX x86_64 Kernel Module  %s  Sat Aug 19' >/proc/driver/nvidia/version" % version)

    def test_accepts_matching_libraries(self):
        env = {**self.fake("driver|550.54.15", self.GPU), **self.simulated()}
        _, found = self.doctor(env=env)
        self.assertEqual(found["GPU driver"]["text"], "550.54.15")
        self.assertEqual(found["CUDA driver"]["result"], "ok", found["CUDA driver"])
        self.assertEqual(found["NCCL"]["result"], "ok", found["NCCL"])

    def test_reports_driver_without_library(self):
        code, found = self.doctor(shell=self.loaded("550.54.15"))
        self.assertEqual(code, 1)
        self.assert_fix(found, "GPU libraries", "driver 550.54.15 is loaded, but NVML is unusable", "--gpus all")
        self.assert_fix(found, "GPU device files", "/dev/nvidia0 is missing", "nvidia-modprobe")

    def test_reports_nvml_of_another_driver(self):
        env = {**self.fake("driver|535.104.05", self.GPU), **self.simulated()}
        _, found = self.doctor(env=env, shell=self.loaded("550.54.15"))
        self.assert_fix(found, "GPU driver", "the loaded driver is 550.54.15, NVML is 535.104.05")
        env = {**self.fake("fail|nvmlInit_v2|18"), **self.simulated()}
        _, found = self.doctor(env=env, shell=self.loaded("550.54.15"))
        self.assert_fix(found, "GPU driver", "nvmlInit_v2", "dmesg")

    def test_reports_old_and_incomplete_nccl(self):
        nvml = self.fake("driver|550.54.15", self.GPU)
        _, found = self.doctor(env={**nvml, **self.simulated("nccl=21700")})
        self.assert_fix(found, "NCCL", "2.17.0", "2.18.1")
        _, found = self.doctor(env={**nvml, **self.simulated(), "MOBULA_NCCL_LIBRARY": FAKE_NVML})
        self.assert_fix(found, "NCCL", "has no nccl", "2.18.1")
        _, found = self.doctor(env={**nvml, **self.simulated(), "NCCL_COMM_BLOCKING": "1"})
        self.assert_fix(found, "NCCL", "NCCL_COMM_BLOCKING", "unset NCCL_COMM_BLOCKING")

    def test_reports_old_cuda_driver(self):
        _, found = self.doctor(env={**self.fake("driver|470.1", self.GPU), **self.simulated("driver=11040")})
        self.assert_fix(found, "CUDA driver", "11.4", "CUDA 12.0 or newer")


class State(Case):
    def test_reports_key_readable_by_others(self):
        self.start_head()
        key = os.path.join(self.state, "default", "default.key")
        os.chmod(key, 0o644)
        code, found = self.doctor()
        self.assertEqual(code, 1)
        self.assert_fix(found, "key file", "0644", "chmod 600 " + key)

    def test_reports_key_of_another_cluster(self):
        self.start_head()
        other = os.path.join(self.directory, "other")
        address = self.file("head/head.json")["address"]
        try:
            started = self.mobula("start", "--head", "--num-cpus", "1", "--no-worker", "--state-dir", other)
            self.assertEqual(started.returncode, 0, started.stderr)
            wrong = os.path.join(other, "default", "default.key")
            code, found = self.doctor("--address", address, "--key", wrong)
            self.assertEqual(code, 1)
            self.assertEqual(found["key file"]["result"], "ok")
            self.assert_fix(found, "key", "belongs to another cluster", "copy the key file")
            # The same key, copied over the right one.
            shutil.copy(wrong, os.path.join(self.state, "default", "default.key"))
            code, found = self.doctor()
            self.assertEqual(code, 1)
            self.assert_fix(found, "key file", "belongs to another cluster than the head's keys of this machine")
        finally:
            self.mobula("stop", "--grace", "0", "--state-dir", other)

    def test_reports_revoked_token(self):
        self.start_head()
        created = self.mobula("token", "create", "--role", "observer", "--name", "page", "-o", "json")
        self.assertEqual(created.returncode, 0, created.stderr)
        token = json.loads(created.stdout)["token"]
        elsewhere = {"MOBULA_TOKEN": token, "MOBULA_STATE_DIR": os.path.join(self.directory, "elsewhere")}
        code, found = self.doctor(env=elsewhere)
        self.assertEqual((code, found["cluster"]["result"]), (0, "ok"), found)
        self.assertEqual(self.mobula("token", "revoke", "page").returncode, 0)
        code, found = self.doctor(env=elsewhere)
        self.assertEqual(code, 1)
        self.assert_fix(found, "key", "revoked", "mobula token create")

    def test_reports_files_of_dead_processes(self):
        self.start_head()
        head, agent = self.file("head/head.json")["pid"], self.file("agent/agent.json")["pid"]
        for each in (agent, head):
            os.kill(each, signal.SIGKILL)
        while any(running(each) for each in (agent, head)):
            pass
        code, found = self.doctor()
        self.assertEqual(code, 1)
        self.assert_fix(found, "head process", "died", "mobula start --head")
        self.assert_fix(found, "agent process", "died", "mobula stop")
        ended = self.mobula("doctor", "--probe")
        self.assertEqual((ended.returncode, ended.stdout), (1, ""), ended.stderr)
        self.assertIn("has died", ended.stderr)

    def test_reports_reused_pid(self):
        self.start_head()
        path = os.path.join(self.state, "default", "head", "head.json")
        record = self.file("head/head.json")
        self.assertEqual(self.mobula("stop", "--grace", "0").returncode, 0)
        record["pid"] = os.getpid()  # alive, with another start time
        with open(path, "w", encoding="utf-8") as file:
            json.dump(record, file)
        code, found = self.doctor()
        self.assertEqual(code, 1)
        self.assert_fix(found, "head process", "died")
        status = self.mobula("status")
        self.assertEqual(status.returncode, 3)
        self.assertIn("its head is not running", status.stderr)

    def test_reports_wrong_modes_of_directory_and_socket(self):
        self.start_head()
        sock = self.file("agent/agent.json")["socket"]
        os.chmod(self.state, 0o777)
        os.chmod(sock, 0o666)
        code, found = self.doctor()
        os.chmod(self.state, 0o700)
        self.assertEqual(code, 1)
        self.assert_fix(found, "state directory", "0777", "chmod go-w")
        self.assert_fix(found, "agent socket", stat.filemode(os.stat(sock).st_mode) and "0666", "chmod 600")
        os.unlink(sock)
        _, found = self.doctor()
        self.assert_fix(found, "agent socket", "cannot reach the agent", "mobula stop")


def running(pid):
    try:
        with open("/proc/%d/stat" % pid, encoding="utf-8") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


class Network(Case):
    def test_distinguishes_refused_from_silent_ports(self):
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))  # bound without a listener
            address = "127.0.0.1:%d" % closed.getsockname()[1]
            code, found = self.doctor("--address", address)
        self.assertEqual(code, 3)
        self.assert_fix(found, "head port", "connection refused", "mobula start --head")
        with socket.socket() as full:
            full.bind(("127.0.0.1", 0))
            full.listen(0)  # never accepts: the kernel drops connections once the queue is full
            waiting = []
            try:
                for _ in range(4):
                    waiting.append(socket.socket())
                    waiting[-1].setblocking(False)
                    waiting[-1].connect_ex(full.getsockname())
                code, found = self.doctor("--address", "127.0.0.1:%d" % full.getsockname()[1])
            finally:
                for each in waiting:
                    each.close()
        self.assertEqual(code, 3)
        self.assert_fix(found, "head port", "no reply within 3 s", "allow TCP to port")

    def test_reports_unknown_host_name(self):
        code, found = self.doctor("--address", "no-such-machine.invalid:46390")
        self.assertEqual(code, 3)
        self.assert_fix(found, "head port", "no-such-machine.invalid")

    def test_reports_wrong_clock(self):
        self.start_head()
        code, found = self.doctor(env={"LD_PRELOAD": SKEWED_CLOCK, "SKEWED_CLOCK_SECONDS": "7200"})
        self.assertEqual(code, 1)
        self.assert_fix(found, "clock", "ahead of the head", "set-ntp")
        self.assertRegex(found["clock"]["text"], r"clock of this machine: 20\S+Z, of the head: 20\S+Z: 7200\.\d s")

    def test_reports_closed_port_of_agent(self):
        self.start_head()
        agent = self.file("agent/agent.json")["pid"]
        os.kill(agent, signal.SIGKILL)
        # The head lists the node until it counts as dead.
        _, found = self.doctor()
        if found.get("node ports", {}).get("result") == "fix":
            self.assert_fix(found, "node ports", "connection refused")
        self.assert_fix(found, "agent process", "died")


class Probe(Case):
    def test_probe_prints_nothing_when_healthy(self):
        ended = self.mobula("doctor", "--probe")
        self.assertEqual((ended.returncode, ended.stdout), (3, ""))
        self.start_head()
        ended = self.mobula("doctor", "--probe")
        self.assertEqual((ended.returncode, ended.stdout, ended.stderr), (0, "", ""))

    def test_probe_rejects_hanging_head_only(self):
        self.start_head()
        other = os.path.join(self.directory, "other")
        address = self.file("head/head.json")["address"]
        key = os.path.join(self.state, "default", "default.key")
        try:
            joined = self.mobula("start", "--address", address, "--key", key, "--num-cpus", "1", "--state-dir", other)
            self.assertEqual(joined.returncode, 0, joined.stderr)
            head = self.file("head/head.json")["pid"]
            os.kill(head, signal.SIGSTOP)
            self.assertEqual(self.mobula("doctor", "--probe").returncode, 1)
            self.assertEqual(self.mobula("doctor", "--probe", "--state-dir", other).returncode, 0)
            os.kill(head, signal.SIGCONT)
            self.assertEqual(self.mobula("doctor", "--probe").returncode, 0)
        finally:
            self.mobula("stop", "--grace", "0", "--state-dir", other)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[6:]])
