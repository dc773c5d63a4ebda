#!/usr/bin/env python3
"""Tests the web page of the head in a browser, against a cluster of two agents with simulated GPUs.

Usage: page_test.py MOBULA DRIVER FAKE_NVML SCREENSHOT_DIRECTORY [TEST...]
Saves a screenshot of each view. Exits with 77 if there is no browser.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
import urllib.error
import urllib.parse
import urllib.request

try:
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import WebDriverWait
except ImportError:
    print("page_test: skipped: python3-selenium is not installed (tools/packages.txt)")
    sys.exit(77)

MOBULA, DRIVER, FAKE_NVML, PICTURES = [os.path.abspath(path) for path in sys.argv[1:5]]
BROWSER, BROWSER_DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
PATIENCE = 90  # seconds; the machine may be busy
VIEWS = ["overview", "gpus", "queue", "jobs", "actors", "groups", "tasks", "stream", "transfers", "logs", "events", "experiments"]
HOSTILE = "<img src=x onerror=document.title='owned'>"
SCRIPT = "<script>document.title='owned'</script>"
NOTE_VIOLATIONS = """
  window.violations = [];
  document.addEventListener('securitypolicyviolation',
                            (event) => window.violations.push(event.violatedDirective + ' ' + event.blockedURI));
"""

# Notes the requests before the first picture.
NOTE_REQUESTS = """
  const asked = [];
  const fetch_document = window.fetch;
  window.fetch = (...words) => { asked.push(String(words[0]).split("?")[0]); return fetch_document(...words); };
  const watch = new MutationObserver(() => {
    const content = document.querySelector("[data-testid='content']");
    if (!content || content.hidden) return;
    watch.disconnect();
    window.before = [...asked];
  });
  watch.observe(document, { subtree: true, childList: true, attributes: true, attributeFilter: ["hidden"] });
"""
# Appends hostile text to every text of every document that the page fetches, also to names of resources and labels.
MAKE_HOSTILE = r"""
  const markup = "<img src=x onerror=document.title='owned'><script>document.title='owned'</script>";
  const tail = markup + "\u202egpj.exe\u200b\u0000\u001b[31m\ud800";
  const fetch_document = window.fetch;
  const own = ["apiVersion", "kind", "next", "epoch_id"];
  let long_texts = 0;
  const hostile = (value, key) => {
    if (typeof value === "string") {
      const is_long = /^(name|host|text|reason|class_name|config|error|log)$/.test(key) && ++long_texts < 20;
      return value + tail + (is_long ? "W".repeat(10240) : "");
    }
    if (Array.isArray(value)) return value.map((each) => hostile(each, key));
    if (value === null || typeof value !== "object") return value;
    const named = key === "resources" || key === "labels";
    return Object.fromEntries(Object.entries(value).map(([name, each]) =>
      [named ? name + tail : name, own.includes(name) ? each : hostile(each, name)]));
  };
  window.fetch = async (...words) => {
    const answer = await fetch_document(...words);
    const text = await answer.text();
    const path = String(words[0]);
    if (!answer.ok || /changes|history/.test(path)) return new Response(text, { status: answer.status });
    long_texts = 0;
    return new Response(JSON.stringify(hostile(JSON.parse(text), "")), { status: answer.status });
  };
