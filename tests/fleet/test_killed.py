# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Indexing that is killed, that runs twice at once, that runs again: the catalogue is always the same."""
import contextlib
import difflib
import fcntl
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import time

from fleet import IS_LONG, Fleet, dump
from harness import ALLOCSNAP, Failure, check, check_equal, runs_core, wait_for

MARKS = ("core",)

KILLS = 6 if runs_core() else 100 if IS_LONG else 24
KILLS_OF_ONE = 3 if runs_core() else 4  # of one catalogue, before it is left in peace
SMALL = ("--hosts", 20 if runs_core() else 100, "--sites", 20, "--tracebacks", 1200, "--frames", 600)  # 20 files a host


@contextlib.contextmanager
def small_fleet(name, *options):
    fleet = Fleet(name, *(options or SMALL))
    try:
        yield fleet
    finally:
        fleet.close()


def check_same(fleet, expected, what):
    found = dump(fleet.catalogue)
    if found != expected:
        lines = list(difflib.unified_diff(expected.split("\n"), found.split("\n"), lineterm="", n=0))
        raise Failure(f"{what}: {len(lines)} lines differ: " + "\n".join(line[:200] for line in lines[:6]))


def forget(fleet):
    for path in fleet.folder.glob("fleet.db*"):
        path.unlink()


def start(fleet):
    argv = [ALLOCSNAP, "fleet", "index", fleet.data, "--catalogue", fleet.catalogue]
    return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def kill_after(fleet, seconds):
    """Whether it was killed before it was done."""
    process = start(fleet)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
    process.kill()
    _, err = process.communicate()
    check(process.returncode in (0, -9), f"index ended with {process.returncode}: {err!r}")
    return process.returncode == -9


def undisturbed(fleet):
    """The catalogue of an index that is not killed, and the seconds that it takes."""
    begun = time.monotonic()
    fleet.index()
    return dump(fleet.catalogue), time.monotonic() - begun


def test_index_killed_at_any_time_gives_the_same_result_when_run_again(_large):
    seed = random.randrange(1 << 32)
    chance, kills = random.Random(seed), 0
    with small_fleet("killed") as fleet:
        expected, seconds = undisturbed(fleet)
        while kills < KILLS:
            forget(fleet)
            before = kills
            for _ in range(KILLS_OF_ONE):
                kills += kill_after(fleet, chance.uniform(0, seconds))
            fleet.index()
            check_same(fleet, expected, f"seed {seed}, after {kills - before} kills")
        check_equal(list(fleet.folder.glob("fleet.db*")), [fleet.catalogue], "files of the catalogue")


def test_two_indexes_at_once_give_the_same_result(_large):
    with small_fleet("twice") as fleet:
        expected, _ = undisturbed(fleet)
        for _ in range(3):
            forget(fleet)
            both = start(fleet), start(fleet)
            for process in both:
                _, err = process.communicate(timeout=300)
                check_equal(process.returncode, 0, f"exit status (stderr {err!r})")
            check_same(fleet, expected, "two at once")


def test_index_waits_for_another_index(_large):
    """The waiting index logs that once, and then does its work."""
    with small_fleet("waits", "--hosts", 4, "--sites", 50, "--tracebacks", 1200, "--frames", 600) as fleet:
        expected, _ = undisturbed(fleet)
        forget(fleet)
        with open(fleet.catalogue, "wb") as other:
            fcntl.flock(other, fcntl.LOCK_EX)
            process = start(fleet)
            line = process.stderr.readline()
        _, err = process.communicate(timeout=300)
        said = f"allocsnap: {fleet.catalogue}: another index is writing; waiting\n"
        check_equal((line + err).decode(), said, "stderr")
        check_equal(process.returncode, 0, "exit status")
        check_same(fleet, expected, "after another")


