# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Each allocator in each way of linking: the program's own counts against ours, to the byte, when attached to and
from its start, and each block in its allocator's domain."""
import os
import signal

import harness
from harness import (ALLOCSNAP, NEVER, NO_LINKS, UNWINDING, Workload, check, check_equal, losses_of, rows_of_file, tool)
from ledger import Recorded
from test_known import check_rows, check_totals, expected_rows

LIBRARIES = f"/usr/lib/{harness.MULTIARCH}"
SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../workloads/allocators.c")
FLAGS = ["-g", "-O1", "-fno-omit-frame-pointer", "-fno-inline", "-fno-optimize-sibling-calls", "-pthread"]
TOTALS = ("allocations", "allocated_bytes", "frees", "freed_bytes", "failed_calls", "unknown_frees")

DOMAIN = {"glibc": "0", "musl": "0", "jemalloc": "2", "tcmalloc": "3", "mimalloc": "4"}
# Which parts of the workload an allocator has (allocators.c).
PARTS = {
    "glibc": ["c", "pvalloc", "reallocarray", "new"],
    "musl": ["c", "reallocarray"],
    "jemalloc": ["c", "reallocarray", "new", "new_fails", "x", "x_of_malloc"],
    "tcmalloc": ["c", "pvalloc", "reallocarray", "cfree", "new", "new_fails", "tc"],
    "mimalloc": ["c", "pvalloc", "reallocarray", "cfree", "new", "new_fails", "mi", "heap"],
}
# Libraries that use the common names: without uprobe sessions they are not probed, and the loss is counted.
SELDOM = {"mi", "heap", "tc"}
PRELOAD = {
    "jemalloc": f"{LIBRARIES}/libjemalloc.so.2",
    "tcmalloc": f"{LIBRARIES}/libtcmalloc_minimal.so.4",
    "mimalloc": f"{LIBRARIES}/libmimalloc.so.2",
}

CALLERS = UNWINDING | ({"functions_unprobed"} if NO_LINKS else set())  # losses that do not affect these totals


def whole(archive, *libraries):
    return ["-Wl,--whole-archive", f"{LIBRARIES}/{archive}", "-Wl,--no-whole-archive", *libraries]


JEMALLOC_A = whole("libjemalloc.a", "-lm", "-lstdc++")
JEMALLOC_PIC_A = whole("libjemalloc_pic.a", "-lm", "-lstdc++")
TCMALLOC_A = whole("libtcmalloc_minimal.a", "-lm", "-lstdc++")
NEW = ["-DONLY_GLIBC", "-Wl,--no-as-needed", "-lstdc++"]

# How the program is linked. Left out: glibc and musl are the C library, and cannot be preloaded over another one;
# their archives make a static program, since a process cannot have two C libraries. Debian has no archive of mimalloc.
LINKED = {
    "glibc": {"dynamic": NEW, "static": ["-static", *NEW], "static PIE": ["-static-pie", *NEW]},
    "musl": {"dynamic": [], "static": ["-static"], "static PIE": ["-static-pie"]},
    "jemalloc": {
        "dynamic": ["-Wl,--no-as-needed", "-ljemalloc"], "archive": JEMALLOC_A,
        "static": ["-static", *JEMALLOC_A], "static PIE": ["-static-pie", *JEMALLOC_PIC_A],
        "hidden archive": ["-Wl,--exclude-libs,ALL", *JEMALLOC_A],
    },
    "tcmalloc": {
        "dynamic": ["-Wl,--no-as-needed", "-ltcmalloc_minimal"], "archive": TCMALLOC_A,
        "static": ["-static", *TCMALLOC_A], "static PIE": ["-static-pie", *TCMALLOC_A],
        "hidden archive": ["-Wl,--exclude-libs,ALL", *TCMALLOC_A],
    },
    "mimalloc": {"dynamic": ["-Wl,--no-as-needed", "-lmimalloc", "-lstdc++"]},
}


def parts(allocator, linking):
    """glibc's reallocarray would come to glibc's realloc, and not to a hidden one."""
    without = {"reallocarray"} if linking == "hidden archive" else set()
    if NO_LINKS:
        without |= SELDOM
    return [part for part in PARTS[allocator] if part not in without]


def build_with(bench, name, compiler, flags):
    path = bench.path(name)
    bench.run([tool(compiler), *FLAGS, SOURCE, "-o", path, *flags], seconds=60)
    return path


def build(bench, allocator, linking):
    return build_with(bench, f"{allocator}-{linking}".replace(" ", "-"),
                      "musl-gcc" if allocator == "musl" else "gcc", LINKED[allocator][linking])


def check_domain(bench, path, allocator, done, what):
    rows = {row["key"]: (row["count"], row["size"])
            for row in bench.stats(path, "--group-by", "domain")["statistics"]}
    check_equal(rows, {DOMAIN[allocator]: (done["count"], done["size"])}, f"{what}: domains")


def losses_of_callers(shown):
    """musl has code without call frame information."""
    return {name: n for name, n in losses_of(shown).items() if name in CALLERS - {"tracebacks_busy"}}


def losses_of_account(shown):
    return losses_of(shown, CALLERS)


def rows_of_program(bench, path):
    """Without what pthread_create() allocates for main(): the program does not count it."""
    rows = rows_of_file(bench.stats(path), "allocators.c")
    return {site: row for site, row in rows.items() if site[0] != "main"}


