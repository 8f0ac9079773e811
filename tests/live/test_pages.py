# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The domain of pages: a program with known pages, and programs of any runtime, beside the kernel's own numbers."""
import collections
import json
import os
import pathlib
import shutil
import signal

import harness
from harness import ALLOCSNAP, WORKLOADS, Skip, Workload, check, check_equal, losses_of, snapshots_below, tool, wait_for

PAGE, KIB = 4096, 1 << 10
PARTS = ("traced", "older", "inherited", "by_kernel", "unattributed")

# {function: resident pages} of workloads/pages.c, in any way to see them come, and in each; docs/pages.md has what differs.
KNOWN = {
    "some": 500, "not_needed": 700, "unmapped": 600, "touched_again": 150, "move": 100, "of_brk": 400,
    "read_then_written": 250, "by_system_call": 320, "of_file": 130, "huge": 512, "of_thread": 90,
    "to_copy": 412, "copy_in_parent": 100, "to_grow": 300, "to_stay": 300, "to_collapse": 500,
}
KNOWN_BY = {
    "rmap": {"to_move": 800, "populated": 700, "locked": 20, "made_ready": 60, "fill_hole": 300, "populate_again": 120},
    "faults": {"to_discard": 120},  # of populate_again(): an old note
}
NOT_ATTRIBUTED = {"rmap": 0, "faults": 800 + 700 + 20 + 60 + 300 + 75}
BY_ANOTHER = {"rmap": 75, "faults": 0}
SPREAD = {"rmap": 0, "faults": 511}
FILLED = 12  # pages that a collapse adds: by the kernel, but by faults of the huge page's first event
FUNCTIONS = {*KNOWN, *KNOWN_BY["rmap"], *KNOWN_BY["faults"], "collapse", "read_only", "copy_in_child", "by_another"}
INLINED = ("touch", "look", "map")
OLDER = 333
ZEROS = 250  # of read_only()
OTHER_PAGES = 80  # of the program's start, of libraries and stacks


def pages_by_function(bench, path):
    """{function: pages}, of the functions of the workload; the others' pages are under None."""
    pages = collections.Counter()
    for row in bench.stats(path, "--group-by", "traceback")["statistics"]:
        names = [frame.get("function") for frame in row["traceback"]]
        first, second = [name for name in names + [None, None] if name not in INLINED][:2]
        name = second if second in FUNCTIONS else first  # below a system call
        pages[name if name in FUNCTIONS else None] += row["size"] // PAGE
    return pages


def numbers_of(shown):
    """The sums of the snapshot; each resident page is in one of them."""
    numbers = {key[6:-6]: int(value) for key, value in shown["metadata"].items()
               if key.startswith("pages_") and key.endswith("_bytes")}
    check_equal(sum(numbers[part] for part in PARTS), numbers["rss_anon"], "the sum of the parts")
    check_equal(shown["traced_memory"]["current"], numbers["traced"], "the blocks")
    return numbers


