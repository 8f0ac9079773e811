# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A snapshot of this machine beside one that a machine of another architecture has recorded of the same program
(tests/kernels/run.py brings it): they meet by function and by line, and what cannot meet is said."""
import os
import pathlib
import sys

from harness import ALLOCSNAP, WORKLOADS, Skip, check, check_equal, top_frame

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../report"))
import report_file  # pylint: disable=wrong-import-position

# run.py orders "go" once, this machine as often: so each line of the program has as many times its blocks here.
TIMES = 3
PROGRAM = "cxx"


def other_snapshot():
    path = pathlib.Path(WORKLOADS).parent / "other-machine.snap"
    if not path.exists():
        raise Skip("there is no snapshot of another machine")
    return str(path)


def record_here(bench):
    argv = [ALLOCSNAP, "run", "-o", bench.path("out"), "--label", "machine=here", "--", os.path.join(WORKLOADS, PROGRAM)]
    program = bench.start(argv)
    check("ready" in program.line(), "its first line")
    for _ in range(TIMES):
        program.write("go\n")
        check("done" in program.line(), "its answer")
    program.write("quit\n")
    check_equal(program.wait(), 0, "its exit status")
    return str(next(pathlib.Path(bench.path("out")).rglob("*.snap")))


def own_rows(rows, *numbers):
    """{(function, line): numbers} of the program's own lines."""
    places = [(top_frame(row), row) for row in rows]
    return {(frame["function"], frame["lineno"]): tuple(row[name] for name in numbers) for frame, row in places
            if os.path.basename(frame["filename"]) == f"{PROGRAM}.cc"}


def by_function(rows, *numbers):
    return {row["key"]: tuple(row[name] for name in numbers) for row in rows if row["key"].startswith("shop::")}


def times(rows, n):
    return {key: tuple(n * value for value in values) for key, values in rows.items()}


NOW, CHANGE = ("size", "count"), ("size_diff", "count_diff")


def check_diffs(bench, other, here):
    """Both ways, in the rows and in the words."""
    lines = own_rows(bench.stats(other)["statistics"], *NOW)
    functions = by_function(bench.stats(other, "--group-by", "function")["statistics"], *NOW)
    check(len(lines) == 4 and len(functions) == 4, f"{lines}, {functions}")
    check_equal(own_rows(bench.stats(here)["statistics"], *NOW), times(lines, TIMES), "lines here")
    for old, new, sign in (other, here, 1), (here, other, -1):
        check_equal(own_rows(bench.diff(old, new)["statistics"], *CHANGE), times(lines, sign * (TIMES - 1)), "change by line")
        found = bench.diff(old, new, "--group-by", "function")["statistics"]
        check_equal(by_function(found, *CHANGE), times(functions, sign * (TIMES - 1)), "change by function")
        said = bench.allocsnap("diff", old, new, "--group-by", "traceback")[1]
        check("of different machines, " in said and "frames without a line match by function only" in said, said)
    same = bench.allocsnap("diff", other, other)[1]
    check("machines" not in same, same)
    return lines


def by_line(rows):
    """Instances of a template share a line; a line that has only freed blocks has no row in `stats`."""
    sums = {}
    for place, values in rows:
        sums[place] = tuple(a + b for a, b in zip(sums.get(place, (0, 0)), values))
    return {place: values for place, values in sums.items() if any(values)}


def check_report(bench, other, here, lines):
    """Both have the same places."""
    path = bench.path("page.html")
    bench.allocsnap("report", other, here, "-o", path)
    page = report_file.Report(report_file.read(path))
    check("of different machines, " in str(page.json["warnings"]), page.json.get("warnings"))
    for at, n in (0, 1), (1, TIMES):
        sites = [(page.place(page.site(traceback)), cost) for traceback, cost in enumerate(page.by_traceback(at))]
        found = by_line(((os.path.basename(site["filename"]), site["lineno"]), cost) for site, cost in sites)
        expected = by_line(((f"{PROGRAM}.cc", line), cost) for (_, line), cost in times(lines, n).items())
        check_equal({place: cost for place, cost in found.items() if place[0] == f"{PROGRAM}.cc"}, expected, f"snapshot {at} of the page")


def check_fleet(bench, other, here, lines):
    catalogue = "--catalogue", bench.path("fleet.db")
    bench.allocsnap("fleet", "index", other, here, *catalogue)
    found = bench.json("fleet", "diff", "--baseline", "label.machine=other", "--candidate", "label.machine=here", "--top", "0", *catalogue)
    check_equal(own_rows(found["statistics"], *CHANGE), times(lines, TIMES - 1), "change by line, in the fleet")
    both = bench.json("fleet", "stats", "--all-processes", "--top", "0", *catalogue)
    check_equal(own_rows(both["statistics"], *NOW), times(lines, TIMES + 1), "lines of both, in the fleet")


def test_snapshots_of_two_machines_meet_by_line_and_function(bench):
    other, here = other_snapshot(), record_here(bench)
    machines = [bench.show(path)["metadata"]["machine"] for path in (other, here)]
    check(machines[1] == os.uname().machine != machines[0], f"machines {machines}")
    lines = check_diffs(bench, other, here)
    check_report(bench, other, here, lines)
    check_fleet(bench, other, here, lines)
    return f"{machines[0]} and {machines[1]}"
