# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""allocsnap run: from the first allocation to the end, and the program's own exit status."""
import json
import os
import pathlib
import re
import signal
import subprocess

import harness
from harness import (ALLOCSNAP, NEVER, WORKLOADS, Process, Skip, check, check_equal, environment, tool,
                     wait_for)



def run(bench, *argv, status=0, options=()):
    """The paths of the snapshots, and what the program wrote to stderr."""
    stdout, stderr = bench.run([ALLOCSNAP, "run", "-o", bench.path("out"), *options, "--", *argv],
                               status)
    return [line for line in stdout.splitlines() if line.endswith(".snap")], stderr


@harness.core
def test_run_records_from_the_first_allocation(bench):
    """No block is older than the recording, so each free is of a recorded block."""
    for argv in ([tool("sqlite3"), ":memory:", "create table t(x); insert into t values(1);"],
                 ["/usr/bin/python3", "-c", "print(sum(len(str(i)) for i in range(20000)))"],
                 ["/bin/ls", "/"]):
        paths, stderr = run(bench, *argv)
        shown = bench.show(paths[-1])
        check_equal(stderr.count("cannot"), 0, f"stderr of {argv[0]}: {stderr!r}")
        check_equal(shown["counters"]["unknown_frees"], 0, f"unknown frees of {argv[0]}")
        check(shown["counters"]["allocations"] > 10, f"{argv[0]} allocated nothing")
        check_equal(shown["metadata"]["end"], "exited 0", "its end")


JEMALLOC = f"/usr/lib/{harness.MULTIARCH}/libjemalloc.so.2"


@harness.core
def test_run_counts_probes_that_came_late(bench):
    """The program becomes another one with another allocator, whose probes always come too late. A loss counts
    that even if the new program ends at once and none of its calls was seen."""
    if not os.path.exists(JEMALLOC):
        raise Skip(f"{JEMALLOC} is not installed")
    for argv in (["/bin/true"], ["/usr/bin/python3", "-Sc", "import time; time.sleep(1)"]):
        paths, _ = run(bench, "/bin/sh", "-c", f'LD_PRELOAD={JEMALLOC} exec "$@"', "sh", *argv, options=("--domain", "malloc"))
        shown = bench.show(paths[-1])
        check(shown["losses"].get("functions_late", 0) > 5, f"{argv[0]}: {shown['losses']}")
        check_equal(shown["metadata"]["exe"], os.path.realpath(argv[0]), "exe")
        check_equal(shown["metadata"]["cmdline"], " ".join(argv), "cmdline")


@harness.core
def test_run_records_what_a_launcher_becomes(bench):
    """From its first allocation on, also with another allocator; a launcher that becomes nothing has its exit status."""
    known = os.path.join(WORKLOADS, "known")
    paths, _ = run(bench, "/usr/bin/env", "A=b", "nice", known)
    shown = bench.show(paths[-1])
    check_equal((shown["metadata"]["exec_count"], os.path.basename(shown["metadata"]["exe"])), (0, "known"), "execs, exe")
    check_equal(shown["counters"]["unknown_frees"], 0, "unknown frees")
    for argv, status in ((("/usr/bin/env", "no_such_program"), 127), (("/usr/bin/env",), 0)):
        paths, stderr = run(bench, *argv, status=status)
        check(not paths and "without starting another program" in stderr, f"{paths}, {stderr!r}")


@harness.core
@harness.smoke
def test_run_returns_the_exit_status(bench):
    check_equal(len(run(bench, "/bin/sh", "-c", "exit 7", status=7)[0]), 1, "snapshots")
    check_equal(len(run(bench, "/bin/sh", "-c", "kill -9 $$", status=137)[0]), 1, "snapshots")
    check_equal(len(run(bench, "/bin/sh", "-c", "kill -11 $$", status=139)[0]), 1, "snapshots")


@harness.core
def test_run_of_no_program_exits_as_env_does(bench):
    for argv, said in ((["/no/such/program"], "No such file or directory"),
                       (["no_such_program_on_the_path"], "No such file or directory"),
                       (["/etc/passwd"], "Permission denied"),
                       (["/"], "Permission denied")):
        status = subprocess.run(["/usr/bin/env", *argv], stderr=subprocess.DEVNULL, check=False).returncode
        check(status in (126, 127), f"env exits with {status}")
        paths, stderr = run(bench, *argv, status=status)
        check_equal(paths, [], "snapshots")
        check(said in stderr and stderr.count("\n") == 1, f"{argv[0]}: {stderr!r}")
    bench.allocsnap("run", status=2)


@harness.core
def test_run_forwards_arguments_and_signals(bench):
    """SIGTERM reaches the program as it would without allocsnap."""
    script = "trap 'echo told; exit 5' TERM; echo ready; while :; do sleep 0.05; done"
    child = bench.start([ALLOCSNAP, "run", "-o", bench.path("out"), "--", "/bin/sh", "-c", script,
                         "-o", "--json"], kind=Process)
    check_equal(child.line(), "ready", "its first line")
    child.popen.send_signal(signal.SIGUSR1)
    check(child.line().endswith(".snap"), "no snapshot on SIGUSR1")
    child.popen.send_signal(signal.SIGTERM)
    check_equal(child.line(), "told", "its last line")
    check(child.line().endswith(".snap"), "no last snapshot")
    check_equal(child.wait(), 5, "exit status")


