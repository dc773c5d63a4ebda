"""The peers: their requirements, build, and run, and the figures of one turn.

`missing` returns a sentence that names the missing requirement and its remedy, or nothing. A turn collects
figures and failures by key, and ends every process it started.
"""
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import processes
from definitions import BY_KEY, ROWS

HERE = Path(__file__).resolve().parent
AT_REST = {"at_rest_private_memory", "at_rest_proportional_memory", "at_rest_cpu"}
HELD = AT_REST | {"start_to_first_result"}
GROUPS, ACTORS = "placement_group_create/removal", "many_actors"


class Turn:
    """The results of one peer in one round."""

    def __init__(self, wanted):
        self.wanted = wanted  # keys
        self.figures, self.failed = {}, {}

    def take(self, line):
        """Parses a line of a peer: a figure or a failure. Any other line is returned."""
        key = line.get("key")
        if key is None:
            return line
        if "failed" in line:
            self.failed[key] = line["failed"]
            print(f"    {key}: {line['failed']}", flush=True)
        else:
            self.figures[key] = {name: value for name, value in line.items() if name != "key"}
            print(f"    {key}: {line['mean']:.5g} {line['unit']}", flush=True)
        return None

    def fail(self, keys, why):
        for key in keys & self.wanted - self.figures.keys() - self.failed.keys():
            self.take({"key": key, "failed": why})


class Peer:
    name = ""
    keys = frozenset()

    def __init__(self, given):
        self.given = given
        self.environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1",
                            "RAY_USAGE_STATS_ENABLED": "0",
                            # By default, Ray runs its workers at a lower priority.
                            "RAY_worker_niceness": "0"}

    def missing(self):
        """Why this peer cannot be measured, and the remedy. "" if it can."""
        return ""

    def versions(self):
        return {}

    def build(self):
        """Compiles the peer's programs. Raises RuntimeError with the end of the compiler's output."""

    def limit(self, full_s, quick_s):
        return quick_s if self.given.quick else full_s

    def pace(self, keys):
        flags = [word for key in sorted(keys) for word in ("--only", key)]
        return flags + (["--quick"] if self.given.quick else [])

    def program(self, command, environment=None):
        with open(self.given.work / f"{self.name}.log", "ab") as log:
            return processes.Lines([str(word) for word in command], environment or self.environment,
                                   log)

    def collect(self, turn, command, keys, limit, environment=None):
        """Runs a program to its end and parses its lines."""
        self.follow(turn, self.program(command, environment), keys, limit)
        processes.end_descendants()

    def follow(self, turn, running, keys, limit):
        """Parses the lines of a running program, until its end or the limit."""
        why = f"the program ended without a figure; see {self.name}.log"
        try:
            for line in running.until(limit):
                turn.take(line)
        except TimeoutError as late:
            why = str(late)
            running.process.terminate()
        running.end()
        turn.fail(keys, why)

    def observe(self, turn, driver):
        """Measures memory and CPU of all processes below the program `driver` while the cluster is idle."""
        seen = processes.at_rest(driver)
        for key, value, unit in (("at_rest_private_memory", seen["Private"], "MiB"),
                                 ("at_rest_proportional_memory", seen["Pss"], "MiB"),
                                 ("at_rest_cpu", seen["cpu"], "%")):
            turn.take({"key": key, "mean": value, "sd": 0, "unit": unit, "runs": 1,
                       "processes": seen["processes"]})


def run(command, limit=600):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          timeout=limit, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]}: {(done.stderr or done.stdout).strip()[-500:]}")
    return done.stdout.strip()


def is_fresh(target, *sources):
    """True if `target` is newer than all of its sources."""
    return target.exists() and all(target.stat().st_mtime > source.stat().st_mtime
                                   for source in sources)


