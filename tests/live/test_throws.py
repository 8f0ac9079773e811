# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Exceptions that leave a probed function: the program catches them as it would without us. Blocks
of the same functions are freed with their size and alignment.

The unwinder reads return addresses. At one that a return probe has hijacked it finds no way on, and
ends the program (std::terminate).
"""
import os
import signal

from harness import MODES, WORKLOADS, Skip, check_equal, environment, rows_of_file

ROUNDS = 200


def kept(bench, path):
    """(count, size) of what the program holds."""
    rows = [row for (function, _), row in rows_of_file(bench.stats(path), "throws.cc").items()
            if function in ("keep()", "keep_aligned()")]
    return sum(count for count, _ in rows), sum(size for _, size in rows)


def installed(library):
    path = f"/usr/lib/x86_64-linux-gnu/{library}"
    if not os.path.exists(path):
        raise Skip(f"{path} is not installed")
    return path


def check_throws(bench, path):
    """Attached to, in each of the three ways to see a return."""
    for mode in MODES:
        os.environ["LD_PRELOAD"] = path
        try:
            throws = bench.workload("throws")
        finally:
            del os.environ["LD_PRELOAD"]
        with environment(mode):
            recording = bench.attach([throws])
        for rounds in (1, 2):
            _, done = throws.order(f"go {ROUNDS}")
            check_equal(done["caught"], 2 * ROUNDS * rounds, "exceptions caught")
        full = recording.snapshot()
        check_equal(kept(bench, full), (done["count"], done["size"]), f"blocks kept ({mode})")
        throws.order("free")
        empty = recording.snapshot()
        check_equal(kept(bench, empty), (0, 0), f"blocks kept that were freed ({mode})")
        counters = [bench.show(path)["counters"] for path in (full, empty)]
        frees, unknown = (counters[1][name] - counters[0][name] for name in
                          ("frees", "unknown_frees"))
        check_equal((frees, unknown), (done["count"], 0), f"frees, unknown ones ({mode})")
        recording.end(signal.SIGINT)
        throws.is_unharmed()


def test_exceptions_pass_operator_new_of_jemalloc(bench):
    check_throws(bench, installed("libjemalloc.so.2"))


def test_exceptions_pass_operator_new_of_tcmalloc(bench):
    check_throws(bench, installed("libtcmalloc_minimal.so.4"))


def test_operator_new_that_jumps_to_malloc_counts_once(bench):
    """A jump makes the call malloc's: a pending call of operator new would hide the return of malloc."""
    os.environ["LD_PRELOAD"] = os.path.abspath(os.path.join(WORKLOADS, "own_new.so"))
    try:
        workload = bench.workload("throws")
    finally:
        del os.environ["LD_PRELOAD"]
    for mode in MODES:
        with environment(mode):
            recording = bench.attach([workload])
        workload.order(f"go {ROUNDS}")
        rows = rows_of_file(bench.stats(recording.snapshot()), "throws.cc")
        found = [value for (function, _), value in rows.items() if function == "keep()"]
        check_equal(found, [(ROUNDS, ROUNDS * 83)], f"blocks of keep() ({mode})")
        recording.end(signal.SIGINT)
    workload.is_unharmed()
