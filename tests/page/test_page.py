# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The page as a reader uses it."""
import re
import subprocess

import pages
from harness import core

READY_LIMIT, REDRAW_LIMIT = 6.0, 0.1  # seconds of CPU time; `make bench-page` prints what it took by the clock


def quiet(browser, what):
    found = browser.complaints()
    assert not found, f"{what}: {found}"


@core
def test_the_leak_comes_first(bench, browser):
    browser.open(bench.page("shop"))
    assert "Cache::put leaks 4.58" in browser.text("#verdict h1").replace("\u00a0", " "), browser.text("#verdict")
    assert "called by Server::serve" in browser.text("#verdict p"), browser.text("#verdict")
    assert "since 12:05:35" in browser.text("#verdict h1").replace("\u00a0", " "), browser.text("#verdict h1")
    assert "shop::Cache::put" in browser.text(".tr[aria-rowindex='1']")
    state = browser.state()
    assert (state["a"], state["b"], state["measure"]) == (7, 19, "grown"), state
    assert "3/" not in browser.text("#when") and "20 snapshots" in browser.text("#when")
    quiet(browser, "shop")


def test_what_cannot_be_judged_is_said_as_leaks_says_it(bench, browser):
    few = "3 snapshots; at least 4 are needed"
    for nr, judgement, title, words in (
            (20, {"unjudged": "nothing was recorded in 9 gaps: frees were missed", "judged": False}, "Cache::put leaks",
             "Other lines cannot be judged: nothing was recorded in 9 gaps: frees were missed."),
            (20, {"unjudged": "77 blocks were dropped", "judged": False, "rows": []},
             "Which lines leak cannot be judged: 77 blocks were dropped", "live in"),
            (20, {"nothing": "no line leaks that can be seen in 95 s: fewer than 12 blocks cannot", "rows": []},
             "No line leaks that can be seen in 95 s", "Fewer than 12 blocks cannot."),
            (3, {"unjudged": few, "judged": False}, "shop::parse grew", f"cannot be judged: {few}."),
            (1, {"unjudged": "1 snapshot; at least 4 are needed", "judged": False}, "Index::fill holds",
             "cannot be judged: 1 snapshot; at least 4 are needed.")):
        data = pages.shop(nr)
        data["leaks"].update(judgement)
        browser.open(bench.embed("unjudged", data))
        shown = browser.text("#verdict h1"), browser.text("#verdict p")
        assert title in shown[0] and words in shown[1], f"{nr}, {judgement}: {shown}"
        quiet(browser, title)


def test_growth_out_of_sight_comes_first(bench, browser):
    for nr, makes in ((20, pages.shop), (3, pages.shop), (2, pages.shop), (5, pages.nothing), (2, pages.nothing)):
        for kind in ("Go's heap (net/http/pprof, debug.FreeOSMemory)", "it may be mappings"):
            text = "100 % of the growth of anonymous memory, 22.9 MiB, is in no traced block: " + kind
            data = makes(nr)
            growth = {"time_ns": 60 * 10**9, "rss": 25 << 20, "traced": 0, "leaks": 0}
            data["leaks"] = pages.verdicts(judged=False, unjudged=text, untraced=24000000, growth=growth)
            browser.open(bench.embed("untraced", data))
            title, rest = browser.text("#verdict h1"), browser.text("#verdict p").replace("\u00a0", " ")
            assert title == "Which lines leak cannot be judged: " + text.split(":")[0], f"{nr}: {title}"
            assert rest.startswith(kind[0].upper() + kind[1:] + "."), rest
            assert "RSS +25.0 MiB in 1 min, none of it traced" in rest, rest
            quiet(browser, kind)


