"""A driver in Python: each check runs pickled functions and classes in executors. Prints one line per check."""

import asyncio
import gc
import os
import random
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

import mobula_host as native
import python_host as host


def check_functions():
    square = host.RemoteFunction(lambda x: x * x)
    assert host.get(square.remote(square.remote(3))) == 81
    assert host.get([square.remote(i) for i in range(20)]) == [i * i for i in range(20)]
    pid = host.RemoteFunction(os.getpid)
    assert host.get(pid.remote()) != os.getpid()
    three = host.RemoteFunction(lambda *args: (len(args), sum(args), args), num_returns=3)
    assert host.get(three.remote(*range(12))) == [12, 66, tuple(range(12))]


def check_values():
    inner = host.put({"deep": [1, 2.5, None, "text"]})
    read = host.RemoteFunction(lambda value: host.get(value["ref"])["deep"])
    assert host.get(read.remote({"ref": inner})) == [1, 2.5, None, "text"]
    for size in (100, 10_000, 3_000_000):
        block = bytearray(os.urandom(size))
        given = host.get(host.put(host.pickle.PickleBuffer(block)))
        assert bytes(given) == bytes(block)
        view = memoryview(given)
        assert view.readonly == (size > 4096), "large buffers are read in place"
    sizes = host.RemoteFunction(lambda block: (len(block), type(block).__name__))
    assert host.get(sizes.remote(host.pickle.PickleBuffer(bytes(10_000)))) == (10_000, "memoryview")


def check_errors():
    def fail(kind):
        raise kind("no luck", 17)

    class Unpicklable(Exception):
        def __reduce__(self):
            raise TypeError("cannot be pickled")

    try:
        host.get(host.RemoteFunction(fail).remote(KeyError))
        assert False
    except KeyError as error:
        assert error.args == ("no luck", 17)
        assert "in fail" in str(error.__cause__), error.__cause__
    try:
        host.get(host.RemoteFunction(fail).remote(Unpicklable))
        assert False
    except host.TaskError as error:
        assert "no luck" in str(error)
    try:
        host.get(host.RemoteFunction(sys.exit).remote("bye"))
        assert False
    except SystemExit as error:
        assert error.code == "bye"


def check_retries():
    with tempfile.TemporaryDirectory() as directory:
        log = Path(directory) / "attempts"

        def fail_twice(kind):
            with log.open("a") as file:
                file.write("x")
            if len(log.read_text()) % 3:
                raise kind("again")
            return "done"

        retried = host.RemoteFunction(fail_twice, retry_exceptions=(ValueError,))
        assert host.get(retried.remote(ValueError)) == "done"
        log.unlink()
        try:
            host.get(retried.remote(KeyError))
            assert False
        except KeyError:
            assert log.read_text() == "x"


class Counter:
    def __init__(self, start):
        if start < 0:
            raise ValueError("a negative start")
        self.count = start

    def add(self, by):
        self.count += by
        return self.count


def check_actors():
    counter = host.create(Counter, 10, name="counter")
    assert [host.get(counter.call("add", i)) for i in range(4)] == [10, 11, 13, 16]
    assert host.get(host.get_actor("counter", Counter).call("add", 4)) == 20
    use = host.RemoteFunction(lambda handle: host.get(native.call(handle, "Counter.add", [host.pack(5)], 1)[0]))
    assert host.get(use.remote(counter.actor)) == 25
    try:
        host.get(host.create(Counter, -1).call("add", 1))
        assert False
    except host.TaskError as error:
        assert "a negative start" in str(error), error


def check_streams():
    def count(number, kind=None):
        for i in range(number):
            yield {"item": i}
        if kind is not None:
            raise kind("no more items")

    stream = host.RemoteFunction(count)
    assert [host.get(each)["item"] for each in stream.remote(100)] == list(range(100))
    seen = []
    try:
        for each in stream.remote(2, KeyError):
            seen.append(host.get(each)["item"])
        assert False
    except KeyError as error:
        assert seen == [0, 1] and error.args == ("no more items",)
    endless = stream.remote(10**9)
    assert host.get(next(endless)) == {"item": 0}
    native.cancel(endless.position)
    try:
        for each in endless:
            host.get(each)
        assert False
    except host.TaskCancelledError:
        pass


class Service:
    """An asynchronous actor: its calls are tasks of one asyncio loop."""

    def __init__(self):
        self.running = 0

    async def add_one(self, box):
        self.running += 1
        try:
            return await host.ready(box["ref"]) + 1
        finally:
            self.running -= 1

    async def forever(self):
        self.running += 1
        try:
            await asyncio.Event().wait()
        finally:
            self.running -= 1

    def state(self):
        return self.running, threading.active_count(), os.getpid()


def wait_until(condition):
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def waiter_for(path):
    """A function that returns 41 when the file exists."""
    def wait_for_file():
        while not path.exists():
            time.sleep(0.005)
        return 41

    return wait_for_file


