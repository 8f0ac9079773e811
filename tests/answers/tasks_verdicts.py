# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Ten programs grow, each at a known line or where no probe sees it. Recorded by `attach` and by `record`, the verdict
is this line, or that the process cannot be judged, with the reason."""
from functools import partial

from harness import check, children_of, wait_for
import loads
import loads_python
from tasks_servers import LEAKING_SESSION, PUSHES
from task import task
from terminal import FOR, PLANTED, UNJUDGED, check_named, check_planted_line, check_unjudged, first_leak, leak_rows

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
    workers, path = loads_python.start_gunicorn(terminal.bench, "visits", 3)
    load = loads.EndlessLoad(lambda index: loads_python.visit(path, index))
    try:
        return check_verdicts(terminal, workers, check_line("visits.py"), rules="--comm gunicorn",
                              by_record=check_visits_of_pools)
    finally:
        load.stop()


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
    load = loads.EndlessLoad(redis.step)
    try:
        return check_verdicts(terminal, [redis.pid], check_function(PUSHES))
    finally:
        load.stop()
