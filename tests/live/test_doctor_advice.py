# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Each "to do" of the doctor is done to the letter, on real programs, and helps."""
import json
import os
import pathlib
import re
import signal

import doctor_kinds as kinds
from doctor_kinds import compiled, started
import harness
from harness import ALLOCSNAP, Skip, check, check_equal, tool, wait_for

SOURCES = pathlib.Path(__file__).resolve().parents[2] / "src"
ROWS, HEAP_ROWS = SOURCES / "collect/diagnosis/blind_spots.c", SOURCES / "elf/runtime_detect.h"

# Blind spots whose advice no test here follows, and why.
NOT_FOLLOWED = {
    "functions-unprobed": "there is no advice",
    "tables-missing": "there is no advice",
    "loader": "there is no advice",
    "files-unreadable": "the advice is the reason that the file's row gives",
    "inlined-calls": "a build without -flto, as test_allocators.py makes them; this one says that calls may lack",
    "nameless-allocator": "test_heaps.py follows it",
    "own-operator-new": "test_own_lines.py follows it",
    "dotnet-heap": "dotnet is in no Debian package",
    "ocaml-heap": "memtrace is in no Debian package",
    "haskell-heap": "+RTS -h is documented by GHC; ghc has 500 MB",
}


def rows_with(bench, pid, status=None):
    done = kinds.subprocess.run([ALLOCSNAP, "doctor", str(pid), "--json"], capture_output=True, text=True, check=False)
    if status is not None:
        check_equal(done.returncode, status, f"status of doctor: {done.stderr}")
    return {row["name"]: row.get("todo") for row in json.loads(done.stdout)["process"]["unseen"]}


def check_advice(bench, pid, name, *words):
    """The doctor gives this advice; its words are what the test does then."""
    todo = rows_with(bench, pid).get(name)
    check(todo, f"no advice about {name}")
    for word in words:
        check(word in todo, f"{name}: {todo!r} does not say {word!r}")


def check_gone(bench, pid, name):
    check(name not in rows_with(bench, pid), f"{name} is still reported")


def attach_says(bench, pid, *words):
    """attach refuses, with the doctor's advice."""
    _, err = bench.run([ALLOCSNAP, "attach", str(pid), "-o", bench.path("none"), "--count", "1"], 1)
    for word in words:
        check(word in err, f"attach does not say {word!r}, but {err!r}")


def recorded(bench, pid, *options):
    """The snapshot of a short recording."""
    recording = bench.attach([pid], *options)
    path = recording.snapshot()
    recording.end(signal.SIGINT)
    return path


def run(bench, argv, *options, **more):
    """The last snapshot of `allocsnap run`, and its standard error."""
    out, err = bench.run([ALLOCSNAP, "run", "-o", bench.path("run"), *options, "--", *argv], seconds=60, **more)
    return [line for line in out.splitlines() if line.endswith(".snap")][-1], err


def size_of_domain(bench, path, name):
    rows = bench.stats(path, "--group-by", "domain")["statistics"]
    return sum(row["size"] for row in rows if row.get("name") == name)


def test_advice_each_blind_spot_is_followed_or_has_a_reason(_bench):
    names = set(re.findall(r'^\t\{ "([a-z0-9-]+)", "', ROWS.read_text(encoding="utf-8"), re.M))
    names |= set(re.findall(r'^\tX\([A-Z0-9_]+, "([a-z0-9-]+)", "', HEAP_ROWS.read_text(encoding="utf-8"), re.M))
    source = pathlib.Path(__file__).read_text(encoding="utf-8")
    followed = set(re.findall(r'check_advice\(bench, [^"]*?"([a-z0-9-]+)"', source))
    check(len(names) > 20, f"rows: {names}")
    check_equal(names - followed - set(NOT_FOLLOWED), set(), "advice that nobody follows")
    check_equal(followed & set(NOT_FOLLOWED), set(), "advice that is followed, with a reason why not")
    check_equal((followed | set(NOT_FOLLOWED)) - names, set(), "blind spots that are no more")


# ---- programs of C ---------------------------------------------------------------------------------

def test_advice_a_build_with_symbols_or_dynamic(bench):
    bare = started(bench, [compiled(bench, "bare", "-static", "-s")])
    check_advice(bench, bare.pid, "no-allocator", "symbol table (not stripped)", "linked dynamically")
    attach_says(bench, bare.pid, "its heap", "linked statically and stripped", "to do: a build with its symbol table")
    for name, *options in (("whole", "-static"), ("dynamic",)):
        program = started(bench, [compiled(bench, name, *options)])
        check_gone(bench, program.pid, "no-allocator")
        recorded(bench, program.pid)


