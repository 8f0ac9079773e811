# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""`fleet forget`: what it removes is as if it had never been indexed, and is not indexed again."""
import contextlib
import sqlite3

from fleet import Fleet
from harness import check, check_equal

KEPT = "host!=web-*"


def count(fleet, table):
    with contextlib.closing(sqlite3.connect(f"file:{fleet.catalogue}?mode=ro", uri=True)) as db:
        return db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]


def test_what_is_forgotten_is_in_no_answer(_large):
    with contextlib.closing(Fleet("forget", "--hosts", 6, "--sites", 20, "--tracebacks", 1200, "--frames", 600)) as fleet:
        fleet.index()
        right = {command: fleet.run(command, "--where", KEPT, "--json") for command in ("stats", "hosts", "trend")}
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
