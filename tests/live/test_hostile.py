# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Files made to break their reader: the cost of each, while the recording goes on."""
import os
import pathlib
import shutil
import signal
import subprocess
import sys

import harness
from harness import (WORKLOADS, Workload, check, check_equal, children_of, cpu_seconds, is_running, private_mounts,
                     reader_of, tool, wait_for)
from hostile import HOSTILE, RETURNS, build, build_twin, returns_everywhere, unpacks_to_a_tebibyte
from test_record import World

SIZE = 777001
READER_MEMORY = 256 << 20  # far below its limit: a program is read with less than 10 MiB

LOADS = """
import ctypes, sys
libraries = []
print("ready", flush=True)
for line in sys.stdin:
    path, size = line.split()
    libraries.append(ctypes.CDLL(path))
    libraries[-1].grab(ctypes.c_size_t(int(size)))
    print("done", flush=True)
"""


def start_loader(bench, prefix=()):
    target = bench.start([*prefix, tool("python3"), "-c", LOADS])
    check_equal(target.line(), "ready", "what the target says")
    return target


def attach_heap(bench, targets):
    return bench.attach(targets, "--domain", "malloc")


def load(target, path, size):
    target.write(f"{path} {size}\n")
    check_equal(target.line(), "done", f"loading {path}")


def row_of(bench, path, size):
    """The block of that size: the functions have one name and place, and so one row together."""
    rows = bench.stats(path, "--min-size", str(size), "--max-size", str(size))["statistics"]
    check_equal([row["count"] for row in rows], [1], f"blocks of {size} bytes")
    return rows[0]


def peak_memory(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) << 10
    return 0


def cpu_of(recording):
    """CPU time of the recorder and its reader."""
    return sum(map(cpu_seconds, filter(None, (recording.pid, reader_of(recording)))))


@harness.core
def test_hostile_libraries_do_not_stop_a_recording(bench):
    """Each library is loaded while the recording runs; its block and the block after it are recorded."""
    target = start_loader(bench)
    recording = attach_heap(bench, [target])
    for i, hostile in enumerate(HOSTILE):
        path = build(bench.folder, hostile.__name__, hostile)
        before = cpu_of(recording)
        load(target, path, SIZE + i)
        frame = row_of(bench, recording.snapshot(), SIZE + i)["traceback"][0]
        check(hostile.__name__ in frame.get("object", frame["filename"]),
              f"{hostile.__name__}: the block is of {frame}")
        check(cpu_of(recording) - before < 60, f"{hostile.__name__} has taken a minute")
        check(peak_memory(reader_of(recording)) < READER_MEMORY, f"{hostile.__name__}: memory")
    load(target, build(bench.folder, "honest"), SIZE - 1)
    path = recording.snapshot()
    check_equal(row_of(bench, path, SIZE - 1)["traceback"][0]["function"], "grab",
                "a function of an honest library after them")
    for i in range(len(HOSTILE)):
        row_of(bench, path, SIZE + i)
    recording.end(signal.SIGINT)
    check(target.popen.poll() is None, "the target has ended")


def test_hostile_library_with_many_returns_gets_limited_probes(bench):
    """The number of probes in the library is bounded, and the recording goes on."""
    target = start_loader(bench)
    recording = attach_heap(bench, [target])
    load(target, build(bench.folder, "returns", returns_everywhere, RETURNS), SIZE)
    row_of(bench, recording.snapshot(), SIZE)
    load(target, build(bench.folder, "honest"), SIZE + 1)
    path = recording.snapshot()
    row_of(bench, path, SIZE + 1)
    check("functions_unprobed" in bench.show(path)["losses"], "what was not probed is counted")
    recording.end(signal.SIGINT)
    check(target.popen.poll() is None, "the target has ended")


@harness.core
def test_hostile_file_with_the_same_path_and_build_id_is_distinguished(bench):
    """A user's file in mounts of the user's own has the path and the build-id of a file of root."""
    place = f"{bench.folder}/place"
    os.mkdir(place)
    os.mkdir(f"{place}.other")
    path = build_twin(place, "honest")
    os.chown(build_twin(f"{place}.other", "twisty"), 65534, 65534)
    script = f"mount --bind {place}.other {place} && exec \"$@\""
    targets = [start_loader(bench, [*private_mounts(), "sh", "-c", script, "sh"]),
               start_loader(bench)]
    recording = attach_heap(bench, targets)
    for target in targets:
        load(target, path, SIZE)
    found = sorted(row_of(bench, snapshot, SIZE)["traceback"][0]["function"]
                   for snapshot in recording.snapshots())
    check_equal(found, ["honest", "twisty"], "functions that allocated")


