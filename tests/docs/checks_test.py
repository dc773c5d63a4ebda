#!/usr/bin/env python3
"""The checks of pages find each kind of fault."""
import tempfile
import unittest
from pathlib import Path

import cli_grammar
import commands_test
import pages_test
import snippets_test
from blocks import PageError, anchors_of, blocks_of, simple_commands

HELP = {
    (): "Commands:\n  start      Start a cluster\n  job        List jobs\n  help       Show help\n",
    ("start",): "Options:\n  -o, --output, --format FORMAT   table or --json, not a flag\n  --head                          start a head\n",
    ("job",): "Commands:\n  list       List jobs\n",
    ("job", "list"): "Options:\n  -f, --follow   until it ends\n",
}


class Grammar(cli_grammar.Grammar):
    """A grammar of the texts above, without a program."""

    def __init__(self):
        super().__init__("mobula")
        self._known = {path: cli_grammar.parse(text) for path, text in HELP.items()}


class Tree(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.root = Path(self.directory.name)
        self.write("docs/README.md", "# Index\n\n[a](a.md)\n")

    def write(self, page, text):
        (self.root / page).parent.mkdir(parents=True, exist_ok=True)
        (self.root / page).write_text(text, encoding="utf-8")

    def blocks(self, text):
        self.write("docs/a.md", text)
        return blocks_of(self.root, "docs/a.md")


class Blocks(Tree):
    def test_reads_commands_of_sh(self):
        (block,) = self.blocks("```sh\n# a comment\nmobula start \\\n  --head\nfalse   # exit code 1\n```\n")
        self.assertTrue(block.runs)
        self.assertEqual([(each.line, each.code) for each in block.commands()], [(3, 0), (5, 1)])

    def test_reads_commands_of_transcripts(self):
        (block,) = self.blocks("```console\n$ mobula status\nnodes: 2\n$ false # exit code 1\n```\n")
        self.assertEqual([(each.text, each.output) for each in block.commands()],
                         [("mobula status", ["nodes: 2"]), ("false # exit code 1", [])])

    def test_does_not_run_marked_blocks(self):
        (block,) = self.blocks("```sh no-run: needs Slurm\nsbatch x\n```\n")
        self.assertFalse(block.runs)

    def test_rejects_unknown_marks(self):
        for fence in ("sh no-run", "sh later", "cpp main", "console norun: x"):
            with self.assertRaises(PageError, msg=fence):
                self.blocks(f"```{fence}\n```\n")

    def test_rejects_open_blocks(self):
        with self.assertRaises(PageError):
            self.blocks("```sh\ntrue\n")

    def test_splits_shell_lines(self):
        self.assertEqual(simple_commands("A=1 mobula stop && (b | c 'x; y') # d"), [["mobula", "stop"], ["b"], ["c", "x; y"]])


class CommandLines(Tree):
    def faults(self, text):
        self.write("docs/a.md", text)
        return commands_test.unknown_words(self.root, Grammar(), "docs/a.md")[1]

    def test_accepts_known_words(self):
        self.assertEqual(self.faults("```sh no-run: x\nmobula start --head -o json\nmobula job list -f ID\n```\n"), [])

    def test_finds_unknown_flags_and_commands(self):
        for line in ("mobula start --haed", "mobula job lst", "mobula strat", "mobula start --json", "true; mobula start -- mobula job lst"):
            self.assertEqual(len(self.faults(f"```sh no-run: x\n{line}\n```\n")), 1, line)
            self.assertEqual(len(self.faults(f"```console no-run: x\n$ {line}\n```\n")), 1, line)

    def test_reads_inline_code_and_bare_blocks(self):
        self.assertEqual(len(self.faults("Use `mobula start --haed`.\n")), 1)
        self.assertEqual(len(self.faults("```\n$ mobula strat\n```\n")), 1)


class Outputs(Tree):
    def test_ignores_numbers_ids_paths_and_widths(self):
        self.assertEqual(commands_test.shape(["head at 127.0.0.1:40", "app  /home/a/x.key", "memory   0 B  22.1 GiB"]),
                         commands_test.shape(["head at 10.1.2.3:5", "example_hello /tmp/y.key", "", "memory 12 KiB 1 GiB"]))

    def test_finds_other_words(self):
        self.assertNotEqual(commands_test.shape(["nodes: 2 ALIVE"]), commands_test.shape(["nodes: 2 DEAD"]))

    def test_writes_outputs(self):
        (block,) = self.blocks("```console\n$ a\nold\nold\n\n$ b\n```\n")
        first, second = block.commands()
        commands_test.write_outputs(self.root / "docs/a.md", [(first, "new\n"), (second, "last\n")])
        self.assertEqual((self.root / "docs/a.md").read_text(encoding="utf-8"), "```console\n$ a\nnew\n\n$ b\nlast\n```\n")


class Pages(Tree):
    def test_finds_broken_links(self):
        self.write("docs/a.md", "# A title\n\n[x](none.md) [y](#no-heading) [z](#a-title) [w](https://example.org)\n")
        self.assertEqual(len(list(pages_test.broken_links(self.root, "docs/a.md"))), 2)

    def test_makes_anchors_like_forges(self):
        self.write("docs/a.md", "## Which *nodes*, and `x`?\n")
        self.assertEqual(anchors_of(self.root / "docs/a.md"), {"which-nodes-and-x"})

    def test_finds_unlisted_pages(self):
        self.write("docs/a.md", "")
        self.write("docs/b.md", "")
        self.assertEqual(list(pages_test.unlisted_pages(self.root)), ["docs/b.md: not linked from docs/README.md"])

    def test_finds_growth(self):
        limits = {"words_in_docs": 5, "blocks_without_language": 0, "lines_of_long_pages": {}}
        self.write("docs/a.md", "word\n" * 401 + "```\n```\n")
        self.assertEqual(len(list(pages_test.oversize(pages_test.measure(self.root), limits))), 3)


class Snippets(Tree):
    def test_finds_changed_excerpts(self):
        self.write("examples/a.cc", "int f() {\n  return 1;\n}\n")
        good, bad = self.blocks("```cpp excerpt: examples/a.cc\nreturn 1;\n```\n```cpp excerpt: examples/a.cc\nreturn 2;\n```\n")
        snippets_test.check_excerpt(self.root, good)
        with self.assertRaises(PageError):
            snippets_test.check_excerpt(self.root, bad)

    def test_keeps_lines_and_places(self):
        self.write("docs/a.md", "```cpp program\n#include <set>\nint main() {}\n```\n```cpp body\nint x;\n```\n")
        text, count = snippets_test.unit_of(self.root)
        self.assertEqual(count, 2)
        self.assertIn('#line 2 "docs/a.md"\n\nint main() {}\n', text)
        self.assertIn("#include <set>\n", text)


if __name__ == "__main__":
    unittest.main()
