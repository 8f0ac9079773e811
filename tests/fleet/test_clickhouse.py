# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The questions of src/fleet/sql have the same answers in SQLite, exported and made, in one ClickHouse and in two shards,
in the engine of a current one, and those are the engine's."""
import contextlib
import os
import random
import subprocess
import sys

from chdb import Chdb
from clickhouse import ClickHouse, Servers, shared_cluster
from fleet import IS_LONG, Fleet, site_of
from harness import ALLOCSNAP, Skip, check, check_equal, tool
from oracle import Oracle
from test_questions import VERSION, by_site, check_rows, is_close, site_by

HOSTS, ROUNDS = (200, 8) if IS_LONG else (12, 1)

KEYS = "lineno", "function", "filename", "object", "traceback"

# Terms of a selection, and the same as SQL.
TERMS = (
    ("host=web-*", "host LIKE 'web-%'"),
    ("host!=db-*", "host NOT LIKE 'db-%'"),
    ("comm=redis*", "comm LIKE 'redis%'"),
    ("cgroup=/kubepods/*", "cgroup LIKE '/kubepods/%'"),
    ("label.version=A", VERSION("A")),
    ("label.version!=A", VERSION("A").replace(" IN ", " NOT IN ", 1)),
    ("time<2026-09-21T16:13:20", "time < 1790007200"),
    ("time>=2026-09-21T16:13:20", "time >= 1790007200"),
)


# The same for real programs among the made ones. All of these have ended.
REAL_TERMS = TERMS + (
    ("comm=python*,end=*", "comm LIKE 'python%' AND ending LIKE '%'"),
    ("comm!=python*", "comm NOT LIKE 'python%'"),
    ("exe=/usr/*,label.version=B,end=*", f"exe LIKE '/usr/%' AND {VERSION('B')} AND ending LIKE '%'"),
    ("time>=-24h,end=*", "time > 1790100000 AND ending LIKE '%'"),  # the made ones are older
)
BUSY = """import json, time
kept = []
for turn in range(12):
    kept.append(json.loads(json.dumps([{str(i): [i, "x" * i]} for i in range(400 + turn)])))
    time.sleep(0.1)
"""
PERL = "my @kept; for my $turn (1..12) { push @kept, {map { $_ => [1..$_ % 50] } 1..2000}; select undef, undef, undef, 0.1 }"


def random_selection(rng, term_nr, terms=TERMS):
    terms = rng.sample(terms, term_nr)
    return ",".join(ours for ours, _ in terms), " AND ".join(sql for _, sql in terms)


def check_close(found, expected, exact_nr, what):
    """The first numbers of a row are whole, and the others nearly equal."""
    check_rows({site: row[:exact_nr] for site, row in found.items()},
               {site: row[:exact_nr] for site, row in expected.items()}, what)
    for site, row in found.items():
        scale = max(1, *(number for number in row[:exact_nr] if isinstance(number, int)))
        for number, right in zip(row[exact_nr:], expected[site][exact_nr:]):
            # A line that stays as it is may have 0 in one, and what rounding leaves of its bytes in the other.
            assert is_close(number, right) or abs(number - right) < 1e-12 * scale, f"{what}: {site}: {number}, SQL has {right}"


def check_statistics(fleet, database, rng, what, terms):
    key, (where, condition) = rng.choice(KEYS), random_selection(rng, 1, terms)
    found = by_site(fleet.json("stats", "--where", where, "--group-by", key)["statistics"], "size", "count",
                    site=site_by(key, database))
    check_rows(found, database.sums(key, condition), f"{what}: {key} of {where}")
    found = by_site(fleet.json("stats", "--where", where, "--cumulative")["statistics"], "size", "count")
    check_rows(found, database.cumulative("lineno", condition), f"{what}: cumulative of {where}")
    report = fleet.json("stats", "--where", where, "--group-by", "domain")
    check_rows({row["name"]: [row["size"], row["count"]] for row in report["statistics"]},
               database.domains(condition), f"{what}: domains of {where}")


def check_diff(fleet, database, rng, what, terms):
    (baseline, old), (candidate, new) = random_selection(rng, 1, terms), random_selection(rng, 1, terms)
    key = rng.choice(KEYS)
    report = fleet.json("diff", "--baseline", baseline, "--candidate", candidate, "--group-by", key)
    found = by_site(report["statistics"], "size", "count", "size_diff", "count_diff", site=site_by(key, database))
    check_rows(found, database.diff(key, old, new), f"{what}: {key} of {baseline} to {candidate}")


