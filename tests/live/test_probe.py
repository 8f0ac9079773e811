# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""--probe: allocators that only their program knows of, each in a domain of its own."""
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal

import harness
from harness import (ALLOCSNAP, MODES, WORKLOADS, Workload, changed_code, check, check_equal, environment, losses_of,
                     tool, wait_for)

POOL = ",".join(("alloc=pool_alloc(size=2)", "alloc=pool_calloc(count=1,size=2)",
                 "alloc=connection_new(bytes=192)", "alloc=pool_get(out=3,size=1)",
                 "realloc=pool_realloc(ptr=2,size=4)", "free=pool_free(ptr=3)"))
SQLITE = "name=sqlite,object=libsqlite3.so*,alloc=sqlite3_malloc(size=1),free=sqlite3_free(ptr=1)"


def spec(*words, functions=POOL, file="exe"):
    return ",".join(("name=pool", f"object={file}", functions) + words)


def by_domain(bench, path):
    """{number: (count, size)} and {number: name}."""
    rows = bench.stats(path, "--group-by", "domain")["statistics"]
    return ({int(row["key"]): [row["count"], row["size"]] for row in rows},
            {int(row["key"]): row.get("name") for row in rows})


def without_zeros(domains):
    return {domain: cost for domain, cost in domains.items() if cost[0]}


# ---- a pool with known answers ----

def check_pool(bench, mode, *words):
    """Objects of the pool are in domain 16, blocks of malloc in domain 0; after each order both must be what
    the pool reports."""
    pool = bench.workload("pool")
    with environment(mode):
        recording = bench.attach([pool], "--probe", spec(*words))
    found = []
    for order in ("go 100", "free", "go 37", "free"):
        _, done = pool.order(order)
        found.append((done, recording.snapshot()))
    recording.end(signal.SIGINT)
    pool.is_unharmed()
    return found


def check_traced(shown, expected):
    """The traced bytes of RSS. A pool's objects lie inside blocks of malloc, unless the pool wraps malloc."""
    rss = shown["rss"]
    check_equal(rss["traced"] + rss.get("traced_not_resident", 0), expected, f"traced: {rss}")


@harness.in_modes
def test_probe_of_a_pool_counts_exactly(bench, mode):
    for done, path in check_pool(bench, mode):
        costs, names = by_domain(bench, path)
        expected = without_zeros({0: done["malloc"], 16: done["objects"]})
        check_equal(costs, expected, "(count, size) by domain")
        check_equal(names, {domain: ("malloc", "pool")[domain > 0] for domain in expected}, "names")
        shown = bench.show(path)
        check_equal(shown["counters"]["unknown_frees"], done["foreign"], "frees of foreign pointers")
        check_equal(losses_of(shown), {}, "losses")
        check_traced(shown, done["malloc"][1])


@harness.core
def test_probe_of_a_pool_that_wraps_malloc_hides_its_malloc_calls(bench):
    """Calls of malloc inside the pool do not count. A chunk that was allocated outside starts at the same
    address as the pool's first object and is replaced by it; a loss counts that."""
    for done, path in check_pool(bench, None, "wraps"):
        costs, _ = by_domain(bench, path)
        replaced = bench.show(path)["losses"].get("blocks_replaced", 0)
        outside = [done["outside"][0] - replaced, done["outside"][1] - 16384 * replaced]
        check_equal(costs, without_zeros({0: outside, 16: done["objects"]}), "by domain")
        check_equal(replaced, done["outside"][0], "chunks replaced")
        shown = bench.show(path)
        check_equal(shown["counters"]["unknown_frees"], 0, "unknown frees")
        check_traced(shown, sum(size for _, size in costs.values()))


