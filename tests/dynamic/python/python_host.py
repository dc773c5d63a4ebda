"""A small Python front end on <mobula/dynamic.h>, for the tests: pickled functions as tasks, classes as actors.

Drivers call start(); executors run `python executor.py`, which calls serve().
"""

import asyncio
import atexit
import ctypes
import importlib
import inspect
import io
import os
import pickle
import random
import signal
import sys
import sysconfig
import threading
import traceback

import cloudpickle
import mobula_host as native

TASK, CONSTRUCTOR, METHOD = range(3)
CANCELLED_KIND = 7  # detail::ErrorKind::task_cancelled


class TaskError(Exception):
    """The text of an exception that cannot be unpickled."""


class TaskCancelledError(BaseException):
    pass


class Pickler(cloudpickle.Pickler):
    """Collects the refs, the handles, and the buffers of a value."""

    def __init__(self, file):
        self.buffers, self.refs, self.actors = [], [], []
        super().__init__(file, protocol=5, buffer_callback=self._take)

    def _take(self, buffer):
        if buffer.raw().nbytes < 4096:
            return True
        self.buffers.append(buffer.raw())
        return False

    def persistent_id(self, value):
        for kind, found in ((native.Ref, self.refs), (native.Actor, self.actors)):
            if isinstance(value, kind):
                found.append(value)
                return kind.__name__, len(found) - 1
        return None


class Unpickler(pickle.Unpickler):
    def __init__(self, value):
        body, buffers, self.refs, self.actors = value
        super().__init__(io.BytesIO(body), buffers=buffers)

    def persistent_load(self, pid):
        kind, index = pid
        return (self.refs if kind == "Ref" else self.actors)[index]


def pack(value):
    file = io.BytesIO()
    pickler = Pickler(file)
    pickler.dump(value)
    return file.getvalue(), pickler.buffers, pickler.refs, pickler.actors


def unpack(value):
    return value.value() if isinstance(value, native.Neutral) else Unpickler(value).load()


def neutral(value, subject):
    """The value for a program of another language. The error names the subject and the part."""
    try:
        return native.Neutral(value)
    except TypeError as error:
        raise TypeError(f"{subject}: {error}") from None


# ---- in a driver ----


class RemoteFunction:
    def __init__(self, function, **options):
        self.function, self.options, self.blob = function, options, None

    def remote(self, *args):
        if self.blob is None:
            self.blob = put((self.function, self.options.get("retry_exceptions", ())))
        refs = native.submit(self.function.__qualname__, [self.blob, *arguments(args)],
                             self.options.get("num_returns", 1), bool(self.options.get("retry_exceptions")),
                             self.options.get("env", {}), inspect.isgeneratorfunction(self.function))
        if inspect.isgeneratorfunction(self.function):
            return Stream(refs[0])
        return refs[0] if len(refs) == 1 else refs


class Stream:
    """Iterates over the refs that a generator function yields."""

    def __init__(self, position):
        self.position = position

    def __iter__(self):
        return self

    def __next__(self):
        step = native.next(self.position, 30.0)
        if step is None:
            raise StopIteration
        if len(step) == 4:
            raise_error(step)
        item, self.position = step
        return item


class OtherProgram:
    """The functions of another program, in any language, by the name of its job. Values are neutral."""

    def __init__(self, job):
        self.job = job

    def submit(self, function, *args, **options):
        return native.submit(function, neutral_arguments(function, args), program=self.job, **options)[0]

    def stream(self, function, *args):
        return Stream(self.submit(function, *args, streaming=True))


def neutral_arguments(function, args):
    """A ref is passed as its value; Neutral(ref) is the ref itself."""
    return [arg if isinstance(arg, (native.Ref, native.Neutral)) else neutral(arg, f"argument {i} of {function}")
            for i, arg in enumerate(args, 1)]


def call_other(actor, method, *args):
    """Calls a method of an actor of another language."""
    return native.call(actor, method, neutral_arguments(method, args), 1)[0]


class ActorHandle:
    def __init__(self, actor, class_name):
        self.actor, self.class_name = actor, class_name

    def call(self, method, *args):
        return native.call(self.actor, f"{self.class_name}.{method}", arguments(args), 1)[0]


def arguments(args):
    return [arg if isinstance(arg, native.Ref) else pack(arg) for arg in args]


def is_asynchronous(cls):
    return any(inspect.iscoroutinefunction(each) for each in vars(cls).values())


def create(cls, *args, name="", name_space=""):
    actor = native.create(cls.__qualname__, [pack(cls), *arguments(args)], name, name_space, is_asynchronous(cls))
    return ActorHandle(actor, cls.__qualname__)


def get_actor(name, cls):
    return ActorHandle(native.get_actor(name, cls.__qualname__, ""), cls.__qualname__)


def put(value):
    return native.put(pack(value))


def get(refs, timeout=30.0):
    if isinstance(refs, native.Ref):
        return get([refs], timeout)[0]
    values = []
    for is_value, found in native.get(refs, timeout):
        if is_value:
            values.append(unpack(found))
            continue
        raise_error(found)
    return values


def raise_error(error):
    kind, message, type_name, pickled = error
    if kind == CANCELLED_KIND:
        raise TaskCancelledError(message)
    try:
        raise pickle.loads(pickled) from TaskError(message)
    except (pickle.UnpicklingError, EOFError, TypeError, AttributeError):
        raise TaskError(f"{type_name}: {message}") from None


