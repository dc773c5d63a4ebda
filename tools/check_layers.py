#!/usr/bin/env python3
"""Checks the code against docs/architecture.md.

Reads the page's two tables and reports breaches as `file:line: text`: every include and every LINKS item that the
first table does not allow, every cycle, and every broken link of the page. Also reports constructs in a pure core that
depend on time, threads, chance, or addresses. Calls of nlohmann's `dump` belong in base/text/json_writer.h (tests are
exempt). Files and lines have the limits of docs/style.md. A raw string is data: its lines may be longer. Prints only breaches. An aim below a limit is left to the reader of a change: warnings for
416 files above an aim found no fault.
Usage: check_layers.py [ROOT]. Exits 1 if there is a breach.
"""

import re
import sys
from pathlib import Path

from rooms import ROOMS

PUBLIC = "include/mobula"
PAGE = "docs/architecture.md"
TREES = ROOMS + ("include", "tests", "examples", "bench")
SOURCE_ENDINGS = {".h", ".cc", ".cpp", ".cu"}
HEADER_LINES, SOURCE_LINES = 300, 600
COLUMNS = 100
VAGUE = {"manager", "helper", "helpers", "util", "utils", "common", "misc", "data", "info", "handler", "old", "new", "2"}

# Impurities of a core, as (pattern, message).
IMPURE = [
    (r'#\s*include\s*<(thread|mutex|shared_mutex|condition_variable|future|atomic|semaphore|stop_token)>',
     "a core has no threads"),
    (r'#\s*include\s*<(random|ctime|time\.h|sys/time\.h)>', "a core gets time and randomness as inputs"),
    (r'#\s*include\s*<(iostream|fstream|filesystem|cstdio|stdio\.h|unistd\.h|fcntl\.h|sys/.*|zmq.*|sqlite3\.h|spdlog/.*)>',
     "a core does no I/O"),
    (r'#\s*include\s*<(unordered_map|unordered_set)>|\bstd::unordered_', "the order of an unordered table depends on hashing"),
    (r'::now\s*\(', "a core reads no clock"),
    (r'\bstd::(uniform_|normal_|bernoulli_|shuffle\b)|\bs?rand\s*\(|\bstd::hash\b',
     "standard distributions and hashes differ per library"),
    (r'\bthread_local\b', "a core has no threads"),
    (r'\bgetenv\b', "a core reads no environment"),
    (r'\b(?:map|set|multimap|multiset|Table)\s*<\s*(?:const\s+)?[\w:]+(?:\s*<[^<>]*>)?\s*(?:const\s*)?\*\s*[,>]',
     "a table keyed by pointers iterates in the order of addresses"),
]


JSON_WRITER = "base/text/json_writer.h"
JSON_TREES = ROOMS + ("bench", "examples", "include")  # tests print documents in messages


class Page:
    """The two tables of docs/architecture.md."""

    def __init__(self, path):
        self.allowed = {}  # directory or file -> names it may include; None: every name
        self.links = []    # (line number, target) of every relative link
        section = ""
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if line.startswith("## "):
                section = line[3:].strip()
            for target in re.findall(r'\]\(([^)#\s]+)', line):
                if "://" not in target:
                    self.links.append((number, target))
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            name = re.fullmatch(r'`([^`]+)`', cells[0])
            if section == "Include rules" and len(cells) == 3 and name:
                everything = cells[2] == "everything"
                self.allowed[name[1]] = None if everything else set(re.findall(r'`([^`]+)`', cells[2]))

    def directory_of(self, name):
        """The longest directory of the table that contains `name` ("head/core/slots.h" -> "head/core")."""
        parts = name.split("/")
        for length in range(len(parts) - 1, 0, -1):
            directory = "/".join(parts[:length])
            if directory in self.allowed:
                return directory
        return None

    def may(self, directory, file, target_directory, target_file=None):
        if target_directory == directory or target_directory == "base" or (target_directory == "base/model" and directory != "base"):
            return not (directory == PUBLIC and target_directory != PUBLIC)
        for row in (directory, file):
            if row in self.allowed:
                names = self.allowed[row]
                if names is None or target_directory in names or target_file in names:
                    return True
        return False

    def may_link(self, directory, target_directory):
        """A directory may link each target that it, or one of its files, may include."""
        files = [row for row in self.allowed if row.endswith(".cc") and self.directory_of(row) == directory]
        linked = {self.directory_of(name) for row in files for name in self.allowed[row] if name.endswith(".h")}
        return target_directory in linked or any(self.may(directory, row, target_directory) for row in files or [None])


