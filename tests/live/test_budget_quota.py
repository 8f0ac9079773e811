# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""--max-overhead in a control group with a quota of CPU time: the budget is of the quota. tests/unit/collect has both
versions of hierarchies; here is the one that the machine has."""
import contextlib
import os
import pathlib
import signal

import harness
from harness import Skip, check, check_equal, wait_for

QUOTA = {1: {"cpu.cfs_period_us": "{1}", "cpu.cfs_quota_us": "{0}"}, 2: {"cpu.max": "{0} {1}"}}


def hierarchy():
    """(version, folder) of the hierarchy with the controller cpu."""
    for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        kind, _, options = right.split()[:3]
        point = pathlib.Path(left.split()[4])
        if kind == "cgroup" and "cpu" in options.split(","):
            return 1, point
        if kind == "cgroup2" and "cpu" in (point / "cgroup.subtree_control").read_text().split():
            return 2, point
    raise Skip("no hierarchy of control groups gives quotas of CPU time")


@contextlib.contextmanager
def groups(*names):
    """(version, a folder, one in it, …)"""
    version, folder = hierarchy()
    made = []
    try:
        for name in names:
            folder = folder / f"{name}.{os.getpid()}"
            try:
                folder.mkdir()
            except OSError as error:
                raise Skip(f"no control group can be made: {error.strerror}") from None
            made.append(folder)
        yield version, *made
    finally:
        for folder in reversed(made):
            wait_for(lambda: not (folder / "cgroup.procs").read_text(), "the end of who is in the group")  # pylint: disable=W0640
            folder.rmdir()


def limit(version, folder, quota_us, period_us):
    for name, form in QUOTA[version].items():
        (folder / name).write_text(form.format(quota_us, period_us))


def budget_of(bench, process):
    recording = bench.attach([process], "--max-overhead", "10")
    path = recording.snapshot()
    recording.end(signal.SIGINT)
    shown, text = bench.show(path), bench.allocsnap("show", path)[0]
    check_equal(shown["cost"]["max_overhead_percent"], 10, "percent of its own CPU time")
    return shown["cost"]["max_overhead_core_ns"], text


@harness.core
def test_quota_of_a_group_is_what_the_budget_is_of(bench):
    with groups("allocsnap-live") as (version, folder):
        limit(version, folder, 20000, 100000)
        known = bench.workload("known")
        (folder / "cgroup.procs").write_text(str(known.pid))
        core_ns, text = budget_of(bench, known)
        check_equal(core_ns, 200000000, "CPU time of a second")
        check("10 % of its quota (0.20 of a core), and of the program's own CPU time, or 0.2 % of a core" in text, text)
        known.is_unharmed()


def test_quota_of_a_group_above_counts_and_a_large_one_does_not(bench):
    with groups("allocsnap-live", "inner") as (version, outer, inner):
        if version == 2:
            (outer / "cgroup.subtree_control").write_text("+cpu")
        limit(version, outer, 50000, 100000)
        known = bench.workload("known")
        (inner / "cgroup.procs").write_text(str(known.pid))
        check_equal(budget_of(bench, known)[0], 500000000, "of the group above")
        limit(version, outer, 400000, 100000)
        core_ns, text = budget_of(bench, known)
        check_equal(core_ns, 1000000000, "four cores")
        check("10 % of one core, and of the program's own CPU time, or 1 % of a core, if that is more" in text, text)
        known.is_unharmed()
