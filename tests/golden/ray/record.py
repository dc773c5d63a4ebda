#!/usr/bin/env python3
"""Draws request sequences, runs them on Ray, and records the instances of each request and the requests that wait.

    python3 -m venv rayenv && rayenv/bin/pip install ray
    rayenv/bin/python tests/golden/ray/record.py --out tests/golden/ray/sequences.json

A sequence runs on one node of a few fixed shapes. Its steps are drawn while it runs: only a running request can end.

- `["task", {resources}]`: a task that runs until its end is requested
- `["task", {resources}, group, bundle]`: the same in a placement group; bundle -1: any
- `["group", strategy, [{resources}, ...]]`: a placement group
- `["end", number]`: request `number` ends (a task) or is removed (a group)

The result of a step lists the requests that it started: [number, {resource: [instances]}] for a task, [number, {}]
for a group, and [number, "refused"] for a request that Ray rejects at submission. All other requests wait.
Ray does not guarantee an order between waiting requests, so no request ends while more than one waits.

A request counts as waiting if Ray's allocated resources are unchanged `--patience` seconds after the request. If it
starts later without the end of another request, the verdict was wrong. The sequence is then drawn again with twice the
patience.
"""

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
import time

import ray
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

SHAPES = [{"CPU": 8, "GPU": 2}, {"CPU": 8, "GPU": 4}, {"CPU": 6, "GPU": 1, "shuttle": 2},
          {"CPU": 4, "GPU": 3, "neuron_cores": 4}, {"CPU": 2, "shuttle": 3}]
UNITS = ("GPU", "neuron_cores")
FRACTIONS = [0.1, 0.2, 0.25, 0.3, 0.3, 0.4, 0.5, 0.5, 0.6, 0.7, 0.75, 0.9, 0.57, 0.43, 0.0001]
SETTLE = 20


class Mistaken(Exception):
    """A request counted as waiting has started without the end of another request."""


@ray.remote(max_calls=0, max_retries=0)
def hold(directory, number):
    context = ray.get_runtime_context()
    ids = {name: sorted(int(each) for each in given) for name, given in context.get_accelerator_ids().items() if given}
    path = os.path.join(directory, f"runs-{number}")
    with open(path + ".part", "w") as out:
        json.dump(ids, out)
    os.rename(path + ".part", path)
    while not os.path.exists(os.path.join(directory, f"end-{number}")):
        time.sleep(0.01)


def minus(left, taken):
    for name, amount in taken.items():
        left[name] = left.get(name, 0) - amount


def until(holds, seconds):
    limit = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > limit:
            return False
        time.sleep(0.02)
    return True