class Mobula(Peer):
    name = "mobula"
    keys = frozenset(row.key for row in ROWS)

    def missing(self):
        try:
            run([self.given.mobula, "bench", "--list"])
        except (OSError, RuntimeError) as why:
            return f"'{self.given.mobula} bench --list' does not run ({why}); build it first."
        return ""

    def versions(self):
        return {"Mobula": run([self.given.mobula, "--version"]).split()[-1]}

    def take_bench(self, turn, key, items):
        """The figure of `key` in the output of `mobula bench`."""
        if key == "start_to_first_result":
            parts = {item["key"]: item for item in items}
            start, first = parts["init_local_cluster"], parts["first_task"]
            turn.take({"key": key, "mean": start["mean"] + first["mean"], "unit": "ms",
                       "sd": (start["sd"] ** 2 + first["sd"] ** 2) ** 0.5, "runs": start["runs"]})
            return
        item = items[0]
        names = ("mean", "sd", "unit", "runs", "floor")
        kept = {name: item[name] for name in names if name in item}
        turn.take({"key": key, **kept})

    def turn(self, turn):
        for key in [row.key for row in ROWS if row.key in turn.wanted - AT_REST]:
            command = [self.given.mobula, "bench", "-o", "json",
                       *(["--quick"] if self.given.quick else []), BY_KEY[key].in_mobula or key]
            try:
                self.take_bench(turn, key, self.json_of(command))
            except (RuntimeError, TimeoutError, LookupError) as why:
                turn.fail({key}, str(why))
        if turn.wanted & AT_REST:
            self.rest(turn)

    def json_of(self, command):
        """The items of the JSON document that the benchmark prints."""
        running = self.program(command)
        try:
            text, _ = running.process.communicate(timeout=180)
        except subprocess.TimeoutExpired:
            raise TimeoutError("not done after 180 s") from None
        finally:
            if running.process.poll() is None:
                running.process.kill()
                running.process.wait()
            processes.end_descendants()
        document = json.loads(text) if text.strip() else {"items": [], "warnings": ["no output"]}
        if not document["items"]:
            raise RuntimeError("; ".join(document["warnings"]))
        return document["items"]

    def rest(self, turn):
        """The benchmark at_rest keeps a cluster idle for 25 s. This process measures it from outside."""
        running = self.program([self.given.mobula, "bench", "-o", "json", "at_rest"])
        deadline = time.monotonic() + 20
        try:
            while "mobula-agent" not in processes.descendants(running.process.pid).values():
                if time.monotonic() > deadline:
                    raise TimeoutError("no agent after 20 s")
                time.sleep(0.1)
            self.observe(turn, running.process.pid)
        except TimeoutError as why:
            turn.fail(AT_REST, str(why))
        running.end()
        processes.end_descendants()


class PythonPeer(Peer):
    """A peer with a Python interface: a script here, and a Python with the package."""
    script = ""
    package = ""
    get_it = ""

    def python(self):
        raise NotImplementedError

    def missing(self):
        try:
            run([self.python(), "-c", f"import {self.package}, numpy"])
        except (OSError, RuntimeError):
            return (f"{self.python()} has no {self.package} with numpy. Get it with "
                    f"`{self.get_it}` in a virtual environment, and name its Python with "
                    f"--{self.name.split('_')[0]}-python.")
        return ""

    def version(self):
        return run([self.python(), "-c",
                    f"import {self.package}; print({self.package}.__version__)"]).splitlines()[-1]

    def command(self, mode, *more):
        return [self.python(), HERE / self.script, mode, *more]

    def hold(self, then):
        """Starts a cluster, calls `then(running, lines)` once it is ready, and ends the cluster."""
        running = self.program(self.command("hold"))
        try:
            lines = {}
            for line in running.until(120):
                lines.update(line if "key" not in line else {line["key"]: line})
                if "ready" in line:
                    then(running, lines)
                    break
            else:
                raise RuntimeError(f"the cluster ended before it was ready; see {self.name}.log")
        finally:
            running.end()
            processes.end_descendants()

    def held(self, turn):
        def look(running, lines):
            if "start_to_first_result" in turn.wanted:
                turn.take(lines["start_to_first_result"])
            if turn.wanted & AT_REST:
                self.observe(turn, running.process.pid)
        try:
            self.hold(look)
        except (RuntimeError, TimeoutError) as why:
            turn.fail(HELD, str(why))


class RayPython(PythonPeer):
    name, script, package = "ray_python", "ray_python.py", "ray"
    get_it = "pip install ray==2.60.0 numpy"
    keys = frozenset(row.key for row in ROWS)

    def python(self):
        return self.given.ray_python

    def versions(self):
        return {"Ray": self.version()}

    def turn(self, turn):
        rates = turn.wanted - HELD - {GROUPS, ACTORS}
        if rates:
            self.collect(turn, self.command("rates", *self.pace(rates)), rates,
                         self.limit(1800, 400))
        if GROUPS in turn.wanted:
            self.collect(turn, self.command("groups", *self.pace({GROUPS})), {GROUPS}, 180)
        if ACTORS in turn.wanted:
            count = ["--actors", self.limit(200, 20)]
            self.collect(turn, self.command("actors", *count), {ACTORS}, self.limit(300, 120))
        if turn.wanted & HELD:
            self.held(turn)