def test_hostile_bomb_is_reported_once(bench):
    target = start_loader(bench)
    recording = attach_heap(bench, [target])
    path = build(bench.folder, "bomb", unpacks_to_a_tebibyte)
    for i in range(3):
        load(target, path, SIZE + i)
        snapshot = recording.snapshot()
    lines = [line for line in recording.stderr().splitlines() if "libbomb.so" in line]
    check_equal(len(lines), 1, f"lines about it ({recording.stderr()!r})")
    check("unpack" in lines[0], f"stderr is {lines[0]!r}")
    check_equal(bench.show(snapshot)["losses"].get("objects_unreadable"), 1, "unreadable objects")


@harness.core
def test_hostile_kill_of_the_reader_is_survived(bench):
    """The reader is killed repeatedly; the next reader names all later blocks."""
    target = start_loader(bench)
    recording = attach_heap(bench, [target])
    for i, how in enumerate((signal.SIGKILL, signal.SIGSEGV, signal.SIGKILL)):
        reader = reader_of(recording)
        os.kill(reader, how)
        wait_for(lambda: not os.path.exists(f"/proc/{reader}/fd/0"), "the end of the reader")
        load(target, build(bench.folder, f"honest{i}"), SIZE + i)
        check_equal(row_of(bench, recording.snapshot(), SIZE + i)["traceback"][0]["function"],
                    "grab", "a function's name after that")
    recording.end(signal.SIGINT)
    check_equal(recording.said(), [], "stderr")


def spawner_of(recording):
    """The PID of the process that starts readers."""
    return next(pid for pid, comm in children_of(recording.pid) if comm == "allocsnap-spawn")


def kill_as_nobody(pid):
    """Sends kill -9 as the user `nobody`, which many daemons run as. Returns 0 if the signal was sent."""
    script = f"import os\nos.setresgid(65534, 65534, 65534)\nos.setresuid(65534, 65534, 65534)\nos.kill({pid}, 9)"
    return subprocess.run([sys.executable, "-c", script], capture_output=True, check=False).returncode


def test_hostile_process_of_user_nobody_cannot_kill_the_reader(bench):
    """Neither the process that starts readers nor a reader can be killed."""
    target = start_loader(bench)
    recording = attach_heap(bench, [target])
    for pid in (spawner_of(recording), reader_of(recording)):
        check(kill_as_nobody(pid), f"{pid} is ended by a process of user nobody")
        check(is_running(pid), f"{pid} has ended")
    recording.end(signal.SIGINT)
    check_equal(recording.said(), [], "stderr")


@harness.core
def test_hostile_kill_of_the_spawner_ends_the_recording(bench):
    """The recording ends with the data that it has, and says why."""
    target = start_loader(bench)
    recording = attach_heap(bench, [target])
    os.kill(spawner_of(recording), signal.SIGKILL)
    check_equal(len(recording.end(status=1)), 1, "last snapshots")
    check("allocsnap-spawn" in recording.stderr(), f"stderr is {recording.stderr()!r}")
    check(target.popen.poll() is None, "the target has ended")


@harness.core
def test_hostile_kill_of_the_recording_ends_its_readers(bench):
    """The reader and the process that starts readers exit with the recording."""
    target = start_loader(bench)
    recording = attach_heap(bench, [target])
    reader = reader_of(recording)
    spawner = int(pathlib.Path(f"/proc/{reader}/stat").read_text().split()[3])
    recording.popen.kill()
    recording.popen.wait()
    for pid in (reader, spawner):
        wait_for(lambda pid=pid: not os.path.exists(f"/proc/{pid}/fd/0"), f"the end of {pid}")
    check(target.popen.poll() is None, "the target has ended")


def start_mapper(world):
    program = world.bench.path("maps_code")
    shutil.copy(os.path.join(WORKLOADS, "maps_code"), program)
    return world.bench.start([program], kind=Workload, env=world.environment).ready()


def check_next_pass(bench, recorder, mapper, size):
    """The recorder takes its next pass in spite of all events, and the snapshot has names."""
    mapper.order(f"hold {size}")
    paths = recorder.pass_now()
    check_equal(len(paths), 1, "snapshots of a pass")
    check_equal(row_of(bench, paths[0], size)["traceback"][0]["function"], "hold", "functions that allocated")


def maps_all_the_time(bench, how, number):
    world = World(bench)
    mapper = start_mapper(world)
    recorder = world.record("--comm", "maps_code")
    for i in range(3):
        _, done = mapper.order(f"{how} {number}")
        check_equal(done, number, f"mappings to {how}")
        check_next_pass(bench, recorder, mapper, SIZE + i)
    recorder.end()
    check(mapper.popen.poll() is None, "the mapper has ended")


@harness.alone
def test_hostile_mapper_that_unmaps_costs_little(bench):
    """Half a second's work of a process must not be minutes of the recorder's."""
    maps_all_the_time(bench, "drop", 100000)


@harness.alone
def test_hostile_mapper_that_keeps_costs_little(bench):
    maps_all_the_time(bench, "keep", 20000)
