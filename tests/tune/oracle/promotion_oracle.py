#!/usr/bin/env python3
"""Writes traces of ASHA's promotions as Syne Tune 0.13 decides them, for tests/tune/trace_runner.h.

usage: promotion_oracle.py [--decisions N] [--seed S] [--divide K] >trace
Only Syne Tune's rung system is loaded: its package needs many others.
"""

import argparse
import importlib.util
import random
import sys
import types
from pathlib import Path

from ray_sim import Sim, Trial

root = Path(importlib.util.find_spec("syne_tune").origin).parent
for name in ["syne_tune", "syne_tune.optimizer", "syne_tune.optimizer.schedulers"]:
    module = types.ModuleType(name)
    module.__path__ = [str(root.parent / name.replace(".", "/"))]
    sys.modules[name] = module
from syne_tune.optimizer.schedulers.hyperband_promotion import PromotionRungSystem  # noqa: E402


class Promotion:
    """Syne Tune's rung system with the calls of a scheduler of Ray."""

    def __init__(self, mode, max_t, grace_period, reduction_factor):
        levels = []
        while grace_period * reduction_factor ** len(levels) < max_t:
            levels.append(grace_period * reduction_factor ** len(levels))
        self.max_t = max_t
        self.rungs = PromotionRungSystem(levels, [1 / reduction_factor] * len(levels), "m", mode, "t", max_t)

    def on_trial_add(self, controller, trial):
        self.rungs.on_task_add(trial.trial_id, 0, new_config=True)

    def on_trial_result(self, controller, trial, result):
        answer = self.rungs.on_task_report(trial.trial_id, result, 0)
        if result["t"] >= self.max_t:
            return "STOP"
        return "CONTINUE" if answer["task_continues"] else "PAUSE"

    def on_trial_complete(self, controller, trial, result):
        self.rungs.on_task_remove(trial.trial_id)

    def choose_trial_to_run(self, controller):
        promoted = self.rungs.on_task_schedule("")
        if promoted:
            self.rungs.on_task_add(promoted["trial_id"], 0, new_config=False, milestone=promoted["milestone"],
                                   resume_from=promoted["resume_from"])
            return next(t for t in controller.get_trials() if t.trial_id == promoted["trial_id"])
        return next((t for t in controller.get_trials() if t.status == Trial.PENDING), None)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--decisions", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--divide", type=int, default=1)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    left = options.decisions
    while left > 0:
        size = min(left, rng.choice([2000, 6000]) // options.divide)
        left -= size
        mode = rng.choice(["min", "max"])
        settings = dict(max_t=rng.choice([4, 9, 20, 81, 100]), grace_period=rng.choice([1, 2]),
                        reduction_factor=rng.choice([2, 3, 4]))
        print("S promotion", f"mode={mode}", *(f"{key}={value}" for key, value in settings.items()))
        sim = Sim(Promotion(mode, **settings), sys.stdout, rng)
        slots = rng.choice([1, 4, 16])
        while sim.decisions < size:
            running = sim.running()
            if len(running) < slots:
                if sim.choose() is None:
                    sim.add()
                continue
            trial = rng.choice(running)
            trial.time += 1
            sim.report(trial, round(trial.level + rng.gauss(0, 0.1), 2))
            if trial.status == Trial.RUNNING and rng.random() < 0.01:
                sim.complete(trial)


if __name__ == "__main__":
    main()
