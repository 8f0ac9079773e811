#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Where probes sit in the allocators of three Debian suites, and whether each of them counts right.
tests/harness/suite.py describes the arguments.

Each case is a suite and an allocator: tests/workloads/allocators.c is run by that suite's own loader
(it is its program interpreter) with its libraries. For each function the place of its probe is printed, and why it is there, as doctor
says; then the program is recorded, attached to and from its start, and the account must be the
program's own, to the byte. The allocators of these suites for arm64 are not run: tests/unit/elf/a64_code.c compares what
allocsnap makes of their code with objdump. Environment: ALLOCSNAP, WORKLOADS, UNIT, PLACEMENT (where suites are kept).
"""
import functools
import os
import pathlib
import subprocess
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../live"), os.path.join(HERE, "..")]
import harness  # pylint: disable=wrong-import-position
import suites  # pylint: disable=wrong-import-position
import test_allocators as known  # pylint: disable=wrong-import-position

FOLDER = os.environ["PLACEMENT"]
CASE_SECONDS = 600  # a limit only
LIBRARY = {"jemalloc": "libjemalloc.so.2", "tcmalloc": "libtcmalloc_minimal.so.4",
           "mimalloc": "libmimalloc.so.[0-9]"}
ALLOCATORS = ("glibc", "musl", *LIBRARY)


def find(root, name):
    """The one file of this name; /lib is not always a link to /usr/lib in a package."""
    for folder in ("usr/lib", "lib"):
        for path in sorted(pathlib.Path(root, folder).rglob(name)):
            if path.exists():
                return str(path)
    raise harness.Failure(f"{name} is not in the suite's packages")


def build(bench, root, allocator):
    """A program that the suite's own loader runs, with the suite's libraries and no others."""
    if allocator == "musl":
        return known.build_with(bench, "of_musl", "musl-gcc",
                                [f"-Wl,--dynamic-linker={find(root, 'libc.so')}"])
    folders = [os.path.join(root, name, suites.MULTIARCH) for name in ("usr/lib", "lib")]
    flags = [f"-Wl,--dynamic-linker={find(root, 'ld-linux-x86-64.so.2')}",
             f"-Wl,-rpath,{':'.join(folders)}", "-Wl,--disable-new-dtags",
             "-Wl,--allow-shlib-undefined", "-Wl,--no-as-needed"]
    if allocator in LIBRARY:
        flags.append(find(root, LIBRARY[allocator]))
    else:
        flags.append("-DONLY_GLIBC")
    return known.build_with(bench, f"of_{allocator}", "gcc", [*flags, "-lstdc++"])


# ---- places of probes ----

def print_table(process, case):
    """A row for each function of the allocator, and how many are single-stepped."""
    rows = [row for row in process["probes"] if row["placed"]]
    for row in rows:
        place = f"{row['function']}+{row['placement']}"
        instruction = row.get("instruction", "")
        print(f"   {case:17} {place:26} {instruction:34} {row['why']}")
    stepped = [row["function"] for row in rows if not row["emulated"]]
    print(f"   {case}: {len(rows)} probes, {len(stepped)} single-stepped", flush=True)
    return rows


def check_places(bench, argv, case, allocator):
    program = bench.start(argv, kind=harness.Workload).ready()
    process = bench.json("doctor", str(program.pid))["process"]
    rows = print_table(process, case)
    program.is_unharmed()
    names = {row["function"] for row in rows}
    harness.check({"malloc", "free", "realloc"} <= names or allocator == "mimalloc",
                  f"{case}: probes on {sorted(names)}")


# ---- cases ----

def check_case(bench, root, case, allocator):
    argv = [build(bench, root, allocator), *known.parts(allocator, "dynamic")]
    check_places(bench, argv, case, allocator)
    known.check_attached(bench, argv, allocator, case)
    known.check_run(bench, argv, allocator, case)


@functools.cache
def roots():
    """{suite: its files, or why they are missing}"""
    found = suites.fetch_all(FOLDER)
    for name, root in found.items():
        if not isinstance(root, suites.Missing):
            print(f"   {name}: " + ", ".join(" ".join(version) for version in suites.versions(FOLDER, name).items()))
    return found


def test_of(name, allocator):
    def placement_test(bench):
        root = roots()[name]
        if isinstance(root, suites.Missing):
            raise harness.Skip(str(root))
        check_case(bench, root, f"{name} {allocator}", allocator)
    return harness.suite.Test(f"{name}_{allocator}", placement_test)


# ---- arm64 ----

def check_arm64(root):
    names = "libc.so.6", "libc.so", *LIBRARY.values()
    command = os.environ["UNIT"], "--filter", "a64_libraries/of_other_suites*"
    environment = os.environ | {"ALLOCSNAP_TEST_ARM64": ":".join(find(root, name) for name in names)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    print("".join(f"   {line}\n" for line in done.stderr.splitlines() if "/lib" in line), end="", flush=True)
    harness.check(not done.returncode and "skipped" not in done.stderr, done.stderr[-2000:])


def test_of_arm64(name):
    def arm64_test(_bench):
        try:
            root = suites.fetch(FOLDER, name, architecture="arm64")
        except suites.Missing as why:
            raise harness.Skip(str(why)) from why
        check_arm64(root)
    return harness.suite.Test(f"{name}_arm64", arm64_test)


if __name__ == "__main__":
    TESTS = [test_of(name, allocator) for name in suites.SUITES for allocator in ALLOCATORS]
    TESTS += [test_of_arm64(name) for name in suites.SUITES]
    sys.exit(harness.suite.main("placement", TESTS, harness.Bench, CASE_SECONDS))
