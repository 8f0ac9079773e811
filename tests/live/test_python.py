# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""--domain python: what CPython allocates, with Python's tracebacks, against CPython's own tracemalloc."""
import collections
import json
import os
import pathlib
import signal

from harness import NO_SESSIONS, Process, Skip, check, check_equal, losses_of
from pythons import Python

PYTHON = "/usr/bin/python3"
OWN = Python([PYTHON], {})
TARGET = pathlib.Path(__file__).with_name("python_target.py")
FRAMES = 25
# Objects of the same size come and go in another order if hashes differ.
ENVIRONMENT = dict(os.environ, PYTHONHASHSEED="0", PYTHONDONTWRITEBYTECODE="1")


class Target(Process):
    """python_target.py."""

    def ready(self):
        check_equal(self.line(120), "ready", "python_target.py")  # some have to compile their library
        return self

    def order(self, text):
        self.write(text + "\n")
        check_equal(self.line(600), text.split()[0], "its answer")


def start(bench, python=OWN, target=TARGET):
    if NO_SESSIONS:
        raise Skip("the domain python needs uprobe sessions")
    if not os.path.exists(python.argv[-1]):
        raise Skip(f"there is no {python.argv[-1]}")
    return bench.start([*python.argv, "-S", str(target)], kind=Target, env=ENVIRONMENT | python.environment).ready()


def attach(bench, target, *options):
    return bench.attach([target], "--domain", "python", "--traceback-limit", str(FRAMES), *options)


def traces_of_work(traces):
    """[domain, size, [[file, line]…], total] → how often each is there, if a frame is of python_work.py."""
    found = collections.Counter()
    for trace in traces:
        frames = tuple((os.path.basename(file), line) for file, line in trace[2])
        if any(file == "python_work.py" for file, _ in frames):
            found[trace[1], frames] += 1
    return found


def recorded(bench, path):
    return traces_of_work(json.loads(bench.allocsnap("convert", path, "-o", "-")[0])["traces"])


def dumped(bench, target):
    target.order("dump " + bench.path("dump"))
    return traces_of_work(json.loads(pathlib.Path(bench.path("dump")).read_text(encoding="utf-8")))


def check_nothing_lost(bench, path, ignored=()):
    check_equal(losses_of(bench.show(path), ("tracebacks_limited", *ignored)), {}, "losses")


def examples(traces):
    return f"{sum(traces.values())}, as {list(traces.items())[:3]}"


def compare_in_one_process(bench, what, starts_before, *options, python=OWN, ignored=()):
    """Both record the same process. Its tracemalloc allocates, too, and its own blocks are not in its own books.
    options: of the recording; ignored: losses."""
    target = start(bench, python)
    if starts_before:
        target.order(f"start {FRAMES}")
    recording = attach(bench, target, *options)
    if not starts_before:
        target.order(f"start {FRAMES}")
    target.order("work " + what)
    path = recording.snapshot()
    ours, theirs = recorded(bench, path), dumped(bench, target)
    check(sum(theirs.values()) > 500, f"tracemalloc has only {examples(theirs)}")
    check(not theirs - ours, f"only tracemalloc has {examples(theirs - ours)}; only we {examples(ours - theirs)}")
    check_nothing_lost(bench, path, ignored)
    recording.end(signal.SIGINT)


def test_python_blocks_are_those_of_its_own_tracemalloc(bench):
    compare_in_one_process(bench, "plain", starts_before=True)


def test_python_blocks_are_those_of_a_tracemalloc_that_starts_later(bench):
    compare_in_one_process(bench, "plain", starts_before=False)


def test_python_blocks_of_threads_are_those_of_tracemalloc(bench):
    compare_in_one_process(bench, "threads", starts_before=True)


def test_python_blocks_of_libraries_are_those_of_tracemalloc(bench):
    """Blocks that PyTraceMalloc_Track() tells of."""
    compare_in_one_process(bench, "tracked", starts_before=True)


def test_python_blocks_are_recorded_from_the_first_one_on(bench):
    start(bench)
    out = bench.path("out")
    bench.allocsnap("run", "--domain", "python", "-o", out, "--", PYTHON, "-S", "-c", "kept = [bytes(1000) for _ in range(999)]")
    path = str(next(pathlib.Path(out).rglob("*.snap")))
    shown = bench.show(path)
    check_equal(losses_of(shown, ("tracebacks_limited",)), {}, "losses")
    check_equal(shown["counters"]["unknown_frees"], 0, "frees of blocks that are not known")
    check(shown["counters"]["allocations"] > 5000, f"only {shown['counters']['allocations']} allocations")


def test_python_domain_is_refused_where_it_cannot_be(bench):
    target = start(bench)
    for option in ("--follow-forks", "--no-return-probes"):
        errors = bench.allocsnap("attach", str(target.pid), "--domain", "python", option, status=1)[1]
        check_equal((errors.count("\n"), option in errors), (1, True), errors)


def test_python_domain_of_another_program_is_refused(bench):
    target = bench.start(["/bin/sleep", "1000"])
    errors = bench.allocsnap("attach", str(target.pid), "--domain", "python", status=1)[1]
    check("has none of the chosen domains" in errors, errors)
