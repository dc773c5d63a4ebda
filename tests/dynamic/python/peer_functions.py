"""Functions that programs of other languages call by name."""

import os
import signal
import time
from pathlib import Path

import python_host as host


def origin():
    return "python"


def same(value):
    return value


def pair(first, second):
    return second, first


def add_one(number):
    return number + 1


def three():
    return 1, "two", [3]


def count_up(end):
    yield from range(end)


def call_cpp(job, number):
    return host.get(host.OtherProgram(job).submit("same_int", number, num_cpus=0))


def hold(path):
    """Makes a file, and runs until the call is cancelled."""
    Path(path).touch()
    while True:
        time.sleep(0.001)


def fail(why):
    raise ValueError(why)


def broken_member():
    return {"a": [1, {2}]}


def huge_int():
    return [2**64]


def die():
    os.kill(os.getpid(), signal.SIGKILL)
