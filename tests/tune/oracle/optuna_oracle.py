#!/usr/bin/env python3
"""Writes traces of the suggestions of Optuna 5.0's samplers for tests/tune/searchers/suggestion_runner.h.

usage: optuna_oracle.py tpe|motpe|nsga2 [--decisions N] [--seed S] [--divide K] >trace
N counts suggested parameter values; --divide makes the studies shorter, for recorded traces.
Optuna's Parzen estimator sorts equal observations in an order that depends on the CPU; here it sorts them stably.
"""

import argparse
import math
import random
import sys
import warnings

warnings.filterwarnings("ignore")

import numpy as np  # noqa: E402
import optuna  # noqa: E402
from optuna._hypervolume.wfg import compute_hypervolume  # noqa: E402
from optuna.samplers._tpe import parzen_estimator, probability_distributions  # noqa: E402
from optuna.samplers._tpe import sampler as sampler_module  # noqa: E402
from optuna.trial import TrialState  # noqa: E402

from trace_format import value_text  # noqa: E402

optuna.logging.set_verbosity(optuna.logging.ERROR)


class StableNumpy:
    """NumPy with a stable argsort."""

    def __getattr__(self, name):
        return getattr(np, name)

    @staticmethod
    def argsort(values, **options):
        return np.argsort(values, kind="stable")


parzen_estimator.np = StableNumpy()
probability_distributions.np = StableNumpy()

# Two candidates whose scores differ by less are a tie: the last bits of exp, log, and erf choose between them.
TIE = 1e-9
last_gap = [math.inf]
compare = optuna.samplers.TPESampler._compare.__func__
solve_subset = sampler_module._solve_hssp


def solve_and_note(losses, indices, size, reference):
    """Two subsets that add nearly equal hypervolumes are a tie as well."""
    chosen = solve_subset(losses, indices, size, reference)
    if losses.shape[1] > 2 and size < len(losses) and np.isfinite(reference).all():
        unique = np.unique(losses, axis=0)
        taken = np.empty((0, losses.shape[1]))
        by_index = dict(zip(indices.tolist(), losses))
        for index in chosen.tolist():
            before = compute_hypervolume(taken, reference) if len(taken) else 0.0
            gains = sorted(compute_hypervolume(np.vstack([taken, row]), reference) - before for row in unique
                           if not (taken == row).all(axis=1).any())
            if len(gains) > 1 and gains[-1] - gains[-2] <= TIE * max(1.0, abs(gains[-1])):
                subset_tie[0] = True
            taken = np.vstack([taken, by_index[index]])
    return chosen


subset_tie = [False]
sampler_module._solve_hssp = solve_and_note


def compare_and_note(cls, samples, scores):
    ordered = sorted(scores)
    if len(ordered) > 1:
        best = max(scores)
        same = [i for i in range(len(scores)) if best - scores[i] < TIE]
        first = {key: value[same[0]] for key, value in samples.items()}
        if any(any(abs(samples[key][i] - first[key]) > 1e-12 * abs(first[key]) for key in samples) for i in same):
            last_gap[0] = 0.0
    return compare(cls, samples, scores)


optuna.samplers.TPESampler._compare = classmethod(compare_and_note)

KINDS = [("real", 0.0, 1.0), ("real", -5.0, 10.0), ("real", 1e-5, 1e-1, "log"), ("real", 1.0, 1e6, "log"),
         ("real", 0.0, 2.0, 0.25), ("real", -1.0, 1.0, 0.1), ("integer", 0, 10), ("integer", 1, 1000),
         ("integer", 0, 100, 5), ("integer", 1, 256, "log"), ("integer", 3, 3), ("category", "a", "b"),
         ("category", 1, 2.5, "x", False, 7), ("category", "only"), ("real", 2.0, 2.0)]


def suggest(trial, name, kind):
    what, *parts = kind
    if what == "category":
        return trial.suggest_categorical(name, parts)
    log = parts[2:] == ["log"]
    step = parts[2] if len(parts) > 2 and not log else None
    if what == "real":
        return trial.suggest_float(name, parts[0], parts[1], step=step, log=log)
    return trial.suggest_int(name, parts[0], parts[1], step=step or 1, log=log)


