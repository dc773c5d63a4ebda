#!/usr/bin/env python3
"""Checks the case of names in the library, the programs, the examples, and the benchmarks.

Types are PascalCase, functions snake_case, and macros begin with MOBULA_. The C interface of
plugins (mobula_…) is exempt. So are iterators, generators, and promise types as in the standard library, and macros of
the system that a source defines if they are missing (#ifndef). Functions of include/mobula/tune that make searchers, schedulers, and
stoppers have the names of Ray's classes.

In the library, the program, tests, and benchmarks, names contain no `ask`, `room`, or `look`, which had several meanings
each. `place` is only a verb of the scheduler or part of `in_place`. Public headers are exempt. In Tune, `ask` is the call of the ask-and-tell interface. In tests no other rule of this check applies.

usage: check_names.py [--root DIR]
"""

import argparse
import re
import sys
from pathlib import Path

from check_sizes import ROOMS, TREES, blanked, scan

TYPE = re.compile(r'[A-Z][A-Za-z0-9]*|mobula_\w+|(?:const_)?iterator|generator|promise_type')
FUNCTION = re.compile(r'[a-z][a-z0-9_]*|operator.*|~.*')
RAY_CLASS = re.compile(r'^MOBULA_API \w+Ptr ([A-Z]\w*)\(', re.M)
MACRO = re.compile(r'^[ \t]*#[ \t]*define[ \t]+(\w+)', re.M)
PLAIN = (*ROOMS, "bench", "tests")  # trees without words that have several meanings
IDENTIFIER = re.compile(r'[A-Za-z_]\w*')
PART = re.compile(r'[A-Z]?[a-z]+|[A-Z]+(?![a-z])')
VAGUE = re.compile(r'ask(?:s|ed|er|ers|ing)?|rooms?|look(?:s|ed|er|ing)?|places?', re.I)
VERBS = re.compile(r'place|place_from|place_group|try_to_place|Places[A-Z]\w*')  # of the scheduler and the tables of the head
PLACERS = ("scheduler/", "head/core/", "tests/scheduler/", "tests/head/core/", "bench/scheduler/packing")
SEARCHERS = ("tune/", "tests/tune/", "bench/tune/")


def is_vague(path, name):
    """Whether a part of the name is a word with several meanings, outside the accepted uses."""
    words = [part.lower() for part in PART.findall(name)]
    vague = {word for word in words if VAGUE.fullmatch(word)}
    if any(pair == ("in", "place") for pair in zip(words, words[1:])):
        vague.discard("place")
    if path.startswith(PLACERS) and VERBS.fullmatch(name):
        vague -= {"place", "places"}
    if path.startswith(SEARCHERS):
        vague -= {"ask", "asked", "asks"}
    return bool(vague)


def vague_names(path, text):
    for name in IDENTIFIER.findall(Path(path).stem):
        if is_vague(path, name):
            yield 1, f"file name {name} has a word with several meanings"
    seen = set()
    for number, line in enumerate(blanked(text).splitlines(), 1):
        if line.lstrip().startswith("#"):
            continue
        for name in IDENTIFIER.findall(line):
            if name not in seen and is_vague(path, name):
                seen.add(name)
                yield number, f"name {name} has a word with several meanings"


def ray_classes(root):
    """Names of Ray's classes that the public headers of Tune declare as functions."""
    headers = sorted((root / "include/mobula/tune").glob("*.h"))
    return {name for header in headers for name in RAY_CLASS.findall(header.read_text())}


def faults(path, text, allowed=frozenset()):
    classes, functions, _ = scan(path, text)
    types = {each.name.rsplit("::", 1)[-1] for each in classes}
    for each in classes:
        name = each.name.rsplit("::", 1)[-1]
        if not each.name.startswith("std::") and not TYPE.fullmatch(name):
            yield each.line, f"type {name} is not PascalCase"
    for each in functions:
        scope, _, name = each.name.rpartition("::")
        constructor = name in types or name == scope.rsplit("::", 1)[-1]
        if not constructor and name not in allowed and not FUNCTION.fullmatch(name):
            yield each.line, f"function {name} is not snake_case"
    for match in MACRO.finditer(text):
        name = match[1]
        if not name.startswith("MOBULA_") and not re.search(rf'^[ \t]*#[ \t]*ifndef[ \t]+{name}\b', text, re.M):
            yield text.count("\n", 0, match.start(1)) + 1, f"macro {name} does not begin with MOBULA_"


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    root = parser.parse_args().root
    count = 0
    allowed = ray_classes(root)
    for tree in (*TREES, "tests"):
        for file in sorted((root / tree).rglob("*")):
            if file.suffix in (".h", ".cc") and file.is_file():
                path = file.relative_to(root).as_posix()
                source = file.read_text()
                found = [*(faults(path, source, allowed) if tree in TREES else ()),
                         *(vague_names(path, source) if tree in PLAIN else ())]
                for line, text in found:
                    print(f"{path}:{line}: {text}; rename it")
                    count += 1
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