def test_probe_domain_is_shown_by_name(bench):
    """show prints the name of the domain, and a query by address does, too."""
    pool, recording = bench.recorded("pool", "--probe", spec())
    pool.order("go 10")
    path = recording.snapshot()
    text = bench.allocsnap("show", path)[0]
    check(re.search(r"^  domain\.16 +pool$", text, re.M), "show does not name domain 16")
    check(re.search(r"^  pool_free\+3 .*, domain 16 \(pool\)$", text, re.M), "nor of which a probe is")
    check(re.search(r"^  malloc .*, domain 0 \(malloc\)$", text, re.M), "nor what malloc's is")
    probes = {row["function"]: row["domain"] for row in bench.show(path)["probes"]}
    check_equal((probes["connection_new"], probes["malloc"]), (16, 0), "domains of probes")
    for domain in ("domain=16", "domain=pool"):
        total = bench.stats(path, "--include", domain)["total"]
        check_equal([total["count"], total["size"]], by_domain(bench, path)[0][16], domain)


# ---- several ----

def test_probe_of_two_allocators_gives_two_domains(bench):
    """Domains come in the order of the options; a function that is named twice belongs to the first."""
    pool = bench.workload("pool")
    first = "name=connections,object=*/pool,alloc=connection_new(bytes=192),free=pool_free(ptr=3)"
    functions = POOL.replace("alloc=connection_new(bytes=192),", "")
    recording = bench.attach([pool], "--probe", first, "--probe",
                             spec(functions=functions.replace("free=pool_free", "free=give_back")
                                  .replace("ptr=3", "ptr=2")))
    _, done = pool.order("go 100")
    costs, names = by_domain(bench, recording.snapshot())
    check_equal(names, {0: "malloc", 16: "connections", 17: "pool"}, "names")
    check_equal(costs[16][0] + costs[17][0], done["objects"][0], "objects")
    check_equal(costs[16][1] + costs[17][1], done["objects"][1], "bytes of objects")


def probed_processes(program):
    """How many processes run the program and have the probes of POOL in it. Returns have probes, too, where there are no sessions."""
    nr = 0
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            nr += os.readlink(folder / "exe") == program and changed_code(int(folder.name), program) >= POOL.count(")")
    return nr


def check_follows(bench, file, note):
    program, mark = shutil.copy(os.path.join(WORKLOADS, "pool"), bench.path("pool")), bench.path("mark")
    script = f"for n in 11 25; do (while [ ! -e {mark} ]; do sleep 0.1; done; echo go $n) | {program} & done; wait"
    run = bench.start([ALLOCSNAP, "run", "-f", "-o", bench.path("out"), "--probe", spec(file=file), "--", "/bin/sh",
                       "-c", script])
    wait_for(lambda: probed_processes(program) == 2, "both processes are probed")
    run.popen.send_signal(signal.SIGUSR1)
    while "/pool." not in run.line():  # a snapshot, which comes after all probes of a file
        pass
    pathlib.Path(mark).touch()
    lines = list(iter(run.line, None))
    check_equal(run.wait(), 0, "exit status")
    answers = sorted(tuple(json.loads(line)["done"]["objects"]) for line in lines if "objects" in line)
    paths = {os.path.dirname(line): line for line in lines if line.endswith(".snap") and "/pool." in line}  # the last of each
    found = sorted(tuple(by_domain(bench, path)[0][16]) for path in paths.values())
    check_equal(found, answers, "objects of each process")
    check_equal(len(found), 2, "processes")
    check(note in run.stderr(), f"not said: {run.stderr()!r}")


@harness.core
def test_probe_of_a_file_follows_forks(bench):
    """Every process that maps the file is probed, not only the first; a new one gets its probes a moment later."""
    check_follows(bench, "*/pool", "maps no */pool yet: it is waited for")


def test_probe_of_the_program_follows_children(bench):
    """The shell that starts them has no pool of its own."""
    check_follows(bench, "exe", f"no symbol pool_alloc in {os.path.realpath('/bin/sh')}")


