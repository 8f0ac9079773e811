# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The tasks: questions that a user has, each with the minutes and commands that the answer took before."""
from functools import partial
import os
import pathlib
import re
import shutil
import signal
import sys
import threading
import time
import tracemalloc

from doctor_kinds import WAITS_32, compiled, need_32_bit
from harness import check, check_equal, children_of, cpu_seconds, is_running, tool, wait_for
import loads
from terminal import (FOR, PLANTED, UNJUDGED, check_named, check_planted_line, check_unjudged, first_leak, leak_rows,
                      planted_lines, snapshots_below, without_common_caller)

TASKS = []


class Task:
    """One row of the table of docs/answers.md."""

    def __init__(self, function, title, before, best):
        self.function, self.title, self.before, self.best = function, title, before, best

    @property
    def name(self):
        return self.function.__name__


def task(title, before, best="–"):
    """Makes a task of a function of a Terminal, which returns what the first row named. `before`: the time and the
    commands of somebody new to version 0.1.0; `best`: of somebody who knew it."""
    def register(function):
        TASKS.append(Task(function, title, before, best))
        return function
    return register


# ---- C++ ----
#
# A leak in a C++ program: a cache whose second index is never evicted (planted/shopcache.cc).

def check_planted_rows(answer):
    """All rows of lines of the program are the planted leak; returns the first place."""
    row = first_leak(answer)
    for other in leak_rows(answer):
        if other.startswith("LEAKS "):
            check_planted_line(without_common_caller(other), "shopcache.cc")
    return check_planted_line(row, "shopcache.cc")


@task("C++ cache leak, `-O2 -g`", before="4 min, 7 commands", best="40 s, 2")
def cpp_cache_leak(terminal):
    shop = terminal.bench.start([loads.shopcache_path()])
    answer = terminal.type(f"allocsnap leaks {shop.pid} --for {FOR}s", shown=12)
    return check_planted_rows(answer)


@task("the same, stripped", before="6 min, 5 commands", best="1 min, 4")
def cpp_stripped(terminal):
    """Without names the first row is an offset in the program; its debug file makes the line of it."""
    shop = terminal.bench.start([loads.stripped_shopcache(terminal.bench)])
    answer = terminal.type(f"allocsnap leaks {shop.pid} --for {FOR}s -o data")
    check_named(first_leak(answer), r"/shopcache\+0x[0-9a-f]+")
    terminal.type("allocsnap symbolize --debug-dir debug data/*/*/*.snap")
    return check_planted_rows(terminal.type("allocsnap leaks data", shown=12))


@task("the same, in a chroot with mounts and PIDs of its own", before="30 s, 2 commands", best="30 s, 2")
def cpp_contained(terminal):
    pid = loads.contained_shopcache(terminal.bench)
    return check_planted_rows(terminal.type(f"allocsnap leaks {pid} --for {FOR}s"))


@task("the same, its file replaced while it runs; two processes, one killed", before="1 min, 3 commands")
def cpp_replaced_and_killed(terminal):
    bench = terminal.bench
    program = loads.copied_shopcache(bench)
    lives, dies = bench.start([program]), bench.start([program])
    os.unlink(program)
    shutil.copy(tool("true"), program)
    killer = threading.Timer(FOR / 2, dies.popen.send_signal, [signal.SIGKILL])
    killer.start()
    terminal.type(f"allocsnap attach {lives.pid} {dies.pid} --interval {FOR // 5}s --duration {FOR}s -o data")
    killer.join()
    place = check_planted_rows(terminal.type(f"allocsnap leaks data/*/shopcache.{lives.pid}"))
    shown = terminal.type(f"allocsnap show data/*/shopcache.{dies.pid}").stdout
    check("killed by signal 9" in shown, f"show does not say how it ended: {shown[:500]!r}")
    return place


# ---- servers ----
#
# Servers under load.

# The ways of an element into a list of redis 6 and 7.
PUSHES = r"pushGenericCommand|rpushCommand|listTypePush|quicklist(Push|Create)\w*|lpAppend|lpInsert|ziplistPush"


@task("redis (jemalloc) under load, a list grows", before="1 min, 3 commands", best="40 s, 2")
def redis_under_load(terminal):
    redis = loads.GrowingRedis.start_on(terminal.bench)
    load = loads.EndlessLoad(redis.step)
    redis.start_load(terminal.bench)
    answer = terminal.type(f"allocsnap leaks {redis.pid} --for {FOR}s")
    load.stop()
    return check_named(first_leak(answer), PUSHES)