def check_async_actor():
    """One loop follows hundreds of refs through the descriptor of a completion queue."""
    with tempfile.TemporaryDirectory() as directory:
        opened = Path(directory) / "opened"

        wait_for_file = waiter_for(opened)

        service = host.create(Service)
        threads = host.get(service.call("state"))[1]
        late = host.RemoteFunction(wait_for_file).remote()
        calls = [service.call("add_one", {"ref": late}) for _ in range(400)]
        wait_until(lambda: host.get(service.call("state"))[0] == 400)
        assert host.get(service.call("state"))[1] == threads, "no thread per call"
        endless = service.call("forever")
        wait_until(lambda: host.get(service.call("state"))[0] == 401)
        native.cancel(endless)
        try:
            host.get(endless)
            assert False
        except host.TaskCancelledError:
            pass
        wait_until(lambda: host.get(service.call("state"))[0] == 400)
        opened.touch()
        assert host.get(calls) == [42] * 400


def check_asyncio_driver():
    """A loop of the driver awaits refs: values, errors, and a waiter that is cancelled."""
    square = host.RemoteFunction(lambda x: x * x)
    divide = host.RemoteFunction(lambda x: 1 // x)

    async def main():
        completions = host.Completions(asyncio.get_running_loop())
        values = await asyncio.gather(*(completions.future(square.remote(i)) for i in range(200)))
        assert values == [i * i for i in range(200)]
        results = await asyncio.gather(completions.future(divide.remote(0)), completions.future(square.remote(3)),
                                       return_exceptions=True)
        assert isinstance(results[0], ZeroDivisionError) and results[1] == 9, results
        try:
            await asyncio.wait_for(completions.future(host.RemoteFunction(lambda: time.sleep(0.3)).remote()), 0.01)
            assert False
        except asyncio.TimeoutError:
            pass
        assert await completions.future(square.remote(4)) == 16
        completions.close()

    asyncio.run(main())


def interrupted(wait):
    """Whether SIGINT, sent while `wait` blocks, ends it with KeyboardInterrupt."""
    before = native.waits()

    def send():
        wait_until(lambda: native.waits() > before)
        os.kill(os.getpid(), signal.SIGINT)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        wait()
        return False
    except KeyboardInterrupt:
        return True
    finally:
        sender.join()


def check_interrupts():
    """Ctrl-C ends a blocked wait, which can be repeated; a handler that returns ends none."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    native.interrupt_on(signal.SIGINT)
    with tempfile.TemporaryDirectory() as directory:
        opened = Path(directory) / "opened"

        wait_for_file = waiter_for(opened)

        def items():
            yield wait_for_file()

        late, stream = host.RemoteFunction(wait_for_file).remote(), host.RemoteFunction(items).remote()
        queue = native.Queue()
        queue.add(late, 7)
        assert interrupted(lambda: host.get(late))
        assert interrupted(lambda: native.wait([late], 1, 30.0))
        assert interrupted(lambda: next(stream))
        assert interrupted(lambda: queue.take(30.0))
        assert interrupted(lambda: host.get(late)), "a second signal"
        arrived = []

        def note(number, frame):
            arrived.append(number)
            opened.touch()

        signal.signal(signal.SIGINT, note)
        native.interrupt_on(signal.SIGINT)
        assert not interrupted(lambda: host.get(late)), "the handler returned"
        assert arrived == [signal.SIGINT]
        assert host.get(late) == 41 and host.get(next(stream)) == 41
        assert native.wait([late], 1, 30.0) == [0] and queue.take(30.0) == [7]
    signal.signal(signal.SIGINT, before)


def check_cancel():
    with tempfile.TemporaryDirectory() as directory:
        started = Path(directory) / "started"

        def spin():
            started.touch()
            while True:
                time.sleep(0.001)

        ref = host.RemoteFunction(spin).remote()
        while not started.exists():
            time.sleep(0.001)
        native.cancel(ref)
        try:
            host.get(ref)
            assert False
        except host.TaskCancelledError:
            pass
        assert host.get(host.RemoteFunction(lambda: "alive").remote()) == "alive"


def check_forks():
    """Each executor has its own variables and random numbers, and runs tasks on its main thread."""
    def facts():
        is_main = threading.current_thread() is threading.main_thread()
        return os.environ["TEST_NAME"], random.random(), os.getpid(), is_main

    found = [host.get(host.RemoteFunction(facts, env={"TEST_NAME": name}).remote()) for name in ("a", "b")]
    assert [name for name, _, _, _ in found] == ["a", "b"]
    assert len({number for _, number, _, _ in found}) == 2, "equal random numbers in two forks"
    assert len({pid for _, _, pid, _ in found}) == 2
    assert all(is_main for _, _, _, is_main in found)


def check_threads_and_garbage():
    """Threads submit and drop refs in cycles while others hold the GIL."""
    square = host.RemoteFunction(lambda x: x * x)
    failures = []

    def work(number):
        try:
            for i in range(50):
                ref = square.remote(i)
                cycle = [ref, host.put(i)]
                cycle.append(cycle)
                if i % 10 == 0:
                    assert host.get(ref) == i * i
                    gc.collect()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not failures, failures


def main():
    host.start(3, sys.argv[1])
    random.seed(1)
    for name, check in list(globals().items()):
        if name.startswith("check_"):
            began = time.monotonic()
            check()
            print(f"{name}: {time.monotonic() - began:.2f} s", flush=True)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "farewell"

        def register():
            import atexit
            atexit.register(lambda: path.write_text("exited"))

        host.get(host.RemoteFunction(register).remote())
        native.shutdown()
        assert path.read_text() == "exited", "exit functions of the executor did not run"
    print("exit functions ran")


if __name__ == "__main__":
    main()
