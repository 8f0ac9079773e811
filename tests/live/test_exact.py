# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""attach --inject=exact: every block of a CPython that runs, recorded inside it, against CPython's own tracemalloc."""
import collections
import glob
import os
import pathlib
import re
import signal
import sys

import harness
from harness import ALLOCSNAP, NO_LINKS, Law, Process, Skip, check, check_equal, link_holder_of, losses_of, need_sessions, tool, wait_for
import python_blocks
from test_inject import maps
from test_python import ENVIRONMENT, FRAMES, LIBRARIES, LINE_THAT_DROPS, LINE_THAT_KEEPS, OWN, PYTHON, PYTHONS, ROUNDS, check_nothing_lost, \
    compare_in_one_process, count_rows, order, some, start_tracing

EXACT = "--inject=exact"
TOLD = pathlib.Path(__file__).with_name("told_python.py")
HOOKED = TOLD.parent.parent / "inject/hooked.py"
BLOCK = sys.getsizeof(bytes(5000))


class Told(Process):
    """told_python.py."""

    def do(self, code):
        self.write(repr(code) + "\n")
        check_equal(self.line(120), "done", f"the answer to {code!r}")


def need_python(*versions):
    harness.need_injection()
    if sys.version_info[:2] not in (versions or [(3, minor) for minor in range(9, 15)]):
        raise Skip(f"{PYTHON} is {sys.version_info[:2]}")


def start(bench, *options, prefix=(), python=OWN, **environment):
    if python is OWN:
        need_python()
    told = bench.start([*prefix, *python.argv, "-S", *options, str(TOLD)], kind=Told, env=ENVIRONMENT | python.environment | environment)
    check_equal(told.line(60), "ready", "told_python.py")
    return told


def attach(bench, target, *options):
    recording = bench.attach([target], EXACT, *options)
    check(injected(target), f"nothing is mapped; stderr {recording.stderr()!r}")
    return recording


def injected(target):
    """The mappings of allocsnap's files in a process."""
    return [row for row in maps(target.pid) if "memfd:allocsnap" in row[3]]


def kept(bench, path):
    """The number of blocks that keep() has made."""
    total = bench.stats(path, "--min-size", str(BLOCK), "--max-size", str(BLOCK))["total"]
    return total["count"]


def is_gone(target):
    wait_for(lambda: not injected(target), f"still mapped: {injected(target)}", 30, Law)


# ---- equal to tracemalloc ----

class Empty:
    def method(self):
        pass


async def asynchronous():
    yield 1

# Memory of dropped objects of these types becomes another object of the type without a call of an allocator: tracemalloc sees
# the object's creation, hooks do not.
FREE_LISTED = {sys.getsizeof(thing) for thing in (1.5, [], {}, slice(1), Empty().method, asynchronous(), asynchronous().asend(None))}
FREE_LISTED |= {sys.getsizeof((None,) * n) for n in range(1, 22)} | {28, 32, 40}  # in 3.14 tuples are larger; ints and iterators, too


def others_of(target, tracebacks):
    """Blocks that may not differ. From 3.13 on a hook sees all objects begin. Until 3.10 frames are objects that have a free
    list, and any size."""
    memory = python_blocks.Memory(target.pid)
    others = {address: pair for address, pair in tracebacks.items() if memory.minor >= 13 or pair[0][0] not in FREE_LISTED and
              not (memory.minor <= 10 and memory.type_of_collected(address) == "frame")}
    memory.close()
    return others


def compare_with_tracemalloc(bench, shapes, python=OWN, **environment):
    """In one process. Returns what differs, all of which may."""
    if python is OWN:
        need_python((3, 11))
    target = start_tracing(bench, "-X", f"tracemalloc={FRAMES}", python=python, **environment)
    order(target, "shape everything", "shape without_gil")  # imports and caches
    before = python_blocks.of_tracemalloc(target.pid)
    recording = bench.attach([target], EXACT, "--traceback-limit", str(FRAMES), "--no-compact")
    order(target, *(f"shape {shape}" for shape in shapes))
    path = recording.snapshot()
    found = python_blocks.compare(python_blocks.of_snapshot(path), python_blocks.of_tracemalloc(target.pid), before)
    check(len(found.both) > 500, f"only {len(found.both)} blocks to compare")
    for name in ("sizes", "only_ours", "only_theirs"):
        check(not getattr(found, name), f"{name}: {some(getattr(found, name))}; in both: {len(found.both)}")
    others = others_of(target, found.tracebacks)
    check(not others, f"tracebacks: {some(others)}; in both: {len(found.both)}")
    check_nothing_lost(bench, path)
    recording.end(signal.SIGINT)
    return f"{len(found.both)} blocks; {len(found.tracebacks)} of free lists have another traceback"


