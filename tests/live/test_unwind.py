# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Tracebacks: the chain of callers by name, and how the walk ended."""
import os
import pathlib
import signal

from foreign import return_probes
import harness
from harness import (ALLOCSNAP, BY_FRAME_POINTERS, WORKLOADS, Skip, Workload, check, check_equal, environment, wait_for,
                     private_mounts, tool)

# Below main() and below a thread's function; how much of it has a name depends on debug files.
BELOW_MAIN = ["__libc_start_call_main", "__libc_start_main", "_start"]
BELOW_THREAD = ["start_thread", "clone3"]


def needs_tables():
    """The suite also runs with ALLOCSNAP_UNWIND=fp; these programs have no frame pointers."""
    if BY_FRAME_POINTERS:
        raise Skip("ALLOCSNAP_UNWIND=fp: nothing here has frame pointers")


def name_of(frame):
    return frame.get("function") or os.path.basename(frame["filename"])


def names(row):
    """Most recent call first."""
    return [name_of(frame) for frame in row["traceback"]]


def chains(bench, path, size=None):
    """[(names, count)] of all blocks, or of the blocks of this size."""
    only = ["--min-size", str(size), "--max-size", str(size)] if size else []
    rows = bench.stats(path, "--group-by", "traceback", *only)["statistics"]
    return [(names(row), row["count"]) for row in rows]


def check_chain(bench, path, size, expected, count=None):
    """All blocks of this size have one traceback, this one."""
    found = chains(bench, path, size)
    check_equal([chain for chain, _ in found], [expected], f"tracebacks of blocks of {size} bytes")
    if count:
        check_equal(found[0][1], count, f"blocks of {size} bytes")


def check_ends(bench, path, stopped=None, guessed=0):
    """All tracebacks are complete, except {reason: blocks}; none is guessed."""
    shown = bench.show(path)
    expected = stopped or {}
    found = shown["tracebacks"]
    check_equal(found["stopped"], expected, "blocks by how their tracebacks stopped")
    check_equal(found["complete"], shown["blocks"] - sum(expected.values()), "complete tracebacks")
    check(shown["blocks"], "no block")
    losses = {name: n for name, n in shown["losses"].items() if n and name.startswith("tracebacks_")}
    check_equal(losses.pop("tracebacks_guessed", 0), guessed, "guessed tracebacks")
    check_equal(set(losses), {"tracebacks_" + reason for reason in expected}, "what was counted")


def record(bench, workload, orders, mode=None, options=()):
    """The snapshot after these orders; the recording runs while they are given."""
    with environment(mode):
        recording = bench.attach([workload], *options)
    for order in orders:
        workload.order(order)
    return recording.snapshot()


SOURCES = pathlib.Path(__file__).resolve().parents[1] / "workloads"
FLAGS = ["-O2", "-fomit-frame-pointer", "-fno-optimize-sibling-calls", "-g", "-w", "-pthread"]


def build(bench, source, name, *flags, compiler="gcc"):
    """A program or a library of tests/workloads, built in a way of the test's own."""
    path = bench.path(name)
    bench.run([tool(compiler), *FLAGS, str(SOURCES / source), "-o", path, *flags])
    return path


def build_library(bench, name, *flags):
    return build(bench, "unwind/library.c", name, "-shared", "-fPIC", *flags)


# ---- unwind builds ----
#
# Tracebacks of programs that were linked in other ways, and the beginnings that the walks found.

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


# ---- unwind code ----
#
# Tracebacks through code that comes and goes, or that no file has: workloads/unwind_code.c.

FROM_MAIN = ["obey_orders", "main", *BELOW_MAIN]
TURNS = 20


def start(bench, *libraries, command=()):
    program = os.path.join(WORKLOADS, "unwind_code")
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
    harness.need_overlays()
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


# ---- unwind frames ----
#
# Tracebacks through frames that are hard to walk: workloads/unwind_frames.c.

RAISED = ["__pthread_kill_implementation", "raise", "signals", *FROM_MAIN]
ON_OUTER_SIGNAL = ["on_outer_signal", "__restore_rt", *RAISED]


# An order; (size of the blocks, their callers' names) …; {what ends a traceback early: blocks}.
@harness.rows({
    "large_and_realigned": ("large", [(101, ["realigned", "large", "larger", *FROM_MAIN])]),
    "call_that_does_not_return": ("no_return", [(102, ["leaves", "ends_with_call", "no_return", *FROM_MAIN])]),
    "signals_on_two_stacks": ("signals", [
        (103, ["on_inner_signal", "__restore_rt", "__pthread_kill_implementation", "raise", *ON_OUTER_SIGNAL]),
        (104, ON_OUTER_SIGNAL)]),
    "signal_at_the_first_instruction": ("first_instruction", [
        (105, ["on_illegal", "__restore_rt", "is_interrupted", "first_instruction", *FROM_MAIN])]),
    # The process has written to its vDSO: what others' callers are found by is not read from it.
    "modified_vdso": ("calls_vdso", [
        (107, ["on_step", "__restore_rt", "[vdso]", "clock_gettime", "calls_vdso", *FROM_MAIN])]),
    # makecontext() lets it return to a function's first byte: no code that was called.
    "coroutine_to_its_entry": ("coroutine", [(106, ["allocates", "in_coroutine", "libc.so.6"])], {"no_rule": 1}),
    "stack_without_callers": ("by_hand", [(106, ["allocates", "by_hand"])], {"no_code": 1}),
}, of_core=("signals_on_two_stacks",))
def test_unwind_frames(bench, order, expected, stopped=None):
    needs_tables()
    path = record(bench, bench.workload("unwind_frames"), [order])
    for size, chain in expected:
        check_chain(bench, path, size, chain, 1)
    check_ends(bench, path, stopped)


