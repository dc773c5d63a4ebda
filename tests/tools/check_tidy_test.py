"""Feeds small build directories to tools/check_tidy.py. Exits 77 if clang-tidy is not installed."""

import json
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import check_tidy

TOOL = ROOT / "tools" / "check_tidy.py"
SOUND = "struct Base {\n  virtual int get() { return 0; }\n};\n"
FAULT = SOUND + "struct Part : Base {\n  virtual int get() { return 1; }\n};\n"


class CheckTidy(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.root = Path(self.directory.name).resolve()
        shutil.copy(ROOT / ".clang-tidy", self.root)
        self.git("init", "-q", "-b", "main")
        self.write(".gitignore", "/build/\n")

    def tearDown(self):
        self.directory.cleanup()

    def git(self, *arguments):
        subprocess.run(["git", "-C", self.root, "-c", "user.name=a", "-c", "user.email=a@b", *arguments], check=True,
                       capture_output=True)

    def write(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def build(self, sources, compiler="clang++"):
        """Writes a build directory that compiles the sources, each as one unity source of a list of files."""
        entries = []
        for name, included in sources.items():
            file = self.root / "build/dev" / name
            self.write(file.relative_to(self.root), "".join(f'#include "{self.root / each}"\n' for each in included))
            entries.append({"directory": str(file.parent), "command": f"/usr/bin/{compiler} -std=c++20 -c {file}", "file": str(file)})
        self.write("build/dev/compile_commands.json", json.dumps(entries))

    def run_tool(self, *arguments):
        result = subprocess.run([sys.executable, TOOL, "--root", self.root, *arguments], capture_output=True, text=True, timeout=60)
        return result.returncode, result.stdout + result.stderr

    def test_finding_in_a_unity_source(self):
        self.write("base/a.cc", SOUND)
        self.write("base/b.cc", FAULT.replace("Base", "Root").replace("Part", "Leaf"))
        self.build({"base/Unity/unity_0_cxx.cxx": ["base/a.cc", "base/b.cc"]})
        status, output = self.run_tool("--all")
        self.assertEqual(status, 1, output)
        self.assertIn("base/b.cc:5: modernize-use-override: ", output)
        self.assertNotIn("base/a.cc", output)
        self.assertIn("fix the code", output)

    def test_sound_sources_pass(self):
        self.write("base/a.cc", SOUND)
        self.build({"base/Unity/unity_0_cxx.cxx": ["base/a.cc"]})
        status, output = self.run_tool("--all")
        self.assertEqual(status, 0, output)
        self.assertRegex(output, r"^check_tidy: 1 compilations, \d+ s of processor time, 0 findings, 0 failures\n$")

    def test_source_that_does_not_compile(self):
        self.write("base/a.cc", "int x = y;\n")
        self.build({"base/Unity/unity_0_cxx.cxx": ["base/a.cc"]})
        status, output = self.run_tool("--all")
        self.assertEqual(status, 1, output)
        self.assertIn("base/a.cc:1: clang-diagnostic-error", output)

    def test_library_in_one_compilation(self):
        names = [f"source_{number}" for number in range(check_tidy.MOST_SOURCES + 2)]
        for name in names:
            self.write(f"base/{name}.cc", f"int {name} = 0;\n")
        self.write(f"base/{names[-1]}.cc", FAULT)
        directory = "base/CMakeFiles/mobula_base.dir/Unity"
        self.build({f"{directory}/unity_{index}_cxx.cxx": [f"base/{name}.cc" for name in names[8 * index:8 * index + 8]]
                    for index in range(len(names) // 8 + 1)})
        status, output = self.run_tool("--all")
        self.assertEqual(status, 1, output)
        self.assertIn(f"base/{names[-1]}.cc:5: modernize-use-override: ", output)
        self.assertIn("check_tidy: 2 compilations", output)  # of MOST_SOURCES, and of 2
        self.assertEqual(self.run_tool(f"base/{names[0]}.cc")[0], 0)

    def programs(self, *texts):
        """Writes programs and compiles each as its own unity source."""
        self.write("include/mobula/part.h", "#pragma once\nnamespace mobula {\nstruct Part {};\n}\n")
        for index, text in enumerate(texts):
            self.write(f"examples/{index}.cc", text)
        self.build({f"examples/CMakeFiles/{index}.dir/Unity/unity_0_cxx.cxx": [f"examples/{index}.cc"] for index in range(len(texts))})

    def test_programs_in_one_compilation(self):
        begin = f'#include "{self.root}/include/mobula/part.h"\nnamespace mobula::own {{\n'
        self.programs(begin + "int same(Part) { return 0; }\n}\nint main() { return mobula::own::same(mobula::Part{}); }\n",
                      begin + "int same(Part) { return 1; }\n}\n" + FAULT + "int main() {}\n")
        status, output = self.run_tool("--all")
        self.assertEqual(status, 1, output)
        self.assertIn("examples/1.cc:9: modernize-use-override: ", output)
        self.assertIn("check_tidy: 1 compilations, ", output)
        self.assertIn(", 1 findings, 0 failures", output)

    def test_programs_that_compile_alone(self):
        self.programs('extern "C" int shared;\nint main() { return shared; }\n',
                      'extern "C" char shared;\n' + FAULT + "int main() { return shared; }\n")
        status, output = self.run_tool("--all")
        self.assertEqual(status, 1, output)
        self.assertIn("examples/1.cc:6: modernize-use-override: ", output)
        self.assertNotIn("clang-diagnostic-error", output)
        self.assertIn("check_tidy: 2 compilations, ", output)

    def test_changed_files_alone(self):
        self.write("base/a.cc", SOUND)
        self.write("base/b.cc", FAULT)
        self.write("base/c.h", SOUND)
        self.build({"base/Unity/unity_0_cxx.cxx": ["base/a.cc"], "base/Unity/unity_1_cxx.cxx": ["base/b.cc"],
                    "alone/base/c.h.cc": ["base/c.h", "base/c.h"]})
        self.git("add", "-A")
        self.git("commit", "-qm", "base: add all")
        self.write("base/a.cc", SOUND + "int x;\n")
        self.git("commit", "-qam", "base: add x")
        self.assertEqual(self.run_tool()[0], 0)
        self.write("base/c.h", "#pragma once\n" + FAULT)
        status, output = self.run_tool()
        self.assertEqual(status, 1, output)
        self.assertIn("base/c.h:6: modernize-use-override", output)
        self.assertNotIn("base/b.cc", output)
        self.assertNotIn("build/dev", output)
        self.assertIn("2 compilations", output)

    def test_tests_are_left_out_unless_they_change(self):
        self.write("tests/a_test.cc", FAULT)
        self.build({"tests/Unity/unity_0_cxx.cxx": ["tests/a_test.cc"]})
        self.assertEqual(self.run_tool("--all")[0], 0)
        status, output = self.run_tool("tests/a_test.cc")
        self.assertEqual(status, 1, output)
        self.assertIn("tests/a_test.cc:5: modernize-use-override", output)

    def test_other_compiler(self):
        self.write("base/a.cc", SOUND)
        self.build({"base/Unity/unity_0_cxx.cxx": ["base/a.cc"]}, "g++")
        status, output = self.run_tool("--all")
        self.assertEqual(status, 1)
        self.assertIn("compiles with /usr/bin/g++", output)


if __name__ == "__main__":
    if not shutil.which("clang-tidy"):
        sys.exit(77)
    unittest.main()
