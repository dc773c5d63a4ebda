#!/usr/bin/env python3
"""Writes traces of random calls of Ray Tune's search wrappers and stoppers (ray 2.60) for tests/tune/searchers/wrapper_runner.h.

usage: wrapper_oracle.py all|limiter|repeater|stoppers [--decisions N] [--seed S] >trace
"""

import argparse
import logging
import os
import random
import sys
import time
import warnings

os.environ.setdefault("RAY_TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "1")
warnings.filterwarnings("ignore")

from ray.tune import stopper as stoppers  # noqa: E402
from ray.tune.search import ConcurrencyLimiter, Repeater, Searcher  # noqa: E402


logging.disable(logging.WARNING)


def number(value):
    return format(value, ".17g")


class FakeSearcher(Searcher):
    """Answers as the script says, and logs the results that reach it."""

    def __init__(self, limits_itself=False):
        super().__init__(metric="m", mode="min")
        self.answer, self.log, self.limits_itself = "c", [], limits_itself

    def set_max_concurrency(self, max_concurrent):
        return self.limits_itself

    def suggest(self, trial_id):
        return {"c": {"x": int(trial_id)}, "l": None, "f": Searcher.FINISHED}[self.answer]

    def on_trial_complete(self, trial_id, result=None, error=False):
        value = result["m"] if result else None
        self.log.append(f"{trial_id}:{'-' if value is None else number(value)}:{'F' if error else 'C'}")

    def save(self, path):
        pass

    def restore(self, path):
        pass


def wrapper(out, rng, calls, kind):
    while calls > 0:
        inner = FakeSearcher(kind == "limiter" and rng.random() < 0.1)
        if kind == "limiter":
            limit, batch = rng.randint(1, 8), rng.random() < 0.5
            searcher = ConcurrencyLimiter(inner, max_concurrent=limit, batch=batch)
            print("S limiter", f"max={limit} batch={int(batch)} transparent={int(inner.limits_itself)}", file=out)
        else:
            repeat, index = rng.randint(1, 10), rng.random() < 0.7
            searcher = Repeater(inner, repeat=repeat, set_index=index)
            print("S repeater", f"repeat={repeat} index={int(index)}", file=out)
        live, next_trial = [], 0
        for _ in range(min(calls, 400)):
            calls -= 1
            if rng.random() < 0.55 or not live:
                inner.answer = rng.choice("ccccclf") if rng.random() < 0.3 else "c"
                got = searcher.suggest(str(next_trial))
                if got is None:
                    words = ["l"]
                elif got == Searcher.FINISHED:
                    words = ["f"]
                else:
                    words = ["c", f"x=i{got['x']}"]
                    if "__trial_index__" in got:
                        words.append(f"__trial_index__=i{got['__trial_index__']}")
                    live.append(next_trial)
                print("K", next_trial, inner.answer, ">", *words, file=out)
                next_trial += 1
            else:
                unknown = kind == "limiter" and rng.random() < 0.05
                trial = next_trial + 99 if unknown else live.pop(rng.randrange(len(live)))
                value = rng.choice([None, float("nan"), round(rng.uniform(-3, 3), 2)])
                error = rng.random() < 0.1
                inner.log = []
                searcher.on_trial_complete(str(trial), result=None if value is None else {"m": value}, error=error)
                print("H", trial, "-" if value is None else number(value), "F" if error else "C", ">", *inner.log,
                      file=out)


def make_stopper(rng, clock):
    """A stopper of Ray, and its words."""
    kind = rng.choice(["iterations", "plateau", "experiment", "timeout"])
    mode = rng.choice(["min", "max"])
    if kind == "iterations":
        most = rng.randint(1, 20)
        return stoppers.MaximumIterationStopper(most), f"iterations,{most}"
    if kind == "plateau":
        std, results, grace = rng.choice([0.01, 0.2]), rng.randint(1, 12), rng.randint(0, 8)
        threshold = rng.choice([None, 0.5, 1.0])
        made = stoppers.TrialPlateauStopper("m", std=std, num_results=results, grace_period=grace,
                                            metric_threshold=threshold, mode=mode)
        return made, f"plateau,{std},{results},{grace},{'-' if threshold is None else threshold},{mode}"
    if kind == "experiment":
        std, top, patience = rng.choice([0.001, 0.05]), rng.randint(2, 12), rng.randint(0, 5)
        made = stoppers.ExperimentPlateauStopper("m", std=std, top=top, mode=mode, patience=patience)
        return made, f"experiment,{std},{top},{patience},{mode}"
    timeout = rng.choice([5.0, 50.0])
    return stoppers.TimeoutStopper(timeout), f"timeout,{timeout}"


def all_stoppers(out, rng, calls):
    clock = [0.0]
    time.time = lambda: clock[0]
    while calls > 0:
        made = [make_stopper(rng, clock) for _ in range(rng.randint(1, 4))]
        stopper = made[0][0] if len(made) == 1 else stoppers.CombinedStopper(*[each[0] for each in made])
        print("S stoppers", *(each[1] for each in made), file=out)
        clock[0] = 1000.0
        levels = [rng.uniform(0, 2) for _ in range(5)]
        for _ in range(min(calls, 200)):
            calls -= 1
            clock[0] += rng.choice([0.0, 0.25, 1.0])
            if rng.random() < 0.3:
                print("A", number(clock[0]), ">", int(bool(stopper.stop_all())), file=out)
                continue
            trial = rng.randrange(5)
            levels[trial] += rng.gauss(0, rng.choice([0, 0.001, 0.1]))
            value = round(levels[trial], 4)
            print("R", trial, number(value), ">", int(bool(stopper(str(trial), {"m": value}))), file=out)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=["all", "limiter", "repeater", "stoppers"])
    parser.add_argument("--decisions", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    for kind in ["limiter", "repeater"]:
        if options.kind in ("all", kind):
            wrapper(sys.stdout, rng, options.decisions, kind)
    if options.kind in ("all", "stoppers"):
        all_stoppers(sys.stdout, rng, options.decisions)


if __name__ == "__main__":
    main()