def test_a_sure_leak_comes_before_growth_out_of_sight(bench, browser):
    text = "60 % of the growth of anonymous memory, 9000 KiB, is in no traced block: it may be mappings"
    for verdict, title, words in (
            ("leaks", "Cache::put leaks 4.58 MiB/min", "Other lines cannot be judged: " + text),
            ("may-leak", "Which lines leak cannot be judged: 60 %", "0 lines leak, 1 may.")):
        data = pages.shop()
        row = data["leaks"]["rows"][0]
        for judged in (row, row["lines"][0]):
            judged["verdict"] = verdict
        growth = {"time_ns": 95 * 10**9, "rss": 15 << 20, "traced": 6 << 20, "leaks": 0}
        data["leaks"] = pages.verdicts(row, judged=False, unjudged=text, untraced=9 << 20, growth=growth)
        browser.open(bench.embed("explains", data))
        shown = [browser.text("#verdict " + part).replace("\u00a0", " ") for part in ("h1", "p")]
        assert shown[0].startswith(title) and words in shown[1], shown


def test_what_is_not_recorded_is_a_warning(bench, browser):
    marks = "return [...document.querySelectorAll('#trust .warn')].map(e => e.textContent)"
    for snapshots, title in (("leaks-go", "Which lines leak cannot be judged: "), ("leaks-go/12.snap", " holds ")):
        browser.open(bench.report(bench.snapshots / snapshots))
        assert title in browser.text("#verdict h1"), browser.text("#verdict")
        assert "!Not recorded:Go's heap (net/http/pprof)" in browser.run(marks), browser.text("#trust")
    data = pages.nothing(1)
    data["process"]["unrecorded"] = "JavaScript's heap (node --inspect)\u202e"
    browser.open(bench.embed("hidden", data))
    assert browser.text("#verdict h1") == "No recorded block is live"
    assert "Not recorded: JavaScript's heap (node --inspect)\\u202e." in browser.text("#verdict p")
    assert "!Not recorded:JavaScript's heap (node --inspect)\\u202e" in browser.run(marks), browser.text("#trust")
    data["question"]["kind"], process = "fleet", data.pop("process")
    data["processes"] = [process, {**process, "pid": 1, "unrecorded": "Go's heap"}, process, {"comm": "sh", "pid": 2}]
    browser.open(bench.embed("hidden", data))
    assert "!Not recorded:JavaScript's heap (node --inspect)\\u202e; Go's heap" in browser.run(marks)
    quiet(browser, "not recorded")


def test_cost_is_said_as_show_says_it(bench, browser):
    marks = "return [...document.querySelectorAll('.tfact')].map(e => e.textContent)"
    path = bench.snapshots / "sampled.snap"
    shown = subprocess.run([bench.allocsnap, "show", path], capture_output=True, text=True, check=True).stdout
    said = re.search(r"^cost\n  recording used (.*)", shown, re.MULTILINE)[1]
    browser.open(bench.report(path))
    found = [text.replace("\u00a0", " ") for text in browser.run(marks)]
    assert "✓Cost" + said in found, f"{said}: {found}"
    quiet(browser, "sampled")


def test_a_leak_is_told_in_whole_sentences(bench, browser):
    for since, callers, least, words, fact in (
            (35.5, 1, 0, "Its rate is not sure. It is called by Server::serve server.cc:20. 1 line leaks",
             "4.58 MiB/min of late, since 12:05:35"),
            (1, 3, 0, "Its rate is not sure. Most of it is called by Server::serve server.cc:20. 1 line leaks",
             "4.58 MiB/min, all the time"),
            (1, 1, 60000, "At least 3.43 MiB/min. It is called by Server::serve server.cc:20. 1 line leaks",
             "4.58 MiB/min, all the time")):
        data = pages.shop()
        row = data["leaks"]["rows"][0]
        for rates in (row, row["lines"][0]):
            rates.update(least_bytes_per_s=least, since_ns=since * 10**9)
        row["lines"][0]["callers"] = callers
        browser.open(bench.embed("sentences", data))
        shown = [browser.text(part).replace("\u00a0", " ").strip() for part in ("#verdict p", "#detail")]
        assert shown[0].startswith(words) and fact in shown[1], f"{words}: {shown}"
    row["lines"] *= 2
    row["caller"] = 1
    browser.open(bench.embed("sentences", data))
    words = "With 1 more line: 4.58 MiB/min (at least 3.43 MiB/min). All are below "
    assert words in browser.text("#verdict p").replace("\u00a0", " "), browser.text("#verdict p")
    quiet(browser, "sentences")


