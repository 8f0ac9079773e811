# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Identity of files: programs that are replaced in place, file systems that number files alike, forged
build-ids; and files that are closed when no process maps them any more."""
import contextlib
import errno
import json
import os
import pathlib
import shutil
import signal
import subprocess

import harness
from harness import Skip, breakpoints_of, check, check_equal, environment, private_mounts, tool, wait_for
from test_record import World, name_of

MARKS = ("alone",)

DEPLOYS = int(os.environ.get("DEPLOYS", "200"))

# SIZE bytes from a function NAME; PADDING moves all that comes behind it.
VERSION = """
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
__attribute__((noipa)) int padding(int x) { PADDING return x; }
__attribute__((noipa)) void *NAME(size_t size) { char *block = malloc(size); *(volatile char *)block = 1; return block; }
__attribute__((noipa)) int begin(void) { return NAME(SIZE) && padding(1); }
int main(int argc, char **argv)
{
	if (!begin())
		return 1;
	if (argc > 1) {
		puts("ready");
		fflush(stdout);
		return getchar() == 'x';
	}
	return 0;
}
"""
VERSIONS = {"alpha_hold": ("", 70001), "beta_hold": ("x = x * 3 + 1; " * 40, 80001)}
SIZE_OF = {name: size for name, (_, size) in VERSIONS.items()}


def build(bench, name, *options, path=None):
    """One of the versions, under a path of its own."""
    padding, size = VERSIONS[name]
    source, path = bench.path(f"{name}.c"), path or bench.path(f"{name}{''.join(options)}")
    pathlib.Path(source).write_text(
        VERSION.replace("PADDING", padding).replace("NAME", name).replace("SIZE", str(size)))
    bench.run([tool("gcc"), "-g", "-O1", source, "-o", path, *options])
    return path


def open_files(pid):
    found = []
    for path in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed since
            found.append(os.readlink(path))
    return found


def deploy(version, program):
    """As cp does it: the file stays, its bytes change. The kernel may keep the memory of a program that has just
    ended a moment longer, while it removes breakpoints, so this waits."""
    def is_written():
        try:
            with open(version, "rb") as new, open(program, "wb") as file:
                shutil.copyfileobj(new, file)
            return True
        except OSError as error:
            check_equal(error.errno, errno.ETXTBSY, "why the program cannot be written to")
            return False

    wait_for(is_written, f"{program} can be written to")


def held(bench, path):
    """{size of a block: functions of its traceback}, of the versions' blocks."""
    found = {}
    for row in bench.stats(path, "--group-by", "traceback")["statistics"]:
        if row["size"] in SIZE_OF.values():
            found[row["size"]] = [frame.get("function") for frame in row["traceback"]]
    return found


def check_names(bench, path):
    """No block has the name of the other version. How many have their own."""
    right = 0
    for size, functions in held(bench, path).items():
        for name in VERSIONS:
            check((SIZE_OF[name] == size) or name not in functions, f"{path}: {size} bytes from {functions}")
            right += SIZE_OF[name] == size and name in functions
    return right


def record(world, *programs, **options):
    """By their paths; their C library is probed already."""
    warm = world.warm().popen.args[0]
    return world.record(*[word for program in (warm, *programs) for word in ("--exe", program)],
                        "--min-bytes", "1", **options)


def run_once(bench, world, program):
    bench.run([program], env=world.environment)


def deploy_and_run(bench, *options):
    world = World(bench)
    versions = [build(bench, name, *options) for name in VERSIONS]
    program = bench.path("app")
    shutil.copy(versions[0], program)
    recorder = world.record("--exe", program, "--min-bytes", "1", interval="1s")
    for i in range(DEPLOYS):
        deploy(versions[i % 2], program)
        run_once(bench, world, program)
    recorder.popen.send_signal(signal.SIGINT)
    check_equal(recorder.wait(60), 0, f"exit status of record (stderr {recorder.stderr()!r})")
    named = [check_names(bench, path) for path in recorder.paths()]
    check(named, "no snapshots")


