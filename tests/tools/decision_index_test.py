"""Feeds small directories of decisions to tools/decision_index.py, each with one fault, and expects exactly that fault."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools" / "decision_index.py"
PAGE = """# 0001 Count the user's holds

Status: accepted
Date: 2026-01-02

## Context

One.

## Decision

Two.

## Consequences

Three.

## Revisit when

Four.
"""
NAME = "0001-count-the-users-holds.md"


class DecisionIndex(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.root = Path(self.directory.name)
        self.write(NAME, PAGE)
        self.assertEqual(self.run_tool().returncode, 0)

    def tearDown(self):
        self.directory.cleanup()

    def write(self, name, text):
        file = self.root / "docs" / "decisions" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def run_tool(self, *arguments):
        return subprocess.run([sys.executable, TOOL, "--root", self.root, *arguments], capture_output=True, text=True)

    def expect(self, *faults):
        self.run_tool()  # an index of the present pages
        result = self.run_tool("--check")
        lines = result.stdout.splitlines()
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assertEqual(len(lines), len(faults), result.stdout)
        for line, fault in zip(lines, faults):
            self.assertIn(fault, line)

    def test_accepts_a_page(self):
        result = self.run_tool("--check")
        self.assertEqual((result.returncode, result.stdout), (0, ""))
        index = (self.root / "docs" / "decisions" / "README.md").read_text()
        self.assertIn(f"- [0001 Count the user's holds]({NAME})\n", index)

    def test_rejects_an_outdated_index(self):
        self.write(NAME, PAGE.replace("accepted", "superseded by 0001"))
        result = self.run_tool("--check")
        self.assertEqual(result.returncode, 1)
        self.assertIn("README.md: out of date", result.stdout)

    def test_rejects_another_file_name(self):
        self.write(NAME, PAGE.replace("holds", "refs"))
        self.expect("expected 0001-count-the-users-refs.md")

    def test_rejects_another_first_line(self):
        self.write(NAME, PAGE.replace("# 0001", "# 1."))
        self.expect("first line is not")

    def test_rejects_a_missing_status(self):
        self.write(NAME, PAGE.replace("Status: accepted\n", ""))
        self.expect("no line 'Status:")

    def test_rejects_an_unknown_status(self):
        self.write(NAME, PAGE.replace("accepted", "proposed"))
        self.expect("no line 'Status:")

    def test_rejects_a_missing_date(self):
        self.write(NAME, PAGE.replace("Date: 2026-01-02", "Date: today"))
        self.expect("no line 'Date:")

    def test_rejects_a_missing_section(self):
        self.write(NAME, PAGE.replace("## Consequences\n", ""))
        self.expect("sections are Context, Decision, Revisit when")

    def test_rejects_a_long_page(self):
        self.write(NAME, PAGE + "line\n" * 400)
        self.expect("lines, limit 400")

    def test_rejects_two_pages_of_one_number(self):
        self.write("0001-count-refs.md", PAGE.replace("the user's holds", "refs"))
        self.expect("0001: two decisions")

    def test_lists_superseded_numbers(self):
        self.write(NAME, PAGE.replace("-01-02", "-01-02\nSupersedes: 0002, 0003"))
        self.run_tool()
        index = (self.root / "docs" / "decisions" / "README.md").read_text()
        self.assertIn(f"- [0001 Count the user's holds]({NAME}), supersedes 0002, 0003\n", index)

    def test_rejects_a_page_of_a_superseded_number(self):
        self.write(NAME, PAGE.replace("-01-02", "-01-02\nSupersedes: 0002"))
        self.write("0002-count-refs.md", "# 0002 Count refs\n\nStatus: superseded by 0001\nDate: 2026-01-01\n\nShort.\n")
        self.expect("0002: two decisions")

    def test_superseded_page_needs_no_sections(self):
        self.write("0002-count-refs.md", "# 0002 Count refs\n\nStatus: superseded by 0001\nDate: 2026-01-01\n\nShort.\n")
        self.run_tool()
        self.assertEqual(self.run_tool("--check").returncode, 0)

    def test_rejects_an_unknown_successor(self):
        self.write("0002-count-refs.md", "# 0002 Count refs\n\nStatus: superseded by 0009\nDate: 2026-01-01\n")
        self.expect("superseded by 0009, which has no page")


if __name__ == "__main__":
    unittest.main()
