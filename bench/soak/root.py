# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A root folder with other C libraries: the next suite's glibc with a busybox, musl with a program of ours; beside them
programs that link none."""
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tests/placement"))
import suites  # pylint: disable=wrong-import-position

SUITE = "trixie"
WORKLOADS = os.environ["WORKLOADS"]
MUSL_LOADER = "/lib/ld-musl-x86_64.so.1"


def make(folder):
    """Its path. Fetched once, with apt's checks of Debian's signatures."""
    root = suites.fetch(os.path.join(folder, "suites"), SUITE, ("libc6", "busybox", "musl"))
    for name in ("bin", "lib", "lib64"):
        if not os.path.lexists(root / name):
            os.symlink(f"usr/{name}", root / name)
    for name in ("dev", "proc", "tmp"):
        (root / name).mkdir(exist_ok=True)
    if not (root / "dev/null").exists():
        os.mknod(root / "dev/null", 0o666 | 0o020000, os.makedev(1, 3))
    build_for_musl(root)
    build_go(root)
    subprocess.run(["strip", "-o", root / "own_pages", os.path.join(WORKLOADS, "own_pages")], check=True)
    return str(root)


def build_for_musl(root):
    """tests/workloads/holds, as musl_holds: it prints "ready" and waits for the end of its stdin."""
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tests/workloads/holds.c")
    subprocess.run(["musl-gcc", "-O1", "-g", f"-Wl,--dynamic-linker={MUSL_LOADER}", source, "-o",
                    root / "usr/bin/musl_holds"], check=True)


def build_go(root):
    """tests/workloads/heap.go, stripped: it serves its own profile, and allocates as its stdin says."""
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tests/workloads/heap.go")
    subprocess.run(["go", "build", "-ldflags=-s -w", "-o", root / "heap", source], check=True,
                   env={"GOCACHE": os.path.expanduser("~/.cache/go-build"), **os.environ, "GO111MODULE": "off"})


def versions(folder):
    """{package: version}"""
    return suites.versions(os.path.join(folder, "suites"), SUITE)


def copy_libraries(into):
    """Copies of the C library and of jemalloc: probes in the copies affect only the programs of this test."""
    os.makedirs(into)
    for name in ("libc.so.6", "libjemalloc.so.2"):
        path = os.path.join("/usr/lib", suites.MULTIARCH, name)
        if os.path.exists(path):
            shutil.copy(path, into)
    return into