@harness.rows({
    "are_those_of_tracemalloc": (("everything",),),
    "without_free_lists_are_those_of_tracemalloc": (("reallocated", "executed"),),
    "of_threads_are_those_of_tracemalloc": (("threads",) * 4,),
    "without_the_gil_are_those_of_tracemalloc": (("without_gil", "without_gil"),),
}, of_core=("are_those_of_tracemalloc",))
def test_exact_blocks(bench, shapes):
    return compare_with_tracemalloc(bench, shapes)


def test_exact_blocks_of_the_c_library_are_those_of_tracemalloc(bench):
    return compare_with_tracemalloc(bench, ("everything", "without_gil"), PYTHONMALLOC="malloc")


@harness.rows({name: row[1:] for name, row in PYTHONS.items()})
def test_exact_blocks_of_python(bench, find, *which):
    return compare_with_tracemalloc(bench, ("everything", "threads", "without_gil"), python=find(*which))


# ---- blocks that libraries report ----

def compare_tracked(bench, python):
    """By PyTraceMalloc_Track(), as numpy does: two calls are probed for it."""
    compare_in_one_process(bench, "tracked", True, EXACT, python=python)


@harness.core
def test_exact_blocks_without_uprobe_sessions_are_those_of_tracemalloc(bench):
    """As before Linux 6.13: nothing is probed, and a note says what is not recorded therefore."""
    with harness.environment("ALLOCSNAP_NO_UPROBE_SESSION"):
        told = start(bench)
        recording = attach(bench, told)
        check("blocks that libraries report are not recorded" in recording.stderr(), recording.stderr())
        told.do("keep(kept, 500)\ndel kept[:200]")
        path = recording.snapshot()
        check_equal((kept(bench, path), losses_of(bench.show(path))), (300, {}), "blocks, losses")
        recording.end(signal.SIGINT)
        return compare_with_tracemalloc(bench, ("everything", "threads"))


@harness.core
def test_exact_blocks_that_libraries_report_are_those_of_tracemalloc(bench):
    need_python()
    compare_tracked(bench, OWN)


@harness.rows({name: row[1:] for name, row in PYTHONS.items()})
def test_exact_blocks_that_libraries_report_to_python(bench, find, *which):
    compare_tracked(bench, find(*which))


TRACKS = """
import ctypes
track, untrack = ctypes.pythonapi.PyTraceMalloc_Track, ctypes.pythonapi.PyTraceMalloc_Untrack
track.argtypes, untrack.argtypes = (ctypes.c_uint, ctypes.c_size_t, ctypes.c_size_t), (ctypes.c_uint, ctypes.c_size_t)
at = 0x100000
for i in range(300):
    space = {"track": track}
    exec(compile(f"track(7, {at + 64 * i}, {70000 + i})", f"<made {i}>", "exec"), space)
    if i % 3 == 0: untrack(7, at + 64 * i)
"""


def test_exact_blocks_that_libraries_report_for_code_that_has_gone(bench):
    """Each code object gets the address of the one before; books count their code objects, too."""
    need_sessions()
    told = start(bench)
    recording = attach(bench, told)
    told.do(TRACKS + "keep(kept, 30)")
    path = recording.snapshot()
    rows = bench.stats(path, "--group-by", "traceback", "--min-size", "70000", "--max-size", "70299")["statistics"]
    found = sorted((row["size"], row["traceback"][0]["filename"], row["traceback"][0]["lineno"]) for row in rows)
    check_equal(found, [(70000 + i, f"<made {i}>", 1) for i in range(300) if i % 3], "size and line of each")
    shown = bench.show(path)
    check_equal((kept(bench, path), losses_of(shown)), (30, {}), "blocks of the hooks, losses")
    counters = shown["counters"]
    for came, went, there in ("allocations", "frees", "current_blocks"), ("allocated_bytes", "freed_bytes", "current_bytes"):
        check_equal(counters[came] - counters[went], counters[there], f"{there} of {counters}")
    recording.end(signal.SIGINT)
    is_gone(told)


