#!/usr/bin/env python3
"""Tests `mobula repl` on a real terminal (a pty) and as a script, with its own cluster.

Usage: repl_test.py MOBULA CONSOLE_PROGRAM [TEST...]
"""

import json
import os
import re
import resource
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import pexpect

MOBULA, PROGRAM = [os.path.abspath(path) for path in sys.argv[1:3]]
PATIENCE = 60  # seconds; the machine may be busy
ANY_PROMPT = r"\) > "  # also while the head does not reply
PROMPT = r"\(default 1n [0-9.]+/2 CPU\) > "


def environment(directory):
    env = {name: value for name, value in os.environ.items() if not name.startswith("MOBULA_")}
    env.update(MOBULA_STATE_DIR=os.path.join(directory, "state"), TERM="xterm", LC_ALL="C.UTF-8",
               PATH=os.path.dirname(MOBULA) + ":" + env["PATH"])
    return env


class OnACluster(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.mkdtemp(prefix="mobula-repl-test-", dir="/tmp")
        cls.env = environment(cls.directory)
        cls.mobula("start", "--head", "--num-cpus", "2", check=True)

    @classmethod
    def tearDownClass(cls):
        cls.mobula("stop", "--grace", "0")
        shutil.rmtree(cls.directory, ignore_errors=True)

    @classmethod
    def mobula(cls, *words, text="", check=False):
        return subprocess.run([MOBULA, *words], input=text, env=cls.env, text=True, capture_output=True,
                              timeout=2 * PATIENCE, check=check)

    def script(self, text, *words):
        return self.mobula("repl", *words, text=text)


class Scripts(OnACluster):
    def test_commands_are_those_of_the_command_line(self):
        done = self.script("status\nmobula list nodes -o name\n# a comment\n")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("cluster default is RUNNING", done.stdout)
        self.assertRegex(done.stdout, r"(?m)^[0-9a-f]{32}$")

    def test_first_error_ends_script_with_its_code(self):
        done = self.script("version\nget node nosuchnode\nstatus\n")
        self.assertEqual(done.returncode, 7, done.stderr)
        self.assertNotIn("RUNNING", done.stdout)
        self.assertIn("line 2 of standard input", done.stderr)
        self.assertEqual(self.mobula("repl", "-c", "run -- sh -c 'exit 9'; status").returncode, 9)
        self.assertEqual(self.mobula("repl", "-c", "call 'open").returncode, 2)

    def test_files_and_sourced_files(self):
        inner = os.path.join(self.directory, "inner")
        outer = os.path.join(self.directory, "outer")
        with open(inner, "w") as file:
            file.write("version\nexplain nothing_of_the_kind\n")
        with open(outer, "w") as file:
            file.write("#!/usr/bin/env -S mobula repl\n\\source " + inner + "\nstatus\n")
        done = self.mobula("repl", outer)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("line 2 of " + inner, done.stderr)
        self.assertNotIn("RUNNING", done.stdout)

    def test_output_formats(self):
        done = self.script("\\o json\nversion\n\\o yaml\nversion\n\\o name\nlist nodes\n")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('"kind": "Version"', done.stdout)
        self.assertIn("kind: Version", done.stdout)
        self.assertEqual(self.script("\\o xml\n").returncode, 2)

    def test_rejects_long_line_with_its_length(self):
        done = self.script("status " + "x" * 1_000_000 + "\n")
        self.assertEqual(done.returncode, 2)
        self.assertIn("1000007 bytes", done.stderr)

    def test_deep_json_is_refused(self):
        done = self.script("call f " + "[" * 100_000 + "]" * 100_000 + "\n")
        self.assertEqual(done.returncode, 2, done.stderr[-300:])
        self.assertIn("nests deeper", done.stderr)

    def test_keep_going_continues_after_failures(self):
        done = self.script("get node nosuchnode\nrun -- sh -c 'exit 9'\n" + "x" * 300_000 + "\nversion\n", "--keep-going", "--echo")
        self.assertEqual(done.returncode, 7, done.stderr[-300:])
        self.assertIn("mobula 0", done.stdout)
        self.assertIn("> get node nosuchnode\n", done.stderr)
        self.assertNotIn("stopped at line", done.stderr)
        self.assertEqual(self.mobula("repl", "--keep-going", "-c", "run -- sh -c 'exit 9'; version").returncode, 9)

    def test_accepts_job_names_as_ids(self):
        done = self.script("let r = submit --no-wait --name first -- sh -c 'echo said by first; exit 3'\nlet s = submit --no-wait --name second -- true\n"
                           "wait s\nget r\njob logs r\nget job r --columns name --no-headers\njob status $r\nexplain r\nwait r\n")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("said by first", done.stdout)
        self.assertIn("\nfirst\n", done.stdout)
        self.assertNotIn("name: second", done.stdout)
        self.assertRegex(done.stdout, '"[0-9a-f]{32}"')
        # A failed submission leaves its variable undefined. Variables in the command of a job are not
        # expanded.
        refused = self.script("let r = submit --no-wait -- true\nlet r = run --num-cpus nothing -- true\njob status $r\n", "--keep-going")
        self.assertIn("$r", refused.stderr)
        own = self.script("let r = run -- true\nrun -- echo r '$r'\n")
        self.assertIn("r $r", own.stdout)

    def test_offers_last_id_and_shell(self):
        done = self.script("submit --no-wait --name kept -- true\nwait $_\n\\x\njob status $_\n\\! echo a; echo b # c\n\\!exit 5\n")
        self.assertEqual(done.returncode, 5, done.stderr)
        self.assertIn("name: kept", done.stdout)
        self.assertIn("a\nb\n", done.stdout)
        none = self.script("job status $_\n")
        self.assertEqual(none.returncode, 2)
        self.assertIn("$_: not set", none.stderr)

    def test_prints_timing(self):
        done = self.script("\\timing\nversion\n")
        self.assertRegex(done.stderr, r"[0-9.]+ ms")


class Programs(OnACluster):
    def in_program(self, line):
        return self.mobula("repl", "-c", f"use {PROGRAM}; {line}")

    def value(self, line):
        done = self.in_program(line)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout.splitlines()[-1])

    def test_functions_are_called_with_json(self):
        self.assertEqual(self.value("call square 12"), 144)
        self.assertEqual(self.value("call mean([1, 2, 6])"), 3)
        self.assertEqual(self.value('call greet "you" null'), "Hello, you! ")
        self.assertEqual(self.value("call moved [1, 2] 0.5"), [1.5, 2.5])
        self.assertEqual(self.value('call counted ["a", "b", "a"]'), {"a": 2, "b": 1})
        self.assertEqual(self.value("call square 3 with num_cpus=0.5 max_retries=0"), 9)

    def test_results_are_passed_on(self):
        self.assertEqual(self.value("let x = call square 3; call square x"), 81)
        self.assertEqual(self.value("let x = call square 3; get x"), 9)

    def test_actors(self):
        self.assertEqual(self.value("actor c = Counter(10); c.add(5); let y = c.add(1); get y"), 16)
        done = self.in_program("actor c = Counter(10); c.value(); kill c; c.value()")
        self.assertEqual(done.returncode, 7, done.stderr)

    def test_lists_functions_and_actors(self):
        listed = json.loads(self.in_program("\\o json; \\d").stdout)
        functions = {each["name"]: each for each in listed["functions"]}
        self.assertEqual(functions["mean"]["parameters"], ["[float64]"])
        self.assertEqual(functions["moved"]["result"], "Point[float64, float64]")
        self.assertFalse([name for name in functions if name.startswith("mobula::")])
        self.assertEqual(listed["actors"][0]["constructors"], [["int32"]])

    def test_errors_have_type_and_remedy(self):
        for line, code, words in [
                ("call square", 2, "takes (int32)"),
                ('call square "x"', 2, "argument 1 of square (int32): \"x\" is not a whole number"),
                ("call square 2147483648", 2, "to 2147483647"),
                ("call mean [1, null]", 2, "at [1]"),
                ("call sqare 1", 7, "did you mean 'square'"),
                ("call square zz", 2, "let zz = call"),
                ("call mean []", 1, "std::invalid_argument: the mean of nothing"),
                ("call square 1 with gpus=2", 2, "num_gpus"),
                ("call square 1 with num_gpus=1.5", 2, "InvalidRequestError"),
                ("call square 1 with num_gpus=9 fail_if_infeasible=true", 6, "UnschedulableError"),
                ("actor c = Counter()", 2, "1 argument"),
                ("actor c = Counter(1); c.ad(1)", 7, "did you mean 'add'"),
                ("d.add(1)", 7, "actor d = CLASS")]:
            done = self.in_program(line)
            self.assertEqual(done.returncode, code, line + ": " + done.stderr)
            self.assertIn(words, done.stderr, line)

    def test_reports_program_without_init(self):
        done = self.mobula("repl", "-c", "use /bin/true")
        self.assertEqual(done.returncode, 3)
        self.assertIn("mobula::init", done.stderr)
        self.assertEqual(self.mobula("repl", "-c", "use /no/such/program").returncode, 7)
        self.assertEqual(self.mobula("repl", "-c", "call f 1").returncode, 2)

    def test_keeps_program_when_next_one_fails(self):
        for other in ("/no/such/program", "/bin/true"):
            done = self.mobula("repl", "--keep-going", "-c", f"use {PROGRAM}; let x = call square 3; use {other}; call square x")
            self.assertEqual(done.stdout.splitlines()[-1:], ["81"], done.stderr)


