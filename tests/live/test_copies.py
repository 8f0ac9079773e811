# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Programs that copy their code while it runs, breakpoints included."""
import os
import pathlib
import signal

import harness
from harness import ALLOCSNAP, NEVER, WORKLOADS, Law, Workload, check, check_equal, core, snapshots_below, tool, wait_for
from ledger import Recorded


@harness.core
def test_copies_of_a_program_that_announces_them_prevent_probes(bench):
    """The program runs undisturbed, without a probe in its own file, and the snapshot counts the missing functions."""
    path = os.path.join(WORKLOADS, "remap")
    stdout, stderr = bench.run([ALLOCSNAP, "run", "-o", bench.path("out"), "--", path])
    check("remap_executable: survived" in stdout, stdout)
    check(f"nothing in {path} is probed: its code may be copied while it runs" in stderr, stderr)
    snapshots = [line for line in stdout.splitlines() if line.endswith(".snap")]
    shown = bench.show(snapshots[-1])
    check(shown["losses"]["functions_unprobed"] > 5, f"losses: {shown['losses']}")
    check_equal(shown["counters"].get("allocations", 0), 0, "allocations")


# The program has no text that hints at copies: its call of mremap() is the only sign.
STATIC = """
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
int main(void)
{
	void *before = malloc(10), *after;
	char *code = NULL, *copy, line[512];
	unsigned long start, end, bytes = 0;
	FILE *maps = fopen("/proc/self/maps", "r");
	while (fgets(line, sizeof(line), maps))
		if (sscanf(line, "%lx-%lx r-xp", &start, &end) == 2 && strstr(line, "r-xp") &&
		    start <= (unsigned long)main && (unsigned long)main < end) {
			code = (char *)start;
			bytes = end - start;
		}
	fclose(maps);
	copy = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memcpy(copy, code, bytes);
	mprotect(copy, bytes, PROT_READ | PROT_EXEC);
	if (mremap(copy, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, code) == MAP_FAILED)
		return 1;
	after = malloc(100);
	free(after);
	free(before);
	puts("survived");
	return 0;
}
"""


def test_copies_of_a_static_program_prevent_probes(bench):
    path = bench.path("static")
    pathlib.Path(bench.path("static.c")).write_text(STATIC)
    for options in (("-O1", "-static"), ("-O0", "-static"), ("-O2", "-static-pie")):
        bench.run([tool("gcc"), "-g", *options, bench.path("static.c"), "-o", path])
        stdout, stderr = bench.run([ALLOCSNAP, "run", "-o", bench.path("out"), "--", path])
        check("survived" in stdout, stdout)
        check("it calls mremap() with MREMAP_FIXED" in stderr, stderr)


ALLOCATES = """
#include <stdlib.h>
#include <unistd.h>
int main(void) { for (;;) { free(malloc(1000)); usleep(1000); } }
"""


def test_copies_by_a_library_concern_no_later_program(bench):
    """A shell has a library that would copy the program's code; the program that it becomes does not map it."""
    pathlib.Path(bench.path("copies.c")).write_text("void __bolt_hugify_self(void) {}")
    pathlib.Path(bench.path("plain.c")).write_text(ALLOCATES)
    bench.run([tool("gcc"), "-shared", "-fPIC", bench.path("copies.c"), "-o", bench.path("copies.so")])
    bench.run([tool("gcc"), "-static", bench.path("plain.c"), "-o", bench.path("plain")])
    recording = bench.start([ALLOCSNAP, "run", "-i", "1s", "-o", bench.path("out"), "--", tool("env"),
                             f"LD_PRELOAD={bench.path('copies.so')}", "sh", "-c", f"sleep 1; exec {bench.path('plain')}"])
    wait_for(lambda: any(bench.show(path)["counters"].get("allocations") for path in snapshots_below(bench.path("out"))
                         if "/plain." in path), "its allocations")
    recording.popen.send_signal(signal.SIGINT)
    recording.wait(60)
    check("is probed: its code may be copied" not in recording.stderr(), recording.stderr())


@harness.core
def test_copies_made_during_a_recording_are_counted(bench):
    """The functions that were probed before the copy are counted as lost, so the gap is not silent. The copy
    contains breakpoints that would kill the process, so no function of the copy is called."""
    program, recording = bench.recorded("moved")
    program.order("malloc")
    program.order("copy")
    said = f"process {program.pid} (moved) runs a copy of the code of "
    wait_for(lambda: said in recording.stderr(), "the copy is noticed")
    path = recording.snapshot()
    shown = bench.show(path)
    probed = {row["function"] for row in shown["probes"]}
    check("malloc" in probed, f"probes: {probed}")
    check_equal(shown["losses"]["functions_copied"], len(shown["probes"]), "functions_copied")
    check_equal(shown["counters"]["allocations"], 1, "allocations of before")


