# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Ground truth: a preloaded ledger keeps an account of its own in the recorded process.

Each program runs under `allocsnap run` with tests/ledger in it. When all its threads stand still, and at
its end, the ledger and the snapshot are compared block by block, address and size, and counter by
counter. A difference with a known cause is named and counted in the output; any other difference fails
the test.
"""
import contextlib
import json
import os
import signal
import socket
import subprocess

import harness
from harness import WORKLOADS, Process, Workload, check, check_equal, losses_of, tool, wait_for
from ledger import THREAD_CACHE_MAX, compare, environment_of, halt, ledger_of, record, start, stops


def workload(name):
    return os.path.join(WORKLOADS, name)


def write(bench, name, text):
    path = bench.path(name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


# ---- programs -----------------------------------------------------------------------------------

SQL = """CREATE TABLE t (i INTEGER PRIMARY KEY, b BLOB, c TEXT);
CREATE INDEX by_text ON t (c);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 4000)
INSERT INTO t (b, c) SELECT randomblob(i % 3000), printf('row %d of text', i * 7919 % 4001) FROM n;
SELECT count(*), sum(length(t.b)) > 0 FROM t JOIN t u USING (c) WHERE t.c LIKE '%1%'
GROUP BY t.i % 3;
UPDATE t SET b = randomblob(5000), c = c || upper(c) WHERE i % 3 = 0;
DELETE FROM t WHERE i % 2 = 0;
VACUUM;
SELECT group_concat(c, ',') IS NULL FROM (SELECT c FROM t ORDER BY c DESC);
"""


@harness.core
def test_ledger_of_sqlite3_matches(bench):
    record(bench, [tool("sqlite3"), "-batch", ":memory:", SQL], 10000, 25000)


def test_ledger_of_jq_matches(bench):
    rows = [{"id": i, "name": f"name {i}", "text": "lorem ipsum dolor sit amet " * 50,
             "numbers": [i, i + 1]} for i in range(4000)]
    path = write(bench, "rows.json", json.dumps(rows))
    check(os.path.getsize(path) >= 5 << 20, "the file is not large")
    record(bench, [tool("jq"), "[.[] | select(.id % 3 == 0) | .numbers | add] | length", path],
           10000, 20000)


PYTHON = """
import json, re, sys
assert not sys.flags.ignore_environment
kept = []
for i in range(%d):
    kept.append({"i": i, "text": "x" * (i %% 700), "list": list(range(i %% 40))})
    if i %% 5 == 0:
        kept.pop(len(kept) // 2)
text = json.dumps(kept)
assert len(json.loads(text)) == len(kept)
assert re.sub("x+", "y", text)
print(sum(len(item["list"]) for item in kept))
"""


def test_ledger_of_python3_with_malloc_matches(bench):
    record(bench, ["/usr/bin/python3", "-sSBc", PYTHON % 700], 10000, 25000,
           name="python3 with PYTHONMALLOC=malloc", PYTHONMALLOC="malloc")


@harness.core
def test_ledger_of_python3_with_pymalloc_matches(bench):
    record(bench, ["/usr/bin/python3", "-sSBc", PYTHON % 20000], 10000, 30000,
           name="python3 with pymalloc", PYTHONMALLOC="pymalloc")


def make_repository(bench, commits=500):
    """A history of small changes to 23 files."""
    stream, files = [], {}
    for i in range(commits):
        lines = files.setdefault(f"d{i % 7}/f{i % 23}.txt", [f"line {j}" for j in range(80)])
        for k in range(5):
            lines[(i * 7919 + k * 31) % 80] = f"changed by {i}, {k}"
        data, message = "\n".join(lines) + "\n", f"change {i}\n\nand why\n"
        stream.append("commit refs/heads/main\ncommitter A U Thor <author@example.org> "
                      f"{1600000000 + 3600 * i} +0000\ndata {len(message)}\n{message}\n"
                      f"M 100644 inline d{i % 7}/f{i % 23}.txt\ndata {len(data)}\n{data}\n")
    path = bench.path("repository")
    bench.run([tool("git"), "init", "-q", path])
    subprocess.run([tool("git"), "-C", path, "fast-import", "--quiet"], check=True,
                   input="".join(stream).encode())
    return path


def test_ledger_of_git_log_matches(bench):
    record(bench, [tool("git"), "-C", make_repository(bench), "log", "-p", "--stat",
                   "--output=/dev/null", "main"], 5000, 15000, name="git log")


C_SOURCE = "\n".join(f"""
int f{i}(int *a, int n) {{ int s = {i}; for (int k = 0; k < n; k++) s += a[k] * k ^ s >> {i % 7};
	switch (s & 7) {{ case 0: return s; case 1: return -s; default:
	return n ? f{i}(a, n - 1) : 0; }} }}
""" for i in range(12))
CXX_SOURCE = """#include <utility>
int main() { std::pair<int, long> pair { 1, 2 }; return pair.first + pair.second != 3; }
"""


def compiler(bench, driver, language, source):
    """The compiler command that the driver would run, with its arguments."""
    _, commands = bench.run([tool(driver), "-###", "-O1", "-g0", "-S", source, "-o",
                             bench.path("out.s")])
    line = next(line for line in commands.splitlines() if f"/{language} " in line)
    return [word.strip('"') for word in line.split()]


def test_ledger_of_gcc_matches(bench):
    """The compiler proper, and the driver that starts others."""
    source = write(bench, "source.c", C_SOURCE)
    record(bench, compiler(bench, "gcc", "cc1", source), 15000, 30000, name="cc1")
    record(bench, [tool("gcc"), "-c", source, "-o", bench.path("source.o")], 200, name="gcc")


def test_ledger_of_gxx_matches(bench):
    source = write(bench, "source.cc", CXX_SOURCE)
    record(bench, compiler(bench, "g++", "cc1plus", source), 8000, 15000, name="cc1plus")
    record(bench, [tool("g++"), source, "-o", bench.path("program")], 300, name="g++")
    bench.run([bench.path("program")])


@harness.core
def test_ledger_of_exceptions_matches(bench):
    record(bench, [workload("exceptions"), "500"], 10000, 30000)


def connects(path):
    """The socket is there between bind() and listen(), but refuses."""
    with socket.socket(socket.AF_UNIX) as one, contextlib.suppress(OSError):
        one.connect(path)
        return True
    return False


@harness.core
@harness.smoke
def test_ledger_of_redis_matches(bench):
    """jemalloc, and four threads for I/O, under load."""
    path = bench.path("redis.sock")
    redis = start(bench, [tool("redis-server"), "--port", "0", "--unixsocket", path, "--save", "",
                          "--appendonly", "no", "--io-threads", "4", "--io-threads-do-reads", "yes",
                          "--dir", bench.folder, "--logfile", bench.path("redis.log")])
    pid = redis.child()
    wait_for(lambda: connects(path), "redis-server's socket")
    load = bench.start([tool("redis-benchmark"), "-s", path, "-n", "2000", "-c", "50", "-P", "16",
                        "-r", "1000", "-d", "300", "-t", "set,get,lpush,hset", "-q"])
    for after in (30000, 40000, 50000):
        redis.stand_still(after=after)
    check_equal(load.wait(60), 0, "redis-benchmark")
    check(redis.stand_still().ledger["threads"] >= 4, "threads of redis-server")
    bench.run([tool("redis-cli"), "-s", path, "shutdown", "nosave"], status=0)
    redis.end(pid)


def storm(bench, rounds, **environment):
    """Stopped in the middle of each round, wherever the threads are, and between two."""
    program = start(bench, [workload("storm")], **environment).ready()
    pid = program.child()
    comparison = program.stand_still(quiet=True)
    for _ in range(rounds):
        program.write("go\n")
        program.stand_still("anywhere", after=comparison.ledger["allocations"] + 9000)
        done = json.loads(program.line())["done"]
        comparison = program.stand_still(quiet=True)
    check(comparison.found["same"] >= done["count"] > 100, "blocks between the rounds")
    program.write("free\nquit\n")
    return program.end(pid)


@harness.core
def test_ledger_of_a_storm_matches(bench):
    storm(bench, 2)


def test_ledger_of_a_storm_matches_with_perf_uprobes(bench):
    """As on a kernel before 6.6. Without caches glibc has one block of its own for each thread, and these
    blocks are the only differences to explain."""
    end = storm(bench, 1, ALLOCSNAP_NO_UPROBE_MULTI="1",
                GLIBC_TUNABLES="glibc.malloc.tcache_count=0")
    check_equal(end.difference("unknown_frees"), end.ledger["threads_ended"],
                "unknown frees that the ledger does not see, of each thread that ended")


@harness.core
def test_ledger_of_a_killed_storm_matches(bench):
    """The threads are stopped anywhere and killed; the last snapshot shows that moment."""
    program = start(bench, [workload("storm")]).ready()
    program.write("go\n")
    pid, _ = program.halt(9000, "anywhere")
    os.kill(pid, signal.SIGKILL)
    end = program.end(pid, status=128 + signal.SIGKILL)
    check(end.found["same"] > 100, "blocks at its end")


# ---- attached to ---------------------------------------------------------------------------------

def attach(bench, argv, after, kind=Process, **environment):
    """Starts a program that stops after so many allocations, attaches to it at the first stop and lets it go on.
    Returns the recording, and the comparison at the attach."""
    program = bench.start(argv, kind=kind, cwd=bench.folder,
                          env=environment_of(bench, LEDGER_STOPS=stops(argv, *after), **environment))
    wait_for(lambda: ledger_of(bench, program.pid), "its ledger")
    halt(bench, program.pid, after[0])
    recording = bench.attach([program], "--domain", "malloc")
    then = compare(bench, program.pid, recording.snapshot())
    check_equal((then["blocks"], then["in_flight"]), (0, 0), "blocks and calls at the beginning")
    program.popen.send_signal(signal.SIGCONT)
    return program, recording, then


def check_since(then, now, exact=False):
    """The snapshot has all that the ledger counted since the attach; blocks only in the ledger are older. exact: by books,
    which have no failed calls."""
    ledger = {name: now["ledger"][name] - then["ledger"][name] for name in now["ledger"]}
    snapshot = {name: value - then["snapshot"].get(name, 0) for name, value in now["snapshot"].items()}
    for name in ("allocations", "allocated_bytes", *(() if exact else ("failed_calls",))):
        check_equal(snapshot[name], ledger[name], f"{name} since")
    freed = snapshot["frees"] + snapshot["unknown_frees"]
    cached = freed - ledger["frees"] - ledger["unknown_frees"]  # glibc's, of the caches of threads at their end
    check(0 <= cached <= ledger["threads_ended"] * THREAD_CACHE_MAX, f"frees since, of older blocks too: {freed}, {ledger}")
    older = then["ledger"]["current_blocks"] - snapshot["unknown_frees"] + cached + ledger["unknown_frees"]
    check_equal(now["only_ledger"]["count"], older, "older blocks")
    check_equal(now["only_snapshot"]["count"] + now["other_size"]["count"], 0, "blocks that differ")
    check_equal(now["same"], now["ledger"]["current_blocks"] - older, "younger blocks")
    print(f"   ledger: since attach: {ledger['allocations']} allocations, {freed} frees, "
          f"{now['same']} blocks live; unexplained: 0; explained: {older} older blocks, "
          f"{snapshot['unknown_frees']} unknown_frees of such", flush=True)


@harness.core
@harness.smoke
def test_ledger_matches_after_attach(bench):
    """allocsnap attaches to python3 when python3 has some 10,000 blocks."""
    program, recording, then = attach(bench, ["/usr/bin/python3", "-sSBc", PYTHON % 1000], (30000, 45000),
                                      PYTHONMALLOC="malloc")
    check(then["ledger"]["current_blocks"] > 5000, "hardly any blocks of before")
    halt(bench, program.pid, 45000)
    check_since(then, compare(bench, program.pid, recording.snapshot()))
    program.popen.send_signal(signal.SIGCONT)
    last = recording.end()[-1]
    check_since(then, compare(bench, program.pid, last))


def test_ledger_matches_after_attach_in_a_storm(bench):
    """Calls are in flight while the probes are placed; no call is lost or invented."""
    program = bench.start([workload("storm")], kind=Workload, env=environment_of(bench)).ready()
    program.write("go on\n")
    recording = bench.attach([program])
    program.write("go\n")
    for _ in ("go on", "go"):
        program.line(30)
    halt(bench, program.pid, 0)
    now = compare(bench, program.pid, recording.snapshot())
    check_equal(now["only_snapshot"]["count"] + now["other_size"]["count"], 0,
                f"blocks that differ: {now['examples']}")
    lost = {name: n for name, n in losses_of(now).items() if not name.startswith("traceb")}
    check_equal(lost, {}, "losses")
    check(now["same"] > 200 and now["only_ledger"]["count"] < 30,
          f"{now['same']} blocks are in both, {now['only_ledger']} in the ledger only")
    program.popen.send_signal(signal.SIGCONT)
    print(f"   ledger: since attach in a storm: {now['snapshot']['allocations']} allocations of "
          f"{now['ledger']['allocations']}, {now['same']} blocks live; unexplained: 0; explained: "
          f"{now['only_ledger']['count']} older blocks", flush=True)


# ---- many blocks, many stacks -------------------------------------------------------------------

def path_of(row):
    """The number of the call path, from the names of its functions."""
    names = {frame.get("function", "")[:-1]: frame["function"][-1] for frame in row["traceback"]
             if frame.get("function")}
    return int(names["first_"] + names["second_"] + names["third_"])


def test_two_million_blocks_of_1000_stacks_are_counted_exactly(bench):
    paths, recording = bench.recorded("paths")
    for step in range(10):
        _, done = paths.order(f"go {step}")
    check_equal(done["count"], 2000000, "blocks of the program")
    full = recording.snapshot()
    rows = {path_of(row): (row["count"], row["size"])
            for row in bench.stats(full, "--group-by", "traceback")["statistics"]}
    expected = {i: (1001 + 2 * i, (1001 + 2 * i) * (1 + i % 97)) for i in range(1000)}
    check_equal(len(rows), 1000, "stacks")
    wrong = [i for i in expected if rows.get(i) != expected[i]]
    check_equal(wrong, [], "paths with a wrong count or size")
    for step in range(10):
        paths.order(f"free {step}")
    empty = recording.end(signal.SIGINT)[-1]
    check_equal(bench.show(empty)["blocks"], 0, "blocks after all are freed")
    check_equal(bench.show(empty)["counters"]["allocations"], 2000000, "allocations")
    check_equal(bench.show(empty)["counters"]["frees"], 2000000, "frees")
    print(f"   1000 stacks: {sum(count for count, _ in rows.values())} blocks, {len(rows)} stacks, "
          "0 wrong counts, 0 blocks after all are freed", flush=True)
