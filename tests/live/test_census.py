# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""census: the heap of a process that stands still, to the byte; of one that runs on; of real and of hostile programs."""
import json
import os
import pathlib
import shutil

import harness
from harness import ALLOCSNAP, Skip, check, check_equal, tool, wait_for

STATES = ("in_use", "tcache", "fastbins", "unsorted", "small", "large", "top")


def census(bench, process, *options):
    return bench.json("census", str(process.pid), *options)


def state(taken, *names, member="bytes"):
    """A sum over all arenas."""
    return sum(arena["states"][name][member] for arena in taken["glibc"]["arenas"] for name in names)


def total(taken, member):
    return sum(arena[member] for arena in taken["glibc"]["arenas"])


def in_use_by_class(taken):
    """{largest chunk of the class: (count, bytes)}, mappings of their own included."""
    found = {}
    for part in (*taken["glibc"]["arenas"], taken["glibc"].get("mmapped", {"classes": []})):
        for row in part["classes"]:
            count, size = found.get(row["chunk_bytes"], (0, 0))
            used = row.get("in_use", {"count": 0, "bytes": 0})
            found[row["chunk_bytes"]] = (count + used["count"], size + used["bytes"])
    return {most: both for most, both in found.items() if both[0]}


def check_sums(taken):
    """Each arena's parts are what it has from the system."""
    for arena in taken["glibc"]["arenas"]:
        parts = sum(arena["states"][name]["bytes"] for name in STATES) + arena["overhead_bytes"] + arena["unwalked_bytes"]
        check_equal(parts, arena["system_bytes"], "the parts of an arena")


def check_against_mallinfo(taken, info):
    check_equal(taken["losses"], {}, "losses")
    check_equal(total(taken, "system_bytes"), info["arena"], "bytes from the system")
    check_equal(state(taken, "fastbins"), info["fsmblks"], "bytes in fastbins")
    check_equal(state(taken, "fastbins", member="count"), info["smblks"], "chunks in fastbins")
    check_equal(state(taken, "fastbins", "unsorted", "small", "large", "top"), info["fordblks"], "free bytes")
    check_equal(state(taken, "in_use", "tcache") + total(taken, "overhead_bytes"), info["uordblks"], "bytes in use")
    check_equal(state(taken, "unsorted", "small", "large", "top", member="count"), info["ordblks"], "free chunks")
    mmapped = taken["glibc"]["mmapped"]
    check_equal(mmapped["in_use"], {"count": info["hblks"], "bytes": info["hblkhd"]}, "mappings of their own")
    check_equal(mmapped["found"], mmapped["in_use"], "found mappings")


def check_against_ledger(before, after, ledger):
    """New blocks since `before` are the program's, class by class."""
    old, new = in_use_by_class(before), in_use_by_class(after)
    found = {most: (new[most][0] - old.get(most, (0, 0))[0], new[most][1] - old.get(most, (0, 0))[1]) for most in new}
    check_equal({most: both for most, both in found.items() if both != (0, 0)},
                {row["chunk_bytes"]: (row["count"], row["bytes"]) for row in ledger}, "blocks by size class")


@harness.core
def test_census_is_that_of_the_allocator_itself(bench):
    for threads, steps in ((1, 200), (1, 40000), (8, 20000), (24, 30000)):
        process = bench.workload("arenas", str(threads))
        process.order("churn 0 1")
        before = census(bench, process)
        check_against_mallinfo(before, process.order("sum")[1])
        process.order(f"churn {steps} {threads}")
        after = census(bench, process)
        ledger, info = process.order("sum")
        check_against_mallinfo(after, info)
        check_against_ledger(before, after, ledger)
        check_sums(after)
        process.is_unharmed()


