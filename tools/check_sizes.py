#!/usr/bin/env python3
"""Checks the sizes of classes and functions in the library, the programs, the examples, and the benchmarks.

A class has at most 1,200 lines and 60 private functions over all its files; a function has at most 60 lines and 6
parameters. tools/size_baseline.json holds the classes that exceed a limit, with their sizes, and the number of such
functions per directory. These numbers may only fall.

usage: check_sizes.py [--root DIR] [--update | --list]
  --update  write the present numbers; fails if the sum of a kind rises
  --list    print every class and function over a limit
"""

import argparse
import collections
import json
import os
import re
import sys
from pathlib import Path

from rooms import ROOMS

BASELINE = "tools/size_baseline.json"
TREES = ROOMS + ("include", "examples", "bench")
CLASS_LINES, PRIVATE_FUNCTIONS, FUNCTION_LINES, PARAMETERS = 1200, 60, 60, 6
LIMITS = {"lines": CLASS_LINES, "private_functions": PRIVATE_FUNCTIONS,
          "long_functions": FUNCTION_LINES, "many_parameters": PARAMETERS}
ADVICE = {"lines": "move a group of members with its state to a separate class",
          "private_functions": "move a group of members with its state to a separate class",
          "long_functions": "move a step of it to a function with a name",
          "many_parameters": "pass a struct"}

NAME = r'(?:\w+::)*[\w~]+'
CLASS = re.compile(rf'\b(class|struct|union)\s+(?:\[\[[^\]]*\]\]\s*|MOBULA_\w+\s*)*({NAME})(?:\s+final)?(?:\s*:[^:].*)?\s*$', re.S)
FUNCTION = re.compile(r'((?:\w+::)*(?:operator\s*(?:\(\)|[^\s\w(]+|\w+)|~?\w+))\s*$')
NOT_FUNCTIONS = {"if", "for", "while", "switch", "catch", "return", "sizeof", "decltype", "alignas", "noexcept", "requires",
                 "constexpr", "static_assert", "else", "do", "new", "case", "explicit"}
Function = collections.namedtuple("Function", "path line name lines parameters")


class Class:
    def __init__(self, path, line, name):
        self.path, self.line, self.name = path, line, name
        self.lines = self.private_functions = 0


def blanked(text):
    """The same lines without comments, literals, preprocessor lines, and the macros of annotations."""
    def blank(match):
        return re.sub(r'[^\n]', " ", match[0])
    text = re.sub(r'R"([^(\s]*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/|(?<!\w)\'(?:\\.|[^\'\\\n])+\'', blank, text, flags=re.S)
    text = re.sub(r'^[ \t]*#(?:[^\n]*\\\n)*[^\n]*', blank, text, flags=re.M)
    return re.sub(r'\bMOBULA_[A-Z_]+\s*(?:\((?:[^()]|\([^()]*\))*\))?', blank, text)


def without_templates(text):
    while True:
        shorter = re.sub(r'<[^<>;{}]*>', lambda match: "\n" * match[0].count("\n"), text)
        if shorter == text:
            return text
        text = shorter


def declarator(statement):
    """(name, text of the parameters) of a function declaration, or None."""
    text = without_templates(statement.replace("->", "  ").replace("<=>", "   ").replace("operator()", "operator_call")
                             .replace("operator<<", "operator_left").replace("operator<", "operator_less"))
    text = re.sub(r'\[\[.*?\]\]', "", text)
    opening = text.find("(")
    if opening < 0 or "{" in text[:opening] or re.search(r'(?<![=!<>])=(?!=)', text[:opening].replace("operator=", "")):
        return None
    if re.match(r'\s*(?:friend|using|typedef|static_assert|template\s*using|return|throw|extern\s+"C")\b', text):
        return None
    name = FUNCTION.search(text[:opening])
    if not name or name[1] in NOT_FUNCTIONS:
        return None
    depth = 0
    for at in range(opening, len(text)):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if depth == 0:
            return name[1], text[opening + 1:at]
    return None


def parameters_of(text):
    depth, count = 0, 1 if text.strip() and text.strip() != "void" else 0
    for letter in text:
        depth += {"(": 1, "{": 1, "[": 1, ")": -1, "}": -1, "]": -1}.get(letter, 0)
        count += letter == "," and depth == 0
    return count


