"""Processes that the comparison starts: exactly these end with it.

run.py becomes the subreaper of its orphans (`adopt_orphans`). All processes that a peer starts, including
daemons, stay among its descendants. `end_descendants` finds them by their ids and ends no other process.
"""
import ctypes
import json
import os
import selectors
import signal
import subprocess
import time

PR_SET_CHILD_SUBREAPER = 36
TICKS = os.sysconf("SC_CLK_TCK")


def adopt_orphans():
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def _stat(pid):
    """(name, parent, state, CPU seconds) of a process, or None if it has exited."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            text = file.read()
    except OSError:
        return None
    name = text[text.index("(") + 1:text.rindex(")")]
    fields = text[text.rindex(")") + 2:].split()
    return name, int(fields[1]), fields[0], (int(fields[11]) + int(fields[12])) / TICKS


def descendants(root):
    """{pid: name} of every live process below `root`."""
    rows = {int(entry): _stat(entry) for entry in os.listdir("/proc") if entry.isdigit()}
    found, parents = {}, [root]
    for parent in parents:
        for pid, row in rows.items():
            if row and row[1] == parent and row[2] != "Z":
                found[pid] = row[0]
                parents.append(pid)
    return found


def cpu_seconds(pid):
    row = _stat(pid)
    return row[3] if row else 0.0


def memory_mib(pid, kind):
    """Memory of one process by proc(5): "Private" is freed if the process exits, "Pss" divides shared pages
    among their processes. 0 if the process has exited."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
            return sum(int(line.split()[1]) for line in file
                       if line.startswith((f"{kind}_Clean:", f"{kind}_Dirty:", f"{kind}:"))) / 1024
    except OSError:
        return 0.0


def busy_seconds():
    """CPU time of the whole machine, and of this process with its reaped children."""
    with open("/proc/stat", encoding="ascii") as file:
        user, nice, system, _, _, irq, softirq, steal = map(int, file.readline().split()[1:9])
    own = os.times()
    return ((user + nice + system + irq + softirq + steal) / TICKS,
            own.user + own.system + own.children_user + own.children_system)


def _reap():
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def end_descendants():
    """Ends all processes below this one, first with SIGTERM."""
    for number, patience in ((signal.SIGTERM, 5), (signal.SIGKILL, 10)):
        deadline = time.monotonic() + patience
        for pid in descendants(os.getpid()):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass
        while descendants(os.getpid()) and time.monotonic() < deadline:
            time.sleep(0.1)
            _reap()
    _reap()


class Lines:
    """A running program and the JSON lines that it prints within a time limit."""

    def __init__(self, command, environment, log):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=log, env=environment, start_new_session=True)
        self._rest = b""

    def until(self, limit):
        """Yields each JSON line as it arrives. Raises TimeoutError after `limit` seconds."""
        deadline = time.monotonic() + limit
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while True:
                if not selector.select(max(0, deadline - time.monotonic())):
                    raise TimeoutError(f"not done after {limit:.0f} s")
                read = os.read(self.process.stdout.fileno(), 65536)
                if not read:
                    return
                *lines, self._rest = (self._rest + read).split(b"\n")
                for line in lines:
                    if line.startswith(b"{"):
                        try:
                            yield json.loads(line)
                        except ValueError:
                            pass  # a line of the peer's own that only looks like a figure

    def end(self):
        """Gives the program a moment to exit, then terminates it."""
        self.process.stdin.close()
        try:
            self.process.wait(timeout=15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


def at_rest(root, settle_s=4, observe_s=15):
    """Memory (MiB) and CPU (percent) of all descendants of `root` in total, while they are idle."""
    time.sleep(settle_s)
    pids = list(descendants(root))
    before, begin = {pid: cpu_seconds(pid) for pid in pids}, time.monotonic()
    time.sleep(observe_s)
    busy = sum(max(0.0, cpu_seconds(pid) - before[pid]) for pid in pids)
    seen = {kind: sum(memory_mib(pid, kind) for pid in pids) for kind in ("Private", "Pss")}
    return {**seen, "cpu": 100 * busy / (time.monotonic() - begin), "processes": len(pids)}
