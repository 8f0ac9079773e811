# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Viewers that run in a browser: speedscope."""
import contextlib
import functools
import http.server
import pathlib
import shutil
import subprocess
import sys
import threading
import time

from common import CACHE, SNAPSHOTS, Skip, allocsnap, check, run, stats, test, tool

SPEEDSCOPE = "1.25.0"
sys.path.append("/usr/lib/python3/dist-packages")  # of Debian's packages, if this is another Python


@contextlib.contextmanager
def browser():
    try:
        from selenium import webdriver  # pylint: disable=import-outside-toplevel
        from selenium.webdriver.chrome.service import Service  # pylint: disable=import-outside-toplevel
    except ImportError:
        raise Skip("there is no python3-selenium") from None
    options = webdriver.ChromeOptions()
    options.binary_location = tool("chromium")
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1280,900"):
        options.add_argument(word)
    driver = webdriver.Chrome(service=Service(tool("chromedriver")), options=options)
    try:
        driver.set_page_load_timeout(300)
        yield driver
    finally:
        driver.quit()


def wait_for_text(driver, wanted, seconds=300):
    end = time.monotonic() + seconds
    while True:
        text = " ".join(driver.execute_script("return document.body.innerText").split())
        if all(word in text for word in wanted):
            return
        check(time.monotonic() < end, f"{wanted} is not in the page: {text[:2000]!r}")
        time.sleep(0.2)


def fetch_speedscope():
    """The package's files, from the cache or from npm."""
    place = CACHE / f"speedscope-{SPEEDSCOPE}"
    if place.is_dir():
        return place
    try:
        subprocess.run([tool("npm"), "pack", "--silent", f"speedscope@{SPEEDSCOPE}"], cwd=CACHE, check=True,
                       capture_output=True, timeout=120)
    except (subprocess.SubprocessError, OSError) as error:
        raise Skip(f"npm cannot fetch speedscope: {error}") from None
    unpacked = CACHE / "unpacked"
    shutil.rmtree(unpacked, ignore_errors=True)
    unpacked.mkdir()
    run("tar", "-xzf", CACHE / f"speedscope-{SPEEDSCOPE}.tgz", "-C", unpacked)
    (unpacked / "package" / "dist" / "release").rename(place)
    return place


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_args):  # pylint: disable=arguments-differ
        pass


@contextlib.contextmanager
def serve(folder):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()


def row_of(name, function):
    """The cumulative size that speedscope shows for a function, as it writes sizes."""
    rows = stats(SNAPSHOTS / f"{name}.snap", "-g", "function", "--cumulative")["statistics"]
    size, = [row["size"] for row in rows if row["key"] == function]
    return size


def speedscope_shows(folder, name, ending, words):
    place = folder / "site"
    if not place.exists():
        shutil.copytree(fetch_speedscope(), place)
    allocsnap("convert", SNAPSHOTS / f"{name}.snap", "-o", place / f"x{ending}")
    with serve(place) as site, browser() as driver:
        driver.get(f"{site}/index.html#profileURL={site}/x{ending}&view=sandwich")
        wait_for_text(driver, words)


@test
def speedscope_shows_the_totals_of_pprof(folder):
    size = row_of("new", "main") / (1 << 20)
    speedscope_shows(folder, "new", ".pb.gz", [f"{size:.2f} MB", "main", "cart_new"])


@test
def speedscope_shows_the_totals_of_folded_stacks(folder):
    size = row_of("new", "main")
    speedscope_shows(folder, "new", ".folded", [f"{size:,}", "main", "cart_new"])
