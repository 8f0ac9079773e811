# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""allocsnap record: programs whose allocator no process has mapped before, and which processes pay for that."""
import os
import re
import shutil

import harness
from harness import Workload, changed_places, check, check_equal, check_unchanged, tool
from test_record import World, name_of

MARKS = ("alone",)

SOURCES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../workloads")
BLOCKS, BYTES = 303, 4001


def build(bench, name, *flags):
    """A program that allocates at once, and then sleeps."""
    path = bench.path(name)
    bench.run([tool("gcc"), "-g", "-O1", os.path.join(SOURCES, "at_once.c"), "-o", path, *flags])
    return path


def with_loader_of(world):
    """Linked to the world's C library by the world's loader, so the environment does not name them."""
    loader = os.path.join(world.libraries, "ld-linux-x86-64.so.2")
    shutil.copy("/lib64/ld-linux-x86-64.so.2", loader)
    return [f"-Wl,--dynamic-linker={loader}", f"-Wl,-rpath,{world.libraries}"]


def begin(bench, program):
    return bench.start([program, str(BLOCKS), str(BYTES)], kind=Workload).ready()


def check_whole(bench, recorder, processes):
    """All blocks of each process, from the first on, though its file was new. Static C libraries allocate, too."""
    paths = recorder.pass_now()
    check_equal({path.split("/")[-2] for path in paths}, {name_of(process) for process in processes},
                "recorded")
    for path in paths:
        shown = bench.show(path)
        # The program's unwind table may be loaded in between: the blocks have two tracebacks then.
        check_equal(sum(count for count, size in rows(bench, path) if size == BYTES), BLOCKS, "its blocks")
        check_equal(shown["losses"].get("functions_late", 0), 0, "functions_late")
    return paths


def rows(bench, path):
    for row in bench.stats(path, "--group-by", "traceback")["statistics"]:
        yield row["count"], row["size"] // row["count"]


def probed_from_the_start(recorder):
    return set(re.findall(r"(/\S+) is probed from the start", recorder.stderr()))


@harness.core
def test_record_is_complete_for_a_new_process_selected_by_comm(bench):
    """The first process of its name, with the machine's C library: the recorder warns that others pay, too."""
    recorder = World(bench).record("--comm", "first-of-all")
    process = begin(bench, build(bench, "first-of-all"))
    check_whole(bench, recorder, [process])
    check_equal(probed_from_the_start(recorder), {os.path.realpath("/lib/x86_64-linux-gnu/libc.so.6")}, "files")
    recorder.end()


def test_record_is_complete_for_a_new_process_selected_by_path(bench):
    """The loader that the program names leads to its C library; no other process hits a probe."""
    world = World(bench)
    program = build(bench, "linked", *with_loader_of(world))
    recorder = world.record("--exe", program)
    check_whole(bench, recorder, [begin(bench, program) for _ in range(2)])
    check_equal(probed_from_the_start(recorder), {os.path.join(world.libraries, "libc.so.6")}, "files")
    check_equal(recorder.bystander_traps(), 0, "traps of bystanders")


def test_record_is_complete_for_a_new_static_process(bench):
    """A static program contains its allocator."""
    world = World(bench)
    program = build(bench, "static", "-static")
    recorder = world.record("--exe", program)
    check_whole(bench, recorder, [begin(bench, program)])
    check_equal(probed_from_the_start(recorder), {program}, "files")


def test_record_counts_late_probes_of_a_program_that_did_not_exist(bench):
    """The recorder logs that the program is missing; blocks from before its probes are counted."""
    world = World(bench)
    recorder = world.record("--exe", bench.path("static"))
    check("static cannot be read" in recorder.stderr(), f"stderr: {recorder.stderr()!r}")
    process = begin(bench, build(bench, "static", "-static"))
    path, = recorder.pass_now()
    check_equal(path.split("/")[-2], name_of(process), "recorded")
    check(bench.show(path)["losses"].get("functions_late", 0) > 0, "nothing was late")


@harness.core
def test_record_of_a_new_process_does_not_probe_its_launcher(bench):
    """Mappings that the process made before it became the recorded program are not counted."""
    world = World(bench)
    program = build(bench, "launched", "-static")
    launcher, bystander = world.program("launcher"), world.holds("bystander")
    before = changed_places(bystander.pid)
    recorder = world.record("--exe", program)
    chains = [world.bench.start([launcher, "70001", launcher, "70001", program, str(BLOCKS), str(BYTES)],
                                kind=Workload, env=world.environment).ready() for _ in range(6)]
    names = {f"launched.{chain.pid}" for chain in chains}
    for _ in range(2):
        paths = recorder.pass_now()
        check_equal({path.split("/")[-2] for path in paths}, names, "recorded")
        for path in paths:
            shown = bench.show(path)
            check_equal({probe["object"] for probe in shown["probes"]}, {program}, "files with probes")
            check_equal(shown["losses"].get("functions_late", 0), 0, "functions_late")
    check_unchanged(bystander.pid, "the launcher", before)
    check_equal(recorder.bystander_traps(), 0, "traps of bystanders")
