# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The numbers in the page beside `allocsnap stats` and `diff`, to the byte."""
import collections
import subprocess

import pages
from harness import core

# The rows of the table, by the key of its group: [bytes, blocks, change of both].
ROWS = """const out = {}; for (const r of allocsnap.table.rows) out[r.site.facet ? r.name : r.site.key] =
    [r.size, r.count, r.delta, r.countDelta]; return out"""
TOTAL = "const {bytes, blocks} = allocsnap.model.columns[allocsnap.state.b].total; return [bytes, blocks]"
GROUPS = {"line": "lineno", "function": "function", "file": "filename", "object": "object"}
FACETS = {"thread": "thread", "domain": "domain", "size": "size-class", "age": "age"}


def key_of(row, group):
    """the page's key of a row of JSON, as src/report/page/js/sites.js makes it"""
    if "key" in row:
        return row["key"]
    frame = row["traceback"][0]
    if group == "file":
        return frame["filename"]
    if frame["lineno"]:
        return f"{frame['filename']}:{frame['lineno']}"
    if "object" not in frame and "address" not in frame:
        return "kind 4"  # no traceback
    offset = frame.get("offset", frame.get("address"))
    return f"{frame['filename']}\n{frame.get('function', '')}\n{frame.get('object', '')}+{offset}"


def sums(answer, group, is_diff):
    """rows of JSON in the form of ROWS; rows of nothing are not in the page"""
    out = {}
    for row in answer["statistics"]:
        values = [row["size"], row["count"]] + ([row["size_diff"], row["count_diff"]] if is_diff else [0, 0])
        if any(values):
            out[key_of(row, group)] = values
    return out


def compare(page, wanted, what):
    differ = {key: (page.get(key), wanted.get(key)) for key in {*page, *wanted} if page.get(key) != wanted.get(key)}
    assert not differ, f"{what}: page, JSON: {differ}"
    assert wanted, f"{what}: no rows"


def answers(bench, old, new, *words):
    return pages.ask(bench.allocsnap, *(["diff", old, new] if old else ["stats", new]), *words, "--top", "0")


def check_pair(bench, browser, path, old, new, fragment):
    """each group of a pair of snapshots, or of one; self and cumulative"""
    is_diff = bool(old)
    for group, key in GROUPS.items():
        for name, words in (("self", []), ("all", ["--cumulative"])):
            wanted = sums(answers(bench, old, new, "-g", key, *words), group, is_diff)
            browser.open(path, f"{fragment}&group={group}&sum={name}&lib=dim")
            compare(browser.run(ROWS), wanted, f"{path} {group} {name}")
    total = answers(bench, old, new)["total"]
    assert browser.run(TOTAL) == [total["size"], total["count"]], total


def check_facets(bench, browser, path, new, fragment):
    for group, key in FACETS.items():
        browser.open(path, f"{fragment}&a=-1&group={group}")
        if browser.state()["group"] != group:
            continue  # all blocks are of one value
        answer = answers(bench, None, new, "-g", key)
        wanted = {row.get("name", row["key"]): [row["size"], row["count"], 0, 0] for row in answer["statistics"]}
        compare(browser.run(ROWS), wanted, f"{path} {group}")


def test_history_equals_stats_and_diff(bench, browser):
    folder = bench.snapshots / "leaks"
    path, snaps = bench.report(folder), sorted(folder.iterdir())
    check_pair(bench, browser, path, None, snaps[-1], "a=-1")
    check_pair(bench, browser, path, snaps[2], snaps[7], "a=2&b=7")
    check_facets(bench, browser, path, snaps[-1], "")


@core
def test_diff_equals_diff(bench, browser):
    for old, new in (("old.snap", "new.snap"), ("gaps.snap", "new.snap")):
        old, new = bench.snapshots / old, bench.snapshots / new
        check_pair(bench, browser, bench.report(old, new), old, new, "a=0&b=1")