def test_query_during_an_index_gets_an_answer(_large):
    """A question gets an answer about the indexed files, or the error that no file is indexed; never an error of
    the catalogue's file."""
    with small_fleet("asked") as fleet:
        expected, _ = undisturbed(fleet)
        forget(fleet)
        process, answers = start(fleet), []
        while process.poll() is None or not answers:
            asked = subprocess.run([ALLOCSNAP, "fleet", "stats", "--catalogue", fleet.catalogue],
                                   stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
            check(asked.returncode == 0 or re.search("No such file|no snapshots", asked.stderr),
                  f"stats: {asked.returncode}, {asked.stderr!r}")
            answers.append(asked.returncode)
        process.communicate()
        check_same(fleet, expected, "after questions")


def full_pipe():
    """A reader does not wait; a writer of the catalogue does."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writing, bytes(4096))
    os.set_blocking(writing, True)
    return reading, writing


def is_writing(process):
    """It waits for its reader."""
    return "pipe_write" in pathlib.Path(f"/proc/{process.pid}/wchan").read_text(encoding="ascii")


def wait_for_writing(process):
    while not is_writing(process):
        check_equal(process.poll(), None, "it has ended before it wrote")
        time.sleep(0.01)


def test_stopped_pager_blocks_no_index(_large):
    """A stopped pager blocks neither indexing nor questions. The answers are longer than the output buffer."""
    with small_fleet("pager", "--hosts", 4, "--sites", 50, "--tracebacks", 1200, "--frames", 600) as fleet:
        fleet.index()
        for command in (["stats"], ["diff", "--baseline", "host=*", "--candidate", "host=*"], ["hosts"]):
            forget(fleet)
            shutil.move(sorted(fleet.data.rglob("*.snap"))[0], fleet.folder / "later.snap")
            fleet.index()
            reading, writing = full_pipe()
            argv = [ALLOCSNAP, "fleet", *command, "--group-by", "traceback", "--json", "--top", "0",
                    "--catalogue", fleet.catalogue]
            with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=writing,
                                  stderr=subprocess.DEVNULL) as asked:
                try:
                    wait_for_writing(asked)
                    shutil.move(fleet.folder / "later.snap", fleet.data / "a.snap")
                    fleet.index()
                    check_equal(asked.poll(), None, f"{command[0]} has ended")
                finally:
                    os.close(writing)
                    os.close(reading)


def test_index_adds_new_files_and_keeps_removed_ones(_large):
    """Indexed files are not read again; new files are added; the data of removed files stays."""
    with small_fleet("again", "--hosts", 10, "--sites", 20, "--tracebacks", 1200, "--frames", 600) as fleet:
        hosts = sorted(os.listdir(fleet.data))
        apart = fleet.folder / "apart"
        apart.mkdir()
        for host in hosts[5:]:
            shutil.move(fleet.data / host, apart / host)
        fleet.index()
        for host in hosts[5:]:
            shutil.move(apart / host, fleet.data / host)
        fleet.index()
        expected = dump(fleet.catalogue)
        fleet.index()
        check_same(fleet, expected, "run again")
        all_of = fleet.json("stats")
        check_equal(all_of["selection"]["hosts"], 10, "hosts")
        shutil.rmtree(fleet.data / hosts[0])
        fleet.index()
        check_equal(fleet.json("stats")["statistics"], all_of["statistics"], "after a host has gone")


def test_leaks_of_a_folder_leaves_nothing_behind(_large):
    """Its catalogue is temporary: it goes whichever way the command ends."""
    with small_fleet("left") as fleet:
        own = fleet.folder / "tmp"
        own.mkdir()
        for end in (None, signal.SIGPIPE, signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
            reading, writing = full_pipe()  # it cannot end before it was read
            with subprocess.Popen([ALLOCSNAP, "leaks", fleet.data], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.DEVNULL if end is None else writing,
                                  stderr=subprocess.DEVNULL, env=dict(os.environ, TMPDIR=own),
                                  preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)) as process:
                os.close(writing)
                try:
                    if end == signal.SIGPIPE:
                        os.close(reading)
                    elif end:
                        wait_for(lambda: os.listdir(own) or is_writing(process), "no temporary folder")
                        process.send_signal(end)
                    check_equal(process.wait(120), -end if end else 3, f"status after {end}")
                finally:
                    process.kill()
                    if end != signal.SIGPIPE:
                        os.close(reading)
            wait_for(lambda: not os.listdir(own), f"after {end} there is {os.listdir(own)}")