def test_copies_made_before_attach_are_reported(bench):
    """attach says why there is nothing to record."""
    program = bench.workload("moved")
    program.order("copy")
    program.order("malloc")
    stderr = bench.run([ALLOCSNAP, "attach", str(program.pid), "-o", bench.path("out")], 1)[1]
    check(f"process {program.pid} (moved): runs a copy of its code in anonymous memory" in stderr, stderr)
    program.is_unharmed()


# ---- replaced code ----
#
# Code that takes the place of other code: each block has the name of the code that allocated it.

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../workloads/plugin_code.so.c")
BYTES = {"a": 4111, "b": 4222, "c": 4333}


def build_plugins(bench, pad=None):
    """{name: the words of an order behind COUNT}; with pad they have different layouts."""
    plugins = {}
    for at, (name, size) in enumerate(BYTES.items()):
        path = bench.path(f"{name}.so")
        layout = [f'-DPAD="{pad * at}"'] if pad and at else []
        bench.run([tool("gcc"), "-O1", "-g", "-fPIC", "-shared", f"-DNAME={name}", *layout, SOURCE, "-o", path])
        symbols = bench.run([tool("nm"), "-D", path])[0].splitlines()
        offset = [line.split()[0] for line in symbols if line.endswith(" T work")][0]
        plugins[name] = f"{size} {offset} {path}"
    return plugins


def rows_of(bench, path):
    """{function: (count, bytes)} of what the plugins allocated; of code without a file the function is its address."""
    rows = {}
    for row in bench.stats(path, "--group-by", "traceback")["statistics"]:
        if row["size"] // row["count"] in BYTES.values():
            frame = row["traceback"][0] if row["traceback"][0]["lineno"] else {"function": "anonymous"}
            count, size = rows.get(frame["function"], (0, 0))
            rows[frame["function"]] = count + row["count"], size + row["size"]
    return rows


class Host:
    """A recorded program. Within `asleep` the recorder does not run: it sees only what is left of the changes."""

    def __init__(self, bench, plugins, interval="100s"):
        self.bench, self.plugins = bench, plugins
        self.program = bench.workload("replaced_code")
        self.recording = bench.attach([self.program], interval=interval)
        self.places = set()

    def run(self, way, name, count):
        self.places.add(self.program.order(f"{way} {count} {self.plugins[name]}")[1]["at"])

    def asleep(self, orders):
        os.kill(self.recording.pid, signal.SIGSTOP)
        for order in orders:
            self.run(*order)
        os.kill(self.recording.pid, signal.SIGCONT)

    def expect(self, expected, path=None):
        """expected: {function: (count, plugin)}."""
        path = path or self.recording.snapshot()
        check_equal(rows_of(self.bench, path), {name: (count, count * BYTES[plugin])
                                                for name, (count, plugin) in expected.items()}, "rows")
        check_equal(self.bench.show(path)["losses"]["tracebacks_unsure"], 0, "tracebacks_unsure")

    def end(self):
        self.recording.end(signal.SIGINT)
        self.program.is_unharmed()


def all_three(way):
    return [(way, "a", 10), (way, "b", 20), (way, "c", 30)]


ALL_THREE = {"keep_a": (30, "a"), "keep_b": (60, "b"), "keep_c": (90, "c")}


@core
def test_plugins_at_one_place_keep_their_names(bench):
    host = Host(bench, build_plugins(bench))
    host.asleep(3 * all_three("dlopen"))
    check(len(host.places) == 1, "the plugins had different places")
    host.expect(ALL_THREE)
    host.end()


def test_plugins_keep_their_names_over_passes(bench):
    """Some tracebacks are known from earlier passes, some from this one."""
    host = Host(bench, build_plugins(bench))
    for _ in range(3):
        for order in all_three("dlopen"):
            host.run(*order)
            host.recording.snapshot()
    host.expect(ALL_THREE)
    host.end()


def test_plugins_of_different_layouts_keep_their_names(bench):
    host = Host(bench, build_plugins(bench, pad=0x1100))
    host.asleep(3 * all_three("dlopen"))
    host.expect(ALL_THREE)
    host.end()


