#!/usr/bin/env python3
"""Generates the reference of the public API from include/mobula/*.h with Doxygen, and checks that it is complete.

usage: api_reference.py            check: fail if a public name has no comment, or if Doxygen warns
       api_reference.py --html DIR check, and write HTML pages to DIR

Exit codes: 0 complete, 1 findings, 77 Doxygen is not installed.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SKIPPED = 77
# In include/mobula/detail, with classes of namespace mobula: Writer and Reader.
ALSO_PUBLIC = ["wire.h"]
LABEL = re.compile(r"(Thread|Owner|Units|Errors|Not): ")
TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|(?<![\w\'])\'(?:\\.|[^\'\\\n])+\'|//[^\n]*|/\*.*?\*/|[{};]', re.S)
SCOPE = re.compile(r"\b(?:namespace|class|struct|enum|union)\b|\bextern \"C\"|\bconcept\b")


HASH = re.compile(r"(?:^//[^\n]*\n)*^template <[^\n]*>\nstruct std::hash<.*?^};\n", re.S | re.M)


def is_scope(head):
    """True if the text before a brace opens a namespace, a class, or an enumeration, and not a function."""
    head = re.sub(r"^\s*#[^\n]*$|//[^\n]*|/\*.*?\*/", "", head, flags=re.S | re.M)
    head = re.sub(r"template\s*<[^{}]*?>\s*(?=class|struct|union|requires)", "", head)
    head = re.sub(r"(\b(?:class|struct)\s+\w+)<[^{}]*?>(?=\s*$)", r"\1", head)  # a specialization
    found = SCOPE.search(head)
    return bool(found) and "(" not in re.sub(r"__attribute__\(\(.*?\)\)|requires.*?(?=struct|class|$)", "",
                                             head[found.start():], flags=re.S)


def documented(text):
    """A comment of the header in Doxygen's form. Section rulers stay plain comments."""
    lines = [line.strip()[2:].removeprefix(" ") for line in text.splitlines()]
    if lines[0].startswith("----"):
        return text
    out, code = [], False
    for line in lines:
        if line.startswith("  ") and not code:
            out.append("@code")
            code = True
        elif code and line and not line.startswith("  "):
            out.append("@endcode")
            code = False
        if LABEL.match(line):
            out.append("")
            line = LABEL.sub(r"**\1:** ", line)
        out.append(line)
    if code:
        out.append("@endcode")
    return "\n".join(("/// " + line).rstrip() for line in out)


def doxygen_form(source):
    """Turns // and /* */ comments outside functions into documentation of the names that they describe."""
    source = HASH.sub("", source)  # Doxygen cannot read them
    match = re.match(r"(?://[^\n]*\n)+", source)
    parts = []
    if match:
        parts.append("/// @file\n" + documented(match[0].rstrip("\n")) + "\n")
        source = source[match.end():]
    # Consecutive comment lines are one comment.
    tokens = re.compile(r"(?:(?<=\n)[ ]*//[^\n]*\n)+|" + TOKEN.pattern, re.S)
    stack, head, position = [], 0, 0
    for token in tokens.finditer(source):
        text, outside = token[0], all(stack)
        replaced = text
        begin = source.rfind("\n", 0, token.start()) + 1
        alone = not source[begin:token.start()].strip()
        if text == "{":
            stack.append(is_scope(source[head:token.start()]))
            head = token.end()
        elif text == "}":
            if stack:
                stack.pop()
            head = token.end()
        elif text == ";":
            head = token.end()
        elif "NOLINT" in text or source[begin:token.start()].lstrip().startswith("}"):
            pass
        elif text.lstrip().startswith("//") and outside:
            if text.endswith("\n"):
                replaced = documented(text.rstrip("\n")) + "\n"
            elif not alone:
                replaced = "///< " + text[2:].strip()
        elif text.startswith("/*") and outside:
            replaced = ("/**" if alone else "/**<") + text[2:]
        parts += [source[position:token.start()], replaced]
        position = token.end()
    parts.append(source[position:])
    return "".join(parts)


def bare_enumerators(name, source):
    """Enumerators of a public header without a comment, which Doxygen 1.9 does not report."""
    findings = []
    for enum in re.finditer(r"\benum\b[^;{]*\{(.*?)\}", source, re.S):
        first = source.count("\n", 0, enum.start(1)) + 1
        lines = enum[1].split("\n")
        for index, line in enumerate(lines):
            code = line.split("//")[0].strip()
            above = index > 0 and lines[index - 1].strip().startswith("//")
            if code and "//" not in line and not above:
                findings.append(f"include/mobula/{name}:{first + index}: enumerator without a comment: {code}")
    return findings


def make(html):
    if shutil.which("doxygen") is None:
        print("api_reference: skipped: doxygen is not installed (tools/packages.txt)")
        return SKIPPED
    with tempfile.TemporaryDirectory() as scratch:
        headers = Path(scratch) / "include" / "mobula"
        headers.mkdir(parents=True)
        public = ROOT / "include" / "mobula"
        for header in (*sorted(public.glob("*.h")), *(public / "detail" / name for name in ALSO_PUBLIC)):
            (headers / header.name).write_text(doxygen_form(header.read_text(encoding="utf-8")), encoding="utf-8")
        output = Path(html or Path(scratch) / "html").resolve()
        output.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(["doxygen", str(ROOT / "docs" / "Doxyfile")], cwd=scratch, capture_output=True, text=True,
                              env=dict(os.environ, MOBULA_API_OUTPUT=str(output)), check=False)
    findings = [line for line in done.stderr.splitlines() if line.strip()]
    for header in sorted(public.glob("*.h")):
        findings += bare_enumerators(header.name, header.read_text(encoding="utf-8"))
    for line in findings:
        print(line.replace(f"{scratch}/", ""))
    if findings or done.returncode:
        print(f"api_reference: {len(findings)} lines from doxygen; give each public name a comment")
        return 1
    print(f"api_reference: {output / 'index.html'}" if html else "api_reference: every public name has a comment")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--html", metavar="DIR")
    return make(parser.parse_args().html)


if __name__ == "__main__":
    sys.exit(main())