@harness.core
def test_files_deployed_in_place_are_probed_when_static(bench):
    """The file that is written to contains the allocator: breakpoints of the old version would kill the new one."""
    deploy_and_run(bench, "-static")


def test_files_deployed_in_place_are_named_when_dynamic(bench):
    """The file that is written to has no probe, but names of the old version would be wrong."""
    deploy_and_run(bench)


def test_files_deployed_in_place_during_a_pause_are_probed_after_it(bench):
    """A file is replaced during a pause: after the pause the probes are in the new version."""
    world = World(bench)
    versions = [build(bench, name, "-static") for name in VERSIONS]
    program = bench.path("app")
    shutil.copy(versions[0], program)
    with environment("ALLOCSNAP_PAUSE_EVERY_MS", "3"):
        recorder = world.record("--exe", program, "--min-bytes", "1", interval="1s")
    for i in range(DEPLOYS // 2):
        deploy(versions[i % 2], program)
        run_once(bench, world, program)
    recorder.end()
    for path in recorder.paths():
        check_names(bench, path)


def test_files_deployed_in_place_between_passes_are_watched(bench):
    """The old version is closed and the new one watched; also when the recorder itself has to watch it."""
    world = World(bench)
    versions = [build(bench, name, "-static") for name in VERSIONS]
    program = bench.path("app")
    shutil.copy(versions[0], program)
    with environment("ALLOCSNAP_NO_UPROBE_MULTI"):
        recorder = world.record("--exe", program, "--min-bytes", "1")
    for version in (versions[1], versions[0], versions[1]):
        process = bench.start([program, "stay"], env=world.environment)
        check_equal(process.line(), "ready", "the program")
        recorder.pass_line()
        process.write("q")
        check_equal(process.wait(), 0, "exit status of the program")
        for _ in range(3):
            recorder.pass_line()
        deploy(version, program)
        check(not breakpoints_of(program), "the probes of the old version are gone before the new one is written")
    recorder.end()


def test_files_of_a_running_program_keep_their_names(bench):
    """Removed and replaced by renaming, as packages are: what runs goes on as the old version."""
    world = World(bench)
    old, new = (build(bench, name) for name in VERSIONS)
    program = bench.path("app")
    shutil.copy(old, program)
    recorder = record(world, program)
    process = bench.start([program, "stay"], env=world.environment)
    check_equal(process.line(), "ready", "the old version")
    shutil.copy(new, bench.path("app.new"))
    os.rename(bench.path("app.new"), program)
    later = bench.start([program, "stay"], env=world.environment)
    check_equal(later.line(), "ready", "the new version")
    found = {}
    for path in recorder.pass_now():
        found.update(held(bench, path))
        check_equal(bench.show(path)["losses"].get("objects_changed", 0), 0, f"{path}: objects_changed")
    check("alpha_hold" in found.get(70001, ()) and "beta_hold" in found.get(80001, ()), f"names: {found}")


# ---- file systems that number files alike ----

@contextlib.contextmanager
def mounted(bench, name, *command):
    """A file system in a folder of the bench, for all to see as long as this lasts."""
    folder = bench.path(name)
    os.mkdir(folder)
    bench.run([tool("mount"), *command, folder])
    try:
        yield folder
    finally:
        bench.run([tool("umount"), "--lazy", folder])


def check_both_named(bench, world, programs):
    """Two programs at once, and one after the other."""
    recorder = record(world, *programs)
    processes = [bench.start([program, "stay"], env=world.environment) for program in programs]
    for process in processes:
        check_equal(process.line(), "ready", "a program")
    found = {}
    for path in recorder.pass_now():
        check_names(bench, path)
        found.update(held(bench, path))
    check_equal({size: name in found.get(size, ()) for name, size in SIZE_OF.items()},
                {size: True for size in SIZE_OF.values()}, f"named: {found}")
    recorder.end()


def test_files_of_two_btrfs_subvolumes_are_distinguished(bench):
    """Both files have the same inode number, and /proc/PID/maps shows one device for both."""
    image, world = bench.path("image"), World(bench)
    with open(image, "wb") as file:
        file.truncate(300 << 20)
    bench.run([tool("mkfs.btrfs"), "-q", image])
    versions = [build(bench, name) for name in VERSIONS]
    with mounted(bench, "btrfs", "-o", "loop", image) as folder:
        programs = []
        for i, version in enumerate(versions):
            bench.run([tool("btrfs"), "subvolume", "create", f"{folder}/{i}"])
            programs.append(shutil.copy(version, f"{folder}/{i}/app{i}"))
        check_equal(len({os.stat(program).st_ino for program in programs}), 1, "inode numbers")
        check_both_named(bench, world, programs)


def test_files_of_an_overlay_over_two_file_systems_are_distinguished(bench):
    """A file of the lower layer and one of the upper one have the same inode number."""
    harness.need_overlays()
    world, versions = World(bench), [build(bench, name) for name in VERSIONS]
    with mounted(bench, "lower", "-t", "tmpfs", "lower") as lower, \
            mounted(bench, "upper", "-t", "tmpfs", "upper") as upper:
        for name in ("files", "work"):
            os.mkdir(f"{upper}/{name}")
        below = [shutil.copy(versions[0], f"{lower}/app{i}") for i in range(64)]
        above = shutil.copy(versions[1], f"{upper}/files/other")
        twin = [path for path in below if os.stat(path).st_ino == os.stat(above).st_ino]
        if not twin:
            raise Skip("no two files got the same inode number")
        options = f"lowerdir={lower},upperdir={upper}/files,workdir={upper}/work"
        with mounted(bench, "both", "-t", "overlay", "overlay", "-o", options) as both:
            check_both_named(bench, world, [f"{both}/{os.path.basename(twin[0])}", f"{both}/other"])


# ---- forged build-ids ----

LIBRARY = "#include <stdlib.h>\nvoid *NAME(size_t n) { return malloc(n); }\nvoid *enter(size_t n) { return NAME(n); }\n"
PROGRAM = "#include <stddef.h>\nvoid *enter(size_t);\nint main(void) { return !enter(70001); }\n"


def build_library(bench, folder, name):
    os.mkdir(folder)
    pathlib.Path(bench.path("library.c")).write_text(LIBRARY.replace("NAME", name))
    bench.run([tool("gcc"), "-O1", "-fno-optimize-sibling-calls", "-shared", "-fPIC", "-Wl,--build-id=0x112233445566778811223344",
               bench.path("library.c"), "-o", f"{folder}/libtwin.so"])


def test_files_with_a_forged_build_id_are_distinguished(bench):
    """Another user mounts a library of the same build-id over the path, in a mount namespace of its own."""
    world, honest, forged = World(bench), bench.path("honest"), bench.path("forged")
    build_library(bench, honest, "honest_hold")
    build_library(bench, forged, "forged_hold")
    pathlib.Path(bench.path("program.c")).write_text(PROGRAM)
    program = bench.path("app")
    bench.run([tool("gcc"), "-O1", bench.path("program.c"), "-o", program, f"-L{honest}", "-ltwin",
               f"-Wl,-rpath,{honest}"])
    os.chmod(bench.folder, 0o755)
    recorder = record(world, program, f"{bench.folder}/maps")
    maps = shutil.copy("/bin/sleep", bench.path("maps"))
    script = (f"mount --bind {forged}/libtwin.so {honest}/libtwin.so && echo ready && "
              f"LD_PRELOAD={honest}/libtwin.so exec {maps} 60")
    forger = bench.start([tool("setpriv"), "--reuid=65534", "--regid=65534", "--clear-groups", tool("unshare"), "-rm",
                          "sh", "-c", script], env=world.environment)
    check_equal(forger.line(), "ready", "the other user")
    wait_for(lambda: "libtwin" in pathlib.Path(f"/proc/{forger.pid}/maps").read_text(), "it maps the library")
    for _ in range(3):
        bench.run([program], env=world.environment)
    texts = []
    for path in recorder.pass_now():
        if "/app." in path:
            texts.append(json.dumps(bench.stats(path, "--group-by", "traceback")))
    check_equal(len(texts), 3, "snapshots of the program")
    check(not any("forged_hold" in text for text in texts), f"the forged names: {texts}")
    check(any("honest_hold" in text for text in texts), f"its own names: {texts}")


# ---- files that are closed ----

def descriptors(recorder):
    return len(os.listdir(f"/proc/{recorder.pid}/fd"))


def test_files_do_not_prevent_an_unmount(bench):
    """The file system can be unmounted two passes after its programs have exited."""
    world, version = World(bench), build(bench, "alpha_hold", "-static")
    folder = bench.path("mounted")
    os.mkdir(folder)
    bench.run([tool("mount"), "-t", "tmpfs", "test", folder])
    try:
        program = shutil.copy(version, f"{folder}/app")
        recorder = world.record("--exe", program, "--min-bytes", "1")
        process = bench.start([program, "stay"], env=world.environment)
        check_equal(process.line(), "ready", "the program")
        recorder.pass_now()
        process.write("q")
        process.wait()
        for _ in range(2):
            recorder.pass_line()
        wait_for(lambda: not subprocess.run([tool("umount"), folder], check=False, capture_output=True).returncode,
                 "it can be unmounted")  # the kernel takes a tenth of a second to end a link
    finally:
        bench.run(["sh", "-c", f"umount --lazy {folder} 2>/dev/null || true"])
    recorder.end()


def test_files_that_are_removed_are_closed(bench):
    world, version = World(bench), build(bench, "alpha_hold", "-static")
    recorder = world.record("--exe", f"{bench.folder}/run*", "--min-bytes", "1")
    for i in range(20):
        program = shutil.copy(version, bench.path(f"run{i}"))
        bench.run([program])
        os.unlink(program)
    for _ in range(2):
        recorder.pass_line()
    wait_for(lambda: not [path for path in open_files(recorder.pid) if "/run" in path and "(deleted)" in path],
             "removed files are closed, once their probes are gone: perf events go one by one")
    recorder.end()


MAPPER = """
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
int main(int argc, char **argv)
{
	static char bytes[1 << 16];
	int from = open(argv[1], O_RDONLY), nr = atoi(argv[3]), every = atoi(argv[4]);
	ssize_t length = read(from, bytes, sizeof(bytes) - 8);
	char path[4096];
	for (int i = 0; i < nr; i++) {
		snprintf(path, sizeof(path), "%s/f%d.so", argv[2], i);
		int fd = open(path, O_RDWR | O_CREAT, 0755);
		memcpy(bytes + length, &i, sizeof(i));
		if (write(fd, bytes, length + 8) < 0)
			return 1;
		void *map = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
		close(fd);
		if (i % every == every - 1)
			usleep(1000);
		munmap(map, 4096);
		unlink(path);
	}
	puts("ready");
	fflush(stdout);
	return getchar() == 'x';
}
"""
FILES = int(os.environ.get("FILES", "10000"))


def test_files_mapped_and_unmapped_ten_thousand_times_leave_nothing(bench):
    """The program that runs in the end has its tables, its names and its descriptors."""
    world, version = World(bench), build(bench, "alpha_hold")
    tiny, mapper, folder = bench.path("tiny.so"), bench.path("mapper"), bench.path("many")
    pathlib.Path(bench.path("tiny.c")).write_text("int tiny(int x) { return x + 1; }\n")
    pathlib.Path(bench.path("mapper.c")).write_text(MAPPER)
    bench.run([tool("gcc"), "-shared", "-fPIC", bench.path("tiny.c"), "-o", tiny])
    bench.run([tool("gcc"), "-O1", bench.path("mapper.c"), "-o", mapper])
    os.mkdir(folder)
    recorder = record(world, mapper, version, interval="2s")
    before = descriptors(recorder)
    process = bench.start([mapper, tiny, folder, str(FILES), "20"], env=world.environment)
    check_equal(process.line(120), "ready", "the mapper")

    def last_snapshot():
        """The last snapshot of a new program; it allocates at once, and the first time before its table is loaded."""
        last = bench.start([version, "stay"], env=world.environment)
        check_equal(last.line(), "ready", "the program")
        wait_for(lambda: any(f".{last.pid}/" in path for path in recorder.paths()), "its snapshot", 60)
        last.write("q")
        return [path for path in recorder.paths() if f".{last.pid}/" in path][0]

    for _ in range(10):
        path = last_snapshot()
        if "main" in held(bench, path).get(70001, ()):
            break
    check("main" in held(bench, path)[70001], f"{path}: its traceback: {held(bench, path)}")
    check_equal(bench.show(path)["losses"].get("unwind_tables_missing", 0), 0, "tables missing")
    wait_for(lambda: descriptors(recorder) < before + 200, "descriptors are given back", 60)
    process.write("q")
    recorder.end()


def test_files_on_a_private_mount_are_closed_when_it_ends(bench):
    """The root of a container vanishes when the container ends."""
    world, version = World(bench), build(bench, "alpha_hold", "-static")
    folder = bench.path("root")
    os.mkdir(folder)
    script = f"mount -t tmpfs gone {folder} && cp {version} {folder}/app && exec {folder}/app stay"
    recorder = world.record("--exe", f"{folder}/app", "--min-bytes", "1")
    process = bench.start([*private_mounts(), "sh", "-c", script])
    check_equal(process.line(), "ready", "the program")
    recorder.pass_now()
    process.write("q")
    process.wait()
    for _ in range(2):
        recorder.pass_line()
    wait_for(lambda: not any("/app" in path for path in open_files(recorder.pid)), "its program is closed")
    recorder.end()


# ---- files that are open for writing ----

def hold_open(world):
    """For writing, as a defragmenter does, and nothing is written."""
    return open(f"{world.libraries}/libc.so.6", "r+b")


def test_files_open_for_writing_are_probed_again_when_they_are_closed(bench):
    """The file is probed again when it is closed. A loss counts the allocations until then."""
    world = World(bench)
    recorder = world.record_warm("--comm", "later*", "--min-bytes", "1")
    with hold_open(world):
        for _ in range(4):  # looks
            recorder.pass_line()

    def is_probed():
        name = name_of(world.holds("later"))
        return any(row["size"] == 100003 for path in recorder.pass_now() if f"/{name}/" in path
                   for row in bench.stats(path)["statistics"])

    wait_for(is_probed, "the block of a program that comes later is recorded", 60)
    recorder.end()


HOLDER = """
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(void)
{
	for (int i = 0; i < 200; i++) {
		if (!malloc(70001))
			return 1;
		usleep(5000);
	}
	puts("ready");
	fflush(stdout);
	return getchar() == 'x';
}
"""


def test_files_open_for_writing_do_not_delay_other_files(bench):
    """Files open for writing cannot be probed after a pause; other files can."""
    if harness.NO_LINKS:
        raise Skip("without links of many uprobes each pause takes seconds")
    world, other = World(bench), bench.path("other")
    pathlib.Path(bench.path("other.c")).write_text(HOLDER)
    bench.run([tool("gcc"), "-static", bench.path("other.c"), "-o", other])
    with environment("ALLOCSNAP_PAUSE_EVERY_MS", "5"):
        recorder = record(world, other)
    with hold_open(world):
        check_equal(bench.start([other]).line(60), "ready", "the other program")
        found = {row["size"] // row["count"] for path in recorder.pass_now() if "/other." in path
                 for row in bench.stats(path)["statistics"]}
    check(70001 in found, f"blocks of the other program: {found}; {recorder.stderr()}")
    recorder.end()
