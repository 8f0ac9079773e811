# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""--domain python with each CPython that is accepted, against its own tracemalloc, block by block. Those that are not here
are skipped."""
import pythons
from test_python import compare_in_one_process
from test_python_exact import compare_shape, compare_while_tracemalloc_stops


# Debian's 3.14 tells the names of its allocators in a function that has other calls, too: two places that do not allocate.
NAMES_3_14 = ("python_places_unknown",)


def compare_shapes(bench, python, ignored=()):
    for shape in ("everything", "free_lists", "threads"):
        compare_shape(bench, shape, python, ignored)


def compare_others(bench, python, ignored=()):
    """The C library's blocks, debug hooks, a tracemalloc that comes later, blocks of libraries."""
    for name in ("malloc", "debug"):
        compare_shape(bench, "everything", python, ignored, PYTHONMALLOC=name)
    compare_while_tracemalloc_stops(bench, python, ignored)
    compare_in_one_process(bench, "tracked", True, python=python, ignored=ignored)


def test_python_3_13_of_debian(bench):
    compare_shapes(bench, pythons.of_suite("trixie", 13))


def test_python_3_13_of_debian_with_other_allocators(bench):
    compare_others(bench, pythons.of_suite("trixie", 13))


def test_python_3_14_of_debian(bench):
    compare_shapes(bench, pythons.of_suite("sid", 14), NAMES_3_14)


def test_python_3_14_of_debian_with_other_allocators(bench):
    compare_others(bench, pythons.of_suite("sid", 14), NAMES_3_14)


def test_python_3_9_of_the_environment(bench):
    compare_shapes(bench, pythons.named_like(9))


def test_python_3_9_of_the_environment_with_other_allocators(bench):
    compare_others(bench, pythons.named_like(9))


def test_python_3_10_of_the_environment(bench):
    compare_shapes(bench, pythons.named_like(10))


def test_python_3_10_of_the_environment_with_other_allocators(bench):
    compare_others(bench, pythons.named_like(10))


def test_python_3_11_of_the_environment(bench):
    compare_shapes(bench, pythons.named_like(11))


def test_python_3_11_of_the_environment_with_other_allocators(bench):
    compare_others(bench, pythons.named_like(11))


def test_python_3_12_of_the_environment(bench):
    compare_shapes(bench, pythons.named_like(12))


def test_python_3_12_of_the_environment_with_other_allocators(bench):
    compare_others(bench, pythons.named_like(12))


def test_python_3_13_of_the_environment(bench):
    compare_shapes(bench, pythons.named_like(13))


def test_python_3_13_of_the_environment_with_other_allocators(bench):
    compare_others(bench, pythons.named_like(13))
