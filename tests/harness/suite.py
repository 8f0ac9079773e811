# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""One runner for the suites whose tests are Python functions.

Arguments of every suite:

    [-l] [--core | --smoke] [--workers N] [--slowest N] [NAME…]

NAME is a part of a test's name, =NAME the whole name, NAME.py a module (test_python*.py: several), @MARK all with a mark.
^NAME leaves out what NAME chooses. --core chooses the tests of `make check`, --smoke what `make test` runs. -l lists the tests. --workers: so
many tests run at a time; a test marked `alone` runs while no other one does. --slowest: so many tests are listed at the
end.

A line for each test: ok, skip, FAIL, or LAW for a broken law (checks.py), which counts as failed.
"""
import argparse
import contextlib
import fnmatch
import importlib
import itertools
import multiprocessing
import multiprocessing.connection
import os
import pathlib
import re
import resource
import signal
import sys
import time
import traceback
import typing

from .checks import Failure, Hung, Law, Skip, late

REASON_MAX = 3000  # characters
HUNG_MAX = 3  # after so many tests that hung, the others do not run


class Test(typing.NamedTuple):
    name: str
    function: typing.Callable  # gets a bench; a text that it returns is shown
    module: str = ""  # the file's name
    marks: frozenset = frozenset()


class Result(typing.NamedTuple):
    name: str
    verdict: str
    reason: str
    seconds: float
    cpu_seconds: float  # of the test and of its children that have ended
    is_hung: bool = False

    def line(self):
        return f"{self.verdict} {self.name} ({self.seconds:.1f} s)" + (self.reason and f": {self.reason}")


def marked(word):
    def mark(function):
        function.marks = marks_of(function) | {word}
        return function
    return mark


def marks_of(function):
    return getattr(function, "marks", frozenset())


core = marked("core")  # a test of `make check`
smoke = marked("smoke")  # a test of `make test`
alone = marked("alone")  # a test that other tests beside it can disturb, or that disturbs them


def rows(table, of_core=(), of_smoke=()):
    """A test for each row of {name: arguments}: test(bench, *arguments), whose name ends with the row's. of_core and
    of_smoke name the rows that have these marks."""
    def mark(function):
        function.rows = {name: (row, {mark for mark, names in (("core", of_core), ("smoke", of_smoke)) if name in names})
                         for name, row in table.items()}
        return function
    return mark


def for_each(values, of_core=()):
    """A test for each of the values: test(bench, value), whose name ends with it."""
    return rows({value: (value,) for value in values}, of_core)


def tests_of(function, module, marks):
    marks = marks_of(function) | set(marks)
    if not hasattr(function, "rows"):
        yield Test(function.__name__, function, module, marks)
    else:
        for name, (row, more) in function.rows.items():
            yield Test(f"{function.__name__}_{name}", lambda bench, row=row: function(bench, *row), module, marks | more)


def runs_core():
    """Whether only the tests of the gate run; otherwise they run at full size."""
    return "--core" in sys.argv


def must_be_alone():
    """For helpers that see the whole machine: the test that uses one must be marked."""
    if Runner.running and "alone" not in Runner.running.marks:
        raise Failure("this test sees the whole machine: it must be marked harness.alone")


def find_tests(folder, marks=()):
    """The functions test_… of the modules test_….py in a folder, with these marks, their module's MARKS and their own."""
    for path in sorted(pathlib.Path(folder).glob("test_*.py")):
        yield from tests_in(importlib.import_module(path.stem), marks)


def tests_in(module, marks=()):
    for name, function in vars(module).items():
        if name.startswith("test_"):
            yield from tests_of(function, os.path.basename(module.__file__), {*marks, *getattr(module, "MARKS", ())})


class Runner:
    """make_bench() returns a context manager for each test; the test gets what its `with` yields."""
    running = None  # the test that this process runs now

    def __init__(self, tests, make_bench, seconds):
        self.tests = tests
        self.make_bench = make_bench
        self.seconds = seconds

    def out_of_time(self, _signal, _frame):
        raise Hung(late(f"not done after {self.seconds} s"))

    def run(self, test):
        begun, cpu_begun, waited = time.monotonic(), cpu_seconds(), waited_us()
        verdict, reason, is_hung = "ok", "", False
        Runner.running = test
        signal.signal(signal.SIGALRM, self.out_of_time)
        signal.setitimer(signal.ITIMER_REAL, self.seconds, 60)  # again: closing the bench can hang, too
        try:
            with (self.make_bench or contextlib.nullcontext)() as bench:
                said = test.function(bench) if self.make_bench else test.function()
            reason = said if isinstance(said, str) else ""
        except Skip as skip:
            verdict, reason = "skip", f"because {skip}"
        except Exception as error:  # pylint: disable=broad-except
            verdict, reason = "LAW" if isinstance(error, Law) else "FAIL", reason_of(error)
            is_hung = isinstance(error, Hung)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            Runner.running = None
        seconds = time.monotonic() - begun
        if verdict in ("FAIL", "LAW"):
            reason += f" ({state_of_machine(waited, seconds)})"
        return Result(test.name, verdict, " ".join(reason.split()), seconds, cpu_seconds() - cpu_begun, is_hung)

    def serve(self, pipe):
        """A worker: a copy of the runner's process that gets numbers of tests, and then None."""
        for number in iter(pipe.recv, None):
            pipe.send(self.run(self.tests[number]))

    def run_in_workers(self, workers, tests):
        context = multiprocessing.get_context("fork")
        waiting, pipes, busy = iter(tests), [], {}  # busy: {pipe: its worker's test}

        def give(pipe):
            for test in itertools.islice(waiting, 1):
                pipe.send(self.tests.index(test))
                busy[pipe] = test

        try:
            for _ in range(workers):
                ours, theirs = context.Pipe()
                context.Process(target=self.serve, args=(theirs,)).start()
                theirs.close()
                pipes.append(ours)
                give(ours)
            while busy:
                for pipe in multiprocessing.connection.wait(busy):
                    test = busy.pop(pipe)
                    try:
                        result = pipe.recv()
                        give(pipe)
                    except (EOFError, OSError):
                        result = Result(test.name, "FAIL", "its worker has ended", 0, 0)
                    yield result
        finally:
            for pipe in pipes:
                with contextlib.suppress(OSError):
                    pipe.send(None)
            for worker in multiprocessing.active_children():
                worker.join()

    def run_all(self, workers):
        """Results, as tests end; none of the tests that are left when too many have hung."""
        together = [test for test in self.tests if workers > 1 and "alone" not in test.marks]
        one_by_one = [test for test in self.tests if test not in together]
        hung = 0
        for result in itertools.chain(self.run_in_workers(workers, together), map(self.run, one_by_one)):
            yield result
            hung += result.is_hung
            if hung == HUNG_MAX:
                return


