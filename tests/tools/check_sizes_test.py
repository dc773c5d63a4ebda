"""Feeds small trees to tools/check_sizes.py, each with one class or function over a limit, and expects that finding."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOL = Path(__file__).resolve().parents[2] / "tools" / "check_sizes.py"


def run_tool(root, *arguments):
    return subprocess.run([sys.executable, TOOL, "--root", root, *arguments], capture_output=True, text=True, timeout=30)


def function(name, lines, parameters=""):
    return f"void {name}({parameters}) {{\n" + "  call();\n" * (lines - 2) + "}\n"


def private_functions(count):
    return "".join(f"  int step_{number}(int x = f(1)) const MOBULA_REQUIRES(lock_);\n" for number in range(count))


class CheckSizes(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.root = Path(self.directory.name)
        (self.root / "tools").mkdir()

    def tearDown(self):
        self.directory.cleanup()

    def write(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("namespace mobula {\n" + text + "}\n")

    def expect(self, *findings):
        result = run_tool(self.root)
        self.assertEqual(result.returncode, 1, result.stdout)
        for finding in findings:
            self.assertIn(finding, result.stdout)

    def expect_clean(self):
        result = run_tool(self.root)
        self.assertEqual((result.returncode, result.stdout), (0, ""))

    def test_lines_of_a_function(self):
        self.write("base/a.cc", function("decide", 60))
        self.expect_clean()
        self.write("base/a.cc", function("decide", 61))
        self.expect("base/a.cc:2: decide has 61 lines, at most 60", "base: long functions rise from 0 to 1; move a step")

    def test_parameters_of_a_function(self):
        self.write("base/a.cc", function("decide", 3, "std::map<int, int> a, int b, int c, int d, int e, int f"))
        self.expect_clean()
        self.write("base/a.cc", function("decide", 3, "int a, int b, int c, int d, int e, int f, int g"))
        self.expect("base/a.cc:2: decide has 7 parameters, at most 6", "pass a struct")

    def test_private_functions(self):
        members = "  std::function<void(int)> on_end_;\n  int count_{f(1)};\n"
        self.write("base/a.h", "class A : public B {\n public:\n  int get();\n\n private:\n" + members + private_functions(60) + "};\n")
        self.expect_clean()
        self.write("base/a.h", "class A : public B {\n public:\n  int get();\n\n private:\n" + members + private_functions(61) + "};\n")
        self.expect("base/a.h:2: class A has 61 private functions, at most 60; move a group of members")

    def test_public_members_of_a_struct_do_not_count(self):
        self.write("base/a.h", "struct A {\n" + private_functions(61) + "};\n")
        self.expect_clean()

    def test_lines_of_a_class_over_its_files(self):
        self.write("client/a.h", "class A {\n public:\n" + "  int f();\n" * 50 + "};\n")
        parts = ["".join(function(f"A::f{number}", 50) for number in range(11)) for _ in range(2)]
        self.write("client/a.cc", parts[0])
        self.write("client/core/a_more.cc", parts[1])
        self.write("head/a.h", "class A {\n};\n")
        self.write("head/a.cc", function("A::g", 30))
        self.expect_clean()
        self.write("client/core/a_more.cc", parts[1] + function("A::last", 60))
        self.expect("client/a.h:2: class A has 1213 lines, at most 1200")

    def test_baseline_may_only_fall(self):
        self.write("base/a.cc", function("decide", 61))
        self.assertEqual(run_tool(self.root, "--update").returncode, 0)
        self.expect_clean()
        self.write("base/a.cc", function("decide", 61) + function("order", 61))
        self.expect("base: long functions rise from 1 to 2")
        result = run_tool(self.root, "--update")
        self.assertEqual(result.returncode, 1)
        self.assertIn("long_functions rises from 1 to 2", result.stdout)

    def test_texts_are_not_code(self):
        self.write("base/a.cc", 'const char* text = R"(class { void f() { )";  // {\nconst char brace = \'{\';\n' + function("decide", 60))
        self.expect_clean()


if __name__ == "__main__":
    unittest.main()
