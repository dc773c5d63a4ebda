#!/usr/bin/env python3
"""Measures the speed of Tune side by side with Ray Tune 2.60 and Optuna 5.0.

    build/tune-oracle/bin/python bench/tune_speed.py build/release/bin [--trials 100] [--ray-trials 8] [--limit 240]
        [-o table|json]

Each peer and each program runs in a process of its own, for at most LIMIT seconds; a row without an end in time shows the limit.

tests/tune/oracle/run.sh makes the Python environment. Needs mobula-bench-tune, and for rows that it can measure
mobula-bench-tune-resume, mobula-bench-tune-storage, and mobula-bench-tune-trials.
"""
import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import warnings

warnings.filterwarnings("ignore")


def output_of(words, limit):
    """The output within the limit. The processes of a program that takes longer end with it."""
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(words, stdout=output, start_new_session=True)
        try:
            status = process.wait(limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            status = process.wait()
        output.seek(0)
        if status not in (0, -signal.SIGKILL):
            print(f"tune_speed: {' '.join(words)}: status {status}", file=sys.stderr)
        return output.read()


def lines_of(limit, program, *words):
    """The figures of a program, by name."""
    if not os.path.exists(program):
        print(f"tune_speed: left out: {program} does not exist", file=sys.stderr)
        return {}
    lines = [line.split() for line in output_of([program, *words], limit).splitlines()]
    return {words[0]: float(words[1]) for words in lines if len(words) >= 3}


def peer(arguments, name, *values):
    """The figure of a peer in a process of its own, or None after the limit."""
    words = [sys.executable, os.path.abspath(__file__), arguments.programs, "--peer", name, *(str(value) for value in values)]
    lines = [line.split() for line in output_of(words, arguments.limit).splitlines() if line.startswith("peer ")]
    return float(lines[-1][1]) if lines else None


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


PEERS = {"optuna": lambda size: optuna_ask_and_tell(int(size)), "asha": lambda recorded: ray_decision(int(recorded)),
         "trials": lambda count, reuse: ray_trials(int(count), reuse == "reused")}


def measure(arguments):
    programs, limit = arguments.programs, arguments.limit
    ours = lines_of(limit, f"{programs}/mobula-bench-tune")
    with tempfile.TemporaryDirectory(prefix="tune-speed-", dir=arguments.folder) as folder:
        ours |= lines_of(limit, f"{programs}/mobula-bench-tune-resume", folder)
        ours |= lines_of(limit, f"{programs}/mobula-bench-tune-storage", folder)
        ours |= lines_of(limit, f"{programs}/mobula-bench-tune-trials", folder, str(arguments.trials))
    rows = [("ASHA decision with 100,000 recorded values", "µs", "≤ 2", "asha_decision_100000_recorded", ("Ray Tune", "asha", 100_000)),
            ("TPE ask and tell at 10,000 trials", "ms", "≤ 10", "tpe_ask_tell_10000_trials", ("Optuna", "optuna", 10_000)),
            ("TPE ask and tell at 100,000 trials", "ms", "≤ 100", "tpe_ask_tell_100000_trials", ("Optuna", "optuna", 100_000)),
            ("file of 100,000 trials with 10 reports", "MB", "≤ 250", "tune_core_file", None),
            ("its reopening by the core", "ms", "≤ 2,000", "tune_core_resume", None),
            ("memory of core and log for them", "MiB", "≤ 60 + 29", "tune_core_memory", None),
            ("its entry in a list", "ms", "≤ 100", "tune_list", None),
            ("trivial trials, fresh processes", "/s", "≥ 100 × Ray", "tune_trials_fresh", ("Ray Tune", "trials", arguments.ray_trials, "fresh")),
            ("trivial trials, reused processes", "/s", "–", "tune_trials_reused", ("Ray Tune", "trials", arguments.ray_trials, "reused"))]
    result = []
    for name, unit, bar, figure, other in rows:
        row = {"name": name, "unit": unit, "bar": bar, "mobula": ours.get(figure)}
        if other:
            row |= {"of": other[0], "peer": peer(arguments, *other[1:])}
        result.append(row)
    return result


def shown(value, unit, limit):
    return f"no end in {limit} s" if value is None else f"{value:.3g} {unit}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("programs", help="folder of the programs of bench/")
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--ray-trials", type=int, default=8)
    parser.add_argument("--limit", type=float, default=240, help="seconds for each program and each peer")
    parser.add_argument("--folder", default="/tmp", help="for the files of experiments")
    parser.add_argument("-o", choices=("table", "json"), default="table", dest="output")
    parser.add_argument("--peer", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peer:
        print("peer", PEERS[arguments.peer[0]](*arguments.peer[1:]), flush=True)
        return
    load = os.getloadavg()[0]
    rows = measure(arguments)
    if arguments.output == "json":
        json.dump({"load": [load, os.getloadavg()[0]], "rows": rows}, sys.stdout, indent=1)
        print()
        return
    print("| figure | Mobula | peer | bar |\n| --- | --- | --- | --- |")
    for row in rows:
        other = f"{shown(row['peer'], row['unit'], arguments.limit)} ({row['of']})" if "of" in row else "–"
        print(f"| {row['name']} | {shown(row['mobula'], row['unit'], arguments.limit)} | {other} | {row['bar']} |")
    print(f"load average {load:.1f} before and {os.getloadavg()[0]:.1f} after", file=sys.stderr)


if __name__ == "__main__":
    main()