def test_advice_a_64_bit_build(bench):
    path = compiled(bench, "small", "-m32", "-nostdlib", "-static", "-fno-pie", "-no-pie", source=kinds.WAITS_32)
    kinds.need_32_bit(path)
    small = started(bench, [path])
    check_advice(bench, small.pid, "32-bit", "a 64-bit build")
    attach_says(bench, small.pid, "a 32-bit program", "to do: a 64-bit build of it")
    recorded(bench, started(bench, [compiled(bench, "large", "-m64")]).pid)


# The call of mremap() says that its code may be copied; it is not made.
COPIES = "#define _GNU_SOURCE\n#include <sys/mman.h>\n" + kinds.WAITS.replace("int main(void)\n{", """
int main(int argc, char **argv)
{
	if (argc > 100)
		mremap(argv, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, main);
""")


def test_advice_an_allocator_as_a_library(bench):
    inside = started(bench, [compiled(bench, "inside", "-static", "-O1", source=COPIES)])
    check_advice(bench, inside.pid, "copied-code", "the allocator as a library")
    outside = started(bench, [compiled(bench, "outside", "-O1", source=COPIES)])
    path = recorded(bench, outside.pid)
    check("malloc" in {row["function"] for row in bench.show(path)["probes"]}, "malloc is not probed")


RENAMED = """
#include <unistd.h>
static char heap[1 << 16];
static unsigned long used;
__attribute__((noinline)) void *je_malloc(unsigned long size);
__attribute__((noinline)) void *shop_get(unsigned long size) { used += size; return heap + used - size; }
__attribute__((noinline)) void shop_put(void *block) { __asm__ volatile("" :: "r"(block)); }
void *_rjem_je_malloc_default(unsigned long size) { return shop_get(size); }
int main(void)
{
	char got;

	while (read(0, &got, 1) == 1)
		shop_put(shop_get(100)), shop_get(7);
	return 0;
}
"""


def test_advice_name_functions_with_probe(bench):
    program = started(bench, [compiled(bench, "renamed", "-O1", "-rdynamic", source=RENAMED)])
    check_advice(bench, program.pid, "renamed-allocator", "--probe")
    recording = bench.attach([program], "--probe",
                             "name=shop,object=exe,alloc=shop_get(size=1),free=shop_put(ptr=1)")
    program.write("xxx")
    wait_for(lambda: kinds.waits_for_input(program.pid), "its calls")
    path = recording.snapshot()
    check_equal(size_of_domain(bench, path, "shop"), 3 * 7, "bytes of the allocator that was named")


def test_advice_start_it_with_run(bench):
    program = started(bench, [compiled(bench, "dynamic")])
    check_advice(bench, program.pid, "older-memory", "allocsnap run -- CMD")
    check_equal(bench.show(recorded(bench, program.pid))["blocks"], 0, "blocks from before")
    path, _ = run(bench, [compiled(bench, "dynamic")])
    check(bench.show(path)["counters"]["allocations"] >= 1, "allocations from the start")


def test_advice_build_with_unwind_tables(bench):
    flags = ("-fno-asynchronous-unwind-tables", "-fno-omit-frame-pointer", "-nostartfiles", "-Wl,-e,main",
             "-Wl,--no-eh-frame-hdr")
    path = compiled(bench, "tableless", *flags)
    bench.run([tool("objcopy"), "--remove-section=.eh_frame", path])
    program = started(bench, [path])
    check_advice(bench, program.pid, "no-tables", "-fasynchronous-unwind-tables")
    check_gone(bench, started(bench, [compiled(bench, "tables", "-fasynchronous-unwind-tables")]).pid, "no-tables")


def test_advice_install_debug_files(bench):
    path = compiled(bench, "stripped", "-g", "-Wl,--build-id")
    build_id = kinds.build_id(bench, path)
    debug = pathlib.Path("/usr/lib/debug/.build-id") / build_id[:2] / (build_id[2:] + ".debug")
    bench.run([tool("objcopy"), "--only-keep-debug", path, bench.path("debug")])
    bench.run([tool("strip"), path])
    program = started(bench, [path])

    def files_without_names():
        text = bench.allocsnap("doctor", str(program.pid), "-v")[0]
        return [line for line in text.splitlines() if path in line and "stripped: exported names only" in line]

    check_advice(bench, program.pid, "no-names", "install their debug files")
    check(files_without_names(), "the program has names")
    debug.parent.mkdir(parents=True, exist_ok=True)
    try:
        debug.write_bytes(pathlib.Path(bench.path("debug")).read_bytes())
        check_equal(files_without_names(), [], "files without names")
    finally:
        debug.unlink()
        if not any(debug.parent.iterdir()):
            debug.parent.rmdir()