"""


def open_browser():
    options = Options()
    options.binary_location = BROWSER
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1440,900",
                 "--hide-scrollbars", "--disable-background-networking", "--disable-component-update", "--no-first-run"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(service=Service(BROWSER_DRIVER), options=options)


class Cluster:
    """The cluster of all tests, and its driver."""

    def __init__(self, directory):
        gpus = os.path.join(directory, "nvml")
        with open(gpus, "w", encoding="utf-8") as file:
            file.write("driver|550.54\n")
            for i in range(4):
                file.write(f"gpu|NVIDIA H100 80GB HBM3|GPU-{i}abc|85899345920|00000000:{i + 1}A:00.0|0\n")
        self.env = {name: value for name, value in os.environ.items() if not name.startswith("MOBULA_")}
        self.env.update(MOBULA_STATE_DIR=os.path.join(directory, "state"), LC_ALL="C.UTF-8",
                        MOBULA_NVML_LIBRARY=FAKE_NVML, FAKE_NVML_FILE=gpus,
                        MOBULA_TUNE_STORAGE=os.path.join(directory, "tune"))
        self.other = dict(self.env, MOBULA_STATE_DIR=os.path.join(directory, "other"))

    def start(self):
        unittest.addModuleCleanup(self.mobula, "stop", "--grace", "0")
        started = json.loads(self.start_head("127.0.0.1:0", "-o", "json").stdout)
        self.url = started["http"]["url"]
        unittest.addModuleCleanup(self.mobula, "stop", "--grace", "0", env=self.other)
        self.mobula("start", "--address", started["address"], "--key", started["key_file"], "--num-cpus", "4",
                    "--num-gpus", "0", "--labels", "zone=b", env=self.other, check=True)
        self.program = subprocess.Popen([DRIVER], env=self.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        stderr=subprocess.DEVNULL)
        unittest.addModuleCleanup(self.end_program)
        line = self.program.stdout.readline()
        if line != "ready\n":
            raise AssertionError(f"the driver has printed {line!r}")
        self.link = self.mobula("page", check=True).stdout.strip()
        output = f"echo \"{SCRIPT}\"; exit 3"
        self.mobula("submit", "--no-wait", "--name", "nightly <i>check</i>", "--", "/bin/sh", "-c", output, check=True)

    def start_head(self, http, *words):
        return self.mobula("start", "--head", "--num-cpus", "4", "--labels", "zone=a", "--http", http, *words, check=True)

    def kill_head(self):
        with open(os.path.join(self.env["MOBULA_STATE_DIR"], "default", "head", "head.json"), encoding="utf-8") as file:
            os.kill(json.load(file)["pid"], signal.SIGKILL)

    def end_program(self):
        self.program.stdin.close()
        self.program.kill()
        self.program.wait()
        self.program.stdout.close()

    def mobula(self, *words, env=None, check=False):
        return subprocess.run([MOBULA, *words], env=env or self.env, text=True, capture_output=True, timeout=PATIENCE,
                              check=check)


def setUpModule():
    global browser, cluster
    os.makedirs(PICTURES, exist_ok=True)
    directory = tempfile.mkdtemp(prefix="mobula-page-test-", dir="/tmp")
    unittest.addModuleCleanup(shutil.rmtree, directory, ignore_errors=True)
    cluster = Cluster(directory)
    cluster.start()
    browser = open_browser()
    unittest.addModuleCleanup(browser.quit)


class InABrowser(unittest.TestCase):
    """Each test has its own tab, and thus no token."""

    def setUp(self):
        self.browser = browser
        first = browser.current_window_handle
        browser.switch_to.new_window("tab")
        browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": NOTE_VIOLATIONS})
        self.addCleanup(browser.switch_to.window, first)
        self.addCleanup(browser.close)
        self.addCleanup(browser.execute_script, "localStorage.clear()")
        self.network_may_fail = False
        self.addCleanup(self.check_console)

    def check_console(self):
        """No script failed, and the policy blocked nothing."""
        self.assertEqual(self.browser.execute_script("return window.violations"), [])
        for line in self.browser.get_log("browser"):
            if "Failed to load resource" in line["message"] and self.network_may_fail:
                continue
            self.assertNotEqual(line["level"], "SEVERE", line["message"])

    def wait(self, condition, about):
        return WebDriverWait(self.browser, PATIENCE, 0.1).until(lambda _: condition(), f"waits for {about}")

    def all(self, name):
        return self.browser.find_elements(By.CSS_SELECTOR, f"[data-testid='{name}']")

    def one(self, name):
        """The visible element with this data-testid."""
        return self.wait(lambda: next((each for each in self.all(name) if each.is_displayed()), None), name)

    def text_of(self, name):
        return self.browser.execute_script(
            "return document.querySelector(`[data-testid='${arguments[0]}']`)?.textContent ?? ''", name)

    def holds(self, name, *texts):
        self.wait(lambda: all(text in self.text_of(name) for text in texts), f"{texts} in {name}")

    def sign_in(self):
        self.browser.get(cluster.link)
        self.one("content")

    def visit(self, view):
        self.browser.execute_script("location.hash = '#/' + arguments[0]", view)
        self.one(f"view-{view}")
        self.one("content")

    def row(self, text):
        """Clicks the first row with the text. Rows may move, so the click is repeated in the page."""
        self.wait(lambda: self.browser.execute_script(
            "const row = [...document.querySelectorAll('tbody tr')].find((each) => each.textContent.includes(arguments[0]));"
            "row?.click(); return !!row", text), f"a row with {text}")

    def picture(self, name):
        self.browser.save_screenshot(os.path.join(PICTURES, f"{name}.png"))


class Page(InABrowser):
    def test_link_signs_in_and_leaves_the_address_bar(self):
        self.sign_in()
        self.assertTrue(cluster.link.startswith(cluster.url + "/#mobula-1-"), "the link of `mobula page`")
        self.assertEqual(self.browser.current_url, cluster.url + "/#/overview")
        self.assertEqual(self.browser.get_cookies(), [])
        self.assertTrue(self.browser.execute_script("return sessionStorage.getItem('mobula.token')").startswith("mobula-1-"))
        self.holds("state", "RUNNING")

    def test_first_picture_needs_the_status_alone(self):
        """Usage and lists of a large cluster arrive later."""
        self.network_may_fail = True  # the blocked requests
        self.browser.execute_cdp_cmd("Network.enable", {})
        late = ("changes", "task-counts", "nodes", "events", "history")
        self.browser.execute_cdp_cmd("Network.setBlockedURLs", {"urls": [f"*/api/v1/{name}*" for name in late]})
        self.sign_in()
        self.holds("card-nodes", "2")
        self.assertNotIn("cores", self.text_of("card-cpu-in-use"))
        self.browser.execute_cdp_cmd("Network.setBlockedURLs", {"urls": []})
        self.holds("card-cpu-in-use", "cores")

    def test_first_picture_precedes_larger_requests(self):
        """Neither the head nor the browser works on a list of a large cluster before the first picture."""
        self.browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": NOTE_REQUESTS})
        self.sign_in()
        self.holds("card-cpu-in-use", "cores")
        asked = self.browser.execute_script("return window.before")
        self.assertEqual(sorted(asked), ["/api/v1/changes", "/api/v1/status"])

    def test_views_show_the_cluster(self):
        self.sign_in()
        expected = {
            "overview": ["2 alive", "2.5 of 4", "infeasible", "GROUP_INFEASIBLE", "3 failed", "H100"],
            "gpus": ["GPU 3", "100 %", "50 %"],
            "queue": ["tasks", "placement groups", "Infeasible", "Resources"],
            "jobs": ["train <b>resnet</b>", "RUNNING", "nightly <i>check</i>", "exit code 3"],
            "actors": ["Trainer", "trainer", "DEAD", "ALIVE"],
            "groups": ["CREATED", "2 / 2 placed"],
            "tasks": ["evaluate", "preprocess", HOSTILE],
            "stream": ["forward", "Trainer::step"],
            "transfers": ["FINISHED", "4.0 MiB"],
            "logs": ["agent", "head"],
            "events": ["NODE_JOINED"],
            "experiments": ["width <b>search", "FINISHED", "24 / 24", "TPESearch", "dropout", "RUNNING", "3 running"],
        }
        for view in VIEWS[1:] + VIEWS[:1]:
            with self.subTest(view):
                self.visit(view)
                self.holds("content", *expected[view])
                if view == "overview":  # charts need two samples
                    self.wait(lambda: "–" not in self.text_of("card-cpu-in-use"), "a rate")
                self.picture(view)
                self.browser.find_element(By.TAG_NAME, "body").send_keys("t")
                self.picture(f"{view}-dark")
                self.browser.find_element(By.TAG_NAME, "body").send_keys("t")
        self.assertEqual(self.browser.title, "Overview – Mobula")

    def test_charts_begin_before_the_page_opens(self):
        self.sign_in()
        points = "return Number(document.querySelector('[data-testid=card-nodes] canvas').dataset.points)"
        self.wait(lambda: self.browser.execute_script(points) > 1, "samples of the head")
        self.browser.find_element(By.CSS_SELECTOR, "[data-testid=range-6h]").click()
        self.wait(lambda: self.browser.execute_script("return document.querySelector('[data-testid=range-6h]').ariaPressed") == "true", "the long range")
        self.wait(lambda: 0 < self.browser.execute_script(points) < 20, "a sample per ten seconds")

    def test_failed_tasks_come_first_with_their_error(self):
        self.sign_in()
        self.visit("tasks")
        self.holds("content", "evaluate", HOSTILE)
        first = self.browser.find_element(By.CSS_SELECTOR, "tbody tr")
        self.assertIn("evaluate", first.text)
        self.row("evaluate")
        self.holds("task-list", "loss is <b>not a number</b>", "FAILED")
        self.picture("task-details")

    def test_click_explains_why_a_request_waits(self):
        self.sign_in()
        self.visit("queue")
        self.row("GPU 64")
        self.holds("explanation", "GPU", "Nodes")
        self.picture("queue-details")

    def test_click_shows_the_holders_of_a_gpu(self):
        self.sign_in()
        self.visit("gpus")
        self.wait(lambda: len(self.all("gpu")) == 4, "four GPUs")
        self.browser.execute_script("document.querySelector('[data-testid=gpu]').click()")
        self.holds("holders", "job")
        self.picture("gpu-details")
        self.one("filter").send_keys("no such node")
        self.wait(lambda: not self.all("gpu"), "no GPUs")
        self.holds("empty", "No node matches")

    def test_filters_and_details_of_parts(self):
        self.sign_in()
        self.visit("groups")
        self.wait(lambda: len(self.browser.find_elements(By.CSS_SELECTOR, "tbody tr")) > 1, "groups")
        self.row("INFEASIBLE")
        self.holds("drawer", "bundles", "CPU")  # the whole group has them
        self.browser.find_element(By.TAG_NAME, "body").send_keys(Keys.ESCAPE)
        self.visit("jobs")
        self.row("nightly <i>check</i>")
        self.holds("drawer", "argv", "/bin/sh")  # of the whole job
        self.browser.find_element(By.TAG_NAME, "body").send_keys(Keys.ESCAPE)
        self.visit("queue")
        self.one("filter").send_keys("GPU 64")
        self.wait(lambda: len(self.browser.find_elements(By.CSS_SELECTOR, "tbody tr")) == 1, "one shape")

    def test_experiment_shows_its_trials(self):
        self.sign_in()
        self.wait(lambda: self.all("nav-experiments")[0].is_displayed(), "the entry of experiments")
        self.browser.find_element(By.TAG_NAME, "body").send_keys("=")
        self.holds("content", "24 / 24")
        self.row("width <b>search")
        self.one("view-experiment")
        self.holds("content", "loss by trial", "best", "FAILED", "loss is <b>not a number</b>", "lr=")
        points = "return Number(document.querySelector('[data-testid=trials-canvas]').dataset.points)"
        self.wait(lambda: self.browser.execute_script(points) == 21, "a point for each trial that has a result")
        self.assertEqual(self.all("nav-experiments")[0].get_attribute("aria-current"), "page")
        self.picture("experiment")
        self.row("not a number")
        self.holds("drawer", "FAILED", "loss is <b>not a number</b>")
        self.browser.find_element(By.TAG_NAME, "body").send_keys("t")
        self.picture("experiment-dark")
        self.assertEqual(self.browser.find_elements(By.CSS_SELECTOR, "main b b, #drawer b"), [])

    def test_markup_stays_text(self):
        self.sign_in()
        for view in ("tasks", "stream", "jobs", "overview"):
            self.visit(view)
            self.assertEqual(self.browser.find_elements(By.CSS_SELECTOR, "main img, main b img, main script"), [])
        self.visit("tasks")
        self.holds("content", HOSTILE)
        self.row(HOSTILE)
        self.holds("task-list", "FINISHED")
        self.visit("logs")
        self.wait(lambda: self.find_in_logs(SCRIPT), "the line with markup")
        self.picture("log-with-markup")
        self.visit("jobs")
        self.row("nightly <i>check</i>")
        self.one("drawer").find_element(By.LINK_TEXT, "Output").click()
        self.holds("log-text", SCRIPT)
        self.assertNotEqual(self.browser.title, "owned")
        self.assertEqual(self.browser.find_elements(By.CSS_SELECTOR, "main script, main img"), [])

    def log_is_read(self):
        self.wait(lambda: self.one("log-text").get_attribute("data-read"), "a log")

    def find_in_logs(self, text):
        """Opens one log after another until one has the text."""
        for index in range(len(self.all("log"))):
            self.browser.execute_script(
                "document.querySelectorAll(\"[data-testid='log']\")[arguments[0]]?.click()", index)
            self.one("content")
            self.log_is_read()
            if text in self.text_of("log-text"):
                return True
        return False

    def test_log_lines_are_filtered(self):
        self.sign_in()
        self.visit("logs")
        self.log_is_read()
        self.assertNotEqual(self.text_of("log-text"), "")
        self.one("grep").send_keys("no line has this text")
        self.wait(lambda: self.text_of("log-text") == "", "no lines")

    def test_missing_and_wrong_tokens_ask_for_one(self):
        self.network_may_fail = True  # the refused requests
        self.browser.get(cluster.url + "/")
        self.one("signin")
        self.assertEqual(self.all("content")[0].is_displayed(), False)
        self.one("token").send_keys("mobula-1-wrong")
        self.one("signin-submit").click()
        self.holds("signin-reason", "refused this token")
        self.picture("signin")
        self.one("token").send_keys(cluster.link.split("#")[1])
        self.one("signin-submit").click()
        self.one("content")
        self.assertFalse(self.all("signin")[0].is_displayed())

    def test_keys_open_views_rows_and_themes(self):
        self.sign_in()
        body = self.browser.find_element(By.TAG_NAME, "body")
        body.send_keys("5")
        self.one("view-actors")
        self.holds("content", "Trainer")
        self.browser.find_element(By.TAG_NAME, "body").send_keys("/")
        self.one("filter").send_keys("DEAD (anonymous namespace)::Trainer")
        self.wait(lambda: len(self.browser.find_elements(By.CSS_SELECTOR, "tbody tr")) == 1, "one row")
        self.one("filter").send_keys(Keys.ESCAPE)
        self.browser.find_element(By.TAG_NAME, "body").send_keys("j", Keys.ENTER)
        self.holds("drawer", "max restarts")
        self.browser.find_element(By.TAG_NAME, "body").send_keys(Keys.ESCAPE)
        self.wait(lambda: not self.all("drawer")[0].is_displayed(), "closed details")
        theme = "return document.documentElement.dataset.theme"
        self.assertEqual(self.browser.execute_script(theme), "light")
        self.browser.find_element(By.TAG_NAME, "body").send_keys("t", "1")
        self.assertEqual(self.browser.execute_script(theme), "dark")
        self.one("view-overview")
        self.one("content")
        self.browser.find_element(By.TAG_NAME, "body").send_keys("8")
        self.holds("content", "forward")

    def test_values_follow_the_cluster(self):
        self.sign_in()
        self.visit("events")
        cluster.mobula("token", "create", "--role", "observer", "--name", "seen-on-the-page", check=True)
        self.holds("content", "TOKEN_CREATED")


class HostileTexts(InABrowser):
    """Every text of every document has markup, scripts, controls, and half characters, and some have 10 KB."""

    def setUp(self):
        super().setUp()
        self.browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": MAKE_HOSTILE})
        self.network_may_fail = True  # requests for hostile ids

    def check(self, name):
        self.holds(name, HOSTILE + SCRIPT + "\\u202egpj.exe\\u200b\\u0000")
        self.assertNotRegex(self.text_of(name), "[\u202e\u200b\u0000]")
        self.assertEqual(self.browser.find_elements(By.CSS_SELECTOR, "main img, main script, aside img, aside script"), [])
        self.assertNotEqual(self.browser.title, "owned")
        self.assertLessEqual(*self.browser.execute_script(
            "return [document.documentElement.scrollWidth, document.documentElement.clientWidth]"), "the page is wider than its window")

    def test_views_show_hostile_texts_as_text(self):
        self.sign_in()
        agent = next(each for each in Documents().get("/api/v1/logs")["items"] if each["log"] == "agent")
        log = urllib.parse.urlencode({"node": agent["node_id"], "log": "agent"})
        paths = {**{view: view for view in VIEWS}, "logs": "logs?" + log, "experiment": "experiment?name=dropout"}
        for view, path in paths.items():
            with self.subTest(view):
                self.browser.execute_script("location.hash = '#/' + arguments[0]", path)
                self.one(f"view-{view}")
                if view == "stream":  # its names are drawn; the legend has them too
                    self.one("content")
                self.check("content")
                if view == "logs":
                    self.holds("log-text", HOSTILE)
                self.picture(f"hostile-{view}")
                if view not in ("stream", "logs", "gpus", "experiments"):
                    self.browser.execute_script("document.querySelector('tbody tr[tabindex]').click()")
                    self.one("drawer")
                    if view != "tasks":  # its calls are fetched by the name
                        self.check("drawer")
        self.browser.execute_script("location.hash = '#/gpus'")
        self.one("view-gpus")
        self.one("content")
        self.browser.execute_script("document.querySelector('[data-testid=gpu]').click()")
        self.check("drawer")


class Documents(unittest.TestCase):
    """Documents that the page uses, as the running head serves them."""

    def get(self, path, token=True):
        request = urllib.request.Request(cluster.url + path)
        if token:
            request.add_header("Authorization", "Bearer " + cluster.link.split("#")[1])
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return json.load(answer)

    def test_poll_returns_when_the_number_moves(self):
        now = self.get("/api/v1/changes")
        later = self.get(f"/api/v1/changes?since={now['number']}&epoch={now['epoch']}")
        self.assertGreater(later["number"], now["number"])

    def test_poll_of_another_epoch_returns_at_once(self):
        now = self.get("/api/v1/changes")
        self.assertEqual(self.get(f"/api/v1/changes?since={now['number']}&epoch=1")["kind"], "Changes")

    def test_timeline_has_rows_of_the_last_minute(self):
        timeline = self.get("/api/v1/timeline")
        names = {process["names"][row[2]] for process in timeline["processes"] for row in process.get("ran", [])}
        self.assertIn("forward", names)

    def test_history_has_samples_before_the_page_opens(self):
        recent, long = self.get("/api/v1/history"), self.get("/api/v1/history?range=6h")
        self.assertEqual((recent["interval_ms"], long["interval_ms"]), (1000, 10000))
        series = {each["name"]: each["values"] for each in recent["series"]}
        self.assertEqual(series["nodes"][-1], 2)
        self.assertEqual(series["booked GPU"][-1], 2.5)
        self.assertGreater(len(series["nodes"]), 1)
        with self.assertRaises(urllib.error.HTTPError) as refused:
            self.get("/api/v1/history?range=1y")
        self.assertEqual(refused.exception.code, 400)

    def test_logs_are_read_from_their_end(self):
        logs = self.get("/api/v1/logs")["items"]
        agent = next(each for each in logs if each["log"] == "agent")
        chunk = self.get(f"/api/v1/log?node_id={agent['node_id']}&log=agent&from=0:-200")
        self.assertLessEqual(len(chunk["text"]), 200)
        self.assertIn("text", self.get("/api/v1/log?log=head"))

    def test_hostile_names_leave_documents_valid(self):
        """The driver has tried such names for tasks, actors, and groups; get() requires JSON in UTF-8."""
        for path in ("status", "nodes", "jobs", "actors", "actors?limit=9&find=%FF%00", "placement-groups", "tasks", "task-counts", "leases",
                     "status?limit=9&find=%FF%00", "gpus?limit=9", "jobs?limit=9&find=%FF%00", "placement-groups?limit=9", "nodes?limit=9",
                     "events?limit=500", "timeline", "logs", "summary", "usage", "usage?part=nodes", "usage?part=gpus"):
            with self.subTest(path):
                self.get("/api/v1/" + path)
        names = {each["name"] for each in self.get("/api/v1/task-counts")["counts"]}
        self.assertTrue(any("<img" in name for name in names), "markup is a valid name")
        for name in names:
            self.assertLessEqual(len(name.encode()), 256)
            self.assertFalse(set(name) & set("\u202e\0\ufffd"), name)

    def test_every_document_needs_a_token(self):
        for path in ("changes", "history", "usage", "timeline", "logs", "log?log=head", "events?limit=5"):
            with self.subTest(path), self.assertRaises(urllib.error.HTTPError) as refused:
                self.get("/api/v1/" + path, token=False)
            self.assertEqual(refused.exception.code, 401)


class Restart(InABrowser):
    """Runs last: the page outlives the head."""

    def test_reconnects_after_the_head_was_killed(self):
        self.sign_in()
        self.network_may_fail = True
        self.visit("overview")
        cluster.kill_head()
        self.holds("banner", "No connection to the head")
        self.picture("banner")
        cluster.start_head(cluster.url.split("//")[1])
        self.holds("banner", "Connected to the head again")
        self.wait(lambda: "live" in self.text_of("link"), "a live link")
        self.visit("events")
        self.holds("content", "HEAD_RECOVERED")


if __name__ == "__main__":
    if BROWSER is None or BROWSER_DRIVER is None:
        print("page_test: skipped: chromium and chromium-driver are not installed (tools/packages.txt)")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *sys.argv[5:]], verbosity=2)