def test_filters_equal_those_of_stats(bench, browser):
    """a filter drives the table, the icicle and the timeline alike"""
    folder = bench.snapshots / "leaks"
    path, new = bench.report(folder), sorted(folder.iterdir())[-1]
    browser.open(path, "a=-1")
    facets = browser.run("return allocsnap.model.facets.list.map(f => [f.id, f.values])")
    assert facets, "no facets"
    seen = collections.Counter()
    for facet, values in facets:
        for value in values:
            browser.open(path, f"a=-1&{facet}={value}")
            total = browser.run(TOTAL)
            words = {"thread": ["--thread", value], "size": ["--min-size", 2**value // 2, "--max-size", 2**value - 1]}
            if value and facet in words:
                wanted = pages.ask(bench.allocsnap, "stats", new, *words[facet])["total"]
                assert total == [wanted["size"], wanted["count"]], f"{facet}={value}: {total}, not {wanted}"
                seen[facet] += 1
            drawn = browser.run("""const a = allocsnap; return [a.icicle.tree.width[0], a.timeline.totals.at(-1),
                a.table.rows.reduce((sum, r) => sum + r.size, 0)]""")
            assert drawn == [total[0]] * 3, f"{facet}={value}: icicle, timeline and table have {drawn}, not {total[0]}"
    assert seen, "nothing was compared with stats"


def test_samples_have_the_intervals_of_stats(bench, browser):
    new = bench.snapshots / "sampled.snap"
    browser.open(bench.report(new))
    got = browser.run("""const {table, model, state} = allocsnap;
        const ask = (r, unit) => model.interval("held", r.site.tracebacks, null, {...state, unit});
        const told = interval => interval && interval[1] < Infinity ? interval : null;
        const row = r => [r.size, r.count, ask(r, "bytes"), told(ask(r, "blocks"))];
        return Object.fromEntries(table.rows.map(r => [r.site.key, row(r)]))""")
    rows = pages.ask(bench.allocsnap, "stats", new)["statistics"]
    for row in rows:
        assert got[key_of(row, "line")] == [row["size"], row["count"], row["size_interval"], row.get("count_interval")], row
    assert len(rows) == len(got) > 2
    assert " – " in browser.text(".tr .sub"), "the table shows no interval"
    assert "Sampled" in browser.text("#trust")


def check_no_intervals(bench, browser, old, new):
    old, new = bench.snapshots / old, bench.snapshots / new
    path = bench.report(old, new)
    for fragment in ("a=-1", "a=0&b=1"):
        browser.open(path, fragment)
        got = browser.run("""const {table} = allocsnap;
            return table.rows.map(r => ["held", "change"].map(kind => allocsnap.intervalOf(r.site, kind)))""")
        assert got and all(both == [None, None] for both in got), f"{fragment}: {got}"
        assert "95 %" not in browser.text("#trust"), fragment
    assert not any("size_interval" in row for row in pages.ask(bench.allocsnap, "stats", new)["statistics"])


def test_samples_of_a_recording_with_gaps_have_no_intervals(bench, browser):
    check_no_intervals(bench, browser, "sampled-old.snap", "sampled-gaps.snap")


def test_pools_as_samples_have_no_intervals(bench, browser):
    check_no_intervals(bench, browser, "pools-old.snap", "pools.snap")
    assert "by pools of CPython" in browser.text("#trust")


def test_allocated_and_temporary_equal_stats(bench, browser):
    new = bench.snapshots / "sampled-old.snap"
    path = bench.report(new)
    for what in ("allocated", "temporary"):
        wanted = sums(answers(bench, None, new, "-m", what), "line", False)
        browser.open(path, f"what={what}")
        assert browser.state()["what"] == what, "not in the report"
        compare(browser.run(ROWS), wanted, what)


def test_a_fleet_equals_fleet_stats_and_diff(bench, browser):
    """one of the processes is sampled: its estimates count, too"""
    catalogue = bench.folder / "fleet.db"
    subprocess.run([bench.allocsnap, "fleet", "index", "-C", catalogue, bench.snapshots / "fleet"], capture_output=True,
                   check=False)  # some of these files are damaged on purpose
    sides = ["--baseline", "label.version=1.3", "--candidate", "label.version=1.4"]
    for question, words in ((["stats"], []), (["diff", *sides], sides)):
        path = bench.folder / f"fleet-{question[0]}.html"
        subprocess.run([bench.allocsnap, "fleet", "report", "-C", catalogue, *words, "-o", path], capture_output=True,
                       check=True)
        answer = pages.ask(bench.allocsnap, "fleet", *question, "-C", catalogue, "--top", "0")
        browser.open(path)
        assert browser.run(TOTAL) == [answer["total"]["size"], answer["total"]["count"]], answer["total"]
        compare(browser.run(ROWS), sums(answer, "line", bool(words)), f"fleet {question[0]}")
        browser.run("allocsnap.set({group: 'host'})")
        shown = browser.run("return allocsnap.table.rows.reduce((sum, r) => sum + r.size, 0)")
        assert abs(shown - answer["total"]["size"]) <= 5, "hosts add up to the whole, but for rounding of estimates"
        assert not browser.complaints()
