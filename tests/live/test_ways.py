# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A recording says within its first second how much slower traps make a process, and names the ways that cost less. `leaks PID`
takes a way and says which. doctor and --dry say beforehand whether an exact recording works. Each named way works."""
import re
import signal
import subprocess

from doctor_kinds import compiled
import harness
from harness import ALLOCSNAP, NO_LINKS, NO_SESSIONS, Law, Skip, check, check_equal, environment, tool, wait_for
from test_exact import EXACT, injected, need_python, start
from test_inject import maps
from test_python import PYTHON
import truth

# It does nothing but allocate, and ends with its parent: `run` may be killed.
BUSY = """
#include <stdlib.h>
#include <sys/prctl.h>
int main(void)
{
	prctl(PR_SET_PDEATHSIG, 9);
	for (;;) {
		void *volatile block = malloc(64);

		free(block);
	}
}
"""
BUSY_PYTHON = "while True: {i: str(i) for i in range(200)}"
SLOWER = "is recorded by traps and"
WAYS = ["--inject=exact (", "--sample pools (", "--inject (", "'run --fast' (", "--max-overhead 10 ("]


def busy(bench):
    return bench.start([compiled(bench, "busy", "-O1", source=BUSY)])


def idle(bench):
    """It allocates nothing."""
    return bench.start([tool("sleep"), "1000"])


def cost_lines(text):
    return [line for line in text.splitlines() if SLOWER in line]


def ways_in(line):
    """The ways that a line names, in its order."""
    found = [(line.find(way), way) for way in WAYS if way in line]
    return [way for _, way in sorted(found)]


def works_dry(pid, option):
    done = subprocess.run([ALLOCSNAP, "attach", option, "--dry", str(pid)], capture_output=True, check=False)
    return done.returncode == 0


def end_all(*processes):
    for process in processes:
        process.popen.send_signal(signal.SIGINT)
    for process in processes:
        process.wait(60)


# ---- the cost ----

@harness.core
def test_ways_are_named_when_traps_cost_much(bench):
    """One line, while the recording goes on. It names the ways whose own checks succeed now."""
    program = busy(bench)
    recording = bench.attach([program])
    wait_for(lambda: cost_lines(recording.stderr()), "the line", 30)
    named = ways_in(cost_lines(recording.stderr())[0])
    expected = ["--inject=exact ("] * works_dry(program.pid, EXACT) + ["--inject ("] * works_dry(program.pid, "--inject")
    check_equal(named, [*expected, "'run --fast' (", "--max-overhead 10 ("], cost_lines(recording.stderr()))
    slower = re.search(r"(about ([\d.]+) times slower|10 times slower or more) \(traps took about", cost_lines(recording.stderr())[0])
    check(slower and (not slower[2] or float(slower[2]) > 1.5), recording.stderr())
    recording.snapshot()
    recording.end(signal.SIGINT)
    check_equal(len(cost_lines(recording.stderr())), 1, recording.stderr())


@harness.alone
def test_ways_of_every_command_that_records(bench):
    """leaks, top, run and record say it, too."""
    program = busy(bench)
    for argv in (["leaks", str(program.pid), "--for", "600s"], ["top", str(program.pid), "--batch"],
                 ["run", "-o", bench.path("run"), "--", bench.path("busy")], ["record", "--comm", "busy", "-o", bench.path("record")]):
        command = bench.start([ALLOCSNAP, *argv])
        wait_for(lambda command=command: cost_lines(command.stderr()), f"{argv}: {command.stderr()!r}", 60)
        line, = cost_lines(command.stderr())
        check("--max-overhead 10" in line, line)
        check("--inject" not in line or argv[0] != "record", f"record injects into no process: {line}")
        end_all(command)


def observed_ns(bench, recording):
    metadata = bench.show(recording.snapshot())["metadata"]
    return int(metadata["monotonic_ns"]) - int(metadata["recording_start_monotonic_ns"])


def test_ways_are_not_named_for_an_idle_program(bench):
    recording = bench.attach([idle(bench)])
    wait_for(lambda: observed_ns(bench, recording) > 3_000_000_000, "three seconds", 60)
    recording.end(signal.SIGINT)
    check_equal(cost_lines(recording.stderr()), [], "lines about its cost")


def test_ways_are_not_named_beside_a_budget(bench):
    """The budget says itself what it does."""
    recording = bench.attach([busy(bench)], "--max-overhead", "10")
    wait_for(lambda: "--max-overhead 10 allows" in recording.stderr(), "the budget's note", 60)
    wait_for(lambda: observed_ns(bench, recording) > 2_000_000_000, "two seconds", 60)
    recording.end(signal.SIGINT)
    check_equal(cost_lines(recording.stderr()), [], "lines about its cost")


def need_sessions():
    need_python()
    if NO_SESSIONS:
        raise Skip("no uprobe sessions: no objects of Python are recorded")


def busy_python(bench):
    """Once it has begun its work."""
    need_sessions()
    program = bench.start([PYTHON, "-Sc", f"print('ready', flush=True)\n{BUSY_PYTHON}"])
    check_equal(program.line(60), "ready", "its first line")
    return program


def test_ways_of_a_busy_python_begin_with_the_exact_one(bench):
    """It is taken while the recording by traps goes on, as the line says."""
    program = busy_python(bench)
    recording = bench.attach([program])
    wait_for(lambda: cost_lines(recording.stderr()), "the line", 60)
    check_equal(ways_in(cost_lines(recording.stderr())[0]), [WAYS[0], WAYS[1], WAYS[4]], recording.stderr())
    check(works_dry(program.pid, EXACT), "the first way does not work")
    recording.end(signal.SIGINT)
    exact = bench.attach([program], EXACT)
    check(bench.show(exact.snapshot())["blocks"] > 0, "no blocks")
    exact.end(signal.SIGINT)


# ---- leaks ----

def observing(bench, pid, *options):
    """Starts `leaks`: its words until it observes the process, and the command."""
    leaks = bench.start([ALLOCSNAP, "leaks", str(pid), "--for", "600s", *options])
    wait_for(lambda: "observing" in leaks.stderr(), f"it does not observe: {leaks.stderr()!r}", 60)
    return leaks.stderr(), leaks


def lines_with(text, words):
    return [line for line in text.splitlines() if all(word in line for word in words)]


def check_way(bench, program, *said):
    before = maps(program.pid)
    text, leaks = observing(bench, program.pid)
    wait_for(lambda: lines_with(leaks.stderr(), said), f"{said} in {leaks.stderr()!r}", 30)
    check_equal(len(lines_with(leaks.stderr(), said)), 1, leaks.stderr())
    check_equal([row for row in maps(program.pid) if "allocsnap" in row[3]], [row for row in before if "allocsnap" in row[3]],
                "what was put into it", Law)
    end_all(leaks)
    return text


def follow_step(bench, text, pid):
    """The command that a line gives, for a few seconds."""
    step = re.search(rf"'(allocsnap leaks {pid} --inject\S*)'", text)
    check(step, f"no next step in {text!r}")
    _, stderr = bench.run([ALLOCSNAP, *step[1].split()[1:], "--for", "4s"], None, 60)
    check("observing process" in stderr and "cannot inject" not in stderr, stderr)


def test_ways_of_leaks_are_said_with_the_next_step(bench):
    program = idle(bench)
    text = check_way(bench, program, "by traps, every block")
    if works_dry(program.pid, "--inject"):
        follow_step(bench, text, program.pid)
    text, leaks = observing(bench, program.pid, "--sample", "64K")
    end_all(leaks)
    check("by traps" not in text, f"a way was given: {text!r}")


def test_ways_of_leaks_are_its_own_samples(bench):
    if NO_LINKS:
        raise Skip("no sampler is used there")
    text = check_way(bench, truth.preload(bench, "glibc"), "takes samples of the heap itself")
    check("by traps" not in text, text)


def test_ways_of_leaks_leave_a_busy_python_at_work(bench):
    """By pools and larger objects, and not by each object; that one by the command that the line gives."""
    program = busy_python(bench)
    text = check_way(bench, program, "busy Python", "--sample pools,large", EXACT)
    follow_step(bench, text, program.pid)
    check_equal(injected(program), [], "what stays", Law)


def test_ways_of_leaks_record_each_object_of_an_idle_python(bench):
    need_sessions()
    told = start(bench)
    check_way(bench, told, "each object", "little of a core", EXACT)


# ---- beforehand ----

def test_ways_dry_and_doctor_say_what_exact_would_do(bench):
    """Its pointers and its memory; and nothing has changed."""
    need_sessions()
    told = start(bench)
    before = maps(told.pid)
    out, _ = bench.allocsnap("attach", EXACT, "--dry", str(told.pid))
    check_equal(len(re.findall(r"^  (?:raw|mem|object)\.\w+: the pointer at 0x[0-9a-f]+, now to 0x[0-9a-f]+$", out, re.M)), 12, out)
    exact = bench.json("doctor", str(told.pid))["process"]["exact"]
    check(exact["works"] and exact["small_bytes_most"] % (512 << 10) == 0 and exact["small_bytes_most"], exact)
    check_equal((exact["large_block_bytes"], exact["node_bytes"], exact["traceback_bytes"]), (24, 20, 32), exact)
    check_equal(maps(told.pid), before, "what is mapped", Law)
    told.do("keep(kept, 100)")


@harness.rows({"malloc": ("malloc", "at the entries of its allocators' functions", 0),
               "python": ("python", "into the tables of CPython's allocators", 12)})
def test_ways_dry_says_what_exact_would_do_for_the_domain(bench, domain, words, pointers):
    """The recording itself chooses the same."""
    told = start(bench)
    out, _ = bench.allocsnap("attach", EXACT, "--dry", "--domain", domain, str(told.pid))
    check_equal((words in out, out.count("the pointer at")), (True, pointers), out)
    recording = bench.attach([told], EXACT, "--domain", domain)
    check_equal(bench.show(recording.snapshot())["metadata"]["domains"], domain, "the domain of the snapshot")
    recording.end(signal.SIGINT)
    check("runs no CPython" in bench.allocsnap("attach", EXACT, "--dry", "--domain", "python", str(idle(bench).pid), status=1)[1],
          "a program that is no Python")


def test_ways_doctor_foretells_the_memory_of_exact(bench):
    """Where no arena is added, the books take no more than it says."""
    need_sessions()
    told = start(bench)
    told.do("import gc\ngc.disable()\nspare = [str(i) * 8 for i in range(200000)]\ndel spare[20000:]")
    exact = bench.json("doctor", str(told.pid))["process"]["exact"]
    recording = bench.attach([told], EXACT)
    told.do("small = [str(i) * 8 for i in range(20000)]\nlarge = [bytes(1000) for _ in range(1000)]")
    metadata = bench.show(recording.snapshot())["metadata"]
    fixed = (1 << 20) + (2 << 20)  # buckets of the trie; code objects and their texts
    most = (exact["small_bytes_most"] + exact["thread_bytes_most"] +
            int(metadata["books_node_count"]) * (exact["node_bytes"] + exact["traceback_bytes"]) +
            8 * 2000 * exact["large_block_bytes"] + fixed)
    check(int(metadata["books_bytes"]) <= most, f"{metadata['books_bytes']} bytes, foretold {most} with {exact}")
    recording.end(signal.SIGINT)


def why_not(bench, pid):
    """The reason, which doctor and --dry have in common."""
    reason = bench.json("doctor", str(pid))["process"]["exact"]["why"]
    _, stderr = bench.allocsnap("attach", EXACT, "--dry", str(pid), status=1)
    check(reason in stderr, f"doctor: {reason!r}, --dry: {stderr!r}")
    return reason


def test_ways_exact_refusals_are_said_by_name(bench):
    need_sessions()
    program = idle(bench)
    check_equal(bench.json("doctor", str(program.pid))["process"]["exact"]["works"], works_dry(program.pid, "--inject"),
                "a program without Python, as with a sampler")
    limited = start(bench, prefix=(tool("prlimit"), f"--as={4 << 30}"))
    check("limit on addresses" in why_not(bench, limited.pid), "a limit on addresses")
    told = start(bench)
    recording = bench.attach([told], EXACT)
    check("hooks of an exact recording already" in why_not(bench, told.pid), "hooks of another recording")
    recording.end(signal.SIGINT)
