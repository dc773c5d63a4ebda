#!/usr/bin/env python3
"""Tests colors and the pager of the real program on a terminal (a pty), and their absence elsewhere.

Usage: terminal_test.py MOBULA [TEST...]
"""

import fcntl
import json
import os
import pty
import select
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest

MOBULA = os.path.abspath(sys.argv[1])
PATIENCE = 120  # seconds; the machine may be busy
ESCAPE = b"\x1b["


class OnACluster(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.mkdtemp(prefix="mobula-terminal-")
        cls.env = {name: value for name, value in os.environ.items()
                   if not name.startswith("MOBULA_") and name not in ("NO_COLOR", "PAGER", "LESS")}
        cls.env.update(MOBULA_STATE_DIR=cls.directory, TERM="xterm")
        subprocess.run([MOBULA, "start", "--head", "--num-cpus", "2", "--num-gpus", "0"], env=cls.env, check=True,
                       capture_output=True, timeout=PATIENCE)

    @classmethod
    def tearDownClass(cls):
        subprocess.run([MOBULA, "stop", "--grace", "0"], env=cls.env, capture_output=True, timeout=PATIENCE)
        shutil.rmtree(cls.directory, ignore_errors=True)

    def piped(self, *words, **env):
        done = subprocess.run([MOBULA, *words], env={**self.env, **env}, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def on_terminal(self, *words, rows=40, keys=b"", until=b"", **env):
        """The exit code and the output. `keys` are pressed once `until` is shown."""
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, 100, 0, 0))
        process = subprocess.Popen([MOBULA, *words], env={**self.env, **env}, stdin=slave, stdout=slave, stderr=slave, start_new_session=True)
        os.close(slave)
        shown = b""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if keys and until in shown:
                os.write(master, keys)
                keys = b""
            if not select.select([master], [], [], 1)[0]:
                continue
            try:
                more = os.read(master, 65536)
            except OSError:  # the other side has exited
                break
            if not more:
                break
            shown += more
        code = process.wait(timeout=PATIENCE)
        os.close(master)
        return code, shown.replace(b"\r\n", b"\n")


class Colors(OnACluster):
    def test_colors_terminals_but_not_pipes(self):
        code, shown = self.on_terminal("list", "nodes")
        self.assertEqual(code, 0, shown)
        self.assertIn(b"\x1b[32mALIVE\x1b[0m", shown)
        self.assertIn(b"\x1b[1mNODE_ID\x1b[0m", shown)
        for words in (["list", "nodes"], ["status"], ["memory"]):
            self.assertNotIn(ESCAPE, self.piped(*words))

    def test_colors_can_be_disabled(self):
        for words, env in ((["list", "nodes"], {"NO_COLOR": "1"}), (["list", "nodes", "--color=never"], {}),
                           (["--color", "never", "list", "nodes"], {}), (["list", "nodes"], {"TERM": "dumb"})):
            code, shown = self.on_terminal(*words, **env)
            self.assertEqual(code, 0, shown)
            self.assertIn(b"ALIVE", shown)
            self.assertNotIn(ESCAPE, shown)

    def test_dumb_terminal_prints_page_after_page(self):
        for term in ("dumb", ""):
            code, shown = self.on_terminal("top", TERM=term, NO_COLOR="1")
            self.assertEqual(code, 0, shown)
            self.assertIn(b"CPU%", shown)
            self.assertNotIn(ESCAPE, shown)

    def test_always_colors_tables_only(self):
        self.assertIn(b"\x1b[32mALIVE\x1b[0m", self.piped("--color=always", "list", "nodes", NO_COLOR="1"))
        for form in ("json", "jsonl", "yaml", "csv", "name"):
            self.assertNotIn(ESCAPE, self.piped("list", "nodes", "-o", form, "--color=always"))
        json.loads(self.piped("list", "nodes", "-o", "json", "--color=always"))

    def test_colors_messages(self):
        code, shown = self.on_terminal("get", "node", "nobody")
        self.assertNotEqual(code, 0)
        self.assertIn(b"\x1b[31mmobula:\x1b[0m ", shown)