def without_comments(text):
    """The same lines with comments blanked, and strings kept only in include lines."""
    def blank(match):
        return match[0] if match[0].startswith('"') else re.sub(r'[^\n]', " ", match[0])
    return re.sub(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', blank, text, flags=re.S)


def raw_string_lines(text):
    """The numbers of the lines that contain a part of a raw string."""
    numbers = set()
    for match in re.finditer(r'R"([^(\s]*)\(.*?\)\1"', text, re.S):
        first = text.count("\n", 0, match.start()) + 1
        numbers.update(range(first, first + match[0].count("\n") + 1))
    return numbers


def is_core(directory):
    return directory in ("scheduler", "scheduler/planner", "protocol/session") or bool(directory and directory.endswith("/core"))


class Check:
    def __init__(self, root):
        self.root = root
        self.page = Page(root / PAGE)
        self.breaches = []
        self.named = {}  # base name of a source -> its path
        self.edges = {}  # directory -> {directory it includes: position}

    def breach(self, where, text):
        self.breaches.append(f"{where}: {text}")

    def run(self):
        if not self.page.allowed:
            self.breach(PAGE, "the table under 'Include rules' was not found")
        for tree in TREES:
            for path in sorted((self.root / tree).rglob("*")):
                if path.suffix in SOURCE_ENDINGS and path.is_file():
                    self.source(path)
                elif path.name == "CMakeLists.txt" and tree in ROOMS:
                    self.cmake(path)
        self.circles()
        for number, target in self.page.links:
            if not (self.root / PAGE).parent.joinpath(target).exists():
                self.breach(f"{PAGE}:{number}", f"link to {target}: no such file")

    def source(self, path):
        name = path.relative_to(self.root).as_posix()
        directory = self.page.directory_of(name)
        if directory is None:
            self.breach(name, f"its directory is missing in the table 'Include rules' of {PAGE}; add a row")
            return
        text = path.read_text()
        self.size_and_name(path, name, text)
        code = without_comments(text).splitlines()
        for number, line in enumerate(code, 1):
            include = re.match(r'\s*#\s*include\s*(["<])([^">]+)[">]', line)
            if include:
                self.include(f"{name}:{number}", directory, name, include[1], include[2])
            if re.search(r'(?:\.|->)dump\s*\(', line) and name != JSON_WRITER and name.split("/")[0] in JSON_TREES:
                self.breach(f"{name}:{number}", f"a call of dump, which throws for invalid UTF-8; use json_text of {JSON_WRITER}")
            if is_core(directory):
                for pattern, reason in IMPURE:
                    if re.search(pattern, line):
                        self.breach(f"{name}:{number}", f"{reason}: {line.strip()}")

    def include(self, where, directory, file, quote, target):
        if target.startswith("mobula/"):
            target_directory, target_file = PUBLIC, "include/" + target
        else:
            target_directory, target_file = self.page.directory_of(target), target
        if quote == "<" and target_directory != PUBLIC:
            if directory == "base" and file.endswith(".h") and target.startswith("spdlog/"):
                self.breach(where, f"{target} belongs into .cc files of base only")
            return
        own = directory if directory in ("tests", "examples", "bench") else None
        if target_directory is None and not own:
            self.breach(where, f'"{target}" names no directory of the table; write the path from the root')
        elif target_directory is not None and not self.page.may(directory, file, target_directory, target_file):
            self.breach(where, f"{directory} may not include {target_directory} ({target}); see the table in {PAGE}")
        elif target_directory not in (None, directory):
            self.edges.setdefault(directory, {}).setdefault(target_directory, where)

    def cmake(self, path):
        name = path.relative_to(self.root).as_posix()
        text = re.sub(r'#[^\n]*', "", path.read_text())
        here = path.parent.relative_to(self.root).as_posix()
        for call in re.finditer(r'mobula_(library|program)\s*\(([^)]*)\)', text):
            words = call[2].split()
            where = f"{name}:{text.count(chr(10), 0, call.start()) + 1}"
            if call[1] == "library" and words[0] != here:
                self.breach(where, f"declares the library of {words[0]}")
            links = words[words.index("LINKS") + 1:] if "LINKS" in words else []
            for link in links:
                if link in self.page.allowed and not self.page.may_link(here, link):
                    self.breach(where, f"{here} may not link {link}; see the table in {PAGE}")

    def size_and_name(self, path, name, text):
        lines = text.splitlines()
        limit = HEADER_LINES if path.suffix == ".h" else SOURCE_LINES
        if len(lines) > limit:
            self.breach(name, f"{len(lines)} lines, at most {limit}; move a group of its functions to a separate file")
        data = raw_string_lines(text)
        for number, line in enumerate(lines, 1):
            if len(line) > COLUMNS and number not in data:
                self.breach(f"{name}:{number}", f"{len(line)} columns, at most {COLUMNS}; wrap the line")
        # A public header is included as <mobula/name.h>, so its name may occur within the library once.
        if not name.startswith(("tests/", "bench/", "examples/", "include/")) and path.name != "CMakeLists.txt":
            other = self.named.setdefault(path.name, name)
            if other != name:
                self.breach(name, f"{other} has the same base name; name the type or the task of the file")
        vague = VAGUE & set(path.stem.split("_"))
        if vague:
            self.breach(name, f"'{vague.pop()}' in a file name; name the type or the task of the file")

    def circles(self):
        rules = {directory: set(names or ()) & set(self.page.allowed)
                 for directory, names in self.page.allowed.items() if names is not None}
        for edges, of in ((rules, f"{PAGE}: the table allows a circle"), (self.edges, "a circle of includes")):
            circle = find_circle(edges)
            if circle:
                self.breach(of, " -> ".join(circle))


def find_circle(edges):
    """A cycle as a path, or None. `edges`: name -> names."""
    finished = set()

    def visit(name, path):
        if name in path:
            return path[path.index(name):] + [name]
        if name in finished:
            return None
        for following in sorted(edges.get(name, ())):
            circle = visit(following, path + [name])
            if circle:
                return circle
        finished.add(name)
        return None

    for start in sorted(edges):
        circle = visit(start, [])
        if circle:
            return circle
    return None


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent)
    check = Check(root)
    check.run()
    for line in check.breaches:
        print(line)
    return 1 if check.breaches else 0


if __name__ == "__main__":
    sys.exit(main())
