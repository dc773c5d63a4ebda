#!/usr/bin/env python3
"""Renders the report of a sample experiment in a browser.

Usage: report_render_test.py TUNE_REPORT_TEST SCREENSHOT_DIRECTORY
TUNE_REPORT_TEST writes the page. Saves a screenshot. Exits with 77 if there is no browser.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

try:
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By
except ImportError:
    print("report_render_test: skipped: python3-selenium is not installed (tools/packages.txt)")
    sys.exit(77)

WRITER, PICTURES = [os.path.abspath(path) for path in sys.argv[1:3]]
BROWSER, BROWSER_DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
if not BROWSER or not BROWSER_DRIVER:
    print("report_render_test: skipped: chromium or chromium-driver is not installed (tools/packages.txt)")
    sys.exit(77)


def open_browser(profile):
    options = Options()
    options.binary_location = BROWSER
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1240,3100",
                 "--hide-scrollbars", "--disable-background-networking", "--disable-component-update", "--no-first-run",
                 f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(service=Service(BROWSER_DRIVER), options=options)


class ReportPage(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        directory = tempfile.mkdtemp(prefix="mobula-report-")
        cls.addClassCleanup(shutil.rmtree, directory, ignore_errors=True)
        page = os.path.join(directory, "report.html")
        subprocess.run([WRITER, "--gtest_filter=ReportPage.HasEveryPlot"], check=True, stdout=subprocess.DEVNULL,
                       env=dict(os.environ, MOBULA_WRITE_REPORT=page))
        cls.browser = open_browser(os.path.join(directory, "profile"))
        cls.addClassCleanup(cls.browser.quit)
        cls.browser.get("file://" + page)

    def count(self, selector):
        return len(self.browser.find_elements(By.CSS_SELECTOR, selector))

    def test_draws_every_plot_without_errors(self):
        self.assertGreaterEqual(self.count("svg"), 9)
        self.assertEqual(self.count("section.card"), 8)
        self.assertEqual([line for line in self.browser.get_log("browser") if line["level"] == "SEVERE"], [])
        requests = self.browser.execute_script("return performance.getEntriesByType('resource').length")
        self.assertEqual(requests, 0)
        # Marks are within their plots.
        outside = self.browser.execute_script("""
          return [...document.querySelectorAll('svg circle, svg rect')].filter((mark) => {
            const inner = mark.getBoundingClientRect(), outer = mark.closest('svg').getBoundingClientRect();
            return inner.left < outer.left - 1 || inner.right > outer.right + 1 || inner.top < outer.top - 1 ||
                   inner.bottom > outer.bottom + 1;
          }).length""")
        self.assertEqual(outside, 0)
        os.makedirs(PICTURES, exist_ok=True)
        self.browser.save_screenshot(os.path.join(PICTURES, "report.png"))

    def test_highlights_a_trial_in_all_plots(self):
        row = self.browser.find_element(By.CSS_SELECTOR, "tr[data-t]")
        trial = row.get_attribute("data-t")
        ActionChains(self.browser).move_to_element(row).perform()
        self.assertEqual(self.count(".on"), self.count(f"[data-t='{trial}']"))
        self.assertGreater(self.count(".on"), 2)
        self.assertEqual(self.browser.find_element(By.ID, "tip").text, f"trial {trial}")

    def test_fits_a_narrow_window(self):
        width = self.browser.get_window_size()
        self.browser.set_window_size(500, 900)
        self.addCleanup(self.browser.set_window_size, width["width"], width["height"])
        overflow = self.browser.execute_script("return document.documentElement.scrollWidth - innerWidth")
        self.assertLessEqual(overflow, 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