def test_advice_follow_forks(bench):
    shell = started(bench, [tool("sh"), "-c", "cat & read line; (ls / >/dev/null); wait"])
    check_advice(bench, shell.pid, "children", "--follow-forks")
    recording = bench.attach([shell], "--follow-forks")
    shell.write("go\n")
    wait_for(lambda: any("/ls." in str(path) for path in pathlib.Path(recording.folder).rglob("*.snap")),
             "a snapshot of the child")
    shell.kill()


def test_advice_record_mappings(bench):
    mappings = bench.workload("mappings")
    check_advice(bench, mappings.pid, "mappings", "--domain malloc,mmap", "--probe")
    recording = bench.attach([mappings], "--domain", "malloc,mmap")
    mappings.order("go")
    path = recording.snapshot()
    check(size_of_domain(bench, path, "mmap") > 1 << 20, "its mappings")
    check("domains overlap" in bench.allocsnap("stats", path)[0], "the total says nothing about domains")
    check("domains overlap" not in bench.allocsnap("stats", path, "--include", "domain=mmap")[0], "one domain overlaps")


# ---- runtimes --------------------------------------------------------------------------------------

def test_advice_go_with_c_code(bench):
    go = tool("gh")
    process = started(bench, [go, "auth", "login", "--with-token"])
    check_advice(bench, process.pid, "go-heap", "GODEBUG=gctrace=1", "net/http/pprof")
    _, err = bench.run([go, "help", "environment"], env=dict(os.environ, GODEBUG="gctrace=1"))
    check("gc 1 @" in err, f"its collector prints nothing: {err[:200]!r}")


GO = """package main
import ("fmt"; "os"%s)
var kept [][]byte
func main() {
	for i := 0; i < 1000; i++ { kept = append(kept, make([]byte, 10000)) }
	fmt.Println("ready")
	os.Stdin.Read(make([]byte, 1))
}
"""


def started_go(bench, name, more):
    source, program = bench.path(name + ".go"), bench.path(name)
    pathlib.Path(source).write_text(GO % more, encoding="ascii")
    bench.run([tool("go"), "build", "-o", program, source], seconds=200,
              env=dict(os.environ, CGO_ENABLED="0", GOCACHE=bench.path("cache"), GOFLAGS="-mod=mod"))
    process = bench.start([program])
    process.line()
    return process


def test_advice_go_alone(bench):
    """A static program without a heap profile: there is nothing to probe, and nothing to read. One with pprof has one."""
    if not kinds.installed("go"):
        raise Skip("go is not installed")
    process = started_go(bench, "shop", "")
    check_advice(bench, process.pid, "go-heap", "net/http/pprof", "GODEBUG=gctrace=1")
    attach_says(bench, process.pid, "linked without its heap profile", "to do: net/http/pprof")
    process = started_go(bench, "shop_pprof", '; _ "net/http/pprof"')
    check_gone(bench, process.pid, "go-heap")
    check_equal(bench.json("doctor", str(process.pid))["process"]["go"]["records"], True, "whether its heap would be recorded")


PYTHON = "import sys\nsys.stdin.readline()\nkept = [object() for _ in range(1000000)]\nsys.stdin.readline()"


def python_objects(bench, *options, **env):
    """The snapshot of a Python that makes 16 MB of small objects while it is recorded."""
    process = started(bench, ["/usr/bin/python3", "-c", PYTHON], **env)
    recording = bench.attach([process], *options)
    process.write("go\n")
    wait_for(lambda: kinds.waits_for_input(process.pid), "its objects", 120)
    path = recording.snapshot()
    recording.end(signal.SIGINT)
    return process, path


def test_advice_python_arenas_and_malloc(bench):
    process, path = python_objects(bench, "--domain", "malloc")
    check(bench.show(path)["traced_memory"]["current"] < 12e6, "the objects are recorded as blocks of the heap")
    with harness.environment("ALLOCSNAP_NO_UPROBE_SESSION"):
        check_advice(bench, process.pid, "python-objects", "--domain malloc,mmap", "PYTHONMALLOC=malloc")
        check("--domain python" not in bench.allocsnap("doctor", str(process.pid))[0], "it advises what is refused without sessions")
    _, path = python_objects(bench, "--domain", "malloc,mmap")
    check(15e6 < size_of_domain(bench, path, "mmap") < 40e6, "bytes of its arenas")
    if not harness.NO_SESSIONS:
        process, path = python_objects(bench)
        check_advice(bench, process.pid, "python-heap", "--domain malloc")
        check(bench.show(path)["blocks"] >= 1000000, "objects with Python's lines")
    process, path = python_objects(bench, "--domain", "malloc", PYTHONMALLOC="malloc")
    check_gone(bench, process.pid, "python-objects")
    check(bench.show(path)["blocks"] >= 1000000, "single objects")