def reason_of(error):
    """The failure; if an assertion has no message, the line that failed."""
    if isinstance(error, Failure):
        return shortened(str(error))
    place = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{os.path.basename(place.filename)}:{place.lineno}"
    return f"{where}: {shortened(str(error)) or place.line} ({type(error).__name__})"


def shortened(text):
    return text if len(text) <= REASON_MAX else text[:REASON_MAX] + "…"


def cpu_seconds():
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def waited_us():
    """For how long something has waited for a CPU since boot; None: the kernel does not say it."""
    with contextlib.suppress(OSError):
        return int(re.search(r"some .*total=(\d+)", pathlib.Path("/proc/pressure/cpu").read_text())[1])
    return None


def state_of_machine(waited_before, seconds):
    """The share of the test's time in which something waited for a CPU, and the load."""
    load, waited = os.getloadavg()[0], waited_us()
    pressure = "" if waited is None else f"CPU pressure {(waited - waited_before) / max(seconds, 0.001) / 1e4:.0f} %, "
    return f"{pressure}load {load:.0f}"


def is_named(test, word):
    if word.startswith("@"):
        return word[1:] in test.marks
    if word.endswith(".py"):
        return fnmatch.fnmatchcase(test.module, word)
    return test.name == word[1:] if word.startswith("=") else word in test.name


def choose(tests, options):
    """The tests that the arguments name. A word that names none is a mistake."""
    unwanted = [word[1:] for word in options.names if word.startswith("^")]
    names = [word for word in options.names if not word.startswith("^")]
    for word in names + unwanted:
        if not any(is_named(test, word) for test in tests):
            sys.exit(f"no test is named by {word!r}")
    marks = {word for word in ("core", "smoke") if getattr(options, word)}
    return [test for test in tests if marks <= test.marks
            and (not names or any(is_named(test, word) for word in names))
            and not any(is_named(test, word) for word in unwanted)]


def options_of():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-l", dest="list", action="store_true")
    parser.add_argument("--core", action="store_true")
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--workers", type=int)
    parser.add_argument("--slowest", type=int, default=10)
    parser.add_argument("names", nargs="*", metavar="NAME")
    return parser.parse_args()


def summary(suite, results, left, slowest_nr):
    """Prints the end; the exit status."""
    if left:
        print(f"FAIL {suite} (0.0 s): {left} tests did not run: {HUNG_MAX} tests hung, or no worker is left")
    slowest = sorted(results, key=lambda result: -result.seconds)[:slowest_nr]
    print("slowest: " + ", ".join(f"{result.name} {result.seconds:.1f} s (CPU {result.cpu_seconds:.1f} s)"
                                  for result in slowest))
    print(f"CPU of all: {sum(result.cpu_seconds for result in results):.0f} s")
    verdicts = [result.verdict for result in results]
    failed = verdicts.count("FAIL") + verdicts.count("LAW") + bool(left)
    print(f"{suite}: {verdicts.count('ok')} passed, {failed} failed, {verdicts.count('skip')} skipped")
    return 1 if failed or not results else 0


def main(suite, tests, make_bench=None, seconds=180, needs_root=False, workers=None):
    """Runs the tests that the arguments choose: the exit status.

    make_bench: see Runner; None: the tests take no argument. seconds: the time of each test. workers(options): how many
    tests run at a time, if the arguments do not say it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it in what it runs in the background:
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)  # so would each program of the tests
    options = options_of()
    tests = choose(list(tests), options)
    if options.list:
        print(*(test.name for test in tests), sep="\n")
        return 0
    if needs_root and os.geteuid() != 0:
        sys.exit(f"{suite}: these tests attach to processes: run them as root")
    results = []
    for result in Runner(tests, make_bench, seconds).run_all(options.workers or (workers(options) if workers else 1)):
        print(result.line(), flush=True)
        results.append(result)
    return summary(suite, results, len(tests) - len(results), options.slowest)
