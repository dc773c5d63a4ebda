#!/usr/bin/env python3
"""Writes traces of random decisions of Ray Tune's schedulers (ray 2.60) for tests/tune/trace_runner.h.

usage: ray_oracle.py KIND [--decisions N] [--seed S] [--divide K] >trace
--divide makes the experiments of the trace shorter, for recorded traces.
KIND: all (in one trace), asha, hyperband, bohb, median, pbt, replay, variants, fifo. tests/tune/oracle/run.sh compares all of them with Mobula.
"""

import argparse
import json
import logging
import os
import random
import sys
import tempfile
import warnings

os.environ.setdefault("RAY_TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "1")
warnings.filterwarnings("ignore")

import numpy as np  # noqa: E402
from ray import tune  # noqa: E402
from ray.tune import schedulers  # noqa: E402

from ray_sim import Sim, Trial  # noqa: E402
from trace_format import config_text, value_text  # noqa: E402

logging.disable(logging.WARNING)


def header(out, kind, **options):
    print("S", kind, *(f"{key}={value:.12g}" if isinstance(value, (int, float)) else f"{key}={value}"
                       for key, value in options.items()), file=out)


DIVIDE = 1


def section(rng, decisions, sizes):
    """The number of decisions of the next experiment."""
    return min(decisions, rng.choice(sizes) // DIVIDE)


def noisy(rng, trial, mode, digits=3):
    """A learning curve with ties."""
    value = trial.level + 1.0 / (1 + trial.time) + rng.gauss(0, 0.1)
    return round(value if mode == "min" else -value, digits)


def seed_all(rng):
    numpy_seed, python_seed = rng.randrange(2**31), rng.randrange(2**31)
    np.random.seed(numpy_seed)
    random.seed(python_seed)
    return numpy_seed, python_seed


def asha(out, rng, decisions):
    """Gaps, ties, NaN, infinities, missing fields, failures, retries, restored iterations, several brackets."""
    while decisions > 0:
        size = section(rng, decisions, [2000, 8000, 20000])
        decisions -= size
        mode = rng.choice(["min", "max"])
        grace = rng.choice([1, 2, 5])
        options = dict(max_t=rng.choice([grace, 9, 27, 81, 100, 243, 1000]), grace_period=grace,
                       reduction_factor=rng.choice([1.5, 2, 3, 4, 10]), brackets=rng.choice([1, 1, 1, 2, 3]),
                       stop_last_trials=rng.random() < 0.5)
        options["max_t"] = max(options["max_t"], grace)
        numpy_seed, _ = seed_all(rng)
        header(out, "asha", mode=mode, numpy=numpy_seed, **options)
        sim = Sim(schedulers.AsyncHyperBandScheduler(time_attr="t", metric="m", mode=mode, **options), out, rng)
        faults = rng.random() < 0.5
        while sim.decisions < size:
            running = sim.running()
            if len(running) < 32:
                if not any(t.status in (Trial.PENDING, Trial.PAUSED) for t in sim.trials):
                    sim.add()
                sim.choose()
                continue
            trial = rng.choice(running)
            trial.time += rng.choice([1, 1, 1, 2, 7])
            value = noisy(rng, trial, mode)
            if faults and rng.random() < 0.02:
                value = rng.choice([float("nan"), float("nan"), float("inf"), float("-inf")])
            drop = faults and rng.random() < 0.01
            sim.report(trial, value, drop)
            if trial.status == Trial.RUNNING and rng.random() < 0.01:
                sim.complete(trial)
            elif trial.status == Trial.RUNNING and faults and rng.random() < 0.01:
                trial.time = rng.randint(0, trial.time)
                sim.fail(trial, rng.random() < 0.7)
            if len(sim.trials) > 200:
                sim.forget_finished()


def hyperband(out, rng, decisions, bohb=False):
    """Filling, halving, failures, retries, removal of paused trials, and slow saves of pauses."""
    while decisions > 0:
        size = section(rng, decisions, [500, 2000, 5000])
        decisions -= size
        mode = rng.choice(["min", "max"])
        options = dict(max_t=rng.choice([1, 3, 9, 16, 27, 81, 100]), reduction_factor=rng.choice([2, 3, 4, 2.5]),
                       stop_last_trials=rng.random() < 0.7)
        header(out, "bohb" if bohb else "hyperband", mode=mode, **options)
        kind = schedulers.HyperBandForBOHB if bohb else schedulers.HyperBandScheduler
        sim = Sim(kind(time_attr="t", metric="m", mode=mode, **options), out, rng)
        sim.slow_saves = rng.choice([0, 0.3])
        slots = rng.choice([2, 5, 20])
        idle = 0
        while sim.decisions < size:
            for trial in [t for t in sim.trials if t.is_saving]:
                if rng.random() < 0.3:
                    sim.end_pause(trial)
            running = sim.running()
            if len(running) < slots and rng.random() < 0.7:
                if sim.choose() is not None:
                    idle = 0
                    continue
                idle += 1
                if not running or rng.random() < 0.5:
                    sim.add()
                continue
            if not running:
                continue
            trial = rng.choice(running)
            trial.time += rng.choice([1, 1, 1, 2, 5])
            sim.report(trial, noisy(rng, trial, mode, 2))
            if trial.status == Trial.RUNNING and not trial.is_saving:
                chance = rng.random()
                if chance < 0.005 or (not options["stop_last_trials"] and trial.time > options["max_t"]):
                    sim.complete(trial)
                elif chance < 0.01:
                    trial.time = rng.randint(0, trial.time)
                    sim.fail(trial, rng.random() < 0.7)
            paused = [t for t in sim.trials if t.status in (Trial.PAUSED, Trial.PENDING)]
            if paused and rng.random() < 0.003:
                sim.remove(rng.choice(paused))
            if len(sim.trials) > 200:
                sim.forget_finished()


def median(out, rng, decisions):
    """Sparse and restored times, NaN, infinities, finished trials, pauses, soft stops."""
    while decisions > 0:
        size = section(rng, decisions, [300, 1000, 2500])
        decisions -= size
        mode = rng.choice(["min", "max"])
        options = dict(grace_period=rng.choice([0, 1, 3, 10]), min_samples_required=rng.choice([1, 3, 5]),
                       min_time_slice=rng.choice([0, 0, 5]), hard_stop=rng.random() < 0.7)
        header(out, "median", mode=mode, **options)
        sim = Sim(schedulers.MedianStoppingRule(time_attr="t", metric="m", mode=mode, **options), out, rng)
        faults = rng.random() < 0.5
        while sim.decisions < size:
            running = sim.running()
            if len(running) < 8:
                if not any(t.status in (Trial.PENDING, Trial.PAUSED) for t in sim.trials) or rng.random() < 0.2:
                    sim.add()
                sim.choose()
                continue
            trial = rng.choice(running)
            trial.time += rng.choice([1, 1, 2, 0.5])
            value = noisy(rng, trial, mode)
            if faults and rng.random() < 0.02:
                value = rng.choice([float("nan"), float("inf"), float("-inf")])
            sim.report(trial, value, faults and rng.random() < 0.01)
            if trial.status != Trial.RUNNING:
                continue
            if rng.random() < 0.02 and "t" in trial.last_result and "m" in trial.last_result:
                sim.complete(trial)
            elif faults and rng.random() < 0.01:
                trial.time = rng.randint(0, int(trial.time))
                sim.fail(trial, rng.random() < 0.7)


def spec_text(domain):
    """The words of a domain, as Mobula's runner reads them."""
    name, *parts = domain
    return " ".join([name] + [value_text(part) for part in parts])


def make_domain(spec):
    name, *parts = spec
    if name in ("choice", "grid_search"):
        return getattr(tune, name)(parts)
    if name == "ordered":
        return parts
    if name == "constant":
        return parts[0]
    if name == "sum":
        first, second = parts
        return tune.sample_from(lambda spec: getattr(spec.config, first) + getattr(spec.config, second))
    return getattr(tune, name)(*parts)


def pbt(out, rng, decisions):
    """Both modes, several kinds of mutation, failures, lost and slow checkpoints."""
    kinds = [("uniform", 0.0, 1.0), ("quniform", 0.0, 2.0, 0.25), ("randint", 1, 1000), ("qrandint", 0, 100, 5),
             ("loguniform", 1e-5, 1e-1), ("choice", 1, 10, 100), ("choice", True, False), ("ordered", 16, 32, 64, 128),
             ("ordered", "a", "b", "c"), ("randn", 0.0, 1.0), ("lograndint", 1, 500)]
    while decisions > 0:
        size = section(rng, decisions, [500, 2000, 5000])
        decisions -= size
        mode = rng.choice(["min", "max"])
        options = dict(perturbation_interval=rng.choice([1, 3, 10]), burn_in_period=rng.choice([0, 0, 5]),
                       quantile_fraction=rng.choice([0, 0.25, 0.25, 0.5]), resample_probability=rng.choice([0, 0.25, 1]),
                       synch=rng.random() < 0.4)
        mutations = {name: rng.choice(kinds) for name in "abcd"[:rng.randint(1, 4)]}
        numpy_seed, python_seed = seed_all(rng)
        header(out, "pbt", mode=mode, numpy=numpy_seed, python=python_seed, **options)
        for name, spec in mutations.items():
            print("M", name, spec_text(spec), file=out)
        scheduler = schedulers.PopulationBasedTraining(
            time_attr="t", metric="m", mode=mode, log_config=False,
            hyperparam_mutations={name: make_domain(spec) for name, spec in mutations.items()}, **options)
        sim = Sim(scheduler, out, rng)
        exploit = scheduler._exploit

        def logged(controller, trial, donor, exploit=exploit, scheduler=scheduler, sim=sim):
            checkpoint = scheduler._trial_state[donor].last_checkpoint
            exploit(controller, trial, donor)
            sim.log.append(f"x{trial}:{donor}:{checkpoint}:{config_text(trial.config)}")

        scheduler._exploit = logged
        sim.lost_checkpoints = rng.choice([0, 0.1])
        sim.slow_saves = rng.choice([0, 0.3])
        population, slots = rng.choice([2, 5, 12, 30]), rng.choice([2, 8, 40])
        faults = rng.random() < 0.5
        started = 0
        while sim.decisions < size and started < 20 * population:
            live = [t for t in sim.trials if not t.is_finished()]
            for trial in [t for t in live if t.is_saving]:
                if rng.random() < 0.5:
                    sim.end_pause(trial)
            if len(live) < population:
                started += 1
                sim.add({name: make_value(rng, spec) for name, spec in mutations.items() if rng.random() < 0.3})
                continue
            running = sim.running()
            if len(running) < slots and rng.random() < 0.6:
                sim.choose()
                continue
            if not running:
                continue
            trial = rng.choice(running)
            trial.time += rng.choice([1, 1, 2])
            value = noisy(rng, trial, mode, 2)
            if faults and rng.random() < 0.02:
                value = float("nan")
            sim.report(trial, value)
            if trial.status == Trial.RUNNING and not trial.is_saving and faults:
                chance = rng.random()
                if chance < 0.003:
                    sim.complete(trial)
                elif chance < 0.01:
                    sim.fail(trial, rng.random() < 0.8)


def make_value(rng, spec):
    name, *parts = spec
    if name in ("choice", "ordered"):
        return rng.choice(parts)
    if name in ("randint", "qrandint", "lograndint"):
        return rng.randint(parts[0], parts[1] - 1)
    return round(rng.uniform(0, 1), 6)


def fifo(out, rng, decisions):
    while decisions > 0:
        size = section(rng, decisions, [2000, 5000])
        decisions -= size
        header(out, "fifo", mode="min")
        sim = Sim(schedulers.FIFOScheduler(), out, rng)
        while sim.decisions < size:
            running = sim.running()
            if len(running) < 8:
                if rng.random() < 0.5:
                    sim.add()
                sim.choose()
                continue
            trial = rng.choice(running)
            trial.time += 1
            sim.report(trial, 0.5)
            chance = rng.random()
            if chance < 0.1:
                sim.complete(trial)
            elif chance < 0.2:
                sim.fail(trial, True)
            elif chance < 0.3:
                sim.set_state(trial, Trial.PAUSED)
            sim.forget_finished()


def variants(out, rng, count):
    """Spaces with grids, functions, constants, nested names, and preset points."""
    from ray.tune.experiment import Experiment
    from ray.tune.search.basic_variant import BasicVariantGenerator

    kinds = [("uniform", -1.0, 3.0), ("quniform", -0.5, 2.0, 0.25), ("loguniform", 1e-5, 1e-1),
             ("qloguniform", 0.1, 10.0, 0.1), ("randn", 1.0, 2.0), ("qrandn", 1.0, 2.0, 0.5), ("randint", -3, 9),
             ("randint", 0, 1), ("randint", 0, 2**40), ("qrandint", 0, 30, 5), ("qrandint", 0, 7, 1),
             ("lograndint", 1, 1000), ("qlograndint", 10, 1000, 10), ("choice", 1, 2.5, "x", True), ("choice", 7),
             ("grid_search", 1, 2), ("grid_search", "p", "q", "r"), ("constant", 3), ("uniform", 2.0, 2.0)]
    made = 0
    tune.register_trainable("none", lambda config: None)
    while made < count:
        names = rng.sample(["a", "b", "c", "d", "e", "m/x", "m/y", "m-z", "n/k/u", "n/k/v"], rng.randint(1, 7))
        specs = {name: rng.choice(kinds) for name in names}
        numeric = [name for name in names if specs[name][0] in ("uniform", "randint", "lograndint") and "/" not in name]
        functions = {}
        for at, name in enumerate(["f", "g"]):
            if len(numeric) >= 2 and rng.random() < 0.5:
                functions[name] = ("sum", rng.choice(numeric), "g" if name == "f" and rng.random() < 0.3 else numeric[-1])
        if "f" in functions and functions["f"][2] == "g" and "g" not in functions:
            del functions["f"]
        order = list(specs) + list(functions)
        rng.shuffle(order)
        specs.update(functions)
        # A nested dictionary keeps the parameters of one group together.
        groups = []
        for name in order:
            group = name.split("/")[0] if "/" in name else name
            if group not in groups:
                groups.append(group)
        order.sort(key=lambda name: groups.index(name.split("/")[0] if "/" in name else name))
        space = {}
        for name in order:
            at, parts = space, name.split("/")
            for part in parts[:-1]:
                at = at.setdefault(part, {})
            at[parts[-1]] = make_domain(specs[name])
        points = []
        for _ in range(rng.choice([0, 0, 1, 2])):
            point = {}
            for name in order:
                if rng.random() < 0.4 and name not in functions and specs[name][0] != "constant":
                    at, parts = point, name.split("/")
                    for part in parts[:-1]:
                        at = at.setdefault(part, {})
                    at[parts[-1]] = make_value(rng, specs[name]) if specs[name][0] not in ("choice", "grid_search") \
                        else rng.choice(specs[name][1:])
            points.append(point)
        samples, constant, seed = rng.choice([1, 3, 10]), rng.random() < 0.4, rng.randrange(2**31)
        header(out, "variants", samples=samples, constant=constant, numpy=seed)
        for name in order:
            print("M", name, spec_text(specs[name]), file=out)
        for point in points:
            print("G", config_text(point), file=out)
        generator = BasicVariantGenerator(points_to_evaluate=points, constant_grid_search=constant,
                                          random_state=np.random.RandomState(seed))
        generator.add_configurations(Experiment("e", "none", config=space, num_samples=samples))
        print("Q", generator.total_samples, file=out)
        while True:
            trial = generator.next_trial()
            if trial is None:
                break
            print("W", config_text(trial.config), file=out)
            made += 1
        print("W", "end", file=out)


class LoggedReplay:
    """Ray's replay of a policy; its save and its pause are one command."""

    def __init__(self, sim, replay):
        self.sim, self.replay = sim, replay

    def on_trial_add(self, controller, trial):
        self.replay.on_trial_add(controller, trial)

    def on_trial_result(self, controller, trial, result):
        decision = self.replay.on_trial_result(controller, trial, result)
        if decision == "NOOP":
            self.sim.log = [f"c{trial}:{config_text(trial.config)}"]
            self.sim.saves = []
        return decision

    def on_trial_complete(self, controller, trial, result):
        self.replay.on_trial_complete(controller, trial, result)

    def choose_trial_to_run(self, controller):
        return self.replay.choose_trial_to_run(controller)


def replay(out, rng, decisions):
    """Chains of donors, changes that later ones replaced, equal and descending steps, and policies without rows."""
    def config():
        return {"lr": rng.random(), "width": rng.randint(1, 9), "opt": rng.choice(["adam", "sgd"])}

    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "pbt_policy_0.txt")
        while decisions > 0:
            size = section(rng, decisions, [20, 60, 200])
            decisions -= size
            rows = [[rng.choice("ab"), rng.choice("ab"), rng.randint(1, 60), rng.randint(1, 60), config(), config()]
                    for _ in range(rng.choice([0, 1, 3, 10, 30]))]
            with open(path, "w", encoding="utf-8") as file:
                file.writelines(json.dumps(row) + "\n" for row in rows)
            header(out, "replay")
            for row in rows:
                print("P", *row[:4], config_text(row[4]), config_text(row[5]), file=out)
            sim = Sim(None, out, rng, time_attr="training_iteration")
            sim.scheduler = LoggedReplay(sim, schedulers.PopulationBasedTrainingReplay(path))
            trial = sim.add({} if rows and rng.random() < 0.5 else config())
            while sim.decisions < size:
                if trial.status != Trial.RUNNING:
                    sim.choose()
                    continue
                trial.time += rng.choice([1, 1, 2, 5, -3])
                sim.report(trial, noisy(rng, trial, "min") if trial.time > -1 else 0.5)


KINDS = {"asha": asha, "hyperband": hyperband, "bohb": lambda out, rng, n: hyperband(out, rng, n, True),
         "median": median, "pbt": pbt, "fifo": fifo, "replay": replay, "variants": variants}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=["all"] + sorted(KINDS))
    parser.add_argument("--decisions", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--divide", type=int, default=1)
    options = parser.parse_args()
    global DIVIDE
    DIVIDE = options.divide
    for kind in KINDS if options.kind == "all" else [options.kind]:
        KINDS[kind](sys.stdout, random.Random(options.seed), options.decisions)


if __name__ == "__main__":
    main()
