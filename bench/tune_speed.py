#!/usr/bin/env python3
"""Measures the speed of Tune side by side with Ray Tune 2.60 and Optuna 5.0.

    build/tune-oracle/bin/python bench/tune_speed.py build/release/bin [--trials 100] [--ray-trials 8] [-o table|json]

tests/tune/oracle/run.sh makes the Python environment. Needs mobula-bench-tune, and for rows that it can measure
mobula-bench-tune-resume, mobula-bench-tune-storage, and mobula-bench-tune-trials.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings

warnings.filterwarnings("ignore")


def lines_of(program, *words, timeout=580):
    """The figures of a program, by name: value and the rest of the line."""
    if not os.path.exists(program):
        print(f"tune_speed: left out: {program} does not exist", file=sys.stderr)
        return {}
    text = subprocess.run([program, *words], stdout=subprocess.PIPE, text=True, check=True, timeout=timeout).stdout
    return {line.split()[0]: float(line.split()[1]) for line in text.splitlines() if len(line.split()) >= 3}


def optuna_ask_and_tell(size):
    """Milliseconds of ask and tell with five numbers, after `size` random trials."""
    import optuna
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    import numpy as np
    ranges = {f"x{i}": optuna.distributions.FloatDistribution(0, 1) for i in range(5)}
    points = np.random.RandomState(1).uniform(size=(size, 5))
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=1))
    study.add_trials([optuna.trial.create_trial(params={f"x{i}": float(x) for i, x in enumerate(row)}, distributions=ranges,
                                                value=float(((row - 0.3) ** 2).sum())) for row in points])
    times = []
    for _ in range(5 if size < 50_000 else 3):
        begun = time.perf_counter()
        trial = study.ask()
        value = sum((trial.suggest_float(name, 0, 1) - 0.3) ** 2 for name in ranges)
        study.tell(trial, value)
        times.append(time.perf_counter() - begun)
    return 1e3 * statistics.median(times)


def ray_decision(recorded):
    """Microseconds of a decision of ASHA with `recorded` values in the lowest rung."""
    import numpy as np
    from ray.tune.schedulers.async_hyperband import _Bracket
    values = np.random.RandomState(2).uniform(size=recorded + 300)
    bracket = _Bracket(min_t=1, max_t=100, reduction_factor=4, s=0)
    _, lowest = bracket._rungs[-1][0], bracket._rungs[-1][1]
    for i in range(recorded):
        lowest[str(i)] = values[i]

    class Trial:
        def __init__(self, number):
            self.trial_id = f"new{number}"
    begun = time.perf_counter()
    for i in range(300):
        bracket.on_result(Trial(i), 1, values[recorded + i])
    return (time.perf_counter() - begun) / 300 * 1e6


def ray_trials(count, reuse):
    """Trials per second of a function with ten reports."""
    import logging
    import ray
    from ray import tune

    def trial(config):
        for step in range(10):
            tune.report({"loss": config["x"] * step})
    with tempfile.TemporaryDirectory(prefix="tune-speed-") as folder:
        ray.init(num_cpus=os.cpu_count(), include_dashboard=False, logging_level=logging.ERROR, configure_logging=False)
        try:
            begun = time.perf_counter()
            tuner = tune.Tuner(trial, param_space={"x": tune.uniform(0, 1)}, run_config=tune.RunConfig(storage_path=folder, verbose=0),
                               tune_config=tune.TuneConfig(num_samples=count, metric="loss", mode="min", reuse_actors=reuse))
            tuner.fit()
            return count / (time.perf_counter() - begun)
        finally:
            ray.shutdown()


def measure(arguments):
    programs = arguments.programs
    ours = lines_of(f"{programs}/mobula-bench-tune")
    rows = [{"name": "ASHA decision with 100,000 recorded values", "unit": "µs", "bar": "≤ 2",
             "mobula": ours["asha_decision_100000_recorded"], "peer": ray_decision(100_000), "of": "Ray Tune"}]
    for size, bar in ((10_000, "≤ 10"), (100_000, "≤ 100")):
        rows.append({"name": f"TPE ask and tell at {size:,} trials", "unit": "ms", "bar": bar, "mobula": ours[f"tpe_ask_tell_{size}_trials"],
                     "peer": optuna_ask_and_tell(size), "of": "Optuna"})
    with tempfile.TemporaryDirectory(prefix="tune-speed-", dir=arguments.folder) as folder:
        stored = lines_of(f"{programs}/mobula-bench-tune-resume", folder)
        listed = lines_of(f"{programs}/mobula-bench-tune-storage", folder)
        trials = lines_of(f"{programs}/mobula-bench-tune-trials", folder, str(arguments.trials))
    if stored:
        rows += [{"name": "file of 100,000 trials with 10 reports", "unit": "MB", "bar": "≤ 250", "mobula": stored["tune_core_file"]},
                 {"name": "its reopening by the core", "unit": "ms", "bar": "≤ 2,000", "mobula": stored["tune_core_resume"]},
                 {"name": "memory of core and log for them", "unit": "MiB", "bar": "≤ 60 + 29", "mobula": stored["tune_core_memory"]}]
    if listed:
        rows.append({"name": "its entry in a list", "unit": "ms", "bar": "≤ 100", "mobula": listed["tune_list"]})
    if trials:
        for name, reuse, bar in (("fresh", False, "≥ 100 × Ray"), ("reused", True, "")):
            rows.append({"name": f"trivial trials, {name} processes", "unit": "/s", "bar": bar, "mobula": trials[f"tune_trials_{name}"],
                         "peer": ray_trials(arguments.ray_trials, reuse), "of": "Ray Tune"})
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("programs", help="folder of the programs of bench/")
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--ray-trials", type=int, default=8)
    parser.add_argument("--folder", default="/tmp", help="for the files of experiments")
    parser.add_argument("-o", choices=("table", "json"), default="table", dest="output")
    arguments = parser.parse_args()
    load = os.getloadavg()[0]
    rows = measure(arguments)
    if arguments.output == "json":
        json.dump({"load": [load, os.getloadavg()[0]], "rows": rows}, sys.stdout, indent=1)
        print()
        return
    print("| figure | bar | Mobula | peer |\n| --- | --- | --- | --- |")
    for row in rows:
        peer = f"{row['peer']:.3g} {row['unit']}, {row['of']}" if "peer" in row else "–"
        print(f"| {row['name']} | {row['bar']} | {row['mobula']:.3g} {row['unit']} | {peer} |")
    print(f"load average {load:.1f} before and {os.getloadavg()[0]:.1f} after", file=sys.stderr)


if __name__ == "__main__":
    main()
