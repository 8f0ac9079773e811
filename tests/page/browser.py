# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A page in headless Chromium: what it asks for, what it logs, and a reader's keys and pointer."""
import base64
import json
import pathlib
import time

try:
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
except ImportError:
    webdriver = None

CHROMIUM, DRIVER = "/usr/bin/chromium", "/usr/bin/chromedriver"
READY_SECONDS = 300  # only bounds the waiting
IS_SHOWN = """return document.documentElement.dataset.ready ||
    document.querySelector('#verdict h1').textContent.includes('cannot')"""
PLACE = "const r = document.querySelector(arguments[0]).getBoundingClientRect(); return [r.left, r.top]"
# Runs before the page's own script.
WATCH = """window.violations = [];
try { localStorage.clear(); } catch { /* about:blank has none */ }
document.addEventListener("securitypolicyviolation", e =>
    window.violations.push(e.violatedDirective + " " + e.blockedURI));"""


def missing():
    """why no browser can be driven, or None"""
    if not webdriver:
        return "python3-selenium is not installed"
    for path in (CHROMIUM, DRIVER):
        if not pathlib.Path(path).exists():
            return f"{path} is not installed"
    return None


class Browser:
    def __init__(self):
        options = Options()
        options.binary_location = CHROMIUM
        for word in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-background-networking",
                     "--force-color-profile=srgb"):
            options.add_argument(word)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(DRIVER))
        self.driver.set_page_load_timeout(READY_SECONDS)
        self.driver.set_script_timeout(READY_SECONDS)
        self.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": WATCH})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.driver.quit()

    def open(self, path, fragment="", size=(1440, 900), scheme="light"):
        """loads a page from its file and waits until it is drawn; returns the seconds that this took"""
        driver = self.driver
        driver.get("about:blank")
        driver.get_log("browser")
        driver.get_log("performance")
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                               {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": False})
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        driver.execute_cdp_cmd("Performance.disable", {})
        driver.execute_cdp_cmd("Performance.enable", {})  # ThreadTime begins at 0
        begun = time.monotonic()
        driver.get(pathlib.Path(path).resolve().as_uri() + (fragment and "#" + fragment))
        while not self.run(IS_SHOWN):
            took = time.monotonic() - begun
            if took > READY_SECONDS:
                raise AssertionError(f"{path} is not ready after {READY_SECONDS} s: {driver.get_log('browser')}")
            time.sleep(max(0.01, took / 100))  # each look takes some of the page's time
        return time.monotonic() - begun

    def spent(self):
        """seconds of CPU time that the page has used since open(), to which other programs hardly add

        The page has one thread for its scripts, its layout and its drawing. This is the time of that thread.
        """
        metrics = self.driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
        return next(metric["value"] for metric in metrics if metric["name"] == "ThreadTime")

    def run(self, script, *args):
        return self.driver.execute_script(script, *args)

    def state(self):
        return self.run("return {...allocsnap.state}")

    def text(self, selector):
        return self.run("return document.querySelector(arguments[0])?.textContent", selector)

    def press(self, *keys):
        """keys as a reader presses them: letters, or names such as Escape"""
        for key in keys:
            ActionChains(self.driver).send_keys(getattr(Keys, key.upper(), key) if len(key) > 1 else key).perform()

    def type(self, text):
        ActionChains(self.driver).send_keys(text).perform()

    def click(self, selector):
        self.driver.find_element(By.CSS_SELECTOR, selector).click()

    def pointer(self, selector, *points, drag=False):
        """clicks at the first point, or drags from there to the last; points count from the element's top left"""
        box = self.run(PLACE, selector)
        where = [{"x": box[0] + x, "y": box[1] + y} for x, y in points]

        def send(kind, at, **more):
            self.driver.execute_cdp_cmd("Input.dispatchMouseEvent", {"type": kind, **at, **more})
        send("mouseMoved", where[0])
        send("mousePressed", where[0], button="left", buttons=1, clickCount=1)
        if drag:
            for at in where[1:]:
                send("mouseMoved", at, button="left", buttons=1)
        send("mouseReleased", where[-1], button="left", clickCount=1)

    def hover(self, selector, x, y):
        box = self.run(PLACE, selector)
        at = {"x": box[0] + x, "y": box[1] + y}
        self.driver.execute_cdp_cmd("Input.dispatchMouseEvent", {"type": "mouseMoved", **at})

    def complaints(self):
        """what the page asked for beside itself, what it logged, and violations of its policy"""
        out = [entry["message"] for entry in self.driver.get_log("browser")]
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                url = message["params"]["request"]["url"]
                if not url.startswith(("data:", "about:", "chrome:")):
                    out.append("request " + url)
        own = [text for text in out if text.startswith("request file:")]
        return [text for text in out if text not in own[:1]] + self.run("return window.violations")

    def shot(self, path):
        data = self.driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})["data"]
        pathlib.Path(path).write_bytes(base64.b64decode(data))
