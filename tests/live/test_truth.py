# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A short form of truth.py: estimates of processes that take samples of their own heap."""
import harness
import truth
from harness import check_equal


def check_estimates(bench, allocator, kind, nr, seed, way="preload"):
    tally = truth.record(bench, way, allocator, kind, nr, seed, processes=10)
    check_equal(list(tally.faults()), [], f"{way}, {allocator}, {kind.name}")


def test_truth_of_a_preloaded_sampler(bench):
    check_estimates(bench, "glibc", truth.KINDS[0], 30, 1 << 30)


def test_truth_while_the_recorder_changes_the_interval(bench):
    check_estimates(bench, "glibc", truth.KINDS[2], 20, 2 << 30)


def test_truth_of_an_injected_sampler(bench):
    harness.need_injection()
    check_estimates(bench, "glibc", truth.KINDS[0], 30, 3 << 30, way="inject")


def test_truth_with_all_allocators(bench):
    """On a busy machine."""
    with truth.busy_machine():
        for seed, allocator in enumerate(truth.ALLOCATORS):
            for kind in truth.KINDS:
                check_estimates(bench, allocator, kind, 20, seed << 20)
