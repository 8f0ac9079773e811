# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Files with the same bytes are read once; files that only look alike are not mixed up."""
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import sys

import doctor_kinds as kinds
from harness import WORKLOADS, Workload, check, check_equal, need_overlays, private_mounts, tool
from test_known import check_totals

KNOWN = os.path.join(WORKLOADS, "known")
LIBC = str(kinds.LIBRARIES / "libc.so.6")

# Maps files as code, and waits.
MAPS = """
import mmap, os, sys
kept = [mmap.mmap(os.open(path, os.O_RDONLY), 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)
        for path in sys.argv[1:]]
os.read(0, 1)
"""

# take() begins with a `je` at +3, or with one instruction that covers +3 and whose bytes the test chooses.
TWIN = """
#include "workload.h"
#define OBJECT_BYTES 48
static char arena[1 << 16][OBJECT_BYTES];
static unsigned int used;

SITE void *give(size_t size)
{
	(void)size;
	return arena[used++];
}

SITE void give_back(void *object)
{
	__asm__ volatile("" ::"r"(object) : "memory");
}

void *take(size_t size);

__asm__(".text\\n.balign 64\\n.globl take\\n.type take, @function\\ntake:\\n"
#ifdef FORGED
	"	mov $0x12345678, %eax\\n"
	"	cmp $0x12345678, %eax\\n"
	"	jne 1f\\n"
	"	jmp give\\n"
	"1:	ud2\\n"
#else
	"	test %rdi, %rdi\\n"
	"	je 1f\\n"
	"1:	jmp give\\n"
#endif
	"	.balign 64\\n.size take, . - take\\n");

int main(void)
{
	const char *command;

	ready();
	while (strcmp(command = next_command(), "quit")) {
		for (long i = 0; i < 2000; i++) {
			void *object = take(OBJECT_BYTES);

			if (i % 10)
				give_back(object);
		}
		answer("{\\"done\\": {\\"allocations\\": %u, \\"count\\": %u}}", used, used / 10);
	}
}
"""
SPEC = "name=arena,object=exe,alloc=take(size=1),free=give_back(ptr=1)"
PLACES = {"honest": 3, "forged": 10}


def fill_root(bench, root):
    """With the known program, and a copy of its C library."""
    for path in re.findall(r"(/\S+) \(0x", bench.run([tool("ldd"), KNOWN])[0]):
        os.makedirs(root + os.path.dirname(path), exist_ok=True)
        shutil.copy(path, root + path)
    shutil.copy(KNOWN, root + "/known")


def in_chroot(bench, name):
    root = bench.path(name)
    fill_root(bench, root)
    return bench.start([tool("chroot"), root, "/known"], kind=Workload).ready()


def in_overlay(bench, image, name):
    """A container of an image: the same files, with numbers of their own."""
    need_overlays()
    folders = [bench.path(f"{name}.{part}") for part in ("upper", "work", "root")]
    for folder in folders:
        os.mkdir(folder)
    upper, work, root = folders
    script = (f"mount -t overlay none -o lowerdir={image},upperdir={upper},workdir={work} {root}"
              f" && exec {tool('chroot')} {root} /known")
    return bench.start([*private_mounts(), "sh", "-c", script], kind=Workload).ready()


