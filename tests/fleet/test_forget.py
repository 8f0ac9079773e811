# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""`fleet forget`: what it removes is as if it had never been indexed, or pushed."""
import contextlib
import sqlite3
import time

from chdb import Chdb
from clickhouse import shared_cluster
from fleet import IS_LONG, Fleet
from harness import Skip, check, check_equal, core

KEPT = "host!=web-*"


def count(fleet, table):
    with contextlib.closing(sqlite3.connect(f"file:{fleet.catalogue}?mode=ro", uri=True)) as db:
        return db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]


@core
def test_what_is_forgotten_is_in_no_answer(_large):
    with contextlib.closing(Fleet("forget", "--hosts", 6, "--sites", 20, "--tracebacks", 1200, "--frames", 600)) as fleet:
        fleet.index()
        right = {command: fleet.run(command, "--where", KEPT, "--json") for command in ("stats", "hosts")}
        all_nr = count(fleet, "snapshot")
        fleet.run("forget", status=2)
        fleet.run("forget", "--where", "host=none", status=1)
        out, _ = fleet.run("forget", "--where", "host=web-*")
        check(out.startswith(f"{all_nr - count(fleet, 'snapshot')} snapshots forgotten, "), out)
        check_equal(count(fleet, "snapshot"), count(fleet, "snapshot_rows"), "snapshots with rows")
        for command, answer in right.items():
            check_equal(fleet.run(command, "--json"), answer, command)
        out, _ = fleet.index()
        check_equal(out, f"0 new snapshots, 0 rows; {all_nr} known\n", "indexed again")
        check_equal(fleet.run("stats", "--json"), right["stats"], "stats after an index")


COMMANDS = ("stats", "hosts")


def forget_in_cluster(fleet, cluster, where):
    from_servers = [word for server in cluster.servers for word in ("--from", server.url)]
    return fleet.cluster("forget", *from_servers, "--where", where)[0]


def check_same_rest(fleet, cluster, kept):
    """The cluster has what the catalogue has of these."""
    for command in COMMANDS:
        check_equal(fleet.cluster(command, "--from", cluster.url, "--json"), fleet.run(command, "--where", kept, "--json"),
                    f"{command} of {kept}")


def test_what_is_forgotten_in_a_cluster_is_in_no_answer(_large):
    """By host, and then by time; on one server and on two, after two uploads of each snapshot."""
    with contextlib.closing(Fleet("forget", "--hosts", 6, "--sites", 20, "--tracebacks", 1200, "--frames", 600)) as fleet:
        fleet.index()
        for server_nr in 1, 2:
            cluster = shared_cluster(server_nr)
            fleet.cluster("init", *cluster.init_options())
            push_twice(fleet, cluster)
            first = cluster.servers[0]
            fleet.cluster("forget", "--from", first.url, status=2)
            fleet.cluster("forget", "--from", first.url, "--catalogue", fleet.catalogue, "--where", "pid>0", status=2)
            if server_nr == 2:
                _, err = fleet.cluster("forget", "--from", first.url, "--where", "pid>0", status=1)
                check("--from has to name each server once" in err, err)
                _, err = fleet.cluster("forget", "--from", first.url, "--from", first.url, "--where", "pid>0", status=1)
                check("--from has to name each server once" in err, err)
            check("snapshots forgotten, " in forget_in_cluster(fleet, cluster, "host=web-*"), "what was forgotten")
            check_same_rest(fleet, cluster, KEPT)
            times = sorted({row[0] for row in snapshot_times(fleet)})
            forget_in_cluster(fleet, cluster, f"time<{times[len(times) // 2]}")
            check_same_rest(fleet, cluster, f"{KEPT},time>={times[len(times) // 2]}")
            check_no_rows_without_snapshot(first)
            fleet.run("push", "--to", first.url)
            check_same_rest(fleet, cluster, "pid>0")


def snapshot_times(fleet):
    with contextlib.closing(sqlite3.connect(f"file:{fleet.catalogue}?mode=ro", uri=True)) as db:
        return db.execute("SELECT time_ns / 1000000000 FROM snapshot").fetchall()


def push_twice(fleet, cluster):
    """As two pushes at the same time do: the second one does not see the first one's snapshots."""
    fleet.run("push", "--to", cluster.servers[0].url)
    server = cluster.servers[0]
    for table in "snapshot", "allocation", "label", "loss":
        columns = server.request(f"SELECT name FROM system.columns WHERE database = 'allocsnap' AND table = '{table}'").split()
        words = ", ".join("upload_id + 1000000000" if name == "upload_id" else name for name in columns)
        server.request(f"INSERT INTO {table} SELECT {words} FROM {table}")


def check_no_rows_without_snapshot(server):
    for table in "allocation", "label", "loss":
        found = server.request(f"SELECT count() FROM {table} WHERE upload_id NOT IN (SELECT upload_id FROM snapshot)")
        check_equal(found.strip(), "0", f"rows of {table} without a snapshot")


def test_keep_is_refused_by_a_server_without_it(_large):
    cluster = shared_cluster(1)
    _, err = Fleet.cluster("init", "--to", cluster.url, "--keep", "30d", status=1)
    check("cannot remove old rows by itself" in err and "'allocsnap fleet forget' does" in err, err)


def test_keep_removes_what_is_older(_large):
    """By the engine of a current version, when it merges parts: a snapshot's own row first, its other rows a week later."""
    if not IS_LONG:
        raise Skip("the long tests fetch libchdb")
    with contextlib.closing(Fleet("keep", "--hosts", 4, "--sites", 20, "--tracebacks", 1200, "--frames", 600)) as fleet:
        fleet.index()
        fleet.run("export", fleet.folder / "rows.db")
        age = int(time.time() - max(seconds for seconds, in snapshot_times(fleet))) // 86400
        for days, is_kept, has_parts in (1, False, False), (age - 2, False, True), (10000, True, True):
            with contextlib.closing(Chdb(fleet.folder / f"chdb{days}", "--keep", f"{days}d")) as database:
                database.fill(fleet.folder / "rows.db", fleet.folder)
                for table in "snapshot", "allocation", "label":
                    database.run(f"OPTIMIZE TABLE {table} FINAL")
                    check_equal(database.one(f"SELECT count() FROM {table}") > 0, is_kept if table == "snapshot" else has_parts,
                                f"{days} days: rows of {table}")
                check(database.one("SELECT count() FROM frame") > 0, "names stay")
                has_time = f"name = 'snapshot' AND position(engine_full, 'toIntervalDay({days})') > 0"
                check_equal(database.one("SELECT count() FROM system.tables WHERE database = currentDatabase()"
                                         f" AND {has_time}"), 1, "the time in the table")