# ---- free lists: from 3.13 on, the line that keeps an object is named ----

OF_OBJECTS = {name: row[1:] for name, row in PYTHONS.items() if row[-1] in (13, 14)}


@harness.rows(OF_OBJECTS)
def test_exact_objects_of_free_lists(bench, find, *which):
    """With and without --no-retag, in memory that a line drops before another one keeps it."""
    for make, options in (("i / 7", ()), ("(i, None)", ()), ("[i]", ()), ("(i, None)", ("--no-retag",))):
        rows, metadata = count_rows(bench, make, EXACT, *options, python=find(*which))
        line, others = (LINE_THAT_DROPS, LINE_THAT_KEEPS) if options else (LINE_THAT_KEEPS, LINE_THAT_DROPS)
        check(rows[line] >= ROUNDS - 300 and rows.get(others, 0) <= 320, f"{make} {options}: {rows}")
        check_equal(metadata.get("python_retag"), None if options else "1", "the metadata")


@harness.rows(OF_OBJECTS)
def test_exact_objects_while_tracemalloc_is_told_of_them(bench, find, *which):
    """It takes the place of the hook, and leaves none: that is said, blocks are right, and all goes out."""
    told = start(bench, python=find(*which))
    recording = attach(bench, told)
    told.do("keep(kept, 100)")
    check_equal(bench.show(recording.snapshot())["metadata"].get("python_retag"), "1", "the metadata")
    for code in "tracemalloc.start()", "tracemalloc.stop()":
        told.do("import tracemalloc\n" + code + "\nkeep(kept, 100)")
        path = recording.snapshot()
        check_equal(bench.show(path)["metadata"].get("python_retag"), None, f"the metadata after {code}")
    check_equal((kept(bench, path), losses_of(bench.show(path))), (300, {}), "blocks, losses")
    check("another function sees when its objects begin" in recording.stderr(), recording.stderr())
    end_and_eject(bench, recording, told)


# ---- how the process goes on, and ends ----

@harness.core
def test_exact_counts_what_comes_and_goes(bench):
    told = start(bench)
    before = maps(told.pid)
    told.do("keep(kept, 100)")
    recording = attach(bench, told)
    told.do("keep(kept, 500)")
    check_equal(kept(bench, recording.snapshot()), 500, "blocks")
    told.do("del kept[:300]")
    path = recording.snapshot()
    check_equal(kept(bench, path), 300, "blocks after 300 frees")
    shown = bench.show(path)
    check(100 <= shown["counters"]["unknown_frees"] < 200, f"frees of older blocks: {shown['counters']}")
    check_equal(losses_of(shown), {}, "losses")
    recording.end(signal.SIGINT)
    is_gone(told)
    check_equal({row[3] for row in maps(told.pid)} - {row[3] for row in before}, set(), "files that it maps", Law)
    told.do("assert sum(map(sum, kept)) == 0 and len(kept) == 300")


def test_exact_below_locked_memory(bench):
    """mlockall(MCL_FUTURE) after the hooks have come: they go on, and go."""
    told = start(bench)
    recording = attach(bench, told)
    told.do("import ctypes\nassert not ctypes.CDLL(None).mlockall(2)\nkeep(kept, 500)")
    check_equal(kept(bench, recording.snapshot()), 500, "blocks")
    recording.end(signal.SIGINT)
    is_gone(told)
    told.do("keep(kept, 500)\nassert len(kept) == 1000")


