# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Python in a program of C: the key of its threads' states is any, and there are several interpreters."""
import glob
import os

import harness
from harness import NO_SESSIONS, Skip, check, check_equal, losses_of
from test_python import ENVIRONMENT

LIBRARIES = "/usr/lib/*-linux-gnu/libpython3.11.so.1.0"
KEEPS = """
try:
    kept
except NameError:
    kept = []
def keep():
    kept.extend(str(i) * 20 for i in range(2000))
keep()
"""
LINE = KEEPS.split("\n").index("    kept.extend(str(i) * 20 for i in range(2000))") + 1


def start_embedded(bench, keys, code, *how):
    if NO_SESSIONS:
        raise Skip("the domain python needs uprobe sessions")
    library = next(iter(glob.glob(LIBRARIES)), None)
    if not library:
        raise Skip(f"there is no {LIBRARIES}")
    path = os.path.join(harness.WORKLOADS, "embeds_python")
    return bench.start([path, library, str(keys), code, *how], kind=harness.Workload, env=ENVIRONMENT).ready()


def recorded_rows(bench, keys, code, *how):
    """Its rows by line after one command, and its losses."""
    target = start_embedded(bench, keys, code, *how)
    target.order("go")
    recording = bench.attach([target], "--domain", "python")
    target.order("go")
    path = recording.snapshot()
    rows = [(row["traceback"][0]["lineno"], row["count"]) for row in bench.stats(path)["statistics"]]
    return rows, losses_of(bench.show(path), ("tracebacks_limited", "python_creations_unknown"))


@harness.core
def test_python_lines_of_an_embedded_python_with_any_key(bench):
    for keys in (0, 31, 200):
        rows, losses = recorded_rows(bench, keys, KEEPS)
        check_equal((rows[0][0], losses), (LINE, {}), f"the first row's line, losses after {keys} keys: {rows[:3]}")


def test_python_that_began_in_a_thread_that_has_ended(bench):
    for keys in (0, 200):
        rows, losses = recorded_rows(bench, keys, KEEPS, "thread")
        check_equal((rows[0][0], losses), (LINE, {}), f"the first row's line, losses after {keys} keys: {rows[:3]}")


def test_python_of_a_second_interpreter_is_counted(bench):
    """Python 3.11 has one allocator for all, and no frames of the second one at the key: tracemalloc finds none either."""
    rows, losses = recorded_rows(bench, 40, KEEPS + "\f" + KEEPS)
    counts = dict(rows)
    check_equal((counts.get(LINE, 0) // 1000, counts.get(0, 0) // 1000), (2, 2), f"thousands of rows {rows[:4]}")
    check(losses.get("python_states_missing", 0) >= 2000, f"losses {losses}")
