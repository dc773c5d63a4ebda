#!/usr/bin/env python3
"""Dask's distributed scheduler, by the same definitions where Dask has an equivalent.

run.py runs it in a separate process with its own cluster: one worker process per core with one thread each,
and no dashboard. Needs `pip install distributed numpy`.
"""
import os
import sys
import time

import timer

from distributed import Client, LocalCluster


def small_value():
    return b"ok"


class Server:
    def small_value(self):
        return b"ok"


def rates(client):
    def submit():
        return client.submit(small_value, pure=False)

    def calls_of_one_actor(count):
        server = client.submit(Server, actor=True).result()
        return lambda: [call.result() for call in [server.small_value() for _ in range(count)]]

    def get_small():
        value = client.scatter(0, hash=False)
        return lambda: client.gather(value)

    def put_gigabytes():
        import numpy
        zeros = numpy.zeros(100 * 1024 * 1024, dtype=numpy.int64)
        return lambda: client.scatter(zeros, hash=False)

    return [
        ("single_client_get_calls_Plasma_Store", 1, "1/s", get_small),
        ("single_client_put_calls_Plasma_Store", 1, "1/s",
         lambda: lambda: client.scatter(0, hash=False)),
        ("single_client_tasks_sync", 1, "1/s", lambda: lambda: submit().result()),
        ("single_client_tasks_async", 1000, "1/s",
         lambda: lambda: client.gather([submit() for _ in range(1000)])),
        ("1_1_actor_calls_sync", 1, "1/s", lambda: calls_of_one_actor(1)),
        ("1_1_actor_calls_async", 1000, "1/s", lambda: calls_of_one_actor(1000)),
        ("single_client_put_gigabytes", 0.8, "GB/s", put_gigabytes),
    ]


def main():
    given = timer.peer_arguments(__doc__.splitlines()[0])
    begin = time.perf_counter()
    with LocalCluster(n_workers=os.cpu_count(), threads_per_worker=1, dashboard_address=None,
                      memory_limit=0) as cluster, Client(cluster) as client:
        if given.mode == "rates":
            timer.measure(rates(client), given.only, given.pace)
        else:
            client.submit(small_value, pure=False).result()
            timer.emit("start_to_first_result", [1e3 * (time.perf_counter() - begin)], "ms")
            if given.mode == "hold":
                timer.hold()
    return 0


if __name__ == "__main__":
    sys.exit(main())
