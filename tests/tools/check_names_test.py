"""Feeds small trees to tools/check_names.py, each with one wrong name, and expects exactly that finding."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOL = Path(__file__).resolve().parents[2] / "tools" / "check_names.py"
SOUND = """#define MOBULA_LIMIT 3
#ifndef MADV_POPULATE
#define MADV_POPULATE 23
#endif
namespace mobula {
struct Row {
  explicit Row(int value) : value_(value) {}
  ~Row() {}
  bool operator==(const Row& other) const { return true; }
  struct iterator {
    int at;
  };
};
struct mobula_carrier {
  int link;
};
int Table::rows_of(int x) { return x; }
Table::Table() : rows_{} {}
}
template <>
struct std::hash<mobula::Row> {
  int operator()(int x) { return x; }
};
"""


class CheckNames(unittest.TestCase):
    def output(self, text):
        with tempfile.TemporaryDirectory() as directory:
            (Path(directory) / "base").mkdir()
            (Path(directory) / "base/a.cc").write_text(text)
            result = subprocess.run([sys.executable, TOOL, "--root", directory], capture_output=True, text=True, timeout=30)
            self.assertEqual(result.returncode, 1 if result.stdout else 0, result.stderr)
            return result.stdout

    def test_sound_names(self):
        self.assertEqual(self.output(SOUND), "")

    def test_wrong_names(self):
        for fault, text in (("base/a.cc:1: type row_table is not PascalCase; rename it\n", "class row_table {\n  int x;\n};\n"),
                            ("base/a.cc:2: function FindRow is not snake_case; rename it\n", "\nint FindRow(int x) { return x; }\n"),
                            ("base/a.cc:1: macro LIMIT does not begin with MOBULA_; rename it\n", "#define LIMIT 3\n")):
            with self.subTest(fault):
                self.assertEqual(self.output(text), fault)

    def test_words_with_several_meanings(self):
        fault = "base/a.cc:{}: name {} has a word with several meanings; rename it\n"
        for name in ("ask", "asked_", "HasRoom", "room_bytes", "look_timer_", "MemoryPlace", "place_of", "places"):
            with self.subTest(name):
                self.assertEqual(self.output(f"\nint {name};\n"), fault.format(2, name))
        for text in ("bool in_place;\n", "int task, lookup, placement, replaced;\n", "// ask for room\n", 'auto x = "place";\n'):
            with self.subTest(text):
                self.assertEqual(self.output(text), "")

    def test_words_in_tests_and_benchmarks(self):
        with tempfile.TemporaryDirectory() as directory:
            texts = {"tests/base/a_test.cc": "int FooBar() {\n  return ask_all();\n}\n", "bench/look.cc": "int x;\n",
                     "tests/scheduler/b_test.cc": "TEST(Scheduler, PlacesOneGroup) {}\nint room;\n",
                     "tests/tune/c_test.cc": "int x = search.ask();\nint place;\n", "bench/tune/d.cc": "int ask = 1;\n",
                     "include/mobula/e.h": "int place;\n"}
            for path, text in texts.items():
                (Path(directory) / path).parent.mkdir(parents=True, exist_ok=True)
                (Path(directory) / path).write_text(text)
            result = subprocess.run([sys.executable, TOOL, "--root", directory], capture_output=True, text=True, timeout=30)
            self.assertEqual(result.stdout.splitlines(), [
                "bench/look.cc:1: file name look has a word with several meanings; rename it",
                "tests/base/a_test.cc:2: name ask_all has a word with several meanings; rename it",
                "tests/scheduler/b_test.cc:2: name room has a word with several meanings; rename it",
                "tests/tune/c_test.cc:2: name place has a word with several meanings; rename it"])

    def test_functions_with_names_of_ray(self):
        with tempfile.TemporaryDirectory() as directory:
            for path, text in (("include/mobula/tune/searcher.h", "MOBULA_API SearcherPtr TPESearch(int x);\n"),
                               ("tune/a.cc", "SearcherPtr TPESearch(int x) { return {}; }\n"
                                             "SearcherPtr Other(int x) { return {}; }\n")):
                (Path(directory) / path).parent.mkdir(parents=True, exist_ok=True)
                (Path(directory) / path).write_text(text)
            result = subprocess.run([sys.executable, TOOL, "--root", directory], capture_output=True, text=True, timeout=30)
            self.assertEqual(result.stdout, "tune/a.cc:2: function Other is not snake_case; rename it\n")


if __name__ == "__main__":
    unittest.main()
