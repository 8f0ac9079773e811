# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A leak in a C++ program: a cache whose second index is never evicted (planted/shopcache.cc)."""
import os
import shutil
import signal
import threading

from harness import check, tool
import loads
from task import task
from terminal import FOR, check_named, check_planted_line, first_leak, leak_rows, without_common_caller


def check_planted_rows(answer):
    """All rows of lines of the program are the planted leak; returns the first place."""
    row = first_leak(answer)
    for other in leak_rows(answer):
        if other.startswith("LEAKS "):
            check_planted_line(without_common_caller(other), "shopcache.cc")
    return check_planted_line(row, "shopcache.cc")


@task("C++ cache leak, `-O2 -g`", before="4 min, 7 commands", best="40 s, 2")
def cpp_cache_leak(terminal):
    shop = terminal.bench.start([loads.shopcache_path()])
    answer = terminal.type(f"allocsnap leaks {shop.pid} --for {FOR}s", shown=12)
    return check_planted_rows(answer)


@task("the same, stripped", before="6 min, 5 commands", best="1 min, 4")
def cpp_stripped(terminal):
    """Without names the first row is an offset in the program; its debug file makes the line of it."""
    shop = terminal.bench.start([loads.stripped_shopcache(terminal.bench)])
    answer = terminal.type(f"allocsnap leaks {shop.pid} --for {FOR}s -o data")
    check_named(first_leak(answer), r"/shopcache\+0x[0-9a-f]+")
    terminal.type("allocsnap symbolize --debug-dir debug data/*/*/*.snap")
    return check_planted_rows(terminal.type("allocsnap leaks data", shown=12))


@task("the same, in a chroot with mounts and PIDs of its own", before="30 s, 2 commands", best="30 s, 2")
def cpp_contained(terminal):
    pid = loads.contained_shopcache(terminal.bench)
    return check_planted_rows(terminal.type(f"allocsnap leaks {pid} --for {FOR}s"))


@task("the same, its file replaced while it runs; two processes, one killed", before="1 min, 3 commands")
def cpp_replaced_and_killed(terminal):
    bench = terminal.bench
    program = loads.copied_shopcache(bench)
    lives, dies = bench.start([program]), bench.start([program])
    os.unlink(program)
    shutil.copy(tool("true"), program)
    killer = threading.Timer(FOR / 2, dies.popen.send_signal, [signal.SIGKILL])
    killer.start()
    terminal.type(f"allocsnap attach {lives.pid} {dies.pid} --interval {FOR // 5}s --duration {FOR}s -o data")
    killer.join()
    place = check_planted_rows(terminal.type(f"allocsnap leaks data/*/shopcache.{lives.pid}"))
    shown = terminal.type(f"allocsnap show data/*/shopcache.{dies.pid}").stdout
    check("killed by signal 9" in shown, f"show does not say how it ended: {shown[:500]!r}")
    return place
