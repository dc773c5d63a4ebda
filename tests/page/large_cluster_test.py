#!/usr/bin/env python3
"""Counts the work of the web page for a cluster of 1,000 nodes of 8 GPUs and 10,000 actors: requests, bytes, and elements.

Usage: large_cluster_test.py MOBULA_BENCH_PAGE [TEST...]. Exits with 77 if there is no browser. Times are measured by bench/queries/page_cost.py.
"""

import os
import shutil
import subprocess
import sys
import unittest

try:
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.support.ui import WebDriverWait
except ImportError:
    print("large_cluster_test: skipped: python3-selenium is not installed (tools/packages.txt)")
    sys.exit(77)

SERVER = os.path.abspath(sys.argv[1])
BROWSER, BROWSER_DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
PATIENCE = 120  # seconds; the machine may be busy
NODES, ACTORS = 1000, 10_000
# Notes the requests before the first picture, and its elements.
NOTE_REQUESTS = """
  window.asked = [];
  const fetch_document = window.fetch;
  window.fetch = (...words) => { window.asked.push(String(words[0])); return fetch_document(...words); };
  const watch = new MutationObserver(() => {
    const content = document.querySelector("[data-testid='content']");
    if (!content || content.hidden) return;
    watch.disconnect();
    window.before = [...window.asked];
    window.elements = document.getElementsByTagName("*").length;
  });
  watch.observe(document, { subtree: true, childList: true, attributes: true, attributeFilter: ["hidden"] });
"""


def open_browser():
    options = Options()
    options.binary_location = BROWSER
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1440,900",
                 "--disable-background-networking", "--disable-component-update", "--no-first-run"):
        options.add_argument(flag)
    return webdriver.Chrome(service=Service(BROWSER_DRIVER), options=options)


def setUpModule():
    global browser, link
    server = subprocess.Popen([SERVER, str(NODES), str(ACTORS), "600"], stdout=subprocess.PIPE, text=True)
    unittest.addModuleCleanup(server.wait)
    unittest.addModuleCleanup(server.kill)
    unittest.addModuleCleanup(server.stdout.close)
    link = server.stdout.readline().split()[0]
    browser = open_browser()
    unittest.addModuleCleanup(browser.quit)


