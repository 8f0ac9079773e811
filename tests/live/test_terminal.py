# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The screen: a status line while allocsnap records, the top rows at the end."""
import os
import pty
import re
import select
import signal
import subprocess
import time

from harness import ALLOCSNAP, check, check_equal


def read_terminal(master, until, seconds=15):
    """The text on the terminal. Reads until `until(text)` is true or the terminal is closed."""
    text, deadline = "", time.monotonic() + seconds
    while not until(text) and time.monotonic() < deadline:
        if not select.select([master], [], [], 0.2)[0]:
            continue
        try:
            more = os.read(master, 65536)
        except OSError:  # closed
            break
        if not more:
            break
        text += more.decode(errors="replace")
    return text


def on_terminal(bench, argv):
    """(process, master): started with all three on a terminal."""
    master, slave = pty.openpty()
    process = bench.start_raw(argv, stdin=slave, stdout=slave, stderr=slave,
                              start_new_session=True)
    os.close(slave)
    return process, master


def test_terminal_shows_a_status_line_and_the_top_rows(bench):
    """A status line, then the top rows, "traced … of RSS …"; Ctrl-C is a SIGINT."""
    grow = bench.workload("grow", "30")
    process, master = on_terminal(bench, [ALLOCSNAP, "attach", str(grow.pid), "-o",
                                          bench.path("out"), "--interval", "1h"])
    try:
        status = read_terminal(master, lambda text: len(re.findall(r"\r", text)) >= 3)
        check(re.search(r"recording grow.*\d+(\.\d+)? (B|KiB|MiB)", status),
              f"no status line: {status!r}")
        check("[Ctrl-C" in status or "Ctrl-C" in status, f"the line does not tell how to stop: {status!r}")
        process.send_signal(signal.SIGINT)
        end = read_terminal(master, lambda text: False)
    finally:
        os.close(master)
    check_equal(process.wait(10), 0, "exit status")
    check(re.search(r"grow\.c:\d+: size=.*, count=\d+, average=", end), f"no top rows: {end!r}")
    check(re.search(r"[Tt]raced .* of RSS ", end), f"no line 'traced … of RSS …': {end!r}")
    paths = re.findall(r"/[^\s\x1b]+\.snap", end)
    check(paths and os.path.exists(paths[0]), f"no path of a file: {end!r}")


def test_output_without_terminal_is_only_paths(bench):
    """No status line, no rows: stdout is the paths alone, stderr is empty."""
    grow = bench.workload("grow", "30")
    recording = bench.attach([grow], interval="300ms")
    time.sleep(1.2)
    paths = recording.end(signal.SIGINT)
    check(len(paths) >= 3, f"{len(paths)} snapshots in a second of 300 ms intervals")
    check_equal([path for path in paths if not os.path.isfile(path)], [], "lines that are no file")
    check_equal(recording.stderr(), "", "stderr")


def test_status_goes_to_a_terminal_on_stderr(bench):
    """stdout in a pipe, stderr on the terminal: the status there, the paths alone here."""
    grow = bench.workload("grow", "30")
    master, slave = pty.openpty()
    process = bench.start_raw([ALLOCSNAP, "attach", str(grow.pid), "-o", bench.path("out"),
                               "--duration", "2s"], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=slave)
    os.close(slave)
    status = read_terminal(master, lambda text: False)
    os.close(master)
    out = process.stdout.read().decode()
    check_equal(process.wait(10), 0, "exit status")
    check("recording grow" in status, f"no status line: {status!r}")
    check_equal([line for line in out.splitlines() if not os.path.isfile(line)], [],
                "lines that are no file")


def test_text_output_matches_tracemalloc(bench):
    """stats and diff print tracemalloc's text, show its facts; --top cuts, folded is folded."""
    known = bench.workload("known")
    recording = bench.attach([known])
    known.order("go")
    old = recording.snapshot()
    known.order("free")
    new = recording.end(signal.SIGINT)[-1]
    out, err = bench.allocsnap("stats", old, "--top", "3")
    check_equal(err, "", "stderr of stats")
    rows = re.findall(r"known\.c:\d+: size=\d+(?:\.\d)? (?:B|KiB|MiB), count=\d+, average=", out)
    check_equal(len(rows), 3, f"rows in {out!r}")
    out, _ = bench.allocsnap("diff", old, new, "--top", "1")
    check(re.search(r"known\.c:\d+: size=0 B \(-\d+\.\d MiB\), count=0 \(-84\)", out), out)
    out, _ = bench.allocsnap("stats", old, "--group-by", "traceback", "--top", "1")
    check("leaf_grow" in out and "work_realloc" in out, f"no traceback: {out!r}")
    out, _ = bench.allocsnap("stats", old, "--format", "folded", "--group-by", "traceback")
    check(re.search(r"^\S*.*;work.*;leaf_a \d+$", out, re.M), f"no folded stacks: {out!r}")
    out, _ = bench.allocsnap("show", old)
    for word in ("known", "losses", "allocations", "RSS", "malloc"):
        check(word in out, f"show does not say '{word}': {out!r}")
