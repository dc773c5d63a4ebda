"""Runs ./dev lint in small repositories, each with one fault. Exits 77 if clang-format 14 is not installed."""

import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LOCKS = "<!-- locks: begin (tools/lock_table.py) -->\n\n<!-- locks: end -->\n"


class Lint(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.root = Path(self.directory.name)
        shutil.copy(ROOT / "dev", self.root)
        shutil.copy(ROOT / ".clang-format", self.root)
        shutil.copytree(ROOT / "tools", self.root / "tools", ignore=shutil.ignore_patterns("__pycache__"))
        (self.root / "tools/packages.txt").write_text("")
        (self.root / "docs").mkdir()
        (self.root / "docs/concurrency.md").write_text(LOCKS)
        self.git("init", "-q", "-b", "main")
        self.commit("base: begin", "base/a.cc", "int x = 1;\n")

    def tearDown(self):
        self.directory.cleanup()

    def git(self, *arguments):
        subprocess.run(["git", "-C", self.root, "-c", "user.name=a", "-c", "user.email=a@b", *arguments], check=True,
                       capture_output=True)

    def commit(self, subject, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        self.git("add", "-A")
        self.git("commit", "-q", "--no-verify", "-m", subject)

    def lint(self, *checks):
        result = subprocess.run([self.root / "dev", "lint", *checks], capture_output=True, text=True, timeout=50)
        return result.returncode, result.stdout + result.stderr

    def expect(self, check, *texts):
        status, output = self.lint(check)
        self.assertEqual(status, 1, output)
        for text in texts:
            self.assertIn(text, output)
        self.assertIn(f"lint: 1 of 1 checks failed: {check}\n", output)

    def test_sound_tree(self):
        status, output = self.lint("format", "sizes", "names", "locks", "subjects")
        self.assertEqual(status, 0, output)
        self.assertIn("lint: 5 checks passed", output)

    def test_format(self):
        self.commit("base: add y", "base/a.cc", "int x = 1;\nint  y  =  2;\n")
        self.expect("format", "base/a.cc:2:4: error: code should be clang-formatted", "lint: format: failed; run ./dev format")

    def test_layers(self):
        self.expect("layers", "docs/architecture.md")

    def test_locks(self):
        self.commit("head: add a lock", "head/a.cc", "std::mutex lock;\n")
        self.expect("locks", "head/a.cc:1: use the types of base/mutex.h")

    def test_subject_of_the_present_commit(self):
        self.commit("Adds y.", "base/a.cc", "int y = 1;\n")
        self.expect("subjects", "reject 'Adds y.': expected 'area: imperative'; see docs/style.md", "git commit --amend")

    def test_subjects_since_a_tag(self):
        self.git("tag", "v1")
        self.commit("Adds y.", "base/a.cc", "int y = 1;\n")
        self.commit("base: add z", "base/a.cc", "int z = 1;\n")
        self.expect("subjects", "reject 'Adds y.'")
        self.git("tag", "v2")
        self.commit("base: add w", "base/a.cc", "int w = 1;\n")
        self.assertEqual(self.lint("subjects")[0], 0)

    def test_subjects_since_the_origin(self):
        self.git("branch", "origin/main")
        self.git("update-ref", "refs/remotes/origin/main", "HEAD")
        self.git("branch", "-D", "origin/main")
        self.commit("Adds y.", "base/a.cc", "int y = 1;\n")
        self.commit("base: add z", "base/a.cc", "int z = 1;\n")
        self.expect("subjects", "reject 'Adds y.'")

    def test_workflow_calls_commands_that_exist(self):
        usage = subprocess.run([self.root / "dev", "help"], capture_output=True, text=True).stdout
        for file in (".github/workflows/ci.yml", ".ci/run"):
            calls = re.findall(r'/dev"? (\w+(?: --\w+)*)$', (ROOT / file).read_text(), re.M)
            self.assertEqual(calls, ["test --all"], file)
            self.assertIn(f"./dev {calls[0]} ", usage)

    def test_unknown_check(self):
        status, output = self.lint("fromat")
        self.assertEqual(status, 2, output)
        self.assertIn("unknown check in 'fromat'; the checks are format layers", output)


if __name__ == "__main__":
    version = subprocess.run(["clang-format", "--version"], capture_output=True, text=True) if shutil.which("clang-format") else None
    if not version or "version 14" not in version.stdout:
        sys.exit(77)
    unittest.main()
