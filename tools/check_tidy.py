#!/usr/bin/env python3
"""Runs clang-tidy (.clang-tidy) over the sources of a build directory, in as few compilations as cover them.

The compile commands of build/dev must use clang++, and its precompiled headers must be built (./dev build). A unity
source stands for the sources that it includes. A header is checked with the sources that include it. A changed header
without a source of its name is compiled alone.

--all combines sources, because clang-tidy visits all headers once per compilation, at 5 s of processor time: up to
MOST_SOURCES of a library, or up to MOST_PROGRAMS programs of one source, each in its own namespace. If a combination does
not compile, for example because file-local names collide, its parts are checked alone. --all leaves out tests/, half of
the compilations. Tests are checked when they change, without the checks of performance.

usage: check_tidy.py [--build DIR] [--jobs N] [--all | --changed | FILE...]
  --changed  sources that differ from the merge base with origin/main, or from HEAD~1 without that branch (default)
"""

import argparse
import concurrent.futures
import json
import os
import re
import resource
import shlex
import subprocess
import sys
from pathlib import Path

FINDING = re.compile(r'^(?P<path>/[^:\n]+):(?P<line>\d+):\d+: (?:error|warning): (?P<text>.*) \[(?P<check>[^\]]+)\]$', re.M)
SOURCES = {".cc", ".cpp"}
MOST_SOURCES = 32  # sources of a library, as in CMakePresets.json
MOST_PROGRAMS = 20


def git(root, *arguments):
    done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True)
    return done.stdout.splitlines() if done.returncode == 0 else None


def changed(root):
    """Names of the changed, new, and untracked C++ files; None if there is no commit to compare with."""
    base = git(root, "merge-base", "HEAD", "origin/main")
    head = git(root, "rev-parse", "HEAD")
    if not base or base == head:
        base = git(root, "rev-parse", "--verify", "--quiet", "HEAD~1")
    if not base:
        return None
    names = git(root, "diff", "--name-only", "--diff-filter=d", base[0]) + git(root, "ls-files", "--others", "--exclude-standard")
    return sorted(name for name in set(names) if Path(name).suffix in SOURCES | {".h"})


class Unit:
    """One compilation: a unity source, a source alone, or a header alone."""

    def __init__(self, root, build, entry):
        self.file = Path(entry["directory"], entry["file"])
        self.directory = entry["directory"]
        self.command = entry["command"]
        self.compiler = shlex.split(self.command)[0]
        self.database = None  # the directory of its compile command, if not the build directory
        self.parts = []  # the units that this unit combines
        self.sources = {self.file}
        if "/Unity/" in entry["file"]:
            text = self.file.read_text() if self.file.is_file() else ""
            self.sources = {Path(name) for name in re.findall(r'^#include "([^"]+)"', text, re.M)}
        self.names = {os.path.relpath(source, root) for source in self.sources}
        self.alone = "/alone/" in entry["file"]
        self.is_test = not self.alone and all(name.startswith("tests/") or Path(root, name).is_relative_to(build) for name in self.names)

    def alone_name(self):
        """The header that this unit compiles alone, as its path in the tree."""
        name = str(self.file).split("/alone/", 1)[1].removesuffix(".cc")
        return "include/" + name if name.startswith("mobula/") else name


def units_of(root, build):
    """(units that cover all sources, units of headers alone by name)"""
    units, alone, covered = [], {}, set()
    for entry in json.loads((build / "compile_commands.json").read_text()):
        if Path(entry["file"]).suffix not in SOURCES | {".cxx"} or "cmake_pch" in entry["file"]:
            continue
        unit = Unit(root, build, entry)
        if unit.alone:
            alone[unit.alone_name()] = unit
        else:
            units.append(unit)
    chosen = []
    for unit in sorted(units, key=lambda unit: -len(unit.names)):
        if not unit.names <= covered:
            covered |= unit.names
            chosen.append(unit)
    return chosen, alone


def number(unit):
    return int(re.search(r'unity_(\d+)_', unit.file.name)[1])


def library_text(units):
    return "".join(f'#include "{unit.file}"\n' for unit in units)


# A definition of a name that a header declares globally. It must remain in the global namespace.
FOREIGN = re.compile(r'^(?:MOBULA_\w+\(|\w[\w<>:&*, ]* [\w~]+::[\w~]+\()', re.M)


def is_program(unit):
    if len(unit.sources) != 1:
        return False
    [source] = unit.sources
    text = source.read_text() if source.is_file() else ""
    return bool(re.search(r'^int main\(', text, re.M)) and not FOREIGN.search(text)


def program_text(units):
    """Each program in a namespace, after the headers of all programs."""
    headers, bodies, outer = [], [], set()
    for index, unit in enumerate(units):
        [source] = unit.sources
        text = source.read_text()
        for name in re.findall(r'^#include +(["<][^">]+[">])', text, re.M):
            near = source.parent / name[1:-1]
            headers.append(f'#include "{near}"\n' if name[0] == '"' and near.is_file() else f"#include {name}\n")
        # A part of mobula::x in the program's namespace sees the names of ::mobula::x.
        opened = set()
        for name in re.findall(r'^namespace ([\w:]+) {', text, re.M):
            words = name.split("::")
            opened |= {"::".join(words[:count]) for count in range(1, len(words) + 1)}
        outer |= opened
        links = "".join(f"namespace {name} {{\nusing namespace ::{name};\n}}\n" for name in sorted(opened))
        bodies.append(f'namespace program_{index} {{\n{links}#include "{source}"\n}}\n')
    return "".join([*dict.fromkeys(headers), *(f"namespace {name} {{}}\n" for name in sorted(outer)), *bodies])


