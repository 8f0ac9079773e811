# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The engine's answers equal SQL's, over ten million rows."""
import contextlib
import math
import os
import re
import subprocess

import sql_questions
from fleet import Fleet, frame_site, site_of
from harness import check, check_equal

MARKS = ("core",)

VERSION = "upload_id IN (SELECT upload_id FROM label WHERE name = 'version' AND value = '{}')".format
COHORTS = ("label.version=A", VERSION("A")), ("label.version=B", VERSION("B"))
# Selections, and the same as SQL over the columns of snapshot.
SELECTIONS = (
    ("", ""),
    ("host=web-*,comm=redis*,label.version=B", f"host LIKE 'web-%' AND comm LIKE 'redis%' AND {VERSION('B')}"),
    ("cgroup=/kubepods/*,time<2026-09-21T16:13:20", "cgroup LIKE '/kubepods/%' AND time < 1790007200"),
)


def check_rows(found, expected, what):
    """Compares two {site: numbers}; prints the first few that differ."""
    different = [site for site in expected.keys() | found.keys() if found.get(site) != expected.get(site)]
    check(not different, f"{what}: {len(different)} of {len(expected)} differ: " + "; ".join(
        f"{site}: {found.get(site)}, SQL has {expected.get(site)}" for site in different[:3]))
    check(expected, f"{what}: SQL has no rows")


def is_close(found, expected):
    return math.isclose(found, expected, rel_tol=1e-9, abs_tol=1e-12)


def by_site(rows, *names, site=site_of):
    made = {site(row): tuple(row[name] for name in names) for row in rows}
    check_equal(len(made), len(rows), "distinct keys")
    return made


def site_by(key_type, oracle):
    """How a row of this key type is called in SQL: a text and a number."""
    if key_type == "traceback":
        return lambda row: ("", oracle.stack_of(tuple(map(frame_site, row["traceback"]))))
    if key_type in ("function", "object"):
        return lambda row: (row["key"], 0)
    if key_type == "filename":
        return lambda row: (row["traceback"][0]["filename"], 0)
    return site_of


def where(selection):
    return ["--where", selection] if selection else []