@harness.core
def test_exact_of_a_python_that_ends_and_begins_again(bench):
    """In one process, while threads of the first one go on without its lock. It records on, or says that its allocators were set anew."""
    need_python()
    library = next(iter(glob.glob(LIBRARIES)), None)
    if not library:
        raise Skip(f"there is no {LIBRARIES}")
    target = bench.start([os.path.join(harness.WORKLOADS, "python_again"), library], kind=harness.Workload, env=ENVIRONMENT).ready()
    code = "run kept = [bytes(5000) for _ in range(300)]"
    target.order("begin")
    recording = bench.attach([target], EXACT, "--domain", "python")
    for command in "raw 3", code:
        check_equal(target.order(command)[1], 0, command)
    check_equal(kept(bench, recording.snapshot()), 300, "blocks")
    for command in "end", "begin", code, "raw 3", "end", "begin", code:
        check_equal(target.order(command)[1], 0, command)
    path = recording.snapshot()
    if "other functions stand where its blocks were recorded" in recording.stderr():
        check(bench.show(path)["gaps"], "no gap")
    else:
        rows = bench.stats(path, "--group-by", "traceback", "--min-size", str(BLOCK), "--max-size", str(BLOCK))["statistics"]
        check_equal([(row["traceback"][0]["filename"], row["count"]) for row in rows], [("<string>", 300)], "blocks of the last one")
    recording.popen.send_signal(signal.SIGINT)  # a word that its threads left on their stacks may look like a place in a hook
    check(recording.wait() == 0 or "a thread may still return to it" in recording.stderr(), recording.stderr())


def test_exact_leaves_forked_children_alone(bench):
    told = start(bench)
    recording = attach(bench, told)
    told.do("keep(kept, 500)")
    told.do("import os\nways = os.pipe(), os.pipe()\nchild = os.fork()\nif not child:\n"
            " keep(kept, 300)\n del kept[:200]\n os.write(ways[0][1], b'y')\n os.read(ways[1][0], 1)\n keep(kept, 50)\n os._exit(7)")
    told.do("assert os.read(ways[0][0], 1) == b'y'")
    check_equal(kept(bench, recording.snapshot()), 500, "blocks while the child has others")
    told.do("keep(kept, 100)\ndel kept[:50]")
    check_equal(kept(bench, recording.snapshot()), 550, "blocks of the parent")
    told.do("os.write(ways[1][1], b'y')\nassert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7")
    path = recording.snapshot()
    check_equal(kept(bench, path), 550, "blocks when the child has ended")
    check_equal(losses_of(bench.show(path)), {}, "losses")
    recording.end(signal.SIGINT)
    is_gone(told)


def test_exact_and_a_child_that_outlives_the_recording(bench):
    """Its hooks only pass on, with the parent's or without."""
    told = start(bench)
    recording = attach(bench, told)
    told.do("import os\nway = os.pipe()\nchild = os.fork()\nif not child:\n"
            " os.close(way[1])\n os.read(way[0], 1)\n keep(kept, 50)\n del kept[:20]\n os._exit(len(kept))")
    recording.end(signal.SIGINT, status=None)
    is_gone(told)
    told.do("os.close(way[1])\nassert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 30")


def test_exact_has_the_last_blocks_of_a_killed_process(bench):
    told = start(bench)
    recording = attach(bench, told)
    told.do("import threading\nthread = threading.Thread(target=keep, args=(kept, 400))\nthread.start()\nthread.join()\n"
            "keep(kept, 200)\ndel kept[:100]")
    told.popen.kill()
    told.popen.wait()
    path, = recording.end()
    check_equal((kept(bench, path), bench.show(path)["metadata"]["end"]), (500, "killed by signal 9"), "the last snapshot")
    threads = bench.stats(path, "--group-by", "thread", "--min-size", str(BLOCK), "--max-size", str(BLOCK))["statistics"]
    check_equal(sorted(row["count"] for row in threads), [200, 300], "blocks by thread")


def test_exact_beside_signals_and_programs_that_it_starts(bench):
    """Handlers that allocate, in the middle of other work; children by vfork, and by fork with code of Python."""
    told = start(bench)
    recording = attach(bench, told)
    told.do("import json, signal, subprocess, sys\nsignal.signal(signal.SIGALRM, lambda *_: keep(kept, 1))\n"
            "signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)\n"
            "while len(kept) < 300: json.loads(json.dumps([list(range(99))] * 9))\nsignal.setitimer(signal.ITIMER_REAL, 0)\n"
            "for _ in range(20): subprocess.run(['/bin/true'], check=True)\n"
            "subprocess.run(['/bin/true'], preexec_fn=lambda: keep(kept, 10), check=True)\ndel kept[300:]\nkeep(kept, 40)")
    path = recording.snapshot()
    check_equal((kept(bench, path), losses_of(bench.show(path))), (340, {}), "blocks, losses")
    recording.end(signal.SIGINT)
    is_gone(told)


