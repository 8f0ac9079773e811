# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Tracebacks through code that comes and goes, or that no file has: workloads/unwind_code.c."""
import os
import signal

import harness
from harness import ALLOCSNAP, WORKLOADS, Workload, check, check_equal, private_mounts
from unwinding import (BELOW_MAIN, build, build_library, chains, check_chain, check_ends,
                       needs_tables, record)

FROM_MAIN = ["obey_orders", "main", *BELOW_MAIN]
TURNS = 20


def start(bench, *libraries, command=()):
    program = os.path.abspath(os.path.join(WORKLOADS, "unwind_code"))
    return bench.start([*command, program, *libraries], kind=Workload).ready()


@harness.core
def test_unwind_follows_libraries_mapped_in_turn_at_one_address(bench):
    """The rules cached for an address are dropped when other code is mapped there."""
    needs_tables()
    workload = start(bench, build_library(bench, "a.so", "-DFRAME_BYTES=1000"),
                     build_library(bench, "b.so", "-DFRAME_BYTES=3000"))
    recording = bench.attach([workload])
    workload.order("look")
    recording.snapshot()
    workload.order("turns")
    path = recording.snapshot()
    check_ends(bench, path)
    for size in (402, 405):
        check_chain(bench, path, size,
                    [f"allocate_{size}", "through", "turn", "turns", *FROM_MAIN], TURNS)
    workload.is_unharmed()


def test_unwind_works_after_exec_at_the_same_addresses(bench):
    needs_tables()
    small, large = (build(bench, "unwind/execs.c", name, f"-DFRAME_BYTES={frame_bytes}", "-no-pie",
                          "-fno-pie") for name, frame_bytes in (("small", 1000), ("large", 3000)))
    workload = bench.start([small, large], kind=Workload).ready()
    recording = bench.attach([workload])
    workload.order("go")
    check_chain(bench, recording.snapshot(), 501, ["go", *FROM_MAIN], 1)
    workload.write("exec\n")
    workload.ready()
    recording.snapshot()
    workload.order("go")
    check_chain(bench, recording.snapshot(), 501, ["go", *FROM_MAIN], 1)
    workload.is_unharmed()


def test_unwind_works_after_a_vforked_child_ran_another_program(bench):
    """The other program has its code at the same addresses, as Debian's gcc, cc1 and python3 have. That code was
    noted as the parent's where functions of the kernel can be traced (load.c, fentry_works())."""
    needs_tables()
    small, large = (build(bench, "unwind/execs.c", name, f"-DFRAME_BYTES={frame_bytes}", "-no-pie",
                          "-fno-pie") for name, frame_bytes in (("small", 1000), ("large", 3000)))
    process = bench.start([ALLOCSNAP, "run", "--follow-forks", "-o", bench.path("out"), "--", small,
                           large])
    process.write("go\nspawn\ngo\n")
    process.popen.stdin.close()
    paths = [line for line in iter(process.line, None) if line.endswith(".snap")]
    check_equal(process.wait(), 0, "its exit status")
    path, = (path for path in paths if "/small." in path)
    check_chain(bench, path, 501, ["go", *FROM_MAIN], 2)
    check_ends(bench, path)


def test_unwind_works_beside_a_mapping_of_64_tebibytes(bench):
    """The recorder does not scan such a mapping: the next snapshot comes in time, and is whole."""
    needs_tables()
    workload = start(bench)
    path = record(bench, workload, ["vast", "jit"])
    check_chain(bench, path, 406, ["allocate_406", "[anonymous code]", "jit", *FROM_MAIN], 1)
    workload.is_unharmed()


def test_unwind_counts_blocks_of_a_constructor_before_its_table_is_loaded(bench):
    """The constructor's blocks come before its table can be loaded: these are counted, later ones are complete."""
    needs_tables()
    library = build_library(bench, "new.so", "-DCONSTRUCTOR")
    workload = start(bench, library, library)
    recording = bench.attach([workload])
    recording.popen.send_signal(signal.SIGSTOP)
    workload.order("load")
    recording.popen.send_signal(signal.SIGCONT)
    path = recording.snapshot()
    early = [(chain, count) for chain, count in chains(bench, path, 403)
             if chain != ["allocate", "through", "constructed"] + chain[3:] or len(chain) < 4]
    shown = bench.show(path)
    check_equal([count for _, count in early], [1], "constructor's blocks without all callers")
    check(early[0][0] in (["allocate"], ["allocate", "through"]), f"junk: {early}")
    check(shown["losses"]["tracebacks_no_table"], "it is not counted")
    workload.order("through")
    check_chain(bench, recording.snapshot(), 401, ["allocate_401", "through", "through", *FROM_MAIN],
                1)
    workload.is_unharmed()


def check_guessed(bench, before, order, size, chain):
    """The walk through code of no file is a guess, and marked as one; with tables only it stops there."""
    needs_tables()
    for how, guessed, stopped, found in (("auto", 1, {}, chain),
                                         ("dwarf", 0, {"no_table": 1}, chain[:2])):
        workload = start(bench)
        for early in before:
            workload.order(early)
        path = record(bench, workload, [order], options=["--unwind", how])
        check_chain(bench, path, size, found, 1)
        check_ends(bench, path, stopped, guessed)
        workload.is_unharmed()


def test_unwind_passes_code_made_at_run_time(bench):
    check_guessed(bench, [], "jit", 406, ["allocate_406", "[anonymous code]", "jit", *FROM_MAIN])


def test_unwind_passes_code_moved_to_huge_pages(bench):
    check_guessed(bench, ["huge"], "moved", 407,
                  ["allocate_407", "[anonymous code]", "moved", *FROM_MAIN])


def check_loaded(bench, change):
    """A library is changed after it was loaded and before the recording starts."""
    needs_tables()
    library = build_library(bench, "a.so")
    workload = start(bench, library, library)
    workload.order("load")
    change(library)
    path = record(bench, workload, ["through"])
    check_chain(bench, path, 401, ["allocate_401", "through", "through", *FROM_MAIN], 1)
    check_ends(bench, path)
    workload.is_unharmed()


@harness.core
def test_unwind_works_in_a_deleted_library(bench):
    check_loaded(bench, os.unlink)


def test_unwind_works_in_a_replaced_library(bench):
    """The new library's frames are larger, so its table is not the right one for the loaded code."""
    other = build_library(bench, "b.so", "-DFRAME_BYTES=3000")
    check_loaded(bench, lambda library: os.replace(other, library))


def test_unwind_works_on_an_overlay(bench):
    """/proc/PID/maps shows other device and inode numbers on an overlay than the kernel's mappings have."""
    needs_tables()
    folders = [bench.path(name) for name in ("lower", "upper", "work", "merged")]
    for folder in folders:
        os.mkdir(folder)
    build(bench, "unwind_chain.c", "lower/chain")
    lower, upper, work, merged = folders
    script = (f"mount -t overlay none -o lowerdir={lower},upperdir={upper},workdir={work} {merged}"
              f" && exec {merged}/chain")
    workload = bench.start([*private_mounts(), "sh", "-c", script], kind=Workload)
    workload.ready()
    path = record(bench, workload, ["chain"])
    check_chain(bench, path, 201, ["chain6", "chain4", "chain3", "chain2", "chain1", *FROM_MAIN], 1)
    check_ends(bench, path)
    workload.is_unharmed()