def test_verdicts_mark_the_sites_of_each_grouping(bench, browser):
    words = "return [...document.querySelectorAll('.tr')].map(e => [e.querySelector('.word')?.textContent, e.title])"
    for group in ("line", "function", "file"):
        browser.open(bench.page("shop"), f"group={group}")
        marked = [word for word, _ in browser.run(words) if word]
        assert marked == ["LEAKS"], f"{group}: {marked}"
    browser.open(bench.page("shop"), "group=thread")
    assert not [word for word, _ in browser.run(words) if word], "threads have no verdict"
    browser.open(bench.page("shop"))
    assert "1200 of 1200 blocks older than 10.0 s are live" in browser.text("#detail")


def test_only_much_of_a_growth_has_a_word_that_it_is_no_leak(bench, browser):
    for first, marked in ((0, ["settled"]), (1000000, []), (5000000, [])):  # the heap grows, stays, shrinks
        browser.open(bench.embed("settled", pages.settled(first)))
        found = browser.run("return [...document.querySelectorAll('.word')].map(e => e.textContent)")
        assert found == marked, f"{first}: {found}"


def test_thousands_of_sites_open_soon(bench, browser):
    browser.open(bench.embed("sites", pages.many_sites(5000, 120)))
    spent = browser.spent()
    assert spent < READY_LIMIT, f"ready after {spent:.1f} s of CPU time"
    quiet(browser, "sites")


def test_every_state_is_quiet(bench, browser):
    """no request, no message, no violation of the policy, at both sizes"""
    for name in ("shop", "hostile", "empty", "large"):
        browser.open(bench.page(name), size=(1280, 720), scheme="dark")
        assert browser.run("return document.documentElement.dataset.theme") == "dark"
        width, height = browser.run("const e = document.documentElement; return [e.scrollWidth, e.scrollHeight]")
        assert width <= 1280 and height <= 720, f"{name}: {width}x{height}"
        quiet(browser, name)
    for name in ("old", "mixed", "python", "rss", "hostile", "empty", "rss-hostile"):
        browser.open(bench.report(bench.snapshots / f"{name}.snap"))
        quiet(browser, name)


def test_a_point_is_a_snapshot_a_drag_is_a_diff(bench, browser):
    browser.open(bench.page("shop"))
    xs = browser.run("return allocsnap.timeline.xs")
    browser.pointer("#timeline", (xs[4] + 2, 80))
    state = browser.state()
    assert (state["a"], state["b"], state["measure"], state["sort"]) == (-1, 4, "held", "size"), state
    browser.pointer("#timeline", (xs[3], 80), (xs[6], 80), (xs[12] - 3, 90), drag=True)
    state = browser.state()
    assert (state["a"], state["b"], state["measure"], state["sort"]) == (3, 12, "grown", "delta"), state
    browser.pointer("#timeline", (xs[15], 80), (xs[9], 80), drag=True)
    assert (browser.state()["a"], browser.state()["b"]) == (9, 15), "a drag to the left"
    browser.hover("#timeline", xs[10], 60)
    assert "snapshot 11 of 20" in browser.text("#tip")
    quiet(browser, "timeline")


def test_search_zoom_and_escape(bench, browser):
    browser.open(bench.page("shop"))
    all_sites = browser.text("#sitecount")
    browser.press("/")
    browser.type("parse")
    assert browser.state()["q"] == "parse" and "%" in browser.text("#found")
    assert browser.text("#sitecount") != all_sites
    browser.press("Escape")
    assert browser.state()["q"] == "" and browser.text("#sitecount") == all_sites
    browser.press("j", "ArrowUp", "Enter")
    assert browser.run("return allocsnap.icicle.zoom") > 0 and browser.state()["zoom"]
    browser.press("Escape")
    assert browser.run("return allocsnap.icicle.zoom") == 0
    browser.run("allocsnap.set({q: '/cache::PUT$/'})")
    assert browser.text("#sitecount") == "1 site"
    quiet(browser, "search")


