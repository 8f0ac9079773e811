# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""--domain python: what CPython allocates, with Python's tracebacks, against CPython's own tracemalloc."""
import collections
from functools import partial
import glob
import json
import os
import pathlib
import signal

import harness
from harness import ALLOCSNAP, Process, Skip, check, check_equal, losses_of, need_sessions
import python_blocks
import pythons
from pythons import Python

PYTHON = "/usr/bin/python3"
OWN = Python([PYTHON], {})
TARGET = pathlib.Path(__file__).with_name("python_target.py")
FRAMES = 25
# Objects of the same size come and go in another order if hashes differ.
ENVIRONMENT = dict(os.environ, PYTHONHASHSEED="0", PYTHONDONTWRITEBYTECODE="1")


class Target(Process):
    """python_target.py."""

    def ready(self):
        check_equal(self.line(120), "ready", "python_target.py")  # some have to compile their library
        return self

    def order(self, text):
        self.write(text + "\n")
        check_equal(self.line(600), text.split()[0], "its answer")


def start(bench, python=OWN, target=TARGET):
    need_sessions()
    if not os.path.exists(python.argv[-1]):
        raise Skip(f"there is no {python.argv[-1]}")
    return bench.start([*python.argv, "-S", str(target)], kind=Target, env=ENVIRONMENT | python.environment).ready()


def attach(bench, target, *options):
    return bench.attach([target], "--domain", "python", "--traceback-limit", str(FRAMES), *options)


def traces_of_work(traces):
    """[domain, size, [[file, line]…], total] → how often each is there, if a frame is of python_work.py."""
    found = collections.Counter()
    for trace in traces:
        frames = tuple((os.path.basename(file), line) for file, line in trace[2])
        if any(file == "python_work.py" for file, _ in frames):
            found[trace[1], frames] += 1
    return found


def recorded(bench, path):
    return traces_of_work(json.loads(bench.allocsnap("convert", path, "-o", "-")[0])["traces"])


def dumped(bench, target):
    target.order("dump " + bench.path("dump"))
    return traces_of_work(json.loads(pathlib.Path(bench.path("dump")).read_text(encoding="utf-8")))


def check_nothing_lost(bench, path, ignored=()):
    check_equal(losses_of(bench.show(path), ("tracebacks_limited", *ignored)), {}, "losses")


def examples(traces):
    return f"{sum(traces.values())}, as {list(traces.items())[:3]}"


def compare_in_one_process(bench, what, starts_before, *options, python=OWN, ignored=()):
    """Both record the same process. Its tracemalloc allocates, too, and its own blocks are not in its own account.
    options: of the recording; ignored: losses."""
    target = start(bench, python)
    if starts_before:
        target.order(f"start {FRAMES}")
    recording = attach(bench, target, *options)
    if not starts_before:
        target.order(f"start {FRAMES}")
    target.order("work " + what)
    path = recording.snapshot()
    ours, theirs = recorded(bench, path), dumped(bench, target)
    check(sum(theirs.values()) > 500, f"tracemalloc has only {examples(theirs)}")
    check(not theirs - ours, f"only tracemalloc has {examples(theirs - ours)}; only we {examples(ours - theirs)}")
    check_nothing_lost(bench, path, ignored)


def test_python_blocks_are_recorded_from_the_first_one_on(bench):
    start(bench)
    out = bench.path("out")
    bench.allocsnap("run", "--domain", "python", "-o", out, "--", PYTHON, "-S", "-c", "kept = [bytes(1000) for _ in range(999)]")
    path = str(next(pathlib.Path(out).rglob("*.snap")))
    shown = bench.show(path)
    check_equal(losses_of(shown, ("tracebacks_limited",)), {}, "losses")
    check_equal(shown["counters"]["unknown_frees"], 0, "frees of blocks that are not known")
    check(shown["counters"]["allocations"] > 5000, f"only {shown['counters']['allocations']} allocations")


def test_python_domain_is_refused_where_it_cannot_be(bench):
    target = start(bench)
    for option in ("--follow-forks", "--no-return-probes"):
        errors = bench.allocsnap("attach", str(target.pid), "--domain", "python", option, status=1)[1]
        check_equal((errors.count("\n"), option in errors), (1, True), errors)


def test_python_domain_of_another_program_is_refused(bench):
    need_sessions()
    target = bench.start(["/bin/sleep", "1000"])
    errors = bench.allocsnap("attach", str(target.pid), "--domain", "python", status=1)[1]
    check("has none of the chosen domains" in errors, errors)


# ---- python exact ----
#
# --domain python against the tables of tracemalloc in the same process, block by block, in both directions.