def rss_anon(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * KIB
    return 0


def zeros_in(shown):
    """Pages that were only read count before Linux 6.7, where the process shares pages with its child."""
    return ZEROS if shown["metadata"]["pages_scan"] == "with zeros" else 0


def known_pages(shown, is_collapsed):
    """The pages by function, in the way and on the kernel of the recording."""
    way = shown["pages"]["by"]
    known = KNOWN | KNOWN_BY[way]
    if zeros_in(shown) and way == "faults":
        known["read_only"] = ZEROS
    if is_collapsed and way == "faults":
        known["to_collapse"] += FILLED
    return known


def way_of_the_machine(bench):
    found, = [row["found"] for row in bench.json("doctor")["machine"]["checks"] if row["name"] == "new pages"]
    return next((way for way in KNOWN_BY if f"goes by {way}" in found), None)


@harness.core
@harness.rows({"rmap": ("rmap", "functions"), "faults": ("faults", "tracepoints"), "events of faults": ("faults", "events")})
def test_pages_are_known_by(bench, way, by):
    """Each function's pages, to the page; all of them together are RssAnon, to the page."""
    with harness.environment("ALLOCSNAP_PAGES_BY", by):
        if way_of_the_machine(bench) != way:
            raise Skip(f"the kernel has no {by} for this")
        program, recording = bench.recorded("pages", "--domain", "pages")
    _, done = program.order("go")
    with open(f"/proc/{program.pid}/mem", "r+b", buffering=0) as memory:
        check_equal(os.pwrite(memory.fileno(), bytes(75 * PAGE), done["written"]), 75 * PAGE, "pages of by_another()")
    path = recording.snapshot()
    shown = bench.show(path)
    numbers = numbers_of(shown)
    zeros = zeros_in(shown)
    check_equal(shown["pages"]["by"], way, "the way")
    check_equal(numbers["rss_anon"], rss_anon(program.pid) + zeros * PAGE, "RssAnon")
    pages = pages_by_function(bench, path)
    check(pages.pop(None, 0) <= OTHER_PAGES, "pages of no function of the program")
    check_equal(dict(pages), known_pages(shown, done["collapsed"]), "pages")
    check(0 <= numbers["older"] // PAGE - OLDER <= OTHER_PAGES, f"{numbers['older']} bytes are older")
    unseen = NOT_ATTRIBUTED[way] + (zeros if way == "rmap" else 0)
    check(0 <= numbers["unattributed"] // PAGE - unseen <= OTHER_PAGES, f"{numbers['unattributed']} bytes not attributed")
    by_kernel = BY_ANOTHER[way] + (FILLED if done["collapsed"] and way == "rmap" else 0)
    check_equal(numbers["by_kernel"] // PAGE, by_kernel, "pages that another process or the kernel brought")
    if not zeros:
        spread = SPREAD[way] + (FILLED if done["collapsed"] and way == "faults" else 0)
        check_equal((numbers["spread"], numbers["zero"]), (spread * PAGE, ZEROS * PAGE), "of a huge page, and zeros")
    check_equal(losses_of(shown).get("pages_dropped", 0), 0, "losses")


def test_pages_of_a_child(bench):
    """A recorded child has its own copies; the rest is inherited."""
    program, recording = bench.recorded("pages", "--domain", "pages", "--follow-forks")
    _, done = program.order("go")
    anon = rss_anon(done["child"])
    path, = [path for path in recording.end(signal.SIGINT) if f".{done['child']}/" in path]
    shown = bench.show(path)
    numbers = numbers_of(shown)
    check_equal(numbers["rss_anon"], anon + zeros_in(shown) * PAGE, "RssAnon")
    check_equal(pages_by_function(bench, path)["copy_in_child"], 64, "copies")
    check(numbers["inherited"] // PAGE > 4000, f"{numbers['inherited']} bytes are inherited")
    check_equal((numbers["older"], numbers["unattributed"]), (0, 0), "other pages")


# Once a process has ended, faults know a single page of each huge one. 41 is PR_SET_THP_DISABLE.
SMALL_PAGES = "import ctypes; ctypes.CDLL(None).prctl(41, 1, 0, 0, 0); "


def test_pages_of_a_run_from_its_start(bench):
    """The last snapshot of a program that has ended has what it brought, and says that it is not what was resident."""
    folder = f"{bench.folder}/run"
    bench.allocsnap("run", "--domain", "pages", "-o", folder, "--", "/usr/bin/python3", "-c",
                    SMALL_PAGES + "held = bytearray(40 << 20); gone = bytearray(8 << 20); del gone")
    shown = bench.show(snapshots_below(folder)[-1])
    check_equal(shown["metadata"]["pages_scan"], "none", "what was resident")
    check(48 << 20 <= shown["traced_memory"]["current"] < 80 << 20, f"{shown['traced_memory']} was brought")


WITHOUT_MAIN_THREAD = """
import ctypes, sys, threading
def hold():
    held = bytearray(20 << 20)
    print("held", flush=True)
    threading.Event().wait()
sys.stdin.readline()
threading.Thread(target=hold).start()
sys.stdin.readline()
ctypes.CDLL(None).syscall(60, 0)
"""


def test_pages_of_a_process_that_cannot_be_read(bench):
    """It lives, although its main thread has ended: that its pages are not known does not say that it has ended."""
    program = bench.start(["/usr/bin/python3", "-c", WITHOUT_MAIN_THREAD])
    recording = bench.attach([program], "--domain", "pages")
    program.write("\n")
    check_equal(program.line(), "held", "its output")
    program.write("\n")
    wait_for(lambda: not rss_anon(program.pid), "the main thread ends")
    path = recording.snapshot()
    pages = bench.show(path)["pages"]
    check_equal((pages["ended"], pages["resident_known"]), (False, False), "whether it has ended, and what is resident")
    check("its main thread has ended" in bench.allocsnap("show", path)[0], "no reason in show")


def test_pages_stay_with_an_exec(bench):
    """The program after an exec has its own pages, and none of the program's before."""
    shell = bench.start(["sh", "-c", "read line; exec /usr/bin/python3 -c 'held = bytearray(40 << 20); input()'"])
    recording = bench.attach([shell], "--domain", "pages")
    shell.write("\n")
    wait_for(lambda: rss_anon(shell.pid) > 40 << 20, "its memory")
    numbers = numbers_of(bench.show(recording.snapshot()))
    check(numbers["traced"] >= 40 << 20 and not numbers["older"], f"{numbers}")


def test_pages_by_samples(bench):
    """One page in eight: each function's share is right, and RSS is not a guess."""
    program, recording = bench.recorded("pages", "--domain", "pages", "--sample", "32K")
    _, done = program.order("go")
    path = recording.snapshot()
    shown = bench.show(path)
    check_equal(shown["pages"]["anonymous"], rss_anon(program.pid) + zeros_in(shown) * PAGE, "RssAnon")
    known = known_pages(shown, done["collapsed"])
    huge = pages_by_function(bench, path)["huge"]  # that is one fault: a sample of 16 MiB, or none
    check(huge in ((0, 512 * 8) if shown["pages"]["by"] == "faults" else (512,)), f"{huge} pages of a huge page")
    known = sum(known.values()) - known["huge"]
    traced = shown["traced_memory"]["current"] // PAGE - huge
    check(abs(traced - known) <= known / 10 + OTHER_PAGES, f"{traced} pages, of {known}")


@harness.alone
def test_pages_of_all_processes(bench):
    """A process that ran already, one that began later, and one that began and ended between two passes."""
    program = bench.workload("pages")
    folder = pathlib.Path(bench.folder, "all")
    recorder = bench.start([ALLOCSNAP, "record", "--domain", "pages", "--comm", "pages", "--comm", "short-lived", "-i", "1s",
                            "-o", str(folder)])
    wait_for(lambda: list(folder.glob(f"*/pages.{program.pid}/*.snap")), "the first pass")
    _, done = program.order("go")
    os.symlink("/usr/bin/python3", bench.path("short-lived"))
    bench.run([bench.path("short-lived"), "-c", SMALL_PAGES + "held = bytearray(20 << 20)"])
    wait_for(lambda: list(folder.glob("*/short-lived.*/*.snap")), "the snapshot of the process that ended")
    recorder.popen.send_signal(signal.SIGINT)
    recorder.wait(60)
    last = {path.parent.name.split(".")[0]: str(path) for path in sorted(folder.rglob("*.snap"))
            if path.parent.name in (f"pages.{program.pid}",) or path.parent.name.startswith("short-lived")}
    pages = pages_by_function(bench, last["pages"])
    del pages[None]
    shown = bench.show(last["pages"])
    numbers_of(shown)
    check_equal(dict(pages), known_pages(shown, done["collapsed"]), "pages")
    ended = bench.show(last["short-lived"])
    check_equal((ended["metadata"]["end"], ended["pages"]["ended"]), ("exited 0", True), "its end")
    check(20 << 20 <= ended["traced_memory"]["current"] < 40 << 20, f"{ended['traced_memory']} was brought")


def functions_of(bench, program):
    """{name: range of its offsets in the file}, of a program that is mapped in one piece."""
    begins = min(int(line.split()[2], 16) for line in bench.run([tool("readelf"), "-lW", program])[0].splitlines()
                 if line.split()[:1] == ["LOAD"])
    symbols = [line.split() for line in bench.run([tool("nm"), "-S", program])[0].splitlines()]
    return {words[3]: range(int(words[0], 16) - begins, int(words[0], 16) - begins + int(words[1], 16))
            for words in symbols if len(words) == 4 and words[2] in "tT"}


def stripped_own_pages(bench):
    """A program that nothing else sees."""
    path = bench.path("own_pages")
    bench.run([tool("strip"), "-o", path, f"{WORKLOADS}/own_pages"])
    return path


def test_pages_name_the_code_that_leaks(bench):
    """A program that nothing else sees: static, stripped, with an allocator of its own, a cache that fills, and churn. The
    first row is the planted leak, and the refusal of the heap leads to it."""
    functions = functions_of(bench, f"{WORKLOADS}/own_pages")
    program = bench.start([stripped_own_pages(bench)], kind=Workload).ready()
    _, said = bench.allocsnap("leaks", str(program.pid), "--for", "4s", status=1)
    check("--domain pages shows which code made its RSS" in said, said)
    leaks = bench.run([ALLOCSNAP, "leaks", str(program.pid), "--domain", "pages", "--for", "10s", "--json"], status=3)[0]
    row = json.loads(leaks)["leaks"][0]
    check_equal((row["verdict"], len(row["lines"])), ("grows", 1), "the first row")
    named = [name for frame in row["lines"][0]["traceback"] for name, offsets in functions.items() if frame["offset"] in offsets]
    check_equal(named[:3], ["fill", "session_open", "main"], "the functions of its traceback")


def start_record(bench, *options):
    """`record` without a domain; the folder of its snapshots."""
    folder = bench.path("record")
    recorder = bench.start([ALLOCSNAP, "record", *options, "-i", "1s", "-o", folder])
    wait_for(lambda: snapshots_below(folder), "the first pass")
    return recorder, folder


def last_of(folder, pid):
    return max(map(str, pathlib.Path(folder).glob(f"*/*.{pid}/*.snap")), default=None)


def metadata_of(bench, folder, pid, key):
    path = last_of(folder, pid)
    return bench.show(path)["metadata"].get(key) if path else None


def growth_begins(bench, folder, program):
    """Waits until its pages are recorded, and until it has grown since then. Returns the bytes that it had before."""
    wait_for(lambda: metadata_of(bench, folder, program.pid, "domains") == "pages", "its pages")
    begun = rss_anon(program.pid)
    wait_for(lambda: rss_anon(program.pid) > begun + (12 << 20), "its growth")
    return begun


def check_is_by_pages(bench, path, grown_from):
    """Its growth, by samples, at the code that leaks; and why, wherever it is shown."""
    shown = bench.show(path)
    check_equal((shown["metadata"]["domains"], shown["metadata"]["sample_bytes"]), ("pages", 32768), "what was recorded")
    check("cost" not in shown, f"a cost that is not known: {shown.get('cost')}")
    check("no file that it maps defines malloc" in shown["pages"]["why"], shown["pages"])
    traced, grown = shown["traced_memory"]["current"], shown["pages"]["anonymous"] - grown_from
    check(max(4 << 20, grown * 2 / 3 - (1 << 20)) < traced < shown["pages"]["anonymous"] * 4 / 3, f"{traced} bytes, grown by {grown}")
    for command in ("show", "stats"):
        check("as nothing else sees the memory of own_pages" in bench.allocsnap(command, path)[0], f"no reason in {command}")
    top = bench.stats(path, "--group-by", "traceback")["statistics"][0]["traceback"]
    functions = functions_of(bench, f"{WORKLOADS}/own_pages")
    check(any(frame["offset"] in functions["session_open"] for frame in top), f"{top}")


@harness.alone
def test_record_has_the_pages_of_what_nothing_else_sees(bench):
    """One that ran already, and two that begin by an exec, of a shell that was recorded and of one that was not; a program with
    a heap that is seen has none."""
    path = stripped_own_pages(bench)
    recorded_shell = shutil.copy(tool("sh"), bench.path("recorded_shell"))
    before = bench.start([path], kind=Workload).ready()
    recorder, folder = start_record(bench, "--comm", "own_pages", "--comm", "grow", "--comm", "recorded_shell")
    heap = bench.workload("grow")
    after = [bench.start([shell, "-c", f"exec {path}"], kind=Workload).ready() for shell in ("sh", recorded_shell)]
    begun = [(program, growth_begins(bench, folder, program)) for program in (before, *after)]
    recorder.popen.send_signal(signal.SIGINT)
    recorder.wait(60)
    for program, at in begun:
        check_is_by_pages(bench, last_of(folder, program.pid), at)
    shown = bench.show(last_of(folder, heap.pid))
    check("pages" not in shown and shown["traced_memory"]["current"], f"{shown['traced_memory']}")
    check("resident pages, as nothing else sees the memory" in bench.allocsnap("list", folder)[0], "no reason in list")
    listed = {row["pid"]: row.get("has_pages") for row in bench.json("list", folder)["processes"]}
    expected = {**{program.pid: True for program, _ in begun}, heap.pid: None}
    check_equal({pid: listed.get(pid, "not there") for pid in expected}, expected, "which have pages")


@harness.alone
def test_record_by_pid_has_the_pages_of_what_nothing_else_sees(bench):
    program = bench.start([stripped_own_pages(bench)], kind=Workload).ready()
    recorder, folder = start_record(bench, "--pid", str(program.pid))
    begun = growth_begins(bench, folder, program)
    recorder.popen.send_signal(signal.SIGINT)
    recorder.wait(60)
    check_is_by_pages(bench, last_of(folder, program.pid), begun)


HEAP = """
void *malloc(unsigned long size) { return (void *)(size & ~15ul); }
void free(void *block) { (void)block; }
"""


@harness.alone
def test_pages_end_when_something_else_sees_the_process(bench):
    """Programs load a library with a heap, which the second one finds probed: pages are forgotten, and blocks are there from
    the first one on."""
    pathlib.Path(bench.path("heap.c")).write_text(HEAP)
    bench.run([tool("gcc"), "-O1", "-shared", "-fPIC", "-nostdlib", "-Wl,-e,malloc", bench.path("heap.c"), "-o", bench.path("heap.so")])
    argv = [stripped_own_pages(bench), bench.path("heap.so")]
    program, second = (bench.start(argv, kind=Workload).ready() for _ in range(2))
    recorder, folder = start_record(bench, "--comm", "own_pages", "--min-bytes", "1")
    for loads in program, second:
        wait_for(lambda: metadata_of(bench, folder, loads.pid, "domains") == "pages", "its pages")
        loads.popen.send_signal(signal.SIGUSR1)
        check(loads.line(), "its library")
        wait_for(lambda: metadata_of(bench, folder, loads.pid, "domains") not in ("pages", None), "its heap")
    recorder.popen.send_signal(signal.SIGINT)
    recorder.wait(60)
    shown = bench.show(last_of(folder, second.pid))
    check("pages" not in shown, f"{shown.get('pages')}")
    check_equal([shown["traced_memory"]["current"], shown["counters"]["allocations"]], [190001, 1], "its blocks")


HOG = """
import mmap, sys
memory = mmap.mmap(-1, 1 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
memory.madvise(mmap.MADV_NOHUGEPAGE)
sys.stdin.readline()
for at in range(0, 1 << 30, 1 << 17):
    memory[at] = 1
print("done", flush=True)
sys.stdin.readline()
"""


@harness.alone
def test_pages_of_one_process_leave_room_for_others(bench):
    """A process that wants four times the room of all loses pages, and the one after it has room for its own."""
    os.symlink("/usr/bin/python3", bench.path("hog"))
    hog, program = bench.start([bench.path("hog"), "-c", HOG]), bench.workload("pages")
    folder = pathlib.Path(bench.folder, "all")
    recorder = bench.start([ALLOCSNAP, "record", "--domain", "pages", "--comm", "pages", "--comm", "hog", "-i", "1s",
                            "--max-blocks", "65536", "-o", str(folder)])
    wait_for(lambda: len(list(folder.glob("*/*/*.snap"))) >= 2, "the first pass")
    hog.write("\n")
    check_equal(hog.line(), "done", "its output")
    program.order("go")
    recorder.popen.send_signal(signal.SIGINT)
    recorder.wait(60)
    shown = {comm: bench.show(max(map(str, folder.glob(f"*/{comm}.*/*.snap")))) for comm in ("hog", "pages")}
    check(losses_of(shown["hog"])["pages_dropped"] > 5000, f"{losses_of(shown['hog'])}")
    check_equal(losses_of(shown["pages"]).get("pages_dropped", 0), 0, "pages of the other process that were dropped")


@harness.rows({"another": ("malloc,pages",), "budget": ("pages", "--max-overhead", "5"),
               "size": ("pages", "--min-size", "64"), "growth": ("pages", "--on-growth", "10%")})
def test_pages_are_recorded_alone(bench, domain, *options):
    """A page and a block are the same memory, and would be added up."""
    _, said = bench.allocsnap("attach", "1", "--domain", domain, *options, status=2 if "--on-growth" in options else 1)
    check("--domain pages goes without" in said, said)


def test_pages_of_another_size_are_refused(bench):
    """Some kernels of arm64 have 16 KiB, of which an event would note one of four pages."""
    if os.sysconf("SC_PAGE_SIZE") == 4096:
        raise Skip("pages have 4 KiB here")
    known = bench.workload("known")
    said = bench.run([ALLOCSNAP, "attach", str(known.pid), "--domain", "pages"], status=1)[1]
    check_equal(said.count("\n"), 1, f"lines of {said!r}")
    check("knows only pages of 4096 bytes, and this kernel's have 16384" in said, said)
    check_equal(bench.json("doctor", str(known.pid))["process"]["records_pages"], False, "what doctor says of pages")
    check("by the code that needed each page first" not in bench.allocsnap("doctor", str(known.pid))[0], "doctor advises it")
