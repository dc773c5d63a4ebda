#!/usr/bin/env python3
"""Measures the speed of Tune, Ray Tune 2.60, and Optuna 5.0, in one run and one table.

    build/tune-oracle/bin/python bench/tune/tune_speed.py build/release/bin [--small] [--limit 240] [--results FILE] [-o table|json]

tests/tune/oracle/run.sh makes the Python environment. Each measurement runs in a separate process for at most
LIMIT seconds. A missing figure shows its reason: "not finished in 240 s", "not installed", or "failed".
--results FILE (bench/compare/tune_results.json) replaces the speed table that bench/compare/report.py shows.
--small measures fewer trials, to prove that the programs and the peers run; its figures mean nothing.
"""
import argparse
import importlib.util
import json
import logging
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
import warnings

warnings.filterwarnings("ignore")

MARK = "MOBULA_TUNE_SPEED_RUN"  # in the environment of every process of one measurement


# ---- processes ----------------------------------------------------------------------------------------------------------


def processes_of(mark):
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                if f"{MARK}={mark}".encode() in file.read().split(b"\0"):
                    found.append(int(name))
        except OSError:
            continue
    return found


def end_all(mark):
    """Ends the processes of a measurement, also processes outside its session."""
    for _ in range(20):
        left = processes_of(mark)
        if not left:
            return
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.1)


def output_of(words, limit):
    """The output within the limit, and the reason why there is no more of it, or None."""
    mark = uuid.uuid4().hex
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors, \
            tempfile.TemporaryDirectory(prefix="tune-", ignore_cleanup_errors=True) as scratch:
        process = subprocess.Popen(words, stdout=output, stderr=errors, env={**os.environ, MARK: mark, "TMPDIR": scratch})
        reason = None
        try:
            if process.wait(limit) != 0:
                errors.seek(0)
                last = (errors.read().strip().splitlines() or ["no message"])[-1]
                print(f"tune_speed: {' '.join(words)}: status {process.returncode}: {last}", file=sys.stderr)
                reason = "failed"
        except subprocess.TimeoutExpired:
            reason = f"not finished in {limit:g} s"
        finally:
            end_all(mark)
            process.wait()
        output.seek(0)
        return output.read(), reason


def figures_of(limit, names, program, *words):
    """The named figures of a program of bench/; a text is the reason why a figure is not there."""
    if not os.path.exists(program):
        return dict.fromkeys(names, "not built")
    text, reason = output_of([program, *words], limit)
    print(text, end="", file=sys.stderr)
    lines = [line.split() for line in text.splitlines()]
    found = {words[0]: float(words[1]) for words in lines if len(words) >= 3}
    return {name: found.get(name, reason or "failed") for name in names}


def peers_of(limit, package, names, kind, *values):
    """The figures of a peer; a text is the reason why a figure is not there."""
    if importlib.util.find_spec(package) is None:
        return dict.fromkeys(names, "not installed")
    words = [sys.executable, os.path.abspath(__file__), "-", "--peer", kind, *(str(value) for value in values)]
    text, reason = output_of(words, limit)
    lines = [line.split() for line in text.splitlines() if line.startswith("peer ")]
    found = {words[1]: float(words[2]) for words in lines}
    return {name: found.get(name, reason or "failed") for name in names}


# ---- peers, each in a separate process -------------------------------------------------------------------------------------


def show(name, value):
    print("peer", name, value, flush=True)


def memory_mib():
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS:")) / 1024


def quiet_optuna():
    import optuna
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def optuna_ask_and_tell(size):
    """Milliseconds of ask and tell with five numbers, after `size` random trials."""
    optuna = quiet_optuna()
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
    show("ask_tell", 1e3 * statistics.median(times))


def optuna_stored(size):
    """A study with ten reports per trial in SQLite: its size, and the time and memory of reading it again."""
    optuna = quiet_optuna()
    ranges = {f"x{i}": optuna.distributions.FloatDistribution(0, 1) for i in range(5)}
    with tempfile.TemporaryDirectory(prefix="tune-speed-") as directory:
        file = f"{directory}/study.db"
        study = optuna.create_study(storage=f"sqlite:///{file}", study_name="s")
        for i in range(size):
            study.add_trial(optuna.trial.create_trial(
                params={f"x{k}": (i * (k + 1)) % 997 / 997 for k in range(5)}, distributions=ranges, value=i % 997 / 997,
                intermediate_values={step: step / 10 for step in range(10)}))
        show("file", os.path.getsize(file) / 1e6)
        child = os.fork()  # reads the file without the trials in memory
        if child == 0:
            before, begun = memory_mib(), time.perf_counter()
            trials = optuna.load_study(storage=f"sqlite:///{file}", study_name="s").trials
            assert len(trials) == size
            show("reopen", 1e3 * (time.perf_counter() - begun))
            show("memory", memory_mib() - before)
            os._exit(0)
        os.waitpid(child, 0)


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
    show("decision", (time.perf_counter() - begun) / 300 * 1e6)