@task("busy redis, `--max-overhead 5`", before="1.5 min, 3 commands: the right site, its size wrong by 6 ×")
def redis_with_a_budget(terminal):
    """Either the planted place, with a rate that is no more than twice off, or no verdict at all."""
    redis = loads.GrowingRedis.start_on(terminal.bench)
    load = loads.EndlessLoad(redis.step)
    redis.start_load(terminal.bench)
    begun, done = time.monotonic(), load.done
    answer = terminal.type(f"allocsnap leaks {redis.pid} --for {FOR}s --max-overhead 5", status=(0, 3))
    bytes_per_s = (load.done - done) * 20 * redis.ELEMENT_BYTES / (time.monotonic() - begun)
    load.stop()
    if answer.status == 3:
        check(answer.lines()[0].startswith("cannot be judged"), f"the first line is {answer.lines()[0]!r}")
        check("LEAKS " not in answer.stdout, f"a verdict where nothing can be judged: {answer.stdout!r}")
        return "cannot be judged"
    row = first_leak(answer)
    check(bytes_per_s / 2 <= rate_of(row) <= bytes_per_s * 2, f"{row!r}; the load is {bytes_per_s:.0f} B/s")
    return check_named(row, PUSHES)


def rate_of(row):
    """Bytes a second of a row "LEAKS  307 KiB/min (at least …"."""
    number, unit = re.search(r"([\d.]+) (B|KiB|MiB|GiB)/min", row).groups()
    return float(number) * 1024 ** ("B", "KiB", "MiB", "GiB").index(unit) / 60


@task("nginx under `ab`, no leak", before="1 min, 4 commands", best="30 s")
def nginx_does_not_leak(terminal):
    """Each request takes a pool and returns it."""
    ab = loads.system_tool("ab")
    worker, address = loads.start_nginx(terminal.bench)
    terminal.bench.start([ab, "-q", "-t", "600", "-n", "100000000", "-c", "4", address])
    wait_for(lambda: cpu_seconds(worker) > 0.1, "nginx has work", 60)
    answer = terminal.type(f"allocsnap leaks {worker} --for {FOR}s -o data")
    check(not leak_rows(answer), f"something is called a leak: {answer.stdout[:500]!r}")
    check("no line leaks" in answer.stdout, f"it does not say that nothing leaks: {answer.stdout[:500]!r}")
    busiest = terminal.type("allocsnap stats data --measure temporary --group-by traceback --top 1")
    return "nothing leaks; busiest: " + check_named(busiest.stdout, r"ngx_\w+")


LEAKING_SESSION = """
\\set name random(1, 1000000000)
PREPARE statement_:name AS SELECT abalance FROM pgbench_accounts WHERE aid = $1;
EXECUTE statement_:name(1);
"""


@task("postgres + pgbench, `-f`; sessions never deallocate statements", before="1.5 min, 4 commands: no names")
def postgres_session_leaks(terminal):
    postgres = loads.Postgres(terminal.bench)
    loads.start_when_recorded(postgres.server.pid, lambda: postgres.start_bench(LEAKING_SESSION))
    terminal.type(f"allocsnap attach {postgres.server.pid} -f --interval {FOR // 5}s --duration {FOR + 2}s -o data")
    listed = terminal.type("allocsnap list data", shown=12).stdout
    backends = [pid for pid, comm in children_of(postgres.server.pid) if comm == "postgres" and f".{pid}" in listed]
    sessions = [pid for pid in backends if postgres.is_session(pid)]
    check(sessions, f"no session is recorded: {listed!r}")
    answer = terminal.type(f"allocsnap leaks data/*/postgres.{sessions[0]} --verbose", shown=12)
    return check_named(first_leak(answer), r"PrepareQuery|StorePreparedStatement|\w+CachedPlan")


# ---- runtimes ----
#
# Programs of language runtimes, and those that cannot be recorded. Functions of JavaScript, Java and Python have no
# names: the first row is the native function that they call.

def check_hint(answer, text):
    """The answer says how to get the names of the code that calls what leaks."""
    hints = [line for line in answer.stdout.splitlines() if line.startswith("hint: ")]
    check(len(hints) == 1 and text in hints[0], f"no hint with {text!r}: {hints}")