def kind_text(kind):
    return " ".join([kind[0]] + [value_text(part) for part in kind[1:]])


def loss(params):
    total = 0.0
    for at, value in enumerate(params.values()):
        number = float(value) if isinstance(value, (int, float)) else len(str(value))
        total += math.sin(number * (at + 1)) + 0.1 * math.log1p(abs(number))
    return total


def tpe(out, rng, count, divide):
    while count > 0:
        mode = rng.choice(["min", "max"])
        seed = rng.randrange(2**31)
        space = {f"p{i}": rng.choice(KINDS) for i in range(rng.randint(1, 6))}
        if rng.random() < 0.15:
            space = {f"p{i}": KINDS[0] for i in range(9)}
        conditional = rng.random() < 0.3   # some trials lack parameters
        parallel = rng.choice([1, 1, 4, 10])
        pruning = rng.random() < 0.4
        constraints = rng.random() < 0.2
        trials = rng.choice([40, 120, 300]) // divide
        sampler = optuna.samplers.TPESampler(seed=seed)
        study = optuna.create_study(direction="minimize" if mode == "min" else "maximize", sampler=sampler)
        print("S tpe", f"mode={mode}", f"seed={seed}", file=out)
        running = []
        for number in range(trials):
            last_gap[0] = math.inf
            trial = study.ask()
            print("B", number, "tie" if last_gap[0] < TIE else "-", file=out)
            params = {}
            for name, kind in space.items():
                if conditional and rng.random() < 0.2:
                    continue
                last_gap[0] = math.inf
                value = params[name] = suggest(trial, name, kind)
                print("U", number, name, kind_text(kind), ">", value_text(value), *(["tie"] if last_gap[0] < TIE else []),
                      file=out)
                count -= 1
            running.append((trial, params))
            while len(running) >= parallel or (running and rng.random() < 0.2):
                done, params = running.pop(rng.randrange(len(running)))
                value = round(loss(params), rng.choice([1, 3, 6]))
                words = []
                if constraints:
                    bound = round(rng.uniform(-1, 1), 3)
                    done.set_constraint("c", bound)
                    words = [format(bound, ".12g")]
                if pruning and rng.random() < 0.4:
                    for step in range(rng.randint(0, 3)):
                        part = rng.choice([round(rng.uniform(-2, 2), 1), float("nan")])
                        done.report(part, step)
                        print("I", done.number, step, format(part, ".12g"), file=out)
                    study.tell(done, state=TrialState.PRUNED)
                    print("D", done.number, "pruned", "-", *words, file=out)
                elif rng.random() < 0.05:
                    study.tell(done, state=TrialState.FAIL)
                    print("D", done.number, "failed", "-", *words, file=out)
                else:
                    study.tell(done, value)
                    print("D", done.number, "complete", format(value, ".12g"), *words, file=out)


def motpe(out, rng, count, divide):
    """TPE for several objectives, which samples each parameter alone."""
    while count > 0:
        modes = [rng.choice(["min", "max"]) for _ in range(rng.choice([2, 2, 3, 4]))]
        seed = rng.randrange(2**31)
        space = {f"p{i}": rng.choice(KINDS) for i in range(rng.randint(1, 5))}
        conditional = rng.random() < 0.3   # some trials lack parameters
        parallel = rng.choice([1, 1, 4, 10])
        constraints = rng.random() < 0.3
        digits = rng.choice([0, 2, 6])     # ties
        trials = rng.choice([40, 120, 300]) // divide
        sampler = optuna.samplers.TPESampler(seed=seed)
        study = optuna.create_study(directions=["minimize" if mode == "min" else "maximize" for mode in modes],
                                    sampler=sampler)
        print("S tpe", f"modes={','.join(modes)}", f"seed={seed}", file=out)
        running = []
        for number in range(trials):
            trial = study.ask()
            print("B", number, "-", file=out)
            params = {}
            for name, kind in space.items():
                if conditional and rng.random() < 0.2:
                    continue
                last_gap[0] = math.inf
                subset_tie[0] = False
                value = params[name] = suggest(trial, name, kind)
                tied = last_gap[0] < TIE or subset_tie[0]
                print("U", number, name, kind_text(kind), ">", value_text(value), *(["tie"] if tied else []), file=out)
                count -= 1
            running.append((trial, params))
            while len(running) >= parallel or (running and rng.random() < 0.2):
                done, params = running.pop(rng.randrange(len(running)))
                words = []
                if constraints and rng.random() < 0.9:
                    bound = round(rng.uniform(-1, 1), digits)
                    done.set_constraint("c", bound)
                    words = [format(bound, ".12g")]
                if rng.random() < 0.1:
                    state = rng.choice([TrialState.FAIL, TrialState.PRUNED])
                    study.tell(done, state=state)
                    print("D", done.number, "pruned" if state == TrialState.PRUNED else "failed", "-", *words, file=out)
                    continue
                values = [round(loss(params) * (at + 1) + rng.uniform(-2, 2), digits) for at in range(len(modes))]
                study.tell(done, values)
                print("D", done.number, "complete", ",".join(format(value, ".12g") for value in values), *words,
                      file=out)


