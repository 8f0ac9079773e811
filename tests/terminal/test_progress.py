# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""How far a command is within one large snapshot: on a terminal, from the second second on, and gone at the end."""
import contextlib
import json
import os
import re
import subprocess
import tempfile
import time

from checks import ALLOCSNAP, MAKE_TRACES, SNAPSHOTS, check, check_equal
from terminal import Terminal

CLEAR = "\r\x1b[K"

# Each megabyte takes 0.4 seconds, as from a slow disk. With SLOW_DISK_STOPS the second half never comes, so the program
# does not end by itself. Its main thread reads 4 of 10 megabytes before that: the progress is shown.
SLOW_DISK = """
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
ssize_t pread64(int fd, void *to, size_t len, off_t at)
{
	struct stat st;
	if (len > 100000)
		usleep(len * 2 / 5);
	if (len > 100000 && getenv("SLOW_DISK_STOPS") && !fstat(fd, &st) && at >= st.st_size / 2)
		pause();
	return syscall(SYS_pread64, fd, to, len, at);
}
ssize_t pread(int fd, void *to, size_t len, off_t at) { return pread64(fd, to, len, at); }
"""


@contextlib.contextmanager
def slow_folder():
    """(a folder with old.snap and new.snap of some megabytes, the environment in which they are read slowly)."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([MAKE_TRACES, folder, "150000", "1"], check=True)
        source, library = os.path.join(folder, "slow.c"), os.path.join(folder, "slow.so")
        with open(source, "w", encoding="utf-8") as file:
            file.write(SLOW_DISK)
        subprocess.run(["cc", "-shared", "-fPIC", source, "-o", library], check=True)
        for name in os.listdir(folder):
            if name not in ("old.snap", "new.snap", "slow.so"):
                os.unlink(os.path.join(folder, name))
        yield folder, {"LD_PRELOAD": library, "ALLOCSNAP_PAGER": ""}


def lines_that_stay(text):
    """The text that a reader sees in the end."""
    return [line.split(CLEAR)[-1] for line in text.replace("\r\n", "\n").split("\n")]


def on_terminal(argv, folder, env, **options):
    terminal = Terminal([ALLOCSNAP, *argv], cwd=folder, env=env, **options)
    status = terminal.end()
    return status, terminal.text


def check_progress(text, work, command):
    found = re.findall(rf"{work}: [0-9.]+ \w*B of [0-9.]+ MiB \((\d+) %\), [0-9.]+ \w*B/s, \d+ s left", text)
    most = max(map(int, found), default=0)  # the first may be 0 %
    check(0 < most <= 100, f"{command}: no progress of {work!r}: {text!r}")
    check_equal([line for line in lines_that_stay(text) if work + ":" in line], [], f"{command}: lines that stay")


def test_each_command_shows_its_progress_within_a_snapshot():
    with slow_folder() as (folder, env):
        commands = (["stats", "new.snap"], ["diff", "old.snap", "new.snap"], ["show", "new.snap"],
                    ["convert", "new.snap", "-o", "out.snap"], ["symbolize", "new.snap", "-o", "named.snap"],
                    ["report", "new.snap", "-o", "out.html"], ["leaks", "new.snap"])
        terminals = [Terminal([ALLOCSNAP, *argv], cwd=folder, env=env, columns=120) for argv in commands]
        for argv, terminal in zip(commands, terminals):
            status = terminal.end()
            check(status == 0 or argv[0] == "leaks", f"{argv[0]}: exit status {status}: {terminal.text[-500:]!r}")
            check_progress(terminal.text, "reading", argv[0])


def test_a_narrow_terminal_cuts_it():
    with slow_folder() as (folder, env):
        _, text = on_terminal(["stats", "new.snap"], folder, env, columns=24)
        shown = re.findall(r"reading: [^\r]*", text)
        check(shown and max(map(len, shown)) <= 23, f"columns: {shown}")


def test_elsewhere_there_is_none():
    with slow_folder() as (folder, env):
        run = subprocess.run([ALLOCSNAP, "stats", "new.snap"], cwd=folder, env={**os.environ, **env, "TERM": "xterm"},
                             capture_output=True, text=True, check=True)
        check_equal(run.stderr, "", "standard error in a pipe")
        _, text = on_terminal(["stats", "new.snap"], folder, {**env, "TERM": "dumb"})
        check("reading" not in text and "total:" in text, f"a terminal without a cursor: {text!r}")


def test_ctrl_c_during_it_leaves_nothing():
    with slow_folder() as (folder, env):
        before = sorted(os.listdir(folder))
        for argv in (["stats", "new.snap"], ["convert", "new.snap", "-o", "out.snap"], ["report", "new.snap", "-o", "o.html"]):
            terminal = Terminal([ALLOCSNAP, *argv], cwd=folder, env={**env, "SLOW_DISK_STOPS": "1"})
            try:
                terminal.read(lambda text: "reading:" in text)
                terminal.type("\x03")
                check_equal(terminal.end(), -2, f"{argv[0]}: exit status")
            finally:
                terminal.kill()
            check(lines_that_stay(terminal.text) in ([""], ["^C"]), f"{argv[0]}: what stays: {terminal.text!r}")
            check_equal(sorted(os.listdir(folder)), before, f"{argv[0]}: files")


def test_input_without_an_end_has_a_rate():
    """A pipe has no length: only what has come is known."""
    text = json.dumps({"traces": [[0, 1000 + i % 7, [["a.c", i % 100]]] for i in range(40000)]}).encode()
    with tempfile.TemporaryDirectory() as folder:
        read, write = os.pipe()
        terminal = Terminal([ALLOCSNAP, "convert", "-", "-o", "out.snap"], cwd=folder, stdin=read, pass_fds=())
        os.close(read)
        rest = text[os.write(write, text[:len(text) // 2]):]

        def has_rate(shown):
            nonlocal rest
            rest = rest[os.write(write, rest[:1]):]
            return re.search(r"reading: [0-9.]+ KiB, [0-9.]+ KiB/s", shown)

        terminal.read(has_rate)
        while rest:
            rest = rest[os.write(write, rest):]
        os.close(write)
        check_equal(terminal.end(), 0, "exit status")
        check(re.search(r"reading: [0-9.]+ KiB, [0-9.]+ KiB/s", terminal.text), f"no rate: {terminal.text!r}")
        check(os.path.exists(os.path.join(folder, "out.snap")), "no snapshot")


def test_short_works_show_nothing():
    """Shorter than a second, that is: a busy machine may take longer."""
    begun = time.monotonic()
    terminal = Terminal([ALLOCSNAP, "stats", "new.snap"], cwd=SNAPSHOTS, env={"ALLOCSNAP_PAGER": ""})
    check_equal(terminal.end(), 0, "exit status")
    took = time.monotonic() - begun
    check("total:" in terminal.text, f"it shows {terminal.text!r}")
    check("\x1b[K" not in terminal.text or took >= 1, f"after {took:.2f} s it shows {terminal.text!r}")
