# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""How a Java virtual machine is asked: what lies in its way, what ends amid it, and that it is left as it was."""
import os
import pathlib
import re
import signal
import socket

import harness
from harness import ALLOCSNAP, Law, Skip, check, check_equal, wait_for
from test_java import (JVMS, LEAK_LINE, NOBODY, ask, attach, check_quiet, check_unharmed, compiled, has_agent, java,
                       rows_of, start)

TMP = pathlib.Path("/tmp")


def agents_in_tmp():
    harness.must_be_alone()
    return sorted(path.name for path in TMP.glob(".allocsnap-java-*"))


def mapped_agent(process):
    return re.search(r"/(\.allocsnap-java-[0-9a-f-]+\.so)", pathlib.Path(f"/proc/{process.pid}/maps").read_text(encoding="utf-8"))[1]


def make_link(path):
    path.symlink_to("/etc/passwd")


HINDRANCES = {"file": pathlib.Path.touch, "link": make_link, "fifo": os.mkfifo, "folder": pathlib.Path.mkdir}


@harness.alone
@harness.rows({kind: (make,) for kind, make in HINDRANCES.items()}, of_core=())
def test_what_lies_at_the_agents_name_is_in_nobodys_way(bench, make):
    """The name that the virtual machine knows it by, which anybody may read."""
    process = start(bench)
    attach(bench, process).end(signal.SIGTERM)
    path = TMP / mapped_agent(process)
    make(path)
    try:
        recording = attach(bench, process, "--java-gc", "--sample", "16K")
        ask(process, "keep 1000", "kept 1000")
        check_equal(next(iter(rows_of(bench.stats(recording.snapshot())))), ("Leak.java", LEAK_LINE), "the first row")
        recording.end(signal.SIGTERM)
        check(agents_in_tmp() in ([], [path.name]), f"left in /tmp: {agents_in_tmp()}")
    finally:
        if path.is_dir():
            path.rmdir()
        else:
            path.unlink(missing_ok=True)
    check_quiet(process)
    check_equal(pathlib.Path("/etc/passwd").stat().st_uid, 0, "the owner of a file that a link named")


def test_a_file_that_asks_to_listen_may_have_been_left(bench):
    """It goes once the virtual machine listens. What is not of its user stays, and is said."""
    process = start(bench)
    path = TMP / f".attach_pid{process.pid}"
    path.symlink_to("/etc/passwd")
    said = bench.run([ALLOCSNAP, "attach", str(process.pid), "--domain", "java", "-o", bench.path("out"), "-d", "1"], status=1)[1]
    check(f"{path} cannot be made" in said and path.is_symlink(), f"another reason: {said}")
    path.unlink()
    path.touch()  # of its user
    attach(bench, process).end(signal.SIGTERM)
    check_quiet(process)


class Occupied:
    """A tool has connected, and says nothing: meanwhile the virtual machine answers no other tool."""

    def __init__(self, pid):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(str(TMP / f".java_pid{pid}"))

    def end(self):
        self.socket.close()


def java_child(process):
    return next((pid for pid, name in harness.children_of(process.pid) if name == "java"), None)


def child_listens(process):
    child = java_child(process)
    return child and (TMP / f".java_pid{child}").exists()


def helper_of(recorder):
    """Its helper that talks to virtual machines."""
    return next((pid for pid, name in harness.children_of(recorder.pid) if name == "allocsnap-java"), None)


def is_loading():
    return len(agents_in_tmp()) == 1


@harness.alone
def test_a_signal_ends_a_recorder_that_waits(bench):
    """The helper goes on, and takes back what it has begun."""
    process = start(bench, "-XX:+StartAttachListener")
    occupied = Occupied(process.pid)
    recorder = bench.attach([process], "--domain", "java", wait=False)
    wait_for(is_loading, "the agent's file")
    recorder.popen.send_signal(signal.SIGINT)
    check_equal(recorder.wait(5), 1, "the recorder's status")
    check("a signal asked allocsnap to end" in recorder.stderr(), f"another reason: {recorder.stderr()}")
    occupied.end()
    wait_for(lambda: not agents_in_tmp() and has_agent(process) == (False, False), "nothing is left", 90)
    check_quiet(process)


@harness.alone
def test_a_recorder_and_its_helper_that_are_killed_are_in_nobodys_way(bench):
    """The next recording removes the file that they leave."""
    process = start(bench, "-XX:+StartAttachListener")
    occupied = Occupied(process.pid)
    recorder = bench.attach([process], "--domain", "java", wait=False)
    wait_for(is_loading, "the agent's file")
    for pid in (helper_of(recorder), recorder.pid):
        os.kill(pid, signal.SIGKILL)
    recorder.wait()
    occupied.end()
    left = agents_in_tmp()
    check_equal(len(left), 1, "files of an agent")

    def is_free():
        said = bench.start([ALLOCSNAP, "attach", str(process.pid), "--domain", "java", "-o", bench.path("out"), "-d", "1"])
        return not said.wait()
    wait_for(is_free, "another recording", 90)
    check_quiet(process)