def test_every_choice_has_a_key(bench, browser):
    browser.open(bench.page("shop"))
    for key, name, value in (("r", "order", "leaf"), ("l", "lib", "dim"), ("m", "measure", "shrunk"),
                             ("u", "unit", "blocks"), ("c", "colour", "site"), ("s", "sum", "all")):
        browser.press(key)
        assert browser.state()[name] == value, f"{key}: {browser.state()[name]}"
    browser.press("[", "}")
    assert (browser.state()["a"], browser.state()["b"]) == (8, 18)
    browser.press("]", "{", "{")
    assert (browser.state()["a"], browser.state()["b"]) == (6, 19)
    browser.press("a")
    assert (browser.state()["a"], browser.state()["b"]) == (0, 19)
    for key, dialog in (("?", "keys"), ("i", "facts")):
        browser.press(key)
        assert browser.run("return document.getElementById(arguments[0]).open", dialog), dialog
        browser.press("Escape")
        assert not browser.run("return document.getElementById(arguments[0]).open", dialog), dialog
    browser.press("t")
    assert browser.run("return document.documentElement.dataset.theme") == "dark"
    browser.press("t", "f")
    assert browser.run("return document.body.className").strip() == "wide"
    quiet(browser, "keys")


def test_filters_are_chosen_in_the_menu(bench, browser):
    browser.open(bench.page("shop"))
    browser.press("F")
    browser.click("[data-facet='thread=2']")
    assert browser.state()["thread"] == "2"
    assert browser.text("#chips") == "× thread 2"
    width, total = browser.run("return [allocsnap.icicle.tree.width[0], allocsnap.timeline.totals.at(-1)]")
    assert total == 4800000 + 103000 and width == 4800000, (width, total)
    browser.click("[data-facet='born=before']")
    assert browser.state()["born"] == "before" and "older than A" in browser.text("#chips")
    assert browser.run("return allocsnap.timeline.totals.at(-1)") == 0, "all of thread 2 is younger than A"
    browser.click("[data-facet='thread=2']")
    assert browser.run("return allocsnap.timeline.totals.at(-1)") == 6000000, "the full cache is older"
    browser.click("[data-facet='thread=1']")
    browser.press("Escape")
    assert browser.run("return document.getElementById('filters').hidden")
    browser.press("Escape")
    assert browser.state()["thread"] == browser.state()["born"] == ""
    browser.run("allocsnap.set({a: -1, group: 'thread'})")
    assert browser.run("return allocsnap.table.rows.map(r => [r.name, r.size])") == [["1", 6000000], ["2", 4903000]]
    browser.press("Enter")
    assert browser.state()["thread"] == "1" and browser.state()["group"] == "line"
    quiet(browser, "filters")


def test_cumulative_counts_callers(bench, browser):
    browser.open(bench.page("shop"), "a=-1&sum=all&group=function")
    rows = dict(browser.run("return allocsnap.table.rows.map(r => [r.name, [r.size, r.self]])"))
    assert rows == {"main": [10903000, 0], "shop::Server::serve": [4903000, 0], "shop::Cache::put": [4800000, 4800000],
                    "shop::Index::fill": [6000000, 6000000], "shop::parse": [103000, 103000]}, rows


def test_a_link_brings_the_view_back(bench, browser):
    path = bench.page("shop")
    browser.open(path)
    browser.run("""
        allocsnap.set({a: 3, b: 11, measure: 'held', order: 'leaf', unit: 'blocks', thread: '2', sum: 'all'});
        allocsnap.table.step(1); allocsnap.icicle.zoomTo(allocsnap.icicle.focus)""")
    before, link = browser.state(), browser.run("return location.hash.slice(1)")
    zoom = browser.run("return allocsnap.icicle.zoom")
    assert zoom > 0 and link
    browser.open(path, link)
    assert browser.state() == before, f"{browser.state()}\n{before}"
    assert browser.run("return allocsnap.icicle.zoom") == zoom
    browser.open(path, "a=99&b=-7&order=upside&group=__proto__&thread=x&zoom=9.9.9&measure=grown&sort=size%00")
    assert browser.state()["b"] == 0 and browser.state()["order"] == "root" and browser.state()["group"] == "line"
    quiet(browser, "links")


