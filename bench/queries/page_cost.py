#!/usr/bin/env python3
"""Measures the web page of the head in a browser, and what the page and metrics cost the head.

    python3 bench/queries/page_cost.py build/release/bin/mobula [--seconds 30] [--loads 7] [--rest 60] [-o table|json]
    python3 bench/queries/page_cost.py --link http://127.0.0.1:PORT/#TOKEN --pid PID      a head that runs already, such as
                                                                                  mobula-bench-page of bench/queries/page_scale.cc

Figures: bytes of the files; time from the navigation to the first picture with data; time of the browser's main thread and
of the head per second of an open page; heap of the page; processor time and memory of the head at rest without HTTP, and
with HTTP and a scrape every 15 s. The time of the head without a page is subtracted.
"""
import argparse
import gzip
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

VIEWS = ("overview", "gpus", "actors", "stream")
NOTE_FIRST_PICTURE = """
  const shown = () => {
    const content = document.querySelector("[data-testid='content']");
    if (!content || content.hidden) return false;
    requestAnimationFrame(() => setTimeout(() => (window.firstPicture ??= performance.now()), 0));
    if (document.documentElement.dataset.whole !== "overview") return false;
    requestAnimationFrame(() => setTimeout(() => (window.wholePicture ??= performance.now()), 0));
    return true;
  };
  const watch = new MutationObserver(() => shown() && watch.disconnect());
  watch.observe(document, { subtree: true, childList: true, attributes: true, attributeFilter: ["hidden", "data-whole"] });
"""


def processor_seconds(pid):
    """User and system time of all threads that the process has or had (clock_getcpuclockid(3))."""
    return time.clock_gettime((~pid << 3) | 2)


def resident_mib(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS")) / 1024


class Cluster:
    def __init__(self, mobula, *words):
        self.mobula = mobula
        self.directory = tempfile.TemporaryDirectory(prefix="mobula-page-cost-")
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("MOBULA_")}
        self.environment.update(MOBULA_STATE_DIR=self.directory.name, XDG_RUNTIME_DIR=self.directory.name)
        self.run("start", "--head", "--num-cpus", "4", *words)
        with open(os.path.join(self.directory.name, "default", "head", "head.json"), encoding="utf-8") as file:
            self.pid = json.load(file)["pid"]

    def run(self, *words):
        return subprocess.run([self.mobula, *words], env=self.environment, capture_output=True, text=True, check=True,
                              timeout=90).stdout.strip()

    def stop(self):
        self.run("stop", "--grace", "0")
        self.directory.cleanup()


def rate(pid, seconds):
    """Percent of a core that the process uses."""
    before, begun = processor_seconds(pid), time.monotonic()
    time.sleep(seconds)
    return 100 * (processor_seconds(pid) - before) / (time.monotonic() - begun)


def sizes(link):
    plain = packed = 0
    for path in ("/", "/page.js", "/page.css"):
        with urllib.request.urlopen(link.split("/#")[0] + path, timeout=30) as answer:
            text = answer.read()
        plain += len(text)
        packed += len(gzip.compress(text, 9))
    return {"plain_kb": plain / 1000, "gzip_kb": packed / 1000}


class Browser:
    def __init__(self):
        from selenium import webdriver
        from selenium.webdriver.chrome.options import Options
        from selenium.webdriver.chrome.service import Service
        options = Options()
        options.binary_location = "/usr/bin/chromium"
        for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1440,900",
                     "--disable-background-networking", "--disable-component-update", "--no-first-run"):
            options.add_argument(flag)
        self.driver = webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)
        self.driver.execute_cdp_cmd("Performance.enable", {})
        self.first = self.driver.current_window_handle

    def first_picture(self, link):
        """Milliseconds until the overview is drawn, at first and with all its documents, in a new tab, which stays open."""
        self.driver.switch_to.new_window("tab")
        self.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": NOTE_FIRST_PICTURE})
        self.driver.execute_cdp_cmd("Network.enable", {})
        self.driver.execute_cdp_cmd("Network.setCacheDisabled", {"cacheDisabled": True})
        self.driver.get(link)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            seen = self.driver.execute_script("return window.wholePicture && [window.firstPicture, window.wholePicture]")
            if seen:
                return seen
            time.sleep(0.02)
        raise RuntimeError("the page has drawn nothing within 60 s")

    def processor_seconds(self):
        """Processor time of the browser and its processes, also ended ones."""
        total, children = 0.0, {}
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{name}/stat", encoding="utf-8") as file:
                    fields = file.read().rsplit(")", 1)[1].split()
            except OSError:
                continue
            children.setdefault(int(fields[1]), []).append((int(name), sum(map(int, fields[11:15]))))
        left = [self.driver.service.process.pid]
        while left:
            for child, ticks in children.get(left.pop(), []):
                total += ticks
                left.append(child)
        return total / os.sysconf("SC_CLK_TCK")

    def close_tab(self):
        self.driver.close()
        self.driver.switch_to.window(self.first)

    def metrics(self):
        self.driver.execute_cdp_cmd("Performance.enable", {})
        return {each["name"]: each["value"] for each in self.driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]}

    def view(self, name):
        self.driver.execute_script("location.hash = '#/' + arguments[0]", name)
        time.sleep(3)


