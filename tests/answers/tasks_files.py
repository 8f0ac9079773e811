# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Snapshots for other programs: JSON, folded stacks, the C libraries; and Python's own snapshots."""
import os
import pathlib
import re
import sys
import tracemalloc

from harness import check, check_equal, tool
import loads
from task import task
from terminal import check_planted_line, planted_lines, snapshots_below

ROOT = pathlib.Path(__file__).resolve().parents[2]


def record_shopcache(terminal):
    shop = terminal.bench.start([loads.shopcache_path(), "50"])
    terminal.type(f"allocsnap attach {shop.pid} --interval 3s --count 3 -o data")


@task("JSON + `jq`", before="1 min, 2 commands: the order of frames differs")
def json_by_jq(terminal):
    """The frame that jq finds first is the line that the text names first."""
    tool("jq")
    record_shopcache(terminal)
    query = ".statistics[0].traceback[0] | \"\\(.filename):\\(.lineno)\""
    found = terminal.type(f"allocsnap stats data --json | jq -r '{query}'").stdout.strip()
    shown = terminal.type("allocsnap stats data --top 1").lines()[0]
    check(shown.startswith(found + ":"), f"JSON's first frame is {found!r}, the text has {shown!r}")
    return check_planted_line(found, "shopcache.cc")


@task("folded stacks for a flame graph", before="3 min, 1 command and npm: those of a diff are wrong")
def folded_stacks(terminal):
    """Each line ends in one number: most viewers know no other form."""
    record_shopcache(terminal)
    answer = terminal.type("allocsnap stats data --format folded", shown=3)
    weights = {}
    for line in answer.lines():
        stack, _, weight = line.rpartition(" ")
        check(weight.isdigit() and not re.search(r" \d+$", stack), f"a line with two numbers: {line!r}")
        weights[stack] = weights.get(stack, 0) + int(weight)
    heaviest = max(weights, key=weights.get)
    check("make_session" in heaviest or "index_by_email" in heaviest, f"the heaviest stack is {heaviest!r}")
    return heaviest.split(";")[-1][:60]


@task("the C libraries: install, build `heapdiff`, ask", before="20 s, 3 commands")
def c_library(terminal):
    record_shopcache(terminal)
    old, *_, new = snapshots_below(terminal.bench.path("data"))
    terminal.environment["PKG_CONFIG_PATH"] = terminal.bench.path("usr/lib/pkgconfig")
    terminal.environment.pop("MAKEFLAGS", None)
    terminal.type(f"make -s -C {ROOT} install prefix={terminal.bench.path('usr')}", seconds=300)
    terminal.type(f"cc {ROOT}/tests/example/heapdiff.c $(pkg-config --cflags --libs allocsnap) -o heapdiff")
    answer = terminal.type(f"./heapdiff {old} {new} 'file=*shopcache.cc,all-frames' part.snap")
    most_changed = answer.stdout.partition("Most changed")[2]
    calls = [int(line) for line in re.findall(r'shopcache\.cc", line (\d+)', most_changed)]
    check(set(calls) & planted_lines("shopcache.cc"), f"what changed most is not planted: {most_changed!r}")
    return f"shopcache.cc:{calls[-1]}"


DUMPS = """
import tracemalloc
tracemalloc.start(5)
kept = [bytes(1000) for _ in range(500)]
tracemalloc.take_snapshot().dump("old.pickle")
kept += [bytearray(2000) for _ in range(700)]
tracemalloc.take_snapshot().dump("new.pickle")
"""


@task("pickles of `tracemalloc` → `diff`", before="20 s, 3 commands")
def tracemalloc_pickles(terminal):
    """The first row is Python's own, to the letter."""
    bench = terminal.bench
    pathlib.Path(bench.path("dumps.py")).write_text(DUMPS, encoding="ascii")
    bench.run([sys.executable, "dumps.py"], cwd=bench.folder)
    os.symlink(ROOT / "scripts" / "tracemalloc-to-json", os.path.join(terminal.own, "tracemalloc-to-json"))
    for name in ("old", "new"):
        terminal.type(f"tracemalloc-to-json {name}.pickle | allocsnap convert - -o {name}.snap")
    shown = terminal.type("allocsnap diff old.snap new.snap --top 3").lines()[0]
    old, new = (tracemalloc.Snapshot.load(bench.path(f"{name}.pickle")) for name in ("old", "new"))
    check_equal(shown, str(new.compare_to(old, "lineno")[0]), "the first row")
    return shown.split(":")[0].rpartition("/")[2] + ":" + shown.split(":")[1]