@core
def test_hostile_names_are_text(bench, browser):
    browser.open(bench.page("hostile"))
    assert browser.run("return document.querySelectorAll('img, b b, header script, main script').length") == 0
    assert "<b>evil</b>" in browser.text("#who") and "\\u202e" in browser.text("#who")
    assert "\\u202e" in browser.run("return document.title")
    assert pages.EVIL in browser.run("return document.querySelector('.notes').title")
    shown = browser.text("#table") + browser.text("#detail")
    assert "\u202e" not in shown and "\x1b" not in shown and "\\u001b" in browser.run("return allocsnap.table.text()")
    browser.run("allocsnap.set({q: '</script>'})")
    assert browser.text("#sitecount") == "6 sites"  # the file has it, too
    browser.press("i")
    assert "<u>x</u>" in browser.text("#facts")
    browser.press("Escape", "j", "y", "Y")
    quiet(browser, "hostile")


def test_nothing_at_all(bench, browser):
    browser.open(bench.page("empty"))
    assert "Nothing is live" in browser.text("#verdict")
    for key in ("j", "Enter", "m", "r", "l", "u", "s", "w", "F", "Escape", "ArrowDown", "y", "n", "a", "[", "}"):
        browser.press(key)
    quiet(browser, "empty")


def test_gaps_and_losses_are_drawn(bench, browser):
    browser.open(bench.report(bench.snapshots / "leaks-gaps"))
    assert "Gaps" in browser.text("#trust .warn") or any("Gaps" in text for text in browser.run(
        "return [...document.querySelectorAll('#trust .warn')].map(e => e.textContent)"))
    gaps = browser.run("return [allocsnap.model.gaps.length, allocsnap.timeline.gapEnds().length]")
    assert gaps[0] == gaps[1] > 0
    quiet(browser, "gaps")


def test_a_rate_over_a_gap_is_marked(bench, browser):
    row = "return document.querySelector(\".tr[aria-rowindex='1'] .num .sub\").textContent"
    for gap, sign, words in (((140, 146), "! ", "+4.58 MiB/min, with gaps"), ((105, 106), "", "+4.58 MiB/min"), (None, "", "+4.58 MiB/min")):
        data = pages.shop()
        if gap:
            data["gaps"] = [{"start_ns": gap[0] * 10**9, "end_ns": gap[1] * 10**9}]
        browser.open(bench.embed("cut", data))
        assert browser.run(row).replace("\u00a0", " ") == sign + "+4.58 MiB/min", browser.run(row)
        assert "Rate from A to B" + words + "Blocks" in browser.text("#detail").replace("\u00a0", " ")
        title = browser.run("return document.querySelector(\".tr[aria-rowindex='1'] .num\").title").replace("\u00a0", " ")
        assert ("Nothing was recorded in 10 % of this time" in title) == bool(sign), title
    data["snapshots"][12]["is_other_recording"] = True
    browser.open(bench.embed("cut", data))
    assert browser.run(row).startswith("! +"), browser.run(row)
    quiet(browser, "cut")


def test_copied_text_has_every_digit(bench, browser):
    browser.open(bench.page("shop"))
    text = browser.run("return allocsnap.detail.text()")
    assert text.splitlines()[:3] == [
        "shop::Cache::put(int)", "4,800,000 bytes in 1,200 blocks (+4,800,000 bytes, +1,200 blocks)",
        "shop pid 4711 on h1, 12:05:35 to 12:06:35 UTC"], text
    assert "    shop::Server::serve(int) at /src/server.cc:20\n    main at /src/main.cc:10\n" in text, text
    table = browser.run("return allocsnap.table.text()").splitlines()
    assert table[0] == "bytes\tblocks\tbytes_change\tblocks_change\tsite\tplace"
    assert table[1] == "4800000\t1200\t4800000\t1200\tshop::Cache::put(int)\tcache.cc:30", table[1]


