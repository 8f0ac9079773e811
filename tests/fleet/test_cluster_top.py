# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""`fleet push --top N`: the largest rows of each snapshot, exact totals, and a warning in each answer."""
import contextlib
import os
import subprocess

from clickhouse import ClickHouse, shared_cluster
from fleet import Fleet
from harness import check, check_equal
from oracle import Oracle
from test_cluster_questions import answer

TOP = 7
OTHER = "SELECT traceback_id FROM traceback_frame WHERE frame_id IN (SELECT frame_id FROM frame WHERE func = '<other>')"
ROWS = """SELECT snapshot_id, traceback_id, domain, size, count
FROM (SELECT upload_id, traceback_id, domain, size, count FROM allocation) AS a
INNER JOIN (SELECT upload_id, snapshot_id FROM snapshot) AS s USING (upload_id)"""


def rows_by_snapshot(rows):
    made = {}
    for snapshot, *row in rows:
        made.setdefault(snapshot, []).append(tuple(row))
    return made


def cut(rows):
    """Size and count of the largest rows with their traceback; of the others by domain."""
    rows = sorted(rows, key=lambda row: -row[2])
    sums = {}
    for _, domain, size, count in rows[TOP:]:
        sums[domain] = (sums.get(domain, (0, 0))[0] + size, sums.get(domain, (0, 0))[1] + count)
    return rows[:TOP], sums


def check_top_rows(exported, database):
    """Equal sizes may be cut either way, so what is kept is compared by size."""
    full = rows_by_snapshot(exported.ask(ROWS))
    other = {row for row, in database.ask(OTHER)}
    check_equal(len(other), 1, "tracebacks <other>")
    found = rows_by_snapshot(database.ask(ROWS))
    check_equal(found.keys(), full.keys(), "snapshots")
    for snapshot, rows in found.items():
        kept, sums = cut(full[snapshot])
        own = [row for row in rows if row[0] not in other]
        check_equal(sorted(row[2] for row in own), sorted(row[2] for row in kept), "sizes of the largest rows")
        check(set(own) <= set(full[snapshot]), "rows that are none of the snapshot")
        check_equal(sum(row[2] for row in rows), sum(row[2] for row in full[snapshot]), "bytes")
        check_equal(sum(row[3] for row in rows), sum(row[3] for row in full[snapshot]), "blocks")
        check_equal({row[1] for row in rows if row[0] in other}, sums.keys(), "domains of <other>")


def check_warnings(fleet, cluster):
    """Each answer says what it is, in its lines on stderr, and in JSON."""
    for args in (("stats",), ("stats", "--json"), ("diff", "--baseline", "host=web*", "--candidate", "host!=web*"), ("hosts",),
                 ("hosts", "--json"), ("report", "-o", "-")):
        out, err, status = answer(fleet, ["--from", cluster.url], args)
        check_equal(status, 0, f"exit status of {args} ({err!r})")
        check(b"were pushed with --top: totals are exact" in err and b"tracebacks_merged" in err, f"{args}: {err!r}")
        check("--json" not in args or b"pushed with --top" in out, f"{args}: {out[:600]!r}")


def check_leaks_of_files(fleet, cluster):
    """The files have all rows: there is no warning, and a line that leaks may be among the small rows."""
    for args in ("leaks", "--all"), ("leaks", "--json"):
        right = answer(fleet, ["--catalogue", fleet.catalogue], args)
        check_equal(answer(fleet, ["--from", cluster.url], args), right, f"{args}")
    check(b"leak" in right[0] and b"tracebacks_merged" not in right[0], f"{right!r:.600}")


def totals(lines):
    return [line for line in lines.splitlines() if line.startswith("total")]


def test_top_rows_keep_totals_exact(_large):
    options = "--hosts", 6, "--sites", 60, "--tracebacks", 1800, "--frames", 600
    with contextlib.closing(Fleet("top", *options)) as fleet:
        fleet.index()
        fleet.run("export", fleet.folder / "export.db")
        cluster = shared_cluster(2)
        fleet.cluster("init", *cluster.init_options())
        out, _ = fleet.run("push", "--to", cluster.url, "--top", TOP)
        check(f"{fleet.made['snapshots']} snapshots pushed" in out and f"{fleet.made['rows']} rows" not in out, out)
        with contextlib.closing(Oracle(fleet.folder / "export.db")) as exported:
            check_top_rows(exported, ClickHouse(cluster.servers[0]))
        check_warnings(fleet, cluster)
        check_leaks_of_files(fleet, cluster)
        for args in ("stats",), ("stats", "--all-times"), ("stats", "--where", "host=web*"):
            check_equal(totals(fleet.cluster(*args, "--from", cluster.url)[0]), totals(fleet.run(*args)[0]), f"{args}")
        check_equal(fleet.cluster("stats", "--group-by", "domain", "--from", cluster.url)[0],
                    fleet.run("stats", "--group-by", "domain")[0], "stats by domain")
        check("<other>" in fleet.cluster("stats", "--from", cluster.url, "--top", "0")[0], "no line <other>")


def test_top_of_few_rows_is_all_of_them(_large):
    """Also for samples; and there is no warning. With fewer, the estimate of the total stays."""
    with contextlib.closing(Fleet("sampled", "--hosts", 1, "--sites", 20, "--tracebacks", 600, "--frames", 600)) as fleet:
        made = fleet.folder / "golden"
        made.mkdir()
        subprocess.run([os.environ["GOLDEN_SNAPSHOTS"], made], check=True, stdout=subprocess.DEVNULL)
        fleet.index(made, status=1)
        cluster = shared_cluster(1)
        for database, top in ("all", 1000000), ("one", 1):
            fleet.cluster("init", "--to", cluster.url, "--database", database)
            fleet.run("push", "--to", cluster.url, "--database", database, "--top", top)
        source = ["--from", cluster.url, "--database"]
        for args in ("stats",), ("hosts",):
            check_equal(answer(fleet, [*source, "all"], args), answer(fleet, ["--catalogue", fleet.catalogue], args), f"{args}")
        check_equal(totals(answer(fleet, [*source, "one"], ("stats",))[0].decode()), totals(fleet.run("stats")[0]), "one row")
