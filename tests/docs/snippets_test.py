#!/usr/bin/env python3
"""Compiles the C++ blocks of all pages against the public headers, in one translation unit with a namespace for each page.

usage: snippets_test.py ROOT COMPILER [FLAG...]
"""
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from blocks import PageError, blocks_of, pages

# Pages whose blocks show declarations with omissions: the contract, and examples of layout.
NOT_COMPILED = {"docs/api.md", "docs/style.md"}
HEADERS = ["chrono", "iostream", "map", "memory", "numeric", "optional", "span", "stdexcept", "string", "thread", "tuple", "vector", "mobula/mobula.h"]


def squeezed(text):
    return re.sub(r"\s+", "", text)


def check_excerpt(root, block):
    file = root / block.mark.partition(": ")[2]
    if not file.is_file():
        raise PageError(f"{block.place}: no file {file.relative_to(root)}")
    if squeezed("\n".join(block.lines)) not in squeezed(file.read_text(encoding="utf-8")):
        raise PageError(f"{block.place}: not an excerpt of {file.relative_to(root)}")


def unit_of(root):
    includes, body, count = {f"#include <{name}>" for name in HEADERS}, [], 0
    for number, page in enumerate(pages(root)):
        blocks = [block for block in blocks_of(root, page) if block.language == "cpp"]
        if page in NOT_COMPILED or not blocks:
            continue
        body.append(f"namespace page_{number} {{")
        for block in blocks:
            count += 1
            if block.mark.startswith("excerpt"):
                check_excerpt(root, block)
                continue
            includes |= {line for line in block.lines if line.startswith("#include")}
            lines = ["" if line.startswith("#include") else line for line in block.lines]
            around = {"program": (f"namespace program_{count} {{", "}"), "body": (f"void body_{count}() {{", "}")}.get(block.mark, ("", ""))
            body += [around[0], f'#line {block.line + 1} "{page}"', *lines, around[1]]
        body.append("}")
    return "\n".join([*sorted(includes), *body]) + "\n", count


def main():
    root, compiler = Path(sys.argv[1]), sys.argv[2:]
    text, count = unit_of(root)
    with tempfile.TemporaryDirectory() as work:
        source = Path(work) / "pages.cc"
        source.write_text(text, encoding="utf-8")
        ended = subprocess.run([*compiler, "-fsyntax-only", "-w", f"-I{root / 'include'}", str(source)], check=False, timeout=300)
    print(f"snippets: {count} blocks")
    return 1 if ended.returncode or not count else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PageError as error:
        sys.exit(str(error))
