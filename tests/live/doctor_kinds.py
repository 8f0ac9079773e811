# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Kinds of processes, each started and waiting; binutils judge their files."""
import contextlib
import errno
import os
import pathlib
import re
import shutil
import subprocess

from harness import MULTIARCH, PATH, Skip, check, tool, wait_for

LIBRARIES = pathlib.Path(f"/usr/lib/{MULTIARCH}")

WAITS = """
#include <stdlib.h>
#include <unistd.h>
int main(void)
{
	void *volatile block = malloc(100);
	char got;

	while (read(0, &got, 1) == 1)
		block = realloc(block, 100 + got);
	free(block);
	return 0;
}
"""

# read(0, …) for ever; no C library of that kind is needed.
WAITS_32 = """
void _start(void)
{
	char got;
	int result;

	for (;;)
		__asm__ volatile("int $0x80" : "=a"(result) : "a"(3), "b"(0), "c"(&got), "d"(1));
}
"""

def need_32_bit(path):
    """Skips the test where the kernel was built without 32-bit programs."""
    try:
        process = subprocess.Popen([path], stdin=subprocess.DEVNULL)
    except OSError as error:
        if error.errno != errno.ENOEXEC:
            raise
        raise Skip("this kernel runs no 32-bit programs") from None
    process.kill()
    process.wait()


# A thread goes on where the main one has ended.
LEADERLESS = """
#include <pthread.h>
#include <unistd.h>
static void *wait(void *nothing)
{
	char got;

	while (read(0, &got, 1) == 1)
		;
	_exit(0);
	return nothing;
}
int main(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, wait, NULL);
	pthread_exit(NULL);
}
"""


def compiled(bench, name, *options, compiler="gcc", source=WAITS):
    """The path of a program."""
    path = bench.path(name)
    if not os.path.exists(path):
        pathlib.Path(path + ".c").write_text(source, encoding="ascii")
        made = subprocess.run([tool(compiler), *options, path + ".c", "-o", path],
                              capture_output=True, text=True, check=False)
        if made.returncode:
            raise Skip(f"{compiler} {' '.join(options)} does not work: {made.stderr[-200:]}")
    return path


# Numbers of read(), also of a 32-bit program, and of calls that wait for many.
READ, WAIT_FOR_MANY = {"x86_64": (("0", "3"), ("232", "281")), "aarch64": (("63",), ("22",))}[os.uname().machine]


def waits_for_input(pid):
    """Whether a thread of it is in read(0, …), or in a call that waits for many."""
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        words = [""]
        with contextlib.suppress(OSError):  # a thread that has ended
            words = (task / "syscall").read_text().split()
        if words[0] in READ and words[1] == "0x0" or words[0] in WAIT_FOR_MANY:
            return True
    return False


def started(bench, argv, library=None, **env):
    """Runs a program until it waits."""
    if library:
        check(library.exists(), f"{library} is not there: scripts/install-deps.sh has it")
        env["LD_PRELOAD"] = str(library)
    process = bench.start(argv, env=dict(os.environ, **env))
    wait_for(lambda: waits_for_input(process.pid), f"{argv} waiting")
    return process


def zombie(bench):
    """A child of the test that has exited and stays a zombie until the test is over."""
    pid = bench.start_raw([tool("true")]).pid
    wait_for(lambda: pathlib.Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z", "its end")
    return pid


def chroot(bench):
    """With a C library of its own, at the same path."""
    root, program = bench.path("root"), compiled(bench, "dynamic")
    for path in re.findall(r"(/\S+) \(0x", bench.run([tool("ldd"), program])[0]):
        os.makedirs(root + os.path.dirname(path), exist_ok=True)
        shutil.copy(path, root + path)
    shutil.copy(program, root + "/waits")
    return started(bench, [tool("chroot"), root, "/waits"])


# ---- what files are like --------------------------------------------------------------------------

def readelf(bench, *arguments):
    return bench.run([tool("readelf"), "--wide", *arguments])[0]


def linking(bench, path):
    """As the doctor calls it."""
    if "ELF32" in readelf(bench, "--file-header", path):
        return "32-bit"
    segments = readelf(bench, "--program-headers", path)
    if "INTERP" in segments:
        return "dynamic"
    return "static PIE" if "DYNAMIC" in segments else "static"


def sections(bench, path):
    return set(re.findall(r"^ *\[ *\d+\] (\.\S+)", readelf(bench, "--section-headers", path), re.M))


def build_id(bench, path):
    match = re.search(r"Build ID: (\w+)", readelf(bench, "--notes", path))
    return match[1] if match else None


def functions(bench, path):
    """{name: offset in the file} of the functions that a file defines; of one name the global one."""
    loads = [tuple(int(text, 16) for text in match) for match in re.findall(
        r"LOAD +0x(\w+) 0x(\w+) 0x\w+ 0x(\w+)", readelf(bench, "--program-headers", path))]
    found = {}
    for match in re.finditer(r"^ *\d+: (\w+) +\d+ FUNC +(GLOBAL|WEAK|LOCAL) +\w+ +\d+ (\w+)",
                             readelf(bench, "--symbols", path), re.M):
        address = int(match[1], 16)
        for offset, start, size in loads:
            if start <= address < start + size and (match[2] != "LOCAL" or match[3] not in found):
                found[match[3]] = address - start + offset
    return found


def installed(name):
    return shutil.which(name, path=PATH) is not None
