# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Servers under load."""
import re
import time

from harness import check, children_of, cpu_seconds, wait_for
import loads
from task import task
from terminal import FOR, check_named, first_leak, leak_rows

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
