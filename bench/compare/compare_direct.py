#!/usr/bin/env python3
"""Compares Mobula's tensor transfers between actors with Ray's direct transport (gloo), in alternating rounds.

In one measurement, the driver calls `make` of one actor, passes the ref to `look` of another, and gets the reply.
`copied`: the second actor copies the tensor. `same_actor`: the tensor returns to its producer. `by_store`: without
the direct transport. `pipelined`: twenty calls are submitted before the first reply is awaited. Sizes are in bytes.
In each round, each system starts its own cluster on this machine, one after the other.

Prints a table. With --out, also writes the table and all figures as JSON. Ends every process it started.

Usage: bench/compare/compare_direct.py build/release/bin/mobula-bench-direct-rounds --ray-python VENV/bin/python
The Python needs ray==2.60.0 and torch (Debian's python3-torch with a venv of --system-site-packages).
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Targets, as multiples of Ray's rate.
BARS = {"direct_8": 50, "pipelined_8": 50, "direct_4000000": 20, "copied_4000000": 8,
        "copied_67108864": 4, "same_actor_4000000": 25}


def run(command, seconds, limit):
    rates = {}
    done = subprocess.run([*command, str(seconds)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=limit, check=False)
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            item = json.loads(line)
            rates[item["key"]] = item["rate"]
    if done.returncode != 0 or not rates:
        sys.exit(f"{command[0]} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return rates


def table(rounds):
    lines = ["| round trip | Mobula, 1/s | Ray with gloo, 1/s | ratio | range | bar |", "| --- | --- | --- | --- | --- | --- |"]
    for key in rounds[0]["mobula"]:
        pairs = [(each["mobula"][key], each["ray"][key]) for each in rounds if key in each["ray"]]
        if not pairs:
            continue
        ratios = [ours / theirs for ours, theirs in pairs]
        ours, theirs = (statistics.median(side) for side in zip(*pairs))
        ratio = statistics.median(ratios)
        bar = BARS.get(key)
        verdict = "" if bar is None else f"{bar}" + ("" if ratio >= bar else ": **missed**")
        lines.append(f"| {key.replace('_', ' ')} | {ours:,.0f} | {theirs:,.1f} | {ratio:.1f} | "
                     f"{min(ratios):.1f} to {max(ratios):.1f} | {verdict} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("mobula", type=Path, help="the built mobula-bench-direct-rounds")
    parser.add_argument("--ray-python", default=sys.executable, metavar="PYTHON")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0, help="for each benchmark of each round")
    parser.add_argument("--out", type=Path, metavar="FILE", help="JSON with all figures")
    given = parser.parse_args()
    os.environ["MOBULA_ADDRESS"] = "local"
    rounds = []
    for number in range(given.rounds):
        load = os.getloadavg()[0]
        pair = {"load": load,
                "mobula": run([given.mobula.absolute()], given.seconds, 600),
                "ray": run([given.ray_python, HERE / "ray_direct.py"], given.seconds, 900)}
        rounds.append(pair)
        print(f"round {number + 1} of {given.rounds} done, load before it {load:.1f}", file=sys.stderr, flush=True)
        if given.out:
            given.out.write_text(json.dumps({"rounds": rounds, "bars": BARS}, indent=1) + "\n", encoding="utf-8")
    print(table(rounds))


if __name__ == "__main__":
    main()