NODE = "process.stdin.once('data', () => { global.kept = []; " \
       "for (let i = 0; i < 400000; i++) global.kept.push({ i, s: 'x' + i }); console.log('done'); })"


def test_advice_node(bench):
    if not kinds.installed("node"):
        raise Skip("node is not installed")
    options = ("--heap-prof", "--heapsnapshot-signal=SIGUSR2")
    process = bench.start([tool("node"), *options, "-e", NODE], cwd=bench.folder)
    wait_for(lambda: kinds.waits_for_input(process.pid), "node waiting", 60)
    check_advice(bench, process.pid, "v8-heap", *options)
    process.write("go\n")
    check_equal(process.line(), "done", "its objects")
    os.kill(process.pid, signal.SIGUSR2)
    wait_for(lambda: list(pathlib.Path(bench.folder).glob("*.heapsnapshot")), "its heap snapshot", 30)
    process.popen.stdin.close()
    check_equal(process.wait(), 0, "exit status of node")
    check(list(pathlib.Path(bench.folder).glob("*.heapprofile")), "no profile of its heap")


JAVA = "public class Waits { public static void main(String[] a) throws Exception { System.in.read(); } }"


def test_advice_java(bench):
    if not kinds.installed("java"):
        raise Skip("java is not installed")
    source = bench.path("Waits.java")
    pathlib.Path(source).write_text(JAVA, encoding="ascii")
    process = bench.start([tool("java"), "-XX:+PreserveFramePointer", "-XX:NativeMemoryTracking=summary", source])
    wait_for(lambda: kinds.waits_for_input(process.pid), "java waiting", 60)
    check_advice(bench, process.pid, "java-heap", "jcmd PID GC.class_histogram",
                 "-XX:NativeMemoryTracking")
    check_advice(bench, process.pid, "code-at-run-time", "frame pointers")
    if not kinds.installed("jcmd"):
        raise Skip("jcmd is not installed")
    check("java.lang.String" in bench.run([tool("jcmd"), str(process.pid), "GC.class_histogram"])[0], "its objects")
    check("Java Heap" in bench.run([tool("jcmd"), str(process.pid), "VM.native_memory"])[0], "its memory")


def waits_with(bench, name, *argv, **env):
    if not kinds.installed(name):
        raise Skip(f"{name} is not installed")
    return started(bench, [tool(name), *argv], **env)


def test_advice_ruby(bench):
    process = waits_with(bench, "ruby", "-e", "$stdin.read(1)")
    check_advice(bench, process.pid, "ruby-objects", "ObjectSpace.dump_all")
    out, _ = bench.run([tool("ruby"), "-robjspace", "-e", "ObjectSpace.dump_all(output: $stdout)"], seconds=60)
    check('"type":"STRING"' in out, "its objects")


def test_advice_php(bench):
    argv = ("-r", "fgets(STDIN); $kept = array_map(fn($i) => str_repeat('x', 100 + $i % 7), range(1, 50000)); fgets(STDIN);")
    process = waits_with(bench, "php", *argv)
    check_advice(bench, process.pid, "php-heap", "USE_ZEND_ALLOC=0")
    process = waits_with(bench, "php", *argv, USE_ZEND_ALLOC="0")
    recording = bench.attach([process])
    process.write("go\n")
    wait_for(lambda: kinds.waits_for_input(process.pid), "its strings")
    check(bench.show(recording.snapshot())["blocks"] > 50000, "its strings are recorded")


def test_advice_luajit(bench):
    process = waits_with(bench, "luajit", "-e", "io.read()")
    check_advice(bench, process.pid, "luajit-heap", "collectgarbage('count')")
    check(float(bench.run([tool("luajit"), "-e", "print(collectgarbage('count'))"])[0]) > 10, "its KiB")


BOEHM = kinds.WAITS.replace("void *volatile block = malloc(100);", """void *volatile block = malloc(100);
	void *GC_malloc(unsigned long size);
	for (int i = 0; i < 1000000; i++)
		GC_malloc(100);
""")


def test_advice_boehm(bench):
    path = compiled(bench, "boehm", "-lgc", source=BOEHM)
    process = started(bench, [path])
    check_advice(bench, process.pid, "boehm-heap", "GC_PRINT_STATS=1")
    _, err = bench.run([path], env=dict(os.environ, GC_PRINT_STATS="1"))
    check("GC" in err, f"it prints nothing: {err[:200]!r}")