@task("node, buffers and zlib streams kept", before="1 min, 3 commands", best="30 s")
def node_buffers(terminal):
    node = loads.start_node(terminal.bench)
    answer = terminal.type(f"allocsnap leaks {node.pid} --for {FOR}s")
    check_hint(answer, "--perf-basic-prof")
    return check_named(first_leak(answer), r"\w*ArrayBuffer\w*|Zlib\w+|deflateInit2_|NewBackingStore")


@task("the heap of python3, large objects", before="not tried")
def python_large_objects(terminal):
    python = loads.start_python(terminal.bench, "large")
    answer = terminal.type(f"allocsnap leaks {python.pid} --for {FOR}s --domain malloc")
    check_hint(answer, "tracemalloc")
    return check_named(first_leak(answer), r"PyBytes_\w+|bytes_\w+|_PyBytes_\w+")


@task("the heap of python3, small objects, by pymalloc's arenas", before="not tried")
def python_small_objects(terminal):
    python = loads.start_python(terminal.bench, "small")
    answer = terminal.type(f"allocsnap leaks {python.pid} --for {FOR}s --domain malloc", status=UNJUDGED)
    check_unjudged(answer, "arenas.*--domain malloc,mmap")
    answer = terminal.type(f"allocsnap leaks {python.pid} --for {FOR}s --domain malloc,mmap")
    return check_named(first_leak(answer), r"PyUnicode_\w+|scanstring_unicode|_?PyUnicode\w*|\w*scanner\w*|ascii_\w+")


@task("the heap of python3, `PYTHONMALLOC=malloc`", before="1.5 min, 3 commands")
def python_malloc(terminal):
    python = loads.start_python(terminal.bench, "small", PYTHONMALLOC="malloc")
    answer = terminal.type(f"allocsnap leaks {python.pid} --for {FOR}s --domain malloc")
    check_hint(answer, "tracemalloc")
    return check_named(first_leak(answer), r"scanstring_unicode|PyUnicode_\w+|_?PyUnicode\w*|\w*scanner\w*")


@task("Java, deflaters never ended, direct buffers", before="1 min, 3 commands", best="30 s")
def java_deflaters(terminal):
    java = loads.start_java(terminal.bench)
    answer = terminal.type(f"allocsnap leaks {java.pid} --for {FOR}s")
    check_hint(answer, "Java virtual machine")
    return check_named(first_leak(answer), r"deflateInit2_|Java_java_util_zip_Deflater_\w+")


@task("Go, static: refused", before="1 min, 3 commands: advice that fails")
def go_is_refused(terminal):
    """Its advice must be one that can be followed: Go's own profiler."""
    loads.build(terminal.bench, ["go", "build", "-o", "sessions", str(PLANTED / "sessions.go")])
    sessions = terminal.bench.start([terminal.bench.path("sessions")])
    answer = terminal.type(f"allocsnap leaks {sessions.pid} --for {FOR}s", status=1)
    check("Go" in answer.stderr and "pprof" in answer.stderr, f"no advice for Go: {answer.stderr!r}")
    check("--domain mmap" not in answer.stderr, f"advice that fails: {answer.stderr!r}")
    return "refused: use pprof"


@task("Rust, `-g`: a table and a list grow", before="not tried")
def rust_orders(terminal):
    loads.build(terminal.bench, ["rustc", "-g", "-O", "-o", terminal.bench.path("shelf"), str(PLANTED / "shelf.rs")])
    shelf = terminal.bench.start([terminal.bench.path("shelf")])
    answer = terminal.type(f"allocsnap leaks {shelf.pid} --for {FOR}s", shown=12)
    return check_planted_line(first_leak(answer), "shelf.rs")


@task("Rust, Debian's `rg`, stripped: its peak", before="30 s, 2 commands: offsets")
def ripgrep_peak(terminal):
    """It reads a line of 8 MiB into one buffer; without names its place is an offset in the program."""
    tool("rg")
    pathlib.Path(terminal.bench.path("line.txt")).write_text("x" * (8 << 20), encoding="ascii")
    terminal.type("(cat line.txt; sleep 3) | allocsnap run --interval 1s -o data -- rg -c y -", status=1)
    answer = terminal.type("allocsnap stats --at-peak data --top 1")
    largest = re.search(r"size=([\d.]+) MiB", answer.stdout)
    check(largest and float(largest[1]) >= 8, f"the first row is not the line: {answer.stdout!r}")
    return check_named(answer.stdout, r"/rg\+0x[0-9a-f]+")


