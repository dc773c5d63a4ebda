"""Feeds small trees to tools/check_prose.py and tools/hooks/commit-msg, each with one fault, and expects exactly that fault."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools" / "check_prose.py"
HOOK = ROOT / "tools" / "hooks" / "commit-msg"
CONTRACT = "// Counts blocks.\n// Thread: any.\n#pragma once\n"


def run_tool(root, *arguments):
    return subprocess.run([sys.executable, TOOL, "--root", root, *arguments], capture_output=True, text=True)


class CheckProse(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.root = Path(self.directory.name)
        subprocess.run(["git", "init", "-q", self.root], check=True)
        self.write("tools/prose_patterns.txt", (ROOT / "tools" / "prose_patterns.txt").read_text())
        self.write("tools/README", "")
        self.write("a/block.h", CONTRACT)
        self.assertEqual(run_tool(self.root, "--update").returncode, 0)

    def tearDown(self):
        self.directory.cleanup()

    def write(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def expect(self, path, text, name):
        self.write(path, text)
        result = run_tool(self.root)
        self.assertEqual(result.returncode, 1, result.stdout)
        found = {line.split(": ")[1] for line in result.stdout.splitlines() if line.startswith(path + ":")}
        self.assertEqual(found, {name}, result.stdout)

    def expect_clean(self, path, text):
        self.write(path, text)
        result = run_tool(self.root)
        self.assertEqual(result.returncode, 0, result.stdout)

    def test_comment(self):
        self.expect("a/block.cc", "// What is stored here is unclear.\n", "headless-subject")

    def test_joins_lines_of_a_comment(self):
        self.expect("a/block.cc", "// The value is\n// said.\nint x;\n", "said")

    def test_string_literal(self):
        self.expect("a/block.cc", 'auto x = f("the list is none of ours");\n', "is-none")

    def test_start_of_an_error(self):
        self.expect("a/block.cc", 'return failure(ErrorCode::corrupt, "it broke");\n', "error-start")

    def test_names(self):
        self.expect("a/block.cc", "int agent_told = 0;\n", "name-word")
        self.expect("a/desk.cc", "", "name-word")

    def test_test_names(self):
        self.expect("tests/a/block_test.cc", "TEST(Block, WhatIsStored) {}\n", "test-lead")
        self.expect("tests/a/block_test.cc", f"TEST(Block, Frees{'x' * 45}) {{}}\n", "test-length")

    def test_sentence_length(self):
        self.expect("docs/page.md", "one " * 31 + "\n", "long-sentence")

    def test_header_contract(self):
        self.expect("a/other.h", "// Counts blocks.\n#pragma once\n", "header-contract")
        self.expect("a/other.h", "// Thread: any.\n" + "// More.\n" * 8 + "#pragma once\n", "header-contract")

    def test_markdown_and_scripts(self):
        self.expect("docs/page.md", "| a | lies in a file |\n", "lies")
        self.expect("dev", "#!/bin/sh\n# nobody reads this\n", "nobody")

    def test_python_sources(self):
        self.expect("a/tool.py", 'print("nobody reads this text")\n', "nobody")
        self.expect("a/tool.py", '"""What is stored here is unclear."""\n', "headless-subject")
        self.expect("a/tool.py", "class Tool:\n    def test_a_tool(self):\n        pass\n", "test-lead")
        self.expect("a/tool.py", "folder = 1\n", "name-word")
        self.expect_clean("a/tool.py", 'PATTERN = r"nobody reads this text"\n')

    def test_texts_of_shell_and_cmake(self):
        self.expect("a/tool.sh", 'echo "nobody reads $this text"\n', "nobody")
        self.write("a/tool.sh", "")
        self.expect("a/CMakeLists.txt", 'message(STATUS "nobody reads ${this} text")\n', "nobody")

    def test_exemptions(self):
        self.expect_clean("docs/page.md", "`what is told`\n\n```\nwhat is told\n```\n<!-- prose: off -->\nis told\n")
        self.expect_clean("a/block.cc", '#include "what is told here.h"\n// The name `is told` is code.\nauto x = "is told";\n')

    def test_count_falls_in_one_directory_only(self):
        self.write("a/block.cc", "// The value is said.\n")
        self.assertEqual(run_tool(self.root, "--update").returncode, 0)
        self.write("a/block.cc", "")
        self.expect("b/block.cc", "// The value is said.\n", "said")

    def test_update_refuses_a_higher_total(self):
        self.write("a/block.cc", "// The value is said.\n")
        run_tool(self.root, "--update")
        self.write("a/block.cc", "// The value is said. The name is told.\n")
        result = run_tool(self.root, "--update")
        self.assertEqual(result.returncode, 1)
        self.assertIn("said rises from 1 to 2", result.stdout)


class CommitMessage(unittest.TestCase):
    def status(self, subject):
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(subject + "\n\nThe reason.\n")
            file.flush()
            return subprocess.run([HOOK, file.name], capture_output=True).returncode

    def test_accepts(self):
        for subject in ("store: evict replicas first", "head/core: count leases", "Merge branch 'x'"):
            self.assertEqual(self.status(subject), 0, subject)

    def test_rejects(self):
        for subject in ("store: evict; free", "store: evict.", "evict replicas", "store: " + "x" * 66, "Store: evict"):
            self.assertEqual(self.status(subject), 1, subject)


if __name__ == "__main__":
    unittest.main()