def test_plugins_in_namespaces_of_their_own_keep_their_names(bench):
    host = Host(bench, build_plugins(bench))
    host.asleep(3 * all_three("dlmopen"))
    host.expect(ALL_THREE)
    host.end()


@core
def test_files_mapped_over_files_keep_their_names(bench):
    host = Host(bench, build_plugins(bench))
    host.asleep(2 * all_three("fixed"))
    host.run("fixed", "a", 10)
    host.recording.snapshot()
    host.asleep([("fixed", "b", 20), ("fixed", "c", 30)])
    host.expect(ALL_THREE)
    host.end()


def test_code_made_at_run_time_over_a_file_has_no_name(bench):
    host = Host(bench, build_plugins(bench))
    host.asleep([("fixed", "a", 10), ("copied", "a", 7), ("fixed", "a", 20), ("copied", "a", 3), ("fixed", "c", 5)])
    rows = rows_of(bench, host.recording.snapshot())
    check_equal(rows, {"keep_a": (30, 30 * BYTES["a"]), "keep_c": (5, 5 * BYTES["c"]),
                       "anonymous": (10, 10 * BYTES["a"])}, "rows")
    host.end()


def test_allocations_are_those_of_their_own_code(bench):
    """The kernel counts them for each stack, not for each code: no name gets more than there were."""
    host = Host(bench, build_plugins(bench))
    host.asleep(all_three("dlopen"))
    path = host.recording.snapshot()
    rows = bench.stats(path, "--group-by", "function", "--measure", "allocated")["statistics"]
    found = {row["key"]: row["count"] for row in rows if row["key"].startswith("keep_")}
    check_equal(found, {"keep_a": 10, "keep_b": 20, "keep_c": 30}, "allocations")
    host.end()


# ---- replaced code, in exact recordings ----

class ExactHost(Host):
    """By hooks, or by a library, which sees dlclose()."""

    def __init__(self, bench, plugins, by_library):
        harness.need_injection()
        self.bench, self.plugins, self.places = bench, plugins, set()
        path = os.path.join(WORKLOADS, "replaced_code")
        if by_library:
            self.recording = self.program = bench.start([ALLOCSNAP, "run", "--exact", "-o", bench.path("out"), "--interval", NEVER, "--",
                                                         path], kind=Recorded, bench=bench, name="replaced_code").ready()
        else:
            self.program = bench.start([path], kind=Workload).ready()
            self.recording = bench.attach([self.program], "--inject=exact")

    def named(self):
        """{plugin: how many of its blocks have its name}, and how many tracebacks are unsure. None has the name of another one."""
        path, named = self.recording.snapshot(), {}
        for name, size in BYTES.items():
            rows = self.bench.stats(path, "--group-by", "traceback", "--min-size", str(size), "--max-size", str(size))["statistics"]
            functions = [(frame.get("function"), row["count"]) for row in rows for frame in row["traceback"]]
            wrong = [found for found in functions if found[0] in {f"keep_{other}" for other in BYTES if other != name}]
            check_equal(wrong, [], f"names of others for blocks of plugin {name}", Law)
            named[name] = sum(count for function, count in functions if function == f"keep_{name}")
        return named, self.bench.show(path)["losses"]["tracebacks_unsure"]


EXACT_WAYS = {f"{way}_by_{kind}": (way, kind == "the_library") for way in ("dlopen", "fixed", "copied") for kind in ("hooks", "the_library")}


@harness.rows(EXACT_WAYS, of_core=("fixed_by_hooks", "dlopen_by_the_library"))
def test_exact_blocks_of_code_that_was_replaced_have_no_other_name(bench, way, by_library):
    """The rules and the names of plugin a are known when others come to its place, of which the recorder hears later."""
    host = ExactHost(bench, build_plugins(bench), by_library)
    first = "fixed" if way == "copied" else way
    for _ in range(3):
        host.run(first, "a", 10)
        named, _ = host.named()
    check(named["a"] >= 20, f"{named} of plugin a")
    host.asleep([(way, "b", 20), (way, "c", 30)])
    check(len(host.places) == 1, "the plugins had different places")
    named, unsure_nr = host.named()
    if way == "dlopen" and by_library:
        check_equal(named["a"], 30, "blocks of plugin a, whose end the library has seen")
    else:
        check(unsure_nr > 0, f"nothing is unsure: {named}")
    host.recording.end(signal.SIGINT) if not by_library else host.program.write("quit\n")