def check_attached(bench, argv, allocator, what, by_hooks=False, **options):
    """Attaches to a running program; only the allocations that the program reports may be counted. by_hooks: they have no
    failed calls, and one domain."""
    program = bench.start(argv, kind=Workload, **options).ready()
    recording = bench.attach([program], *(["--inject=exact"] if by_hooks else []))
    for command in ("go", "go", "free"):
        answers, done = program.order(command)
        path = recording.snapshot()
        check_rows(rows_of_program(bench, path), expected_rows(answers))
        if by_hooks:
            done.pop("failed_calls")
        check_totals(bench, path, done, losses_of_callers(bench.show(path)))
        if command == "go" and not by_hooks:
            check_domain(bench, path, allocator, done, what)
    recording.end(signal.SIGINT)
    program.is_unharmed()


def check_run(bench, argv, allocator, what, by_library=False, **options):
    """Records from the start; allocations from before the program starts counting are subtracted. by_library: by the books
    that a preloaded library writes, which have no failed calls."""
    run = [ALLOCSNAP, "run", *(["--exact"] if by_library else []), "-o", bench.path("out"), "--interval", NEVER, "--", *argv]
    program = bench.start(run, kind=Recorded, bench=bench, name=what, **options).ready()
    before = bench.show(program.snapshot())
    for command in ("go", "free"):
        answers, done = program.order(command)
        path = program.snapshot()
        shown = bench.show(path)
        check_rows(rows_of_program(bench, path), expected_rows(answers))
        for name in [name for name in TOTALS if name != "failed_calls" or not by_library]:
            check_equal(shown["counters"][name] - before["counters"][name], done[name],
                        f"{what}: {name} since it was ready")
        check_equal(shown["blocks"] - before["blocks"], done["count"], f"{what}: blocks")
        check_equal(losses_of_account(shown), {}, f"{what}: losses")
    program.write("quit\n")
    check_equal(program.line(), None, f"{what}: what it says at its end")
    check_equal(program.wait(), 0, f"{what}: exit status")


def ways_to_link(bench, allocator):
    """{name: (command, options of bench.start())}. In QEMU, where arm64 is, each compilation takes long."""
    links = ("dynamic",) if harness.runs_core() or os.uname().machine != "x86_64" else LINKED[allocator]
    ways = {linking: ([build(bench, allocator, linking)], {}) for linking in links}
    if allocator in PRELOAD:
        ways["preloaded"] = ([build(bench, "glibc", "dynamic")],
                             {"env": dict(os.environ, LD_PRELOAD=PRELOAD[allocator])})
    return ways


def hooked_parts(allocator, linking):
    """Other functions are not sampled, and so have no hooks (docs/injection.md)."""
    hooked = {"c", "pvalloc", "reallocarray", "cfree", "x", "x_of_malloc"} | ({"new"} if allocator != "mimalloc" else set())
    return [part for part in parts(allocator, linking) if part in hooked]


@harness.for_each(LINKED, of_core=("jemalloc",))
def test_allocator_is_recorded_exactly_by_hooks(bench, allocator):
    harness.need_injection()
    for linking, (argv, options) in ways_to_link(bench, allocator).items():
        if allocator == "musl" and linking != "dynamic":
            continue  # its code makes no system calls in a known way: refused (test_code_that_makes_no_calls)
        what = f"{allocator}, {linking}, by hooks"
        check_attached(bench, [*argv, *hooked_parts(allocator, linking)], allocator, what, by_hooks=True, **options)
        print(f"   {what}: exact", flush=True)


def parts_by_library(allocator, linking):
    """Its operator new, mallocx() and the like are not seen."""
    own = {"new", "new_fails", "x", "tc", "mi", "heap"} if allocator != "glibc" else set()
    return [part for part in parts(allocator, linking) if part not in own]


def check_is_left_alone(bench, argv, what):
    """Its file has a malloc in front of the library's: nothing is recorded, that is said, and it works as without us."""
    program = bench.start([ALLOCSNAP, "run", "--exact", "-o", bench.path("out"), "--interval", NEVER, "--", *argv],
                          kind=Recorded, bench=bench, name=what).ready()
    for command in "go", "free", "go":
        program.order(command)
    program.write("quit\n")
    check_equal((program.line(), program.wait()), (None, 0), f"{what}: its end")
    check("has a malloc of its own" in program.stderr(), f"{what}: {program.stderr()!r}")
    shown = bench.show(program.paths[-1])
    check_equal((shown["counters"]["allocations"], len(shown["gaps"])), (0, 1), f"{what}: blocks, gaps")


@harness.for_each([name for name in LINKED if name != "musl"], of_core=("jemalloc",))
def test_allocator_is_recorded_exactly_by_the_library(bench, allocator):
    harness.need_injection()
    for linking, (argv, options) in ways_to_link(bench, allocator).items():
        if "static" in linking or linking == "hidden archive":
            continue  # it loads no library, or calls its malloc by another way than its name
        what, argv = f"{allocator}, {linking}, by the library", [*argv, *parts_by_library(allocator, linking)]
        if linking == "archive":
            check_is_left_alone(bench, argv, what)
        else:
            check_run(bench, argv, allocator, what, by_library=True, **options)
        print(f"   {what}: exact", flush=True)


@harness.for_each(LINKED, of_core=("glibc",))
def test_allocator_is_recorded_exactly(bench, allocator):
    ways = ways_to_link(bench, allocator)
    for linking, (argv, options) in ways.items():
        for check_way in (check_attached, check_run):
            what = f"{allocator}, {linking}, {check_way.__name__}"
            check_way(bench, [*argv, *parts(allocator, linking)], allocator, what, **options)
            print(f"   {what}: exact", flush=True)


def test_domain_musl_is_recognized_by_its_name(bench):
    """The distribution may call the library libc.so, as Debian does."""
    argv = [build(bench, "musl", "dynamic"), *parts("musl", "dynamic")]
    program = bench.start(argv, kind=Workload).ready()
    recording = bench.attach([program], "--domain", "musl")
    _, done = program.order("go")
    check_domain(bench, recording.snapshot(), "musl", done, "musl, by its name")
