#!/usr/bin/env python3
"""Ray's direct transport (gloo), by the definitions of compare_direct.py, which runs this script.

Prints one line for each benchmark: its key, a space, and rounds per second. Needs ray==2.60.0 and torch.
"""
import json
import sys
import time

import ray
import torch
from ray.experimental.collective import create_collective_group


@ray.remote(num_cpus=0)
class Maker:
    def __init__(self):
        self.made = {}

    def _tensor(self, count):
        if count not in self.made:
            self.made[count] = torch.zeros(count, dtype=torch.float32)
        return self.made[count]

    @ray.method(tensor_transport="gloo")
    def make(self, count):
        return self._tensor(count)

    def make_stored(self, count):
        return self._tensor(count)

    def look(self, tensor):
        return tensor.numel()

    def copy(self, tensor):
        return tensor.clone().numel()


def measure(seconds, round_of, batch=1):
    begun = time.perf_counter()
    for _ in range(3):
        round_of()
    while time.perf_counter() - begun < seconds / 4:
        round_of()
    begun, rounds = time.perf_counter(), 0
    while time.perf_counter() - begun < seconds:
        round_of()
        rounds += batch
    return rounds / (time.perf_counter() - begun)


def main():
    seconds = float(sys.argv[1])
    ray.init(num_cpus=4, logging_level="ERROR", include_dashboard=False)
    maker, user = Maker.remote(), Maker.remote()
    create_collective_group([maker, user], backend="gloo")

    def one(make, use, count):
        return lambda: ray.get(use.remote(make.remote(count)))

    def pipelined(count):
        return lambda: ray.get([user.look.remote(maker.make.remote(count)) for _ in range(20)])

    for name, count in (("8", 2), ("65536", 16384), ("4000000", 1_000_000), ("67108864", 1 << 24)):
        plans = {f"direct_{name}": one(maker.make, user.look, count),
                 f"copied_{name}": one(maker.make, user.copy, count),
                 f"same_actor_{name}": one(maker.make, maker.look, count),
                 f"by_store_{name}": one(maker.make_stored, user.look, count)}
        for key, plan in plans.items():
            print(json.dumps({"key": key, "rate": measure(seconds, plan)}), flush=True)
        if count <= 1_000_000:
            print(json.dumps({"key": f"pipelined_{name}", "rate": measure(seconds, pipelined(count), 20)}), flush=True)
    ray.shutdown()


if __name__ == "__main__":
    main()
