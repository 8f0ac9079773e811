# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The recorder spends little on a process of another user, whatever that maps, forges or shares."""
import os
import re
import resource
import signal
import subprocess

from bench import ALLOCSNAP, LIBRARIES, PATIENCE_S, Process, injector, read_text
from harness import Law, Skip, check, check_equal, children_of, core, link_holder_of, wait_for
from harness.suite import for_each

NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
LARGE = 64 << 20


def run_counted(*argv):
    """(exit status, stderr, what it and its children have read): bytes and calls."""
    running = subprocess.Popen([ALLOCSNAP, *map(str, argv)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    said = running.stderr.read()
    os.waitid(os.P_PID, running.pid, os.WEXITED | os.WNOWAIT)
    counts = dict(re.findall(r"(\w+): (\d+)", read_text("/proc", running.pid, "io")))
    return running.wait(timeout=PATIENCE_S), said, int(counts["rchar"]), int(counts["syscr"])


def hostile(bench, program, *argv):
    process = bench.start(program, *argv, prefix=NOBODY, cwd=bench.folder)
    line = process.popen.stdout.readline()
    assert line == "ready\n", line
    return process


@core
def test_code_that_makes_no_calls(bench):
    """The call gate is looked for in the program and its dynamic linker; other files that it maps cost nothing."""
    with open(os.path.join(bench.folder, "large"), "wb") as file:
        file.truncate(LARGE)
    process = hostile(bench, "no_gate")
    status, said, read_bytes, _ = run_counted("attach", "--inject", "--dry", process.pid)
    assert status == 1 and "makes no system calls in a known way" in said, said
    check(read_bytes < LARGE, f"{read_bytes} bytes were read")
    return f"{read_bytes >> 10} KiB were read"


FILES = 3000  # a process may have 65,530; each was opened, and read by a process of its own
SEVERAL = {"files": f"its code comes from {FILES + 3} files, more than 1024",
           "samplers": "more than 64 files have the name of a sampler"}


@for_each(SEVERAL)
def test_many_files(bench, mode):
    """More than any real program has are refused before one is opened."""
    plain = hostile(bench, "hostile", mode, 0)
    _, _, plain_bytes, plain_calls = run_counted("attach", "--inject", "--dry", plain.pid)
    process = hostile(bench, "hostile", mode, FILES)
    status, said, read_bytes, calls = run_counted("attach", "--inject", "--dry", process.pid)
    assert status == 1 and SEVERAL[mode] in said, said
    lists = len(process.maps()) * 2  # a call returns many lines of a list, and no list is read twice
    check(calls < plain_calls + lists, f"{calls} reads, {plain_calls} of a plain program")
    return f"{calls} reads, {plain_calls} of a plain program"


def blocks(pid, sig):
    return int(re.search(r"SigBlk:\s*(\w+)", read_text("/proc", pid, "status"))[1], 16) >> (sig - 1) & 1


@core
def test_a_signal_ends_a_plan(bench):
    """Hundreds of files are still to be read when it comes."""
    process = hostile(bench, "hostile", "files", 1000, os.path.realpath(LIBRARIES + "libresolv.so.2"))
    recorder = Process([ALLOCSNAP, "attach", "--inject", str(process.pid), "-o", os.path.join(bench.folder, "data")])
    bench.callback(recorder.kill)
    wait_for(lambda: blocks(recorder.pid, signal.SIGTERM) or recorder.popen.poll() is not None, "its start", PATIENCE_S)
    recorder.popen.terminate()
    _, said = recorder.popen.communicate(timeout=PATIENCE_S)
    assert recorder.popen.returncode == 1 and "a signal asked allocsnap to end; nothing was changed" in said, said


LEFT_MAX = 4 << 20  # twice the room of a sampler
MAPPINGS_MAX = 100000  # so many can be made in a second or two


@core
def test_room_for_mappings(bench):
    """With eleven mappings left a page was exchanged, the next one could not be, and none could be given back."""
    most = int(read_text("/proc/sys/vm/max_map_count"))
    if most > MAPPINGS_MAX:
        raise Skip(f"vm.max_map_count is {most}")
    plain = len(read_text("/proc", hostile(bench, "hostile", "file", 0).pid, "maps").splitlines())
    for left in 11, 100:
        process = hostile(bench, "hostile", "file", most - plain - left, "/bin/true")
        before = process.maps()
        said = injector("inject", process.pid, status=None)
        if left == 11:
            assert re.match(r"refused EAGAIN it has \d+ mappings, and \d+ more would be too many", said), said
            check_equal(process.maps(), before, "its mappings", Law)
        else:
            assert "times" in said, said
            injector("eject", process.pid)
        process.kill()


UNLOCKED = ("setpriv", "--bounding-set=-ipc_lock", "--inh-caps=-ipc_lock")
LIMITS = {  # the mode of refusals, the limit, what counts as used of it, a word, what attach says
    "locked": ("locked", resource.RLIMIT_MEMLOCK, "VmLck", "-l", "what was changed was taken back"),
    "addresses": ("plain", resource.RLIMIT_AS, "VmSize", "-v", "nothing was changed"),
    "data": ("plain", resource.RLIMIT_DATA, "VmData", "-d", "nothing was changed"),
}


@core
@for_each(LIMITS)
def test_limit_on_memory(bench, name):
    """However much of it is left, all goes in or nothing does."""
    mode, limit, used, word, change = LIMITS[name]
    process = bench.refusing(mode, prefix=UNLOCKED)
    hard, before = resource.prlimit(process.pid, limit)[1], process.looks()
    used_bytes = int(re.search(rf"{used}:\s*(\d+)", read_text("/proc", process.pid, "status"))[1]) << 10
    resource.prlimit(process.pid, limit, (used_bytes, hard))
    _, said, *_ = run_counted("attach", "--inject", process.pid, "-o", os.path.join(bench.folder, "data"))
    assert f"ulimit {word}); {change}" in said, said
    for left in range(0, LEFT_MAX, LEFT_MAX // 32):
        resource.prlimit(process.pid, limit, (used_bytes + left, hard))
        said = injector("inject", process.pid, status=None)
        if not said.startswith("refused"):
            break
        assert re.match(rf"refused EAGAIN .*\(.*ulimit {word}\)", said), said
        check_equal(process.looks(), before, f"the process with {left} bytes left", Law)
    assert left and "times" in said, said
    if name != "addresses":  # the way back needs only a page of these
        resource.prlimit(process.pid, limit, (0, hard))
    injector("eject", process.pid)
    check_equal(process.looks(), before, "the process afterwards", Law)
    process.end()
    return f"refused with less than {left >> 10} KiB"


def attach(bench, process):
    """attach --inject, from its first snapshot on."""
    recorder, _ = bench.start_attach(process.pid, "--inject")
    assert process.maps("memfd:allocsnap-sampler"), "no sampler in the process"
    return recorder


def end(recorder):
    """(exit status, stderr)"""
    recorder.popen.terminate()
    _, said = recorder.popen.communicate(timeout=PATIENCE_S)
    return recorder.popen.returncode, said


@core
def test_a_process_that_cannot_be_stopped_at_the_end(bench):
    """The recording says what stays, and ends; tests/unit/collect/kept_samplers.c has the limit of its time."""
    process = hostile(bench, "hostile", "vfork")
    recorder = attach(bench, process)
    process.popen.stdin.write("\n")
    wait_for(lambda: children_of(process.pid), "a child of vfork()", PATIENCE_S)
    status, said = end(recorder)
    for child, _ in children_of(process.pid):
        os.kill(child, signal.SIGKILL)
    assert f"the sampler stays in process {process.pid}" in said and "uses the same memory" in said, said
    assert "forked" not in said, said
    check_equal(status, 1, "exit status")


@core
def test_a_thread_that_does_not_stop(bench):
    """All threads stand still until it is given up. So there is one try, as another one would come too soon."""
    process = hostile(bench, "hostile", "kernel")
    injector("inject", process.pid, 4096)
    before = process.maps()
    process.popen.stdin.write("\n")
    wait_for(lambda: children_of(process.pid), "a child that its parent waits for in the kernel", PATIENCE_S)
    said = injector("eject", process.pid, status=1, TIMES="1")
    changed = set(process.maps()) ^ set(before)
    for child, _ in children_of(process.pid):
        os.kill(child, signal.SIGKILL)
    assert re.fullmatch(r"times .*, 1 tries\nrefused EAGAIN thread \d+ does not stop: .*\n", said), said
    check_equal(changed, set(), "mappings that have changed", Law)
    injector("eject", process.pid)
    check(not process.maps("memfd:allocsnap-sampler"), "the sampler is still mapped", Law)


@core
def test_children_that_are_none(bench):
    """They run the program of the recorded one, and say that the link holder is to eject their samplers."""
    process = hostile(bench, "hostile", "file", 0)
    recorder = attach(bench, process)
    link_holder = link_holder_of(recorder.pid)
    start = read_text("/proc", link_holder, "stat").rpartition(")")[2].split()[19]
    liars = [hostile(bench, "hostile", "child", link_holder, start) for _ in range(20)]
    assert f"owner {link_holder} running 1" in injector("find", liars[0].pid), injector("find", liars[0].pid)
    status, said = end(recorder)
    assert f"the sampler was taken out of process {process.pid}" in said, said
    assert "forked" not in said, said
    for liar in liars:
        assert liar.maps("memfd:allocsnap-sampler"), "its own file is not its own"
    return f"status {status}"
