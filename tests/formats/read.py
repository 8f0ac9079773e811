# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Heap profiles of other tools, imported: the sums are those that their own tools print."""
import re

from common import SNAPSHOTS, Skip, allocsnap, check, check_equal, diff, pprof_top, pprof_totals, run, stats, test, tool

GO_PROGRAM = """
package main

import (
	"os"
	"runtime"
	"runtime/pprof"
	"strconv"
)

var kept [][]byte

func keepBig()   { kept = append(kept, make([]byte, 1<<20)) }
func keepSmall() { kept = append(kept, make([]byte, 1000)) }

func write(name string) {
	runtime.GC()
	file, _ := os.Create(name)
	pprof.WriteHeapProfile(file)
	file.Close()
}

func main() {
	runtime.MemProfileRate, _ = strconv.Atoi(os.Args[3])
	for i := 0; i < 20; i++ {
		keepBig()
	}
	write(os.Args[1])
	for i := 0; i < 5000; i++ {
		keepSmall()
	}
	write(os.Args[2])
}
"""

C_PROGRAM = """
#include <stdlib.h>
#include <string.h>
void *volatile kept;
__attribute__((noinline)) void keep_big(void) { kept = memset(malloc(200000), 1, 200000); }
__attribute__((noinline)) void keep_small(void) { kept = malloc(100); }
int main(void)
{
	for (int i = 0; i < 300; i++) keep_big();
	for (int i = 0; i < 50000; i++) keep_small();
	for (int i = 0; i < 1000; i++) free(malloc(5000));
	return 0;
}
"""


def imported(path):
    out = path.with_suffix(".snap")
    allocsnap("convert", path, "-o", out)
    return out


def go_profiles(folder, rate):
    source = folder / "prog.go"
    source.write_text(GO_PROGRAM, encoding="utf-8")
    run(tool("go"), "build", "-o", folder / "prog", source, env={"HOME": str(folder), "GOFLAGS": "-mod=mod"}, timeout=120)
    paths = [folder / f"{which}-{rate}.pb.gz" for which in ("old", "new")]
    run(folder / "prog", *paths, rate)
    return paths


@test
def profiles_of_go_have_the_sums_of_pprof(folder):
    for rate in (1, 524288):
        old, new = go_profiles(folder, rate)
        for path in (old, new):
            wanted, found = pprof_totals(path), stats(imported(path))["total"]
            check(wanted["inuse_space/bytes"] > 10 << 20, f"{path}: {wanted}")
            check_equal(found["size"], wanted["inuse_space/bytes"], f"rate {rate}: bytes")
            check_equal(found["count"], wanted["inuse_objects/count"], f"rate {rate}: blocks")
            allocated = stats(path.with_suffix(".snap"), "-m", "allocated")["total"]
            check_equal(allocated["size"], wanted["alloc_space/bytes"], f"rate {rate}: allocated bytes")
        rows = diff(old.with_suffix(".snap"), new.with_suffix(".snap"), "-g", "function")["statistics"]
        check_equal({row["key"]: row["size_diff"] for row in rows if row["size_diff"]},
                    pprof_top("-diff_base", old, new), f"rate {rate}: diff")


def c_program(folder):
    source, program = folder / "leak.c", folder / "leak"
    source.write_text(C_PROGRAM, encoding="utf-8")
    run("cc", "-g", "-O1", "-fno-omit-frame-pointer", source, "-o", program)
    return program


def find_profile(folder, pattern):
    found = sorted(folder.glob(pattern))
    if not found:
        raise Skip(f"the library wrote no {pattern}: it cannot profile here")
    return found[-1]


def jemalloc_profile(folder, program):
    run(program, env={"LD_PRELOAD": "libjemalloc.so.2",
                      "MALLOC_CONF": f"prof:true,prof_final:true,lg_prof_sample:16,prof_prefix:{folder}/je"})
    return find_profile(folder, "je*.heap")


def tcmalloc_profile(folder, program):
    run(program, env={"LD_PRELOAD": "libtcmalloc.so.4", "HEAPPROFILE": f"{folder}/tc"})
    return find_profile(folder, "tc*.heap")


def perl_text(script, program, path):
    """(total, {function: (flat bytes, cumulative bytes)}) of jeprof or google-pprof."""
    out, _ = run(tool(script), "--text", "--show_bytes", program, path)
    rows = re.findall(r"^ *(\d+) +\S+% +\S+% +(\d+) +\S+% (\S+)", out, re.M)
    return int(re.search(r"Total: (\d+) B", out)[1]), {name: (int(flat), int(cum)) for flat, cum, name in rows}


