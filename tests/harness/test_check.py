#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The check itself: what it counts, which failure gets a second try, which parts a path touches. suite.py describes the
arguments."""
import argparse
import contextlib
import io
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
# pylint: disable=wrong-import-position
import run
from harness import chances, check_equal, checks, suite, summary, touched

OURS = "ok test_a (0.1 s)\nFAIL test_b (1.0 s): two (CPU pressure 62 %, load 9)\nlive: 1 passed, 1 failed, 0 skipped\n"
LAW = "LAW test_b (1.0 s): the target has ended\nlive: 1 passed, 1 failed, 0 skipped\n"
PASSED = "live: 3 passed, 0 failed, 1 skipped\nskip test_c (0.0 s): because bwrap is not installed\n"
CRITERION = "[====] Synthesis: Tested: 3 | Passing: 2 | Failing: 1 | Crashing: 0\n" * 2


def counted(text, status=0, name="live"):
    result = summary.read(name, text, status, 1.0, 1.0)
    return result.passed, result.failed, result.skipped


def test_a_suite_is_counted_by_its_summary():
    check_equal(counted(OURS, 1), (1, 1, 0), "our lines")
    check_equal(counted(PASSED), (3, 0, 1), "skipped tests")
    check_equal(counted(CRITERION, 1), (4, 2, 0), "two programs of Criterion")


def test_a_suite_that_says_nothing_has_failed():
    check_equal(counted(""), (0, 1, 0), "no output")
    check_equal(counted("live: 0 passed, 0 failed, 0 skipped\n"), (0, 1, 0), "no test")
    check_equal(counted("make: *** [Makefile:1: all] Error 2\n", 2), (0, 1, 0), "no build")
    check_equal(counted(PASSED, 1), (3, 1, 1), "an exit status that no test explains")


def quietly(function, *arguments):
    """Made-up failures would look like real ones in the output."""
    with contextlib.redirect_stdout(io.StringIO()):
        return function(*arguments)


class FakeRunner:
    """Suites have ended with these outputs; a second try says `again`."""

    def __init__(self, again, **outputs):
        self.results = [summary.read(name, text, 1, 1.0, 1.0) for name, text in outputs.items()]
        self.again, self.tried = again, []

    def run(self, one):
        self.tried.append(one.args)
        self.results.append(summary.read(one.name, self.again, 0, 1.0, 1.0))
        return self.results[-1]


def test_a_failure_of_a_real_program_gets_a_second_try():
    runner = FakeRunner("live: 1 passed, 0 failed, 0 skipped\n", live=OURS)
    rows = quietly(run.try_again, runner)
    check_equal(runner.tried, ["test-live LIVE_ARGS='=test_b'"], "what was tried")
    check_equal([row[:2] for row in rows], [("live", "test_b")], "the chance")
    check_equal([(result.passed, result.failed, result.again) for result in runner.results], [(2, 0, 1)], "the sum")


def test_a_second_failure_stays_one():
    runner = FakeRunner(OURS, live=OURS)
    check_equal(quietly(run.try_again, runner), [], "chances")
    check_equal([result.failed for result in runner.results], [1], "failures")


def test_some_failures_get_no_second_try():
    def tried(**outputs):
        runner = FakeRunner(PASSED, **outputs)
        return quietly(run.try_again, runner), runner.tried
    many = "".join(f"FAIL test_{i} (1.0 s): why\n" for i in range(4)) + "live: 1 passed, 4 failed, 0 skipped\n"
    for what, outputs in (("a broken law", {"live": LAW}), ("a law beside another failure", {"live": OURS, "inject": LAW}),
                          ("a suite that computes", {"golden": OURS}), ("four failures", {"live": many}),
                          ("a failure without a name", {"live": "live: 1 passed, 1 failed, 0 skipped\n"})):
        check_equal(tried(**outputs), ([], []), what)


def test_chances_fail_the_gate_when_they_grow():
    kept = chances.FILE
    with tempfile.TemporaryDirectory() as folder:
        chances.FILE = pathlib.Path(folder, "chance.tsv")
        try:
            check_equal(quietly(chances.add, [("live", "test_a", "why")]), [], "a first one")
            check_equal(len(quietly(chances.add, [("live", "test_a", "why")])), 1, "the same again")
            check_equal(len(quietly(chances.add, [("live", f"test_{i}", "why") for i in range(4)])), 2, "six rows")
        finally:
            chances.FILE = kept


def test_each_path_touches_parts_that_exist():
    parts = list(touched.parts())
    areas = list(touched.rows("areas"))
    check_equal([part for _, *named in areas for part in named if part not in parts + ["-"]], [], "unknown parts")
    paths = (touched.git("ls-files") or "").splitlines()
    check_equal([path for path in paths if not any(path.startswith(area[0]) for area in areas)], [], "paths without a row")
    check_equal([area[0] for area in areas if paths and not any(path.startswith(area[0]) for path in paths)], [], "rows of nothing")
    check_equal(touched.parts_of(["docs/design.md"]), [], "documents")
    check_equal(touched.parts_of(["unheard-of"]), parts, "a path without a row")


def test_what_is_late_says_what_runs():
    with subprocess.Popen(["sh", "-c", "sleep 1000 & wait"]) as shell:
        try:
            checks.wait_for(lambda: "sleep" in checks.late(""), "sleep runs")
            text = checks.late("why")
            check_equal([word for word in (f"sh {shell.pid} S in ", "sleep ", "syscall ") if word not in text], [], text)
        finally:
            for pid in checks.processes_below(shell.pid):
                os.kill(int(pid), signal.SIGKILL)


def test_words_choose_tests():
    tests = [suite.Test(name, None, module, frozenset(marks)) for name, module, *marks in
             (("test_a", "test_x.py"), ("test_ab", "test_x.py"), ("test_c", "test_y.py", "smoke"))]

    def chosen(*names):
        return [test.name for test in suite.choose(tests, argparse.Namespace(names=names, core=False, smoke=False))]
    check_equal(chosen("a"), ["test_a", "test_ab"], "a part of a name")
    check_equal(chosen("=test_a"), ["test_a"], "a whole name")
    check_equal(chosen("test_x*.py", "^=test_a"), ["test_ab"], "a module without one test")
    check_equal(chosen("@smoke", "=test_a"), ["test_a", "test_c"], "those with a mark, and another one")


if __name__ == "__main__":
    sys.exit(suite.main("harness", [suite.Test(name, function, "test_check.py") for name, function in sorted(globals().items())
                                    if name.startswith("test_")]))