def page(link, pid, arguments):
    browser = Browser()
    try:
        loads = []
        for _ in range(arguments.loads):
            head, begun = processor_seconds(pid), browser.processor_seconds()
            first, whole = browser.first_picture(link)
            loads.append((first, whole, 1000 * (processor_seconds(pid) - head), 1000 * (browser.processor_seconds() - begun)))
            browser.close_tab()
        found = {name: {"median": statistics.median(values), "largest": max(values), "least": min(values)}
                 for name, values in zip(("first_picture_ms", "whole_picture_ms", "head_ms", "browser_ms"), zip(*loads))}
        found["views"] = {}
        rest = rate(pid, arguments.seconds)
        browser.first_picture(link)
        for name in VIEWS:
            browser.view(name)
            before, begun = browser.metrics(), time.monotonic()
            head = rate(pid, arguments.seconds)
            after, took = browser.metrics(), time.monotonic() - begun
            found["views"][name] = {"head_percent": head - rest,
                                    "browser_ms_per_s": 1000 * (after["TaskDuration"] - before["TaskDuration"]) / took,
                                    "draw_ms": int(browser.driver.execute_script("return document.documentElement.dataset.drawMs")),
                                    "heap_mb": after["JSHeapUsedSize"] / 1e6}
        found["head_percent_without_page"] = rest
        return found
    finally:
        browser.driver.quit()


def at_rest(mobula, seconds, words, scrapes):
    cluster = Cluster(mobula, *words)
    try:
        link = cluster.run("page") if scrapes else ""
        time.sleep(10)
        before, begun = processor_seconds(cluster.pid), time.monotonic()
        while time.monotonic() < begun + seconds:
            if scrapes:
                url, token = link.split("/#")
                request = urllib.request.Request(url + "/metrics", headers={"Authorization": f"Bearer {token}"})
                urllib.request.urlopen(request, timeout=30).read()
            time.sleep(min(15, max(0.1, begun + seconds - time.monotonic())))
        return {"percent": 100 * (processor_seconds(cluster.pid) - before) / (time.monotonic() - begun),
                "resident_mib": resident_mib(cluster.pid)}
    finally:
        cluster.stop()


def table(found):
    rows = [("all files", "≤ 150 KB", f"{found['sizes']['plain_kb']:.1f} KB, {found['sizes']['gzip_kb']:.1f} KB with gzip")]
    for name, key, limit in (("first picture", "first_picture_ms", "≤ 300 ms (1,000 nodes: ≤ 1 s)"), ("with all documents", "whole_picture_ms", ""),
                             ("processor time of the head until then", "head_ms", ""), ("processor time of the browser", "browser_ms", "")):
        rows.append((name, limit, f"{found[key]['median']:.0f} ms ({found[key]['least']:.0f} to {found[key]['largest']:.0f})"))
    for name, view in found["views"].items():
        rows.append((f"open page, {name}", "head ≤ 0.7 %, refresh ≤ 50 ms", f"head {view['head_percent']:.2f} %, browser "
                     f"{view['browser_ms_per_s']:.1f} ms/s, draw {view['draw_ms']} ms, heap {view['heap_mb']:.1f} MB"))
    if "rest" in found:
        off, on = found["rest"]["without"], found["rest"]["with"]
        rows.append(("metrics at rest", "≤ +0.1 %, ≤ +4 MiB", f"{on['percent'] - off['percent']:+.3f} %, "
                     f"{on['resident_mib'] - off['resident_mib']:+.1f} MiB ({off['percent']:.3f} % and {off['resident_mib']:.1f} "
                     "MiB without)"))
    print("| figure | limit | measured |\n| --- | --- | --- |")
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print(f"\nload average {found['load'][0]:.1f} before and {found['load'][1]:.1f} after", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("mobula", nargs="?")
    parser.add_argument("--link", help="link of a running head (default: start one)")
    parser.add_argument("--pid", type=int, help="process id of that head")
    parser.add_argument("--seconds", type=float, default=30, help="seconds per view")
    parser.add_argument("--loads", type=int, default=7)
    parser.add_argument("--rest", type=float, default=60, help="seconds at rest; 0: left out")
    parser.add_argument("-o", choices=("table", "json"), default="table", dest="output")
    arguments = parser.parse_args()
    before = os.getloadavg()[0]
    if arguments.link:
        found = page(arguments.link, arguments.pid, arguments)
        found["sizes"] = sizes(arguments.link)
    else:
        mobula = os.path.abspath(arguments.mobula)
        cluster = Cluster(mobula, "--http", "127.0.0.1:0")
        try:
            link = cluster.run("page")
            found = page(link, cluster.pid, arguments)
            found["sizes"] = sizes(link)
        finally:
            cluster.stop()
        if arguments.rest > 0:
            found["rest"] = {"without": at_rest(mobula, arguments.rest, (), False),
                             "with": at_rest(mobula, arguments.rest, ("--http", "127.0.0.1:0"), True)}
    found["load"] = [before, os.getloadavg()[0]]
    if arguments.output == "json":
        json.dump(found, sys.stdout)
        print()
    else:
        table(found)


if __name__ == "__main__":
    main()