class Sequence:
    """One sequence on the running Ray cluster."""

    def __init__(self, shape, draw, patience):
        self.shape, self.draw, self.patience = shape, draw, patience
        self.directory = tempfile.mkdtemp(prefix="ray-sequence-")
        self.steps, self.answers = [], []
        self.asked = []   # per request: its resources, or the group's bundles
        self.groups = {}  # number -> group
        self.refs = {}    # number -> ref of a task
        self.members = {} # number -> group it is in
        self.running, self.waiting, self.over = set(), set(), set()

    def booked_outside(self):
        left = dict(self.shape)
        for number in self.running:
            if number in self.groups:
                for bundle in self.asked[number]:
                    minus(left, bundle)
            elif number not in self.members:
                minus(left, self.asked[number])
        return left

    def as_booked(self):
        seen, expected = ray.available_resources(), self.booked_outside()
        return all(abs(seen.get(name, 0) - expected[name]) < 0.002 for name in expected)

    def started(self):
        """The waiting requests that have started, with their instances."""
        news = []
        for number in sorted(self.waiting):
            if number in self.groups:
                if self.groups[number].wait(timeout_seconds=0.01):
                    news.append([number, {}])
            elif os.path.exists(os.path.join(self.directory, f"runs-{number}")):
                with open(os.path.join(self.directory, f"runs-{number}")) as text:
                    news.append([number, json.load(text)])
        for number, _ in news:
            self.waiting.discard(number)
            self.running.add(number)
        return news

    def settle(self, patience, asked=None):
        """Collects starts until `asked` has started, or until nothing starts for `patience` seconds and Ray has
        allocated exactly the running requests."""
        news, limit = [], time.monotonic() + SETTLE
        quiet_since = time.monotonic()
        while time.monotonic() - quiet_since < patience and self.waiting and asked not in self.running:
            more = self.started()
            if more:
                news += more
                quiet_since = time.monotonic()
            if not self.as_booked():  # a start or a release is imminent
                quiet_since = time.monotonic()
                if quiet_since > limit:
                    raise Mistaken("Ray's accounting differs from the running requests")
            time.sleep(0.03)
        if not until(self.as_booked, SETTLE):
            raise Mistaken("Ray's accounting differs from the running requests")
        return sorted(news)

    def ask(self, step):
        if self.started():
            raise Mistaken("a request started late")
        number = len(self.asked)
        self.steps.append(step)
        if step[0] == "group":
            self.asked.append(step[2])
            self.groups[number] = placement_group(step[2], strategy=step[1])
        else:
            self.asked.append(step[1])
            rest = dict(step[1])
            options = {"num_cpus": rest.pop("CPU", 0), "num_gpus": rest.pop("GPU", 0), "resources": rest}
            if len(step) > 2:
                self.members[number] = step[2]
                options["scheduling_strategy"] = PlacementGroupSchedulingStrategy(
                    self.groups[step[2]], placement_group_bundle_index=step[3])
            try:
                self.refs[number] = hold.options(**options).remote(self.directory, number)
            except ValueError:
                self.over.add(number)
                self.answers.append([[number, "refused"]])
                return
        self.waiting.add(number)
        # Ray's allocations inside a group are not visible from outside, so the wait is longer.
        news = self.settle(self.patience * (2.5 if number in self.members else 1), number)
        if any(each != number for each, _ in news):
            raise Mistaken("a request started late")
        self.answers.append(news)

    def end(self, number):
        if self.started():
            raise Mistaken("a request started late")
        self.steps.append(["end", number])
        self.let_go(number)
        waits_for_group = any(each in self.groups for each in self.waiting)
        # Ray retries a waiting group within about a second.
        self.answers.append(self.settle(self.patience + (2.5 if waits_for_group else 0)))

    def let_go(self, number):
        if number in self.groups:
            remove_placement_group(self.groups[number])
        else:
            open(os.path.join(self.directory, f"end-{number}"), "w").close()
            ray.wait([self.refs[number]], timeout=SETTLE)
        self.running.discard(number)
        self.over.add(number)

    def clear(self):
        for number in sorted(self.waiting - set(self.groups)):
            ray.cancel(self.refs[number], force=True)
        for number in sorted(set(self.refs)):
            open(os.path.join(self.directory, f"end-{number}"), "w").close()
        ray.wait(list(self.refs.values()), num_returns=len(self.refs), timeout=SETTLE) if self.refs else None
        for number, group in self.groups.items():
            if number not in self.over:
                remove_placement_group(group)
        self.running.clear()
        self.waiting.clear()
        ok = until(self.as_booked, SETTLE)
        shutil.rmtree(self.directory)
        return ok

    # ---- drawing -------------------------------------------------------------------------------

    def amount(self, name, total):
        draw = self.draw
        if name == "GPU":
            if draw.random() < 0.02:
                return 1.5
            return draw.choice(FRACTIONS) if draw.random() < 0.7 else draw.randint(1, min(total + 1, 3))
        if name == "neuron_cores":
            return draw.randint(1, 3)
        if name == "CPU":
            return draw.choice([0, 0.5, 1, 1, 1, 2])
        return draw.choice([0.5, 1, 1.5])

    def resources(self, shape, least=0):
        drawn = {}
        for name, total in shape.items():
            if name == "CPU" or self.draw.random() < 0.65:
                amount = self.amount(name, total)
                if amount > 0:
                    drawn[name] = amount
        if not drawn and least:
            drawn["CPU"] = 1
        return drawn

    def bundle(self):
        drawn = self.resources(self.shape, least=1)
        if drawn.get("GPU") == 1.5:
            drawn["GPU"] = 1
        return drawn

    def member_of(self, group):
        bundles = self.asked[group]
        index = self.draw.randrange(-1, len(bundles))
        model = dict(bundles[index])
        for name in list(model):
            if name in UNITS and model[name] >= 1:
                model[name] = self.draw.choice([model[name], 1] + ([0.5, 0.3] if name == "GPU" else []))
            elif self.draw.random() < 0.5:
                model[name] = round(model[name] / 2, 4) if model[name] > 0.01 else model[name]
        return ["task", model, group, index]

    def step(self):
        draw = self.draw
        groups = [each for each in self.groups if each in self.running]
        endable = [each for each in self.running
                   if each not in self.groups or not any(self.members.get(other) == each
                                                         for other in self.running | self.waiting)]
        chance = draw.random()
        if endable and len(self.waiting) <= 1 and chance < 0.25:
            return self.end(draw.choice(sorted(endable)))
        if chance < 0.37 and len(self.groups) < 3:
            strategy = draw.choice(["PACK", "PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"])
            return self.ask(["group", strategy, [self.bundle() for _ in range(draw.randint(1, 3))]])
        if groups and chance < 0.65:
            return self.ask(self.member_of(draw.choice(groups)))
        return self.ask(["task", self.resources(self.shape)])


def start(shape):
    rest = {name: amount for name, amount in shape.items() if name not in ("CPU", "GPU")}
    ray.init(num_cpus=shape["CPU"], num_gpus=shape.get("GPU", 0), resources=rest, include_dashboard=False,
             logging_level="error", log_to_driver=False, _system_config={"num_workers_soft_limit": 12})


def record(shape, seed, patience):
    while True:
        sequence = Sequence(shape, random.Random(seed), patience)
        try:
            for _ in range(sequence.draw.randint(6, 11)):
                sequence.step()
            done = True
        except Mistaken as why:
            print(f"seed {seed}: {why}; again with {patience * 2} s", file=sys.stderr, flush=True)
            done = False
        if not sequence.clear():
            print(f"seed {seed}: Ray did not give everything back; a fresh one", file=sys.stderr, flush=True)
            ray.shutdown()
            start(shape)
        if done:
            return {"seed": seed, "node": shape, "steps": sequence.steps, "answers": sequence.answers}
        patience *= 2


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--out", required=True)
    arguments.add_argument("--sequences", type=int, default=200)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--patience", type=float, default=1.2)
    given = arguments.parse_args()
    sequences = []
    for which, shape in enumerate(SHAPES):
        start(shape)
        for number in range(which, given.sequences, len(SHAPES)):
            sequences.append(record(shape, given.seed + number, given.patience))
            print(f"{len(sequences)}/{given.sequences}", file=sys.stderr, flush=True)
        ray.shutdown()
    with open(given.out, "w") as out:
        out.write(json.dumps({"ray": ray.__version__, "sequences": len(sequences)})[:-1] + ', "items": [\n')
        out.write(",\n".join(json.dumps(each, separators=(",", ":")) for each in sequences))
        out.write("\n]}\n")


if __name__ == "__main__":
    main()
