# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Disks that are full or read-only for a time, and recordings killed while they write."""
import os
import pathlib
import random
import signal
import time

import harness
from harness import (ALLOCSNAP, Law, Recording, check, check_equal, link_holder_of, is_running,
                     pending_signals, private_mounts, wait_for)

KILLS = 4 if harness.runs_core() else 12  # tests/unit/archive/archive_bounds.c has a hundred
TOGETHER = 2  # recordings that are killed at once


class Disk:
    """A tmpfs in mounts of its own; allocsnap runs there, and we look in through /proc."""

    def __init__(self, bench, size):
        self.bench = bench
        self.folder = bench.path("disk")
        os.mkdir(self.folder)
        script = (f"mount -t tmpfs -o size={size} none {self.folder} || exit 99; echo ready; "
                  "while read -r order; do eval \"$order\"; echo done; done")
        self.shell = bench.start([*private_mounts(), "sh", "-c", script])
        check_equal(self.shell.line(), "ready", "the mount")

    def do(self, order):
        self.shell.write(order + "\n")
        check_equal(self.shell.line(), "done", order)

    def path(self, name=""):
        return f"/proc/{self.shell.pid}/root{self.folder}/{name}"

    def files(self):
        return sorted(path for path in pathlib.Path(self.path()).rglob("*") if path.is_file())

    def attach(self, target, *options):
        return self.bench.start([ALLOCSNAP, "attach", str(target.pid), "-o", self.path("out"),
                                 "--interval", "100ms", *options],
                                kind=Recording, folder=self.path("out"), target_nr=1)


def lines_of(recording):
    """allocsnap's lines on stderr, without those about return probes."""
    return [line for line in recording.said() if "return probes" not in line]


def interrupted(bench, begin, end, word):
    """While `begin` holds, recording goes on and logs it once; it logs once more when `end` has undone it."""
    known = bench.workload("known")
    known.order("go")
    disk = Disk(bench, "1m")
    recording = disk.attach(known)
    first = recording.path()
    disk.do(begin)
    wait_for(lambda: len(lines_of(recording)) == 1, "the line about it")
    check(word in lines_of(recording)[0], f"not '{word}': {lines_of(recording)}")
    files = disk.files()
    for _ in range(5):  # when the last one is taken, the others are done
        recording.popen.send_signal(signal.SIGUSR1)
        wait_for(lambda: not pending_signals(recording.pid) & 1 << (signal.SIGUSR1 - 1), "it takes SIGUSR1")
    check_equal(disk.files(), files, "files meanwhile")
    check_equal(len(lines_of(recording)), 1, "lines while nothing can be written")
    disk.do(end)
    wait_for(lambda: len(lines_of(recording)) == 2, "the line about its end")
    over = lines_of(recording)[1].split()
    check_equal(" ".join(over[:5] + over[6:]), "allocsnap: snapshots are written again: could not be",
                "the line")
    paths = recording.end(signal.SIGINT, status=1)
    shown = bench.show(paths[-1])
    check_equal(shown["losses"]["snapshots_lost"], int(over[5]), "snapshots_lost")
    check(int(over[5]) > 1, f"only {over[5]} was lost")
    check_equal(bench.show(first)["losses"]["snapshots_lost"], 0, "snapshots_lost before")
    check_equal([path.name for path in disk.files() if path.suffix != ".snap"
                 and path.name != "ballast"], [], "what else lies there")
    known.is_unharmed()


@harness.core
def test_recording_survives_a_full_disk(bench):
    disk = bench.path("disk")
    interrupted(bench, f"head -c 2m /dev/zero >{disk}/ballast 2>/dev/null", f"rm {disk}/ballast",
                "No space left on device")


def test_recording_survives_a_read_only_disk(bench):
    disk = bench.path("disk")
    interrupted(bench, f"until mount -o remount,ro {disk} 2>/dev/null; do :; done",
                f"mount -o remount,rw {disk}",
                "Read-only file system")


def test_recording_survives_the_file_size_limit(bench):
    """RLIMIT_FSIZE is an error like others, and no signal that ends the recording."""
    known = bench.workload("known")
    known.order("go")
    argv = ["sh", "-c", 'ulimit -f 1; exec "$@"', "sh", ALLOCSNAP, "attach", str(known.pid), "-o",
            bench.path("out"), "--interval", "100ms", "--count", "5"]
    _, err = bench.run(argv, status=1)
    check("File too large" in err, f"stderr is {err!r}")
    check("5 snapshots could not be written" in err, f"stderr is {err!r}")
    known.is_unharmed()


def write_until_killed(bench, targets, folder):
    """Several recordings, each a snapshot every 10 ms; they are killed when all write."""
    recordings = [bench.start([ALLOCSNAP, "attach", str(target.pid), "-o", folder,
                               "--interval", "10ms"], kind=Recording, folder=folder, target_nr=1)
                  for target in targets]
    link_holders = []
    for recording in recordings:
        check(recording.path(), "no snapshot")
        link_holders.append(link_holder_of(recording.pid))
    time.sleep(random.uniform(0, 0.3))
    for recording in recordings:
        recording.popen.kill()
    for recording, link_holder in zip(recordings, link_holders):
        recording.wait()
        wait_for(lambda link_holder=link_holder: not is_running(link_holder), "the end of its link holder")


@harness.core
def test_attach_killed_while_writing_leaves_only_complete_files(bench):
    """Each file with a final name can be read after each of many kills, and there are no other files."""
    folder = bench.path("out")
    targets = [bench.workload("blocks") for _ in range(TOGETHER)]
    for target in targets:
        target.order("make 0 5000 64")
    for _ in range(KILLS // TOGETHER):
        write_until_killed(bench, targets, folder)
    found = [path for path in pathlib.Path(folder).rglob("*") if path.is_file()]
    check(len(found) >= KILLS, f"only {len(found)} files")
    for path in found:
        if path.suffix != ".snap":
            raise Law(f"left: {path}")
        bench.check_readable(path)
    for target in targets:
        target.is_unharmed()
