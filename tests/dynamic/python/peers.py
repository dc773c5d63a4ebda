"""A driver in Python and one in C++ in a running cluster, which call each other with neutral values.

Usage: peers.py EXECUTOR CPP_PEER     prints one line per check
       peers.py EXECUTOR serve JOB    serves the functions of peer_functions until its input ends
"""

import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import mobula_host as native
import python_host as host

EXECUTOR = sys.argv[1]
MIB = int(os.environ.get("MOBULA_TEST_MIB", "1"))  # 64 by hand


class Peer:
    """Another driver, which runs one command at a time."""

    def __init__(self, *command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.read_until("serving")

    def read_until(self, last):
        lines = []
        for line in self.process.stdout:
            if line.strip() == last:
                return lines
            lines.append(line.strip())
        raise AssertionError(f"the other driver ended after {lines}")

    def begin(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()

    def run(self, command):
        self.begin(command)
        return self.read_until("done")

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def end(self):
        self.process.stdin.close()
        assert self.process.wait(60) == 0


def wait_for(path):
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline, path
        time.sleep(0.005)


def nested(levels):
    value = None
    for _ in range(levels):
        value = [value]
    return value


cpp = host.OtherProgram("cpp_peer")


def run(function, *args, **options):
    return host.get(cpp.submit(function, *args, **options))


def error_of(call):
    try:
        value = call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    raise AssertionError(f"no error, but {value}")


def has_type(value, expected):
    """Whether the values are equal and of the same types."""
    if isinstance(expected, list):
        return isinstance(value, list) and len(value) == len(expected) and all(map(has_type, value, expected))
    if isinstance(expected, dict):
        return (isinstance(value, dict) and value.keys() == expected.keys()
                and all(has_type(value[key], expected[key]) for key in expected))
    return type(value) is type(expected) and value == expected


def check_values_to_cpp():
    largest = sys.float_info.max
    for function, values in {
            "same_bool": [False, True],
            "same_int": [0, -1, -2**63, 2**63 - 1],
            "same_unsigned": [0, 2**63, 2**64 - 1],
            "same_double": [0.0, -0.5, 3.0, largest, -largest, 5e-324, math.inf, -math.inf],
            "same_text": ["", "caf\u00e9 \u4e2d\U0001f600", "a\0b", "x" * 70_000],
            "same_bytes": [b"", bytes(range(256)), bytes(range(256)) * (MIB << 12)],
            "same_list": [[], [1, -2, 2**63 - 1], [7] * 1000],
            "same_map": [{}, {"a": 0.5, "": -1.5}],
            "same_optional": [None, "text"],
            "same_struct": [[[3, "a"], [[4, "b"], [5, ""]], {"x": None, "y": 1.5}]],
            "same_chain": [nested(1), nested(256)],
    }.items():
        for value in values:
            found = run(function, value)
            assert has_type(found, value), f"{function}: {str(value)[:99]} became {str(found)[:99]}"
    assert math.isnan(run("same_double", math.nan))
    assert run("nothing") is None
    assert "levels have no neutral form" in error_of(lambda: run("same_chain", nested(257)))
    for dtype, shape, elements in [("float32", [2, 3], bytes(range(24))), ("int64", [0], b""),
                                   ("uint8", [MIB << 20], bytes(MIB << 20)), ("boolean", [], b"\1")]:
        tensor = run("same_tensor", native.Tensor.make(dtype, shape, elements))
        assert (tensor.dtype, tensor.shape, tensor.elements) == (dtype, shape, elements), dtype


def check_refs_to_cpp():
    ref = run("make_ref", 41)
    assert isinstance(ref, native.Ref) and run("read_ref", native.Neutral(ref)) == 41
    result = cpp.submit("same_int", 5)  # passed on without a transfer to this process
    assert run("same_int", result) == 5
    assert [host.get(each) for each in cpp.stream("count_to", 4)] == [0, 1, 2, 3]
    # Python calls C++, which calls Python.
    assert run("forward", "py_peer", "add_one", 41) == 42


def check_actor_of_cpp():
    counter = native.get_actor("cpp_counter", "Counter", "peers")
    call = lambda method, *args: host.get(host.call_other(counter, method, *args))
    assert (call("add", 40), call("Counter::add", 2)) == (40, 42)
    assert call("describe", "x") == [42, "x"]
    assert "no luck" in error_of(lambda: call("fail", "no luck"))
    error = error_of(lambda: call("erase", 1))
    assert "has no method erase" in error and "the caller is program" in error, error
    error = error_of(lambda: call("add", "text"))
    assert 'Counter::add(int64) -> int64 from program python' in error and '"text" is not a whole' in error, error


def check_errors_of_cpp():
    error = error_of(lambda: run("fail", "no luck"))
    assert error.startswith("TaskError: std::runtime_error: ") and "no luck" in error, error
    outer = [[3, "a"], [["four", "b"]], {}]
    error = error_of(lambda: run("same_struct", outer))
    assert "argument 1 of same_struct(struct Outer) -> struct Outer from program python" in error, error
    assert 'to program cpp_peer: at [1][0][0]: "four" is not a whole number' in error, error
    for value, why in [({"a": [1, {2}]}, "argument 1 of same_map: at ['a'][1]: a set has no neutral form"),
                       ([2**64], "argument 1 of same_map: at [0]: an int outside of"),
                       ({1: 2.0}, "argument 1 of same_map: at [1]: a key that is not text"),
                       ("\ud800", "argument 1 of same_map: a str with surrogates")]:
        error = error_of(lambda: run("same_map", value))
        assert why in error, error
    assert "did you mean same_int?" in error_of(lambda: run("same_itn", 1))
    assert "no running job has this name" in error_of(
        lambda: host.get(host.OtherProgram("cpp_pear").submit("same_int", 1)))
    assert "signal 9" in error_of(lambda: run("die", max_retries=0))
    assert run("same_int", 5) == 5


def check_same_name():
    """Both programs have functions `origin` and `fail`."""
    python = host.OtherProgram("py_peer")
    assert run("origin") == "C++" and host.get(python.submit("origin")) == "python"
    assert "ValueError" in error_of(lambda: host.get(python.submit("fail", "x")))


def check_calls_of_cpp():
    lines = peer.run("values py_peer")
    assert len(lines) == 36 and all(line.endswith(": equal") for line in lines), lines
    assert peer.run("stream py_peer") == ["stream: 0 1 2 3 end"]
    text = "\n".join(peer.run("errors py_peer"))
    for part in ["fail: ", "ValueError: no luck", "member: ", "TypeError: the result of broken_member: at ['a'][1]: "
                 "a set has no neutral form", "the result of huge_int: at [0]: an int outside of -2^63 to 2^64-1",
                 "unknown: ", "peer_functions has no function no_such_function", "module: ", "No module named",
                 "arguments: ", "add_one() missing 1 required positional argument", "die: ", "signal 9",
                 "after: equal"]:
        assert part in text, f"{part}\n---\n{text}"
    assert "no error" not in text and "DIFFERENT" not in text, text


def check_typed_calls_of_cpp():
    text = "\n".join(peer.run("typed py_peer"))
    for part in ["integer: equal", "struct: equal", "tuple: equal", "items: equal", "text for a number: reading a neutral "
                 'value as int32: "python" is not a whole number', "fail: ", "ValueError: no luck"]:
        assert part in text, f"{part}\n---\n{text}"


class PyCounter:
    def __init__(self):
        self.count = 0

    def add(self, by):
        self.count += by
        return self.count

    def describe(self):
        return {"count": self.count}

    def fail(self, why):
        raise ValueError(why)


def check_actor_of_python():
    counter = host.create(PyCounter, name="py_counter", name_space="peers")
    text = "\n".join(peer.run("actor py_counter"))
    for part in ["add: equal", "describe: equal", "ValueError: no luck", "no attribute 'no_such_method'"]:
        assert part in text, f"{part}\n---\n{text}"
    # This program has its own format.
    assert host.get(counter.call("add", 0)) == 42


def check_cpp_killed():
    """A call runs and another one waits while the program in C++ ends."""
    program = host.OtherProgram("cpp_mortal")
    with tempfile.TemporaryDirectory() as directory:
        # A byte makes it another program, which no other job runs.
        copy = Path(directory) / "cpp_mortal"
        copy.write_bytes(Path(sys.argv[2]).read_bytes() + b"\0")
        copy.chmod(0o755)
        mortal = Peer(copy, "cpp_mortal")
        started = Path(directory) / "started"
        running = program.submit("hold", str(started), num_cpus=2)
        waiting = program.submit("same_int", 1, num_cpus=2)
        wait_for(started)
        mortal.kill()
    error = error_of(lambda: host.get(waiting))
    assert "can never be scheduled: no job runs its program" in error, error
    native.cancel(running)
    try:
        host.get(running)
        raise AssertionError("the call was cancelled")
    except host.TaskCancelledError:
        pass
    for _ in range(1000):
        error = error_of(lambda: host.get(program.submit("same_int", 1)))
        if "no running job has this name" in error:
            return
        time.sleep(0.01)  # the name is known for a second after the end
    raise AssertionError(error)


def check_python_killed():
    """The same with a program in Python, whose functions C++ calls."""
    mortal = Peer(sys.executable, __file__, EXECUTOR, "serve", "py_mortal")
    with tempfile.TemporaryDirectory() as directory:
        started = Path(directory) / "started"
        peer.begin(f"waits py_mortal {started}")
        assert peer.read_until("waiting") == []
        wait_for(started)
        mortal.kill()
    text = "\n".join(peer.read_until("done"))
    for part in ["waits: ", "can never be scheduled: no job runs its program", "runs: ", "cancelled",
                 "later: find program 'py_mortal': no running job has this name"]:
        assert part in text, f"{part}\n---\n{text}"


def start(job):
    host.start(None, EXECUTOR, job, "peer_functions", program=job)


def main():
    global peer
    start("py_peer")
    peer = Peer(sys.argv[2], "cpp_peer")
    for name, check in list(globals().items()):
        if name.startswith("check_"):
            began = time.monotonic()
            check()
            print(f"{name}: {time.monotonic() - began:.2f} s", flush=True)
    peer.end()
    native.shutdown()


if __name__ == "__main__":
    if sys.argv[2] == "serve":
        start(sys.argv[3])
        print("serving", flush=True)
        sys.stdin.read()
        native.shutdown()
    else:
        main()
