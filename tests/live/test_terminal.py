# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The screen: a status line while allocsnap records, the top rows at the end."""
import os
import pty
import re
import select
import signal
import subprocess
import time

import harness
from harness import ALLOCSNAP, PATIENCE, check, check_equal


def read_terminal(master, until, seconds=60):
    """The text on the terminal. Reads until `until(text)` is true or the terminal is closed."""
    text, deadline = "", time.monotonic() + seconds * PATIENCE
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
                              start_new_session=True, env=dict(os.environ, TERM="xterm"))
    os.close(slave)
    return process, master


@harness.core
def test_terminal_shows_a_status_line_and_the_top_rows(bench):
    """A status line, then the top rows, "traced … of RSS …"; Ctrl-C is a SIGINT."""
    grow = bench.workload("grow", "600")
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
    check_equal(process.wait(60), 0, "exit status")
    check(re.search(r"grow\.c:\d+: size=.*, count=\d+, average=", end), f"no top rows: {end!r}")
    check(re.search(r"[Tt]raced .* of RSS ", end), f"no line 'traced … of RSS …': {end!r}")
    paths = re.findall(r"/[^\s\x1b]+\.snap", end)
    check(paths and os.path.exists(paths[0]), f"no path of a file: {end!r}")


def test_output_without_terminal_is_only_paths(bench):
    """No status line, no rows: stdout is the paths alone, stderr is empty."""
    grow = bench.workload("grow", "600")
    recording = bench.attach([grow], interval="300ms")
    paths = [recording.path() for _ in range(3)] + recording.end(signal.SIGINT)
    check_equal([path for path in paths if not os.path.isfile(path)], [], "lines that are no file")
    check_equal(recording.stderr(), "", "stderr")


def test_status_goes_to_a_terminal_on_stderr(bench):
    """stdout in a pipe, stderr on the terminal: the status there, the paths alone here."""
    grow = bench.workload("grow", "600")
    master, slave = pty.openpty()
    process = bench.start_raw([ALLOCSNAP, "attach", str(grow.pid), "-o", bench.path("out"),
                               "--duration", "2s"], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=slave, env=dict(os.environ, TERM="xterm"))
    os.close(slave)
    status = read_terminal(master, lambda text: False)
    os.close(master)
    out = process.stdout.read().decode()
    check_equal(process.wait(60), 0, "exit status")
    check("recording grow" in status, f"no status line: {status!r}")
    check_equal([line for line in out.splitlines() if not os.path.isfile(line)], [],
                "lines that are no file")


def test_status_line_counts_snapshots_and_leaves_nothing(bench):
    """The line is rewritten in place, says how many snapshots there are, and is gone at the end."""
    grow = bench.workload("grow", "600")
    process, master = on_terminal(bench, [ALLOCSNAP, "attach", str(grow.pid), "-o", bench.path("out"),
                                          "--interval", "400ms", "--count", "3"])
    text = read_terminal(master, lambda text: False)
    os.close(master)
    check_equal(process.wait(60), 0, "exit status")
    check(re.search(r"recording grow, 0 lost: .* in \d+ blocks?, \d+ s, 2 snapshots", text), f"no count: {text!r}")
    lines = [line.split("\x1b[K")[-1].split("\r")[-1] for line in text.replace("\r\n", "\n").split("\n")]
    check_equal([line for line in lines if line.startswith("recording grow")], [], "status lines that stay")


def test_quiet_and_dumb_terminals_have_no_status_line(bench):
    """-q: the paths alone. A terminal that cannot move its cursor has no status line, either."""
    for words, term in ((["-q"], "xterm"), ([], "dumb")):
        grow = bench.workload("grow", "600")
        process, master = on_terminal(bench, ["env", f"TERM={term}", ALLOCSNAP, "attach", str(grow.pid), "-o",
                                              bench.path("out" + term), "--duration", "1s"] + words)
        text = read_terminal(master, lambda text: False)
        os.close(master)
        check_equal(process.wait(60), 0, "exit status")
        check("recording grow" not in text and "\x1b[K" not in text, f"{words} {term}: a status line: {text!r}")
        check(re.search(r"\S+\.snap", text), f"{words} {term}: no path: {text!r}")
        check_equal("grow.c" in text, not words, f"{words} {term}: rows at the end")


def test_run_draws_nothing_on_the_terminal_of_its_program(bench):
    """`run` leaves the terminal to the program, with and without --quiet."""
    process, master = on_terminal(bench, [ALLOCSNAP, "run", "-o", bench.path("out"), "--interval", "300ms", "--",
                                          "sh", "-c", "echo begun; sleep 1.5; echo ended"])
    text = read_terminal(master, lambda text: False)
    os.close(master)
    check_equal(process.wait(60), 0, "exit status")
    check(text.startswith("begun\r\nended\r\n"), f"the terminal has {text!r}")
    check("\x1b[K" not in text, f"a status line: {text!r}")


@harness.alone
def test_record_has_a_status_line(bench):
    """`record --pid` shows the same line, and clears it before the line of a pass."""
    grow = bench.workload("grow", "600")
    process, master = on_terminal(bench, [ALLOCSNAP, "record", "--pid", str(grow.pid), "-o", bench.path("out"),
                                          "--interval", "1s", "--duration", "2500ms"])
    text = read_terminal(master, lambda text: False)
    os.close(master)
    check_equal(process.wait(60), 0, "exit status")
    check(re.search(r"recording 1 process, 0 lost: .* in \d+ blocks?, \d+ s, \d+ snapshot", text), f"no line: {text!r}")
    check(re.search(r"\r\x1b\[Krecording used .*; \d+ snapshots? in ", text), f"the line of a pass stands behind the status: {text!r}")


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