@harness.core
def test_probe_waits_for_dlopen(bench):
    """A library is loaded later. Objects of the first second may be missed, and a loss counts that."""
    target, recording = bench.recorded("dlopen", "--probe", SQLITE)
    check("maps no libsqlite3.so* yet: it is waited for" in recording.stderr(), recording.stderr())
    target.order("go")
    recording.snapshot()
    _, done = target.order("go")
    path = recording.snapshot()
    costs, names = by_domain(bench, path)
    late = bench.show(path)["losses"]["functions_late"]
    check_equal(late, 2, "functions_late")
    check_equal(names[16], "sqlite", "name")
    check(done["count"] <= costs[16][0] <= 2 * done["count"], f"blocks: {costs}")
    check_equal(costs[16][1], costs[16][0] * done["size"] // done["count"], "bytes")


# ---- USDT probes ----

USDT = "alloc=usdt:pool:malloc(ptr=1,size=3),free=usdt:pool:free(ptr=1)"
PLACES = ("take_tensor", "take_gradient", "take_workspace")


def reported_of(bench, path, place):
    """[count, size] of the blocks from a function, which has the probe inlined and allocates nothing else."""
    total = bench.stats(path, "--include", f"function={place},all-frames")["total"]
    return [total["count"], total["size"]]


@harness.in_modes
def test_probe_of_usdt_counts_exactly(bench, mode):
    """The notes are sys/sdt.h's: each place has the values elsewhere, and the blocks are no memory of the process."""
    program = bench.workload("usdt_pool")
    with environment(mode):
        recording = bench.attach([program], "--probe", spec(functions=USDT))
    for order in ("go 700", "free"):
        _, done = program.order(order)
        check_equal(done["semaphores"], [3, 1], "semaphores")
        path = recording.snapshot()
        for place in PLACES:
            check_equal(reported_of(bench, path, place), done[place], f"{place} after {order} ({mode})")
        check_equal(losses_of(bench.show(path)), {}, "losses")
    shown = bench.show(path)
    check_equal({row["function"] for row in shown["probes"] if row["domain"] == 16}, {"pool:malloc", "pool:free"}, "probes")
    recording.end(signal.SIGINT)
    _, done = program.order("free")
    check_equal(done["semaphores"], [0, 0], "semaphores after the recording")
    program.is_unharmed()


@harness.core
def test_probe_of_usdt_that_is_not_there_is_refused(bench):
    program = bench.workload("usdt_pool")
    path = os.path.realpath(f"/proc/{program.pid}/exe")
    stderr = refused(bench, program, "--probe", spec(functions=USDT.replace("pool:malloc", "pool:calloc")))
    check(f"--probe: pool: no USDT probe pool:calloc in {path} (readelf -n lists those that are there)" in stderr, stderr)
    stderr = refused(bench, program, "--probe", spec(functions=USDT.replace("size=3", "size=5")))
    check(f"the USDT probes of {path} cannot be used: malloc has no argument 5" in stderr, stderr)


# ---- exceptions ----

def test_probe_of_a_pool_that_throws_lets_exceptions_pass(bench):
    """The program catches its exceptions as it would without probes. The symbol of a C++ function shows that it
    may throw; for other functions the option has to say so."""
    functions = ("alloc=_ZN4Pool3getEm(size=2)", "alloc=pool_get(size=2)", "free=_ZN4Pool3putEPv(ptr=2)")
    for mode in MODES:
        pool = bench.workload("pool_throws")
        with environment(mode):
            recording = bench.attach([pool], "--probe", spec("throws", functions=",".join(functions)))
        for rounds in (1, 2):
            _, done = pool.order("go 200")
            check_equal(done["caught"], 200 * rounds, "exceptions caught")
            path = recording.snapshot()
            check_equal(by_domain(bench, path)[0][16], done["objects"], f"objects ({mode})")
        pool.order("free")
        path = recording.snapshot()
        check(16 not in by_domain(bench, path)[0], f"objects that were given back ({mode})")
        check_equal(bench.show(path)["losses"]["calls_unreturned"], 400, f"calls left ({mode})")
        recording.end(signal.SIGINT)
        pool.is_unharmed()


# ---- refused options ----

def refused(bench, target, *options, status=1):
    argv = [ALLOCSNAP, "attach", str(target.pid), "-o", bench.path("out"), *options]
    stderr = bench.run(argv, status)[1]
    check_equal(stderr.count("\n"), 1, f"lines of {stderr!r}")
    return stderr


@harness.core
def test_probe_with_an_invalid_specification_is_refused(bench):
    pool = bench.workload("pool")
    stderr = refused(bench, pool, "--probe", "name=p,object=exe,free=pool_free", status=2)
    check("--probe: free=pool_free: ptr= is missing;" in stderr, stderr)
    stderr = refused(bench, pool, "--probe", spec(), "--probe", spec(), status=2)
    check("--probe: name=pool: that is another allocator's name;" in stderr, stderr)
    bench.run([ALLOCSNAP, "run", "--probe", "name=p", "--", "/bin/true"], status=2)


def test_probe_with_missing_functions_is_refused(bench):
    pool = bench.workload("pool")
    path = os.path.realpath(f"/proc/{pool.pid}/exe")
    stderr = refused(bench, pool, "--probe", spec(functions="alloc=pool_new(size=1),free=pool_free(ptr=3)"))
    check(f"--probe: pool: no symbol pool_new in {path}: static and inlined, or stripped?" in stderr,
          stderr)
    stderr = refused(bench, pool, "--probe", spec(functions="alloc=pool_alloc(size=2),free=no(ptr=1)"))
    check(f"no symbol no in {path}: static and inlined, or stripped? "
          "(nothing would be seen to leave)" in stderr, stderr)
    recording = bench.attach([pool], "--probe", spec("alloc=not_there(size=1)"))
    check(f"no symbol not_there in {path}: static and inlined, or stripped?" in recording.stderr(),
          recording.stderr())


# ---- a real one ----

def python_functions():
    """Python's three families. In Debian's python3 they are inlined here and there, so that some frees
    are not seen; in its debug build they are not."""
    for prefix in ("PyObject_", "PyMem_", "PyMem_Raw"):
        yield (f"alloc={prefix}Malloc(size=1),alloc={prefix}Calloc(count=1,size=2),"
               f"realloc={prefix}Realloc(ptr=1,size=2),free={prefix}Free(ptr=1)")


def in_read(process):
    """In system call 0, of descriptor 0."""
    return pathlib.Path(f"/proc/{process.pid}/syscall").read_text().startswith("0 0x0 ")


def test_probe_of_python_matches_tracemalloc(bench):
    """The growth between two moments equals what tracemalloc reports in the same process."""
    script = pathlib.Path(__file__).parent.parent / "workloads" / "python_memory.py"
    python = bench.start([tool("python3.11d"), "-S", str(script)], kind=Workload,
                         env={**os.environ, "PYTHONMALLOC": "pymalloc"}).ready()
    recording = bench.attach([python], "--probe",
                             f"name=python,object=exe,{','.join(python_functions())}")
    sizes = []
    for order in ("begin", "still", "build", "clear"):
        _, done = python.order(order)
        wait_for(lambda: in_read(python), "the next os.read()")
        path = recording.snapshot()
        sizes.append((by_domain(bench, path)[0][16][1], done["size"]))
    recording.end(signal.SIGINT)
    check_equal(bench.show(path)["losses"].get("blocks_replaced", 0), 0, "blocks_replaced")
    _, (our_start, their_start), *later = sizes
    for ours, theirs in later:
        check_equal(ours - our_start, theirs - their_start, "bytes more than at the start")
    check(later[0][1] > 900000 > later[1][1] > 500000, f"it has done little: {sizes}")
    python.order("leave")
    check_equal(python.wait(), 0, "exit status")