@task("32-bit: refused", before="10 s, 1 command")
def bits_32_are_refused(terminal):
    program = compiled(terminal.bench, "waits32", "-m32", "-static", "-nostdlib", "-ffreestanding", "-no-pie",
                       source=WAITS_32)
    need_32_bit(program)
    waits = terminal.bench.start([program])
    answer = terminal.type(f"allocsnap leaks {waits.pid} --for {FOR}s", status=1)
    check("32-bit" in answer.stderr, f"the reason is missing: {answer.stderr!r}")
    return "refused: a 32-bit program"


# ---- python ----
#
# Python programs as Debian ships them, recorded as is usual: the first row is a line of Python.

def check_python_leak(terminal, pid, name, options=""):
    answer = terminal.type(f"allocsnap leaks {pid} --for {FOR}s{options}")
    return check_planted_line(first_leak(answer), name)


@task("python3, large objects", before="3 min, 5 commands", best="1 min")
def python_large_objects_by_line(terminal):
    return check_python_leak(terminal, loads.start_python(terminal.bench, "large").pid, "objects.py")


@task("python3, small objects", before="3 min, 5 commands", best="1 min")
def python_small_objects_by_line(terminal):
    """json makes the objects, called by a line of the program."""
    return check_python_leak(terminal, loads.start_python(terminal.bench, "small").pid, "objects.py", " --project '*/objects.py'")


@task("Flask under load", before="not tried")
def flask_visits(terminal):
    shop = loads.start_webshop(terminal.bench)
    with loads.EndlessLoad(shop.visit):
        return check_python_leak(terminal, shop.pid, "webshop.py")


@task("Flask under load, `--sample pools`", before="not tried")
def flask_visits_by_pools(terminal):
    shop = loads.start_webshop(terminal.bench)
    with loads.EndlessLoad(shop.visit):
        return check_python_leak(terminal, shop.pid, "webshop.py", " --sample pools")


@task("python3, small objects, `--sample pools`", before="not tried")
def python_small_objects_by_pools(terminal):
    return check_python_leak(terminal, loads.start_python(terminal.bench, "small").pid, "objects.py", " --sample pools --project '*/objects.py'")


@task("numpy, arrays kept", before="not tried")
def numpy_series(terminal):
    return check_python_leak(terminal, loads.start_with(terminal.bench, "numpy", "series.py").pid, "series.py")


@task("pandas, tables kept", before="not tried")
def pandas_reports(terminal):
    """pandas' own lines allocate, called by a line of the program."""
    reports = loads.start_with(terminal.bench, "pandas", "reports.py")
    return check_python_leak(terminal, reports.pid, "reports.py", " --project '*/reports.py'")


@task("mercurial's command server, an extension leaks", before="not tried")
def mercurial_server(terminal):
    server = loads.start_mercurial(terminal.bench)
    with loads.EndlessLoad(server.run_command):
        return check_python_leak(terminal, server.pid, "hg_keeps.py")


@task("ansible, a callback plugin leaks", before="not tried")
def ansible_plugin(terminal):
    return check_python_leak(terminal, loads.start_ansible(terminal.bench).pid, "ansible_keeps.py")


# ---- many ----
#
# Many processes at once, and many blocks.

# name: (how many, how to start one)
CROWD = {
    "shopcache": (8, lambda bench: bench.start([loads.shopcache_path(), "10"])),
    "python3": (4, lambda bench: loads.start_python(bench, "large")),
    "redis": (2, lambda bench: loads.start_idle_redis(bench)),
    "sqlite3": (4, lambda bench: bench.start([loads.system_tool("sqlite3"), "-batch", ":memory:"])),
    "cat": (2, lambda bench: bench.start([loads.system_tool("cat")])),
}


