"""Feeds small trees to tools/check_layers.py, each with one breach, and expects exactly that breach."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOL = Path(__file__).resolve().parents[2] / "tools" / "check_layers.py"

TABLE = """# Architecture

## Include rules

| directory | content | may also include, with `base`, `base/model` |
| --- | --- | --- |
| `base` | vocabulary | – |
| `base/model` | values | – |
| `protocol` | messages | – |
| `scheduler` | pure | – |
| `store/core` | pure | – |
| `store` | arena | `store/core` |
| `head/core` | pure | `protocol`, `scheduler` |
| `include/mobula` | public headers | – |
| `client` | user's API | `include/mobula`, `protocol` |
| `head` | service | `head/core`, `protocol` |
| `worker` | agent | `protocol`, `store` |
| `cli` | commands | `protocol`, `client` |
| `cli/main.cc` | the program | `head/head_main.h` |
| `examples` | programs | `include/mobula` |
| `tests` | tests | everything |

## Where is … decided?

| question | where |
| --- | --- |
| ids | [id.h](../base/id.h) |
"""

SOUND = {
    "docs/architecture.md": TABLE,
    "base/id.h": "#pragma once\n#include <compare>\n",
    "protocol/message.h": '#include "base/id.h"\n#include "base/model/request.h"\n',
    "base/model/request.h": '#include "base/id.h"\n',
    "head/core/members.h": '#include "protocol/message.h"\n#include "scheduler/view.h"\n',
    "head/core/CMakeLists.txt": "mobula_library(head/core SOURCES a.cc LINKS base protocol fmt::fmt)\n",
    "scheduler/view.h": "#include <map>\nstd::map<int, Row*> rows;\n",
    "head/head_main.h": '#include "head/core/members.h"\n',
    "client/get.cc": "#include <mobula/get.h>\n",
    "include/mobula/get.h": "#include <mobula/ref.h>\n#include <vector>\n",
    "cli/main.cc": '#include "head/head_main.h"\n#include "client/get.h"\n',
    "cli/CMakeLists.txt": "mobula_program(mobula SOURCES main.cc LINKS client head CLI11::CLI11)\n",
    "examples/hello.cc": "#include <mobula/get.h>\n",
    "tests/head/core/members_test.cc": '#include "head/core/members.h"\n#include "sim/world.h"\n',
}


def check(changes):
    """Exit status and output for the sound tree with `changes` (path -> text) applied."""
    with tempfile.TemporaryDirectory() as directory:
        for name, text in {**SOUND, **changes}.items():
            path = Path(directory) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        done = subprocess.run([sys.executable, TOOL, directory], capture_output=True, text=True, timeout=30)
        return done.returncode, done.stdout + done.stderr


class CheckLayers(unittest.TestCase):
    def test_json_is_written_by_one_function(self):
        self.assert_breach("head/b.cc:1: a call of dump", {"head/b.cc": "auto text = row[\"id\"].dump();\n"})
        self.assert_breach("head/b.cc:2: a call of dump", {"head/b.cc": "\nauto text = json->dump (2);\n"})
        self.assert_sound({"base/text/json_writer.h": "#pragma once\nauto text = json.dump(2);\n",
                           "tests/b.cc": "auto text = json.dump();\n",
                           "head/c.cc": "// json.dump()\nauto text = dump(json) + memory_dump();\n"})

    def assert_sound(self, changes):
        status, output = check(changes)
        self.assertEqual((0, ""), (status, output))

    def assert_breach(self, expected, changes):
        status, output = check(changes)
        self.assertEqual(1, status, output)
        self.assertIn(expected, output)
        self.assertEqual(1, len(output.splitlines()), output)

    def test_accepts_tree_that_follows_the_table(self):
        self.assert_sound({})

    def test_head_including_worker_is_named_with_file_and_line(self):
        self.assert_breach("head/serve.cc:2: head may not include worker (worker/agent.h)",
                           {"head/serve.cc": '#include <map>\n#include "worker/agent.h"\n'})

    def test_including_upwards_is_a_breach(self):
        self.assert_breach("base may not include protocol", {"base/logging/log.cc": '#include "protocol/message.h"\n'})
        self.assert_breach("base may not include base/model", {"base/logging/log.cc": '#include "base/model/request.h"\n'})

    def test_shell_may_not_include_core_of_another(self):
        self.assert_breach("worker may not include head/core",
                           {"worker/agent.cc": '#include "head/core/members.h"\n'})

    def test_only_the_named_file_has_the_extra_permission(self):
        self.assert_breach("cli may not include head", {"cli/top.cc": '#include "head/head_main.h"\n'})
        self.assert_breach("cli may not include head", {"cli/main.cc": '#include "head/journal.h"\n'})

    def test_public_header_includes_no_internal_one(self):
        self.assert_breach("include/mobula may not include base",
                           {"include/mobula/ref.h": '#include "base/id.h"\n'})

    def test_example_includes_public_headers_only(self):
        self.assert_breach("examples may not include protocol", {"examples/hello.cc": '#include "protocol/message.h"\n'})

    def test_core_may_not_include_public_headers(self):
        self.assert_breach("head/core may not include include/mobula",
                           {"head/core/members.cc": "#include <mobula/get.h>\n"})

    def test_rejects_include_relative_to_the_file(self):
        self.assert_breach("names no directory of the table", {"head/core/members.cc": '#include "members.h"\n'})

    def test_rejects_directory_without_a_row(self):
        self.assert_breach("device/tune.h: its directory is missing", {"device/tune.h": "#pragma once\n"})

    def test_ignores_commented_include(self):
        self.assert_sound({"head/serve.cc": '// #include "worker/agent.h"\n/*\n#include "worker/agent.h"\n*/\n'})

    def test_linking_follows_the_same_table(self):
        self.assert_breach("protocol/CMakeLists.txt:2: protocol may not link scheduler", {
            "protocol/CMakeLists.txt": "# codec\nmobula_library(protocol SOURCES a.cc\n  LINKS base scheduler)\n"})

    def test_rejects_library_with_another_name(self):
        self.assert_breach("declares the library of head",
                           {"head/core/CMakeLists.txt": "mobula_library(head SOURCES a.cc LINKS base)\n"})

    def test_rejects_circle_in_the_table(self):
        self.assert_breach("the table allows a circle: client -> protocol -> client", {
            "docs/architecture.md": TABLE.replace("| messages | – |", "| messages | `client` |")})

    def test_rejects_broken_link_of_the_index(self):
        self.assert_breach("link to ../base/gone.h", {
            "docs/architecture.md": TABLE + "| gone | [gone.h](../base/gone.h) |\n"})

    def test_rejects_sources_of_chance_in_a_core(self):
        for line in ("#include <mutex>", "#include <thread>", "std::unordered_map<int, int> rows;",
                     "auto now = std::chrono::steady_clock::now();", "int x = rand();",
                     "std::uniform_int_distribution<int> any(0, 5);", "thread_local int depth = 0;",
                     'auto home = getenv("HOME");', "std::map<Row*, int> rows;",
                     "std::set<const Row*> rows;", "Table<Row *, int> rows;", "#include <fstream>"):
            with self.subTest(line):
                text = f"// a core\n{line}\n"
                self.assert_breach("scheduler/place.cc:2:", {"scheduler/place.cc": text})
                self.assert_sound({"head/place.cc": text})

    def test_accepts_comments_and_pointer_values_in_a_core(self):
        self.assert_sound({"scheduler/place.cc":
                           "// Never std::unordered_map, nor rand(), nor steady_clock::now().\n"
                           "std::map<NodeId, Row*> rows; int operand(int x);\n"})

    def test_rejects_file_over_the_limit(self):
        self.assert_breach("base/big.h: 301 lines, at most 300", {"base/big.h": "\n" * 301})
        self.assert_breach("base/big.cc: 601 lines, at most 600", {"base/big.cc": "\n" * 601})
        self.assert_sound({"base/big.h": "\n" * 300, "base/big.cc": "\n" * 600})

    def test_rejects_long_line_outside_raw_strings(self):
        self.assert_breach("base/wide.cc:2: 101 columns, at most 100", {"base/wide.cc": "\n// " + "x" * 98 + "\n"})
        self.assert_sound({"base/wide.cc": "// " + "x" * 97 + '\nauto text = R"(\n' + "x" * 150 + '\n)";\n'})

    def test_rejects_vague_file_name(self):
        self.assert_breach("'util' in a file name", {"base/string_util.h": "#pragma once\n"})

    def test_rejects_second_file_of_a_name(self):
        self.assert_breach("has the same base name", {"head/twin.h": "#pragma once\n", "worker/twin.h": "#pragma once\n"})

    def test_rejects_page_without_the_table(self):
        status, output = check({"docs/architecture.md": "# Architecture\n"})
        self.assertEqual(1, status)
        self.assertIn("was not found", output)


if __name__ == "__main__":
    unittest.main()