def copies(recording):
    """The number of files that a recording keeps to compare others with: those that it has read."""
    found = 0
    for path in pathlib.Path(f"/proc/{recording.pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            found += os.readlink(path).startswith("/memfd:allocsnap-copy")
    return found


def check_all_exact(bench, targets):
    """All of them are exact, and need no more reading than one of them."""
    alone = bench.attach(targets[:1])
    read = copies(alone)
    alone.end(signal.SIGINT)
    recording = bench.attach(targets)
    check(read > 0, "nothing has been read")
    check_equal(copies(recording), read, "files read")
    done = [target.order("go")[1] for target in targets]
    shown = {bench.show(path)["metadata"]["pid"]: path for path in recording.snapshots()}
    for target, answer in zip(targets, done):
        check_totals(bench, shown[target.pid], answer)
    recording.end(signal.SIGINT)
    for target in targets:
        target.is_unharmed()


def test_identical_c_libraries_in_chroots_are_recorded_exactly(bench):
    """Three roots, each with a copy of the C library."""
    check_all_exact(bench, [in_chroot(bench, f"root{i}") for i in range(3)])


def test_identical_files_on_overlays_are_recorded_exactly(bench):
    """Three containers of one image."""
    image = bench.path("image")
    fill_root(bench, image)
    targets = [in_overlay(bench, image, f"container{i}") for i in range(3)]
    devices = {os.stat(f"/proc/{target.pid}/root/known").st_dev for target in targets}
    check_equal(len(devices), 3, "devices of their files")
    check_all_exact(bench, targets)


def test_one_layer_of_several_overlays_is_probed_once(bench):
    """Containers of one image, by probes that all processes share: a call is one call."""
    image = bench.path("image")
    fill_root(bench, image)
    targets = [in_overlay(bench, image, f"container{i}") for i in range(3)]
    recording = bench.attach(targets, "--follow-forks")
    done = [target.order("go")[1] for target in targets]
    for path in recording.snapshots():
        shown = bench.show(path)
        check_equal({name: nr for name, nr in shown["losses"].items() if nr}, {}, "losses")
        check_totals(bench, path, done[[target.pid for target in targets].index(shown["metadata"]["pid"])])
    recording.end(signal.SIGINT)
    for target in targets:
        target.is_unharmed()


def rows_of(process, paths):
    files = {row["path"]: row for row in process["files"]}
    return [files[path] for path in paths]


def places_in(process, path):
    return {(row["function"], row["offset"], row["placement"], row["instruction"], row["placed"])
            for row in process["probes"] if row["object"] == path}


def test_identical_files_are_read_once(bench):
    """The doctor says which file was only compared, and that another byte makes another file."""
    paths = [bench.path(name) for name in ("one.so", "two.so", "other.so")]
    for path in paths:
        shutil.copy(LIBC, path)
    with open(paths[2], "r+b") as file:
        file.seek(-1, os.SEEK_END)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_END)
        file.write(bytes([byte ^ 1]))
    pid = kinds.started(bench, [sys.executable, "-c", MAPS, *paths]).pid
    process = json.loads(bench.allocsnap("doctor", str(pid), "--json")[0])["process"]
    one, two, other = rows_of(process, paths)
    known = {LIBC, os.path.realpath(LIBC), *paths[:2]}
    twins = [row for row in process["files"] if row.get("same_as")]
    check_equal({row["path"] for row in twins} <= known, True, f"files reported as identical: {twins}")
    check(len(twins) >= 2 and all(row["same_as"] in known for row in twins), f"twins: {twins}")
    check_equal(len({row["build_id"] for row in (one, two, other)}), 1, "build-ids")
    check("same_as" not in other, "what has another byte passes for the same")
    check_equal(places_in(process, paths[0]), places_in(process, paths[1]), "probes in the two")
    check(len(places_in(process, paths[0])) >= 3, "there are hardly any probes")  # of a Python: malloc, calloc, realloc
    text = bench.allocsnap("doctor", str(pid), "-v")[0]
    check_equal(text.count("; the same bytes as /"), len(twins), "twins in the text")


def forged_programs(bench):
    """Two files of the same size and build-id, with different code."""
    include = f"-I{pathlib.Path(__file__).resolve().parent.parent}/workloads"
    flags = ("-O1", "-Wl,--build-id=0x0123456789abcdef0123456789abcdef01234567", include)
    paths = [kinds.compiled(bench, "honest", *flags, source=TWIN),
             kinds.compiled(bench, "forged", *flags, "-DFORGED", source=TWIN)]
    most = max(os.path.getsize(path) for path in paths)
    for path in paths:
        os.truncate(path, most)
    check_equal(kinds.build_id(bench, paths[0]), kinds.build_id(bench, paths[1]), "build-ids")
    return paths


def check_each_is_itself(bench, paths):
    targets = [bench.start([path], kind=Workload).ready() for path in paths]
    recording = bench.attach(targets, "--probe", SPEC)
    done = [target.order("go")[1] for target in targets]
    shown = {answer["metadata"]["pid"]: answer for answer in map(bench.show, recording.snapshots())}
    for path, target, answer in zip(paths, targets, done):
        found = shown[target.pid]
        check_equal(found["counters"]["allocations"], answer["allocations"], f"{path}: allocations")
        check_equal(found["blocks"], answer["count"], f"{path}: blocks")
        check_equal({row["placement"] for row in found["probes"] if row["function"] == "take"},
                    {PLACES[os.path.basename(path)]}, f"{path}: where take() is probed")
    recording.end(signal.SIGINT)
    for target in targets:
        target.is_unharmed()


def test_forged_files_are_not_mistaken_for_the_original(bench):
    """A probe at the other's place would change an instruction that looks at itself."""
    paths = forged_programs(bench)
    check_each_is_itself(bench, paths)
    check_each_is_itself(bench, paths[::-1])
