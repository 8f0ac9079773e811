# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""--domain python with each CPython that is accepted, against its own tracemalloc. Those that are not here are skipped."""
import pythons
from harness import long
from test_python import compare_in_one_process


# Until 3.10 frames are objects, of a type with a free list, and code objects keep one. This is about their size.
FRAME_OBJECTS = range(400, 513)


# Debian's 3.14 tells the names of its allocators in a function that has other calls, too: two places that do not allocate.
NAMES_3_14 = ("python_places_unknown",)


def compare(bench, python, **options):
    """tracemalloc starts before the recording, or later; with threads; blocks of libraries."""
    compare_in_one_process(bench, "plain", True, python, **options)
    compare_in_one_process(bench, "plain", False, python, **options)
    compare_in_one_process(bench, "threads", True, python, **options)
    compare_in_one_process(bench, "tracked", True, python, **options)


@long
def test_python_3_13_of_debian(bench):
    compare(bench, pythons.of_suite("trixie", 13))


@long
def test_python_3_14_of_debian(bench):
    compare(bench, pythons.of_suite("sid", 14), ignored=NAMES_3_14)


@long
def test_python_3_9_of_the_environment(bench):
    compare(bench, pythons.named_like(9), passed_over=FRAME_OBJECTS)


@long
def test_python_3_10_of_the_environment(bench):
    compare(bench, pythons.named_like(10), passed_over=FRAME_OBJECTS)


@long
def test_python_3_11_of_the_environment(bench):
    compare(bench, pythons.named_like(11))


@long
def test_python_3_12_of_the_environment(bench):
    compare(bench, pythons.named_like(12))


@long
def test_python_3_13_of_the_environment(bench):
    compare(bench, pythons.named_like(13))