def start_tracing(bench, *options, python=OWN, **environment):
    need_sessions()
    if python is OWN and not (3, 9) <= (pythons.version_of(*OWN.argv) or (0,)) < (3, 15):
        raise Skip(f"{OWN.argv[0]} is no CPython 3.9 to 3.14")
    return bench.start([*python.argv, "-S", *options, str(TARGET)], kind=Target,
                       env={**ENVIRONMENT, **python.environment, **environment}).ready()


def attach_exact(bench, target, *options):
    return bench.attach([target], "--domain", "python", "--traceback-limit", str(FRAMES), "--no-compact", *options)


def order(target, *orders):
    """Carries out orders, and waits until the program stands still."""
    for text in orders:
        target.order(text)
    python_blocks.wait_until_idle(target)


def short(block):
    size, frames, total = block
    return size, [f"{os.path.basename(file)}:{line}" for file, line in frames[:5]], total


def some(blocks):
    """Blocks by address, or pairs of a block of ours and one of theirs."""
    return f"{len(blocks)}, as " + ", ".join(
        f"{address:#x} " + (" and ".join(map(str, map(short, block))) if len(block) == 2 else str(short(block)))
        for address, block in sorted(blocks.items())[:4])


def check_lists(bench, path, ignored=()):
    """The allocator's own lists were compared with the account, and are the same. ignored: losses."""
    shown = bench.show(path)
    check_equal(losses_of(shown, ("tracebacks_limited", *ignored)), {}, "losses")
    check("python_older_count" in shown["metadata"], "the allocator's lists were not compared")
    return shown["metadata"]["python_older_count"]


def behind_heads(ours, theirs):
    """Blocks by the addresses that debug hooks give out: 16 bytes are before them, twice if hooks of two domains are passed."""
    return {address + (32 if address + 32 in theirs else 16): block for address, block in ours.items()}


def check_exact(bench, path, target, before, ignored=(), has_heads=False):
    ours, theirs = python_blocks.of_snapshot(path), python_blocks.of_tracemalloc(target.pid)
    found = python_blocks.compare(behind_heads(ours, theirs.blocks) if has_heads else ours, theirs, before)
    check(len(found.both) > 500, f"only {len(found.both)} blocks to compare")
    for name in ("sizes", "only_ours", "only_theirs", "tracebacks"):
        check(not getattr(found, name), f"{name}: {some(getattr(found, name))}; in both: {len(found.both)}")
    check_lists(bench, path, ignored)


def compare_shape(bench, shape, python=OWN, ignored=(), **environment):
    target = start_tracing(bench, "-X", f"tracemalloc={FRAMES}", python=python, **environment)
    order(target, "shape everything")  # imports and caches
    before = python_blocks.of_tracemalloc(target.pid)
    recording = attach_exact(bench, target)
    order(target, "shape " + shape)
    check_exact(bench, recording.snapshot(), target, before, ignored, environment.get("PYTHONMALLOC") == "debug")
    recording.end(signal.SIGINT)


@harness.rows({
    "are_those_of_its_own_tracemalloc": (compare_in_one_process, "plain", True),
    "are_those_of_a_tracemalloc_that_starts_later": (compare_in_one_process, "plain", False),
    "of_threads_are_those_of_tracemalloc": (compare_in_one_process, "threads", True),
    "of_libraries_are_those_of_tracemalloc": (compare_in_one_process, "tracked", True),  # by PyTraceMalloc_Track()
    "are_exactly_those_of_tracemalloc": (compare_shape, "everything"),
    "of_free_lists_are_exactly_those_of_tracemalloc": (compare_shape, "free_lists"),
    "of_threads_are_exactly_those_of_tracemalloc": (compare_shape, "threads"),
    "of_the_c_library_are_exactly_those_of_tracemalloc": (partial(compare_shape, PYTHONMALLOC="malloc"), "everything"),
    "behind_debug_hooks_are_exactly_those_of_tracemalloc": (partial(compare_shape, PYTHONMALLOC="debug"), "everything"),
}, of_core=("are_exactly_those_of_tracemalloc",))
def test_python_blocks(bench, compare, *arguments):
    compare(bench, *arguments)