class Completions:
    """Futures of one asyncio loop. The descriptor of the completion queue wakes the loop; no thread waits."""

    def __init__(self, loop):
        self.loop, self.queue, self.waiting, self.token = loop, native.Queue(), {}, 0
        loop.add_reader(self.queue.fd(), self._take)

    def future(self, ref):
        future = self.loop.create_future()
        self.token += 1
        self.waiting[self.token] = (future, ref)
        self.queue.add(ref, self.token)
        return future

    def close(self):
        self.loop.remove_reader(self.queue.fd())

    def _take(self):
        for token in self.queue.take():
            future, ref = self.waiting.pop(token)
            if future.done():
                continue  # its waiter was cancelled
            try:
                future.set_result(get(ref))
            except BaseException as error:
                future.set_exception(error)


def start(num_cpus, executor, job_name="", module="", program=""):
    """Starts a cluster of this process; without a number of CPUs, joins the running one. Drivers with the same command
    are one program, which `program` distinguishes."""
    set_host()
    native.init(num_cpus, [sys.executable, executor, module, program], {"PYTHONPATH": os.pathsep.join(sys.path)},
                job_name)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        native.interrupt_on(signal.SIGINT)  # Ctrl-C ends a blocked wait


# ---- in an executor ----


class AsyncCalls:
    """The calls of an asynchronous actor as tasks of an asyncio loop, which runs on a second thread."""

    def __init__(self):
        self.source, self.tasks = native.open_source(), {}
        self.loop = asyncio.new_event_loop()
        self.completions = Completions(self.loop)
        self.loop.add_reader(self.source.fd(), self._take)
        threading.Thread(target=self.loop.run_forever, daemon=True).start()

    def _take(self):
        calls, cancelled = self.source.take()
        for call in calls:
            task = self.loop.create_task(self._run(call))
            self.tasks[call.id] = task
            task.add_done_callback(lambda _, id=call.id: self.tasks.pop(id))
        for each in cancelled:
            if each in self.tasks:
                self.tasks[each].cancel()

    async def _run(self, call):
        try:
            function = getattr(call.actor(), call.name.rpartition(".")[2])
            result = function(*(unpack(each) for each in call.arguments()))
            give(call, 0, await result if inspect.isawaitable(result) else result)
            call.done()
        except BaseException as error:  # asyncio.CancelledError too
            fail(call, error, False)


async_calls = None  # an AsyncCalls, in the process of an asynchronous actor


def ready(ref):
    """In an asynchronous actor: `await ready(ref)` returns the value."""
    return async_calls.completions.future(ref)


def fail(call, error, may_retry):
    try:
        pickled = pickle.dumps(error)
    except Exception:
        pickled = b""
    call.fail("".join(traceback.format_exception(error)), type(error).__name__, pickled, may_retry)


functions_for_others = ""  # name of a module


def exported(name):
    """The function that a program of another language calls: FUNCTION or MODULE.FUNCTION."""
    module, _, function = name.rpartition(".")
    found = importlib.import_module(module or functions_for_others)
    try:
        return getattr(found, function)
    except AttributeError:
        raise LookupError(f"module {found.__name__} has no function {function}") from None


def is_of_other(call):
    return call.by_program or call.language != language()


def give(call, index, result):
    packed = neutral(result, f"the result of {call.name}") if is_of_other(call) else pack(result)
    return call.give(index, packed)


def run(call):
    """Runs a call, completes it, and raises nothing."""
    retried = ()
    try:
        args = [unpack(each) for each in call.arguments()]
        if call.kind == CONSTRUCTOR:
            global async_calls
            call.created(args[0](*args[1:]))
            if is_asynchronous(args[0]):
                async_calls = AsyncCalls()
            return call.done()
        if call.kind == TASK and call.by_program:
            function = exported(call.name)
        elif call.kind == TASK:
            function, retried = args.pop(0)
        else:
            function = getattr(call.actor(), call.name.rpartition(".")[2])
        result = function(*args)
        if call.streaming:
            for index, each in enumerate(result):
                if not give(call, index, each):
                    return  # cancelled
            return call.done()
        results = [result] if call.num_returns == 1 else result
        for index, each in enumerate(results):
            give(call, index, each)
        call.done()
    except BaseException as error:  # sys.exit ends the task, not the executor
        fail(call, error, isinstance(error, tuple(retried)))


def assigned():
    # os.environ is a copy that was made at the start of the fork server.
    environ = ctypes.POINTER(ctypes.c_char_p).in_dll(ctypes.CDLL(None), "environ")
    index = 0
    while environ[index]:
        name, _, value = os.fsdecode(environ[index]).partition("=")
        os.environ._data[os.fsencode(name)] = os.fsencode(value)
        index += 1
    random.seed(native.seed())


def leave():
    sys.stdout.flush()
    sys.stderr.flush()
    atexit._run_exitfuncs()


def language():
    return f"python {sys.version_info.major}.{sys.version_info.minor} {sysconfig.get_config_var('SOABI')}"


def set_host():
    native.set_host(run, assigned, leave, TaskCancelledError, language())


def serve(module):
    global functions_for_others
    functions_for_others = module
    set_host()
    native.init(1, [sys.executable], {}, "")