def check_hosts(fleet, database, rng, what, terms):
    where, condition = random_selection(rng, 1, terms)
    names = "median", "p95", "max", "mad", "sum", "max_host", "hosts", "outliers", "score"
    found = by_site(fleet.json("hosts", "--where", where)["hosts"], *names)
    check_close(found, database.hosts("lineno", condition), 8, f"{what}: hosts of {where}")


def record_real_programs(folder):
    """Each in several snapshots: python3 in two versions, perl, and a compiler."""
    if os.geteuid():
        raise Skip("only root can record")
    cc1 = subprocess.run([tool("gcc"), "-print-prog-name=cc1"], check=True, capture_output=True, text=True).stdout.strip()
    source = folder / "large.c"
    source.write_text("".join(f"int f{i}(int a, int b)\n{{\n\treturn a * {i} + b % (a | 1);\n}}\n" for i in range(2500)))
    programs = ("A", [sys.executable, "-c", BUSY]), ("B", [sys.executable, "-c", BUSY.replace("400", "450")]), \
        ("A", [tool("perl"), "-e", PERL]), ("B", [cc1, "-quiet", "-O2", source, "-o", "/dev/null"])
    for version, argv in programs:
        subprocess.run([ALLOCSNAP, "run", "--quiet", "--interval", "300ms", "--label", f"version={version}",
                        "--domain", "malloc", "-o", folder / "real", "--", *argv], check=True, capture_output=True)


@contextlib.contextmanager
def databases(has_real=False):
    """A fleet, and its row tables by name: as fleet-data writes them, exported, pushed to one server and to two shards,
    and in libchdb. has_real: with snapshots of real programs, which fleet-data has not."""
    options = "--hosts", HOSTS, "--sites", 60, "--tracebacks", 1800, "--frames", 600
    with contextlib.ExitStack() as stack:
        fleet = stack.enter_context(contextlib.closing(Fleet("clickhouse", *options, rows=True)))
        if has_real:
            record_real_programs(fleet.folder)
            fleet.index(fleet.folder / "real")
        fleet.index()
        fleet.run("export", fleet.folder / "export.db")
        exported = stack.enter_context(contextlib.closing(Oracle(fleet.folder / "export.db")))
        made = {"export": exported} if has_real else {"fleet-data": fleet.oracle(), "export": exported}
        shards = shared_cluster(2)
        for name, cluster in (("one", Servers(shards.servers[:1])), ("two", shards)):
            fleet.cluster("init", *cluster.init_options(), "--database", name)
            fleet.run("push", "--to", cluster.servers[0].url, "--database", name)
            made[f"shards: {name}"] = ClickHouse(cluster.servers[-1], name)
        if IS_LONG:  # 560 MB to fetch
            made["libchdb"] = stack.enter_context(contextlib.closing(Chdb(fleet.folder / "chdb")))
            made["libchdb"].fill(fleet.folder / "export.db", fleet.folder)
        yield fleet, made


def check_same_in_all(fleet, made, terms, what):
    """Random selections."""
    seed, questions = random.randrange(1 << 32), (check_statistics, check_diff, check_hosts) * ROUNDS
    for name, database in made.items():
        rng = random.Random(seed)
        for question in questions:
            question(fleet, database, rng, f"{name}, seed {seed}", terms)
    print(f"  {what}: {len(questions)} random questions about {HOSTS} hosts, the same in the engine and in "
          f"{', '.join(made)}; seed {seed}", flush=True)


def test_clickhouse_answers_as_the_engine_does(_large):
    with databases() as (fleet, made):
        check_same_in_all(fleet, made, TERMS, "made snapshots")
        for name, database in made.items():
            check_equal(database.one("SELECT count(*) FROM snapshot"), fleet.made["snapshots"], f"{name}: snapshots")


def test_clickhouse_answers_about_real_programs(_large):
    """Beside the made ones."""
    if not IS_LONG:
        raise Skip("a test of many hosts")
    with databases(has_real=True) as (fleet, made):
        real = made["export"].one("SELECT count(*) FROM snapshot") - fleet.made["snapshots"]
        check(real >= 8, f"{real} real snapshots")
        check_same_in_all(fleet, made, REAL_TERMS, f"{real} real snapshots beside made ones")
