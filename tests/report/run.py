#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""HTML reports against what the other commands say of the same snapshots. tests/harness/suite.py describes the arguments.

Every number is compared to the byte: totals and sites with `stats` and `diff`, tracebacks with
`diff --group-by traceback`, allocated and temporary blocks with `stats --measure`, intervals of samples to a byte.

Environment: ALLOCSNAP, the binary; SNAPSHOTS, the folder that make_snapshots filled.
"""
import functools
import glob
import json
import math
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import report_file  # pylint: disable=wrong-import-position
from harness import suite  # pylint: disable=wrong-import-position

TOOL, SNAPSHOTS = os.environ["ALLOCSNAP"], os.environ["SNAPSHOTS"]


def ask(*words):
    done = subprocess.run([TOOL, *words, "--json", "--top", "0"], capture_output=True, text=True)
    return json.loads(done.stdout) if done.stdout else None


def make(*words):
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "report.html")
        done = subprocess.run([TOOL, "report", *words, "-o", out], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return report_file.Report(report_file.read(out))


def name_of(place):
    """a frame as a key: other facts of equal frames may differ"""
    if place["lineno"]:
        return place["filename"], place["lineno"]
    offset = place.get("offset", 0) if place.get("object") else 0  # elsewhere it is an address, which is not printed
    return place["filename"], place.get("function"), place.get("object"), f"{offset:.12g}"  # hostile ones are reals


def add_up(pairs):
    sums = {}
    for key, values in pairs:
        old = sums.setdefault(key, [0] * len(values))
        sums[key] = [a + b for a, b in zip(old, values)]
    return {key: values for key, values in sums.items() if any(values)}


def sites_of(report, at):
    """the report's rows by site"""
    return add_up((name_of(report.place(report.site(t))), cost) for t, cost in enumerate(report.by_traceback(at)))


def sites_asked(answer, fields):
    return add_up((name_of(s["traceback"][0]), [s[f] for f in fields]) for s in answer["statistics"])


def tracebacks_of(report, at):
    return add_up((tuple(traceback_name(report, t)), cost) for t, cost in enumerate(report.by_traceback(at)))


def traceback_name(report, traceback):
    return [name_of(f) + (f.get("function"),) for f in report.own_traceback(traceback)]


def tracebacks_asked(answer, fields):
    return add_up((tuple(name_of(f) + (f.get("function"),) for f in s["traceback"]), [s[f] for f in fields])
                  for s in answer["statistics"])


def is_sampled(report):
    return any("size_beyond" in s for s in report.snapshots)


# ---- one snapshot ----------------------------------------------------------------------------------------------


def compare_one(path):
    stats = ask("stats", path)
    if stats is None:
        return refuse(path)
    report = make(path)
    assert report.json["question"] == {"kind": "one", "filters": [], "given": 1}
    assert report.total(0) == (stats["total"]["size"], stats["total"]["count"]), (report.total(0), stats["total"])
    if is_sampled(report):
        compare_interval(report, 0, stats["total"])
    else:
        assert sites_of(report, 0) == sites_asked(stats, ["size", "count"])
        answer = ask("stats", path, "-g", "traceback")
        assert tracebacks_of(report, 0) == tracebacks_asked(answer, ["size", "count"])
    compare_keys(report, path)
    compare_churn(report, path)


def refuse(path):
    """what stats cannot add up"""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "report.html")
        done = subprocess.run([TOOL, "report", path, "-o", out], capture_output=True, text=True)
        assert done.returncode == 1 and "add up to more than" in done.stderr and not os.listdir(folder)


def compare_interval(report, at, total):
    """docs/report-format.md, "Samples\""""
    now, unseen = report.snapshots[at]["now"], report.snapshots[at].get("sampling", {}).get("unseen_bytes", 0)
    if {"has_gaps", "has_pools"} & report.snapshots[at].get("sampling", {}).keys():
        assert not [key for key in total if key.endswith("_interval")], total
        return
    mean = max(1, sum(now["size"]) / max(1, sum(now["count"])))
    for of, u in (("size", unseen), ("count", unseen / mean)):
        v, c = sum(now[of + "_variance"]), sum(now[of + "_covariance"])
        r = c / v if v > 0 and of == "count" else 0
        samples, beyond = sum(now["count"]), sum(now["count_beyond"])
        is_told = of == "size" or samples >= 20 or v <= 0 or samples >= 4 and r <= 1.1 * beyond / samples
        assert is_told == (of + "_interval" in total), (of, samples, r, beyond, total)
        if not is_told:
            continue
        e = max(0, r - beyond / max(1, samples))
        v, c = v + 4 * r * e + 2 * u ** 2, c + 4 * r ** 2 * e + 2 * u ** 3
        centre = sum(now[of]) + sum(now[of + "_beyond"])
        shift = 1.959963984540054 ** 2 * c / v / 2 if v > 0 else 0
        half = math.sqrt(1.959963984540054 ** 2 * v + shift ** 2)
        low, high = max(sum(now[of]), math.ceil(centre + shift - half)), math.floor(centre + shift + half)
        want = total[of + "_interval"]
        assert abs(low - want[0]) <= 1 and abs(high - want[1]) <= 1, (of, low, high, want)


