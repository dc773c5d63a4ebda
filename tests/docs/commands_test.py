#!/usr/bin/env python3
"""Runs the commands that pages show, and checks every command line of `mobula` against its help.

Blocks of `sh` and `console` run in the order of their page, in a private directory with its own state directory and home. The
programs that pages call are examples (PROGRAMS). The output in a `console` block must equal the real one, except for numbers, ids,
and paths. A block with `no-run: REASON` and all other command lines are only parsed.

usage: commands_test.py ROOT BIN [--page PAGE] [--update]
  --update  write the real output into the pages where it differs
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from blocks import PageError, blocks_of, pages, simple_commands, text_outside_blocks
from cli_grammar import Grammar

TIMEOUT = 90  # seconds of one command; the machine may be busy
PROGRAMS = {"app": "example_hello", "build/app": "example_hello", "direct_basic": "example_direct_basic", "console": "example_console"}
REAL_GPUS = Path("/proc/driver/nvidia").exists()  # pages show the output of a machine without
HOME_OF_PAGES = "/home/ada"
JOIN = re.compile(r"mobula start --address (\S+) --key (\S+)")


class Session:
    """The private directory in which the blocks of one page run."""

    def __init__(self, binaries):
        self.directory = Path(tempfile.mkdtemp(prefix="mobula-docs-", dir="/tmp"))
        for name, program in PROGRAMS.items():
            (self.directory / name).parent.mkdir(exist_ok=True)
            (self.directory / name).symlink_to(binaries / program)
        self.env = {name: value for name, value in os.environ.items() if not name.startswith("MOBULA_")}
        self.env.update(HOME=str(self.directory / "home"), MOBULA_STATE_DIR=str(self.directory / "state"), NO_COLOR="1",
                        XDG_RUNTIME_DIR=str(self.directory / "run"), PATH=f"{binaries}:{os.environ['PATH']}")
        for name in ("home", "run"):
            (self.directory / name).mkdir(mode=0o700)
        self.shown_values = {}  # values in the output that a page shows, and those of this run

    def run(self, command):
        text = command.text
        for shown, real in self.shown_values.items():
            text = text.replace(shown, real)
        ended = subprocess.run(["bash", "-c", text], cwd=self.directory, env=self.env, timeout=TIMEOUT, text=True, check=False,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        shown, real = JOIN.search("\n".join(command.output)), JOIN.search(ended.stdout)
        if shown and real:
            self.shown_values.update(zip(shown.groups(), real.groups()))
        return ended

    def as_page(self, text):
        """Output of this run with the values that the page shows."""
        for shown, real in self.shown_values.items():
            text = text.replace(real, shown)
        text = text.replace(str(self.directory / "state"), f"{HOME_OF_PAGES}/.local/state/mobula")
        return text.replace(str(self.directory), HOME_OF_PAGES).replace(PROGRAMS["app"], "app")

    def close(self):
        for state in {path.parent.parent for path in self.directory.glob("*/*/*.key")} | {self.directory / "state"}:
            if state.is_dir():
                subprocess.run(["mobula", "stop", "--grace", "1", "--state-dir", str(state)], env=self.env, timeout=TIMEOUT,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        shutil.rmtree(self.directory, ignore_errors=True)


def shape(lines):
    """Lines of output without parts that differ between runs: numbers with units, ids, paths, column widths, slow waits."""
    text = "\n".join(line.strip() for line in lines if line.strip() and " has blocked for " not in line)
    for program, name in ((program, Path(name).name) for name, program in reversed(PROGRAMS.items())):
        text = text.replace(program, name)
    text = re.sub(r"(?<![\w.])/[\w./-]+", "PATH", text)
    text = re.sub(r"\b[0-9a-f]{8,}\b|\b\d[\d.:]*(?: ?[KMGT]?i?B\b)?", "N", text)
    return re.sub(r"[ \t]+", " ", text)


def run_page(root, binaries, page, update):
    commands = [(block, command) for block in blocks_of(root, page) if block.runs for command in block.commands()]
    if not commands:
        return 0, []
    session, faults, changes = Session(binaries), [], []
    try:
        for block, command in commands:
            ended = session.run(command)
            if ended.returncode != command.code:
                faults.append(f"{page}:{command.line}: exit code {ended.returncode}, expected {command.code}: {command.text}\n{ended.stdout}")
            elif block.language == "console" and not REAL_GPUS and shape(command.output) != shape(ended.stdout.splitlines()):
                changes.append((command, session.as_page(ended.stdout)))
    except subprocess.TimeoutExpired as error:
        faults.append(f"{page}: no end after {TIMEOUT} s: {error.cmd[-1]}")
    finally:
        session.close()
    if update:
        write_outputs(root / page, changes)
    else:
        faults += [f"{page}:{command.line}: the output differs from (--update writes it):\n{text}" for command, text in changes]
    return len(commands), faults


def write_outputs(page, changes):
    lines = page.read_text(encoding="utf-8").splitlines()
    for command, text in reversed(changes):
        last = command.line + len(command.output)
        blank = [""] if command.output and not command.output[-1] else []
        lines[command.line:last] = text.rstrip("\n").splitlines() + blank
    page.write_text("\n".join(lines) + "\n", encoding="utf-8")


def unknown_words(root, grammar, page):
    """Faults of all command lines of a page, in its blocks and in inline code that begins with `mobula`."""
    lines = [(command.line, command.text) for block in blocks_of(root, page) for command in block.commands()]
    for number, line in enumerate(text_outside_blocks(root, page), 1):
        lines += [(number, code) for code in re.findall(r"(?<!`)`(mobula [a-z][^`]*)`(?!`)", line)]
    faults = []
    for number, text in lines:
        try:
            simple = simple_commands(re.sub(r"\\\|.*|[\[\]…]|\.\.\.", " ", text))
        except ValueError as error:
            faults.append(f"{page}:{number}: {error}: {text}")
            continue
        for words in simple:
            fault = grammar.fault(words) if words[0] == "mobula" else None
            if fault:
                faults.append(f"{page}:{number}: {fault}: {text}")
    return len(lines), faults


def main():
    root, binaries, *more = sys.argv[1:]
    root = Path(root)
    binaries = Path(binaries).resolve()
    chosen = [more[more.index("--page") + 1]] if "--page" in more else pages(root)
    grammar, parsed, ran, faults = Grammar(str(binaries / "mobula")), 0, 0, []
    for page in chosen:
        count, found = unknown_words(root, grammar, page)
        parsed, faults = parsed + count, faults + found
    for page in chosen:
        count, found = run_page(root, binaries, page, "--update" in more)
        ran, faults = ran + count, faults + found
    print("\n".join(faults))
    print(f"commands: {parsed} parsed, {ran} run, {len(faults)} faults")
    return 1 if faults or (not ran and len(chosen) > 1) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PageError as error:
        sys.exit(str(error))