# ---- unwind hijacked ----
#
# Return probes of other tools put their trampoline in the place of return addresses: tracebacks must be as without
# them. See workloads/unwind_chain.c.

HIJACKED_CHAIN = ["chain6", "chain4", "chain3", "chain2", "chain1", *FROM_MAIN]
DEEP = ["descend"] * 40 + ["deep", *FROM_MAIN]
EVERY_SECOND = ["chain1", "chain3", "chain5"]
# A function that jumps to a hijacked one, and several in a row.
IN_A_ROW = ["chain1", "chain2", "chain4", "chain5", "chain6"]
TRAMPOLINE = "[anonymous code]"


def has_storm(bench, recording, workload):
    """Signal handlers interrupt the program anywhere; each traceback has all callers. Whether one came in the trampoline."""
    workload.order("storm")
    found = [chain for chain, _ in chains(bench, recording.snapshot(), 203)]
    for chain in found:
        check(chain[:2] == ["on_alarm", "__restore_rt"] and
              (chain[2:] == ["storm", *FROM_MAIN] or chain[3:] == ["storm", *FROM_MAIN]), f"traceback of a handler: {chain}")
    return any(TRAMPOLINE in chain for chain in found)


@harness.rows(harness.NAMED_MODES, of_core=harness.NAMED_MODES.keys() - {"with_perf_uprobes"})
def test_unwind_restores_hijacked_return_addresses(bench, mode):
    """Each order once with our probes only, then with other tools' probes: both give one traceback."""
    needs_tables()
    workload = bench.workload("unwind_chain")
    with environment(mode):
        recording = bench.attach([workload])
    workload.order("chain")
    workload.order("deep")
    for functions, order in (EVERY_SECOND, "chain"), (IN_A_ROW, "chain"), (["descend"], "deep"):
        with return_probes(bench, workload, functions):
            workload.order(order)
    with return_probes(bench, workload, ["spun"]):
        wait_for(lambda: has_storm(bench, recording, workload), "a signal in the trampoline")
    path = recording.snapshot()
    check_chain(bench, path, 201, HIJACKED_CHAIN, 3)
    check_chain(bench, path, 202, DEEP, 2)
    check_ends(bench, path)


# ---- unwind stacks ----
#
# Tracebacks on stacks that are short, or that cannot be read: workloads/unwind_stacks.c.

THREADS, ROUNDS = 8, 3000


# An order; (size of the blocks, their callers' names) …; {what ends a traceback early: blocks}.
@harness.rows({
    "below_a_guard_page": ("at_guard", [(302, ["below_guard", "libc.so.6"])], {"no_rule": 1}),
    "that_is_not_in_memory": ("paged_out", [
        (303, ["without_callers"]), (304, ["without_callers", "on_shared_stack", "libc.so.6"])],
        {"unreadable": 1, "no_rule": 1}),
})
def test_unwind_stack(bench, order, expected, stopped):
    needs_tables()
    workload = bench.workload("unwind_stacks")
    path = record(bench, workload, [order])
    for size, chain in expected:
        check_chain(bench, path, size, chain, 1)
    check_ends(bench, path, stopped)
    workload.is_unharmed()


def test_unwind_works_near_the_top_of_memory(bench):
    """The rest of the stack is smaller than the window that the unwinder reads at once."""
    needs_tables()
    workload = bench.workload("unwind_stacks")
    workload.write("empty\n")
    workload.ready()
    path = record(bench, workload, ["alone"])
    check_chain(bench, path, 301, ["alone", *FROM_MAIN], 1)
    check_ends(bench, path)
    workload.is_unharmed()


@harness.core
def test_unwind_works_in_many_threads_at_once(bench):
    """No walk contains frames of another thread, whichever threads ran in between."""
    needs_tables()
    workload = bench.workload("unwind_stacks")
    path = record(bench, workload, ["threads"])
    rows = bench.stats(path, "--group-by", "traceback", "--measure", "allocated")["statistics"]
    found = {tuple(names(row)): row["count"] for row in rows if names(row)[0] == "at_depth"}
    expected = {tuple(["at_depth"] * (5 * i + 1) + ["in_thread", *BELOW_THREAD]): ROUNDS
                for i in range(THREADS)}
    check_equal(found, expected, "tracebacks of the threads' blocks")
    check_ends(bench, path)
    workload.is_unharmed()