class RayCpp(RayPython):
    """Runs on a cluster that Ray's Python API starts. A cluster of the C++ API ends through `ray stop`,
    which would end every other cluster on the machine."""
    name = "ray_cpp"
    keys = RayPython.keys - HELD - {"single_client_get_object_containing_10k_refs", "single_client_put_gigabytes"}

    def ray_directory(self):
        printed = run([self.python(), "-c", "import ray; print(ray.__path__[0])"])
        return Path(printed.splitlines()[-1])

    def missing(self):
        why = super().missing()
        if why:
            return why
        if not (self.ray_directory() / "cpp/include/ray/api.h").exists():
            return (f"{self.python()} has no ray-cpp. Get it with `pip install "
                    f"ray-cpp=={self.version()}`.")
        return "" if shutil.which("g++") else "there is no g++. Get it with `apt install g++`."

    def versions(self):
        return {"ray-cpp": run([self.python(), "-c", "import importlib.metadata as m; "
                                "print(m.version('ray-cpp'))"]).splitlines()[-1]}

    def build(self):
        cpp, library = self.ray_directory() / "cpp", self.given.work / "libray_cpp_bench.so"
        if is_fresh(library, HERE / "ray_cpp_bench.cc", HERE / "timer.h",
                    cpp / "lib/libray_api.so"):
            return
        common = ["-std=c++17", "-O2", "-D_GLIBCXX_USE_CXX11_ABI=0", f"-I{cpp}/include",
                  HERE / "ray_cpp_bench.cc"]
        links = [f"-L{cpp}/lib", "-lray_api", "-lpthread", f"-Wl,-rpath,{cpp}/lib"]
        run(["g++", *common, "-o", self.given.work / "ray_cpp_bench", *links])
        run(["g++", "-shared", "-fPIC", *common, "-o", library, *links])

    def program_on(self, address, turn, mode, keys, limit, *more):
        """Runs the C++ program on a running cluster."""
        environment = dict(self.environment)
        if (Path.home() / ".ray/auth_token").exists():
            environment["RAY_AUTH_MODE"] = "token"
        running = self.program(
            [self.given.work / "ray_cpp_bench", mode, *self.pace(keys), "--address", address,
             "--library", self.given.work / "libray_cpp_bench.so", *more], environment)
        self.follow(turn, running, keys, limit)

    def on_a_cluster(self, turn, keys, each):
        """Calls `each(address)` while a cluster runs."""
        try:
            self.hold(lambda running, lines: each(lines["address"]))
        except (RuntimeError, TimeoutError) as why:
            turn.fail(keys, str(why))

    def turn(self, turn):
        rates = [row.key for row in ROWS if row.key in turn.wanted - {GROUPS, ACTORS}]
        if rates:
            # A separate program for each: a crash does not affect the others.
            self.on_a_cluster(turn, set(rates), lambda address: [
                self.program_on(address, turn, "rates", {key}, self.limit(200, 60))
                for key in rates])
        if GROUPS in turn.wanted:
            self.on_a_cluster(turn, {GROUPS}, lambda address: self.program_on(
                address, turn, "groups", {GROUPS}, 180))
        if ACTORS in turn.wanted:
            self.on_a_cluster(turn, {ACTORS}, lambda address: self.program_on(
                address, turn, "actors", {ACTORS}, self.limit(300, 120),
                "--actors", self.limit(200, 20)))


class Dask(PythonPeer):
    name, script, package = "dask", "dask_python.py", "distributed"
    get_it = "pip install distributed numpy"
    keys = HELD | {"single_client_get_calls_Plasma_Store", "single_client_put_calls_Plasma_Store",
                   "single_client_tasks_sync", "single_client_tasks_async", "1_1_actor_calls_sync",
                   "1_1_actor_calls_async", "single_client_put_gigabytes"}

    def python(self):
        return self.given.dask_python

    def versions(self):
        return {"Dask distributed": self.version()}

    def turn(self, turn):
        rates = turn.wanted - HELD
        if rates:
            self.collect(turn, self.command("rates", *self.pace(rates)), rates,
                         self.limit(1200, 240))
        if turn.wanted & HELD:
            self.held(turn)


class Grpc(Peer):
    name = "grpc"
    keys = frozenset({"grpc_unary_echo_sync", "grpc_unary_echo_async"})

    def missing(self):
        tools = [tool for tool in ("g++", "protoc", "grpc_cpp_plugin", "pkg-config")
                 if not shutil.which(tool)]
        if tools:
            absent = ", ".join(tools)
        else:
            try:
                run(["pkg-config", "--exists", "grpc++", "protobuf"])
                return ""
            except RuntimeError:
                absent = "the packages grpc++ and protobuf of pkg-config"
        return (f"missing: {absent}. Get them with `apt install g++ pkg-config libgrpc++-dev "
                "protobuf-compiler protobuf-compiler-grpc`.")

    def versions(self):
        return {"gRPC": run(["pkg-config", "--modversion", "grpc++"])}

    def build(self):
        out, program = self.given.work / "echo", self.given.work / "grpc_echo"
        if is_fresh(program, HERE / "grpc_echo.cc", HERE / "timer.h", HERE / "echo.proto"):
            return
        out.mkdir(exist_ok=True)
        run(["protoc", "-I", HERE, f"--cpp_out={out}", f"--grpc_out={out}",
             f"--plugin=protoc-gen-grpc={shutil.which('grpc_cpp_plugin')}", HERE / "echo.proto"])
        flags = run(["pkg-config", "--cflags", "--libs", "grpc++", "protobuf"]).split()
        run(["g++", "-std=c++17", "-O2", f"-I{out}", f"-I{HERE}", HERE / "grpc_echo.cc",
             out / "echo.pb.cc", out / "echo.grpc.pb.cc", "-o", program, *flags])

    def turn(self, turn):
        self.collect(turn, [self.given.work / "grpc_echo", *self.pace(turn.wanted)], turn.wanted,
                     120)


ALL = [Mobula, RayPython, RayCpp, Dask, Grpc]
