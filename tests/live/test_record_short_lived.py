# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""allocsnap record: processes that end soon, and what the kernel side keeps of them until a drain."""
import os
import shutil

import harness
from harness import WORKLOADS, Workload, check, check_equal, wait_for
from test_record import World, name_of

MARKS = ("alone",)


@harness.core
@harness.smoke
def test_record_handles_short_lived_processes(bench):
    """1,000 short-lived children: only one that once held more than --min-bytes leaves a file; nothing piles up."""
    world = World(bench)
    program = world.program("child")
    recorder = world.record_warm("--comm", "child")
    descriptors = len(os.listdir(f"/proc/{recorder.pid}/fd"))
    script = (f"i=0; while [ $i -lt 1000 ]; do if [ $((i % 50)) = 0 ]; then {program} 100003 -; "
              f"else {program} 1000 -; fi; i=$((i + 1)); done; echo done; read go")
    shell = world.shell(script)
    check_equal(shell.line(120), "done", "the shell")
    paths = recorder.pass_now()
    check_equal(len(paths), 20, "snapshots")
    for path in paths:
        rows = [row["size"] for row in bench.stats(path)["statistics"]]
        check(100003 in rows, f"{path}: {rows}")
        check_equal(bench.show(path)["metadata"]["end"], "exited 0", f"{path}: end")
    check_equal(recorder.pass_now(), [], "snapshots without a process")
    line = recorder.pass_line()
    check(line.endswith("; 1 process; 980 ended with little in them, without a snapshot"), f"the balance: {line}")
    more = len(os.listdir(f"/proc/{recorder.pid}/fd")) - descriptors  # some: without links, each probe has one
    check(more < 50, f"{more} more descriptors than before")


def test_record_takes_an_early_pass_when_slots_run_out(bench):
    """Ended processes fill a quarter of the room for processes: the recorder takes a pass without being asked."""
    world = World(bench)
    program = world.program("child")
    recorder = world.record_warm("--comm", "child", "--min-bytes", "1")
    shell = world.shell(f"i=0; while [ $i -lt 1100 ]; do {program} 1000 -; i=$((i + 1)); done; echo done; read go")
    check("snapshots" in recorder.line(90), "no early pass")
    check_equal(shell.line(60), "done", "the shell")
    recorder.end()
    check_equal(len(recorder.paths()), 1100, "snapshots")


def keeps_with_callers(bench, recorder, process):
    """Whether a block that `ways` keeps now has a traceback with callers."""
    process.order("keep 1")
    path, = recorder.pass_now()
    rows = bench.stats(path, "--group-by", "traceback")["statistics"]
    return any("main" in [frame.get("function") for frame in row["traceback"]] for row in rows)


def test_record_takes_early_passes_when_ended_processes_leave_many_tracebacks(bench):
    """Each of 40 processes, one after the other, leaves 500 tracebacks. There is room for 16,384."""
    world = World(bench)
    program = shutil.copy(f"{WORKLOADS}/ways", bench.path("ways"))
    recorder = world.record_warm("--comm", "ways", "--min-bytes", "1", "--max-tracebacks", "16384")
    # Until the program's unwind table is loaded, all of its blocks have one traceback. This process keeps it loaded.
    first = bench.start([program], kind=Workload, env=world.environment).ready()
    wait_for(lambda: keeps_with_callers(bench, recorder, first), "the unwind table")
    names = []
    for _ in range(40):
        process = bench.start([program], kind=Workload, env=world.environment).ready()
        process.order("go 500")
        process.order("keep 1")
        process.is_unharmed()
        names.append(name_of(process))
        wait_for(lambda: len(names) % 10 or set(names[-10:]) & set(recorder.names()), "an early pass")
    recorder.end()
    lost = [bench.show(path)["losses"].get("tracebacks_dropped", 0) for path in recorder.paths()]
    check_equal(sum(lost), 0, "tracebacks_dropped")
    check_equal(sorted(recorder.names()), sorted([name_of(first), *names]), "snapshots")
