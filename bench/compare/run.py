#!/usr/bin/env python3
"""Compares Mobula with other systems on this machine: the same benchmarks, in alternating rounds.

In each round, every system runs in turn, in separate processes and with its own clusters: Mobula, Ray (Python),
Ray (C++), Dask, gRPC. A system that is not installed is skipped and reported. The definitions are those of Ray
(python/ray/_private/ray_perf.py). docs/performance.md lists them.

Writes results.json, and from it performance.md and performance.svg. Ends every process it started.

Usage: bench/compare/run.py build/release/bin/mobula --ray-python VENV/bin/python
"""
import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import time
from pathlib import Path

import peers
import processes
import report

ROOT = Path(__file__).resolve().parent.parent.parent


def machine():
    cpu = "unknown"
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            cpu = line.split(":", 1)[1].strip()
            break
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2 ** 30
    return {"cpu": cpu, "cores": os.cpu_count(), "memory_gib": round(memory, 1),
            "kernel": f"{platform.system()} {platform.release()}"}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("mobula", type=Path, help="the built program")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true",
                        help="shorter runs; the output states that they are short")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME",
                        help="only benchmarks whose key contains one of these texts")
    parser.add_argument("--peers", nargs="+", default=[], metavar="PEER",
                        help="only these peers, out of: " + ", ".join(peer.name for peer in peers.ALL))
    parser.add_argument("--ray-python", default=sys.executable, metavar="PYTHON",
                        help="Python with ray==2.60.0, ray-cpp==2.60.0, and numpy")
    parser.add_argument("--dask-python", default=sys.executable, metavar="PYTHON",
                        help="Python with distributed and numpy")
    parser.add_argument("--out", type=Path, metavar="DIR",
                        help="directory of all output (default: the results next to this program, the "
                             "pages in docs/; with --only or --peers, both in build/compare)")
    given = parser.parse_args()
    given.mobula = given.mobula.absolute()
    given.work = (given.out or ROOT / "build" / "compare").absolute()
    given.work.mkdir(parents=True, exist_ok=True)
    given.results = given.pages = given.work
    if not (given.out or given.only or given.peers):
        given.results, given.pages = Path(__file__).resolve().parent, ROOT / "docs"
    return given


def present(given, results):
    """Builds and returns the peers that can be measured. The results name the others with reasons."""
    out = []
    for kind in peers.ALL:
        if given.peers and kind.name not in given.peers:
            continue
        peer = kind(given)
        why = peer.missing()
        if not why:
            try:
                print(f"building what {peer.name} needs", flush=True)
                peer.build()
                results["versions"].update(peer.versions())
                out.append(peer)
            except (OSError, RuntimeError, subprocess.TimeoutExpired) as failure:
                why = f"it did not build: {failure}"
        if why:
            results["skipped"][peer.name] = why
            print(f"without {peer.name}: {why}", flush=True)
    return out


def take_turn(peer, number, given, results):
    wanted = {key for key in peer.keys
              if not given.only or any(part in key for part in given.only)}
    if not wanted:
        return
    print(f"round {number} of {given.rounds}: {peer.name}", flush=True)
    turn, begin, load = peers.Turn(wanted), time.monotonic(), os.getloadavg()[0]
    all_before, own_before = processes.busy_seconds()
    try:
        peer.turn(turn)
    finally:
        processes.end_descendants()
    all_after, own_after = processes.busy_seconds()
    seconds = time.monotonic() - begin
    others = max(0.0, (all_after - all_before - (own_after - own_before)) / seconds)
    results["turns"].append({
        "round": number, "peer": peer.name, "seconds": round(seconds, 1), "load_before": load,
        "load_after": os.getloadavg()[0], "cores_of_others": round(others, 2),
        "figures": turn.figures, "failed": turn.failed})


def main():
    given = arguments()
    processes.adopt_orphans()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    results = {"date": time.strftime("%Y-%m-%d"), "machine": machine(), "versions": {},
               "quick": given.quick, "skipped": {}, "turns": []}
    path = given.results / "results.json"
    try:
        there = present(given, results)
        if "mobula" in results["skipped"]:
            print(f"run.py: {results['skipped']['mobula']}", file=sys.stderr)
            return 1
        for number in range(1, given.rounds + 1):
            for peer in there:
                take_turn(peer, number, given, results)
                # Written after every turn, so that an interrupted run keeps its results.
                path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    finally:
        processes.end_descendants()
    report.write(results, given.pages)
    print(f"results: {path}; pages: {given.pages}/performance.md, performance.svg")
    return 0


if __name__ == "__main__":
    sys.exit(main())
