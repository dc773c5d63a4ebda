#!/usr/bin/env python3
"""Compiles the C++ blocks of all pages against the public headers, as one program with a namespace for each page. Runs the
blocks with the mark `body` on a local cluster. Without LIBRARIES it runs none.

usage: snippets_test.py ROOT LIBRARIES|- COMPILER [FLAG...]
"""
import os
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
    """Code without comments and white space."""
    return re.sub(r"\s+", "", re.sub(r"//.*", "", text))


def check_excerpt(root, block):
    file = root / block.mark.partition(": ")[2]
    if not file.is_file():
        raise PageError(f"{block.place}: no file {file.relative_to(root)}")
    if squeezed("\n".join(block.lines)) not in squeezed(file.read_text(encoding="utf-8")):
        raise PageError(f"{block.place}: not an excerpt of {file.relative_to(root)}")


# Calls a block; an exception that leaves it is a fault.
CALL = """  try {{
    {name}();
  }} catch (const std::exception& error) {{
    std::cout << "{place}: " << error.what() << "\\n";
    ++faults;
  }}"""


def unit_of(root):
    """The text of the program, and the number of blocks in it."""
    includes, body, calls, count = {f"#include <{name}>" for name in HEADERS}, [], [], 0
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
            if block.mark == "body":
                calls.append(CALL.format(name=f"page_{number}::body_{count}", place=block.place))
            around = {"program": (f"namespace program_{count} {{", "}"), "body": (f"void body_{count}() {{", "}")}.get(block.mark, ("", ""))
            body += [around[0], f'#line {block.line + 1} "{page}"', *lines, around[1]]
        body.append("}")
    body += ["int main(int argc, char** argv) {", "  auto cluster = mobula::init(argc, argv, {.num_cpus = 8, .num_gpus = 4});",
             "  int faults = 0;", *calls, "  return faults;", "}"]
    return "\n".join([*sorted(includes), *body]) + "\n", count


def main():
    root, libraries, compiler = Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
    text, count = unit_of(root)
    with tempfile.TemporaryDirectory(prefix="mobula-docs-", dir="/tmp") as work:
        source, program = Path(work) / "pages.cc", Path(work) / "pages"
        source.write_text(text, encoding="utf-8")
        command = [*compiler, "-w", f"-I{root / 'include'}", str(source)]
        if libraries == "-":
            faults = subprocess.run([*command, "-fsyntax-only"], check=False, timeout=300).returncode
        else:
            command += ["-o", str(program), f"-L{libraries}", f"-Wl,-rpath,{libraries}", "-lmobula", "-lpthread"]
            faults = subprocess.run(command, check=False, timeout=300).returncode or run(program, libraries, work)
    print(f"snippets: {count} blocks")
    return 1 if faults or not count else 0


def run(program, libraries, work):
    binaries = Path(libraries).parent / "bin"
    env = {name: value for name, value in os.environ.items() if not name.startswith("MOBULA_")}
    env.update(MOBULA_ADDRESS="local", PATH=f"{binaries}:{env['PATH']}", MOBULA_STATE_DIR=f"{work}/state", XDG_RUNTIME_DIR=work)
    return subprocess.run([str(program)], env=env, check=False, timeout=240).returncode


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PageError as error:
        sys.exit(str(error))
