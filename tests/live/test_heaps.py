# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Two heaps in one process, one of them loaded by dlopen(), before the recording or meanwhile: each
is exact, in its own domain.
"""
import os
import signal

from harness import ALLOCSNAP, WORKLOADS, Workload, check, check_equal, tool, wait_for
from test_allocators import LIBRARIES, PRELOAD, losses_of_account

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../workloads/plugin_heap.so.c")
ARCHIVE = f"{LIBRARIES}/libjemalloc_pic.a"
# The test makes a prefixed jemalloc: it renames these functions in the archive.
RENAMED = ("malloc", "free", "calloc", "realloc", "posix_memalign", "aligned_alloc", "memalign", "valloc",
           "mallocx", "rallocx", "xallocx", "sallocx", "dallocx", "sdallocx", "nallocx")
RACE_NR = 2003


def library_of(bench, name, argument):
    """Its path and the names of two of its functions."""
    return {"library": lambda: argument, "plugin": lambda: [hidden_plugin(bench), *argument],
            "prefixed": lambda: [prefixed_plugin(bench, argument[0].removesuffix("malloc")), *argument]}[name]()


def hidden_plugin(bench):
    path = bench.path("hidden.so")
    bench.run([tool("gcc"), "-shared", "-fPIC", "-O2", SOURCE, "-o", path, "-Wl,--exclude-libs,ALL",
               ARCHIVE, "-lm", "-lstdc++"], seconds=60)
    return path


def prefixed_archive(bench, prefix):
    archive = bench.path(f"{prefix}.a")
    renamed = [f"--redefine-sym={name}={prefix}{name}" for name in RENAMED]
    bench.run([tool("objcopy"), *renamed, ARCHIVE, archive])
    return archive


def prefixed_plugin(bench, prefix):
    path = bench.path(f"{prefix}prefixed.so")
    bench.run([tool("gcc"), "-shared", "-o", path, "-Wl,--whole-archive", prefixed_archive(bench, prefix),
               "-Wl,--no-whole-archive", f"-Wl,--defsym=shop_take={prefix}malloc", "-lm", "-lstdc++"], seconds=60)
    return path


def plugin_of_two(bench, prefixes):
    """Two copies of an allocator, each under a prefix of its own. Other names are not visible between them."""
    path, parts = bench.path("two.so"), []
    for prefix in prefixes:
        parts.append(bench.path(f"{prefix}.o"))
        bench.run([tool("ld"), "-r", "-o", parts[-1], "--whole-archive", prefixed_archive(bench, prefix)])
        bench.run([tool("objcopy"), "--wildcard", f"--keep-global-symbol={prefix}*", parts[-1]])
    bench.run([tool("gcc"), "-shared", "-o", path, *parts, "-lm", "-lstdc++"], seconds=60)
    return path


def nameless_plugin(bench, prefix):
    """Neither names of functions nor an exported malloc."""
    path, script = bench.path("nameless.so"), bench.path("script")
    with open(script, "w", encoding="ascii") as file:
        file.write("{ global: plugin_*; local: *; };")
    bench.run([tool("gcc"), "-shared", "-fPIC", "-O2", f"-Dmalloc={prefix}malloc", f"-Dfree={prefix}free", SOURCE, "-o", path,
               f"-Wl,--version-script={script}", prefixed_archive(bench, prefix), "-lm", "-lstdc++"], seconds=60)
    bench.run([tool("strip"), path])
    return path


# kind of library, name of its function, its domain
HEAPS = {
    "jemalloc": ("library", [PRELOAD["jemalloc"], "mallocx", "dallocx"], "2"),
    "tcmalloc": ("library", [PRELOAD["tcmalloc"], "tc_malloc", "tc_free"], "3"),
    "mimalloc": ("library", [PRELOAD["mimalloc"], "mi_malloc", "mi_free"], "4"),
    "a plugin with a hidden jemalloc": ("plugin", ["plugin_allocate", "plugin_release"], "2"),
    "a plugin with a prefixed jemalloc": ("prefixed", ["je_malloc", "je_free"], "2"),
    "a plugin with a jemalloc of its project": ("prefixed", ["acme_shop_malloc", "acme_shop_free"], "2"),
}


def start(bench, heap):
    kind, argument, domain = HEAPS[heap]
    argv = [os.path.join(WORKLOADS, "two_heaps"), *library_of(bench, kind, argument)]
    # jemalloc needs more thread-local memory than glibc reserves for libraries that are loaded later
    program = bench.start(argv, kind=Workload, env=dict(
        os.environ, GLIBC_TUNABLES="glibc.rtld.optional_static_tls=16384")).ready()
    return program, argv[1], domain


def domains(bench, path):
    return {row["key"]: (row["count"], row["size"])
            for row in bench.stats(path, "--group-by", "domain")["statistics"]}


def check_both(bench, path, done, domain, before, what):
    """All blocks live since `before`, by domain; the other totals have no losses."""
    now = domains(bench, path)
    for name, key in (("c", "0"), ("loaded", domain)):
        found = [now.get(key, (0, 0))[i] - before.get(key, (0, 0))[i] for i in range(2)]
        check_equal(found, done[name], f"{what}: {name}'s blocks and bytes, in domain {key}")
    check_equal(set(now) - {"0", domain}, set(), f"{what}: other domains")


def check_work(bench, program, recording, domain, what):
    before = recording.snapshot()
    losses = losses_of_account(bench.show(before))
    for command in ("go", "free"):
        _, done = program.order(command)
        path = recording.snapshot()
        check_both(bench, path, done, domain, domains(bench, before), f"{what}, {command}")
    shown = bench.show(path)
    check_equal(losses_of_account(shown), losses, f"{what}: losses")
    check_equal(shown["counters"]["unknown_frees"], bench.show(before)["counters"]["unknown_frees"],
                f"{what}: unknown frees")
    recording.end(signal.SIGINT)
    program.is_unharmed()
    print(f"   {what}: exact", flush=True)


def test_two_heaps_of_a_file_are_recorded_under_their_prefixes(bench):
    library = plugin_of_two(bench, ("acme_", "shop_"))
    for prefix in ("acme_", "shop_"):
        argv = [os.path.join(WORKLOADS, "two_heaps"), library, f"{prefix}malloc", f"{prefix}free"]
        program = bench.start(argv, kind=Workload, env=dict(
            os.environ, GLIBC_TUNABLES="glibc.rtld.optional_static_tls=65536")).ready()
        program.order("load")
        recording = bench.attach([program])
        probes = str(bench.show(recording.snapshot())["probes"])
        check("'acme_mallocx'" in probes and "'shop_mallocx'" in probes, f"names of functions: {probes}")
        check_work(bench, program, recording, "2", f"malloc and {prefix}malloc, of two in the file")


def test_two_heaps_are_recorded(bench):
    for heap in HEAPS:
        program, _, domain = start(bench, heap)
        program.order("load")
        recording = bench.attach([program])
        check_equal(losses_of_account(bench.show(recording.snapshot())), {}, "losses")
        check_work(bench, program, recording, domain, f"malloc and {heap}")


def is_probed(bench, path, library):
    return any(library in str(probe) for probe in bench.show(path)["probes"])


def test_heap_loaded_later_is_recorded(bench):
    """The library's allocations are exact once it is probed; a loss counts its functions as late."""
    for heap in HEAPS:
        program, library, domain = start(bench, heap)
        recording = bench.attach([program])
        program.order("load")
        wait_for(lambda: is_probed(bench, recording.snapshot(), os.path.basename(os.path.realpath(library))),
                 f"{library} is probed")
        late = bench.show(recording.snapshot())["losses"]["functions_late"]
        check(late > 0, f"{heap}: its earlier blocks are not reported as unknown")
        check_work(bench, program, recording, domain, f"{heap}, loaded later")