def test_snapshot_file_matches_its_row_tables(fleet):
    """The generator: what a snapshot file has is what the row tables have of it."""
    oracle = fleet.oracle()
    paths = sorted(fleet.data.rglob("*.snap"))
    for path in paths[::len(paths) // 9]:
        shown = fleet.allocsnap("show", path)["metadata"]
        stats = fleet.allocsnap("stats", path, "--top", "0")["statistics"]
        condition = f"host = '{shown['host']}' AND pid = {shown['pid']} AND " \
                    f"time = {int(shown['wall_ns']) // 10**9}"
        rows = {}
        for row in stats:  # one site for each place of a function without lines
            site = frame_site(row["traceback"][0])
            size, count = rows.get(site, (0, 0))
            rows[site] = size + row["size"], count + row["count"]
        expected = {(text.partition("@")[0] + " " if "@" in text else text, number): numbers
                    for (text, number), numbers in oracle.sums("lineno", condition, sql_questions.latest).items()}
        check_rows(rows, expected, path)


def test_sums_match_sql(fleet):
    for key_type in ("lineno", "function", "traceback", "filename", "object"):
        for selection, condition in SELECTIONS if key_type == "lineno" else SELECTIONS[:1]:
            report = fleet.json("stats", "--group-by", key_type, *where(selection))
            oracle = fleet.oracle()
            found = by_site(report["statistics"], "size", "count", site=site_by(key_type, oracle))
            check_rows(found, oracle.sums(key_type, condition), f"{key_type} {selection}")
            check_equal(report["total"]["size"], sum(size for size, _ in found.values()), "total")


def test_processes_that_had_ended_match_sql(fleet):
    """One in 50 hosts has a process that was not seen again, one a process that exited."""
    left_out = fleet.json("stats")["selection"]
    check_equal([left_out[why]["processes"] for why in ("not_seen_again", "ended")],
                [sum(host % 50 == rest for host in range(fleet.host_nr)) for rest in (7, 8)], "processes that are left out")
    report = fleet.json("stats", "--all-processes")
    found = by_site(report["statistics"], "size", "count")
    check_rows(found, fleet.oracle().sums("lineno", latest=sql_questions.latest), "all processes")
    check_equal(set(report["selection"]), {"snapshots", "processes", "hosts", "age_ns"}, "of all")


def test_each_way_to_have_ended_matches_sql(_large):
    """An exit, an exec, a reboot, a recorder that was killed, recordings one after the other, as `export` writes them."""
    with contextlib.closing(Fleet("ended", "--hosts", 1, "--sites", 20, "--tracebacks", 600, "--frames", 600)) as fleet:
        made = fleet.folder / "golden"
        made.mkdir()
        subprocess.run([os.environ["GOLDEN_SNAPSHOTS"], made], check=True, stdout=subprocess.DEVNULL)
        fleet.index(made / "fleet-ended")
        fleet.run("export", fleet.rows)
        report = fleet.json("stats")
        check_rows(by_site(report["statistics"], "size", "count"), fleet.oracle().sums("lineno"), "live")
        ended = fleet.oracle().ask(sql_questions.ended())
        check_equal([report["selection"][why]["processes"] for why in ("ended", "not_seen_again")], [4, 5], "processes")
        check_equal(len(ended), 9, "of SQL")


def test_sums_of_domains_match_sql(fleet):
    report = fleet.json("stats", "--group-by", "domain")
    found = {row["name"]: [row["size"], row["count"]] for row in report["statistics"]}
    check_rows(found, fleet.oracle().domains(), "domain")


def test_cumulative_sums_match_sql(fleet):
    report = fleet.json("stats", "--group-by", "lineno", "--cumulative")
    found = by_site(report["statistics"], "size", "count")
    check_rows(found, fleet.oracle().cumulative("lineno"), "cumulative")


def test_diff_matches_sql(fleet):
    (baseline, old), (candidate, new) = COHORTS
    for key_type in ("lineno", "function", "traceback"):
        oracle = fleet.oracle()
        report = fleet.json("diff", "--baseline", baseline, "--candidate", candidate, "--group-by", key_type)
        found = by_site(report["statistics"], "size", "count", "size_diff", "count_diff",
                        site=site_by(key_type, oracle))
        check_rows(found, oracle.diff(key_type, old, new), f"diff by {key_type}")
        check_planted(fleet, report["statistics"][0], "leak", key_type)


def test_diff_without_prefixes_matches_sql(fleet):
    """Two builds that were made in two folders."""
    (baseline, old), (candidate, new) = COHORTS
    prefixes = "--strip-prefix", "/build/indexer-1.0/", "--strip-prefix", "/build/indexer-1.1/"
    report = fleet.json("diff", "--baseline", baseline, "--candidate", candidate, *prefixes)
    found = by_site(report["statistics"], "size", "count", "size_diff", "count_diff")
    check_rows(found, fleet.oracle().diff("stripped", old, new), "diff without prefixes")
    check(any(text == "src/part_01.c" for text, _ in found), "no path of the indexer's has become shorter")


def test_diff_with_moved_lines_matches_sql(fleet):
    """A quarter of the files has other lines in the later build."""
    (baseline, old), (candidate, new) = COHORTS
    report = fleet.json("diff", "--baseline", baseline, "--candidate", candidate, "--line-drift")
    found = by_site(report["statistics"], "size", "count", "size_diff", "count_diff")
    check_rows(found, fleet.oracle().diff("drift", old, new), "diff with moved lines")


def test_diff_of_filtered_frames_matches_sql(fleet):
    """Filters see the files' own paths, even if the answer shows other lines or names."""
    (baseline, old), (candidate, new) = COHORTS
    drift = "drift", ("--line-drift",)
    for key_type, option, pattern in (("lineno", (), "/usr/bin/redis-server"), (*drift, "/usr/bin/redis-server"),
                                      (*drift, "src/web/part_15.c")):
        report = fleet.json("diff", "--baseline", baseline, "--candidate", candidate, *option, "--include", pattern)
        found = by_site(report["statistics"], "size", "count", "size_diff", "count_diff")
        expected = {site: numbers for site, numbers in fleet.oracle().diff(key_type, old, new).items()
                    if re.split("[@ :]", site[0])[0] == pattern}
        check_rows(found, expected, f"{key_type} of {pattern}")


def test_diff_by_process_means_matches_sql(fleet):
    """The cohorts have different numbers of processes: means are printed beside the sums, and order the rows."""
    (baseline, old), (candidate, new) = COHORTS
    oracle = fleet.oracle()
    report = fleet.json("diff", "--baseline", baseline, "--candidate", candidate)
    nr = [oracle.one(f"SELECT count(DISTINCT process_id) FROM snapshot WHERE {side}") for side in (old, new)]
    check_equal([report[side]["processes"] for side in ("baseline", "candidate")], nr, "processes")
    check_equal(report["order"], "process_mean", "order")
    diffs = []
    for row in report["statistics"]:
        for name in ("size", "count"):
            means = (row[name] - row[f"{name}_diff"]) / nr[0], row[name] / nr[1]
            for part, mean in zip(("baseline_process_mean", "candidate_process_mean", "process_mean_diff"),
                                  (*means, means[1] - means[0])):
                check(math.isclose(row[part][name], mean, rel_tol=1e-9, abs_tol=1e-6),
                      f"{site_of(row)}: {part} of {name} is {row[part][name]}, SQL has {mean}")
        diffs.append(abs(row["process_mean_diff"]["size"]))
    check_equal(diffs, sorted(diffs, reverse=True), "order of the rows")
    by_sum = fleet.json("diff", "--baseline", baseline, "--candidate", candidate, "--order", "sum")
    check_equal(by_sum["order"], "sum", "order")
    sums = [abs(row["size_diff"]) for row in by_sum["statistics"]]
    check_equal(sums, sorted(sums, reverse=True), "order of the sums")


def check_planted(fleet, row, name, key_type="lineno"):
    planted = fleet.made[name]
    if key_type == "function":
        check_equal(row["key"], planted["function"], f"the {name}")
        return
    frame = row["traceback"][0]
    check_equal((frame["filename"], frame["lineno"]), (planted["filename"], planted["lineno"]), f"the {name}")


def test_hosts_match_sql(fleet):
    report = fleet.json("hosts", "--group-by", "lineno")
    names = "median", "p95", "max", "mad", "sum", "max_host", "hosts", "outliers"
    found = by_site(report["hosts"], *names)
    expected = fleet.oracle().hosts("lineno")
    check_rows(found, {site: numbers[:8] for site, numbers in expected.items()}, "hosts")
    for row in report["hosts"]:
        score = expected[site_of(row)][8]
        check(is_close(row["score"], score), f"{site_of(row)}: score {row['score']}, SQL has {score}")
    check_planted(fleet, report["hosts"][0], "outlier")
    check_equal(report["hosts"][0]["max_host"], fleet.made["outlier"]["host"], "the host")