@test
def profiles_of_jemalloc_have_the_sums_of_jeprof(folder):
    """jeprof leaves out frames that it takes for the allocator's; only its total is compared, and what the leaves hold."""
    program = c_program(folder)
    path = jemalloc_profile(folder, program)
    wanted, rows = perl_text("jeprof", program, path)
    report = stats(imported(path), "-g", "traceback")
    check(abs(report["total"]["size"] - wanted) <= 2, f"{report['total']['size']} bytes, jeprof has {wanted}")
    sizes = {row["size"] for row in report["statistics"]}
    for leaf in ("keep_big", "keep_small"):
        check(any(abs(size - rows[leaf][0]) <= 1 for size in sizes), f"{leaf}: {rows[leaf]} is not in {sizes}")


@test
def profiles_of_tcmalloc_have_the_sums_of_pprof(folder):
    path = tcmalloc_profile(folder, c_program(folder))
    wanted, found = pprof_totals(path), stats(imported(path))["total"]
    check(found["size"] >= 300 * 200000, f"{found}")
    check_equal(found["size"], wanted["space/bytes"], "bytes")
    check_equal(found["count"], wanted["objects/count"], "blocks")


def check_names(path, script, program, rounding):
    """Functions and their sums, by own frames and by callers, are those that the library's own script prints."""
    snap = imported(path)
    _, err = allocsnap("symbolize", snap)
    check("--by-path takes the file" in err and not stats(snap)["losses"], f"named without being asked: {err}")
    _, err = allocsnap("stats", snap)
    check("no function has a name; 'allocsnap symbolize --by-path'" in err, f"no hint: {err!r}")
    out, _ = allocsnap("symbolize", "--by-path", snap)
    check("by path, not verified" in out, out)
    total, wanted = perl_text(script, program, path)
    report = stats(snap, "-g", "function")
    check(abs(report["total"]["size"] - total) <= rounding, f"{report['total']}, {script} has {total}")
    check(report["losses"].pop("frames_named_by_path", 0) >= 3 and not report["losses"], f"losses: {report['losses']}")
    flat = {row["key"]: row["size"] for row in report["statistics"]}
    callers = {row["key"]: row["size"] for row in stats(snap, "-g", "function", "-c")["statistics"]}
    for name in ("keep_big", "keep_small", "main"):
        check(abs(flat.get(name, 0) - wanted[name][0]) <= rounding, f"{name}: {flat}, {script} has {wanted[name]}")
        check(abs(callers[name] - wanted[name][1]) <= rounding, f"{name}: {callers}, {script} has {wanted[name]}")
    lines = {(row["traceback"][0]["filename"], row["traceback"][0]["lineno"]) for row in stats(snap)["statistics"]}
    source = str(path.parent / "leak.c")
    check_equal({line for name, line in lines if name == source}, {5, 6}, f"lines, of {lines}")


@test
def names_by_path_are_those_of_jeprof(folder):
    program = c_program(folder)
    check_names(jemalloc_profile(folder, program), "jeprof", program, 2)


@test
def names_by_path_are_those_of_google_pprof(folder):
    program = c_program(folder)
    check_names(tcmalloc_profile(folder, program), "google-pprof", program, 0)


@test
def own_profiles_come_back_the_same(folder):
    for name in ("new", "cxx", "brackets", "mixed", "many", "leaks-one"):
        profile, back = folder / f"{name}.pb.gz", folder / f"{name}.snap"
        allocsnap("convert", SNAPSHOTS / f"{name}.snap", "-o", profile)
        allocsnap("convert", profile, "-o", back)
        rows = diff(SNAPSHOTS / f"{name}.snap", back, "-g", "traceback")["statistics"]
        check_equal([row for row in rows if row["size_diff"] or row["count_diff"]], [], name)


@test
def damaged_files_give_one_line(folder):
    allocsnap("convert", SNAPSHOTS / "many.snap", "-o", folder / "whole.pb.gz")
    whole = (folder / "whole.pb.gz").read_bytes()
    text = b"heap_v2/1\n t*: 1: 2 [3: 4]\n@ 1\n t*: 1: 2 ["
    broken = [whole[:len(whole) * i // 8] for i in range(1, 8)]
    broken += [bytes(whole[:i] + bytes([whole[i] ^ 0xff]) + whole[i + 1:]) for i in range(20, len(whole) - 8, len(whole) // 9)]
    for data in broken + [text, b"\x1f\x8b", b"\x0a\x04\x08"]:
        (folder / "broken").write_bytes(data)
        _, err = allocsnap("convert", folder / "broken", "-o", folder / "broken.snap", status=1)
        check_equal(len(err.splitlines()), 1, f"lines of {err!r}")
        check(not (folder / "broken.snap").exists(), "a file was written")
    _, err = allocsnap("stats", folder / "whole.pb.gz", status=1)
    check("allocsnap convert" in err, f"no way shown: {err}")