def test_heap_loaded_in_a_race_is_recorded_from_some_block_on(bench):
    """The library allocates at once: all blocks from some moment on are recorded, and none before it."""
    for heap in HEAPS:
        program, _, domain = start(bench, heap)
        recording = bench.attach([program])
        _, done = program.order("race")
        check_equal(done["loaded"][0], RACE_NR, "blocks of the program")
        path = recording.snapshot()
        count, size = domains(bench, path).get(domain, (0, 0))
        first = RACE_NR - count
        check(count, f"{heap}: none of its blocks is recorded")
        check_equal(size, sum(range(first, RACE_NR)), f"{heap}: bytes of the last {count} blocks")
        check(not first or bench.show(path)["losses"]["functions_late"], f"{heap}: no loss is reported")
        recording.end(signal.SIGINT)
        program.is_unharmed()
        print(f"   {heap}: probed after {first} blocks, one a millisecond", flush=True)


def test_heap_under_a_prefix_has_its_own_names(bench):
    program, library, _ = start(bench, "a plugin with a jemalloc of its project")
    program.order("load")
    recording = bench.attach([program])
    shown = bench.show(recording.end(signal.SIGINT)[-1])
    names = {probe["function"] for probe in shown["probes"] if library in str(probe)}
    check({"acme_shop_malloc", "acme_shop_sdallocx"} <= names and "je_malloc" not in names, f"names: {names}")
    for function, expected in (("acme_shop_malloc", " is known, and recorded without --probe"),
                               ("shop_take", " is acme_shop_malloc, too, which is recorded already"),
                               ("je_malloc", ": static and inlined, or stripped?")):
        probe = f"name=shop,object={library},alloc={function}(size=1),free=acme_shop_free(ptr=1)"
        said = bench.run([ALLOCSNAP, "attach", str(program.pid), "--probe", probe], status=1)[1]
        check(f"{function} in {library}{expected}" in said, f"said {said!r}")