class LargeCluster(unittest.TestCase):
    def setUp(self):
        first = browser.current_window_handle
        browser.switch_to.new_window("tab")
        self.addCleanup(browser.switch_to.window, first)
        self.addCleanup(browser.close)
        browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": NOTE_REQUESTS})
        browser.get(link)
        self.wait("document.documentElement.dataset.whole === 'overview'")

    def wait(self, condition):
        return WebDriverWait(browser, PATIENCE, 0.1).until(lambda _: browser.execute_script(f"return {condition}"), f"waits for {condition}")

    def visit(self, view):
        browser.execute_script("location.hash = '#/' + arguments[0]", view)
        self.wait(f"document.documentElement.dataset.whole === '{view}'")

    def bytes_of(self, name):
        """Bytes of the largest answer to a request whose address contains the text."""
        return browser.execute_script(
            "return Math.max(0, ...performance.getEntriesByType('resource').filter((each) => each.name.includes(arguments[0])).map((each) => each.encodedBodySize))",
            name)

    def elements(self):
        return browser.execute_script("return document.getElementsByTagName('*').length")

    def rows(self):
        return browser.execute_script("return document.querySelectorAll('main tbody tr').length")

    def test_first_picture_needs_one_small_document(self):
        asked = browser.execute_script("return window.before.map((each) => each.replace('/api/v1/', '').split('?')[0])")
        self.assertEqual(set(asked), {"status", "changes"})
        self.assertLess(self.bytes_of("/status"), 4_000)
        files = sum(self.bytes_of(name) for name in ("/page.js", "/page.css"))
        self.assertLess(files, 40_000, "compressed")
        self.assertLess(browser.execute_script("return window.elements"), 500)

    def requests(self):
        """Paths of all requests, without parameters."""
        return set(browser.execute_script("return performance.getEntriesByType('resource').map((each) => new URL(each.name).pathname.replace('/api/v1/', ''))"))

    def test_no_view_requests_a_whole_list(self):
        for view in ("overview", "gpus", "queue", "jobs", "actors", "groups", "logs"):
            self.visit(view)
        limited = {"status", "nodes", "gpus", "jobs", "actors", "placement-groups", "logs"}
        self.assertLessEqual(limited, self.requests())
        self.assertLessEqual(self.requests() - limited, {"changes", "history", "task-counts", "events", "log", "/page.js", "/page.css"})
        unlimited = browser.execute_script(
            "return performance.getEntriesByType('resource').map((each) => each.name).filter((name) => "
            "new RegExp(`/api/v1/(${arguments[0]})`).test(name) && !/[?&]limit=/.test(name))", "|".join(f"{name}\\b" for name in limited))
        self.assertEqual(unlimited, [])
        self.assertLess(self.bytes_of("/api/"), 400_000)

    def test_gpu_map_has_a_part_of_the_nodes(self):
        self.visit("gpus")
        tiles = "document.querySelectorAll('[data-testid=gpu]').length"
        self.assertEqual(browser.execute_script(f"return {tiles}"), 64 * 8)
        self.assertIn("8,000 GPUs", browser.execute_script("return document.querySelector('main').textContent"))
        self.assertLess(self.bytes_of("/gpus"), 400_000)
        self.assertIn("936 more nodes", browser.execute_script("return document.querySelector('main').textContent"))
        browser.find_element("css selector", "[data-testid=filter]").send_keys("NODE777.")
        self.wait(f"{tiles} === 8")
        self.assertIn("node777.cluster", browser.execute_script("return document.querySelector('main').textContent"))
        browser.execute_script("document.querySelector('[data-testid=gpu]').click()")
        self.wait("document.querySelector('[data-testid=drawer]').textContent.includes('used bytes')")

    def test_overview_needs_no_whole_list(self):
        self.assertLess(self.bytes_of("/nodes"), 40_000)
        self.wait("document.querySelector('[data-testid=card-cpu-in-use]').textContent.includes('of 64,000 cores')")
        total = browser.execute_script("return performance.getEntriesByType('resource').reduce((sum, each) => sum + each.encodedBodySize, 0)")
        self.assertLess(total, 500_000, "with several samples of the load")
        self.assertEqual(self.rows(), 50)
        self.assertLess(self.elements(), 2_500)
        self.assertIn("950 more rows", browser.execute_script("return document.querySelector('main').textContent"))

    def test_actors_are_fetched_in_parts(self):
        self.visit("actors")
        self.assertLess(self.bytes_of("/actors"), 100_000)
        self.assertEqual(self.rows(), 200)
        self.assertLess(self.elements(), 4_500)
        self.wait("document.querySelector('main').textContent.includes('10,000 in all')")
        browser.execute_script("document.querySelector('.more button').click()")
        self.wait("document.querySelectorAll('main tbody tr').length === 1000")
        self.wait("document.querySelector('.more').textContent === '9,000 more rows. Filter the list to find them.'")

    def test_logs_are_fetched_in_parts(self):
        self.visit("logs")
        names = "[...document.querySelectorAll('[data-testid=log]')].map((each) => each.textContent)"
        self.assertEqual(browser.execute_script(f"return {names}.length"), 200)
        self.assertLess(self.bytes_of("/logs"), 100_000)
        self.assertIn("16,001 logs", browser.execute_script("return document.querySelector('main').textContent"))
        self.assertIn("15,801 more logs", browser.execute_script("return document.querySelector('main').textContent"))
        browser.find_element("css selector", "[data-testid=filter]").send_keys("NODE777.")
        self.wait(f"{names}.length === 16 && {names}.every((each) => each.includes('node777.cluster.example'))")
        browser.execute_script("document.querySelectorAll('[data-testid=log]')[3].click()")
        self.wait(f"{names}.length === 16 && document.querySelector('[data-testid=filter]').value === 'NODE777.'")

    def test_heap_is_bounded(self):
        """Visits each view several times. A closed view keeps no memory."""
        sizes = []
        for _ in range(4):
            for view in ("gpus", "queue", "jobs", "actors", "groups", "tasks", "logs", "events", "overview"):
                self.visit(view)
            browser.execute_cdp_cmd("HeapProfiler.collectGarbage", {})
            browser.execute_cdp_cmd("Performance.enable", {})
            metrics = browser.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
            sizes.append(next(each["value"] for each in metrics if each["name"] == "JSHeapUsedSize"))
        self.assertLess(max(sizes), 80e6, sizes)
        self.assertLess(sizes[-1], 2 * sizes[0], sizes)

    def test_filter_finds_rows_that_the_page_does_not_have(self):
        self.visit("actors")
        shown = "[...document.querySelectorAll('main tbody tr')].map((each) => each.dataset.key)"
        first = set(browser.execute_script(f"return {shown}"))
        last = browser.execute_async_script(
            "const done = arguments[0]; fetch('/api/v1/actors', { headers: { Authorization: `Bearer ${sessionStorage.getItem('mobula.token')}` } })"
            ".then((answer) => answer.json()).then((list) => done(list.items.at(-1).actor_id))")
        self.assertNotIn(last, first)
        field = browser.find_element("css selector", "[data-testid=filter]")
        field.send_keys(last.upper())
        self.wait(f"JSON.stringify({shown}) === '[\"{last}\"]'")
        field.clear()
        field.send_keys(" \b")
        self.wait("document.querySelectorAll('main tbody tr').length === 200")


if __name__ == "__main__":
    if BROWSER is None or BROWSER_DRIVER is None:
        print("large_cluster_test: skipped: chromium and chromium-driver are not installed (tools/packages.txt)")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
