"""Runs tools/argument_path.py on copies of the files that it names, each with one fault."""

import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import argument_path


class ArgumentPath(unittest.TestCase):
    def setUp(self):
        self.root = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.root)
        rows = [files for way in argument_path.WAYS.values() for files, _ in way + argument_path.SENDING]
        rows += [files for files, _, _ in argument_path.JOINTS]
        for name in sorted({name for files in rows for name in files.split()}):
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, self.root / name)

    def replace(self, name, pattern, text):
        path = self.root / name
        before = path.read_text()
        after = re.sub(pattern, text, before, count=1)
        self.assertNotEqual(before, after, name)
        path.write_text(after)

    def run_check(self):
        return subprocess.run([sys.executable, ROOT / "tools/argument_path.py", "--root", self.root],
                              capture_output=True, text=True)

    def test_accepts_the_tree(self):
        result = self.run_check()
        self.assertEqual((result.returncode, result.stdout), (0, ""))

    def test_detects_wrapper_between_two_files(self):
        self.replace("client/engine/process_engine.cc", r"core\(\)\.consume\(now,", "caller_.consume(now,")
        result = self.run_check()
        self.assertEqual(result.returncode, 1)
        self.assertIn("'void ProcessEngine::take(Event&& event)' does not contain", result.stdout)

    def test_detects_removed_function(self):
        self.replace("client/executor/call_runner.cc", r"void CallRunner::take\(", "void CallRunner::queue_calls(")
        self.assertIn("no function 'void CallRunner::take(' exists", self.run_check().stdout)

    def test_detects_other_joint(self):
        self.replace("client/engine/callee/process_engine_callee.cc", r"runner_->take\(commands\)", "callee_->take(commands)")
        self.assertIn("'void ProcessEngine::carry_out(' does not contain", self.run_check().stdout)

    def test_counts_files(self):
        way = argument_path.WAYS["task"]
        self.addCleanup(way.pop)
        way.append(("include/mobula/detail/submit.h", []))
        self.assertIn("the way has 13 files; the limit is 12", argument_path.check(self.root, "task")[1])

    def test_detects_return(self):
        way = argument_path.WAYS["task"]
        self.addCleanup(way.pop)
        way.append(("client/engine/callee/callee_half.h client/engine/callee/callee_half.cc", []))
        self.assertIn("client/engine/callee/callee_half.h client/engine/callee/callee_half.cc: the way returns to it",
                      argument_path.check(self.root, "task")[1])


if __name__ == "__main__":
    unittest.main()