KEYS = {"thread": ["thread"], "domain": ["domain"], "size_class": ["size-class"]}


def compare_keys(report, path):
    """sums by a column of keys, without names: the sorted sums must be the same"""
    if is_sampled(report):
        return
    now = report.snapshots[0]["now"]
    for column, (key,) in KEYS.items():
        answer = ask("stats", path, "-g", key)
        if answer is None:
            assert column not in report.json["keys"], column
            continue
        values = report.json["keys"].get(column)
        rows = add_up((values[k] if values else 0, [now["size"][i], now["count"][i]])
                      for i, k in enumerate(report.row_key))
        want = sorted([s["size"], s["count"]] for s in answer["statistics"] if s["size"] or s["count"])
        assert sorted(rows.values()) == want, (column, rows, want)
    compare_ages(report, path)


def compare_ages(report, path):
    answer = ask("stats", path, "-g", "age")
    if answer is None or "birth" not in report.json["keys"]:
        return
    now, births = report.snapshots[0]["now"], report.json["births_ns"]
    taken = report.snapshots[0]["monotonic_ns"]
    limits = [1, 10, 60, 600, 3600, 86400]

    def age_class(birth):
        # A bucket ends at births[birth]; a block born right at a limit's instant is older than the limit's class.
        age = taken - births[birth] if birth < len(births) else -1
        return next((i for i, limit in enumerate(limits) if age < limit * 10 ** 9), len(limits))

    rows = add_up((age_class(report.json["keys"]["birth"][k]), [now["size"][i], now["count"][i]])
                  for i, k in enumerate(report.row_key))
    want = sorted([s["size"], s["count"]] for s in answer["statistics"] if s["size"] or s["count"])
    assert sorted(rows.values()) == want, (rows, want)


def compare_churn(report, path):
    for measure, count, size in (("allocated", "allocations", "allocated_bytes"),
                                 ("temporary", "temporary", "temporary_bytes")):
        answer = ask("stats", path, "--measure", measure)
        now = report.snapshots[0].get("churn_now")
        assert (answer is None) == (now is None), measure
        if now:
            assert (sum(now[size]), sum(now[count])) == (answer["total"]["size"], answer["total"]["count"])
            rows = add_up((name_of(report.place(report.site(t))), [now[size][t], now[count][t]])
                          for t in range(len(report.tracebacks)))
            assert rows == sites_asked(answer, ["size", "count"]), measure


# ---- two -------------------------------------------------------------------------------------------------------


def compare_two(old, new):
    report, diff = make(old, new), ask("diff", old, new)
    assert report.json["question"]["kind"] == "diff" and len(report.snapshots) == 2
    totals, want = [report.total(0), report.total(1)], diff["total"]
    assert totals[1] == (want["size"], want["count"])
    assert totals[1][0] - totals[0][0] == want["size_diff"] and totals[1][1] - totals[0][1] == want["count_diff"]
    if is_sampled(report):
        return
    fields = ["size_diff", "count_diff"]
    for of, asked in ((sites_of, sites_asked(diff, fields)),
                      (tracebacks_of, tracebacks_asked(ask("diff", old, new, "-g", "traceback"), fields))):
        before, after = of(report, 0), of(report, 1)
        change = add_up([(k, [-v for v in c]) for k, c in before.items()] + list(after.items()))
        assert change == asked
    grown = sum(max(0, s["size_diff"]) for s in ask("diff", old, new, "-g", "traceback")["statistics"])
    change = add_up([(k, [-v for v in c]) for k, c in tracebacks_of(report, 0).items()] +
                    list(tracebacks_of(report, 1).items()))
    assert sum(max(0, c[0]) for c in change.values()) == grown, "what the root of the picture says has grown"


