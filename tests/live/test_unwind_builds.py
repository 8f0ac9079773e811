# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Tracebacks of programs that were linked in other ways, and the beginnings that the walks found."""
import os

import harness
from harness import ALLOCSNAP, WORKLOADS, Workload, check, check_equal, tool
from unwinding import (BELOW_MAIN, build, build_library, chains, check_chain, check_ends, needs_tables,
                       record)

CHAIN = ["chain6", "chain4", "chain3", "chain2", "chain1", "obey_orders", "main"]


def check_built(bench, below, *flags, compiler="gcc", stopped=None):
    needs_tables()
    program = build(bench, "unwind_chain.c", "chain", *flags, compiler=compiler)
    workload = bench.start([program], kind=Workload).ready()
    path = record(bench, workload, ["chain"])
    check_chain(bench, path, 201, CHAIN + below, 1)
    check_ends(bench, path, stopped)
    workload.is_unharmed()


def test_unwind_works_in_a_program_linked_by_lld(bench):
    """The addresses of the code differ from its offsets in the file."""
    tool("ld.lld")
    check_built(bench, BELOW_MAIN, "-fuse-ld=lld")


def test_unwind_works_in_a_static_pie(bench):
    check_built(bench, BELOW_MAIN, "-static-pie", "-DALLOCATE(size)=calloc(1,size)")


@harness.core
def test_unwind_works_with_musl(bench):
    """Debian's musl has no call frame information: it begins the program, and ends the walk."""
    check_built(bench, ["libc.so"], compiler="musl-gcc", stopped={"no_rule": 1})


@harness.core
def test_unwind_works_in_a_vforked_child(bench):
    """A vforked child runs in its parent's memory, and its blocks count for the parent."""
    needs_tables()
    folder = bench.path("out")
    process = bench.start([ALLOCSNAP, "run", "--follow-forks", "-o", folder, "--",
                           os.path.join(WORKLOADS, "unwind_stacks")])
    process.write("vfork\n")
    process.popen.stdin.close()
    paths = [line for line in iter(process.line, None) if line.endswith(".snap")]
    check_equal(process.wait(), 0, "its exit status")
    found = [row for path in paths for row in chains(bench, path, 305)]
    check_equal(found, [(["in_child", "vforks", "obey_orders", "main", *BELOW_MAIN], 1)],
                "the child's block")


def test_unwind_reports_where_it_stops_in_lazy_binding(bench):
    """The first call of a function runs the library's code that chooses the function. The linker's code on the way
    has a frame that is found by rbx, which the walk does not follow: the traceback says where it stopped."""
    needs_tables()
    library = build_library(bench, "chooses.so", "-DIFUNC", "-Wl,-z,lazy")
    workload = bench.start([os.path.join(WORKLOADS, "unwind_code"), library, library],
                           kind=Workload).ready()
    workload.order("lazy")
    path = record(bench, workload, ["bind"])
    (chain, count), = chains(bench, path, 404)
    check_equal(count, 1, "blocks")
    check(chain[-2] == "_dl_fixup" and chain[-1].startswith("_dl_runtime_resolve"), f"junk: {chain}")
    check_ends(bench, path, {"unsupported": 1})
    workload.is_unharmed()
