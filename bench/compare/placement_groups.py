#!/usr/bin/env python3
"""Placement groups created and removed: Ray and Mobula in turns on this machine, and their ratio.

The definition is Ray's own (python/ray/_private/ray_perf.py): a fresh cluster with 100 of a custom
resource, 100 groups of one bundle of 0.001 of it, a wait for each, then the removal of all. Both sides
use Ray's timer: a second to warm up, then four runs of two seconds.

Needs Ray in the Python that runs this: pip install ray==2.60.0
Usage: bench/compare/placement_groups.py MOBULA [--rounds N] [--json]   (MOBULA: the built program)
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time


def ray_rate():
    """Groups a second through Ray; runs in a process of its own, with a cluster of its own."""
    import ray
    from ray.util.placement_group import placement_group, remove_placement_group

    ray.init(resources={"custom": 100}, num_cpus=os.cpu_count(), include_dashboard=False,
             logging_level="ERROR")

    def once():
        groups = [placement_group([{"custom": 0.001}]) for _ in range(100)]
        for group in groups:
            if not group.wait(timeout_seconds=30):
                raise RuntimeError("a placement group was not created within 30 s")
        for group in groups:
            remove_placement_group(group)

    count, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < 1:
        once()
        count += 1
    step = count // 10 + 1
    rates = []
    for _ in range(4):
        begin, count = time.perf_counter(), 0
        while time.perf_counter() - begin < 2:
            for _ in range(step):
                once()
            count += step
        rates.append(100 * count / (time.perf_counter() - begin))
    ray.shutdown()
    return statistics.mean(rates)


def mobula_rate(mobula):
    out = subprocess.run([mobula, "bench", "-o", "json", "placement_group_create_remove"],
                         check=True, capture_output=True, text=True, timeout=300).stdout
    return json.loads(out)["items"][0]["mean"]


def ray_in_own_process():
    out = subprocess.run([sys.executable, __file__, "--only-ray"], check=True, capture_output=True,
                         text=True, timeout=300).stdout
    return json.loads(out.splitlines()[-1])["rate"]


def main():
    if "--only-ray" in sys.argv:
        print(json.dumps({"rate": ray_rate()}))
        return 0
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("mobula")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    rounds = []
    for number in range(given.rounds):
        pair = {"ray": ray_in_own_process(), "mobula": mobula_rate(given.mobula)}
        pair["ratio"] = pair["mobula"] / pair["ray"]
        rounds.append(pair)
        if not given.json:
            print(f"round {number + 1}: Ray {pair['ray']:.0f}/s, Mobula {pair['mobula']:.0f}/s, "
                  f"{pair['ratio']:.1f} times", flush=True)
    ratio = statistics.median(pair["ratio"] for pair in rounds)
    if given.json:
        print(json.dumps({"rounds": rounds, "median_ratio": ratio}, indent=2))
    else:
        print(f"median ratio: {ratio:.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
