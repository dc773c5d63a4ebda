"""Definitions of the comparison: the rows of the tables, their bars, and the peers.

A key is the name in Ray's own results (release/perf_metrics/microbenchmark.json) if Ray has the
benchmark. Mobula defines the other keys.
"""
from dataclasses import dataclass

PEERS = {  # in the order of a round
    "mobula": "Mobula",
    "ray_python": "Ray, Python",
    "ray_cpp": "Ray, C++",
    "dask": "Dask",
    "grpc": "gRPC",
}
RAY = ("ray_python", "ray_cpp")


@dataclass(frozen=True)
class Row:
    key: str
    title: str
    bar: float | None = None  # how many times the better of Ray's two Mobula is to be
    less_is_better: bool = False
    in_mobula: str = ""       # the name in `mobula bench`, if it differs


ROWS = [
    Row("single_client_tasks_sync", "tasks, one at a time", 20),
    Row("single_client_tasks_async", "tasks, 1,000 at once", 75),
    Row("multi_client_tasks_async", "tasks, 4 clients with 10,000 each"),
    Row("1_1_actor_calls_sync", "actor calls, one at a time", 10),
    Row("1_1_actor_calls_async", "actor calls, 1,000 at once", 50),
    Row("n_n_actor_calls_async", "actor calls, n to n"),
    Row("single_client_put_calls_Plasma_Store", "put of a small value", 300),
    Row("single_client_get_calls_Plasma_Store", "get of a small value", 100),
    Row("single_client_put_gigabytes", "put of 839 MB of untouched zeros", 2.5),
    Row("single_client_put_written_gigabytes", "put of 839 MB that were written"),
    Row("single_client_wait_1k_refs", "wait for 1,000 references, one by one", 50),
    Row("single_client_get_object_containing_10k_refs", "get of an object with 10,000 references",
        20),
    Row("many_actors", "actors started at once, one call each", 50),
    Row("placement_group_create/removal", "placement groups created and removed", 20,
        in_mobula="placement_group_create_remove"),
    Row("start_to_first_result", "start of a local cluster to the first result",
        less_is_better=True, in_mobula="start"),
    Row("at_rest_private_memory", "private memory of a cluster at rest", less_is_better=True,
        in_mobula="at_rest"),
    Row("at_rest_proportional_memory", "the same, proportional (PSS)", less_is_better=True,
        in_mobula="at_rest"),
    Row("at_rest_cpu", "CPU of a cluster at rest", less_is_better=True, in_mobula="at_rest"),
]
BY_KEY = {row.key: row for row in ROWS}


@dataclass(frozen=True)
class Bar:
    """A bar that is not a multiple of Ray."""
    key: str            # Mobula's figure
    title: str
    bound: float
    against: str = ""   # "floor", or the key of gRPC's figure; else the bound is the figure's own
    less_is_better: bool = False


BARS = [
    Bar("1_1_actor_calls_sync", "actor calls, one at a time, over gRPC unary echo", 1,
        "grpc_unary_echo_sync"),
    Bar("1_1_actor_calls_async", "actor calls, 1,000 at once, over gRPC unary echo", 1,
        "grpc_unary_echo_async"),
    Bar("single_client_put_written_gigabytes", "put of 839 MB that were written, over its floor", 0.8, "floor"),
    Bar("start_to_first_result", "start of a local cluster to the first result, ms", 300,
        less_is_better=True),
    Bar("at_rest_private_memory", "private memory of a cluster at rest, MiB", 60,
        less_is_better=True),
    Bar("at_rest_cpu", "CPU of a cluster at rest, %", 0.3, less_is_better=True),
]
