"""Feeds recorded results to bench/compare/report.py, and checks the page and the picture.

Needs no other system and no cluster: the input is one recorded turn of each system, and the published results.
"""

import copy
import json
import re
import sys
import tempfile
import unittest
import xml.etree.ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COMPARE = ROOT / "bench" / "compare"
sys.dont_write_bytecode = True
sys.path.insert(0, str(COMPARE))
import report  # noqa: E402  (in the directory of the tested program)


def turn(number, peer, failed=None, **means):
    figures = {key.replace("_1_1_", "1_1_"): {"mean": mean, "sd": 0, "unit": "1/s", "runs": 4}
               for key, mean in means.items()}
    return {"round": number, "peer": peer, "seconds": 1, "load_before": 0.1, "load_after": 0.2,
            "cores_of_others": 0.01, "figures": figures, "failed": failed or {}}


RECORDED = {
    "date": "2026-01-02", "quick": False, "skipped": {"dask": "it is not installed."},
    "machine": {"cpu": "A processor", "cores": 2, "memory_gib": 24, "kernel": "Linux 6"},
    "versions": {"Mobula": "0.1.0", "Ray": "2.60.0"},
    "turns": [
        turn(1, "mobula", single_client_tasks_sync=30000, _1_1_actor_calls_sync=9000),
        turn(1, "ray_python", single_client_tasks_sync=700, _1_1_actor_calls_sync=1000),
        turn(1, "ray_cpp", single_client_tasks_sync=1000, _1_1_actor_calls_sync=2000),
        turn(1, "grpc", grpc_unary_echo_sync=10000),
        turn(2, "mobula", single_client_tasks_sync=20000, _1_1_actor_calls_sync=9000),
        turn(2, "ray_python", single_client_tasks_sync=500, _1_1_actor_calls_sync=900),
        turn(2, "ray_cpp", single_client_tasks_sync=800, failed={"1_1_actor_calls_sync": "late"}),
    ],
}
RECORDED["turns"][0]["figures"]["single_client_tasks_sync"]["floor"] = {
    "name": "round trip of two spinning processes", "value": 0.28, "unit": "us"}


def written(results):
    with tempfile.TemporaryDirectory() as directory:
        report.write(results, Path(directory))
        return ((Path(directory) / "performance.md").read_text(encoding="utf-8"),
                (Path(directory) / "performance.svg").read_text(encoding="utf-8"))


def row(page, title):
    return next(line for line in page.splitlines() if line.startswith(f"| {title}"))


class Page(unittest.TestCase):
    def test_compares_with_the_better_of_rays_two_figures(self):
        page, _ = written(RECORDED)
        cells = row(page, "tasks, one at a time")
        self.assertIn("| 25,000 (20,000–30,000) | 600 (500–700) | 900 (800–1,000) | – |", cells)
        self.assertIn("| 27.5 (25.0–30.0) | 20 | met |", cells)
        self.assertIn("| 0.280 µs |", cells)

    def test_states_missed_target_as_missed(self):
        page, _ = written(RECORDED)
        self.assertIn("| 7.25 (4.50–10.0) | 10 | **missed**, met in 1 of 2 rounds |",
                      row(page, "actor calls, one at a time (`1_1_"))
        self.assertIn("| 0.900 | ≥ 1 | **missed** |",
                      row(page, "actor calls, one at a time, over gRPC"))

    def test_states_unmeasured_rows(self):
        page, _ = written(RECORDED)
        self.assertIn("not measured", row(page, "start of a local cluster to the first result, ms"))
        self.assertIn("Dask was left out: it is not installed.", page)
        self.assertIn("Ray, C++ failed: late.", page)

    def test_states_load_and_shortened_runs(self):
        quiet, _ = written(RECORDED)
        self.assertNotIn("other work ran", quiet)
        self.assertNotIn("Shortened runs", quiet)
        loaded = copy.deepcopy(RECORDED)
        loaded["quick"] = True
        loaded["turns"][3].update(load_after=7.5, cores_of_others=0.9)
        page, _ = written(loaded)
        self.assertIn("other work ran", page)
        self.assertIn("0.1 to 7.5", page)
        self.assertIn("0.01 to 0.90 of its 2 cores", page)
        self.assertIn("Shortened runs", page)

    def test_less_time_counts_as_being_ahead(self):
        results = copy.deepcopy(RECORDED)
        for place, mean in ((0, 100), (1, 3000)):
            results["turns"][place]["figures"]["start_to_first_result"] = {
                "mean": mean, "sd": 0, "unit": "ms", "runs": 1}
        page, _ = written(results)
        self.assertIn("| 30.0 |", row(page, "start of a local cluster to the first result (`"))
        self.assertIn("| 100 | ≤ 300 | met |",
                      row(page, "start of a local cluster to the first result, ms"))

    def test_leaves_no_placeholder_of_the_template(self):
        page, _ = written(RECORDED)
        self.assertNotRegex(page, r"\{\{|\}\}|<!--")

    def test_published_page_has_published_results(self):
        results = json.loads((COMPARE / "results.json").read_text(encoding="utf-8"))
        page, picture = written(results)
        self.assertEqual((ROOT / "docs/performance.md").read_text(encoding="utf-8"), page)
        self.assertEqual((ROOT / "docs/performance.svg").read_text(encoding="utf-8"), picture)
        for target in re.findall(r"\]\(([^)#:]+)\)", page):
            self.assertTrue((ROOT / "docs" / target).exists(), target)


class Picture(unittest.TestCase):
    def test_draws_each_ratio_inside_the_frame(self):
        _, picture = written(RECORDED)
        root = xml.etree.ElementTree.fromstring(picture)
        width, height = map(float, root.get("viewBox").split()[2:])
        dots = root.findall("{*}circle")
        self.assertEqual(2, len(dots))
        for dot in dots:
            self.assertTrue(0 < float(dot.get("cx")) < width and 0 < float(dot.get("cy")) < height)
        self.assertEqual([report.AHEAD, report.BEHIND], [dot.get("fill") for dot in dots])


class Numbers(unittest.TestCase):
    def test_have_three_significant_digits(self):
        for value, text in ((0, "0"), (0.05129, "0.0513"), (1, "1.00"), (99.96, "100"),
                            (48231, "48,200"), (9.999, "10.0")):
            self.assertEqual(text, report.number(value))


if __name__ == "__main__":
    unittest.main()