class BesideAnotherNode(OnACluster):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.other = os.path.join(cls.directory, "other")
        address = json.loads(cls.mobula("status", "-o", "json").stdout)["address"]
        cls.mobula("start", "--address", address, "--key", os.path.join(cls.env["MOBULA_STATE_DIR"], "default", "default.key"),
                   "--num-cpus", "1", "--resources", '{"there": 1}', "--bulk-connections", "1", "--state-dir", cls.other, check=True)

    @classmethod
    def tearDownClass(cls):
        cls.mobula("stop", "--grace", "0", "--state-dir", cls.other)
        super().tearDownClass()

    @staticmethod
    def agent_at(directory):
        with open(os.path.join(directory, "default", "agent", "agent.json")) as file:
            return json.load(file)["pid"]

    @staticmethod
    def resident_bytes(pid):
        with open(f"/proc/{pid}/statm") as file:
            return int(file.read().split()[1]) * resource.getpagesize()

    def finished(self):
        items = json.loads(self.mobula("list", "tasks", "--filter", "state=FINISHED", "-o", "json").stdout)["items"]
        return len(items)

    def test_long_value_reports_progress(self):
        """The holder is stopped halfway."""
        shell = pexpect.spawn(MOBULA, ["repl"], env=self.env, timeout=PATIENCE, encoding="utf-8", dimensions=(40, 200))
        prompt = r"\(default 2n [0-9.]+/3 CPU\) > "
        shell.expect(prompt)
        shell.send(f"use {PROGRAM}\r")
        shell.expect("functions")
        shell.expect(prompt)
        reader, holder = self.agent_at(self.env["MOBULA_STATE_DIR"]), self.agent_at(self.other)
        bar = r"\rmobula: fetching x\d \[#*\.*\] (\d+\.\d) of 1\d\d\.\d MiB"
        seen = False
        for number in range(1, 9):  # the value may be complete before the stop
            shell.send('let x%d = call greet "you" 13000000 with resources={"there":1}\r' % number)
            shell.expect(prompt)
            while self.finished() < number:
                pass
            before = self.resident_bytes(reader)
            shell.send(f"get x{number}\r")
            until = time.monotonic() + PATIENCE
            while self.resident_bytes(reader) < before + (24 << 20) and time.monotonic() < until:
                pass
            os.kill(holder, signal.SIGSTOP)
            try:
                # Either the bar, or the error for a complete value: it is too large to be shown.
                seen = shell.expect([bar, "are shown"]) == 0
                if seen:
                    self.assertGreater(float(shell.match.group(1)), 0)
            finally:
                os.kill(holder, signal.SIGCONT)
            if seen:
                shell.expect("are shown")
            shell.expect(prompt)
            if seen:
                break
        self.assertTrue(seen)
        shell.close(force=True)