def test_exact_has_the_blocks_of_a_second_interpreter(bench):
    need_python((3, 11))
    told = start(bench)
    recording = attach(bench, told)
    told.do("import _xxsubinterpreters as others\nother = others.create()\n"
            "others.run_string(other, 'import json\\nkept = [bytes(5000) for _ in range(300)]')\nkeep(kept, 20)")
    check_equal(kept(bench, recording.snapshot()), 320, "blocks of both")
    told.do("others.destroy(other)")
    check_equal(kept(bench, recording.snapshot()), 20, "blocks of the first")
    recording.end(signal.SIGINT)
    is_gone(told)


def test_exact_and_exec(bench):
    """Another program has no hooks: that is said."""
    told = start(bench)
    recording = attach(bench, told)
    told.do("keep(kept, 500)")
    told.write(repr(f"import os, sys\nos.execv({PYTHON!r}, [{PYTHON!r}, '-S', {str(TOLD)!r}])") + "\n")
    check_equal(told.line(), "ready", "the next program")
    check(not injected(told), "hooks in the next program", Law)
    wait_for(lambda: "went with the program" in recording.stderr(), f"no note of the exec: {recording.stderr()!r}")
    told.do("keep(kept, 100)")
    shown = bench.show(recording.snapshot())
    check("before exec" in shown["metadata"].get("python_not_recorded", ""), f"metadata of the next program: {shown['metadata']}")
    recording.end(signal.SIGINT)
    told.do("assert len(kept) == 100")


@harness.core
def test_exact_hooks_go_with_a_killed_recorder(bench):
    told = start(bench)
    recording = attach(bench, told)
    told.do("keep(kept, 500)")
    recording.kill()
    is_gone(told)
    told.do("del kept[:200]\nkeep(kept, 10)")
    again = attach(bench, told)
    told.do("keep(kept, 70)")
    check_equal(kept(bench, again.snapshot()), 70, "blocks of the next recording")
    again.end(signal.SIGINT)
    is_gone(told)


def test_exact_hooks_that_stay_go_by_eject(bench):
    """Where the link holder was killed, too."""
    told = start(bench)
    recording = attach(bench, told)
    holder = link_holder_of(recording.pid)
    os.kill(recording.pid, signal.SIGSTOP)
    os.kill(holder, signal.SIGKILL)
    recording.kill()
    wait_for(lambda: not harness.is_running(holder), "the link holder runs on")
    check(injected(told), "the hooks have gone by themselves")
    told.do("keep(kept, 500)")
    bench.allocsnap("eject", str(told.pid))
    is_gone(told)
    told.do("del kept[:]")


def test_exact_until_the_process_has_ended(bench):
    """Python's end frees most of what it has; daemon threads allocate until then."""
    told = start(bench)
    recording = attach(bench, told)
    told.do("import json, threading\ndef work():\n while True: json.loads(json.dumps([list(range(50))] * 9))\n"
            "for _ in range(3): threading.Thread(target=work, daemon=True).start()\nkeep(kept, 100)")
    told.popen.stdin.close()
    check_equal(told.wait(), 0, "its end", Law)
    path, = recording.end()
    check_equal((losses_of(bench.show(path)), bench.show(path)["metadata"]["end"]), ({}, "exited 0"), "losses, its end")


def come_and_go_while_threads_work(bench, python, times=5):
    """The program checks what it computes (tests/inject)."""
    work = bench.start([*python.argv, str(HOOKED)], env=ENVIRONMENT | python.environment)

    def rounds():
        work.write("how\n")
        said = work.line(60).split()
        check_equal(said[3], "0", f"wrong results: {said}", Law)
        return int(said[1])

    for _ in range(times):
        recording = attach(bench, work)
        before = rounds()
        wait_for(lambda before=before: rounds() > before, "the threads stand still", 60, Law)
        shown = bench.show(recording.snapshot())
        check(shown["counters"]["allocations"] > 1000 and not losses_of(shown), f"{shown['counters']}, {losses_of(shown)}")
        recording.end(signal.SIGINT)
        is_gone(work)
    work.popen.stdin.close()
    check_equal(work.wait(), 0, "its end", Law)