def test_merged_rows_are_said_at_once(bench, browser):
    data = pages.shop()
    data["merged"] = {"tracebacks": 1200, "of": 1500, "share": 0.001, "dropped_keys": ["birth"]}
    data["frames"]["kind"][0] = 3  # the oldest frame of all
    browser.open(bench.embed("merged", data))
    assert "1,200 of 1,500 tracebacks are small" in browser.text(".notes"), browser.text("#trust")
    assert "no filter by birth" in browser.text(".notes")
    assert "(small tracebacks, merged)" in browser.text("#detail")
    quiet(browser, "merged")


def test_a_fleet_is_grouped_by_host_and_process(bench, browser):
    data = pages.shop()
    del data["process"]
    data["question"]["kind"] = "fleet"
    data["processes"] = [{"host": f"web{i % 3}", "comm": "shop", "pid": 100 + i} for i in range(6)]
    nr = len(data["keys"]["thread"])
    data["keys"]["process"] = [i % 6 for i in range(nr)]
    browser.open(bench.embed("fleet", data))
    assert "6 processes on 3 hosts" in browser.text("#who")
    browser.run("allocsnap.set({a: -1, group: 'host'})")
    rows = browser.run("return allocsnap.table.rows.map(r => [r.name, r.size])")
    assert sorted(name for name, _ in rows) == ["web0", "web1", "web2"], rows
    assert sum(size for _, size in rows) == 10903000, rows
    browser.run("allocsnap.set({group: 'process'})")
    assert len(browser.run("return allocsnap.table.rows.map(r => r.name)")) == 6
    browser.press("Enter")
    assert browser.state()["process"] != "" and "process " in browser.text("#chips")
    quiet(browser, "fleet")


def test_broken_data_are_said(bench, browser):
    path = bench.page("shop")
    text = path.read_text(encoding="utf-8")
    broken = bench.folder / "broken.html"
    broken.write_text(text.replace("H4sI", "H4sA", 1), encoding="utf-8")
    browser.open(broken)
    assert "This report cannot be shown" in browser.text("#verdict h1")
    browser.open(bench.embed("other", {"schema": "allocsnap.report/9"}))
    assert "another version: allocsnap.report/9" in browser.text("#verdict")


def test_twenty_thousand_tracebacks_are_fast(bench, browser):
    browser.open(bench.page("large"))
    opened = browser.spent()
    assert opened < READY_LIMIT, f"ready after {opened:.1f} s of CPU time"
    nr = len(redraw_times(browser))
    mean = (browser.spent() - opened) / nr
    assert mean < REDRAW_LIMIT, f"{nr} redraws take {mean:.3f} s of CPU time each"
    quiet(browser, "large")


def redraw_times(browser):
    """seconds of the icicle's redraws, zooming in and out"""
    return browser.run("""const {icicle} = allocsnap, times = [];
        for (let i = 0; i < 40; i++) {
            icicle.zoom = i % 2 ? 0 : icicle.tree.children(0)[0];
            const from = performance.now(); icicle.draw(); times.push((performance.now() - from) / 1000);
        }
        return times""")


def test_paper_is_light_and_whole(bench, browser):
    browser.open(bench.page("shop"), scheme="dark")
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    browser.run("dispatchEvent(new Event('beforeprint'))")
    assert browser.run("return document.documentElement.dataset.theme") == "light"
    assert browser.run("return getComputedStyle(document.querySelector('.search')).display") == "none"
    assert browser.run("return document.getElementById('timeline').clientHeight") > 100
    browser.run("dispatchEvent(new Event('afterprint'))")
    assert browser.run("return document.documentElement.dataset.theme") == "dark"
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