def test_more_heaps_with_prefixes_than_are_recorded_are_told(bench):
    path, source = bench.path("five"), bench.path("five.c")
    with open(source, "w", encoding="ascii") as file:
        for nr in range(5):
            for at, name in enumerate(("malloc", "free", "calloc", "realloc", "mallocx")):
                file.write(f"int own{nr}_{name}(void) {{ return {10 * nr + at}; }}\n")
        file.write("int getchar(void);\nint main(void) { return getchar(); }\n")
    bench.run([tool("gcc"), source, "-o", path], seconds=60)
    program = bench.start([path])
    rows = [row["why"] for row in bench.json("doctor", str(program.pid))["process"]["unseen"]
            if row["name"] == "renamed-allocator"]
    check_equal([f"{path} may have more allocators" in why for why in rows], [True], f"what doctor says: {rows}")
    recording = bench.attach([program])
    recording.end(signal.SIGINT)
    check(f"{path} may have more allocators" in recording.stderr(), f"attach says {recording.stderr()!r}")


def test_heap_without_names_is_told(bench):
    library = nameless_plugin(bench, "acme_shop_")
    program = bench.start([os.path.join(WORKLOADS, "two_heaps"), library, "plugin_allocate", "plugin_release"], kind=Workload,
                          env=dict(os.environ, GLIBC_TUNABLES="glibc.rtld.optional_static_tls=16384")).ready()
    program.order("load")
    rows = [row["why"] for row in bench.json("doctor", str(program.pid))["process"]["unseen"]
            if row["name"] == "nameless-allocator"]
    check_equal([library in why for why in rows], [True], f"what doctor says: {rows}")
    probe = f"name=shop,object={library},alloc=plugin_allocate(size=1),free=plugin_release(ptr=1)"
    recording = bench.attach([program])
    metadata = bench.show(recording.end(signal.SIGINT)[-1])["metadata"]
    check_equal(metadata.get("unrecorded"), "jemalloc without function names (allocsnap doctor)", "what the snapshot says")
    check(f"{library} has jemalloc in it" in recording.stderr(), f"attach says {recording.stderr()!r}")
    recording = bench.attach([program], "--probe", probe)
    _, done = program.order("go")
    found = domains(bench, recording.end(signal.SIGINT)[-1])
    check_equal(list(found["16"]), done["loaded"], f"by --probe, in {found}")
