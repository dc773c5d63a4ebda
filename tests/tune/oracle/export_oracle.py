"""Compares exports of a sample experiment with the packages that read them: Optuna and TensorBoard.

Usage: export_oracle.py BUILD_DIRECTORY
"""

import json
import math
import os
import shutil
import subprocess
import sys
import tempfile

import optuna
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

BUILD = os.path.abspath(sys.argv[1])


def export(storage, kind, target):
    subprocess.run([os.path.join(BUILD, "bin", "mobula"), "tune", "export", "sample", "--storage", storage, "--format",
                    kind, "--output", target], check=True, stdout=subprocess.DEVNULL)


def same(left, right, single=False):
    if isinstance(left, str):
        left = float(left)
    if math.isnan(left) or math.isnan(right):
        return math.isnan(left) and math.isnan(right)
    return left == right or (single and abs(left - right) <= 1e-6 * abs(left))


def compare_study(trials, file):
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.load_study(study_name="sample", storage="sqlite:///" + file)
    compared = 0
    assert study.direction == optuna.study.StudyDirection.MINIMIZE
    assert len(study.trials) == len(trials)
    for ours, theirs in zip(trials, study.trials):
        assert theirs.number == ours["trial"]
        assert theirs.params == ours["config"], (theirs.params, ours["config"])
        assert {name: type(value) for name, value in theirs.params.items()} == {
            name: type(value) for name, value in ours["config"].items()}
        assert round(theirs.datetime_start.timestamp() * 1000) == ours["created_ms"]
        assert round(theirs.datetime_complete.timestamp() * 1000) == ours["ended_ms"]
        if ours["state"] == "failed":
            assert theirs.state == optuna.trial.TrialState.FAIL
            assert theirs.user_attrs["error"] == ours["error"]
        else:
            assert theirs.state == optuna.trial.TrialState.COMPLETE
            assert same(ours["last"], theirs.value)
        steps = {each["iteration"] - 1: each["metrics"]["loss"] for each in ours["reports"]}
        assert steps.keys() == theirs.intermediate_values.keys()
        for step, value in steps.items():
            assert same(value, theirs.intermediate_values[step])
        for name, distribution in theirs.distributions.items():
            assert distribution._contains(distribution.to_internal_repr(theirs.params[name]))
        compared += len(steps) + len(theirs.params)
    best = min((each for each in trials if each["state"] != "failed"), key=lambda each: each["last"])
    assert study.best_trial.number == best["trial"]
    # A sampler of Optuna continues the study.
    study.sampler = optuna.samplers.TPESampler(seed=1)
    asked = study.ask(study.best_trial.distributions)
    study.tell(asked, 1.0)
    return compared


def compare_events(trials, root):
    compared = 0
    for trial in trials:
        directory = os.path.join(root, "trial-%06d" % trial["trial"])
        events = EventAccumulator(directory, size_guidance={"scalars": 0})
        events.Reload()
        assert set(events.Tags()["scalars"]) == {"accuracy", "loss"}
        for tag in ("accuracy", "loss"):
            seen = [(each.step, each.value, each.wall_time) for each in events.Scalars(tag)]
            assert len(seen) == len(trial["reports"])
            for (step, value, wall_time), report in zip(seen, trial["reports"]):
                assert step == report["iteration"]
                assert same(report["metrics"][tag], value, single=True)
                assert abs(wall_time - report["time_ms"] / 1000) < 1e-3
                compared += 1
    return compared


def main():
    directory = tempfile.mkdtemp(prefix="mobula-export-")
    try:
        subprocess.run([os.path.join(BUILD, "tests/tune/report/tune_report_test"), "--gtest_filter=OptunaExport.WritesTrialsThatImportReads"],
                       check=True, stdout=subprocess.DEVNULL, env={**os.environ, "MOBULA_WRITE_SAMPLE": directory})
        storage = directory
        for kind, target in (("jsonl", "sample.jsonl"), ("optuna", "study.db"), ("tensorboard", "events")):
            export(storage, kind, os.path.join(directory, target))
        with open(os.path.join(directory, "sample.jsonl"), encoding="utf-8") as file:
            trials = [json.loads(line) for line in file]
        print("optuna %s: %d values equal" % (optuna.__version__, compare_study(trials, os.path.join(directory, "study.db"))))
        print("tensorboard: %d scalars equal" % compare_events(trials, os.path.join(directory, "events")))
    finally:
        shutil.rmtree(directory, ignore_errors=True)


main()
