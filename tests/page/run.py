#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The page of `allocsnap report`, in headless Chromium.

    run.py [ARGUMENT…]     tests/harness/suite.py describes the arguments
    run.py --bench [HTML…]
                       how long the pages take, or pages of 20,000 tracebacks: one that is made up, one of a compiler
                       that is recorded (as root)

Environment: ALLOCSNAP, the program; SNAPSHOTS, the folder that make_snapshots filled. Debian's Python runs this: it has
Debian's selenium.
"""
import contextlib
import functools
import os
import pathlib
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
# pylint: disable=wrong-import-position
import browser as browsers
import pages
import test_page
from harness import Skip, suite

BENCH_ROUNDS = 5
TRACEBACKS = 20000
TEST_SECONDS = 1800


class Bench(contextlib.ExitStack):
    """Shared by all tests: a browser, the program, its snapshots, and pages that are made once."""

    def __init__(self):
        super().__init__()
        self.folder = pathlib.Path(self.enter_context(tempfile.TemporaryDirectory()))
        self.allocsnap = os.environ["ALLOCSNAP"]
        self.snapshots = pathlib.Path(os.environ["SNAPSHOTS"])
        self.made = {}

    @functools.cached_property
    def browser(self):
        if why := browsers.missing():
            raise Skip(why)
        return self.enter_context(browsers.Browser())

    def embed(self, name, data):
        return pages.embed(data, self.folder / f"{name}.html")

    def page(self, name):
        """a page of data made by pages.py"""
        if name not in self.made:
            data = pages.large(TRACEBACKS) if name == "large" else getattr(pages, name)()
            self.made[name] = self.embed(name, data)
        return self.made[name]

    def report(self, *snapshots):
        """a page that the program wrote"""
        if snapshots not in self.made:
            path = self.folder / f"{len(self.made)}.html"
            self.made[snapshots] = pages.write_report(self.allocsnap, path, *snapshots)
        return self.made[snapshots]


def with_browser(test):
    """The tests of the sources need none."""
    return test if test.module == "test_sources.py" else test._replace(function=lambda bench: test.function(bench, bench.browser))


def run_tests():
    with Bench() as bench:
        tests = map(with_browser, suite.find_tests(HERE))
        return suite.main("page", tests, lambda: contextlib.nullcontext(bench), TEST_SECONDS)


def bench_pages(folder):
    """a page of 20,000 made tracebacks, one of thousands of sites with a history, and one of a real recording"""
    yield pages.embed(pages.large(TRACEBACKS), folder / "made.html")
    yield pages.embed(pages.many_sites(5000, 120), folder / "sites.html")
    if os.geteuid():
        print("no page of a recording: only root can record")
    else:
        yield pages.record_compiler(os.environ["ALLOCSNAP"], folder)


def bench_page(browser, path):
    loads = sorted(browser.open(path) for _ in range(BENCH_ROUNDS))
    redraws = sorted(test_page.redraw_times(browser))
    nr = browser.run("""const {report, model, icicle} = allocsnap;
        return [report.snapshots.length, report.nrTracebacks, model.nrSites, icicle.tree.nr]""")
    search = browser.run("const t = performance.now(); allocsnap.set({q: 'a'}); return performance.now() - t")
    said = browser.complaints()
    print(f"{os.path.basename(path)}: {os.path.getsize(path)} bytes, " + ", ".join(
        f"{n} {what}" for n, what in zip(nr, ("snapshots", "tracebacks", "sites", "boxes"))))
    print(f"    ready {say_ms(loads)}, redraw {say_ms(redraws)}, a search {search:.0f} ms")
    requests = sum(text.startswith("request ") for text in said)
    print(f"    {requests} requests, {len(said) - requests} messages and violations of the policy")
    return nr[1]


def run_bench(paths):
    """the given reports, or the pages of bench_pages(): medians of several loads"""
    if why := browsers.missing():
        sys.exit(f"page: {why}")
    with tempfile.TemporaryDirectory() as folder, browsers.Browser() as browser:
        few = False
        for path in paths or bench_pages(pathlib.Path(folder)):
            nr = bench_page(browser, path)
            few |= not paths and os.path.basename(path) == "compiler.html" and nr < TRACEBACKS
    if few:
        print(f"the recording has fewer than {TRACEBACKS} tracebacks: it is no measure")
    return few


def say_ms(seconds):
    return f"{1000 * seconds[len(seconds) // 2]:.1f} ms (at most {1000 * seconds[-1]:.1f})"


if __name__ == "__main__":
    sys.exit(run_bench(sys.argv[2:]) if sys.argv[1:2] == ["--bench"] else run_tests())
