# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Many processes at once, and many blocks."""
import pathlib
import re
import shutil

from harness import check, is_running
import loads
from task import task
from terminal import FOR, PLANTED, check_named, check_planted_line

# name: (how many, how to start one)
CROWD = {
    "shopcache": (8, lambda bench: bench.start([loads.shopcache_path(), "10"])),
    "python3": (4, lambda bench: loads.start_python(bench, "large")),
    "redis": (2, lambda bench: loads.start_idle_redis(bench)),
    "sqlite3": (4, lambda bench: bench.start([loads.system_tool("sqlite3"), "-batch", ":memory:"])),
    "cat": (2, lambda bench: bench.start([loads.system_tool("cat")])),
}


@task("`record` of 20 processes, 12 of them leak, then `fleet`", before="5 min, 6 commands: a wrong headline")
def crowd_then_fleet(terminal):
    crowd = [start(terminal.bench) for nr, start in CROWD.values() for _ in range(nr)]
    rules = " ".join(f"--pid {process.pid}" for process in crowd)
    times = f"--interval {FOR // 5}s --duration {FOR}s"
    terminal.type(f"allocsnap record {rules} --max-overhead 30 {times} -o data", shown=3)
    check(all(is_running(process.pid) for process in crowd), "a recorded process has ended")
    terminal.type("allocsnap fleet index data -C fleet.db")
    leaks = terminal.type("allocsnap fleet leaks -C fleet.db", shown=12, status=(0, 3)).stdout
    places = re.findall(r"\S+\.(?:cc|c|h|rs):\d+", leaks)
    check(places, f"no line leaks, it says: {leaks!r}")
    check("bytesobject.c" in places[0] or "shopcache.cc" in places[0], f"the first row is not planted: {leaks!r}")
    shops = terminal.type("allocsnap fleet leaks -C fleet.db --where comm=shopcache", status=(0, 3))
    return check_planted_line(shops.stdout, "shopcache.cc")


MAKEFILE = """
all: shopcache small
shopcache: shopcache.cc
	g++ -O2 -g -c $< -o $@
small: small.c
	gcc -c $< -o $@
"""


@task("`run -f -- make`: which process peaked?", before="2 min, a shell loop")
def make_peaks(terminal):
    """The compiler of C++ holds more than that of C, and than make, as, collect2."""
    source = pathlib.Path(terminal.folder("src"))
    shutil.copy(PLANTED / "shopcache.cc", source)
    (source / "small.c").write_text("int one(void) { return 1; }\n", encoding="ascii")
    (source / "Makefile").write_text(MAKEFILE, encoding="ascii")
    answer = terminal.type("allocsnap run -f -o data -- make -C src", shown=30)
    printed = (answer.stdout + answer.stderr).splitlines()
    table = [line for line in printed if re.search(r"\bcc1(plus)?\.\d+ .* [KM]iB", line)]
    check(table, f"no table of processes: {answer.stdout[-500:]!r} {answer.stderr[-500:]!r}")
    return " ".join(check_named(table[0], r"\bcc1plus\.\d+ .*?[\d.]+ [KM]iB").split())


HELD_BLOCKS = 2_000_000
MANY = f"""
#include <stdlib.h>
static void *block[{HELD_BLOCKS}];
int main(void)
{{
	for (int i = 0; i < {HELD_BLOCKS}; i++)
		block[i] = malloc(32);
	return !block[0];
}}
"""


@task("two million blocks, `run`", before="10 s, 1 command; a file of 64 MB, `stats` in 0.15 s")
def two_million_blocks(terminal):
    pathlib.Path(terminal.bench.path("many.c")).write_text(MANY, encoding="ascii")
    loads.build(terminal.bench, ["gcc", "-g", "-o", "many", "many.c"])
    terminal.type("allocsnap run -o data -- ./many")
    answer = terminal.type("allocsnap stats data --top 1")
    check(f"count={HELD_BLOCKS}" in answer.lines()[0], f"the first row is {answer.lines()[0]!r}")
    return check_named(answer.lines()[0], r"many\.c:7\b")