class BesideAHeadThatHangs(OnACluster):
    def setUp(self):
        with open(os.path.join(self.env["MOBULA_STATE_DIR"], "default", "head", "head.json")) as file:
            self.head = json.load(file)["pid"]
        os.kill(self.head, signal.SIGSTOP)

    def tearDown(self):
        os.kill(self.head, signal.SIGCONT)

    def test_hanging_head_is_not_reported_as_wrong_key(self):
        done = self.mobula("status")
        self.assertEqual(done.returncode, 5, done.stderr)
        self.assertIn("sends nothing; it hangs or is stopped", done.stderr)

    def test_ctrl_c_ends_each_command(self):
        def catches_sigint(pid):
            with open(f"/proc/{pid}/status") as file:
                caught = re.search(r"(?m)^SigCgt:\s*([0-9a-f]+)", file.read()).group(1)
            return int(caught, 16) >> (signal.SIGINT - 1) & 1

        commands = [("call", "nobody", "method"), ("kill", "nobody"), ("wait", "nojob"), ("status",), ("job", "status", "nojob"),
                    ("logs", "-f"), ("drain", "nonode"), ("explain", "nothing")]
        running = [subprocess.Popen([MOBULA, *words], env=self.env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                   for words in commands]
        for words, each in zip(commands, running):
            while each.poll() is None and not catches_sigint(each.pid):
                pass
            each.send_signal(signal.SIGINT)
            self.assertEqual((words, each.wait(timeout=PATIENCE)), (words, 130), each.stderr.read())
            each.communicate()

    def test_interrupted_run_reports_no_submission(self):
        run = pexpect.spawn(MOBULA, ["run", "--", "sleep", "1000"], env=self.env, timeout=PATIENCE, encoding="utf-8")
        run.expect("sends nothing")
        run.sendintr()
        run.expect("nothing was submitted")
        run.expect(pexpect.EOF)
        run.close()
        self.assertEqual(run.exitstatus, 130)


class BesideAHeadThatComesToHang(OnACluster):
    def test_run_interrupted_twice_names_its_job(self):
        with open(os.path.join(self.env["MOBULA_STATE_DIR"], "default", "head", "head.json")) as file:
            head = json.load(file)["pid"]
        run = pexpect.spawn(MOBULA, ["run", "--", "sh", "-c", "echo it runs; sleep 1000"], env=self.env, timeout=PATIENCE,
                            encoding="utf-8")
        run.expect("it runs")
        os.kill(head, signal.SIGSTOP)
        try:
            words = r"job [0-9a-f]{32} continues if the head has received it"
            for _ in range(50):  # two signals at once count as one
                run.sendintr()
                if run.expect([words, pexpect.TIMEOUT], timeout=0.1) == 0:
                    break
            run.expect(pexpect.EOF)
            run.close()
            self.assertEqual(run.exitstatus, 130)
        finally:
            os.kill(head, signal.SIGCONT)


class OnATerminal(OnACluster):
    def setUp(self):
        self.shell = pexpect.spawn(MOBULA, ["repl"], env=self.env, timeout=PATIENCE, encoding="utf-8",
                                   dimensions=(40, 200))
        self.shell.expect(PROMPT)

    def tearDown(self):
        self.shell.close(force=True)

    def say(self, line):
        self.shell.send(line + "\r")

    def test_first_prompt_does_not_deny_the_cluster(self):
        self.assertNotIn("no cluster", self.shell.before)

    def test_replies_have_colors_and_no_pager(self):
        self.say("list nodes")
        self.shell.expect_exact("\x1b[32mALIVE\x1b[0m")
        self.shell.expect(PROMPT)
        self.say("list nodes --color=never")
        self.shell.expect("ALIVE")
        self.assertNotIn("\x1b[32m", self.shell.before)
        self.shell.setwinsize(4, 200)
        self.say("help list")
        self.shell.expect("--no-pager")
        self.shell.expect(PROMPT)

    def test_lines_are_edited_and_remembered(self):
        self.say("versin\x02o")  # Ctrl-B: one to the left
        self.shell.expect(r"mobula [0-9.]+")
        self.shell.expect(PROMPT)
        self.shell.send("\x1b[A\r")  # the previous line
        self.shell.expect(r"mobula [0-9.]+")
        self.say(" status")
        self.shell.expect("RUNNING")
        self.say("exit")
        self.shell.expect(pexpect.EOF)
        history = os.path.join(self.env["MOBULA_STATE_DIR"], "history")
        self.assertEqual(stat.S_IMODE(os.stat(history).st_mode), 0o600)
        with open(history) as file:
            lines = file.read().splitlines()
        self.assertIn("version", lines)
        self.assertNotIn("\\040status", lines)  # it began with a space

    def test_tab_completes_verbs_options_and_live_ids(self):
        node = self.mobula("list", "nodes", "-o", "name").stdout.strip()
        self.shell.send("lis\tnod\t\r")
        self.shell.expect("NODE_ID")
        self.shell.expect(PROMPT)
        self.shell.send("get node " + node[:4] + "\t")
        self.shell.expect(node[4:])
        self.shell.send("\x15start --no-w\t")
        self.shell.expect("orker ")
        self.shell.send("\x15start --object-s\t\t")
        self.shell.expect("--object-spilling-directory")

    def test_ctrl_c_ends_following_and_keeps_console(self):
        self.shell.send("half a line\x03")
        self.shell.expect(r"\^C")
        self.say("run -- sh -c 'echo it runs; sleep 1000'")
        self.shell.expect("\nit runs")
        self.shell.send("\x03")
        self.shell.expect("STOPPED")
        self.shell.expect(PROMPT)
        self.say("\\watch 0.1 version")
        for _ in range(3):
            self.shell.expect("mobula [0-9.]+")
        self.shell.send("\x03")
        self.shell.expect(PROMPT)
        self.say("version")
        self.shell.expect("mobula [0-9.]+")

    def test_interrupted_value_can_be_awaited_again(self):
        self.say(f"use {PROGRAM}")
        self.shell.expect("functions")
        self.shell.expect(PROMPT)
        self.say("let x = call square 5 with resources={\"absent\":1}")
        self.shell.expect(PROMPT)
        self.say("get x")
        self.shell.expect("waiting for x for [0-9]+ s; Ctrl-C stops waiting; its task waits for a slot: [a-z]")
        self.shell.send("\x03")
        self.shell.expect("the call continues")
        self.say("call square 6")
        self.shell.expect("36")

    def interrupt(self, line):
        """Carries out a statement that blocks, and presses Ctrl-C until the prompt appears."""
        self.say(line)
        self.shell.expect("\r\n")
        self.assertEqual(self.shell.expect([ANY_PROMPT, pexpect.TIMEOUT], timeout=0.2), 1, f"{line} does not block")
        for _ in range(100):
            self.shell.send("\x03")
            if self.shell.expect([ANY_PROMPT, pexpect.TIMEOUT], timeout=0.2) == 0:
                return
        self.fail(f"no prompt after {line}")

    def test_ctrl_c_ends_statements_of_a_hanging_head(self):
        self.say(f"use {PROGRAM}")
        self.shell.expect("functions")
        self.shell.expect(PROMPT)
        with open(os.path.join(self.env["MOBULA_STATE_DIR"], "default", "head", "head.json")) as file:
            head = json.load(file)["pid"]
        os.kill(head, signal.SIGSTOP)
        try:
            for line in ("status", "list nodes", "wait nojob", 'actor c = Counter(1) with name="c" get_if_exists=true', f"use {PROGRAM}"):
                for _ in range(2):
                    self.interrupt(line)
            self.say("\\d")  # the program serves the next statement
            self.shell.expect("actor Counter")
            self.shell.expect(ANY_PROMPT)
        finally:
            os.kill(head, signal.SIGCONT)
        self.say('actor c = Counter(3) with name="c" get_if_exists=true')
        self.shell.expect(ANY_PROMPT)
        self.say("c.add(4)")
        self.shell.expect(r"\r\n[0-9]+\r\n")

    def test_prints_job_events_above_typed_line(self):
        self.shell.send("versi")
        self.mobula("submit", "--no-wait", "--name", "aside", "--", "true", check=True)
        self.shell.expect(r"job [0-9a-f]{8} \(aside\) is SUCCEEDED")
        self.shell.expect("versi")
        self.say("on")
        self.shell.expect("mobula [0-9.]+")

    def test_executes_all_pasted_lines(self):
        self.shell.send("version\rnosuchverb\rversion\r")
        self.shell.expect("mobula [0-9.]+")
        self.shell.expect("is not a command")
        self.shell.expect("mobula [0-9.]+")

    def test_arrow_moves_over_multibyte_characters(self):
        self.say("\\! echo äöx\x02\x7fü")  # Ctrl-B, then Backspace
        self.shell.expect("\r\näüx\r\n")

    def test_terminal_passes_colors_of_jobs_only(self):
        self.say("run -- printf '\\033]0;owned\\007\\033[2J\\033[31mred\\033[0m'")
        self.shell.expect(r"\r\n\\x1b\]0;owned\\x07\\x1b\[2J\x1b\[31mred\x1b\[0m")
        self.shell.expect(PROMPT)
        self.say("run --raw -- printf '\\033]0;wanted\\007'")
        self.shell.expect("\x1b\\]0;wanted\x07")

    def test_rejected_line_is_not_in_history(self):
        self.shell.send("version\r")
        self.shell.expect("mobula [0-9.]+")
        self.shell.expect(PROMPT)
        # The terminal echoes the input, which must be read concurrently.
        typist = threading.Thread(target=lambda: [self.shell.send(part) for part in ["y" * 1000] * 270 + ["\r"]])
        typist.start()
        self.shell.expect("are above the limit of")
        typist.join()
        self.say("exit")
        self.shell.expect(pexpect.EOF)
        self.assertLess(os.path.getsize(os.path.join(self.env["MOBULA_STATE_DIR"], "history")), 100_000)

    def test_ctrl_d_leaves(self):
        self.shell.send("\x04")
        self.shell.expect(pexpect.EOF)
        self.shell.wait()
        self.assertEqual(self.shell.exitstatus, 0)


class WithoutACluster(unittest.TestCase):
    def test_starts_head_and_uses_it(self):
        directory = tempfile.mkdtemp(prefix="mobula-repl-test-", dir="/tmp")
        env = environment(directory)
        try:
            shell = pexpect.spawn(MOBULA, ["start", "--head", "--num-cpus", "2", "--repl"], env=env, timeout=PATIENCE,
                                  encoding="utf-8", dimensions=(40, 200))
            shell.expect("is up. Head: ")
            shell.expect(PROMPT)
            shell.send("stop --grace 0\r")
            shell.expect("is stopped on this machine")
            shell.expect("the head does not reply")
            shell.send("status\r")
            shell.expect("mobula start --head")
            shell.send("exit\r")
            shell.expect(pexpect.EOF)
        finally:
            subprocess.run([MOBULA, "stop", "--grace", "0"], env=env, capture_output=True, timeout=PATIENCE)
            shutil.rmtree(directory, ignore_errors=True)

    def test_manual_pages_have_no_warnings(self):
        if shutil.which("man") is None:
            self.skipTest("there is no man")
        with tempfile.TemporaryDirectory() as directory:
            subprocess.run([MOBULA, "man", "--folder", directory], check=True, timeout=PATIENCE)
            pages = sorted(os.listdir(directory))
            self.assertIn("mobula-job-logs.1", pages)
            for page in pages:
                shown = subprocess.run(["man", "--warnings", "-l", os.path.join(directory, page)], text=True, timeout=PATIENCE,
                                       capture_output=True, env={**os.environ, "MANWIDTH": "100", "MAN_KEEP_FORMATTING": "", "LC_ALL": "C.UTF-8"})
                self.assertEqual((shown.returncode, shown.stderr), (0, ""), page)
                self.assertIn("EXIT STATUS", re.sub(r".\x08", "", shown.stdout), page)

    def test_bash_completes_with_the_script(self):
        env = environment("/nonexistent")
        line = "source <(mobula completion bash); COMP_LINE='mobula job l'; COMP_POINT=12; _mobula; echo ${COMPREPLY[@]}"
        done = subprocess.run(["bash", "-c", line], env=env, text=True, capture_output=True, timeout=PATIENCE)
        self.assertEqual(done.stdout.strip(), "list logs", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