# ---- many ------------------------------------------------------------------------------------------------------


def compare_history(folder):
    """each column of a history is what stats says of its snapshot"""
    report = make(folder)
    names = [s["name"] for s in report.snapshots]
    assert report.json["question"]["kind"] == "history" and len(names) > 2, names
    times = [s["monotonic_ns"] for s in report.snapshots]
    assert times == sorted(times) and set(times) <= set(report.json["births_ns"])
    for at, name in enumerate(names):
        stats = ask("stats", os.path.join(folder, name))
        assert report.total(at) == (stats["total"]["size"], stats["total"]["count"]), name
        assert sites_of(report, at) == sites_asked(stats, ["size", "count"]), name
    births_never_come_back(report)


SHARED = ("judged", "unjudged", "observed_ns", "snapshots", "gaps_ns", "growth", "hints")
OF_ROW = ("verdict", "bytes_per_s", "least_bytes_per_s", "since_ns")
OF_LINE = OF_ROW + ("reason", "doubts", "survivors", "freed", "horizon_ns", "tracebacks", "live")


def chosen(row, keys):
    """its members; the last digits of reals are not written by all"""
    return [float(f"{row[k]:.12g}") if isinstance(row.get(k), float) else row.get(k) for k in keys]


def compare_verdicts(*paths):
    """the judgement is the same as from `leaks`, word for word"""
    report = make(*paths)
    found = report.json["leaks"]
    done = subprocess.run([TOOL, "leaks", *paths, "--json", "--top", "0", "--all"], capture_output=True, text=True)
    if done.returncode == 1:
        assert done.stderr.splitlines()[-1] == "allocsnap: " + found["unjudged"], (done.stderr, found)
        assert not found["judged"] and not found["rows"], found
        return
    want = json.loads(done.stdout)
    for key in SHARED:
        assert found.get(key) == want.get(key), (key, found.get(key), want.get(key))
    assert found["lines"] == want["lines"], (found["lines"], want["lines"])
    assert len(found["rows"]) == len(want["leaks"])
    for row, asked in zip(found["rows"], want["leaks"]):
        assert chosen(row, OF_ROW) == chosen(asked, OF_ROW), (row, asked)
        compare_leaking_lines(report, row, asked)


def compare_leaking_lines(report, row, asked):
    assert len(row["lines"]) == len(asked["lines"])
    for line, other in zip(row["lines"], asked["lines"]):
        assert chosen(line, OF_LINE) == chosen(other, OF_LINE), (line, other)
        own = report.own_traceback(line["traceback"])
        assert [name_of(f) for f in own] == [name_of(f) for f in other["traceback"]], (own, other["traceback"])
    assert ("caller" in row) == ("caller" in asked), (row, asked)
    if "caller" in row:
        assert name_of(report.place(report.node_frame[row["caller"]])) == \
            name_of(asked["lines"][0]["traceback"][asked["caller"]]), (row, asked)


def refuse_verdicts(why, *words):
    found = make(*words).json["leaks"]
    assert not found["judged"] and found["unjudged"] == why and not found["rows"], found


def births_never_come_back(report):
    """blocks born before a snapshot can only become fewer after it: the rule that intervals of differences rest on"""
    births = report.json["keys"]["birth"]
    for at, s in enumerate(report.snapshots[:-1]):
        born_by = report.json["births_ns"].index(s["monotonic_ns"])
        for row, key in enumerate(report.row_key):
            if births[key] <= born_by:
                later = report.snapshots[at + 1]["now"]["count"][row]
                assert later <= s["now"]["count"][row], (s["name"], row)


def compare_fleet():
    with tempfile.TemporaryDirectory() as folder:
        catalogue = os.path.join(folder, "fleet.db")
        subprocess.run([TOOL, "fleet", "index", "-C", catalogue, os.path.join(SNAPSHOTS, "fleet")], capture_output=True)
        compare_cohorts(catalogue, ["stats"], [])
        sides = ["--baseline", "label.version=1.3", "--candidate", "label.version=1.4"]
        compare_cohorts(catalogue, ["diff", *sides], sides)


