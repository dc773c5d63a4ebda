#!/usr/bin/env python3
"""Ray's Python API, by the definitions of Ray's microbenchmarks (ray_perf.py).

run.py runs it in a separate process with its own cluster. Needs `pip install ray==2.60.0 numpy`.
"""
import os
import sys
import time

import timer

import ray
from ray.util.placement_group import placement_group, remove_placement_group

CORES = os.cpu_count()


@ray.remote
def small_value():
    return b"ok"


@ray.remote(num_cpus=0)
class Server:
    def small_value(self):
        return b"ok"

    def batch_of_tasks(self, count):
        ray.get([small_value.remote() for _ in range(count)])


@ray.remote
def call_round_robin(servers, count):
    ray.get([servers[i % len(servers)].small_value.remote() for i in range(count)])


@ray.remote
def many_refs(count):
    return [ray.put(1) for _ in range(count)]


def wait_one_by_one(count):
    pending = [small_value.remote() for _ in range(count)]
    fetch_local = True
    while pending:
        _, pending = ray.wait(pending, num_returns=1, fetch_local=fetch_local)
        fetch_local = False


def servers(count):
    all_of_them = [Server.remote() for _ in range(count)]
    ray.get([one.small_value.remote() for one in all_of_them])
    return all_of_them


def get_small():
    value = ray.put(0)
    return lambda: ray.get(value)


def put_gigabytes():
    import numpy
    zeros = numpy.zeros(100 * 1024 * 1024, dtype=numpy.int64)
    return lambda: ray.put(zeros)


def put_written_gigabytes():
    import numpy
    ones = numpy.ones(100 * 1024 * 1024, dtype=numpy.int64)
    return lambda: ray.put(ones)


def get_many_refs():
    refs = many_refs.remote(10_000)
    return lambda: ray.get(refs)


def multi_client_tasks(count):
    clients = servers(4)
    return lambda: ray.get([one.batch_of_tasks.remote(count) for one in clients])


def calls_of_one_actor(count):
    server = Server.remote()
    return lambda: ray.get([server.small_value.remote() for _ in range(count)])


def call_one_actor():
    server = Server.remote()
    return lambda: ray.get(server.small_value.remote())


def n_to_n_calls(count):
    of_them = servers(max(1, CORES // 2))
    return lambda: ray.get([call_round_robin.remote(of_them, count) for _ in range(4)])


def rates(pace):
    tasks, calls = pace.batch(10_000), pace.batch(5000)
    return [
        ("single_client_get_calls_Plasma_Store", 1, "1/s", get_small),
        ("single_client_put_calls_Plasma_Store", 1, "1/s", lambda: lambda: ray.put(0)),
        ("single_client_put_gigabytes", 0.8, "GB/s", put_gigabytes),
        ("single_client_put_written_gigabytes", 0.8, "GB/s", put_written_gigabytes),
        ("single_client_get_object_containing_10k_refs", 1, "1/s", get_many_refs),
        ("single_client_wait_1k_refs", 1, "1/s", lambda: lambda: wait_one_by_one(1000)),
        ("single_client_tasks_sync", 1, "1/s", lambda: lambda: ray.get(small_value.remote())),
        ("single_client_tasks_async", 1000, "1/s",
         lambda: lambda: ray.get([small_value.remote() for _ in range(1000)])),
        ("multi_client_tasks_async", 4 * tasks, "1/s", lambda: multi_client_tasks(tasks)),
        ("1_1_actor_calls_sync", 1, "1/s", call_one_actor),
        ("1_1_actor_calls_async", 1000, "1/s", lambda: calls_of_one_actor(1000)),
        ("n_n_actor_calls_async", 4 * calls, "1/s", lambda: n_to_n_calls(calls)),
    ]


def groups_once():
    groups = [placement_group([{"custom": 0.001}]) for _ in range(100)]
    for group in groups:
        if not group.wait(timeout_seconds=30):
            raise RuntimeError("a placement group was not created within 30 s")
    for group in groups:
        remove_placement_group(group)


GROUPS = [("placement_group_create/removal", 100, "1/s", lambda: groups_once)]


def start_actors(count):
    """Actors per second, measured once on a fresh cluster: all created at once, one call each, one get."""
    begin = time.perf_counter()
    actors = [Server.remote() for _ in range(count)]
    ray.get([one.small_value.remote() for one in actors])
    timer.emit("many_actors", [count / (time.perf_counter() - begin)], count=count)


def main():
    given = timer.peer_arguments(__doc__.splitlines()[0])
    begin = time.perf_counter()
    ray.init(num_cpus=CORES, resources={"custom": 100}, include_dashboard=False,
             logging_level="ERROR", log_to_driver=False)
    if given.mode == "rates":
        timer.measure(rates(given.pace), given.only, given.pace)
    elif given.mode == "groups":
        timer.measure(GROUPS, given.only, given.pace)
    elif given.mode == "actors":
        start_actors(given.actors)
    else:
        ray.get(small_value.remote())
        timer.emit("start_to_first_result", [1e3 * (time.perf_counter() - begin)], "ms")
        if given.mode == "hold":
            print('{"address": "%s"}' % ray.get_runtime_context().gcs_address, flush=True)
            timer.hold()
    ray.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