def compare_while_tracemalloc_stops(bench, python=OWN, ignored=()):
    """Its functions come in front of pymalloc's, go, and come again; what it has at the end is compared."""
    target = start_tracing(bench, python=python)
    order(target, "shape everything")
    recording = attach_exact(bench, target)
    order(target, f"start {FRAMES}", "shape free_lists", "stop", "shape everything", f"start {FRAMES}", "shape everything")
    path = recording.snapshot()
    theirs = python_blocks.of_tracemalloc(target.pid)
    found = python_blocks.compare(python_blocks.of_snapshot(path), theirs, theirs._replace(places={}))
    check(len(found.both) > 500, f"only {len(found.both)} blocks to compare")
    for name in ("sizes", "only_theirs", "tracebacks"):
        check(not getattr(found, name), f"{name}: {some(getattr(found, name))}; in both: {len(found.both)}")
    check_equal(losses_of(bench.show(path), ("tracebacks_limited", *ignored)), {}, "losses")
    recording.end(signal.SIGINT)


def test_python_blocks_are_exact_while_tracemalloc_stops_and_starts(bench):
    compare_while_tracemalloc_stops(bench)


def of_shapes(blocks):
    """How often each (bytes, frames, frames in all) is there, of blocks that python_shapes.py asked for."""
    return collections.Counter(block for block in blocks.values()
                               if any(file.endswith("/python_shapes.py") for file, _ in block[1]))


NAMES_KEPT, NAME_BYTES = 2, 64  # names of attributes stay in the types' cache until addresses collide, which differ


def test_python_blocks_are_those_of_another_process_with_tracemalloc(bench):
    """The same program twice: with tracemalloc, and recorded. Blocks that only the harness asked for are left out."""
    traced, plain = start_tracing(bench, "-X", f"tracemalloc={FRAMES}"), start_tracing(bench)
    for target in (traced, plain):
        order(target, "shape everything", "collect")
    recording = attach_exact(bench, plain)
    for target in (traced, plain):
        order(target, "empty", "shape everything")
    ours = of_shapes(python_blocks.of_snapshot(recording.snapshot()))
    theirs = of_shapes(python_blocks.of_tracemalloc(traced.pid).blocks)
    check(theirs.total() > 5000, f"only {theirs.total()} blocks to compare")
    differ = (theirs - ours) + (ours - theirs)
    check(differ.total() <= NAMES_KEPT and all(block[0] <= NAME_BYTES for block in differ),
          f"only tracemalloc {[*map(short, theirs - ours)][:5]}, only we {[*map(short, ours - theirs)][:5]}, "
          f"of {theirs.total()}")


def test_python_without_retag_only_tracebacks_of_free_lists_differ(bench):
    target = start_tracing(bench, "-X", f"tracemalloc={FRAMES}")
    order(target, "shape everything")
    before = python_blocks.of_tracemalloc(target.pid)
    recording = attach_exact(bench, target, "--no-retag")
    order(target, "shape everything")
    found = python_blocks.compare(python_blocks.of_snapshot(recording.snapshot()),
                                  python_blocks.of_tracemalloc(target.pid), before)
    for name in ("sizes", "only_ours", "only_theirs"):
        check(not getattr(found, name), f"{name}: {some(getattr(found, name))}; in both: {len(found.both)}")
    check(0 < len(found.tracebacks) < len(found.both) / 2, f"{len(found.tracebacks)} of {len(found.both)}")


def test_python_blocks_are_those_of_the_allocators_lists(bench):
    """Without tracemalloc. What is older only becomes less."""
    target = start_tracing(bench)
    order(target, "shape everything")
    recording = attach_exact(bench, target)
    older = check_lists(bench, recording.snapshot())
    for shape in ("everything", "threads", "reallocated"):
        order(target, "shape " + shape)
        path = recording.snapshot()
        now = check_lists(bench, path)
        check(1000 < now <= older, f"{now} older objects after {older}")
        older = now
    shown = bench.allocsnap("show", path)[0]
    check(f"older than the recording: {older} objects of Python" in shown, shown)


# ---- python embedded ----
#
# Python in a program of C: the key of its threads' states is any, and there are several interpreters.

LIBRARIES = "/usr/lib/*-linux-gnu/libpython3.11.so.1.0"
KEEPS = """
try:
    kept
except NameError:
    kept = []
def keep():
    kept.extend(str(i) * 20 for i in range(2000))
keep()
"""
LINE = KEEPS.split("\n").index("    kept.extend(str(i) * 20 for i in range(2000))") + 1


def start_embedded(bench, keys, code, *how):
    need_sessions()
    library = next(iter(glob.glob(LIBRARIES)), None)
    if not library:
        raise Skip(f"there is no {LIBRARIES}")
    path = os.path.join(harness.WORKLOADS, "embeds_python")
    return bench.start([path, library, str(keys), code, *how], kind=harness.Workload, env=ENVIRONMENT).ready()


