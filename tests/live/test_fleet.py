# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""From two hosts that record to the line that leaks: Debian's Lua in two builds, of which the later one has a
leak, and lines that have moved."""
import os
import pathlib
import shutil
import time

import harness
from harness import ALLOCSNAP, NEVER, check, check_equal, tool, top_frame, wait_for
from test_record import Record

ROOT = pathlib.Path(__file__).parents[2]
SOURCES = pathlib.Path(os.environ.get("WORKLOADS", ".output/workloads")).parent / "sources"
LEAK_BYTES = 2048
DATES = 500
ROUNDS = 6
COHORTS = "--baseline", "label.version=1", "--candidate", "label.version=2"
SCRIPT = """
local held = {}
for line in io.lines() do
    local word, n = line:match("(%a+) (%d+)")
    for i = 1, n do
        if word == "hold" then held[#held + 1] = {"value " .. #held} else os.date("!%H:%M:%S", i) end
    end
    io.write("done\\n") io.flush()
end
"""

# The changes of the later version: added lines, and a new leak.
LATER = {
    "lmem.c": (("/*\n", "/*\n** A later version, with a longer\n** introduction.\n**\n"),),
    "loslib.c": (
        ("/*\n", "/*\n** A later version.\n**\n"),
        ("static int os_date (lua_State *L) {\n",
         f"struct day {{ struct tm tm; char text[{LEAK_BYTES - 56}]; }};\n\n"
         "static struct day *keep_day (const struct tm *tm) {\n"
         "  struct day *day = malloc(sizeof(struct day));  /* and nobody frees it */\n"
         "  if (day) day->tm = *tm;\n"
         "  return day;\n"
         "}\n\n"
         "static int os_date (lua_State *L) {\n"),
        ('  if (strcmp(s, "*t") == 0) {\n',
         "  struct day *today = keep_day(stm);\n  if (today) stm = &today->tm;\n"
         '  if (strcmp(s, "*t") == 0) {\n'),
    ),
}


def change(folder):
    for name, changes in LATER.items():
        path = folder / "src" / name
        text = path.read_text()
        for old, new in changes:
            check(text.count(old) >= 1, f"Debian's {name} has no {old!r}: this test must be changed")
            text = text.replace(old, new, 1)
        path.write_text(text)


def build(bench, version):
    """The program of a version, built in a folder of its own."""
    tool("apt-get")
    bench.run([str(ROOT / "scripts/fetch-source.sh"), str(SOURCES), "lua5.4"], seconds=90)
    folder = pathlib.Path(bench.path(f"lua-{version}"))
    shutil.copytree(SOURCES / "lua5.4", folder)
    if version == "2":
        change(folder)
    parts = sorted(str(path.relative_to(folder)) for path in (folder / "src").glob("*.c") if path.stem != "luac")
    bench.run([tool("gcc"), "-g", "-O2", "-DLUA_USE_LINUX", *parts, "-o", "lua", "-lm", "-ldl", "-Wl,-E"],
              seconds=90, cwd=folder)
    return str(folder / "lua")


def line_of(program, name, text):
    lines = (pathlib.Path(program).parent / "src" / name).read_text().splitlines()
    found = [number for number, line in enumerate(lines, 1) if text in line]
    check_equal(len(found), 1, f"lines of {name} with {text!r}")
    return found[0]


class Host:
    """A host: a name and a network of its own, two processes of one version, and their recorder."""

    def __init__(self, bench, name, version):
        self.folder = bench.path(f"data-{name}")
        self.program = build(bench, version)
        self.lua = [bench.start([self.program, "-e", SCRIPT]) for _ in range(2)]
        pids = [word for lua in self.lua for word in ("--pid", str(lua.pid))]
        self.record = bench.start([tool("unshare"), "--uts", "--net", "sh", "-c", f'hostname {name} && exec "$@"',
                                   "sh", ALLOCSNAP, "record", *pids, "-o", self.folder, "--interval", NEVER,
                                   "--label", f"version={version}"], kind=Record, folder=self.folder)
        self.record.line_of("recording")

    def do(self, word, number):
        for lua in self.lua:
            lua.write(f"{word} {number}\n")
            check_equal(lua.line(), "done", word)

    def snapshots(self):
        check_equal(len(self.record.pass_now()), len(self.lua), "snapshots of a pass")


def record_two(bench):
    """Two hosts, of which the second one has the later version; a snapshot of each process after each round."""
    hosts = [Host(bench, "web-1", "1"), Host(bench, "web-2", "2")]
    for host in hosts:
        host.do("hold", 300)
        host.snapshots()
    for _ in range(ROUNDS):
        last = int(time.monotonic())
        wait_for(lambda: int(time.monotonic()) > last, "the next second: births are in whole ones")  # pylint: disable=W0640
        for host in hosts:
            host.do("date", DATES)
            host.snapshots()
    for host in hosts:
        host.record.end()
    return hosts


class Fleet:
    """Their catalogue, asked with the folders of the builds taken away."""

    def __init__(self, bench, hosts):
        self.bench = bench
        self.options = ["--catalogue", bench.path("fleet.db"), "--top", "0"]
        bench.allocsnap("fleet", "index", *(host.folder for host in hosts), *self.options[:2])
        for host in hosts:
            self.options += ["--strip-prefix", os.path.dirname(host.program) + "/"]

    def ask(self, *args):
        return self.bench.json("fleet", *args, *self.options)

    def diff(self, *args):
        """{(filename, lineno): (count_diff, size_diff)} in the order of the rows."""
        rows = self.ask("diff", *COHORTS, "--keep-wrappers", *args)["statistics"]
        return {(top_frame(row)["filename"], top_frame(row)["lineno"]): (row["count_diff"], row["size_diff"])
                for row in rows}


def check_cohorts(fleet, report):
    for side, host in (("baseline", "web-1"), ("candidate", "web-2")):
        check_equal(report[side], fleet.ask("stats", "--where", f"host={host}")["selection"], f"the {side}")
        check_equal((report[side]["hosts"], report[side]["processes"]), (1, 2), f"hosts and processes of the {side}")


def check_moved(hosts, rows):
    """Without --line-drift, an unchanged line that has moved is reported as gone here and new there."""
    places = [("src/lmem.c", line_of(host.program, "lmem.c", "newblock = firsttry(g, NULL, tag, size)"))
              for host in hosts]
    check(places[0] != places[1], "the lines have not moved")
    (gone, less), (new, more) = (rows.get(place, (0, 0)) for place in places)
    check(gone < 0 < new and less < 0 < more, f"{places}: {gone} and {new} blocks")


def check_followed(rows):
    """By its distance from its function's first line it is the same one, with the same blocks, or nearly."""
    found = {place: row for place, row in rows.items() if place[0] == "src/lmem.c:luaM_malloc_"}
    check_equal(len(found), 1, f"lines of luaM_malloc_ in {rows}")
    (count, size), = found.values()
    check(abs(count) < 100 and abs(size) < 10000, f"it differs by {count} blocks, {size} bytes")


@harness.alone
def test_fleet_finds_a_leak_of_a_later_version(bench):
    hosts = record_two(bench)
    fleet = Fleet(bench, hosts)
    leak = "src/loslib.c", line_of(hosts[1].program, "loslib.c", "nobody frees it")
    rows = fleet.diff()
    check_equal(next(iter(rows.items())), (leak, (2 * ROUNDS * DATES, 2 * ROUNDS * DATES * LEAK_BYTES)), "what has grown most")
    check_cohorts(fleet, fleet.ask("diff", *COHORTS))
    check_moved(hosts, rows)
    rows = fleet.diff("--line-drift")
    check_equal(next(iter(rows.values())), (2 * ROUNDS * DATES, 2 * ROUNDS * DATES * LEAK_BYTES), "with --line-drift")
    check_equal(next(iter(rows))[0], "src/loslib.c:keep_day", "its function")
    check_followed(rows)
    new = "--where", "label.version=2"
    first = top_frame(fleet.ask("leaks", *new)["leaks"][0]["lines"][0])
    check_equal((first["filename"], first["lineno"]), leak, "the first row of leaks")