def anonymous_bytes(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(status.partition("RssAnon:")[2].split()[0]) * 1024


def test_census_gives_no_memory_to_free_pages(bench):
    """Kernels without a page of zeros give memory to each page that is read."""
    process = bench.workload("arenas", "8")
    process.order("churn 20000 8")
    before = anonymous_bytes(process.pid)
    taken = census(bench, process)
    check(total(taken, "absent_bytes") > 1 << 20, "most pages are there")
    check_equal(anonymous_bytes(process.pid), before, "its anonymous memory")
    process.is_unharmed()


def test_census_of_a_process_that_runs_on(bench):
    process = bench.workload("arenas", "8")
    process.order("run 5")
    for _ in range(5):
        taken = census(bench, process)
        check_sums(taken)
        check(state(taken, "in_use") > 0, "nothing is in use")
    process.order("churn 0 1")
    after = census(bench, process)
    check_against_mallinfo(after, process.order("sum")[1])
    process.is_unharmed()


GROWING = {
    "python3": """
import time
print("ready", flush=True)
small, large = [], []
while len(small) < 10000000:
    small.append(object())
    if len(small) % 50 == 0:
        large.append(bytearray(2000))
time.sleep(600)
""",
    "malloc": """
import ctypes, threading, time
libc = ctypes.CDLL(None)
libc.strdup.argtypes = [ctypes.c_char_p]
libc.strdup.restype = ctypes.c_void_p
def grow():
    for _ in range(20000):
        for _ in range(5):
            libc.strdup(b"x" * 3000)
        time.sleep(0)
threading.Thread(target=grow, daemon=True).start()
print("ready", flush=True)
grow()
time.sleep(600)
""",
}


def resident_bytes(pid):
    return int(pathlib.Path(f"/proc/{pid}/statm").read_text(encoding="utf-8").split()[1]) * os.sysconf("SC_PAGESIZE")


def test_census_of_a_heap_that_only_grows(bench):
    """Its end, and new arenas, are where nothing was mapped a moment before."""
    for name, script in GROWING.items():
        process = bench.start([tool("python3"), "-c", script])
        process.line()
        wait_for(lambda: resident_bytes(process.pid) > 40 << 20, "40 MiB")
        for _ in range(5):
            taken = census(bench, process)
            check_sums(taken)
            losses, system = taken["losses"], total(taken, "system_bytes")
            check("arenas_refused" not in losses, f"{name}: {losses}")
            check(losses.get("bytes_unwalked", 0) < system / 8, f"{name}: {losses} of {system}")
        process.kill()


def test_census_of_a_damaged_heap_ends(bench):
    """Bytes that cannot be walked are counted, and the sums hold."""
    for what in ("size-zero", "size-huge", "size-odd", "top", "list"):
        process = bench.workload("arenas", "2")
        process.order("churn 2000 3")
        process.order(f"forge {what}")
        taken = census(bench, process)
        check_sums(taken)
        losses = taken["losses"]
        check("lists_broken" in losses if what == "list" else "bytes_unwalked" in losses, f"{what}: {losses}")
        bench.allocsnap("census", str(process.pid))


def test_census_text_answers_first(bench):
    process = bench.workload("arenas", "2")
    process.order("churn 20000 3")
    lines = bench.allocsnap("census", str(process.pid))[0].splitlines()
    check(lines[0].startswith(f"process {process.pid} (arenas): ") and lines[0].endswith(" resident"), lines[0])
    for line, word in zip(lines[1:4], ("in use", "free in heaps", "elsewhere")):
        check(line.strip().startswith(word), line)
    check("in use" in lines[4] or "Free blocks" in lines[4], lines[4])
    saved = bench.path("saved.json")
    pathlib.Path(saved).write_text(json.dumps(census(bench, process)), encoding="utf-8")
    again = bench.allocsnap("census", saved)[0].splitlines()
    check_equal(again[5:], bench.allocsnap("census", str(process.pid))[0].splitlines()[5:], "the text of a saved census")


def test_census_of_two_moments_names_what_grew(bench):
    """A list of blocks that only grows, in a program that churns, too."""
    script = ("import ctypes, sys\nm = ctypes.CDLL(None).malloc\nm.restype = ctypes.c_void_p\n"
              "for line in sys.stdin:\n    [m(2000) for _ in range(int(line))]\n    print(1, flush=True)\n")
    process = bench.start([tool("python3"), "-c", script])
    process.write("1\n")
    process.line()
    old = bench.path("old.json")
    pathlib.Path(old).write_text(bench.allocsnap("census", str(process.pid), "--json")[0], encoding="utf-8")
    process.write("5000\n")
    process.line()
    lines = bench.allocsnap("census", old, str(process.pid))[0].splitlines()
    check(any(line.startswith("Blocks in use grew most") for line in lines[4:6]), "\n".join(lines))
    first = next(i for i, line in enumerate(lines) if line.split()[:2] == ["chunks", "of"]) + 1
    check_equal(lines[first].split()[:3], ["to", "2048", "B"], lines[first])
    changed = bench.json("census", old, str(process.pid))
    grown = {row["chunk_bytes"]: row["in_use"]["count_diff"] for row in changed["glibc"]["classes"] if "in_use" in row}
    check(4990 <= grown[2048] <= 5010, f"{grown[2048]} more blocks of 2,000 bytes")


PYTHON = """
import sys, time
class Plain:
    def __init__(self, i):
        self.i = i
class Slotted:
    __slots__ = ("a", "b")
class Child(Slotted):
    pass
kept = [Plain(i) for i in range(3001)] + [Slotted() for _ in range(2003)] + [Child() for _ in range(1009)]
kept += [float(i) for i in range(5003)] + [(i, i) for i in range(1013)] + [{i} for i in range(211)]
gaps = [bytes(200) for _ in range(5000)][::7]
print("ready", flush=True)
sys._debugmallocstats()
time.sleep(1000)
"""


def debug_stats(text):
    """{size of a block: (in use, free in used pools)} as sys._debugmallocstats() writes it."""
    found = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) == 5 and all(word.isdigit() for word in words) and int(words[0]) < 32:
            found[int(words[1])] = (int(words[3]), int(words[4]))
        if line.startswith("# arenas allocated total"):
            break
    return found