@task("`record` of 20 processes, 12 of them leak, then `fleet`", before="5 min, 6 commands: a wrong headline")
def crowd_then_fleet(terminal):
    crowd = [start(terminal.bench) for nr, start in CROWD.values() for _ in range(nr)]
    rules = " ".join(f"--pid {process.pid}" for process in crowd)
    times = f"--interval {FOR // 5}s --duration {FOR}s"
    terminal.type(f"allocsnap record {rules} --max-overhead 30 {times} -o data", shown=3)
    check(all(is_running(process.pid) for process in crowd), "a recorded process has ended")
    terminal.type("allocsnap fleet index data -C fleet.db")
    leaks = terminal.type("allocsnap fleet leaks -C fleet.db", shown=12, status=(0, 3)).stdout
    places = re.findall(r"\S+\.(?:cc|c|h|rs):\d+", leaks)
    check(places, f"no line leaks, it says: {leaks!r}")
    check("bytesobject.c" in places[0] or "shopcache.cc" in places[0], f"the first row is not planted: {leaks!r}")
    shops = terminal.type("allocsnap fleet leaks -C fleet.db --where comm=shopcache", status=(0, 3))
    return check_planted_line(shops.stdout, "shopcache.cc")


MAKEFILE = """
all: shopcache small
shopcache: shopcache.cc
	g++ -O2 -g -c $< -o $@
small: small.c
	gcc -c $< -o $@
"""


@task("`run -f -- make`: which process peaked?", before="2 min, a shell loop")
def make_peaks(terminal):
    """The C++ compiler holds more than the C compiler, make, as and collect2."""
    source = pathlib.Path(terminal.folder("src"))
    shutil.copy(PLANTED / "shopcache.cc", source)
    (source / "small.c").write_text("int one(void) { return 1; }\n", encoding="ascii")
    (source / "Makefile").write_text(MAKEFILE, encoding="ascii")
    answer = terminal.type("allocsnap run -f -o data -- make -C src", shown=30)
    printed = (answer.stdout + answer.stderr).splitlines()
    table = [line for line in printed if re.search(r"\bcc1(plus)?\.\d+ .* [KM]iB", line)]
    check(table, f"no table of processes: {answer.stdout[-500:]!r} {answer.stderr[-500:]!r}")
    return " ".join(check_named(table[0], r"\bcc1plus\.\d+ .*?[\d.]+ [KM]iB").split())


HELD_BLOCKS = 2_000_000
MANY = f"""
#include <stdlib.h>
static void *block[{HELD_BLOCKS}];
int main(void)
{{
	for (int i = 0; i < {HELD_BLOCKS}; i++)
		block[i] = malloc(32);
	return !block[0];
}}
"""


@task("two million blocks, `run`", before="10 s, 1 command; a file of 64 MB, `stats` in 0.15 s")
def two_million_blocks(terminal):
    pathlib.Path(terminal.bench.path("many.c")).write_text(MANY, encoding="ascii")
    loads.build(terminal.bench, ["gcc", "-g", "-o", "many", "many.c"])
    terminal.type("allocsnap run -o data -- ./many")
    answer = terminal.type("allocsnap stats data --top 1")
    check(f"count={HELD_BLOCKS}" in answer.lines()[0], f"the first row is {answer.lines()[0]!r}")
    return check_named(answer.lines()[0], r"many\.c:7\b")


# ---- files ----
#
# Snapshots for other programs: JSON, folded stacks, the C libraries; and Python's own snapshots.

ROOT = pathlib.Path(__file__).resolve().parents[2]


def record_shopcache(terminal):
    shop = terminal.bench.start([loads.shopcache_path(), "50"])
    terminal.type(f"allocsnap attach {shop.pid} --interval 3s --count 3 -o data")


@task("JSON + `jq`", before="1 min, 2 commands: the order of frames differs")
def json_by_jq(terminal):
    """The frame that jq finds first is the line that the text names first."""
    tool("jq")
    record_shopcache(terminal)
    query = ".statistics[0].traceback[0] | \"\\(.filename):\\(.lineno)\""
    found = terminal.type(f"allocsnap stats data --json | jq -r '{query}'").stdout.strip()
    shown = terminal.type("allocsnap stats data --top 1").lines()[0]
    check(shown.startswith(found + ":"), f"JSON's first frame is {found!r}, the text has {shown!r}")
    return check_planted_line(found, "shopcache.cc")