def recorded_rows(bench, keys, code, *how):
    """Its rows by line after one command, and its losses."""
    target = start_embedded(bench, keys, code, *how)
    target.order("go")
    recording = bench.attach([target], "--domain", "python")
    target.order("go")
    path = recording.snapshot()
    rows = [(row["traceback"][0]["lineno"], row["count"]) for row in bench.stats(path)["statistics"]]
    return rows, losses_of(bench.show(path), ("tracebacks_limited", "python_creations_unknown"))


@harness.core
def test_python_lines_of_an_embedded_python_with_any_key(bench):
    for keys in (0, 31, 200):
        rows, losses = recorded_rows(bench, keys, KEEPS)
        check_equal((rows[0][0], losses), (LINE, {}), f"the first row's line, losses after {keys} keys: {rows[:3]}")


def test_python_that_began_in_a_thread_that_has_ended(bench):
    for keys in (0, 200):
        rows, losses = recorded_rows(bench, keys, KEEPS, "thread")
        check_equal((rows[0][0], losses), (LINE, {}), f"the first row's line, losses after {keys} keys: {rows[:3]}")


def test_python_of_a_second_interpreter_is_counted(bench):
    """Python 3.11 has one allocator for all, and no frames of the second one at the key: tracemalloc finds none either."""
    rows, losses = recorded_rows(bench, 40, KEEPS + "\f" + KEEPS)
    counts = dict(rows)
    check_equal((counts.get(LINE, 0) // 1000, counts.get(0, 0) // 1000), (2, 2), f"thousands of rows {rows[:4]}")
    check(losses.get("python_states_missing", 0) >= 2000, f"losses {losses}")


# ---- python forged ----
#
# --domain python of a program that says it is CPython, and lies: what it costs is bounded, and the lies are counted.

CALLS = 400
MEMORY_MOST = 300 << 20  # of the recorder; a lie is 1 GiB long


def attach_forged(bench):
    need_sessions()
    target = bench.workload("forged_python")
    return target, bench.attach([target], "--domain", "python", "--traceback-limit", "25")


def peak_memory(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmHWM:"))


def shown_after(bench, what, calls=CALLS):
    """The JSON of `show` for a snapshot after such a lie, and its path."""
    target, recording = attach_forged(bench)
    target.order("forge " + what)
    target.order(f"call {calls}")
    path = recording.snapshot()
    check(peak_memory(recording.pid) < MEMORY_MOST, f"the recorder has taken {peak_memory(recording.pid)} bytes")
    target.order("forge honest")
    target.order("call 10")
    check(recording.snapshot(), "a snapshot after the lies")
    recording.end(signal.SIGINT)
    target.is_unharmed()
    return bench.show(path), path


def check_allocations(shown, nr=CALLS):
    check_equal(shown["counters"]["allocations"], nr, "allocations")


def frames_of(bench, path):
    """{(file, line)} of all tracebacks."""
    return {(frame["filename"], frame["lineno"]) for row in bench.stats(path, "--group-by", "traceback")["statistics"]
            for frame in row["traceback"]}


def test_python_forged_but_honest(bench):
    """The forgery is good enough: without a lie its objects and frames are recorded."""
    shown, path = shown_after(bench, "honest")
    check_allocations(shown)
    check_equal(losses_of(shown), {}, "losses")
    check_equal({file for file, _ in frames_of(bench, path)}, {"lies.py"}, "files")


def test_python_frames_in_a_circle_are_cut(bench):
    shown, path = shown_after(bench, "frames")
    check_allocations(shown)
    rows = bench.stats(path, "--group-by", "traceback")["statistics"]
    check_equal({len(row["traceback"]) for row in rows}, {25}, "frames of each traceback")


def test_python_names_of_a_gibibyte_are_cut(bench):
    shown, path = shown_after(bench, "names")
    check_allocations(shown)
    check(all(len(file) <= 3 * 4096 for file, _ in frames_of(bench, path)), "a file's name is long")


def test_python_line_tables_of_a_gibibyte_are_not_read(bench):
    shown, path = shown_after(bench, "lines")
    check_allocations(shown)
    check(all(not line for _, line in frames_of(bench, path)), "a line without a table")


def test_python_pools_that_cannot_be_read_are_counted(bench):
    shown, _ = shown_after(bench, "pools")
    check(losses_of(shown).get("python_blocks_unfound", 0) >= CALLS // 2, f"losses: {losses_of(shown)}")


def test_python_key_that_no_thread_has_gives_unknown_frames(bench):
    shown, path = shown_after(bench, "key")
    check_allocations(shown)
    check_equal(len(bench.stats(path, "--group-by", "traceback")["statistics"]), 1, "tracebacks")


def test_python_code_without_end_is_bounded(bench):
    """Four thousand code objects at once: those that found no room are counted."""
    shown, _ = shown_after(bench, "codes", 4000)
    check_allocations(shown, 4000)


def test_python_tables_in_a_circle_are_refused(bench):
    need_sessions()
    target = bench.workload("forged_python", "tables")
    errors = bench.allocsnap("attach", str(target.pid), "--domain", "python", status=1)[1]
    check("are in front of its allocators" in errors, errors)
    target.is_unharmed()


# ---- python free lists ----
#
# A free list gives the memory of an object that was dropped to one that is kept: the line that keeps it is named.

# Each round drops one before it keeps one, so that the allocator gives every block to the line that drops.
PROGRAM = """
import contextvars, sys
kept = []
def drop(i):
    one = MAKE
def keep(i):
    kept.append(MAKE)
print("ready", flush=True)
for line in sys.stdin:
    for i in range(1000, 3000):
        drop(i); keep(i)
    print("done", flush=True)
"""
LINE_THAT_DROPS, LINE_THAT_KEEPS, ROUNDS = 5, 7, 2000
KINDS = ("i / 7", "(i, None)", "[i]", "{'a': i}", "contextvars.Context()", "{i: i}.items()", "slice(i, i)")


def start_kind(bench, make, python=OWN):
    need_sessions()
    program = bench.start([*python.argv, "-Sc", PROGRAM.replace("MAKE", make)], env=ENVIRONMENT | python.environment)
    check_equal(program.line(), "ready", "its first line")
    return program


def count_rows(bench, make, *options, python=OWN):
    """{line: blocks that live after it has kept as many as there are rounds}, the metadata."""
    program = start_kind(bench, make, python)
    recording = bench.attach([program], *options)
    program.write("go\n")
    check_equal(program.line(60), "done", "its answer")
    path = recording.snapshot()
    recording.end(signal.SIGINT)
    shown = bench.show(path)
    check_equal(losses_of(shown), {}, f"losses of {make}")
    return {row["traceback"][0]["lineno"]: row["count"] for row in bench.stats(path)["statistics"]}, shown["metadata"]


@harness.core
def test_python_free_lists_give_blocks_to_the_line_that_keeps_them(bench):
    for make in KINDS:
        rows, metadata = count_rows(bench, make)
        tables = ROUNDS if "{" in make else 0  # tables of the keys have a list of their own, and are no objects
        check(rows[LINE_THAT_KEEPS] >= ROUNDS - 300, f"{make}: {rows}")
        check(rows.get(LINE_THAT_DROPS, 0) <= tables + 20, f"{make}: {rows}")
        check_equal(metadata.get("python_retag"), "1", "the metadata")


def test_python_without_retag_answers_say_so(bench):
    rows, metadata = count_rows(bench, "(i, None)", "--no-retag")
    check(rows[LINE_THAT_DROPS] >= ROUNDS - 300 and "python_retag" not in metadata, f"{rows}, {metadata}")
    program = start_kind(bench, "(i, None)")
    out = bench.run([ALLOCSNAP, "leaks", str(program.pid), "--for", "4s", "--no-retag", "-o", bench.path("out")])[0]
    check("under the first object's line" in out and "without --no-retag" in out, out)
    errors = bench.allocsnap("attach", str(program.pid), "--no-retag", "--retag", status=1)[1]
    check("exclude each other" in errors, errors)


# ---- python versions ----
#
# --domain python with each CPython that is accepted, against its own tracemalloc, block by block. Those that are not
# here are skipped.

# Debian's 3.14 names its allocators in a function that has other calls, too: two places that do not allocate.
NAMES_3_14 = ("python_places_unknown",)


PYTHONS = {
    "3_13_of_debian": ((), pythons.of_suite, "trixie", 13),
    "3_14_of_debian": (NAMES_3_14, pythons.of_suite, "sid", 14),
    **{f"3_{minor}_of_the_environment": ((), pythons.named_like, minor) for minor in range(9, 14)},
}


@harness.rows(PYTHONS)
def test_python(bench, ignored, find, *which):
    python = find(*which)
    for shape in ("everything", "free_lists", "threads"):
        compare_shape(bench, shape, python, ignored)


@harness.rows(PYTHONS)
def test_python_with_other_allocators(bench, ignored, find, *which):
    """The C library's blocks, debug hooks, a tracemalloc that comes later, blocks of libraries."""
    python = find(*which)
    for name in ("malloc", "debug"):
        compare_shape(bench, "everything", python, ignored, PYTHONMALLOC=name)
    compare_while_tracemalloc_stops(bench, python, ignored)
    compare_in_one_process(bench, "tracked", True, python=python, ignored=ignored)
