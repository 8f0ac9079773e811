# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The questions of src/fleet/sql have the same answers in SQLite, exported and made, in one ClickHouse and in two shards,
in the engine of a current one, and those are the engine's."""
import contextlib
import os
import random

from chdb import Chdb
from clickhouse import ClickHouse, Servers, shared_cluster
from fleet import Fleet, site_of
from harness import check_equal
from oracle import Oracle
from test_questions import VERSION, by_site, check_rows, is_close, site_by

IS_LONG = int(os.environ.get("FLEET_HOSTS", "500")) > 50
HOSTS, ROUNDS = (200, 3) if IS_LONG else (12, 1)

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


def random_selection(rng, term_nr):
    terms = rng.sample(TERMS, term_nr)
    return ",".join(ours for ours, _ in terms), " AND ".join(sql for _, sql in terms)


def check_close(found, expected, exact_nr, what):
    """The first numbers of a row are whole, and the others nearly equal."""
    check_rows({site: row[:exact_nr] for site, row in found.items()},
               {site: row[:exact_nr] for site, row in expected.items()}, what)
    for site, row in found.items():
        for number, right in zip(row[exact_nr:], expected[site][exact_nr:]):
            assert is_close(number, right), f"{what}: {site}: {number}, SQL has {right}"


def check_statistics(fleet, database, rng, what):
    key, (where, condition) = rng.choice(("lineno", "function", "filename", "object")), random_selection(rng, 1)
    found = by_site(fleet.json("stats", "--where", where, "--group-by", key)["statistics"], "size", "count",
                    site=site_by(key, database))
    check_rows(found, database.sums(key, condition), f"{what}: {key} of {where}")
    found = by_site(fleet.json("stats", "--where", where, "--cumulative")["statistics"], "size", "count")
    check_rows(found, database.cumulative("lineno", condition), f"{what}: cumulative of {where}")
    report = fleet.json("stats", "--where", where, "--group-by", "domain")
    check_rows({row["name"]: [row["size"], row["count"]] for row in report["statistics"]},
               database.domains(condition), f"{what}: domains of {where}")


def check_diff(fleet, database, rng, what):
    (baseline, old), (candidate, new) = random_selection(rng, 1), random_selection(rng, 1)
    report = fleet.json("diff", "--baseline", baseline, "--candidate", candidate)
    found = by_site(report["statistics"], "size", "count", "size_diff", "count_diff")
    check_rows(found, database.diff("lineno", old, new), f"{what}: {baseline} to {candidate}")


def check_hosts(fleet, database, rng, what):
    where, condition = random_selection(rng, 1)
    names = "median", "p95", "max", "mad", "sum", "max_host", "hosts", "outliers", "score"
    found = by_site(fleet.json("hosts", "--where", where)["hosts"], *names)
    check_close(found, database.hosts("lineno", condition), 8, f"{what}: hosts of {where}")


def check_trend(fleet, database, rng, what):
    where, condition = random_selection(rng, 1)
    while "time" in where:  # one time each: there is no trend
        where, condition = random_selection(rng, 1)
    found = by_site(fleet.json("trend", "--where", where)["trends"], "first", "last", "processes", "slope", "growth")
    expected = {site: (*row[2:], *row[:2]) for site, row in database.trend("lineno", condition).items()}
    check_close(found, expected, 3, f"{what}: trend of {where}")


@contextlib.contextmanager
def databases():
    """A fleet, and its row tables by name: as fleet-data writes them, exported, pushed to one server and to two shards,
    and in libchdb."""
    options = "--hosts", HOSTS, "--sites", 60, "--tracebacks", 1800, "--frames", 600
    with contextlib.ExitStack() as stack:
        fleet = stack.enter_context(contextlib.closing(Fleet("clickhouse", *options, rows=True)))
        fleet.index()
        fleet.run("export", fleet.folder / "export.db")
        exported = stack.enter_context(contextlib.closing(Oracle(fleet.folder / "export.db")))
        made = {"fleet-data": fleet.oracle(), "export": exported}
        shards = shared_cluster(2)
        for name, cluster in (("one", Servers(shards.servers[:1])), ("two", shards)):
            fleet.cluster("init", *cluster.init_options(), "--database", name)
            fleet.run("push", "--to", cluster.servers[0].url, "--database", name)
            made[f"shards: {name}"] = ClickHouse(cluster.servers[-1], name)
        if IS_LONG:  # 560 MB to fetch
            made["libchdb"] = stack.enter_context(contextlib.closing(Chdb(fleet.folder / "chdb")))
            made["libchdb"].fill(fleet.folder / "export.db", fleet.folder)
        yield fleet, made


def test_clickhouse_answers_as_the_engine_does(_large):
    """Random selections."""
    seed = random.randrange(1 << 32)
    with databases() as (fleet, made):
        for name, database in made.items():
            rng = random.Random(seed)
            for check in (check_statistics, check_diff, check_hosts, check_trend) * ROUNDS:
                check(fleet, database, rng, f"{name}, seed {seed}")
            check_equal(database.one("SELECT count(*) FROM snapshot"), fleet.made["snapshots"], f"{name}: snapshots")