def arenas_of_stats(text):
    words = [line.split() for line in text.splitlines() if "arenas * " in line]
    return int(words[0][0]), int(words[0][-1].replace(",", ""))


def test_census_of_python_is_that_of_its_allocator(bench):
    script = bench.path("objects.py")
    pathlib.Path(script).write_text(PYTHON, encoding="utf-8")
    process = bench.start([tool("python3"), script])
    process.line()
    wait_for(lambda: "PyDictObject" in process.stderr(), "the statistics")
    wait_for(lambda: pathlib.Path(f"/proc/{process.pid}/stat").read_text(encoding="utf-8").split(") ")[1][0] == "S", "its sleep")
    taken = census(bench, process)
    python, stats = taken["python"], process.stderr()
    check_equal(taken["losses"], {}, "losses")
    if "never tested" in python.get("why", ""):
        raise Skip(python["why"])
    check("why" not in python, python.get("why"))
    check_equal({row["block_bytes"]: (row["in_use"]["count"], row["free"]["count"]) for row in python["classes"]},
                debug_stats(stats), "blocks by size")
    check_equal((python["arenas"], python["system_bytes"]), arenas_of_stats(stats), "arenas and their bytes")
    parts = sum(python[name] for name in ("overhead_bytes", "free_pool_bytes", "unwalked_bytes"))
    check_equal(parts + python["in_use"]["bytes"] + python["free"]["bytes"], python["system_bytes"], "the parts of the arenas")
    types = {row.get("name", ""): row["count"] for row in python["types"]}
    check_equal(sum(types.values()), python["in_use"]["count"], "blocks of all types")
    check_equal([types.get(name) for name in ("Plain", "Slotted", "Child")], [3001, 2003, 1009], "objects of own types")
    check(5003 <= types["float"] < 5203 and types["tuple"] > 1013 and types["set"] >= 211, str(types))
    lines = bench.allocsnap("census", str(process.pid))[0].splitlines()
    check(any(line.strip().startswith("in use, Python") for line in lines[:5]), "\n".join(lines[:5]))