@task("folded stacks for a flame graph", before="3 min, 1 command and npm: those of a diff are wrong")
def folded_stacks(terminal):
    """Each line ends in one number: most viewers know no other form."""
    record_shopcache(terminal)
    answer = terminal.type("allocsnap stats data --format folded", shown=3)
    weights = {}
    for line in answer.lines():
        stack, _, weight = line.rpartition(" ")
        check(weight.isdigit() and not re.search(r" \d+$", stack), f"a line with two numbers: {line!r}")
        weights[stack] = weights.get(stack, 0) + int(weight)
    heaviest = max(weights, key=weights.get)
    check("make_session" in heaviest or "index_by_email" in heaviest, f"the heaviest stack is {heaviest!r}")
    return heaviest.split(";")[-1][:60]


@task("the C libraries: install, build `heapdiff`, ask", before="20 s, 3 commands")
def c_library(terminal):
    record_shopcache(terminal)
    old, *_, new = snapshots_below(terminal.bench.path("data"))
    terminal.environment["PKG_CONFIG_PATH"] = terminal.bench.path("usr/lib/pkgconfig")
    terminal.environment.pop("MAKEFLAGS", None)
    terminal.type(f"make -s -C {ROOT} install prefix={terminal.bench.path('usr')}", seconds=300)
    terminal.type(f"cc {ROOT}/tests/example/heapdiff.c $(pkg-config --cflags --libs allocsnap) -o heapdiff")
    answer = terminal.type(f"./heapdiff {old} {new} 'file=*shopcache.cc,all-frames' part.snap")
    most_changed = answer.stdout.partition("Most changed")[2]
    calls = [int(line) for line in re.findall(r'shopcache\.cc", line (\d+)', most_changed)]
    check(set(calls) & planted_lines("shopcache.cc"), f"what changed most is not planted: {most_changed!r}")
    return f"shopcache.cc:{calls[-1]}"


DUMPS = """
import tracemalloc
tracemalloc.start(5)
kept = [bytes(1000) for _ in range(500)]
tracemalloc.take_snapshot().dump("old.pickle")
kept += [bytearray(2000) for _ in range(700)]
tracemalloc.take_snapshot().dump("new.pickle")
"""


@task("pickles of `tracemalloc` → `diff`", before="20 s, 3 commands")
def tracemalloc_pickles(terminal):
    """The first row is Python's own, to the letter."""
    bench = terminal.bench
    pathlib.Path(bench.path("dumps.py")).write_text(DUMPS, encoding="ascii")
    bench.run([sys.executable, "dumps.py"], cwd=bench.folder)
    os.symlink(ROOT / "scripts" / "tracemalloc-to-json", os.path.join(terminal.own, "tracemalloc-to-json"))
    for name in ("old", "new"):
        terminal.type(f"tracemalloc-to-json {name}.pickle | allocsnap convert - -o {name}.snap")
    shown = terminal.type("allocsnap diff old.snap new.snap --top 3").lines()[0]
    old, new = (tracemalloc.Snapshot.load(bench.path(f"{name}.pickle")) for name in ("old", "new"))
    check_equal(shown, str(new.compare_to(old, "lineno")[0]), "the first row")
    return shown.split(":")[0].rpartition("/")[2] + ":" + shown.split(":")[1]


# ---- verdicts ----
#
# Ten programs grow, each at a known line or where no probe sees it. Recorded by `attach` and by `record`, the verdict
# is this line, or that the process cannot be judged, with the reason.

SETTINGS = f"--interval {max(FOR // 5, 1)}s --duration {FOR + 2}s"


def check_line(name):
    """The first row is a planted line of this file."""
    def check_answer(answer):
        check(answer.status == 0, f"status {answer.status}: {answer.stdout[:300]!r}")
        return check_planted_line(first_leak(answer), name)
    return check_answer


def check_function(pattern):
    """The first row has one of these functions."""
    def check_answer(answer):
        check(answer.status == 0, f"status {answer.status}: {answer.stdout[:300]!r}")
        return check_named(first_leak(answer), pattern)
    return check_answer


def check_verdicts(terminal, pids, check_answer, rules=None, by_record=None):
    """Both ways give the right verdict of the same processes."""
    answers = []
    rules = rules or " ".join(f"--pid {pid}" for pid in pids)
    attach = f"attach {' '.join(map(str, pids))}"
    for way, check_way in ((attach, check_answer), (f"record {rules}", by_record or check_answer)):
        folder = way.split()[0]
        terminal.type(f"allocsnap {way} {SETTINGS} -o {folder}", shown=2)
        answer = terminal.type(f"allocsnap leaks {folder}", status=(0, UNJUDGED), shown=12)
        check("no line leaks" not in answer.stdout, f"{way}: no line leaks, it says: {answer.stdout[:500]!r}")
        answers.append(f"{folder}: {check_way(answer)}")
    return "; ".join(answers)