@harness.core
def test_exact_comes_and_goes_while_threads_work(bench):
    need_python()
    come_and_go_while_threads_work(bench, OWN)


@harness.rows(OF_OBJECTS)
def test_exact_comes_and_goes_while_threads_make_objects(bench, find, *which):
    come_and_go_while_threads_work(bench, find(*which))


def test_exact_has_deep_recursion_in_part(bench):
    """Deeper than the memo of a thread: inner frames are there, and blocks, and the loss is counted."""
    told = start(bench)
    recording = attach(bench, told)
    told.do("import sys\nsys.setrecursionlimit(20000)\ndef deep(n, work):\n return deep(n - 1, work) if n else work()\n"
            "for n in (4000, 4094, 4096, 4100, 6000): deep(n, lambda: keep(kept, 50))")
    path = recording.snapshot()
    check_equal(kept(bench, path), 250, "blocks")
    check_equal(set(losses_of(bench.show(path))), {"tracebacks_limited"}, "losses")
    told.do("keep(kept, 50)")
    check_equal(kept(bench, recording.snapshot()), 300, "blocks afterwards")
    recording.end(signal.SIGINT)


def test_exact_records_threads_that_come_and_go(bench):
    """More than there are slots for, one after another and some at once, before the recorder frees any."""
    told = start(bench)
    recording = attach(bench, told)
    told.do("import threading\ndef some(nr):\n threads = [threading.Thread(target=keep, args=(kept, 1)) for _ in range(nr)]\n"
            " for thread in threads: thread.start()\n for thread in threads: thread.join()\n"
            "for _ in range(5000): some(1)\nfor _ in range(150): some(20)")
    path = recording.snapshot()
    check_equal((kept(bench, path), losses_of(bench.show(path))), (8000, {}), "blocks, losses")
    told.do("del kept[:7000]\nfor _ in range(500): some(1)")
    check_equal(kept(bench, recording.snapshot()), 1500, "blocks when the recorder has freed slots")
    recording.end(signal.SIGINT)


def test_exact_beside_a_recording_by_probes(bench):
    """Both have each block; a second set of hooks is refused."""
    need_sessions()
    told = start(bench)
    probes = bench.attach([told], "--domain", "python")
    recording = attach(bench, told)
    told.do("keep(kept, 500)\ndel kept[:100]")
    check_equal((kept(bench, recording.snapshot()), kept(bench, probes.snapshot())), (400, 400), "blocks of hooks, of probes")
    _, stderr = bench.allocsnap("attach", EXACT, str(told.pid), "-o", bench.path("no"), status=1)
    check_equal(stderr.count("\n"), 1, stderr)
    told.do("keep(kept, 10)")
    check_equal(kept(bench, recording.snapshot()), 410, "blocks after the second one")
    recording.end(signal.SIGINT)
    is_gone(told)
    told.do("del kept[:200]")
    check_equal(kept(bench, probes.snapshot()), 210, "blocks of the probes")
    probes.end(signal.SIGINT)


THREAD_KIB = int(re.search(r"BOOKS_THREAD_BYTES \(UINT64_C\((\d+)\) << 10\)", (TOLD.parents[2] / "src/exact/books.h").read_text())[1])
FORGES = f"""
import ctypes, re
books = next(line for line in open("/proc/self/maps") if "allocsnap-books" in line)
slot = int(books.split("-")[0], 16) + 8192 + 4000 * ({THREAD_KIB} << 10)
def put(tid, inside):
    ctypes.c_uint64.from_address(slot + 8).value = inside
    ctypes.c_uint32.from_address(slot).value = tid
"""


