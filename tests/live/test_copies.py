# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Programs that copy their code while it runs, breakpoints included."""
import os
import pathlib
import signal

import harness
from harness import ALLOCSNAP, WORKLOADS, check, check_equal, tool, wait_for


@harness.core
def test_copies_of_a_program_that_announces_them_prevent_probes(bench):
    """The program runs undisturbed, without a probe in its own file, and the snapshot counts the missing functions."""
    path = os.path.abspath(os.path.join(WORKLOADS, "remap"))
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


@harness.core
def test_copies_made_during_a_recording_are_counted(bench):
    """The functions that were probed before the copy are counted as lost, so the gap is not silent. The copy
    contains breakpoints that would kill the process, so no function of the copy is called."""
    program = bench.workload("moved")
    recording = bench.attach([program])
    program.order("malloc")
    program.order("copy")
    said = f"process {program.pid} (moved) runs a copy of the code of "
    wait_for(lambda: said in recording.stderr(), "the copy is noticed")
    path = recording.snapshot()
    recording.end(signal.SIGINT)
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
