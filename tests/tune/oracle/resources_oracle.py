#!/usr/bin/env python3
"""Writes random calls of Ray Tune's allocation functions (ray 2.60) for tests/tune/resource_distribution_test.cc.

usage: resources_oracle.py [--decisions N] [--seed S] >trace
Amounts are whole CPUs and GPUs. A line has the settings, the cluster, the base bundles, the reporter, the bundles and the
last values of all live trials, and the new bundles.
"""

import argparse
import random

from ray.tune import PlacementGroupFactory
from ray.tune.schedulers.resource_changing_scheduler import DistributeResources, DistributeResourcesToTopJob


class Box:
    pass


def text(bundles):
    return "|".join(f"{int(b.get('CPU', 0))},{int(b.get('GPU', 0))}" for b in bundles) or "-"


def draw_bundle(rng, gpu):
    bundle = {"CPU": rng.randint(1, 3)}
    if gpu and rng.random() < 0.7:
        bundle["GPU"] = rng.randint(1, 2)
    return bundle


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--decisions", type=int, default=900)
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    for _ in range(options.decisions):
        gpu, add, top = rng.random() < 0.5, rng.random() < 0.5, rng.random() < 0.5
        base = [draw_bundle(rng, gpu) for _ in range(rng.randint(1, 2) if add else 1)]
        increase = rng.choice([{}, {"CPU": 1}, {"CPU": 2}, {"CPU": 1, "GPU": 1}, {"GPU": 1}])
        times, reserve = rng.choice([-1, -1, 1, 3]), rng.choice([{}, {"CPU": 1}, {"CPU": 2, "GPU": 1}])
        mode = rng.choice(["min", "max"])
        arguments = dict(add_bundles=add, increase_by=increase, increase_by_times=times, reserve_resources=reserve)
        function = DistributeResourcesToTopJob(metric="m", mode=mode, **arguments) if top else DistributeResources(**arguments)
        trials = []
        for number in range(rng.randint(1, 5)):
            trial = Box()
            trial.trial_id = str(number)
            bundles = [dict(b) for b in base]
            if rng.random() < 0.6:
                grown = rng.randint(1, 3)
                step = increase or (base[-1] if add else {"CPU": 1})
                if add:
                    bundles += [dict(step) for _ in range(grown)]
                else:
                    for key, value in step.items():
                        bundles[0][key] = bundles[0].get(key, 0) + value * grown
            trial.placement_group_factory = PlacementGroupFactory(bundles)
            trial.last_result = {} if rng.random() < 0.2 else {"m": rng.randint(0, 3)}
            trials.append(trial)
        controller, scheduler = Box(), Box()
        total = (rng.randint(1, 30), rng.randint(0, 12))
        controller._resource_updater = Box()
        controller._resource_updater.get_num_cpus = lambda: total[0]
        controller._resource_updater.get_num_gpus = lambda: total[1]
        controller.get_live_trials = lambda: trials
        scheduler.base_trial_resources = PlacementGroupFactory([dict(b) for b in base])
        reporter = rng.randrange(len(trials))
        before = [text(trial.placement_group_factory.bundles) for trial in trials]
        try:
            answer = function(controller, trials[reporter], {"training_iteration": 1}, scheduler)
        except ValueError:
            continue  # Ray cannot make an empty group
        print(int(add), text([increase]), times, text([reserve]), int(top), mode, f"{total[0]},{total[1]}", text(base), reporter,
              ";".join(before), ";".join(str(trial.last_result.get("m", "-")) for trial in trials), ">", text(answer.bundles))


if __name__ == "__main__":
    main()