def run_ray(trainable, space, count, reuse, resources=None):
    """The seconds of one experiment, and the memory of the driver after it."""
    import ray
    from ray import tune
    directory = tempfile.mkdtemp(prefix="tune-speed-")
    ray.init(num_cpus=os.cpu_count(), include_dashboard=False, logging_level=logging.ERROR, configure_logging=False)
    try:
        begun = time.perf_counter()
        tuner = tune.Tuner(tune.with_resources(trainable, resources) if resources else trainable, param_space=space,
                           run_config=tune.RunConfig(storage_path=directory, verbose=0),
                           tune_config=tune.TuneConfig(num_samples=count, metric="loss", mode="min", reuse_actors=reuse))
        tuner.fit()
        return time.perf_counter() - begun
    finally:
        show("memory", memory_mib())
        ray.shutdown()
        shutil.rmtree(directory, ignore_errors=True)


def ray_trials(count, kind):
    """Trials per second of a function with ten reports."""
    from ray import tune

    def trial(config):
        for step in range(10):
            tune.report({"loss": config["x"] * step})
    show("rate", count / run_ray(trial, {"x": tune.uniform(0, 1)}, count, kind == "reused"))


def ray_live(count):
    """Seconds of trials that end when all of them have started."""
    from ray import tune
    file = os.path.join(tempfile.mkdtemp(prefix="tune-speed-"), "started")

    def trial(config):
        with open(config["file"], "ab") as marks:
            marks.write(b"x")
        while os.path.getsize(config["file"]) < config["count"]:
            time.sleep(0.2)
        tune.report({"loss": 0})
    os.environ["TUNE_MAX_PENDING_TRIALS_PG"] = str(count)
    show("seconds", run_ray(trial, {"file": file, "count": count}, count, False, {"cpu": 0.001}))


PEERS = {"optuna": optuna_ask_and_tell, "stored": optuna_stored, "asha": ray_decision, "trials": ray_trials, "live": ray_live}


# ---- the table ----------------------------------------------------------------------------------------------------------


class Sizes:
    def __init__(self, small):
        self.recorded = 10_000 if small else 100_000
        self.studies = (1_000, 10_000) if small else (10_000, 100_000)
        self.stored = 2_000 if small else 100_000
        self.trials = 20 if small else 400
        self.ray_trials = 4 if small else 20
        self.live = 40 if small else 1_000
        self.reports = 50 if small else 1_000


def row(name, unit, bar, mobula, ray="–", optuna="–", more_is_better=False):
    """One row; a text in place of a number is its reason, and "–" has no counterpart."""
    peers = [value for value in (ray, optuna) if not isinstance(value, str)]
    ratio = None
    if peers and not isinstance(mobula, str) and mobula > 0 and min(peers) > 0:
        ratio = mobula / max(peers) if more_is_better else min(peers) / mobula
    return {"name": name, "unit": unit, "bar": bar, "mobula": mobula, "ray": ray, "optuna": optuna, "ratio": ratio}


