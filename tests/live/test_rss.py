# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The parts of RSS, compared with the kernel's own account and with a program that knows its own memory."""
import json
import os
import pathlib
import re
import shutil
import signal

import harness
from harness import Skip, check, check_equal, tool, wait_for

KIB, MIB = 1 << 10, 1 << 20
PARTS = ("traced", "heap_not_traced", "files", "shared", "stacks", "other")
OLDER_BYTES = 2003 * 4000


def rss_of(bench, recording):
    """The object, and the whole answer; its parts are its total."""
    shown = bench.show(recording.snapshot())
    rss = shown["rss"]
    check_equal(sum(rss[part] for part in PARTS), rss["total"], "the sum of the parts")
    check_equal(rss["total"], shown["metadata"]["rss_bytes"], "the total, and rss_bytes")
    return rss, shown


def smaps(pid):
    """{name: bytes} of RSS by the mappings' names, and the sum, by the kernel's numbers."""
    found, total, name = {}, 0, ""
    for line in pathlib.Path(f"/proc/{pid}/smaps").read_text().splitlines():
        head = re.match(r"[0-9a-f]+-[0-9a-f]+ \S+ \S+ \S+ \S+ *(.*)", line)
        if head:
            name = head[1]
        elif line.startswith("Rss:"):
            found[name] = found.get(name, 0) + int(line.split()[1]) * KIB
            total += int(line.split()[1]) * KIB
    return found, total


def stop(process):
    process.popen.send_signal(signal.SIGSTOP)
    wait_for(lambda: pathlib.Path(f"/proc/{process.pid}/stat").read_text().split()[2] == "T", "its stop")


def check_grown(before, after, part, bytes_, room=256 * KIB):
    """By so much; what else a command does is less than the room."""
    for name in PARTS:
        grown, expected = after[name] - before[name], bytes_ if name == part else 0
        check(abs(grown - expected) <= room, f"{name} grew by {grown}, expected {expected}")


@harness.core
def test_rss_parts_match_the_kernel(bench):
    """While the target is stopped, the parts agree with the kernel's numbers to the byte."""
    resident, recording = bench.recorded("resident")
    for command in ("touch", "share", "stack", "code"):
        resident.order(command)
    stop(resident)
    names, total = smaps(resident.pid)
    rss, _ = rss_of(bench, recording)
    check_equal(rss["total"], total, "RSS")
    shared = sum(size for name, size in names.items() if name.startswith(("/dev/zero", "/memfd")))
    check_equal(rss["shared"], shared, "shared")
    files = sum(size for name, size in names.items()
                if name.startswith("/") and not name.startswith("/dev/zero") or
                re.match(r"\[v", name))
    check(files <= rss["files"] <= files + 256 * KIB, f"files: {rss['files']}, with .bss {files} or more")
    pmap = bench.run([tool("pmap"), "-x", str(resident.pid)])[0].splitlines()[-1].split()
    check_equal(rss["total"], int(pmap[3]) * KIB, "RSS by pmap")
    resident.popen.send_signal(signal.SIGCONT)


def test_rss_growth_appears_in_the_right_part(bench):
    resident, recording = bench.recorded("resident")
    path = bench.path("file")
    pathlib.Path(path).write_bytes(os.urandom(2 * MIB))
    before, _ = rss_of(bench, recording)
    for command, part in (("touch", "traced"), ("share", "shared"), ("stack", "stacks"),
                          ("code", "other"), (f"file {path}", "files")):
        taken = resident.order(command)[1]
        after, _ = rss_of(bench, recording)
        check_grown(before, after, part, taken)
        before = after


def test_rss_of_the_untraced_heap_matches_glibc(bench):
    """The untraced part of the heap agrees with glibc's own account of its other bytes."""
    resident, recording = bench.recorded("resident")
    resident.write("touch\n")
    says = json.loads(resident.line())
    stop(resident)
    rss, shown = rss_of(bench, recording)
    check_equal(rss["traced"], says["done"], "traced")
    check_equal(shown["traced_memory"]["current"], says["done"], "traced, by its blocks")
    check(rss["heap_not_traced"] >= OLDER_BYTES, f"less than what is older: {rss['heap_not_traced']}")
    slack = says["arena"] - says["done"]
    check(rss["heap_not_traced"] <= slack, f"{rss['heap_not_traced']} is more than glibc's {slack}")
    check(rss["heap_not_traced"] >= says["in_use"] - says["done"] - 256 * KIB,
          f"{rss['heap_not_traced']} is less than what is in use besides: {says}")
    resident.popen.send_signal(signal.SIGCONT)


def test_rss_reports_traced_bytes_that_are_not_resident(bench):
    """More bytes are traced than resident; the snapshot contains the difference."""
    resident, recording = bench.recorded("resident")
    _, left = resident.order("leave")
    stop(resident)
    rss, shown = rss_of(bench, recording)
    check(rss["traced_not_resident"] >= left - 9 * MIB, f"untouched: {rss['traced_not_resident']}")
    check_equal(rss["traced"] + rss["traced_not_resident"], shown["traced_memory"]["current"], "traced")
    resident.popen.send_signal(signal.SIGCONT)
    text, _ = bench.allocsnap("show", recording.snapshot())
    check("traced, but not in RSS: " in text, f"{text}")


def test_rss_of_a_large_process_is_rough_and_adds_up(bench):
    """Exact numbers of a large process would take long; the rough numbers add up as well."""
    resident, recording = bench.recorded("resident")
    path = bench.path("sparse")
    if shutil.disk_usage(bench.folder).free < 2048 * MIB:
        raise Skip("there is no room for a file of 1.1 GiB")
    with open(path, "wb") as file:
        file.truncate(1100 * MIB)
    resident.order(f"file {path}")
    shown = bench.show(recording.snapshot())
    rss = shown["rss"]
    check("heap_not_traced" not in rss and "stacks" not in rss, f"a close look at 1 GiB: {rss}")
    check_equal(sum(rss[part] for part in ("traced", "anonymous_not_traced", "files", "shared")),
                rss["total"], "the sum of the parts")
    check(rss["files"] > 1024 * MIB, f"files: {rss['files']}")


def test_rss_of_the_last_snapshot_has_an_age(bench):
    """The process has ended: its last numbers stay, with their age."""
    resident, recording = bench.recorded("resident")
    resident.order("touch")
    before, _ = rss_of(bench, recording)
    resident.write("quit\n")
    check_equal(resident.wait(), 0, "exit status")
    shown = bench.show(recording.end()[-1])
    check_equal(shown["rss"]["files"], before["files"], "files")
    check(shown["rss"]["age_ns"] > 0, "its age")