@harness.alone
def test_a_recording_goes_on_while_a_virtual_machine_does_not_answer(bench):
    """Its snapshots come, and the agent is loaded later."""
    for _ in range(5):
        process = bench.start([ALLOCSNAP, "run", "--domain", "java,malloc", "-o", bench.path("out"), "-i", "1h", "--", "sh", "-c",
                               f"exec {java()} -XX:+StartAttachListener -Xmx64m -cp {compiled(bench)} Leak"])
        wait_for(lambda: child_listens(process), "it listens")
        occupied = Occupied(java_child(process))
        check_equal(process.line(), "ready", "the first line")
        wait_for(lambda: is_loading() or "takes samples" in process.stderr(), "the agent's file")
        os.kill(process.pid, signal.SIGUSR1)
        check(process.line(10).endswith(".snap"), "no snapshot")
        was_occupied = "takes samples" not in process.stderr()
        occupied.end()
        wait_for(lambda: "takes samples" in process.stderr(), "the agent")
        os.kill(java_child(process), signal.SIGTERM)
        process.wait()
        if was_occupied:
            return
    raise Skip("the recorder was faster five times")


@harness.alone
def test_no_signal_reaches_the_next_program(bench):
    """Another program begins in the process while it is asked to listen: SIGQUIT would end it. The virtual machine itself may end."""
    library = next(iter((JVMS[0] if JVMS else pathlib.Path("/nowhere")).glob("lib/server/libjvm.so")), None)
    if not library:
        raise Skip("no Java is installed")
    for microseconds in (*range(0, 3000, 100), *range(3000, 12000, 500)):
        process = bench.start([os.path.join(harness.WORKLOADS, "jvm_exec"), str(library), str(microseconds)])
        check_equal(process.line(), "ready", "the first line")
        bench.start([ALLOCSNAP, "census", "--java", "all", str(process.pid)]).wait()
        said = [process.line()]
        while said[-1] not in ("begun", None):
            said.append(process.line())
        if said[-1] is None:
            status = process.wait()
            if status == 1 and "Failed to start thread" in said[0]:
                continue  # the kernel lets no thread begin amid an exec, and without its listener's the virtual machine ends itself
            raise Law(f"it says {said}, {process.stderr()!r}, and ended with {status}, {microseconds} us after the file was there")
        process.write("alive\n")
        check_equal(process.line(), "alive", f"its answer, {microseconds} us after the file was there")
        process.kill()
    check_equal(list(TMP.glob(".attach_pid*")), [], "files in /tmp")


# No clock may begin before this machine's.
OLDER = min(3600, int(pathlib.Path("/proc/uptime").read_text(encoding="ascii").split(".")[0]) // 2)
NAMESPACES = {
    "of users": ((*NOBODY, "unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"),
                 "mount --bind {} /mnt && mount -t tmpfs -o mode=1777 tmpfs /tmp"),
    "of an older clock": (("unshare", "--mount", "--time", "--monotonic", str(-OLDER), "--fork", "--kill-child"), "mount --bind {} /mnt"),
    "of a newer clock": (("unshare", "--mount", "--time", "--monotonic", "100000", "--fork", "--kill-child"), "mount --bind {} /mnt"),
}


@harness.rows(NAMESPACES, of_core=NAMESPACES)
def test_leak_line_in_a_namespace(bench, before, mounts):
    """Root is nobody there; the clock shows another time: births are what they are."""
    command = f"{mounts.format(compiled(bench))} && exec {java()} -Xmx64m -XX:+UseSerialGC -cp /mnt Leak"
    outer = bench.start([*before, "sh", "-c", command])
    check_equal(outer.line(), "ready", outer.stderr())
    inner = harness.children_of(outer.pid)[0][0]
    recording = bench.attach([inner], "--domain", "java", "--java-gc", "--sample", "16K")
    ask(outer, "keep 1000", "kept 1000")
    path = recording.snapshot()
    check_equal(next(iter(rows_of(bench.stats(path)))), ("Leak.java", LEAK_LINE), "the first row")
    check_equal(bench.stats(path, "--min-age", f"{OLDER * 2 // 3}s")["statistics"], [], "rows that are older than the program")
    recording.end(signal.SIGTERM)
    ask(outer, "alive", "alive")
    wait_for(lambda: not [name for name in os.listdir(f"/proc/{inner}/root/tmp") if "attach" in name or "allocsnap-java" in name],
             "no file of ours in its /tmp, which other tests may share")