def test_exact_goes_on_after_a_thread_has_stayed_in_a_hook(bench):
    """A pass cannot be made meanwhile; the next one has all blocks. Here a slot says so of a thread that is not there."""
    told = start(bench)
    recording = attach(bench, told, "--interval", "1s")
    told.do("keep(kept, 100)")
    check_equal(kept(bench, recording.snapshot()), 100, "blocks")
    told.do(FORGES + "put(4711, 1)\nkeep(kept, 100)")
    for _ in range(3):
        path = recording.path()
    check_equal((kept(bench, path), losses_of(bench.show(path))), (200, {}), "blocks when the slot is free, losses")
    check("in a call of its allocator" in recording.stderr(), recording.stderr())
    recording.end(signal.SIGINT, status=None)
    is_gone(told)


# ---- others who replace the functions ----

def test_exact_with_tracemalloc_that_starts_and_stops_above(bench):
    told = start(bench)
    recording = attach(bench, told)
    told.do("keep(kept, 100)\nimport tracemalloc\ntracemalloc.start()\nkeep(kept, 200)")
    check_equal(kept(bench, recording.snapshot()), 300, "blocks with tracemalloc")
    told.do("assert len(tracemalloc.take_snapshot().traces)\ndel kept[:150]\ntracemalloc.stop()\nkeep(kept, 50)")
    path = recording.snapshot()
    check_equal(kept(bench, path), 200, "blocks after tracemalloc")
    check_equal(losses_of(bench.show(path)), {}, "losses")
    check_equal((bench.show(path).get("gaps"), "other functions" in recording.stderr()), (None, False), "gaps, and a note of them")
    end_and_eject(bench, recording, told)


def end_and_eject(bench, recording, told):
    """tracemalloc has pointers to hooks, so that their code stays mapped."""
    recording.end(signal.SIGINT, status=None)
    if injected(told):
        check("stays mapped" in recording.stderr() or "stay" in recording.stderr(), recording.stderr())
        bench.allocsnap("eject", str(told.pid), status=None)
    told.do("keep(kept, 10)")


def test_exact_with_tracemalloc_that_stops_above_when_the_hooks_have_gone(bench):
    """It puts the hooks back, which must not harm the process, whatever stays of them."""
    told = start(bench)
    recording = attach(bench, told)
    told.do("import tracemalloc\ntracemalloc.start()\nkeep(kept, 200)")
    recording.end(signal.SIGINT, status=None)
    told.do("keep(kept, 100)\ntracemalloc.stop()\nkeep(kept, 100)\ndel kept[:350]\nassert len(kept) == 50")


def test_exact_with_tracemalloc_that_stops_below(bench):
    """The hooks are in the functions that it puts back."""
    told = start(bench, "-X", "tracemalloc=5")
    recording = attach(bench, told)
    told.do("keep(kept, 100)\nimport tracemalloc\ntracemalloc.stop()\nkeep(kept, 200)\ndel kept[:50]")
    path = recording.snapshot()
    check_equal((kept(bench, path), losses_of(bench.show(path))), (250, {}), "blocks and losses after tracemalloc")
    end_and_eject(bench, recording, told)


SAVES = """
import ctypes
class Allocator(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in ("ctx", "malloc", "calloc", "realloc", "free")]
saved = [Allocator() for _ in range(3)]
for domain in range(3):
    ctypes.pythonapi.PyMem_GetAllocator(domain, ctypes.byref(saved[domain]))
"""
RESTORES = "for domain in range(3): ctypes.pythonapi.PyMem_SetAllocator(domain, ctypes.byref(saved[domain]))"


def test_exact_notices_that_its_hooks_were_replaced(bench):
    """Functions that were saved before come back: blocks are freed unseen, and that is said."""
    told = start(bench)
    told.do(SAVES)
    recording = attach(bench, told)
    told.do("keep(kept, 100)")
    check_equal(kept(bench, recording.snapshot()), 100, "blocks")
    told.do(RESTORES)
    told.do("del kept[:]\nkeep(kept, 10)")
    shown = bench.show(recording.snapshot())
    wait_for(lambda: "other functions stand" in recording.stderr(), f"nothing is said of {shown['counters']}", 15)
    check(shown.get("gaps"), "no gap in the snapshot")
    recording.end(signal.SIGINT, status=None)
    told.do("keep(kept, 10)")


# ---- where it runs, what it costs ----