def test_census_of_two_moments_names_the_type_that_grew(bench):
    script = ("import sys\nclass Kept:\n    __slots__ = ()\nkept = []\n"
              "for line in sys.stdin:\n    kept += [Kept() for _ in range(int(line))]\n    print(1, flush=True)\n")
    process = bench.start([tool("python3"), "-c", script])
    process.write("5\n")
    process.line()
    old = bench.path("old.json")
    pathlib.Path(old).write_text(bench.allocsnap("census", str(process.pid), "--json")[0], encoding="utf-8")
    process.write("4003\n")
    process.line()
    wait_for(lambda: pathlib.Path(f"/proc/{process.pid}/stat").read_text(encoding="utf-8").split(") ")[1][0] == "S", "its sleep")
    changed = bench.json("census", old, str(process.pid))
    if "python" not in changed:
        raise Skip(bench.json("census", old)["python"]["why"])
    check_equal(changed["python"]["types"][0] | {"bytes": None, "bytes_diff": None},
                {"name": "Kept", "count": 4008, "bytes": None, "count_diff": 4003, "bytes_diff": None}, "the type that grew most")
    row = bench.allocsnap("census", old, str(process.pid))[0].partition("Python's objects of type\n")[2].splitlines()[0].split()
    check_equal((row[0], row[-1]), ("+4003", "Kept"), "its row")


def test_census_without_a_heap_of_glibc_says_so(bench):
    musl = shutil.which("musl-gcc")
    if not musl:
        raise Skip("musl-gcc is not installed")
    source, program = bench.path("waits.c"), bench.path("waits")
    pathlib.Path(source).write_text("#include <unistd.h>\nint main(void) { return pause(); }\n", encoding="utf-8")
    bench.run([musl, "-o", program, source])
    process = bench.start([program])
    wait_for(lambda: os.readlink(f"/proc/{process.pid}/exe") == program, "the program runs")
    out, err = bench.allocsnap("census", str(process.pid), status=1)
    check("no heap of glibc was found" in out and not err, out + err)
    err = bench.allocsnap("census", "4194303", status=1)[1]
    check_equal(err, "allocsnap: process 4194303: there is no such process\n", "stderr")


def test_census_reads_real_programs(bench):
    python = bench.start([tool("python3"), "-c", "x = [b'%1000d' % i for i in range(20000)]; print(1, flush=True); input()"])
    python.line()
    taken = census(bench, python)
    check_sums(taken)
    check_equal(taken["losses"], {}, "losses of python3")
    rows = {row["chunk_bytes"]: row.get("in_use", {"count": 0})["count"] for row in taken["glibc"]["arenas"][0]["classes"]}
    check(20000 <= rows[2048] < 21000, f"python3 has {rows[2048]} blocks of 1,041 to 2,048 bytes")
    sqlite = bench.start([tool("sqlite3")])
    sqlite.write("create table t as with recursive n(i) as (select 1 union all select i+1 from n limit 100000) select i from n;\n"
                 "select 1;\n")
    sqlite.line()
    taken = census(bench, sqlite)
    check_sums(taken)
    check(state(taken, "in_use") > 500000 and not taken["losses"], f"sqlite3: {taken['losses']}")


def test_census_reader_has_no_privileges(bench):
    """The process that reads the memory has another user, no capabilities, and a filter of system calls."""
    process = bench.workload("arenas", "16")
    process.order("churn 400000 3")
    taken = bench.start([ALLOCSNAP, "census", str(process.pid), "--json"])
    found = {}

    def look():
        for child in pathlib.Path(f"/proc/{taken.pid}/task/{taken.pid}/children").read_text(encoding="utf-8").split():
            try:
                lines = pathlib.Path(f"/proc/{child}/status").read_text(encoding="utf-8").splitlines()
            except OSError:
                continue
            status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
            if status["Name"] == "allocsnap-heap" and status["Seccomp"] == "2":
                found.update(status)
        return found or taken.popen.poll() is not None

    wait_for(look, "the reader, or the end")
    if not found:
        raise Skip("the reader was too fast to be seen")
    check_equal(int(found["CapEff"], 16) | int(found["CapPrm"], 16), 0, "capabilities")
    check_equal(found["NoNewPrivs"], "1", "whether it can gain privileges: NoNewPrivs")
    check(int(found["Uid"].split()[0]) > 2**31, found["Uid"])