def test_run_forwards_signals_when_nothing_is_recorded(bench):
    """Signals are forwarded after the last snapshot, and when the program cannot be recorded."""
    script = "trap 'echo told; exit 5' TERM; echo ready; while :; do sleep 0.05; done"
    ended = bench.start([ALLOCSNAP, "run", "-o", bench.path("out"), "--duration", "100ms", "--",
                         "/bin/sh", "-c", script], kind=Process)
    check({"ready", True} == {line.endswith(".snap") or line for line in
                              (ended.line(), ended.line())}, "neither ready nor recorded")
    unknown = bench.start([ALLOCSNAP, "run", "-o", bench.path("out"), "--", loader_of("/bin/sh"),
                           "/bin/sh", "-c", script], kind=Process)
    check_equal(unknown.line(), "ready", "its first line")
    for child, status in ((ended, 5), (unknown, 125)):
        child.popen.send_signal(signal.SIGTERM)
        check_equal(child.line(), "told", "its last line")
        check_equal(child.wait(), status, "exit status")


def loader_of(program):
    """Started by hand it is what the kernel knows: a program that allocates nothing it names."""
    text = pathlib.Path(program).read_bytes()
    return re.search(rb"/lib[^\0]*/ld-[^\0]*", text)[0].decode()


@harness.core
def test_run_does_not_change_signals_descriptors_and_limits_of_the_program(bench):
    """No signal is blocked or ignored, no descriptor is left open, no limit differs."""
    threads_own = 3 << 31  # signals 32 and 33 are the C library's, for its threads

    def without_them(line):
        name, _, value = line.partition(":\t")
        return (name, int(value, 16) & ~threads_own) if value else line

    script = "grep -E '^Sig(Blk|Ign)' /proc/self/status; ls /proc/self/fd; cat /proc/self/limits"
    few_files = ["/bin/sh", "-c", 'ulimit -Sn 512; exec "$@"', "sh"]
    plain = bench.run([*few_files, "/bin/sh", "-c", script])[0]
    stdout = bench.run([*few_files, ALLOCSNAP, "run", "-o", bench.path("out"), "--", "/bin/sh",
                        "-c", script])[0]
    seen = [line for line in stdout.splitlines() if not line.endswith(".snap")]
    check_equal([without_them(line) for line in seen],
                [without_them(line) for line in plain.splitlines()],
                "signals, descriptors and limits")


@harness.core
def test_run_that_is_killed_leaves_the_program_running(bench):
    """The program continues."""
    mark = pathlib.Path(bench.path("mark"))
    script = f"while [ ! -e {mark} ]; do sleep 0.05; done; echo went on >{mark}"
    child = bench.start([ALLOCSNAP, "run", "-o", bench.path("out"), "--", "/bin/sh", "-c", script,
                         ], kind=Process)
    wait_for(lambda: "sh" in children_of(child.pid), "its child")
    child.popen.kill()
    child.popen.wait()
    mark.touch()
    wait_for(lambda: mark.read_text() == "went on\n", "the program after our end")


@harness.core
def test_run_records_a_musl_program(bench):
    """musl: system calls of the loader never end, but it is held no longer than others."""
    program = bench.path("deep")
    bench.run([tool("musl-gcc"), "-D_GNU_SOURCE", "-g", "-o", program,
               os.path.join(os.path.dirname(__file__), "../workloads/deep.c")])
    with environment(harness.WITHOUT_RETURNS):  # return probes make system calls elsewhere
        child = bench.start([ALLOCSNAP, "run", "-o", bench.path("out"), "--", program],
                            kind=Process)
    pid = json.loads(child.line())["ready"]
    child.write("go\n")
    check_equal(child.line(), '{"done": {"depth": 20}}', "its answer")
    wait_for(lambda: "TracerPid:\t0\n" in pathlib.Path(f"/proc/{pid}/status").read_text(),
             "its release")
    child.popen.send_signal(signal.SIGUSR1)
    path = child.line()
    rows = [row["size"] for row in bench.stats(path)["statistics"] if row["count"] == 7]
    check_equal(rows, [7 * 127], "bytes of the row of 7 blocks")
    check_equal(bench.show(path)["metadata"]["probe_kind"], "uprobe_ret", "probe_kind")
    child.write("quit\n")
    check(child.line().endswith(".snap"), "no last snapshot")
    check_equal(child.wait(), 0, "exit status")


def children_of(pid):
    names = []
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text()
        except OSError:
            continue
        if int(text.rpartition(")")[2].split()[1]) == pid:
            names.append(text[text.index("(") + 1:text.rindex(")")])
    return names


@harness.core
@harness.smoke
def test_run_records_known_totals(bench):
    """A program that counts itself is recorded from its first block to its last."""
    child = bench.start([ALLOCSNAP, "run", "-o", bench.path("out"), "--interval", NEVER, "--",
                         os.path.join(WORKLOADS, "stacks")], kind=Process)
    check("ready" in child.line(), "not ready")
    child.write("nested 1000\n")
    done = child.line()
    child.write("quit\n")
    shown = bench.show(child.line())
    check_equal(child.wait(), 0, "exit status")
    for name in ("allocations", "frees"):
        check(f'"{name}": {shown["counters"][name]}' in done, f"{name}: {shown['counters'][name]}, "
              f"the program says {done}")