@task("verdicts: C", before="not tried")
def verdicts_of_c(terminal):
    loads.build(terminal.bench, ["gcc", "-g", "-O2", "-o", "ledger", str(PLANTED / "ledger.c")])
    return check_verdicts(terminal, [terminal.bench.start([terminal.bench.path("ledger")]).pid], check_line("ledger.c"))


@task("verdicts: C++", before="not tried")
def verdicts_of_cpp(terminal):
    shopcache = terminal.bench.start([loads.shopcache_path(), "10"])
    return check_verdicts(terminal, [shopcache.pid], check_line("shopcache.cc"))


@task("verdicts: Rust", before="not tried")
def verdicts_of_rust(terminal):
    loads.build(terminal.bench, ["rustc", "-g", "-O", "-o", terminal.bench.path("shelf"), str(PLANTED / "shelf.rs")])
    return check_verdicts(terminal, [terminal.bench.start([terminal.bench.path("shelf")]).pid], check_line("shelf.rs"))


@task("verdicts: Python", before="not tried")
def verdicts_of_python(terminal):
    python = loads.start_python(terminal.bench, "small")
    return check_verdicts(terminal, [python.pid], check_line("objects.py"),
                          by_record=partial(check_unjudged, reason="'--domain python' traces each object"))


@task("verdicts: Go", before="no line leaks")
def verdicts_of_go(terminal):
    loads.build(terminal.bench, ["go", "build", "-o", "listeners", str(PLANTED / "listeners.go")], CGO_ENABLED="1")
    listeners = terminal.bench.start([terminal.bench.path("listeners")])
    return check_verdicts(terminal, [listeners.pid], partial(check_unjudged, reason="Go's heap"))


@task("verdicts: Java", before="no line leaks")
def verdicts_of_java(terminal):
    java = loads.start_java(terminal.bench, "Sessions", "-Xmx512m")
    return check_verdicts(terminal, [java.pid], partial(check_unjudged, reason="Java's heap"))


@task("verdicts: node", before="no line leaks")
def verdicts_of_node(terminal):
    node = loads.start_node(terminal.bench, "thumbs.js")
    return check_verdicts(terminal, [node.pid], partial(check_unjudged, reason="JavaScript's heap"))


def check_visits_of_pools(answer):
    """Small objects are named by their line, larger ones by CPython's function, with what names their line."""
    named = [row for row in leak_rows(answer) if "visits.py:" in row]
    check(named, f"no row names a line of visits.py: {answer.stdout[:500]!r}")
    check("'--domain python' names its lines" in answer.stdout, f"no hint for larger objects: {answer.stdout[-500:]!r}")
    return check_planted_line(named[0], "visits.py")


@task("verdicts: gunicorn, 3 workers", before="one worker of three")
def verdicts_of_gunicorn(terminal):
    workers, path = loads.start_gunicorn(terminal.bench, "visits", 3)
    with loads.EndlessLoad(lambda index: loads.visit(path, index)):
        return check_verdicts(terminal, workers, check_line("visits.py"), rules="--comm gunicorn",
                              by_record=check_visits_of_pools)


@task("verdicts: postgres, two sessions", before="1 min, 3 commands")
def verdicts_of_postgres(terminal):
    postgres = loads.Postgres(terminal.bench)
    postgres.start_bench(LEAKING_SESSION)

    def sessions():
        children = children_of(postgres.server.pid)
        return [pid for pid, comm in children if comm == "postgres" and postgres.is_session(pid)]

    wait_for(lambda: len(sessions()) == 2, "two sessions")
    return check_verdicts(terminal, sessions(), check_function(r"PrepareQuery|StorePreparedStatement|\w+CachedPlan"))


@task("verdicts: redis", before="25 s, 2 commands")
def verdicts_of_redis(terminal):
    redis = loads.GrowingRedis.start_on(terminal.bench)
    with loads.EndlessLoad(redis.step):
        return check_verdicts(terminal, [redis.pid], check_function(PUSHES))