def compare_cohorts(catalogue, question, words):
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "fleet.html")
        done = subprocess.run([TOOL, "fleet", "report", "-C", catalogue, *words, "-o", out], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        report = report_file.Report(report_file.read(out))
    want = ask("fleet", *question, "-C", catalogue)["total"]
    last = len(report.snapshots) - 1
    assert report.total(last) == (want["size"], want["count"])
    if words:
        before, after = report.total(0), report.total(1)
        assert [b - a for a, b in zip(before, after)] == [want["size_diff"], want["count_diff"]]
    else:
        compare_interval(report, 0, want)
    assert report.json["question"]["kind"] == "fleet" and "process" not in report.json
    assert len(report.json["processes"]) == 5


def read_example():
    """the example of docs/report-format.md: counted by hand"""
    with open(os.path.join(os.path.dirname(__file__), "example.json"), encoding="utf-8") as file:
        report = report_file.Report(json.load(file))
    assert [report.total(0), report.total(1)] == [(1030, 12), (1430, 16)]
    assert [s["traced"]["current"] for s in report.snapshots] == [1030, 1430]
    assert name_of(report.place(report.site(0))) == name_of(report.place(report.site(1))) == ("/src/cache.cpp", 30)
    assert sum(report.snapshots[1]["churn_now"]["allocations"]) == 17


def read_sources():
    """Lines around the frames' lines, of files from before the recording; a file may name the last of 2^32 lines."""
    with tempfile.TemporaryDirectory() as folder:
        source, text, snap, out = (os.path.join(folder, name) for name in ("x.py", "in.json", "in.snap", "out.html"))
        with open(source, "w", encoding="utf-8") as file:
            file.write("one\ntwo\nthree\nfour\nfive\n")
        os.utime(source, (0, 0))
        with open(text, "w", encoding="utf-8") as file:
            file.write('{"traceback_limit":1,"traces":[[0,10,[["x.py",2]]],[0,20,[["x.py",4294967295]]]]}')
        for argv in (["convert", text, "-o", snap], ["report", snap, "--source", folder, "-o", out]):
            subprocess.run([TOOL, *argv], check=True, capture_output=True, timeout=120)
        sources = report_file.read(out)["sources"]
        assert list(sources.values()) == [{"1": "one", "2": "two", "3": "three", "4": "four"}], sources


def refuse_standard_input():
    done = subprocess.run([TOOL, "report", "-", "-o", "never.html"], capture_output=True, text=True)
    assert done.returncode == 2 and "not standard input" in done.stderr, done


# ---- the whole ---------------------------------------------------------------------------------------------------


def is_snapshot(path):
    return subprocess.run([TOOL, "show", path, "--json"], capture_output=True).returncode == 0


def test_of(name, function, *args):
    return suite.Test(name, functools.partial(function, *args))


def in_snapshots(name):
    return os.path.join(SNAPSHOTS, name)


def all_tests():
    paths = [p for p in sorted(glob.glob(in_snapshots("*.snap"))) if is_snapshot(p)]
    for path in paths:
        yield test_of(f"one_{os.path.basename(path)}", compare_one, path)
    pairs = [("old", "new"), ("new", "old"), ("without-names", "with-names"), ("cxx", "cxx"),
             ("old", "other"), ("sampled-old", "sampled"), ("plain", "gaps"), ("rebuilt", "old")]
    for old, new in pairs:
        yield test_of(f"diff_{old}_{new}", compare_two, in_snapshots(f"{old}.snap"), in_snapshots(f"{new}.snap"))
    yield test_of("example", read_example)
    yield test_of("history", compare_history, in_snapshots("leaks"))
    yield test_of("history_with_gaps", compare_history, in_snapshots("leaks-gaps"))
    for name in ("leaks", "leaks-gaps", "leaks-quiet", "leaks-java", "leaks-python", "leaks-one.snap", "leaks-full.snap",
                 "old.snap", "python.snap", "sampled.snap"):
        yield test_of(f"verdicts_of_{name}", compare_verdicts, in_snapshots(name))
    first, *_, last = sorted(glob.glob(in_snapshots("leaks/*.snap")))
    yield test_of("verdicts_of_two", compare_verdicts, first, last)
    part = "blocks were chosen by size, age or thread, and leaks need all of a line"
    yield test_of("no_verdicts_on_parts", refuse_verdicts, part, in_snapshots("leaks"), "--min-size", "2")
    yield test_of("no_verdicts_on_two_processes", refuse_verdicts, "the snapshots are of different processes",
                  in_snapshots("old.snap"), in_snapshots("other.snap"))
    yield test_of("fleet", compare_fleet)
    yield test_of("sources", read_sources)
    yield test_of("standard_input", refuse_standard_input)


if __name__ == "__main__":
    sys.exit(suite.main("report", all_tests()))