def measure(arguments):
    sizes, limit, programs = Sizes(arguments.small), arguments.limit, arguments.programs
    decision = f"asha_decision_{sizes.recorded}_recorded"
    asks = [f"tpe_ask_tell_{size}_trials" for size in sizes.studies]
    core = ["tune_core_file", "tune_core_resume", "tune_core_resume_peak_memory", "tune_core_memory"]
    runs = ["tune_trials_fresh", "tune_trials_reused", "tune_driver_memory_reused"]
    reports = ["tune_report_relaxed", "tune_report_strict"]
    ours = figures_of(limit, [decision, *asks], f"{programs}/mobula-bench-tune", str(sizes.studies[-1]))
    with tempfile.TemporaryDirectory(prefix="tune-speed-", dir=arguments.directory) as directory:
        ours |= figures_of(limit, core, f"{programs}/mobula-bench-tune-resume", directory, str(sizes.stored))
        ours |= figures_of(limit, ["tune_list"], f"{programs}/mobula-bench-tune-storage", directory, str(sizes.stored))
        ours |= figures_of(limit, runs, f"{programs}/mobula-bench-tune-trials", directory, str(sizes.trials))
        ours |= figures_of(limit, reports, f"{programs}/mobula-bench-tune-reports", directory, str(sizes.reports))
        ours |= figures_of(limit, ["tune_live_trials"], f"{programs}/mobula-bench-tune-trials", directory, "0", str(sizes.live))
    fresh = peers_of(limit, "ray", ["rate", "memory"], "trials", sizes.ray_trials, "fresh")
    reused = peers_of(limit, "ray", ["rate", "memory"], "trials", sizes.ray_trials, "reused")
    live = peers_of(limit, "ray", ["seconds"], "live", sizes.live)
    asha = peers_of(limit, "ray", ["decision"], "asha", sizes.recorded)
    tpe = [peers_of(limit, "optuna", ["ask_tell"], "optuna", size)["ask_tell"] for size in sizes.studies]
    stored = peers_of(limit, "optuna", ["file", "reopen", "memory"], "stored", sizes.stored)
    driver_bar = f"≤ {60 + 300 * sizes.trials / 2 ** 20:.1f}"
    core_bar = f"≤ {60 + 300 * sizes.stored / 2 ** 20:.1f}"
    return [
        row("trivial trials with ten reports, fresh processes", "/s", "≥ 100", ours["tune_trials_fresh"], fresh["rate"],
            more_is_better=True),
        row("trivial trials with ten reports, reused processes", "/s", "–", ours["tune_trials_reused"], reused["rate"],
            more_is_better=True),
        row("report, decision, next step, relaxed", "calls of an actor", "≤ 1.5", ours["tune_report_relaxed"]),
        row("the same, strict, less one commit", "calls of an actor", "≤ 1.5", ours["tune_report_strict"]),
        row(f"{sizes.live:,} trials live at one time, start to end", "s", "finished", ours["tune_live_trials"], live["seconds"]),
        row(f"ASHA decision with {sizes.recorded:,} recorded values", "µs", "≤ 2", ours[decision], asha["decision"]),
        *(row(f"TPE ask and tell at {size:,} trials", "ms", bar, ours[ask], optuna=peer)
          for size, ask, peer, bar in zip(sizes.studies, asks, tpe, ("≤ 10", "≤ 100"))),
        row(f"file of {sizes.stored:,} trials with ten reports", "MB", "≤ 250", ours["tune_core_file"], optuna=stored["file"]),
        row("its reopening and resume", "ms", "≤ 2,000", ours["tune_core_resume"], optuna=stored["reopen"]),
        row("memory of the resume", "MiB", "–", ours["tune_core_resume_peak_memory"], optuna=stored["memory"]),
        row("its entry in a list", "ms", "≤ 100", ours["tune_list"]),
        row(f"core and log in the driver after {sizes.stored:,} trials", "MiB", core_bar, ours["tune_core_memory"]),
        row(f"whole driver after {sizes.trials:,} trials (Ray: {sizes.ray_trials})", "MiB", driver_bar,
            ours["tune_driver_memory_reused"], reused["memory"]),
    ]


def shown(value, unit):
    return value if isinstance(value, str) else f"{value:.3g} {unit}"


def table_of(rows):
    lines = ["| figure | Mobula | Ray Tune | Optuna | times better | bar |", "| --- | --- | --- | --- | --- | --- |"]
    for each in rows:
        ratio = "–" if each["ratio"] is None else f"{each['ratio']:.3g}"
        sides = " | ".join(shown(each[side], each["unit"]) for side in ("mobula", "ray", "optuna"))
        lines.append(f"| {each['name']} | {sides} | {ratio} | {each['bar']} |")
    return "\n".join(lines)


def save(file, rows, conditions):
    found = {}
    if os.path.exists(file):
        with open(file, encoding="utf-8") as text:
            found = json.load(text)
    found["speed"] = rows
    found["speed_conditions"] = conditions
    with open(f"{file}.new", "w", encoding="utf-8") as text:
        json.dump(found, text, indent=1, ensure_ascii=False)
        text.write("\n")
    os.replace(f"{file}.new", file)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("programs", help="directory of the programs of bench/")
    parser.add_argument("--small", action="store_true", help="fewer trials; the figures mean nothing")
    parser.add_argument("--limit", type=float, default=240, help="seconds for each program and each peer")
    parser.add_argument("--directory", default="/tmp", help="for the files of experiments")
    parser.add_argument("--results", help="file of results to update")
    parser.add_argument("-o", choices=("table", "json"), default="table", dest="output")
    parser.add_argument("--peer", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peer:
        kind, *values = arguments.peer
        PEERS[kind](*(int(value) if value.isdigit() else value for value in values))
        return
    load, begun = os.getloadavg()[0], time.monotonic()
    rows = measure(arguments)
    conditions = (f"{time.strftime('%Y-%m-%d')}, {os.cpu_count()} CPUs ({platform.machine()}), load average {load:.1f} before and "
                  f"{os.getloadavg()[0]:.1f} after, at most {arguments.limit:g} s for each figure"
                  f"{', shortened' if arguments.small else ''}")
    if arguments.results:
        save(arguments.results, rows, conditions)
    if arguments.output == "json":
        json.dump({"conditions": conditions, "rows": rows}, sys.stdout, indent=1, ensure_ascii=False)
        print()
    else:
        print(table_of(rows))
    print(f"tune_speed: {conditions}; took {time.monotonic() - begun:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
