# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""allocsnap record as a service: its messages to the manager and to Prometheus, and the limits of its files."""
import os
import pathlib
import re
import shutil
import signal
import socket
import time

import exposition
import unit_file
import harness
from harness import ALLOCSNAP, Law, changed_places, check, check_equal, check_unchanged, wait_for
from privileged import RECORDING, SOMEBODY, allocsnap_with, folder_of, status
from test_archive import Disk
from test_record import Record, World, check_held, name_of

MARKS = ("alone",)


KILLS = 8
SOURCES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "workloads")


class Manager:
    """A service manager: it listens on the socket that NOTIFY_SOCKET names."""

    def __init__(self, bench, watchdog_seconds):
        self.path = bench.path("notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        self.socket.settimeout(0.05)
        os.chmod(self.path, 0o777)
        self.environment = dict(os.environ, NOTIFY_SOCKET=self.path,
                                WATCHDOG_USEC=str(int(watchdog_seconds * 1e6)))
        self.told = []

    def hear(self):
        """All lines so far."""
        try:
            while True:
                self.told += self.socket.recv(65536).decode().splitlines()
        except TimeoutError:
            return self.told


def numbers(path):
    """{name: value} of samples without labels."""
    families = exposition.parse(pathlib.Path(path).read_bytes())
    return {name: float(samples[()]) for name, (_, samples) in families.items() if () in samples}


@harness.core
def test_record_works_as_the_service(bench):
    """The recorder runs with the unit's user, capabilities, limits, mounts and system call filter."""
    world = World(bench)
    manager = Manager(bench, 2)
    unit = unit_file.write(bench, "/usr/bin")
    folder = folder_of(bench, "state", SOMEBODY)
    prometheus = os.path.join(folder, "allocsnap.prom")
    command = [*unit_file.in_namespaces(folder, unit),
               *allocsnap_with(bench, RECORDING, by=unit_file.under_filter(bench, unit))]
    before = world.holds("warm-up")
    recorder = bench.start([*command, "record", "-o", folder, "--comm", "warm-up", "--comm", "later",
                            "--interval", "1s", "--metrics", prometheus, "--max-disk", "1M"],
                           kind=Record, folder=folder, env=manager.environment,
                           preexec_fn=lambda: unit_file.set_limits(unit))
    recorder.line_of("recording", 60)
    check_equal(status(recorder.pid)["Uid"], SOMEBODY, "user")
    later = world.holds("later")
    wait_for(lambda: recorder.names()[name_of(later)] >= 3, "three snapshots of a newcomer", 60)
    check_held(bench, recorder, later)
    wait_for(lambda: manager.hear().count("WATCHDOG=1") >= 2, "the manager gets the watchdog signals")
    check_equal(manager.told.count("READY=1"), 1, "times that it was ready")
    check(any(line.startswith("STATUS=") and "snapshots" in line for line in manager.told),
          f"status: {manager.told}")
    found = numbers(prometheus)
    check(found["allocsnap_snapshots_written_total"] >= 3, f"written: {found}")
    check_equal(found["allocsnap_snapshots_failed_total"], 0, "failed")
    check_equal(found["allocsnap_processes"], 2, "processes")
    check_equal(found["allocsnap_disk_limit_bytes"], 1 << 20, "the bound")
    families = exposition.parse(pathlib.Path(prometheus).read_bytes())
    rows = {dict(labels)["pid"]: float(value)
            for labels, value in families["allocsnap_process_traced_bytes"][1].items()}
    check(rows[str(later.pid)] >= 100003, f"traced bytes: {rows}")
    before.kill()
    recorder.end()
    check("STOPPING=1" in manager.hear(), f"told: {manager.told}")


def losses(path):
    """{name: value}"""
    _, samples = exposition.parse(pathlib.Path(path).read_bytes()).get("allocsnap_losses_total", (None, {}))
    return {dict(labels)["loss"]: float(value) for labels, value in samples.items()}


def static_programs(world, name, count, *flags):
    """Copies of a static program: each has an allocator of its own that has to be probed."""
    first = world.bench.path(f"{name}0")
    world.bench.run(["gcc", "-O1", "-static", *flags, f"{SOURCES}/holds.c", "-o", first])
    paths = [first, *[world.bench.path(f"{name}{i}") for i in range(1, count)]]
    for path in paths[1:]:
        shutil.copy(first, path)
    return paths


def test_record_counts_processes_that_exit_before_they_are_probed(bench):
    """Processes that end before their probes come are not counted as small. Those with a build-id get a snapshot,
    the others are counted as not probed."""
    world = World(bench)
    prometheus = bench.path("allocsnap.prom")
    told = static_programs(world, "told", 3)
    untold = static_programs(world, "untold", 8, "-Wl,--build-id=none")
    recorder = world.record_warm("--comm", "told*", "--comm", "untold*", "--exe", f"{bench.folder}/*",
                                 "--metrics", prometheus)
    recorder.popen.send_signal(signal.SIGSTOP)
    for program in told + untold:
        bench.run([program, "5500000", "-"])
    recorder.popen.send_signal(signal.SIGCONT)
    line = recorder.pass_line()
    check("; 1 process; " in line and "little" not in line and "lack of room" not in line, f"the balance: {line}")
    unprobed = int(re.search(r"; (\d+) ended before they were probed$", line)[1])
    check(0 < unprobed <= len(untold), f"the balance: {line}")
    paths = [path for path in recorder.paths() if "told" in path.split("/")[-2]]
    check_equal(len(paths) + unprobed, len(told + untold), "snapshots, and those that have none")
    late = [bench.show(path)["losses"]["functions_late"] for path in paths]
    check(min(late) > 0, f"functions_late: {late}")
    recorder.end()
    found = numbers(prometheus)
    check_equal(found["allocsnap_processes_total"], 1 + len(told + untold), "processes")
    check_equal(found["allocsnap_processes_small_total"], 0, "with little")
    check_equal(found["allocsnap_processes_unprobed_total"], unprobed, "unprobed")
    check(losses(prometheus)["functions_late"] >= sum(late), f"{losses(prometheus)}, late: {late}")


def test_record_reads_a_file_again_that_was_opened_too_late(bench):
    """A file without a build-id is looked at too late for its first process; the next process is recorded."""
    world = World(bench)
    programs = static_programs(world, "late", 6, "-Wl,--build-id=none")
    recorder = world.record_warm("--comm", "late*", "--exe", f"{bench.folder}/*")
    for program in programs:
        bench.run([program, "5500000", "-"])
    recorder.pass_now()
    for program in programs:
        for _ in range(2):  # the probes are placed while the first one runs
            running = bench.start([program, "4096"])
            check(running.line() is not None, "it holds its memory")
            paths = [path for path in recorder.pass_now() if f".{running.pid}/" in path]
            running.kill()
        check_equal(len(paths), 1, f"snapshots of {program}")
        check_equal(bench.show(paths[0])["losses"]["objects_unreadable"], 0, "unreadable objects")
    recorder.end()


def test_record_metrics_include_all_processes(bench):
    """The metrics include short-lived processes that the loader has never seen."""
    world = World(bench)
    prometheus = bench.path("allocsnap.prom")
    program = world.program("child")
    recorder = world.record_warm("--comm", "child", "--exe", f"{bench.folder}/*",
                                 "--metrics", prometheus)
    shell = world.shell(f"i=0; while [ $i -lt 300 ]; do {program} 1000 -; i=$((i + 1)); done; times; read go")
    shell.line(60)  # of the shell itself
    of_children = sum(int(minutes) * 60 + float(seconds) for minutes, seconds in re.findall(r"(\d+)m([\d.]+)s", shell.line()))
    recorder.end()
    found = numbers(prometheus)
    check_equal(found["allocsnap_processes_total"], 301, "processes")
    check_equal(found["allocsnap_processes_small_total"], 300, "of these with little")
    check(found["allocsnap_allocations_total"] >= 300, f"allocations: {found}")
    # of a process that has ended, what the kernel had added up by then
    check(found["allocsnap_recorded_cpu_seconds_total"] > of_children / 20, f"CPU time, of {of_children} s: {found}")


def record_on(disk):
    recorder = disk.bench.start([ALLOCSNAP, "record", "-o", disk.path("out"), "--interval", "200ms",
                                 "--comm", "warm-up", "--comm", "ended", "--exe", f"{disk.bench.folder}/*"],
                                kind=Record, folder=disk.path("out"))
    recorder.line_of("recording")
    return recorder


def record_on_full(bench):
    """The processes, the disk, and a recording on it that had room for a snapshot or more."""
    world = World(bench)
    world.warm()
    disk = Disk(bench, "1m")
    recorder = record_on(disk)
    wait_for(lambda: disk.files(), "a snapshot")
    disk.do(f"head -c 2m /dev/zero >{disk.folder}/ballast 2>/dev/null")
    return world, disk, recorder


@harness.core
def test_record_survives_a_full_disk_without_an_error_for_running_processes(bench):
    """A running process gets its snapshot later. The recorder logs when the disk is full and when it is not any
    more; it exits without an error."""
    _, disk, recorder = record_on_full(bench)
    wait_for(lambda: "No space left on device" in recorder.stderr(), "the line about it")
    disk.do(f"rm {disk.folder}/ballast")
    wait_for(lambda: "snapshots are written again" in recorder.stderr(), "the line about its end")
    check("last snapshots" not in recorder.stderr(), f"stderr: {recorder.stderr()!r}")
    recorder.end()


def test_record_reports_last_snapshots_lost_to_a_full_disk(bench):
    """An ended process has no later snapshot: its loss is logged by name and sets the exit status, even if the
    disk has room again."""
    world, disk, recorder = record_on_full(bench)
    ended = world.holds("ended")
    ended.kill()
    named = f"last snapshots that could not be written: ended ({ended.pid})"
    wait_for(lambda: named in recorder.stderr(), "the process's name")
    disk.do(f"rm {disk.folder}/ballast")
    wait_for(lambda: "snapshots are written again" in recorder.stderr(), "the line about its end")
    recorder.popen.send_signal(signal.SIGINT)
    check_equal(recorder.wait(60), 1, "exit status")


def test_record_fails_when_the_disk_is_full_at_the_end(bench):
    _, _, recorder = record_on_full(bench)
    wait_for(lambda: "No space left on device" in recorder.stderr(), "the line about it")
    recorder.popen.send_signal(signal.SIGINT)
    check_equal(recorder.wait(60), 1, "exit status")


def disk_bytes(folder):
    return sum(os.lstat(path).st_blocks * 512 for path in [folder, *pathlib.Path(folder).rglob("*")])


def test_record_stays_within_its_disk_limit(bench):
    """Old snapshots are thinned out, the newest stay; files that are not ours are left alone."""
    world = World(bench)
    folder = bench.path("bounded")
    most = 400 << 10
    os.makedirs(f"{folder}/somebody/else.1")
    foreign = pathlib.Path(folder, "somebody/else.1/notes.txt")
    foreign.write_text("not a snapshot")
    program = world.holds("warm-up")
    recorder = bench.start([ALLOCSNAP, "record", "-o", folder, "--comm", "warm-up", "--interval", "20ms",
                            "--max-disk", str(most)], kind=Record, folder=folder)
    recorder.line_of("recording")
    first, more = None, 100
    while more:
        recorder.line_of("snapshot")
        more -= "removed" in recorder.stderr()
        paths = [path for path in pathlib.Path(folder).rglob("*.snap")]
        first = first or (min(paths) if paths else None)
    recorder.end()
    check(disk_bytes(folder) <= most + 16384, f"{disk_bytes(folder)} bytes, wanted {most}")
    kept = sorted(pathlib.Path(folder).rglob("*.snap"))
    check(first in kept and len(kept) > 10, f"{len(kept)} kept, the first: {first in kept}")
    check_equal(foreign.read_text(), "not a snapshot", "what is not ours")
    for path in kept:
        bench.show(str(path))
    program.kill()


def test_record_killed_while_writing_leaves_only_complete_files(bench):
    """The recorder is killed repeatedly: no probe stays, all files are complete, and the next recorder works."""
    world = World(bench)
    folder = bench.path("killed")
    programs = [world.holds("warm-up"), *[world.holds("written") for _ in range(20)]]
    before = changed_places(programs[0].pid)
    for i in range(KILLS):
        recorder = bench.start([ALLOCSNAP, "record", "-o", folder, "--comm", "warm-up", "--comm", "written",
                                "--interval", "20ms"], kind=Record, folder=folder)
        recorder.line_of("recording")
        recorder.line_of("snapshot", 30)
        time.sleep(0.003 * i)
        os.kill(recorder.pid, signal.SIGKILL)
        recorder.wait(60)
        for program in programs:
            check_unchanged(program.pid, f"killed {i} times", before)
    recorder = bench.start([ALLOCSNAP, "record", "-o", folder, "--comm", "written", "--comm", "warm-up"],
                           kind=Record, folder=folder)
    recorder.line_of("recording")
    recorder.end()
    found = [path for path in pathlib.Path(folder).rglob("*") if path.is_file()]
    check(len(found) >= KILLS * len(programs), f"only {len(found)} files")
    check_equal([str(path) for path in found if path.suffix != ".snap"], [], "left under other names", Law)
    for path in found[-200:] + found[:200]:
        bench.check_readable(path)
    for program in programs:
        program.kill()


def test_record_takes_a_snapshot_on_growth(bench):
    """A growing process gets a snapshot by the trigger, before the interval has passed for the first time."""
    world = World(bench)
    world.warm()
    recorder = world.record("--comm", "warm-up", "--comm", "grown", "--on-growth", "90K")
    grown = world.holds("grown")
    wait_for(lambda: recorder.names()[name_of(grown)] >= 1, "a snapshot of the growing process")
    (path,) = [path for path in recorder.paths() if f"/{name_of(grown)}/" in path]
    check_equal(bench.show(path)["metadata"]["trigger"], "growth", "why it was taken")
    check_held(bench, recorder, grown)
    recorder.end()
