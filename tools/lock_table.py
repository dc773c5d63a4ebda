#!/usr/bin/env python3
"""Generates the table of locks in docs/concurrency.md from the declarations of Mutex members and MOBULA_GUARDED_BY.

usage: lock_table.py [--root DIR] [--write]
  Without --write, fails if the page differs from the code, or if a source outside base/ uses std::mutex.
"""

import argparse
import re
import sys
from pathlib import Path

from rooms import ROOMS

PAGE = "docs/concurrency.md"
BEGIN, END = "<!-- locks: begin (tools/lock_table.py) -->", "<!-- locks: end -->"
SCOPE = re.compile(r'\b(?:class|struct)\s+(?:MOBULA_\w+\([^)]*\)\s+)?((?:\w+::)*\w+)[^;{}()]*$')
LOCK = re.compile(r'\bMutex\s+(\w+);')
GUARDED = re.compile(r'(\w+)\s+MOBULA_GUARDED_BY\(((?:\w+(?:->|\.))*\w+)\)')
STANDARD = re.compile(r'\bstd::(?:recursive_|shared_)?(?:mutex|timed_mutex)\b|\bstd::condition_variable')


def without_comments(text):
    return re.sub(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', lambda match: re.sub(r'[^\n]', ' ', match[0]), text, flags=re.S)


def locks_of(text):
    """(type, lock, guarded members) of each Mutex in a source, in order."""
    scopes, locks, statement = [], {}, ""
    for part in re.split(r'([{};])', without_comments(text)):
        if part == "{":
            scope = SCOPE.search(statement)
            scopes.append(scope[1] if scope else "")
        elif part == "}":
            if scopes:
                scopes.pop()
        elif part != ";":
            name = "::".join(scope for scope in scopes if scope)
            lock = LOCK.search(part + ";")
            guarded = GUARDED.search(part)
            if lock:
                locks.setdefault((name, lock[1]), [])
            if guarded:
                locks.setdefault((name, guarded[2]), []).append(guarded[1])
        statement = part if part not in ("{", "}", ";") else ""
    return [(name, lock, members) for (name, lock), members in locks.items()]


def sources(root):
    return (path for room in sorted(ROOMS) for path in sorted((root / room).rglob("*")))


def table(root):
    rows = []
    for path in sources(root):
        if path.suffix not in (".h", ".cc") or path.name == "mutex.h":
            continue
        for name, lock, members in locks_of(path.read_text()):
            link = f"[`{name or path.stem}`](../{path.relative_to(root).as_posix()})"
            rows.append(f"- {link} `{lock}`: {', '.join(f'`{member}`' for member in members) or 'not annotated'}")
    return "\n".join(rows)


def forbidden(root):
    for path in sources(root):
        if path.suffix in (".h", ".cc") and path.relative_to(root).parts[0] != "base":
            for number, line in enumerate(without_comments(path.read_text()).splitlines(), 1):
                if STANDARD.search(line):
                    yield f"{path.relative_to(root)}:{number}: use the types of base/mutex.h: {line.strip()}"


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    page = arguments.root / PAGE
    text = page.read_text()
    if BEGIN not in text or END not in text:
        print(f"lock_table: {PAGE} has no '{BEGIN}' and '{END}'")
        return 1
    before, rest = text.split(BEGIN, 1)
    new = before + BEGIN + "\n" + table(arguments.root) + "\n" + END + rest.split(END, 1)[1]
    faults = list(forbidden(arguments.root))
    print("\n".join(faults), end="\n" if faults else "")
    if arguments.write:
        page.write_text(new)
    elif new != text:
        print(f"lock_table: the table in {PAGE} differs from the code; run tools/lock_table.py --write")
        return 1
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