def test_exact_threads_have_the_numbers_of_the_host(bench):
    """The process has a PID namespace of its own."""
    outer = start(bench, prefix=(tool("unshare"), "--pid", "--fork", "--kill-child", "--mount-proc"))
    pid, = (child for child, comm in harness.children_of(outer.pid) if comm.startswith("python3"))
    recording = bench.attach([pid], EXACT)
    outer.do("import threading\nends = threading.Event()\nthreads = [threading.Thread(target=lambda nr=nr: (keep(kept, nr), ends.wait()))"
             " for nr in (300, 400)]\nfor thread in threads: thread.start()\nkeep(kept, 100)\n"
             "import time\nwhile len(kept) < 800: time.sleep(0.01)")
    path = recording.snapshot()
    rows = bench.stats(path, "--group-by", "thread", "--min-size", str(BLOCK), "--max-size", str(BLOCK))["statistics"]
    counts = collections.Counter()
    for row in rows:
        counts[int(row["key"])] += row["count"]
    tids = sorted(int(name) for name in os.listdir(f"/proc/{pid}/task"))
    check_equal((sorted(counts), counts.get(pid), sorted(counts.values())), (tids, 100, [100, 300, 400]), "blocks by thread")
    outer.do("ends.set()\nfor thread in threads: thread.join()")
    recording.end(signal.SIGINT)


LEAKS = """
import threading, time
sessions = []
def serve():
    while True:
        remember(bytes(700))
        answer = [str(i) for i in range(50)]
        time.sleep(0.002)
def remember(request):
    sessions.append({"request": request, "at": time.time()})
for _ in range(2):
    threading.Thread(target=serve, daemon=True).start()
"""


def test_exact_leaks_names_the_line_first(bench):
    told = start(bench)
    told.do(LEAKS)
    answer = bench.run([ALLOCSNAP, "leaks", str(told.pid), EXACT, "--for", "12s"], seconds=90)[0]
    first = next((line for line in answer.splitlines() if line.startswith(("LEAKS", "MAY LEAK"))), "")
    check(first.startswith("LEAKS") and re.search(r"<told>:(6|11)\b", answer), f"first row {first!r} of {answer}")
    is_gone(told)


def test_exact_is_refused_where_no_python_runs(bench):
    harness.need_injection()
    program = bench.start([tool("sleep"), "1000"])
    wait_for(lambda: pathlib.Path(f"/proc/{program.pid}/wchan").read_text(encoding="utf-8") not in ("", "0"), "sleep sleeps")
    before = maps(program.pid)
    _, stderr = bench.allocsnap("attach", EXACT, "--domain", "python", str(program.pid), "-o", bench.path("no"), status=1)
    check_equal((stderr.count("\n"), "runs no CPython" in stderr), (1, True), stderr)
    check_equal(maps(program.pid), before, "what it maps", Law)


WORK = "import json\nfor i in range(300):\n kept.append(json.loads(json.dumps([{'a': list(range(i)), 'b': 'x' * i}])))\ndel kept[:]"


def calls_of(bench, told):
    """The system calls of a piece of work, but for those that only wait for the tracer."""
    path = bench.path("calls")
    tracer = bench.start([tool("strace"), "-f", "-c", "-o", path, "-p", str(told.pid)])
    wait_for(lambda: "attached" in tracer.stderr(), "strace")
    told.do(WORK)
    tracer.popen.send_signal(signal.SIGINT)
    tracer.wait()
    rows = [line.split() for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines()]
    return {row[-1]: int(row[3]) for row in rows if len(row) > 4 and row[3].isdigit() and row[-1] != "total"}


def test_exact_hooks_make_no_system_calls(bench):
    """Once the process has its memory, which malloc keeps, the same work makes the same calls."""
    told = start(bench, MALLOC_TOP_PAD_="64000000", MALLOC_TRIM_THRESHOLD_="1000000000", MALLOC_MMAP_THRESHOLD_="1000000000")
    told.do(WORK)
    told.do(WORK)
    without = calls_of(bench, told)
    recording = attach(bench, told)
    told.do(WORK)
    check_equal(calls_of(bench, told), without, "system calls with hooks")
    check(bench.show(recording.snapshot())["counters"]["allocations"] > 10000, "nothing was recorded")
    recording.end(signal.SIGINT)