def scan(path, text):
    """(classes, functions, lines of members that are defined outside of their class: name -> lines) of one file."""
    code = blanked(text)
    classes, functions, outside = [], [], collections.Counter()
    scopes = []  # [kind, object, access, line] from the outermost
    statement, start = "", None
    line = 1
    parentheses = 0
    position = 0
    for token in re.finditer(r'[{};()\n]|\b(?:public|protected|private)\s*:(?!:)', code):
        piece = code[position:token.start()]
        if piece.strip() and start is None:
            start = line
        statement += piece
        position = token.end()
        mark = token[0]
        if mark == "\n":
            line += 1
            statement += " "
        elif mark in "()":
            parentheses += 1 if mark == "(" else -1
            statement += mark
        elif mark == "{":
            kind, thing = "block", None
            inside = scopes[-1][0] if scopes else "namespace"
            match = CLASS.search(without_templates(statement))
            if parentheses > 0 or inside in ("function", "block"):
                pass
            elif re.search(r'\bnamespace\b|extern\s*$', statement):
                kind = "namespace"
            elif match and "(" not in statement and not re.search(r'\benum\b', statement):
                outer = "::".join(scope[1].name for scope in scopes if scope[0] == "class")
                name = match[2]
                thing = Class(path, start or line, f"{outer}::{name}" if outer else name)
                kind = "class"
                classes.append(thing)
            else:
                declared = declarator(statement)
                if declared and not re.search(r'[,:]\s*[\w:]+\s*$', statement.split(")")[-1]):
                    kind, thing = "function", declared
            scopes.append([kind, thing, "private" if kind == "class" and match[1] == "class" else "public", line, start or line,
                           parentheses])
            if kind == "block" and inside not in ("function", "block"):
                statement += "{"
            else:
                statement, start = "", None
            parentheses = 0
        elif mark == "}":
            if not scopes:
                continue
            kind, thing, _, opened, begin, parentheses = scopes.pop()
            inside = scopes[-1] if scopes else None
            if kind == "class":
                thing.lines += line - thing.line + 1
            elif kind == "function":
                name, parameters = thing
                functions.append(Function(path, begin, name, line - opened + 1, parameters_of(parameters)))
                if inside and inside[0] == "class" and inside[2] == "private":
                    inside[1].private_functions += 1
                if "::" in name:
                    outside[name.rsplit("::", 1)[0]] += line - begin + 1
            if kind == "block" and not (inside and inside[0] in ("function", "block")):
                statement += "}"
            else:
                statement, start = "", None
        elif mark == ";":
            if parentheses == 0:
                if scopes and scopes[-1][0] == "class" and scopes[-1][2] == "private" and declarator(statement):
                    scopes[-1][1].private_functions += 1
                statement, start = "", None
            else:
                statement += ";"
        elif scopes and scopes[-1][0] == "class":
            scopes[-1][2] = mark.rstrip(": \n")
            line += mark.count("\n")
            statement, start = "", None
    return classes, functions, outside


def owner(candidates, path):
    """The class of this name in the file, or else in the nearest directory."""
    return max(candidates, key=lambda each: len(os.path.commonprefix([each.path, path])))


def measure(root):
    """(classes, functions) of the tree."""
    classes, functions, outside = collections.defaultdict(list), [], []
    for tree in TREES:
        for file in sorted((root / tree).rglob("*")):
            if file.suffix in (".h", ".cc") and file.is_file():
                path = file.relative_to(root).as_posix()
                found, defined, members = scan(path, file.read_text())
                for each in found:
                    classes[each.name].append(each)
                functions.extend(defined)
                outside.extend((path, name, lines) for name, lines in members.items())
    for path, name, lines in outside:
        if name in classes:
            owner(classes[name], path).lines += lines
    return [each for same in classes.values() for each in same], functions


def numbers_of(classes, functions):
    big = {f"{each.path} {each.name}": {"lines": each.lines, "private_functions": each.private_functions} for each in classes
           if each.lines > CLASS_LINES or each.private_functions > PRIVATE_FUNCTIONS}
    directories = collections.defaultdict(collections.Counter)
    for each in functions:
        directory = str(Path(each.path).parent)
        directories[directory]["long_functions"] += each.lines > FUNCTION_LINES
        directories[directory]["many_parameters"] += each.parameters > PARAMETERS
    return {"classes": dict(sorted(big.items())),
            "directories": {name: {kind: count for kind, count in sorted(counts.items()) if count}
                            for name, counts in sorted(directories.items()) if any(counts.values())}}


def sums(numbers):
    total = collections.Counter()
    for rows in numbers.values():
        for counts in rows.values():
            total.update(counts)
    total["classes"] = len(numbers.get("classes", {}))
    return total


def breaches(classes, functions, baseline):
    places = {f"{each.path} {each.name}": each for each in classes}
    present = numbers_of(classes, functions)
    for name, counts in present["classes"].items():
        allowed = baseline.get("classes", {}).get(name, {})
        for kind, count in counts.items():
            limit = max(LIMITS[kind], allowed.get(kind, 0))
            if count > limit:
                each = places[name]
                yield f"{each.path}:{each.line}: class {each.name} has {count} {kind.replace('_', ' ')}, at most {limit}; {ADVICE[kind]}"
    for directory, counts in present["directories"].items():
        allowed = baseline.get("directories", {}).get(directory, {})
        for kind, count in counts.items():
            if count > allowed.get(kind, 0):
                yield from findings(functions, kind, directory)
                yield f"{directory}: {kind.replace('_', ' ')} rise from {allowed.get(kind, 0)} to {count}; {ADVICE[kind]}"


def findings(functions, kind, directory=None):
    for each in functions:
        count = each.lines if kind == "long_functions" else each.parameters
        if count > LIMITS[kind] and directory in (None, str(Path(each.path).parent)):
            unit = "lines" if kind == "long_functions" else "parameters"
            yield f"{each.path}:{each.line}: {each.name} has {count} {unit}, at most {LIMITS[kind]}"


def update(root, numbers, baseline):
    before, after = sums(baseline), sums(numbers)
    higher = [kind for kind in after if baseline and after[kind] > before[kind]]
    for kind in higher:
        print(f"check_sizes: {kind} rises from {before[kind]} to {after[kind]}; a sum may only fall")
    if not higher:
        (root / BASELINE).write_text(json.dumps(numbers, indent=1) + "\n")
    return 1 if higher else 0


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--list", action="store_true")
    arguments = parser.parse_args()
    root = arguments.root
    classes, functions = measure(root)
    file = root / BASELINE
    baseline = json.loads(file.read_text()) if file.exists() else {}
    if arguments.update:
        return update(root, numbers_of(classes, functions), baseline)
    found = list(breaches(classes, functions, {} if arguments.list else baseline))
    for line in found:
        print(line)
    return 1 if found and not arguments.list else 0


if __name__ == "__main__":
    sys.exit(main())