def combined(root, build, units):
    """Units that stand for several units with the same options, as few as possible, and all other units unchanged."""
    kinds = {}
    for unit in units:
        options = re.sub(r' -o \S+', "", unit.command).replace(str(unit.file), "")
        if re.search(r'/CMakeFiles/mobula_\w+\.dir/Unity/unity_\d+_', str(unit.file)):
            kinds.setdefault((library_text, MOST_SOURCES, unit.file.parent, options), []).append(unit)
        elif is_program(unit):
            kinds.setdefault((program_text, MOST_PROGRAMS, "programs", options), []).append(unit)
        else:
            kinds[unit.file] = [unit]
    database = build / "tidy"
    made, entries = [], []
    for kind, parts in kinds.items():
        groups = [[]]
        for unit in sorted(parts, key=lambda unit: number(unit) if "/Unity/" in str(unit.file) else 0):
            if groups[-1] and sum(len(part.sources) for part in groups[-1] + [unit]) > kind[1]:
                groups.append([])
            groups[-1].append(unit)
        for group in groups:
            if len(group) == 1:
                made += group
                continue
            first = group[0]
            file = database / f"{len(made)}.cc"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(kind[0](group))
            # In a namespace, main needs a return.
            command = first.command.replace(str(first.file), f"{file} -Wno-return-type")
            entries.append({"directory": first.directory, "file": str(file), "command": command})
            unit = Unit(root, build, entries[-1])
            unit.sources = set().union(*(part.sources for part in group))
            unit.names = set().union(*(part.names for part in group))
            unit.is_test, unit.database, unit.parts = False, database, group
            made.append(unit)
    if entries:
        (database / "compile_commands.json").write_text(json.dumps(entries))
    return sorted(made, key=lambda unit: -len(unit.sources))


def select(names, units, alone):
    """The units that cover the named files, and the names that no unit covers."""
    chosen, uncovered = [], []
    for name in names:
        source = str(Path(name).with_suffix(".cc"))
        found = [unit for unit in units if source in unit.names][:1]
        if not found and name in alone:
            found = [alone[name]]
        chosen.extend(unit for unit in found if unit not in chosen)
        if not found:
            uncovered.append(name)
    return chosen, uncovered


def run(root, build, unit):
    command = ["clang-tidy", "-p", str(unit.database or build), "--quiet", f"--config-file={root / '.clang-tidy'}", str(unit.file)]
    if unit.is_test:
        command.insert(1, "--checks=-performance-*")
    done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    if unit.parts and "[clang-diagnostic-error" in done.stdout:
        return [result for part in unit.parts for result in run(root, build, part)]
    return [(unit, done.returncode, done.stdout, done.stderr)]


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--build", type=Path)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--changed", action="store_true")
    parser.add_argument("files", nargs="*")
    arguments = parser.parse_args()
    root = arguments.root.resolve()
    build = (arguments.build or root / "build" / "dev").resolve()
    if not (build / "compile_commands.json").is_file():
        raise SystemExit(f"check_tidy: {build} has no compile_commands.json; run ./dev build")
    units, alone = units_of(root, build)
    foreign = sorted({unit.compiler for unit in units if "clang" not in Path(unit.compiler).name})
    if foreign:
        raise SystemExit(f"check_tidy: {build} compiles with {foreign[0]}, clang-tidy needs the options of clang++; "
                         "install clang, remove the directory, and run ./dev build")
    if arguments.all:
        units = combined(root, build, [unit for unit in units if not unit.is_test])
    else:
        names = arguments.files or changed(root)
        if names is None:
            names = []
            print("check_tidy: no earlier commit to compare with, nothing is checked; use --all")
        units, uncovered = select(names, units, alone)
        for name in uncovered:
            print(f"check_tidy: no target of {build.name} compiles {name}, not checked")
    findings, failures, compilations = {}, [], 0
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        results = (result for results in pool.map(lambda unit: run(root, build, unit), units) for result in results)
        for unit, status, output, errors in results:
            compilations += 1
            found = [match for match in FINDING.finditer(output)]
            for match in found:
                path = os.path.relpath(match["path"], root)
                if Path(match["path"]).is_relative_to(build):
                    continue  # a generated source, for example one that includes a header twice
                findings[path, int(match["line"]), match["check"].split(",")[0]] = match["text"]
            if status != 0 and not found:
                failures.append(f"check_tidy: {os.path.relpath(unit.file, root)}: clang-tidy ended with status {status}: "
                                f"{(output + errors).strip()[-2000:]}")
    for (path, line, check), text in sorted(findings.items()):
        print(f"{path}:{line}: {check}: {text}")
    for failure in failures:
        print(failure)
    if findings:
        print("check_tidy: fix the code, or, if it is right, add '// NOLINT(check): reason' to the line")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"check_tidy: {compilations} compilations, {used.ru_utime + used.ru_stime:.0f} s of processor time, "
          f"{len(findings)} findings, {len(failures)} failures")
    return 1 if findings or failures else 0


if __name__ == "__main__":
    sys.exit(main())