def nsga2(out, rng, count, divide):
    while count > 0:
        modes = [rng.choice(["min", "max"]) for _ in range(rng.choice([1, 2, 2, 3]))]
        seed = rng.randrange(2**31)
        population = rng.choice([2, 5, 10, 20])
        crossover = rng.choice([0.9, 0.9, 0.5, 1.0])
        swapping = rng.choice([0.5, 0.5, 0.2])
        mutation = rng.choice([None, None, 0.1, 0.5])
        space = {f"p{i}": rng.choice(KINDS) for i in range(rng.randint(1, 6))}
        conditional = rng.random() < 0.3   # some trials lack parameters
        parallel = rng.choice([1, 1, 4, 10])
        constraints = rng.random() < 0.3
        digits = rng.choice([0, 1, 6])     # ties
        trials = rng.choice([80, 160, 300]) // divide
        sampler = optuna.samplers.NSGAIISampler(seed=seed, population_size=population, crossover_prob=crossover,
                                                swapping_prob=swapping, mutation_prob=mutation)
        study = optuna.create_study(directions=["minimize" if mode == "min" else "maximize" for mode in modes],
                                    sampler=sampler)
        print("S nsga2", f"modes={','.join(modes)}", f"seed={seed}", f"population={population}",
              f"crossover={crossover}", f"swapping={swapping}", f"mutation={'-' if mutation is None else mutation}",
              file=out)
        running = []
        for number in range(trials):
            trial = study.ask()
            print("B", number, "-", file=out)
            params = {}
            for name, kind in space.items():
                if conditional and rng.random() < 0.05:
                    continue
                value = params[name] = suggest(trial, name, kind)
                print("U", number, name, kind_text(kind), ">", value_text(value), file=out)
                count -= 1
            running.append((trial, params))
            while len(running) >= parallel or (running and rng.random() < 0.2):
                done, params = running.pop(rng.randrange(len(running)))
                words = []
                if constraints and rng.random() < 0.9:
                    bound = round(rng.uniform(-1, 1), digits)
                    done.set_constraint("c", bound)
                    words = [format(bound, ".12g")]
                if rng.random() < 0.08:
                    study.tell(done, state=rng.choice([TrialState.FAIL, TrialState.PRUNED]))
                    print("D", done.number, "failed", "-", *words, file=out)
                    continue
                values = [round(loss(params) * (at + 1) + rng.uniform(-2, 2), digits) for at in range(len(modes))]
                study.tell(done, values)
                print("D", done.number, "complete", ",".join(format(value, ".12g") for value in values), *words,
                      file=out)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=["tpe", "motpe", "nsga2"])
    parser.add_argument("--decisions", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--divide", type=int, default=1)
    options = parser.parse_args()
    {"tpe": tpe, "motpe": motpe, "nsga2": nsga2}[options.kind](sys.stdout, random.Random(options.seed), options.decisions, options.divide)


if __name__ == "__main__":
    main()