class Pager(OnACluster):
    """`status` has more than five rows and less than forty."""

    def test_pages_output_longer_than_the_screen(self):
        seen = os.path.join(self.directory, "seen")
        code, shown = self.on_terminal("status", rows=5, MOBULA_PAGER=f"tee {seen}", PAGER="false")
        self.assertEqual(code, 0, shown)
        with open(seen, "rb") as file:
            self.assertIn(b"RESOURCE", file.read())
        self.assertIn(b"RESOURCE", shown)

    def test_pages_help_findings_tokens_and_plans(self):
        types = os.path.join(self.directory, "types.yaml")
        with open(types, "w", encoding="utf-8") as file:
            file.write("max_workers: 2\navailable_node_types:\n  a: {resources: {CPU: 4}, max_workers: 2}\n")
        for words, part in ((["help", "list"], b"Usage: mobula list"), (["help", "environment"], b"MOBULA_"), (["doctor"], b"CHECK"),
                            (["token", "list"], b"TOKEN_ID"), (["plan", "--types", types], b"no node to launch")):
            seen = os.path.join(self.directory, "seen-" + words[0] + "-" + words[-1].replace("/", "_"))
            _, shown = self.on_terminal(*words, rows=1, MOBULA_PAGER=f"tee {seen}")
            self.assertTrue(os.path.exists(seen), shown)
            with open(seen, "rb") as file:
                self.assertIn(part, file.read(), words)
        mark = os.path.join(self.directory, "unwanted")
        code, shown = self.on_terminal("help", "list", "--no-pager", rows=5, MOBULA_PAGER=f"cat > {mark}")
        self.assertEqual(code, 0, shown)
        self.assertFalse(os.path.exists(mark))

    def test_short_or_piped_output_is_not_paged(self):
        mark = os.path.join(self.directory, "mark")
        pager = f"cat > {mark}"
        for words, rows in ((["status"], 40), (["status", "--no-pager"], 5), (["status", "-o", "json"], 5), (["repl", "-c", "status"], 5)):
            code, shown = self.on_terminal(*words, rows=rows, PAGER=pager)
            self.assertEqual(code, 0, shown)
            self.assertIn(b"CPU", shown)
            self.assertFalse(os.path.exists(mark), words)
        self.piped("status", PAGER=pager)
        self.assertFalse(os.path.exists(mark))
        self.assertEqual(self.on_terminal("status", rows=5, PAGER=pager)[0], 0)
        self.assertTrue(os.path.exists(mark))

    def test_failing_pager_loses_no_output(self):
        for pager in ("/nowhere/pager", "false", "kill -9 $$", "head -c 1 >/dev/null; exit 3", ""):
            code, shown = self.on_terminal("status", rows=5, MOBULA_PAGER=pager)
            self.assertEqual(code, 0, shown)
            self.assertIn(b"RESOURCE", shown, pager)

    def test_pager_may_exit_early(self):
        code, shown = self.on_terminal("status", rows=5, MOBULA_PAGER="head -n 1")
        self.assertEqual(code, 0, shown)
        self.assertEqual(shown.count(b"\n"), 1, shown)

    @unittest.skipUnless(shutil.which("less"), "there is no less")
    def test_less_shows_colors_and_q_ends_it(self):
        code, shown = self.on_terminal("status", rows=5, keys=b"q", until=b":")
        self.assertEqual(code, 0, shown)
        self.assertIn(b"RUNNING", shown)

    def test_interruption_reaches_the_pager(self):
        code, shown = self.on_terminal("status", rows=5, MOBULA_PAGER="trap 'echo taken; exit 0' INT; echo waits; kill -INT $PPID; kill -INT $$")
        self.assertEqual(code, 0, shown)
        self.assertIn(b"taken", shown)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
